"""Names of topics and subscriptions, right and wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connector.errors import DestinationError, SelectorError, SubscriptionError
from connector.messaging.destination import parse_destination
from connector.messaging.provider import Connection
from connector.messaging.subscription import TopicSubscription
from tests.provider_suite.base import ORDERS, PRICES, SuiteBase, needs
from tests.provider_suite.subscriptions import PASSING, SHARED, UNSHARED, Client

NAMES = ["plain", "a.b", "a.b.", ".a", "a|b", "a~b", "a b", "é💶", "a/b", "..", "%2E", "n" * 200, "é" * 150]
TOPIC_NAMES = ["shop.prices", "a" * 100, "é.ü", "with space", "a-b"]


@needs("topics")
@needs("administers")
class SubscriptionNameTests(SuiteBase):
    def test_a_subscription_may_have_any_name_and_client_id(self, client: Client) -> None:
        connection = client()
        for name in NAMES:
            wanted = TopicSubscription(PRICES, name, name, durable=True)
            connection.poller(wanted).close()
            self.send(connection, PRICES, name)
            assert [info.subscription for info in connection.subscriptions()] == [wanted]
            poller = connection.poller(wanted)
            assert self.rest_soon(connection, poller, 1) == [name]
            poller.close()
            connection.unsubscribe(name, name)
            assert connection.subscriptions() == []

    def test_names_that_look_alike_are_different_subscriptions(self, client: Client) -> None:
        connection = client()
        wanted = [
            TopicSubscription(PRICES, name, client_id, durable=True, shared=True)
            for name, client_id in (
                ("a.b", "c"),
                ("a", "b.c"),
                ("a|b", "c"),
                ("a", "b|c"),
                ("b", "c|a"),
                ("a%2Eb", "c"),
                ("A.b", "c"),
                ("a.b.c", ""),
            )
        ]
        for subscription in wanted:
            connection.poller(subscription).close()
        assert sorted(str(info.subscription) for info in connection.subscriptions()) == sorted(
            map(str, wanted)
        )
        for number, subscription in enumerate(wanted):
            connection.unsubscribe(subscription.name, subscription.client_id)
            assert len(connection.subscriptions()) == len(wanted) - number - 1

    def test_an_invalid_selector_makes_no_subscription(self, client: Client) -> None:
        connection = client()
        for kind in (TopicSubscription(PRICES), UNSHARED, SHARED, PASSING):
            with pytest.raises(SelectorError):
                connection.poller(replace(kind, selector="region = = 1"))
            assert connection.subscriptions() == []

    def test_a_queue_has_no_subscriptions(self, client: Client) -> None:
        connection = client()
        with pytest.raises((DestinationError, SubscriptionError)):
            connection.poller(replace(SHARED, topic=ORDERS))
        assert connection.subscriptions() == []

    def test_a_topic_may_have_any_valid_name(self, connection: Connection) -> None:
        for name in TOPIC_NAMES:
            topic = parse_destination(f"topic://{name}")
            poller = connection.poller(TopicSubscription(topic))
            self.send(connection, topic, name)
            assert self.rest_soon(connection, poller, 1) == [name]
