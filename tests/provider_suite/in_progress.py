"""Taking a message moves it to an in-progress destination."""

from __future__ import annotations

import pytest

from connector.errors import CapabilityError
from connector.messaging.destination import parse_destination
from connector.messaging.provider import Capabilities, Connection
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from tests.provider_suite.base import (
    ARCHIVE,
    IN_PROGRESS,
    ORDERS,
    PRICES,
    Connect,
    SuiteBase,
    needs,
)


class InProgressRefusedTests(SuiteBase):
    """A provider without in-progress destinations refuses them."""

    def test_in_progress_destinations_are_refused_by_a_provider_without_them(
        self, capabilities: Capabilities, connection: Connection
    ) -> None:
        self.send(connection, ORDERS, "1")
        if capabilities.in_progress:
            assert connection.poller(ORDERS, IN_PROGRESS).take(1, 0) is not None
            return
        with pytest.raises(CapabilityError, match=IN_PROGRESS.name):
            connection.poller(ORDERS, IN_PROGRESS)
        assert connection.find_unowned(IN_PROGRESS) == []
        assert self.bodies(connection, ORDERS) == ["1"]


@needs("in_progress")
class InProgressTests(SuiteBase):
    def test_taking_into_an_in_progress_destination_is_the_move_there(self, connection: Connection) -> None:
        message = self.text("body", type="T1")
        message.set_property("p", "v")
        (identity,) = connection.send(ORDERS, [message])
        claim = self.take(connection.poller(ORDERS, IN_PROGRESS))
        assert claim.destination == ORDERS
        assert claim.in_progress
        assert self.bodies(connection, ORDERS) == []
        (seen,) = connection.browse(IN_PROGRESS)
        assert seen.message_id == claim.message_id == identity
        got = self.load(connection, claim)
        assert (got.body, got.type, got.properties) == (b"body", "T1", {"p": "v"})

    def test_messages_move_in_progress_from_one_whole_queue_to_another_only(
        self, connection: Connection
    ) -> None:
        connection.send(ORDERS, [self.text("body")])
        for source, in_progress in (
            ("orders", "topic://prices"),
            ("orders", "in-progress~EXPIRED"),
            ("orders", "in-progress~PROCESSING"),
            ("orders~EXPIRED", "in-progress"),
            ("orders", "orders"),
        ):
            with pytest.raises(CapabilityError, match=in_progress):
                connection.poller(parse_destination(source), parse_destination(in_progress))
        if self.able.topics:
            for wanted in (PRICES, TopicSubscription(PRICES, "all", durable=True, shared=True)):
                with pytest.raises(CapabilityError):
                    connection.poller(wanted, IN_PROGRESS)
            with pytest.raises(CapabilityError, match=str(PRICES)):
                connection.poller(PRICES)
            assert connection.subscriptions() == []
        assert self.bodies(connection, ORDERS) == ["body"]
        if self.able.shows_all:
            assert connection.names() == [ORDERS]

    def test_a_message_in_progress_settles_like_any_other(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text(str(n)) for n in range(3)])
        poller = connection.poller(ORDERS, IN_PROGRESS)
        claims = [self.take(poller, sequence=n) for n in range(3)]
        connection.settle(
            [
                Settlement(claims[0], copy_to=ARCHIVE, properties={"connector_outcome": "published"}),
                Settlement(claims[1]),
                Settlement(claims[2], give_back=True, delivery_count=1),
            ]
        )
        assert self.bodies(connection, IN_PROGRESS) == []
        (copy,) = connection.browse(ARCHIVE)
        assert (copy.body, copy.properties) == (b"0", {"connector_outcome": "published"})
        again = self.take_soon(poller, sequence=3)
        got = self.load(connection, again)
        assert (again.delivery_count, got.body, got.properties) == (1, b"2", {})

    def test_headers_of_any_length_survive_an_in_progress_destination(self, connection: Connection) -> None:
        message = self.text("body", type="t" * 500)
        message.set_property("p", "v" * 500)
        connection.send(ORDERS, [message])
        poller = connection.poller(ORDERS, IN_PROGRESS)
        for count in range(3):
            claim = self.take_soon(poller, sequence=count)
            got = self.load(connection, claim)
            assert (got.type, got.properties, got.delivery_count) == (
                message.type,
                message.properties,
                count + 1,
            )
            connection.settle([Settlement(claim, give_back=True, delivery_count=count + 1)])
        self.release_fetched(poller)
        (seen,) = connection.browse(ORDERS)
        assert (seen.type, seen.properties) == (message.type, message.properties)

    def test_a_dead_clients_message_in_progress_is_adopted_as_one_more_delivery(
        self, connect: Connect
    ) -> None:
        first, second = connect(), connect()
        first.send(ORDERS, [self.text("body", type="T1")])
        self.take(first.poller(ORDERS, IN_PROGRESS), cycle=1, sequence=0)
        first.abandon()
        (leftover,) = second.leftovers(IN_PROGRESS, at_start=True)
        (claim,) = leftover.claims
        assert claim.destination == ORDERS
        assert claim.in_progress
        adopted = second.adopt(claim, 7, 9)
        assert adopted is not None
        leftover.forget()
        assert (adopted.cycle, adopted.sequence, adopted.destination) == (7, 9, ORDERS)
        assert (adopted.delivery_count, adopted.message_id) == (1, claim.message_id)
        got = self.load(second, adopted)
        assert (got.body, got.type, got.delivery_count) == (b"body", "T1", 2)
        assert second.adopt(claim, 7, 10) is None
        second.settle([Settlement(adopted, copy_to=ARCHIVE)])
        assert self.bodies(second, ARCHIVE) == ["body"]
        assert self.bodies(second, IN_PROGRESS) == []

    def test_a_message_in_progress_is_adopted_when_its_client_is_forgotten(self, connect: Connect) -> None:
        first, second = connect(), connect()
        first.send(ORDERS, [self.text("body")])
        self.take(first.poller(ORDERS, IN_PROGRESS), cycle=1, sequence=0)
        first.abandon()
        (leftover,) = second.leftovers(IN_PROGRESS, at_start=False)
        leftover.forget()
        adopted = second.adopt(leftover.claims[0], 7, 9)
        assert adopted is not None
        assert (adopted.destination, adopted.delivery_count) == (ORDERS, 1)

    def test_a_message_that_waits_in_progress_has_no_owner_and_is_adopted_by_one_uncounted(
        self, connect: Connect
    ) -> None:
        first, second = connect(), connect()
        first.send(ORDERS, [self.text("body", type="t" * 300)])
        claim = self.take(first.poller(ORDERS, IN_PROGRESS))
        assert not claim.waits
        first.settle([Settlement(claim, give_back=True, stay=True, properties={"connector_delivered": "a"})])
        assert self.bodies(first, ORDERS) == []
        first.close()
        assert list(second.leftovers(IN_PROGRESS, at_start=True)) == []
        (seen,) = second.browse(IN_PROGRESS)
        assert (seen.body, seen.delivery_count) == (b"body", 1)
        assert seen.properties["connector_delivered"] == "a"
        ((waiting,), (late,)) = (second.find_unowned(IN_PROGRESS) for _ in range(2))
        assert waiting.waits
        assert (waiting.destination, waiting.delivery_count) == (ORDERS, 0)
        adopted = second.adopt(waiting, 7, 9)
        assert adopted is not None
        assert second.adopt(late, 7, 10) is None
        assert second.find_unowned(IN_PROGRESS) == []
        assert not adopted.waits
        assert (adopted.delivery_count, adopted.in_progress) == (0, True)
        got = self.load(second, adopted)
        assert (got.type, got.delivery_count, got.properties) == ("t" * 300, 1, {"connector_delivered": "a"})
        second.settle([Settlement(adopted, give_back=True)])
        assert self.bodies(second, ORDERS) == ["body"]
        assert self.bodies(second, IN_PROGRESS) == []

    def test_only_what_is_given_back_stays_in_progress(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "1", "2")
        poller = connection.poller(ORDERS, IN_PROGRESS)
        claims = [self.take(poller, sequence=number) for number in range(2)]
        connection.settle([Settlement(claims[0], stay=True), Settlement(claims[1], ARCHIVE, stay=True)])
        assert self.bodies(connection, IN_PROGRESS) == self.bodies(connection, ORDERS) == []
        assert self.bodies(connection, ARCHIVE) == ["2"]

    def test_a_message_that_is_left_in_progress_is_counted_and_does_not_wait(self, connect: Connect) -> None:
        first, second = connect(), connect()
        first.send(ORDERS, [self.text("body")])
        claim = self.take(first.poller(ORDERS, IN_PROGRESS))
        first.settle([Settlement(claim, give_back=True, stay=True)])
        (waiting,) = first.find_unowned(IN_PROGRESS)
        assert first.adopt(waiting, 2, 0) is not None
        first.abandon()
        (leftover,) = second.leftovers(IN_PROGRESS, at_start=True)
        (claim,) = leftover.claims
        assert not claim.waits
        second.leave_unowned(claim)
        leftover.forget()
        (left,) = second.find_unowned(IN_PROGRESS)
        assert (left.waits, left.delivery_count, left.destination) == (False, 1, ORDERS)
        adopted = second.adopt(left, 3, 0)
        assert adopted is not None
        assert self.load(second, adopted).delivery_count == 2

    def test_a_message_that_is_left_again_counts_once(self, connect: Connect) -> None:
        first, second = connect(), connect()
        first.send(ORDERS, [self.text("body")])
        claim = self.take(first.poller(ORDERS, IN_PROGRESS))
        for _ in range(2):
            second.leave_unowned(claim)
            (claim,) = second.find_unowned(IN_PROGRESS)
            assert (claim.waits, claim.delivery_count) == (False, 1)
        adopted = second.adopt(claim, 2, 0)
        assert adopted is not None
        second.settle([Settlement(adopted)])
        second.leave_unowned(claim)
        assert self.bodies(second, IN_PROGRESS) == []

    def test_a_message_in_progress_that_nobody_took_has_no_owner(self, connect: Connect) -> None:
        first, second = connect(), connect()
        first.send(ORDERS, [self.text("owned")])
        self.take(first.poller(ORDERS, IN_PROGRESS))
        first.send(IN_PROGRESS, [self.text("from before")])
        (claim,) = second.find_unowned(IN_PROGRESS)
        assert claim.in_progress
        assert self.load(second, claim).body == b"from before"

    def test_a_message_that_came_from_no_queue_is_of_the_in_progress_destination(
        self, connection: Connection
    ) -> None:
        for cycle, origin in enumerate((None, "topic://prices", "orders~EXPIRED", "no/destination")):
            message = self.text("from before")
            if origin is not None:
                message.set_property("connector_origin_destination", origin)
            connection.send(IN_PROGRESS, [message])
            (claim,) = connection.find_unowned(IN_PROGRESS)
            assert claim.destination == IN_PROGRESS, origin
            adopted = connection.adopt(claim, 2 * cycle, 0)
            assert adopted is not None
            assert (adopted.in_progress, adopted.waits, adopted.destination) == (True, False, IN_PROGRESS)
            connection.settle([Settlement(adopted, give_back=True, delivery_count=1)])
            assert self.bodies(connection, IN_PROGRESS) == ["from before"]
            if origin != "no/destination":
                (claim,) = connection.find_unowned(IN_PROGRESS)
                adopted = connection.adopt(claim, 2 * cycle + 1, 0)
                assert adopted is not None
                connection.settle([Settlement(adopted)])
        if self.able.shows_all:
            assert connection.names() == [IN_PROGRESS]

    def test_a_message_that_says_its_queue_goes_back_there(self, connection: Connection) -> None:
        message = self.text("from before")
        message.set_property("connector_origin_destination", str(ORDERS))
        connection.send(IN_PROGRESS, [message])
        (claim,) = connection.find_unowned(IN_PROGRESS)
        adopted = connection.adopt(claim, 0, 0)
        assert adopted is not None
        connection.settle([Settlement(adopted, give_back=True, delivery_count=1)])
        assert self.bodies(connection, IN_PROGRESS) == []
        assert self.take(connection.poller(ORDERS)).delivery_count == 1

    @needs("takeover")
    def test_a_claim_that_stays_with_its_queue_is_not_in_progress_whoever_asks(
        self, connect: Connect
    ) -> None:
        """Also if the name of the in-progress destination begins with the name of the queue."""
        first, second = connect(), connect()
        first.send(IN_PROGRESS, [self.text("body")])
        assert not self.take(first.poller(IN_PROGRESS)).in_progress
        first.abandon()
        (leftover,) = second.leftovers(IN_PROGRESS, at_start=True)
        assert [claim.in_progress for claim in leftover.claims] == [False]
        leftover.release()
