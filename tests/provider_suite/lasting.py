"""Connections end, begin again, and close while in use, without losing a message."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from connector.errors import ConnectorError, ProviderError, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from tests.provider_suite.base import NOTES, ORDERS, PRICES, Connect, SuiteBase, needs


class LastingTests(SuiteBase):
    def test_a_new_connection_finds_what_an_earlier_one_sent_and_left(self, connect: Connect) -> None:
        first = connect()
        self.send(first, ORDERS, "1", "2", "3")
        claim = self.take(first.poller(ORDERS))
        first.settle([Settlement(claim)])
        first.close()
        second = connect()
        assert self.drain(second, ORDERS) == ["2", "3"]

    def test_one_client_reconnects_any_number_of_times(self, connect: Connect) -> None:
        sender = connect()
        self.send(sender, ORDERS, *map(str, range(10)))
        ids = set()
        for number in range(10):
            connection = connect("suite", "the-same")
            ids.add(connection.client_id)
            claim = self.take_soon(connection.poller(ORDERS), sequence=number)
            assert self.load(connection, claim).body == str(number).encode()
            connection.settle([Settlement(claim)])
            connection.close()
        assert len(ids) == 10

    def test_closing_again_is_nothing(self, connect: Connect) -> None:
        connection = connect()
        connection.poller(ORDERS).close()
        connection.close()
        connection.close()

    def test_a_poller_that_stopped_leaves_its_messages_to_the_next(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "1", "2", "3")
        poller = connection.poller(ORDERS)
        claim = self.take(poller)
        poller.close()
        poller.close()
        again = connection.poller(ORDERS)
        assert self.rest(connection, again) == ["2", "3"]
        connection.settle([Settlement(claim, give_back=True, delivery_count=1)])
        assert self.take_soon(again, sequence=9).delivery_count == self.count_after_return(1)

    def test_a_closed_poller_takes_no_more_and_says_so(self, connection: Connection) -> None:
        self.a_closed_poller_says_so(connection, ORDERS)

    @needs("topics")
    def test_a_closed_poller_of_a_subscription_takes_no_more_and_says_so(
        self, connection: Connection
    ) -> None:
        self.a_closed_poller_says_so(connection, TopicSubscription(PRICES))

    def a_closed_poller_says_so(
        self, connection: Connection, source: Destination | TopicSubscription
    ) -> None:
        """Closes a poller, and takes from it."""
        poller = connection.poller(source)
        poller.close()
        with pytest.raises(ProviderError, match="closed"):
            poller.take(1, 0)

    @pytest.mark.parametrize("end", ["close", "abandon"])
    def test_a_connection_that_has_ended_does_nothing_more_and_says_so(
        self, connect: Connect, end: str
    ) -> None:
        connection, other = connect(), connect()
        self.send(connection, ORDERS, "1", "2")
        poller = connection.poller(ORDERS)
        claim = self.take(poller)
        waiter = connection.waiter()
        if end == "close":
            connection.settle([Settlement(claim, give_back=True)])
        getattr(connection, end)()
        calls: list[Callable[[], object]] = [
            lambda: poller.take(1, 1),
            lambda: connection.poller(ORDERS),
            lambda: connection.unsubscribe("own"),
            connection.subscriptions,
            connection.names,
            connection.destinations,
            lambda: connection.temporary("queue"),
            lambda: connection.delete_temporary(ORDERS),
            connection.waiter,
            connection.check,
            lambda: connection.adopt(claim, 2, 0),
            lambda: connection.leave_unowned(claim),
            lambda: self.send(connection, ORDERS, "3"),
            lambda: connection.send(ORDERS, []),
            lambda: connection.browse(ORDERS),
            connection.access,
            lambda: connection.leftovers(None, at_start=True),
            lambda: connection.find_unowned(ORDERS),
            connection.prune,
        ]
        for call in calls:
            with pytest.raises(ProviderError, match="closed"):
                call()
        for settlements in ([], [Settlement(claim)], [Settlement(claim, give_back=True)]):
            with pytest.raises(SettlementError, match="closed"):
                connection.settle(settlements)
        assert waiter is None or not waiter.begin()
        connection.wait(self.wait_timeout)
        poller.close()
        connection.wake()
        connection.close()
        connection.abandon()
        assert self.bodies(other, ORDERS) == ["1", "2"]

    def test_closing_from_another_thread_loses_nothing_and_takes_nothing_twice(
        self, connect: Connect
    ) -> None:
        """``close`` may be called from any thread, at any moment of a poll."""
        sender = connect()
        sent = [identity for n in range(4) for identity in self.send(sender, ORDERS, *map(str, range(50)))]
        settled: list[str] = []

        def consume(connection: Connection) -> None:
            with suppress(ConnectorError):  # raised because the connection was closed meanwhile
                poller = connection.poller(ORDERS)
                for sequence in range(len(sent)):
                    claim = poller.take(1, sequence)
                    if claim is None:
                        return
                    connection.settle([Settlement(claim)])
                    settled.append(claim.message_id)

        for pause in (0.0, 0.001, 0.003, 0.01):
            connection = connect()
            thread = threading.Thread(target=consume, args=(connection,))
            thread.start()
            time.sleep(pause)
            connection.close()
            thread.join(2 * self.wait_timeout)
            assert not thread.is_alive()
        last = connect()
        for leftover in last.leftovers(None, at_start=True):
            last.settle(
                [Settlement(c, give_back=True, delivery_count=c.delivery_count) for c in leftover.claims]
            )
            leftover.forget()
        rest = [message.message_id or "" for message in last.browse(ORDERS)]
        assert len(settled) == len(set(settled))
        assert set(sent) - set(settled) - set(rest) == set()
        # a message whose connection closed during its settlement may be gone without having been noted
        assert len(set(rest) & set(settled)) == 0

    def test_waiting_ends_when_a_message_comes_and_when_the_time_is_up(self, connect: Connect) -> None:
        sender, connection = connect(), connect()
        poller = connection.poller(ORDERS)
        self.send(sender, NOTES, "elsewhere")
        begun = time.monotonic()
        assert poller.take(1, 0) is None
        connection.wait(0.2)
        assert time.monotonic() - begun < self.wait_timeout
        timer = threading.Timer(0.1, self.send, (sender, ORDERS, "1"))
        timer.start()
        begun = time.monotonic()
        while (claim := poller.take(1, 0)) is None:
            connection.wait(self.wait_timeout)
        timer.join()
        assert time.monotonic() - begun < self.wait_timeout
        assert self.load(connection, claim).body == b"1"

    @needs("topics")
    def test_waiting_ends_when_a_message_of_a_subscription_comes(self, connect: Connect) -> None:
        sender, connection = connect(), connect()
        poller = connection.poller(TopicSubscription(PRICES))
        assert poller.take(1, 0) is None
        connection.wait(0.05)
        self.send(sender, PRICES, "1")
        while (claim := poller.take(1, 0)) is None:
            connection.wait(self.wait_timeout)
        assert self.load(connection, claim).body == b"1"
