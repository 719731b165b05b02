"""A provider with a waiter reports new messages to polling clients."""

from __future__ import annotations

import threading
import time

import pytest

from connector.messaging.polling import Waiter
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from tests.provider_suite.base import ARCHIVE, NOTES, ORDERS, PRICES, Connect, SuiteBase, needs

NOT_TOLD = 0.2
"""Seconds of a wait in which nothing may be reported."""


class WaitingTests(SuiteBase):
    """The tests of a waiter, which lets a poll begin when a message comes."""

    @pytest.fixture
    def waiter(self, connection: Connection) -> Waiter:
        """The waiter of the connection."""
        waiter = connection.waiter()
        if waiter is None:
            pytest.skip("the provider tells nobody that a message has come, and says so")
        return waiter

    def is_told_soon(self, waiter: Waiter) -> bool:
        """Whether a new message ends a wait long before the time is up."""
        begun = time.monotonic()
        return waiter.wait(self.wait_timeout) and time.monotonic() - begun < self.wait_timeout / 2

    def test_a_message_of_another_is_told(
        self, connection: Connection, connect: Connect, waiter: Waiter
    ) -> None:
        other = connect()
        poller = connection.poller(ORDERS)
        waiter.begin()
        assert poller.take(1, 0) is None
        timer = threading.Timer(0.1, self.send, [other, ORDERS, "body"])
        timer.start()
        assert self.is_told_soon(waiter)
        timer.join()
        waiter.begin()
        assert self.load(connection, self.take(poller)).body == b"body"

    def test_a_message_that_comes_between_the_poll_and_the_wait_is_told(
        self, connection: Connection, connect: Connect, waiter: Waiter
    ) -> None:
        poller = connection.poller(ORDERS)
        waiter.begin()
        assert poller.take(1, 0) is None
        self.send(connect(), ORDERS, "body")
        assert self.is_told_soon(waiter)
        assert self.is_told_soon(waiter), "until the next poll begins"

    def test_what_has_come_before_a_poll_begins_is_told_no_more(
        self, connection: Connection, connect: Connect, waiter: Waiter
    ) -> None:
        poller = connection.poller(ORDERS)
        waiter.begin()
        self.send(connect(), ORDERS, "body")
        waiter.begin()
        assert poller.take(1, 0) is not None
        assert not waiter.wait(NOT_TOLD)

    def test_each_destination_that_is_polled_is_told(
        self, connection: Connection, connect: Connect, waiter: Waiter
    ) -> None:
        other = connect()
        pollers = [connection.poller(destination) for destination in (ORDERS, NOTES)]
        for destination, poller in zip((ORDERS, NOTES), pollers, strict=True):
            waiter.begin()
            assert poller.take(1, 0) is None
            self.send(other, destination, "body")
            assert self.is_told_soon(waiter)
            waiter.begin()
            self.rest(connection, poller)

    def test_a_destination_that_nobody_polls_tells_nothing(
        self, connection: Connection, connect: Connect, waiter: Waiter
    ) -> None:
        poller = connection.poller(NOTES)
        connection.poller(ORDERS)
        waiter.begin()
        poller.close()
        waiter.begin()
        self.send(connect(), NOTES, "body")
        assert not waiter.wait(NOT_TOLD)

    @needs("transactions", has=False)
    @pytest.mark.parametrize("outcome", ["settled", "copied", "given back", "given back, one delivery more"])
    def test_what_a_client_does_itself_is_not_told(
        self, connection: Connection, connect: Connect, waiter: Waiter, outcome: str
    ) -> None:
        poller = connection.poller(ORDERS)
        self.send(connect(), ORDERS, "one", "two")
        waiter.begin()
        for sequence in range(2):
            claim = self.take(poller, sequence=sequence)
            settlement = {
                "settled": Settlement(claim),
                "copied": Settlement(claim, copy_to=ARCHIVE),
                "given back": Settlement(claim, give_back=True),
                "given back, one delivery more": Settlement(claim, give_back=True, delivery_count=1),
            }[outcome]
            connection.settle([settlement])
            assert not waiter.wait(NOT_TOLD)

    def test_what_another_gives_back_is_told(
        self, connection: Connection, connect: Connect, waiter: Waiter
    ) -> None:
        other = connect()
        self.send(other, ORDERS, "body")
        others = other.poller(ORDERS)
        claim = self.take(others)
        poller = connection.poller(ORDERS)
        waiter.begin()
        assert poller.take(1, 0) is None
        other.settle([Settlement(claim, give_back=True)])
        others.close()  # it may fetch the message ahead
        assert self.is_told_soon(waiter)

    def test_a_message_that_comes_while_others_are_given_back_is_told(
        self, connection: Connection, connect: Connect, waiter: Waiter
    ) -> None:
        other = connect()
        poller = connection.poller(ORDERS)
        self.send(other, ORDERS, "one")
        waiter.begin()
        claim = self.take(poller)
        connection.settle([Settlement(claim, give_back=True)])
        self.send(other, ORDERS, "two")
        assert self.is_told_soon(waiter)

    def test_a_wake_ends_the_wait_and_tells_of_no_message(
        self, connection: Connection, waiter: Waiter
    ) -> None:
        connection.poller(ORDERS)
        waiter.begin()
        timer = threading.Timer(0.1, connection.wake)
        timer.start()
        begun = time.monotonic()
        assert not waiter.wait(self.wait_timeout)
        assert time.monotonic() - begun < self.wait_timeout / 2
        timer.join()
        connection.wake()
        begun = time.monotonic()
        assert not waiter.wait(self.wait_timeout), "one before the wait is not lost"
        assert time.monotonic() - begun < self.wait_timeout / 2

    def test_a_connection_that_ends_lets_nobody_wait(self, connection: Connection, waiter: Waiter) -> None:
        connection.poller(ORDERS)
        waiter.begin()
        timer = threading.Timer(0.1, connection.close)
        timer.start()
        assert self.is_told_soon(waiter)
        timer.join()
        assert self.is_told_soon(waiter)
        connection.wake()

    @needs("topics")
    def test_a_message_to_a_topic_is_told_to_its_subscription(
        self, connection: Connection, connect: Connect, waiter: Waiter
    ) -> None:
        poller = connection.poller(TopicSubscription(PRICES))
        waiter.begin()
        assert poller.take(1, 0) is None
        self.send(connect(), PRICES, "body")
        assert self.is_told_soon(waiter)
        waiter.begin()
        assert self.rest(connection, poller) == ["body"]
