"""Taking messages: by priority and age, each message once, expired messages never."""

from __future__ import annotations

import threading
import time

import pytest

from connector.messaging.destination import Destination
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from tests.provider_suite.base import (
    NOTES,
    ORDERS,
    SOON,
    Connect,
    SuiteBase,
    look_again,
)


class TakingTests(SuiteBase):
    def test_an_empty_destination_gives_nothing_and_does_not_wait(self, connection: Connection) -> None:
        poller = connection.poller(ORDERS)
        begun = time.monotonic()
        assert [poller.take(1, 0) for _ in range(10)] == [None] * 10
        assert time.monotonic() - begun < self.wait_timeout

    def test_messages_come_by_priority_then_by_age(self, connection: Connection) -> None:
        for number, priority in enumerate((4, 9, 0, 4, 9, 1)):
            connection.send(ORDERS, [self.text(str(number), priority=priority)])
        assert self.drain(connection, ORDERS) == ["1", "4", "0", "3", "5", "2"]

    def test_messages_of_one_send_come_in_its_order(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text(str(n)) for n in range(100)])
        assert self.drain(connection, ORDERS) == [str(n) for n in range(100)]

    def test_a_late_message_of_high_priority_overtakes_within_seconds(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text(str(n)) for n in range(2000)])
        poller = connection.poller(ORDERS)
        self.take(poller)
        connection.send(ORDERS, [self.text("urgent", priority=9)])
        deadline = time.monotonic() + self.wait_timeout
        sequence = 1
        while time.monotonic() < deadline:
            claim = poller.take(1, sequence)
            assert claim is not None, "it came after all the others"
            if self.load(connection, claim).body == b"urgent":
                return
            sequence += 1
            look_again()
        pytest.fail("it was not taken")

    def test_destinations_do_not_mix(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("order")])
        connection.send(NOTES, [self.text("note")])
        assert self.drain(connection, ORDERS) == ["order"]
        assert self.drain(connection, NOTES) == ["note"]

    def test_one_connection_serves_many_destinations(self, connection: Connection) -> None:
        """Round robin, one message of each at a time, settled together."""
        queues = [Destination("queue", f"queue-{number}") for number in range(60)]
        pollers = [connection.poller(queue) for queue in queues]
        for queue in queues:
            self.send(connection, queue, f"1 of {queue}", f"2 of {queue}")
        for cycle in (1, 2):
            claims = [self.take(poller, cycle, number) for number, poller in enumerate(pollers)]
            found = [self.load(connection, claim).body.decode() for claim in claims]
            assert found == [f"{cycle} of {queue}" for queue in queues]
            assert [claim.destination for claim in claims] == queues
            connection.settle([Settlement(claim) for claim in claims])
        assert [poller.take(3, 0) for poller in pollers] == [None] * 60

    def test_a_claim_knows_what_it_is_without_its_body(self, connection: Connection) -> None:
        message = self.text("body", type="T1")
        message.set_property("JMSXGroupID", "g.1")
        (identity,) = connection.send(ORDERS, [message])
        claim = self.take(connection.poller(ORDERS), cycle=3, sequence=5)
        assert (claim.cycle, claim.sequence, claim.destination) == (3, 5, ORDERS)
        assert (claim.message_id, claim.group_id, claim.delivery_count) == (identity, "g.1", 0)
        headers = claim.headers()
        assert (headers.type, headers.body, headers.destination) == ("T1", b"", None)
        assert self.load(connection, claim).destination is None

    def test_a_message_is_taken_once_however_many_consumers_compete(self, connect: Connect) -> None:
        sender = connect()
        sent = [i for n in range(4) for i in sender.send(ORDERS, [self.text(str(m)) for m in range(100)])]
        taken: list[str] = []

        def consume(connection: Connection) -> None:
            poller = connection.poller(ORDERS)
            misses = sequence = 0
            while misses < 20:
                claim = poller.take(1, sequence)
                if claim is None:
                    misses += 1
                    look_again()
                    continue
                sequence += 1
                taken.append(claim.message_id)
                connection.settle([Settlement(claim)])

        threads = [threading.Thread(target=consume, args=(connect(),)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(taken) == sorted(sent)

    def test_an_expired_message_is_counted_and_never_taken(self, connection: Connection) -> None:
        connection.send(
            ORDERS, [self.text("old", expiration=1), self.text("good"), self.text("old too", expiration=1)]
        )
        poller = connection.poller(ORDERS)
        assert self.load(connection, self.take(poller)).body == b"good"
        assert poller.take(1, 1) is None
        assert poller.expired == (2 if self.able.shows_all else 0)
        again = connection.poller(ORDERS)
        assert (again.take(1, 2), again.expired) == (None, 0)

    def test_a_message_expires_while_it_waits(self, connection: Connection) -> None:
        soon = time.time_ns() // 1_000_000 + SOON
        connection.send(ORDERS, [self.text("1"), self.text("2", expiration=soon)])
        poller = connection.poller(ORDERS)
        self.take(poller)
        self.let_pass(soon)
        assert (poller.take(1, 1), poller.expired) == (None, 1 if self.able.shows_all else 0)
