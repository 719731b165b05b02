"""A delayed message waits for its time. Then it has the place that it would have without the delay."""

from __future__ import annotations

import time

import pytest

from connector.messaging.client import AcknowledgeMode
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.polling import Poller
from connector.messaging.provider import Connection, Provider
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from tests.provider_suite.base import (
    ARCHIVE,
    IN_PROGRESS,
    NOTES,
    ORDERS,
    PRICES,
    SOON,
    Connect,
    SuiteBase,
    look_again,
    needs,
)

_LATER = 3_600_000
"""Milliseconds until no test runs any more."""


def _in(milliseconds: int) -> int:
    """Returns a time from now, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000 + milliseconds


@needs("delays")
class DelayingTests(SuiteBase):
    def delayed(self, connection: Connection, destination: Destination) -> list[Message]:
        """Returns the delayed messages of a queue."""
        return list(connection.browse(destination, delayed=True))

    def assert_waits(self, connection: Connection, poller: Poller, *bodies: str) -> None:
        """Checks that the queue ``orders`` has only delayed messages, and that nobody gets them."""
        assert poller.take(9, 0) is None
        assert self.bodies(connection, ORDERS) == []
        if not self.able.shows_all:
            return
        assert sorted(one.body.decode() for one in self.delayed(connection, ORDERS)) == sorted(bodies)
        (info,) = (one for one in connection.destinations() if one.destination == ORDERS)
        assert (info.waiting, info.in_progress, info.delayed) == (0, 0, len(bodies))

    # -- sent --------------------------------------------------------------------------------------

    @pytest.mark.parametrize("bodies", [["one"], ["one", "two"]])
    def test_a_delayed_message_waits(self, connection: Connection, bodies: list[str]) -> None:
        due = _in(_LATER)
        ids = self.send(connection, ORDERS, *bodies, delivery_time=due)
        self.assert_waits(connection, connection.poller(ORDERS), *bodies)
        if not self.able.shows_all:
            return
        seen = self.delayed(connection, ORDERS)
        assert {one.message_id for one in seen} == set(ids)
        assert {one.delivery_time for one in seen} == {due}

    def test_a_message_comes_when_it_is_due(self, connection: Connection) -> None:
        due = _in(SOON)
        (sent,) = self.send(connection, ORDERS, "body", delivery_time=due)
        claim = self.take_soon(connection.poller(ORDERS))
        assert _in(0) >= due
        found = self.load(connection, claim)
        assert (found.message_id, found.body, found.delivery_count) == (sent, b"body", 1)
        shown = 0 if self.by_value else due  # a message by value has no time that has passed
        assert found.delivery_time == claim.headers().delivery_time == shown
        assert self.delayed(connection, ORDERS) == []

    @needs("shows_all")  # a broker moves a message that is due a moment later
    def test_a_message_that_is_due_stands_at_its_old_place(self, connection: Connection) -> None:
        due = _in(SOON)
        self.send(connection, ORDERS, "first", delivery_time=due)
        self.send(connection, ORDERS, "second")
        self.send(connection, ORDERS, "urgent", delivery_time=due, priority=9)
        while _in(0) < due:
            look_again()
        assert self.drain(connection, ORDERS) == ["urgent", "first", "second"]

    def test_a_message_whose_time_has_passed_comes_at_once(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "body", delivery_time=_in(-SOON))
        assert self.drain(connection, ORDERS) == ["body"]

    def test_many_messages_of_one_time_all_come(self, connection: Connection) -> None:
        due = _in(SOON)
        bodies = [f"{number:02}" for number in range(20)]
        self.send(connection, ORDERS, *bodies, delivery_time=due)
        found = self.rest_soon(connection, connection.poller(ORDERS), len(bodies))
        if not self.able.shows_all:  # at a broker, a message that is sent after its time passes the others
            found.sort()
        assert found == bodies

    def test_long_headers_survive_the_delay(self, connection: Connection) -> None:
        due = _in(SOON)
        for length in range(150, 260, 3):
            self.send(connection, ORDERS, f"{length}", delivery_time=due, correlation_id="c" * length)
        poller = connection.poller(ORDERS)
        found = {}
        for sequence, _ in enumerate(range(150, 260, 3)):
            message = self.load(connection, self.take_soon(poller, sequence=sequence))
            found[message.body.decode()] = message.correlation_id
        assert found == {f"{length}": "c" * length for length in range(150, 260, 3)}

    def test_a_message_that_expires_while_it_waits_is_not_delivered(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "old", delivery_time=_in(SOON), expiration=_in(SOON // 2))
        self.send(connection, ORDERS, "fresh", delivery_time=_in(SOON))
        assert self.rest_soon(connection, connection.poller(ORDERS), 1) == ["fresh"]
        assert self.delayed(connection, ORDERS) == []

    @pytest.mark.parametrize("first", ["the reader", "the message"])
    def test_a_reader_with_a_selector_gets_its_own(self, connection: Connection, first: str) -> None:
        poller = connection.poller(ORDERS, selector="JMSType = 'mine'") if first == "the reader" else None
        due = _in(SOON)
        self.send(connection, ORDERS, "other", delivery_time=due, type="other")
        self.send(connection, ORDERS, "mine", delivery_time=due, type="mine")
        poller = poller or connection.poller(ORDERS, selector="JMSType = 'mine'")
        assert self.rest_soon(connection, poller, 1) == ["mine"]
        assert self.bodies(connection, ORDERS) == ["other"]

    @needs("in_progress")
    def test_a_message_that_is_due_can_be_claimed_into_another_queue(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "body", delivery_time=_in(SOON))
        claim = self.take_soon(connection.poller(ORDERS, IN_PROGRESS))
        assert claim.in_progress
        connection.settle([Settlement(claim, copy_to=ARCHIVE)])
        assert self.drain(connection, ARCHIVE) == ["body"]

    def test_a_copy_is_not_delayed(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "body", delivery_time=_in(SOON))
        claim = self.take_soon(connection.poller(ORDERS))
        connection.settle([Settlement(claim, copy_to=ARCHIVE)])
        assert self.bodies(connection, ARCHIVE) == ["body"]
        assert self.delayed(connection, ARCHIVE) == []

    def test_a_prepared_message_waits_after_the_commit(self, connection: Connection) -> None:
        access, due = self.access(connection), _in(_LATER)
        prepared = [
            access.prepare(ORDERS, self.text(body, delivery_time=due), key=body) for body in ("one", "two")
        ]
        access.sync()
        connection.settle([], sends=prepared)
        self.assert_waits(connection, connection.poller(ORDERS), "one", "two")

    def test_a_prepared_message_comes_when_it_is_due(self, connection: Connection) -> None:
        access, due = self.access(connection), _in(SOON)
        prepared = access.prepare(ORDERS, self.text("body", delivery_time=due), key="k")
        access.sync()
        connection.settle([], sends=[prepared])
        assert self.rest_soon(connection, connection.poller(ORDERS), 1) == ["body"]
        assert _in(0) >= due

    @needs("topics")
    @pytest.mark.parametrize("prepared", [False, True])
    def test_each_subscription_gets_a_delayed_message_in_its_time(
        self, connection: Connection, *, prepared: bool
    ) -> None:
        pollers = [connection.poller(TopicSubscription(PRICES)) for _ in range(2)]
        due = _in(SOON)
        if prepared:
            access = self.access(connection)
            made = access.prepare(PRICES, self.text("body", delivery_time=due), key="k")
            access.sync()
            connection.settle([], sends=[made])
        else:
            self.send(connection, PRICES, "body", delivery_time=due)
        for poller in pollers:
            assert self.rest_soon(connection, poller, 1) == ["body"]
            assert _in(0) >= due

    @needs("shows_all")
    @needs("temporary_destinations")
    def test_a_temporary_queue_ends_with_its_delayed_messages(self, connection: Connection) -> None:
        queue = connection.temporary("queue")
        self.send(connection, queue, "body", delivery_time=_in(_LATER))
        assert len(self.delayed(connection, queue)) == 1
        connection.delete_temporary(queue)
        assert queue not in connection.names()

    @pytest.mark.parametrize("mode", [AcknowledgeMode.AUTO, AcknowledgeMode.TRANSACTED])
    def test_a_producer_delays_what_it_sends(
        self, provider: Provider, connection: Connection, mode: AcknowledgeMode
    ) -> None:
        poller = connection.poller(ORDERS)
        with self.client_class(provider) as messaging, messaging.session(mode) as session:
            producer = session.producer(ORDERS, delivery_mode=self.delivery_mode, delivery_delay=SOON)
            due = _in(SOON)
            producer.send("delayed")
            producer.send("at once", delivery_delay=0)
            if mode is AcknowledgeMode.TRANSACTED:
                session.commit()
        assert sorted(self.rest_soon(connection, poller, 2)) == ["at once", "delayed"]
        assert _in(0) >= due

    # -- given back --------------------------------------------------------------------------------

    def test_a_message_is_given_back_for_later(self, connection: Connection) -> None:
        (sent,) = self.send(connection, ORDERS, "body", correlation_id="c" * 230)
        poller = connection.poller(ORDERS)
        due = _in(SOON)
        given_back = Settlement(
            self.take(poller), give_back=True, delivery_count=1, properties={"connector_retries": 1}, due=due
        )
        connection.settle([given_back])
        seen = [
            (one.delivery_time, one.properties["connector_retries"])
            for one in self.delayed(connection, ORDERS)
        ]
        if _in(0) < due:  # a busy machine may look when the time has come
            assert seen == [(due, 1)]
        found = self.load(connection, self.take_soon(poller, cycle=2))
        assert _in(0) >= due
        assert (found.message_id, found.delivery_count) == (sent, 2)
        assert (found.properties["connector_retries"], found.correlation_id) == (1, "c" * 230)

    @needs("topics")
    @pytest.mark.parametrize("source", [ORDERS, TopicSubscription(PRICES, "all", durable=True, shared=True)])
    def test_a_poller_tells_the_duplicate_keys_of_what_is_delayed(
        self, connection: Connection, source: Destination | TopicSubscription
    ) -> None:
        poller = connection.poller(source)
        assert list(poller.delayed()) == []
        sent, _ = self.send(connection, poller.destination, "stays", "comes")
        due = _in(_LATER)
        stays, comes = self.claim(poller, 1, range(2))
        connection.settle(
            [
                Settlement(stays, give_back=True, properties={"connector_retries": 1}, due=due),
                Settlement(comes, give_back=True, properties={"connector_retries": 1}, due=_in(SOON)),
            ]
        )
        assert self.take_soon(poller, cycle=2).duplicate_key == comes.duplicate_key
        ((seen, key),) = poller.delayed()
        assert (seen.message_id, seen.properties["connector_retries"], seen.delivery_time) == (sent, 1, due)
        assert key == stays.duplicate_key

    def test_messages_that_are_given_back_for_later_wait(self, connection: Connection) -> None:
        bodies = ["one", "two", "three"]
        self.send(connection, ORDERS, *bodies)
        poller = connection.poller(ORDERS)
        claims = self.claim(poller, 1, range(3))
        connection.settle([Settlement(one, give_back=True, due=_in(_LATER)) for one in claims])
        self.assert_waits(connection, poller, *bodies)

    def test_a_message_given_back_for_later_does_not_hold_up_others(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "later", "now")
        poller = connection.poller(ORDERS)
        connection.settle([Settlement(self.take(poller), give_back=True, due=_in(_LATER))])
        assert self.rest(connection, poller) == ["now"]

    @needs("in_progress")
    def test_a_message_in_progress_goes_to_its_queue_for_later(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "body")
        poller = connection.poller(ORDERS, IN_PROGRESS)
        connection.settle([Settlement(self.take(poller), give_back=True, due=_in(_LATER))])
        self.assert_waits(connection, poller, "body")
        assert self.visible(connection, IN_PROGRESS) == []

    @needs("takeover")
    def test_a_delayed_message_stays_when_its_client_dies(self, connect: Connect) -> None:
        dead = connect()
        self.send(dead, ORDERS, "given back", "claimed")
        poller = dead.poller(ORDERS)
        dead.settle([Settlement(self.take(poller), give_back=True, due=_in(SOON))])
        self.send(dead, ORDERS, "sent", delivery_time=_in(SOON))
        dead.abandon()
        heir = connect()
        for leftover in heir.leftovers(None, at_start=True):
            leftover.forget()
        found = self.rest_soon(heir, heir.poller(ORDERS), 3)
        assert sorted(found) == ["claimed", "given back", "sent"]

    def test_a_task_knows_the_clock_that_decides_when_a_message_is_due(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "body")
        poller, access = connection.poller(ORDERS), self.access(connection)
        due = access.now() + SOON
        connection.settle([Settlement(self.take(poller), give_back=True, due=due)])
        self.take_soon(poller, cycle=2)
        assert access.now() >= due

    # -- waiting -----------------------------------------------------------------------------------

    def test_a_wait_ends_when_a_message_is_due(self, connection: Connection) -> None:
        due = _in(SOON)
        self.send(connection, ORDERS, "body", delivery_time=due)
        poller = connection.poller(ORDERS)
        while poller.take(1, 0) is None:
            assert _in(0) < due + self.wait_timeout * 500, "the wait goes on"
            connection.wait(self.wait_timeout)
        assert _in(0) >= due

    @pytest.mark.parametrize("sender", ["the client itself", "another"])
    def test_a_waiter_reports_a_message_that_is_due(
        self, connection: Connection, connect: Connect, sender: str
    ) -> None:
        other = connect() if sender == "another" else connection
        waiter = connection.waiter()
        if waiter is None:
            pytest.skip("the provider tells nobody that a message has come, and says so")
        poller = connection.poller(ORDERS)
        waiter.begin()
        assert poller.take(1, 0) is None
        due = _in(SOON)
        self.send(other, ORDERS, "body", delivery_time=due)
        while _in(0) < due:  # the arrival itself may be reported
            assert waiter.wait(self.wait_timeout)
            waiter.begin()
            claim = poller.take(1, 0)
            assert claim is None or _in(0) >= due
            if claim is not None:
                return
        assert _in(0) < due + self.wait_timeout * 500
        assert self.rest_soon(connection, poller, 1) == ["body"]

    def test_messages_of_another_queue_do_not_end_a_wait(self, connection: Connection) -> None:
        waiter = connection.waiter()
        if waiter is None:
            pytest.skip("the provider tells nobody that a message has come, and says so")
        poller = connection.poller(ORDERS)
        waiter.begin()
        assert poller.take(1, 0) is None
        self.send(connection, NOTES, "body", delivery_time=_in(SOON // 10))
        assert not waiter.wait(SOON / 1000)
