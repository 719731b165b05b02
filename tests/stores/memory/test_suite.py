"""The memory provider passes the shipped suite. ``tests/stores/test_model.py`` tries its settings."""

from __future__ import annotations

import pytest

from connector.messaging.destination import Destination, parse_destination
from connector.stores.memory.provider import MemoryProvider
from tests.provider_suite.suite import ProviderSuite


class TestMemory(ProviderSuite):
    able = MemoryProvider.capabilities

    @pytest.fixture
    def provider(self) -> MemoryProvider:
        return MemoryProvider()

    @pytest.fixture
    def unwritable(self, provider: MemoryProvider) -> Destination:
        destination = parse_destination("queue://blocked")
        provider.refuse(destination)
        return destination

    @pytest.fixture
    def limited(self) -> MemoryProvider:
        return MemoryProvider(accept_persistent=True, redelivery_limit=2)
