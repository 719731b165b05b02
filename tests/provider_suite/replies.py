"""The abilities that a client needs to await replies.

Another thread can wake the client, and the client knows the ids of its requests.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import pytest

from connector.errors import ProviderError, UnknownDestination
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.messaging.selector import compile_selector
from tests.provider_suite.base import NOTES, ORDERS, Connect, SuiteBase, needs

REPLIES = parse_destination("queue://replies")


class WakingTests(SuiteBase):
    """Another thread can end a wait."""

    def seconds_of_a_wait(self, connection: Connection, seconds: float) -> float:
        """Returns the seconds of a wait. Without a poller only a wake can end the wait early."""
        begun = time.monotonic()
        connection.wait(seconds)
        return time.monotonic() - begun

    def test_a_wait_under_way_is_woken_by_another_thread(self, connection: Connection) -> None:
        timer = threading.Timer(0.1, connection.wake)
        timer.start()
        waited = self.seconds_of_a_wait(connection, self.wait_timeout)
        timer.join()
        assert waited < self.wait_timeout / 2

    def test_a_wait_for_messages_is_woken_too(self, connection: Connection) -> None:
        poller = connection.poller(NOTES)
        stop = threading.Event()

        def end() -> None:
            stop.set()
            connection.wake()

        timer = threading.Timer(0.1, end)
        timer.start()
        begun = time.monotonic()
        while not stop.is_set():
            assert poller.take(1, 0) is None
            connection.wait(self.wait_timeout)
        timer.join()
        assert time.monotonic() - begun < self.wait_timeout / 2

    def test_a_wake_before_the_wait_is_not_lost(self, connection: Connection) -> None:
        connection.wake()
        assert self.seconds_of_a_wait(connection, self.wait_timeout) < self.wait_timeout / 2

    def test_several_wakes_before_one_wait_are_one(self, connection: Connection) -> None:
        for _ in range(3):
            connection.wake()
        connection.wait(self.wait_timeout)
        assert self.seconds_of_a_wait(connection, 0.2) >= 0.19

    def test_a_wake_is_for_its_own_connection(self, connection: Connection, connect: Connect) -> None:
        other = connect()
        connection.wake()
        assert self.seconds_of_a_wait(other, 0.2) >= 0.19

    def test_every_change_that_is_followed_by_a_wake_is_seen_at_once(self, connection: Connection) -> None:
        """Whether the wake comes between the look and the wait, or during the wait."""
        asked, seen = threading.Semaphore(0), threading.Semaphore(0)
        rounds, slowest = 300, 0.0

        def look() -> None:
            for _ in range(rounds):
                while not asked.acquire(blocking=False):
                    connection.wait(self.wait_timeout)
                seen.release()

        looker = threading.Thread(target=look)
        looker.start()
        for number in range(rounds):
            time.sleep(number % 7 * 0.0002)
            begun = time.monotonic()
            asked.release()
            connection.wake()
            assert seen.acquire(timeout=2 * self.wait_timeout)
            slowest = max(slowest, time.monotonic() - begun)
        looker.join()
        assert slowest < self.wait_timeout / 2

    def test_waking_a_connection_that_has_ended_is_nothing(self, connection: Connection) -> None:
        connection.close()
        connection.wake()
        connection.wake()
        with pytest.raises(ProviderError):
            connection.check()


class SentIdTests(SuiteBase):
    """A client knows the ids of its messages."""

    def ids_of(self, connection: Connection) -> list[str]:
        """Returns the ids of messages that a connection sends in each possible way."""
        before = set(self.ids_in(connection))
        connection.send(ORDERS, [self.text("alone")])
        connection.send(ORDERS, [self.text("one of two"), self.text("the other")])
        for opened in range(2):  # by two accesses of the same connection
            access = self.access(connection)
            prepared = access.prepare(ORDERS, self.text("prepared"), f"key-{opened}")
            access.sync()
            connection.settle([], sends=[prepared])
        sent = [identity for identity in self.ids_in(connection) if identity not in before]
        assert len(set(sent)) == 5
        return sent

    def ids_in(self, connection: Connection) -> list[str]:
        with suppress(UnknownDestination):
            return [message.message_id or "" for message in connection.browse(ORDERS)]
        return []

    @needs("transactions", has=False)
    def test_the_ids_of_all_that_a_client_sends_match_its_pattern_and_no_other_client_s(
        self, connect: Connect
    ) -> None:
        connections = [connect("", origin="one"), connect("", origin="one"), connect()]
        sent = {connection.client_id: self.ids_of(connection) for connection in connections}
        for connection in connections:
            matches = compile_selector(f"JMSCorrelationID LIKE '{connection.sent_ids}' ESCAPE '\\'").matches
            for client_id, ids in sent.items():
                for identity in ids:
                    for spelled in (identity, identity.removeprefix("ID:")):
                        assert matches(Message(correlation_id=spelled)) is (
                            client_id == connection.client_id
                        ), spelled

    @needs("transactions", has=False)
    @needs("selectors")
    def test_whoever_awaits_replies_takes_those_to_its_own_requests_only(self, connect: Connect) -> None:
        own, neighbour, stranger = connect(), connect(), connect()
        awaited = {connection.client_id: self.ids_of(connection) for connection in (own, neighbour)}
        replies = [
            self.text(f"{client_id} {number}", correlation_id=identity)
            for client_id, ids in awaited.items()
            for number, identity in enumerate(ids)
        ]
        replies += [self.text("no id"), self.text("another", correlation_id="ID:another-1")]
        stranger.send(REPLIES, replies[::2])
        stranger.send(REPLIES, replies[1::2])
        for connection in (own, neighbour):
            selector = f"JMSCorrelationID LIKE '{connection.sent_ids}' ESCAPE '\\'"
            poller = connection.poller(REPLIES, selector=selector)
            found = self.rest_soon(connection, poller, 5)
            assert sorted(found) == [f"{connection.client_id} {number}" for number in range(5)]
        assert sorted(self.bodies(stranger, REPLIES)) == ["another", "no id"]
