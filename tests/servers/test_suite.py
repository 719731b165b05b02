"""The provider jms passes the shipped suite on real brokers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.messaging.destination import Destination, parse_destination
from connector.providers.jms.client import Factory
from connector.providers.jms.provider import JavaSettings, JmsProvider
from connector.providers.jms.urls import QPID, with_options
from connector.testing.provider import ProviderSuite
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
    def provider(self, server: Broker, tmp_path: Path) -> Iterator[JmsProvider]:
        server.empty()
        url = with_options(QPID, f"amqp://127.0.0.1:{server.port}", 10)
        login = (USER, PASSWORD) if server.kind == "broker_j" else (None, None)
        java = JavaSettings((), resolved("client", CLIENT), ("-Xmx256m",))
        yield JmsProvider(Factory(QPID, url, *login), java, tmp_path / "state")

    @pytest.fixture
    def unwritable(self) -> Destination:
        return parse_destination(f"queue://{REFUSED}")


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
