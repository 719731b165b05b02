"""A provider over a broker passes the shipped suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from connector.brokers.engine.client import BrokerMessagingConnection
from connector.messaging.destination import Destination, parse_destination
from tests.brokers.engine.provider import LentProvider, ProviderForRequests
from tests.provider_suite.delaying import DelayingTests
from tests.provider_suite.suite import ProviderSuite


class TestLent(ProviderSuite):
    able = LentProvider.capabilities
    has_limit = False
    by_value = True
    client_class = BrokerMessagingConnection

    @pytest.fixture
    def provider(self, root: Path) -> LentProvider:
        return LentProvider(root / "state")

    @pytest.fixture
    def unwritable(self, provider: LentProvider) -> Destination:
        provider.broker.refused.add("blocked")
        return parse_destination("queue://blocked")


class TestDelays(DelayingTests):
    able = ProviderForRequests.capabilities
    by_value = True
    client_class = BrokerMessagingConnection

    @pytest.fixture
    def provider(self, root: Path) -> ProviderForRequests:
        return ProviderForRequests(root / "state")
