"""A message to a topic goes to every subscription that exists at that moment, or to none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from connector.errors import CapabilityError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.provider import Capabilities, Connection
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from tests.provider_suite.base import NOTES, ORDERS, PRICES, SuiteBase, needs

RATES = parse_destination("topic://rates")
ALL = TopicSubscription(PRICES)
AUDIT = TopicSubscription(PRICES, "audit", durable=True, shared=True)
BOOKS = TopicSubscription(PRICES, "books", durable=True, shared=True)


class TopicsRefusedTests(SuiteBase):
    """A provider without topics refuses them."""

    def test_topics_are_refused_by_a_provider_without_them(
        self, capabilities: Capabilities, connection: Connection
    ) -> None:
        if capabilities.topics:
            connection.send(PRICES, [self.text("nobody listens")])
            return
        with pytest.raises(CapabilityError):
            connection.send(PRICES, [self.text("1")])
        for source in (PRICES, ALL, AUDIT):
            with pytest.raises(CapabilityError):
                connection.poller(source)


@needs("topics")
class TopicTests(SuiteBase):
    def test_every_subscription_gets_every_message_in_its_order(self, connection: Connection) -> None:
        pollers = [connection.poller(source) for source in (ALL, ALL, AUDIT, BOOKS)]
        self.send(connection, PRICES, "1", "2")
        self.send(connection, PRICES, "3")
        assert [self.rest_soon(connection, poller, 3) for poller in pollers] == [["1", "2", "3"]] * 4

    def test_a_topic_keeps_nothing_for_subscriptions_to_come(self, connection: Connection) -> None:
        assert len(self.send(connection, PRICES, "early")) == 1
        poller = connection.poller(AUDIT)
        self.send(connection, PRICES, "late")
        assert self.rest_soon(connection, poller, 1) == ["late"]

    def test_a_topic_that_nobody_subscribes_to_accepts_and_drops(self, connection: Connection) -> None:
        poller = connection.poller(AUDIT)
        ids = self.send(connection, RATES, "1", "2")
        assert len(set(ids)) == 2
        assert poller.take(1, 0) is None
        assert sum(info.waiting + info.in_progress for info in connection.destinations()) == 0

    def test_topics_do_not_mix_even_where_one_is_named_within_the_other(self, connection: Connection) -> None:
        names = ["mix", "mix.within", "mix.within.deep", "other", "MIX"]
        pollers = {}
        for name in names:
            topic = parse_destination(f"topic://{name}")
            pollers[name] = connection.poller(TopicSubscription(topic, name, durable=True, shared=True))
        for name in names:
            self.send(connection, parse_destination(f"topic://{name}"), f"to {name}")
        for name in names:
            assert self.rest_soon(connection, pollers[name], 1) == [f"to {name}"]

    def test_a_queue_and_a_topic_of_one_name_do_not_mix(self, connection: Connection) -> None:
        topic = parse_destination("topic://orders")
        poller = connection.poller(TopicSubscription(topic))
        self.send(connection, topic, "to the topic")
        self.send(connection, ORDERS, "to the queue")
        assert self.rest_soon(connection, poller, 1) == ["to the topic"]
        assert self.drain(connection, ORDERS) == ["to the queue"]

    def test_headers_properties_and_body_arrive_by_way_of_a_topic(self, connection: Connection) -> None:
        headers = {"correlation_id": "c.1 é", "reply_to": "queue://r", "type": "T", "priority": 7}
        sent = self.message(b"\0\xff", "B", **headers)
        sent.set_property("p.1 é", -5, "short")
        sent.set_property("long", "v" * 500)
        pollers = [connection.poller(source) for source in (ALL, AUDIT)]
        (identity,) = connection.send(PRICES, [sent])
        for number, poller in enumerate(pollers):
            claim = self.take_soon(poller, sequence=number)
            got = self.load(connection, claim)
            assert claim.destination == PRICES
            assert claim.message_id == got.message_id == identity
            assert (got.body, got.message_class, got.delivery_count) == (b"\0\xff", "B", 1)
            assert (got.properties, got.property_types) == (sent.properties, sent.property_types)
            for name in (*headers, "delivery_mode"):
                assert getattr(got, name) == getattr(sent, name), name

    @needs("fetches_ahead", has=False)
    def test_messages_of_a_subscription_come_by_priority_then_by_age(self, connection: Connection) -> None:
        poller = connection.poller(AUDIT)
        for number, priority in enumerate((4, 9, 0, 4, 9)):
            self.send(connection, PRICES, str(number), priority=priority)
        assert self.rest_soon(connection, poller, 5) == ["1", "4", "0", "3", "2"]

    def test_an_expired_message_of_a_subscription_is_counted_and_never_taken(
        self, connection: Connection
    ) -> None:
        poller = connection.poller(AUDIT)
        soon = time.time_ns() // 1_000_000 + 50
        self.send(connection, PRICES, "old", expiration=soon)
        self.send(connection, PRICES, "good")
        self.let_pass(soon)
        assert self.rest_soon(connection, poller, 1) == ["good"]
        assert poller.expired == (1 if self.able.shows_all else 0)

    def test_one_subscription_settles_without_the_others(self, connection: Connection) -> None:
        audit, books = connection.poller(AUDIT), connection.poller(BOOKS)
        self.send(connection, PRICES, "1")
        connection.settle([Settlement(self.take_soon(audit))])
        if self.administers:
            assert self.counts(connection) == {"audit": (0, 0), "books": (1, 0)}
        claim = self.take_soon(books, sequence=1)
        if self.administers:
            assert self.counts(connection) == {"audit": (0, 0), "books": (0, 1)}
        assert self.load(connection, claim).body == b"1"

    def test_a_message_leaves_after_the_last_acknowledgement_of_its_subscriptions(
        self, connection: Connection
    ) -> None:
        pollers = [connection.poller(source) for source in (AUDIT, BOOKS)]
        self.send(connection, PRICES, "1")
        claims = [self.take_soon(poller, sequence=number) for number, poller in enumerate(pollers)]
        references = [claim.reference for claim in claims]
        connection.settle([Settlement(claims[0])])
        assert self.access(connection).load(references[1], 100).body == b"1"
        connection.settle([Settlement(claims[1])])
        for reference in references if not self.by_value else ():
            with pytest.raises(LookupError):
                self.access(connection).load(reference, 100)
        if self.administers:
            assert self.counts(connection) == {"audit": (0, 0), "books": (0, 0)}

    def test_what_is_given_back_goes_to_its_own_subscription_counted(self, connection: Connection) -> None:
        audit, books = connection.poller(AUDIT), connection.poller(BOOKS)
        self.send(connection, PRICES, "1")
        for count in range(3):
            claim = self.take_soon(audit, sequence=count)
            assert claim.delivery_count == self.count_after_return(count)
            connection.settle([Settlement(claim, give_back=True, delivery_count=count + 1)])
        assert self.take_soon(books, sequence=9).delivery_count == 0
        got = self.load(connection, self.take_soon(audit, sequence=10))
        assert (got.delivery_count, got.redelivered) == (4, True)

    def test_a_selector_keeps_other_messages_out_of_its_subscription(self, connection: Connection) -> None:
        eu = TopicSubscription(PRICES, "eu", durable=True, shared=True, selector="region = 'EU'")
        poller, everything = connection.poller(eu), connection.poller(AUDIT)
        for number, region in enumerate(("EU", "US", "EU", None)):
            message = self.text(str(number))
            if region:
                message.set_property("region", region)
            connection.send(PRICES, [message])
        assert self.rest_soon(connection, poller, 2) == ["0", "2"]
        assert self.rest_soon(connection, everything, 4) == ["0", "1", "2", "3"]

    def test_a_batch_is_there_for_all_subscriptions_or_for_none(self, connection: Connection) -> None:
        pollers = [connection.poller(source) for source in (AUDIT, BOOKS)]

        def broken() -> Iterator[Message]:
            yield self.text("first")
            raise RuntimeError("the source of the messages broke")

        with pytest.raises(RuntimeError):
            connection.send(PRICES, broken())
        assert [poller.take(1, 0) for poller in pollers] == [None, None]
        self.send(connection, PRICES, "1", "2")
        assert [self.rest_soon(connection, poller, 2) for poller in pollers] == [["1", "2"]] * 2

    def test_a_prepared_message_reaches_every_subscription_at_the_commit(
        self, connection: Connection
    ) -> None:
        pollers = [connection.poller(source) for source in (ALL, AUDIT)]
        self.send(connection, ORDERS, "order")
        claim = self.take(connection.poller(ORDERS))
        access = self.access(connection)
        sent = access.prepare(PRICES, self.text("price"), "key-1")
        dropped = access.prepare(PRICES, self.text("dropped"), "key-2")
        access.sync()
        assert [poller.take(1, 1) for poller in pollers] == [None, None]
        connection.settle([Settlement(claim, sends=[sent], discards=[dropped])])
        assert [self.rest_soon(connection, poller, 1) for poller in pollers] == [["price"]] * 2
        assert self.bodies(connection, ORDERS) == []

    def test_what_was_prepared_is_for_the_subscriptions_that_there_are_at_the_commit(
        self, connection: Connection
    ) -> None:
        """Subscriptions may be made and removed after the message was prepared."""
        connection.poller(AUDIT).close()
        staying = connection.poller(BOOKS)
        access = self.access(connection)
        sent = access.prepare(PRICES, self.text("price"), "key-1")
        access.sync()
        connection.unsubscribe("audit")
        made = connection.poller(ALL)
        connection.settle([], [sent])
        assert [self.rest_soon(connection, poller, 1) for poller in (staying, made)] == [["price"]] * 2
        assert "audit" not in self.counts(connection)
        assert self.rest(connection, connection.poller(AUDIT)) == []

    def test_what_was_prepared_for_subscriptions_that_are_all_gone_is_accepted_and_dropped(
        self, connection: Connection
    ) -> None:
        connection.poller(AUDIT).close()
        access = self.access(connection)
        sent = access.prepare(PRICES, self.text("price"), "key-1")
        noted = access.prepare(NOTES, self.text("note"), "key-2")
        access.sync()
        connection.unsubscribe("audit")
        connection.settle([], [sent, noted])
        assert self.bodies(connection, NOTES) == ["note"]
        assert self.rest(connection, connection.poller(AUDIT)) == []

    def test_the_details_of_a_subscription_count_as_they_are_at_the_commit(
        self, connection: Connection
    ) -> None:
        connection.poller(AUDIT).close()
        access = self.access(connection)
        sent = [access.prepare(PRICES, self.text(str(n), priority=n), f"key-{n}") for n in (1, 7)]
        access.sync()
        urgent = TopicSubscription(PRICES, "audit", durable=True, shared=True, selector="JMSPriority > 4")
        poller = connection.poller(urgent)
        connection.settle([], sent)
        assert self.rest_soon(connection, poller, 1) == ["7"]

    def test_one_commit_takes_from_a_subscription_and_sends_to_a_queue_and_a_topic(
        self, connection: Connection
    ) -> None:
        source, relayed = connection.poller(AUDIT), connection.poller(TopicSubscription(RATES))
        self.send(connection, PRICES, "in")
        claim = self.take_soon(source)
        access = self.access(connection)
        sends = [
            access.prepare(RATES, self.text("on"), "key-1"),
            access.prepare(NOTES, self.text("note"), "key-2"),
        ]
        access.sync()
        connection.settle([Settlement(claim, sends=sends)])
        assert self.rest_soon(connection, relayed, 1) == ["on"]
        assert self.bodies(connection, NOTES) == ["note"]
        if self.administers:
            assert self.counts(connection)["audit"] == (0, 0)

    def test_senders_that_compete_reach_every_subscription_with_every_message(
        self, connection: Connection, client: Callable[..., Connection]
    ) -> None:
        pollers = [connection.poller(source) for source in (AUDIT, BOOKS)]

        def send(sender: Connection, name: str) -> None:
            for number in range(25):
                self.send(sender, PRICES, f"{name}{number}")

        threads = [threading.Thread(target=send, args=(client(), name)) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expected = sorted(f"{name}{number}" for name in "abc" for number in range(25))
        for poller in pollers:
            found = self.rest_soon(connection, poller, 75)
            assert sorted(found) == expected
            for name in "abc":  # the order of each sender is kept (JBoss Messaging Core, 9.1)
                own = [body for body in found if body.startswith(name)]
                assert own == [f"{name}{number}" for number in range(25)]

    @needs("administers")
    def test_topics_and_their_subscriptions_are_listed(self, connection: Connection) -> None:
        poller = connection.poller(AUDIT)
        connection.poller(ALL)
        self.send(connection, PRICES, "1", "2", "3")
        self.take_soon(poller)
        (topic,) = [info for info in connection.destinations() if not info.destination.is_queue]
        assert topic.destination == PRICES
        (info,) = [info for info in connection.subscriptions() if info.subscription.name == "audit"]
        assert info.subscription == AUDIT
        assert (info.consumers, info.waiting, info.in_progress) == (1, 2, 1)
        assert info in topic.subscriptions

    @needs("administers")
    def test_subscriptions_are_listed_by_topic_name_and_client_id(self, connection: Connection) -> None:
        keys = [
            (RATES, "A", ""),
            (PRICES, "é", ""),
            (PRICES, "b", "c"),
            (PRICES, "b", ""),
            (PRICES, "a.b", ""),
            (PRICES, "B", ""),
            (PRICES, "a", "é"),
            (PRICES, "a", "z"),
        ]
        for topic, name, client_id in keys:
            connection.poller(TopicSubscription(topic, name, client_id, durable=True, shared=True))
        listed = [info.subscription for info in connection.subscriptions()]
        assert [(one.topic, one.name, one.client_id) for one in listed] == sorted(keys)
        of_topics = [info.subscription for topic in connection.destinations() for info in topic.subscriptions]
        assert of_topics == listed

    @staticmethod
    def counts(connection: Connection) -> dict[str, tuple[int, int]]:
        """Returns the numbers of waiting and claimed messages by name of the subscription."""
        return {
            info.subscription.name: (info.waiting, info.in_progress)
            for info in connection.subscriptions()
            if info.subscription.name
        }
