"""The provider jms passes the shipped suite on real brokers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from connector.brokers.engine.client import BrokerMessagingConnection
from connector.brokers.jms.factory import Factory
from connector.brokers.jms.provider import JmsProvider
from connector.brokers.jms.urls import QPID
from connector.messaging.destination import Destination, parse_destination
from tests.provider_suite.suite import ProviderSuite
from tests.servers.broker import REFUSED
from tests.servers.conftest import Broker


class BrokerSuite(ProviderSuite):
    able = JmsProvider.capabilities
    has_limit = administers = False
    by_value = fetches_ahead = True
    client_class = BrokerMessagingConnection

    @pytest.fixture
    def server(self) -> Broker:
        """The broker."""
        raise NotImplementedError

    @pytest.fixture
    def provider(self, server: Broker, tmp_path: Path) -> JmsProvider:
        server.empty()
        without_login = Factory(QPID, server.url) if server.kind == "artemis" else None
        return server.provider(factory=without_login, state=tmp_path / "state")

    @pytest.fixture
    def unwritable(self) -> Destination:
        return parse_destination(f"queue://{REFUSED}")


_LEFT_OUT: Final = {
    "test_a_queue_and_a_topic_of_one_name_do_not_mix": "an address of these brokers is a queue or a topic",
    "test_an_unknown_destination_cannot_be_browsed": "the brokers here make a queue that a client names",
    "test_the_details_of_a_subscription_count_as_they_are_at_the_commit": (
        "an adapter at a broker refuses another selector, because what waits would be lost"
    ),
    "test_an_object_message_arrives_as_such": "a body of JMS is made from a Java object",
}

_ARTEMIS_LEFT_OUT: Final = {
    "test_a_poller_by_group_takes_what_any_poller_takes": (
        "Artemis gives a group to one consumer as long as a transaction of the consumer is open. Without "
        "JMSXGroupID the test passes"
    ),
}

_FIRST_IN_FIRST_OUT: Final = (
    "a queue of Broker-J is first in, first out, unless it is made as a priority queue"
)
_BROKER_J_LEFT_OUT: Final = {
    **dict.fromkeys(
        (
            "test_a_late_message_of_high_priority_overtakes_within_seconds",
            "test_a_lot_has_the_best_messages_in_the_order_of_taking",
            "test_claims_come_by_priority_then_by_age",
            "test_messages_come_by_priority_then_by_age",
            "test_selected_messages_come_by_priority_then_by_age",
        ),
        _FIRST_IN_FIRST_OUT,
    ),
    "test_a_selector_sees_the_group": "Broker-J finds no JMSXGroupID in a selector",
}


def leave_out(suite: type, names: Iterable[str]) -> None:
    """Takes tests out of a suite that do not hold for a broker, for the reasons above."""
    for name in names:
        assert getattr(suite, name, None) is not None, name
        setattr(suite, name, None)


leave_out(BrokerSuite, _LEFT_OUT)


class TestArtemis(BrokerSuite):
    @pytest.fixture
    def server(self, artemis: Broker) -> Broker:
        return artemis


class TestBrokerJ(BrokerSuite):
    @pytest.fixture
    def server(self, broker_j: Broker) -> Broker:
        return broker_j


leave_out(TestArtemis, _ARTEMIS_LEFT_OUT)
leave_out(TestBrokerJ, _BROKER_J_LEFT_OUT)
