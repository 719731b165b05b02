"""The provider jms passes the shipped suite on real brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from connector.messaging.destination import Destination, parse_destination
from connector.providers.jms.client import Factory
from connector.providers.jms.provider import JavaSettings, JmsProvider
from connector.providers.jms.urls import QPID, for_browsers, with_options
from connector.testing.provider import ProviderSuite
from connector.testing.provider_suite.subscription_names import SubscriptionNameTests
from connector.testing.provider_suite.subscription_rules import SubscriptionRuleTests
from connector.testing.provider_suite.subscriptions import SubscriptionTests
from connector.testing.provider_suite.temporary import TemporaryTests
from tests.servers.broker import PASSWORD, REFUSED, USER
from tests.servers.conftest import CLIENT, Broker, resolved


class BrokerSuite(ProviderSuite):
    able = JmsProvider.capabilities
    has_limit = False

    @pytest.fixture
    def server(self) -> Broker:
        """The broker."""
        raise NotImplementedError

    @pytest.fixture
    def provider(self, server: Broker, tmp_path: Path) -> JmsProvider:
        server.empty()
        plain = f"amqp://127.0.0.1:{server.port}"
        url = with_options(QPID, plain, 10)
        login = (USER, PASSWORD) if server.kind == "broker_j" else (None, None)
        java = JavaSettings((), resolved("client", CLIENT), ("-Xmx256m",))
        return JmsProvider(
            Factory(QPID, url, *login, browsing_url=for_browsers(QPID, plain)), java, tmp_path / "state"
        )

    @pytest.fixture
    def unwritable(self) -> Destination:
        return parse_destination(f"queue://{REFUSED}")


_LOCAL: Final = (SubscriptionTests, SubscriptionRuleTests, SubscriptionNameTests, TemporaryTests)
"""A connection of these tests uses subscriptions of several client ids, and ends temporary destinations
before itself. Neither fits JMS: test_messages.py has the tests of a broker."""
for _name in {name for one in _LOCAL for name in vars(one) if name.startswith("test_")}:
    setattr(BrokerSuite, _name, None)


class TestArtemis(BrokerSuite):
    able = JmsProvider.capabilities

    @pytest.fixture
    def server(self, artemis: Broker) -> Broker:
        return artemis


class TestBrokerJ(BrokerSuite):
    able = JmsProvider.capabilities

    @pytest.fixture
    def server(self, broker_j: Broker) -> Broker:
        return broker_j
