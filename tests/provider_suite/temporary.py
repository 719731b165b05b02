"""Temporary destinations: every client may send to a temporary destination.

Only its own connection consumes it, and it ends with that connection.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from connector.errors import (
    CapabilityError,
    ClaimLost,
    DestinationError,
    ProviderError,
    SubscriptionError,
    UnknownDestination,
)
from connector.messaging.destination import parse_destination
from connector.messaging.provider import Capabilities, Connection
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from tests.provider_suite.base import ARCHIVE, ORDERS, Connect, SuiteBase, needs


class TemporaryRefusedTests(SuiteBase):
    """A provider without temporary destinations refuses them."""

    @pytest.mark.parametrize("kind", ["queue", "topic"])
    def test_temporary_destinations_are_refused_by_a_provider_without_them(
        self, capabilities: Capabilities, connection: Connection, kind: str
    ) -> None:
        able = capabilities.temporary_destinations and (kind == "queue" or capabilities.topics)
        if able:
            assert connection.temporary(kind).kind == kind
            return
        with pytest.raises(CapabilityError):
            connection.temporary(kind)


@needs("temporary_destinations")
@needs("administers")
class TemporaryTests(SuiteBase):
    def test_anybody_may_send_to_a_temporary_queue_and_its_own_connection_takes(
        self, connect: Connect
    ) -> None:
        own, other = connect(), connect()
        queue = own.temporary("queue")
        poller = own.poller(queue)
        self.send(other, queue, "1", "2")
        self.send(own, queue, "3")
        assert self.rest_soon(own, poller, 3) == ["1", "2", "3"]

    def test_a_temporary_queue_is_found_by_its_name_in_a_header(self, connect: Connect) -> None:
        """Replies need this."""
        own, other = connect(), connect()
        queue = own.temporary("queue")
        own.send(ORDERS, [self.text("request", reply_to=str(queue))])
        request = self.load(other, self.take(other.poller(ORDERS)))
        self.send(other, parse_destination(request.reply_to or ""), "reply")
        assert self.rest_soon(own, own.poller(queue), 1) == ["reply"]

    def test_nobody_else_consumes_a_temporary_queue(self, connect: Connect) -> None:
        own, other = connect(), connect()
        queue = own.temporary("queue")
        with pytest.raises(DestinationError, match=queue.name):
            other.poller(queue)

    def test_temporary_destinations_have_names_of_their_own(self, connect: Connect) -> None:
        connections = [connect(), connect()] * 3
        assert len({connection.temporary("queue") for connection in connections}) == 6

    def test_what_ended_takes_nothing_and_is_not_made_anew(self, connect: Connect) -> None:
        own, other = connect(), connect()
        deleted, closed = own.temporary("queue"), own.temporary("queue")
        self.send(other, deleted, "lost")
        own.delete_temporary(deleted)
        with pytest.raises(UnknownDestination, match=deleted.name):
            self.send(other, deleted, "late")
        own.close()
        with pytest.raises(UnknownDestination, match=closed.name):
            self.send(other, closed, "late")
        for queue in (deleted, closed):
            with pytest.raises(UnknownDestination):
                self.bodies(other, queue)
        assert other.destinations() == []

    def test_only_its_own_connection_ends_a_temporary_destination(self, connect: Connect) -> None:
        own, other = connect(), connect()
        queue = own.temporary("queue")
        self.send(own, ORDERS, "1")
        for connection, destination in ((other, queue), (own, ORDERS)):
            with pytest.raises(DestinationError, match=destination.name):
                connection.delete_temporary(destination)
        self.send(other, queue, "1")
        assert self.rest_soon(own, own.poller(queue), 1) == ["1"]

    def test_a_temporary_destination_is_ended_once(self, connection: Connection) -> None:
        queue = connection.temporary("queue")
        connection.delete_temporary(queue)
        with pytest.raises(DestinationError, match=queue.name):
            connection.delete_temporary(queue)

    def test_the_claimed_messages_of_a_temporary_queue_end_with_it(self, connection: Connection) -> None:
        queue = connection.temporary("queue")
        self.send(connection, queue, "1", "2")
        poller = connection.poller(queue)
        claims = [self.take(poller, sequence=number) for number in range(2)]
        poller.close()
        connection.delete_temporary(queue)
        with pytest.raises(LookupError):
            self.load(connection, claims[0])
        for settlement in (
            Settlement(claims[0]),
            Settlement(claims[0], give_back=True),
            Settlement(claims[0], copy_to=ARCHIVE),
        ):
            with pytest.raises(ClaimLost):
                connection.settle([settlement])
        assert self.visible(connection, ARCHIVE) == []

    @pytest.mark.parametrize("kind", ["queue", "topic"])
    def test_a_poller_of_a_temporary_destination_that_has_ended_says_so(
        self, connect: Connect, kind: str
    ) -> None:
        if kind == "topic" and not self.able.topics:
            pytest.skip("the provider has no topics, and says so")
        own, same = connect(origin="o"), connect(origin="o")
        destination = own.temporary(kind)
        poller = same.poller(destination if destination.is_queue else TopicSubscription(destination))
        self.send(own, destination, "1")
        own.close()
        for _ in range(2):
            with pytest.raises(ProviderError, match=destination.name):
                poller.take(1, 0)
        poller.close()

    @pytest.mark.parametrize("kind", ["queue", "topic"])
    def test_a_temporary_destination_with_a_consumer_is_not_ended(self, connect: Connect, kind: str) -> None:
        """The consumer may belong to any connection (JMS 2.0, TemporaryQueue.delete)."""
        if kind == "topic" and not self.able.topics:
            pytest.skip("the provider has no topics, and says so")
        own, same, other = connect(origin="o"), connect(origin="o"), connect()
        destination = own.temporary(kind)
        for consuming in (own, same):
            source = destination if destination.is_queue else TopicSubscription(destination)
            poller = consuming.poller(source)
            with pytest.raises(SubscriptionError, match=f"{destination.name} has .*consumer"):
                own.delete_temporary(destination)
            self.send(other, destination, "1")
            assert self.rest_soon(consuming, poller, 1) == ["1"]
            poller.close()
        same.poller(source)
        same.abandon()
        own.delete_temporary(destination)
        with pytest.raises(UnknownDestination, match=destination.name):
            self.send(other, destination, "late")

    @needs("virtual_destinations")
    def test_nobody_else_consumes_a_part_of_a_temporary_queue(self, connect: Connect) -> None:
        own, other = connect(), connect()
        queue = own.temporary("queue")
        part = parse_destination(f"{queue}~EXPIRED")
        with pytest.raises(DestinationError, match=queue.name):
            other.poller(part)
        poller = own.poller(part)
        with pytest.raises(SubscriptionError, match=queue.name):
            own.delete_temporary(queue)
        poller.close()
        own.delete_temporary(queue)

    def test_nobody_uses_a_temporary_destination_of_the_dead(self, connect: Connect) -> None:
        own, same, other = connect(origin="o"), connect(origin="o"), connect()
        queue = own.temporary("queue")
        own.abandon()
        access = self.access(other)
        calls: list[Callable[[], object]] = [
            lambda: self.send(other, queue, "late"),
            lambda: access.prepare(queue, self.text("late"), "late"),
            lambda: same.poller(queue),
            lambda: other.poller(queue),
        ]
        for call in calls:
            with pytest.raises(UnknownDestination, match=queue.name):
                call()

    def test_the_temporary_destinations_of_the_dead_end(self, connect: Connect) -> None:
        own, other = connect(""), connect("")
        queue = own.temporary("queue")
        self.send(own, queue, "1")
        own.abandon()
        self.end_all(other.leftovers(None, at_start=True), expected=1)
        with pytest.raises(UnknownDestination, match=queue.name):
            self.send(other, queue, "late")
        assert other.destinations() == []

    def test_what_is_prepared_for_a_temporary_queue_that_ends_goes_with_it_and_keeps_nobody(
        self, connect: Connect
    ) -> None:
        own, other = connect(), connect()
        self.send(other, ORDERS, "1")
        claim = self.take(other.poller(ORDERS))
        queues = [own.temporary("queue") for _ in range(2)]
        access = self.access(other)
        replies = [access.prepare(queue, self.text("reply"), str(queue)) for queue in queues]
        own.delete_temporary(queues[0])
        access.sync()
        own.delete_temporary(queues[1])
        other.settle([Settlement(claim, copy_to=ARCHIVE, sends=replies)])
        assert self.bodies(other, ARCHIVE) == ["1"]
        assert self.visible(other, ORDERS) == []
        assert own.destinations() == other.destinations()
        with pytest.raises(UnknownDestination, match=queues[0].name):
            access.prepare(queues[0], self.text("late"), "late")

    @needs("topics")
    def test_a_temporary_topic_reaches_the_consumers_of_its_connection(self, connect: Connect) -> None:
        own, other = connect(), connect()
        topic = own.temporary("topic")
        pollers = [own.poller(TopicSubscription(topic)) for _ in range(2)]
        self.send(other, topic, "1")
        assert [self.rest_soon(own, poller, 1) for poller in pollers] == [["1"], ["1"]]
        with pytest.raises(DestinationError, match=topic.name):
            other.poller(TopicSubscription(topic))

    def test_temporary_destinations_are_listed_for_their_own_connection_only(self, connect: Connect) -> None:
        own, other = connect(), connect()
        queue = own.temporary("queue")
        self.send(other, queue, "1")
        assert [(info.destination, info.waiting) for info in own.destinations()] == [(queue, 1)]
        assert other.destinations() == []
