"""Selectors of queue consumers: checked before a message is taken, without the body.

Other messages stay in the queue.
"""

from __future__ import annotations

import threading
import time

import pytest

from connector.errors import CapabilityError, SelectorError
from connector.messaging.message import Message, PropertyValue
from connector.messaging.provider import Capabilities, Connection
from connector.messaging.settlement import Settlement
from tests.provider_suite.base import (
    ARCHIVE,
    IN_PROGRESS,
    ORDERS,
    SOON,
    Connect,
    SuiteBase,
    look_again,
    needs,
)


class SelectorsRefusedTests(SuiteBase):
    """A provider without selectors refuses them."""

    def test_selectors_are_refused_by_a_provider_without_them(
        self, capabilities: Capabilities, connection: Connection
    ) -> None:
        selector = "a = 1"
        if capabilities.selectors:
            assert connection.poller(ORDERS, selector=selector).take(1, 0) is None
            return
        with pytest.raises(CapabilityError):
            connection.poller(ORDERS, selector=selector)


@needs("selectors")
class SelectorTests(SuiteBase):
    @needs("shows_all")
    def test_a_message_that_has_expired_is_put_aside_whatever_the_selector(
        self, connection: Connection
    ) -> None:
        soon = time.time_ns() // 1_000_000 + SOON
        for expiration in (1, soon):
            connection.send(ORDERS, [self.text("rejected", expiration=expiration)])
        connection.send(ORDERS, [self.text("waits")])
        poller = connection.poller(ORDERS, selector="region = 'EU'")
        assert (poller.take(1, 0), poller.expired) == (None, 1)
        deadline = time.monotonic() + self.wait_timeout
        while poller.expired < 2 and time.monotonic() < deadline:
            assert poller.take(1, 0) is None
            look_again()
        assert poller.expired == 2
        assert self.bodies(connection, ORDERS) == ["waits"]

    def test_rejected_messages_stay_for_others_as_they_were(self, connection: Connection) -> None:
        self._send_numbered(connection, 6)
        high = connection.poller(ORDERS, selector="number > 2")
        assert self.rest_soon(connection, high, 3) == ["3", "4", "5"]
        rest = connection.poller(ORDERS)
        claims = [self.take_soon(rest, sequence=10 + number) for number in range(3)]
        assert [(self.load(connection, claim).body, claim.delivery_count) for claim in claims] == [
            (b"0", 0),
            (b"1", 0),
            (b"2", 0),
        ]
        assert rest.take(1, 20) is None

    def test_a_selector_sees_headers_and_properties(self, connection: Connection) -> None:
        expected = {
            "JMSPriority > 8": ["high"],
            "JMSType = 'T.1'": ["typed"],
            "JMSCorrelationID LIKE 'c-%'": ["correlated"],
            "region = 'EU'": ["property"],
            "region IS NOT NULL OR JMSPriority = 8": ["medium", "another"],
            f"long = '{'v' * 400}'": ["long"],
            "JMSMessageID LIKE 'ID:%' AND JMSTimestamp > 0 AND JMSPriority < 9 AND amount = 1.5": ["amount"],
            "region = 'nowhere'": [],
        }
        connection.send(
            ORDERS,
            [
                self.text("high", priority=9),
                self.text("typed", type="T.1"),
                self.text("correlated", correlation_id="c-1"),
                self._with("property", region="EU"),
                self.text("medium", priority=8),
                self._with("another", region="US"),
                self._with("grouped", JMSXGroupID="g1"),
                self._with("long", long="v" * 400),
                self._with("amount", amount=1.5),
                self.text("plain"),
            ],
        )
        found = {one: self.rest(connection, connection.poller(ORDERS, selector=one)) for one in expected}
        assert found == expected

    def test_a_selector_sees_the_group(self, connection: Connection) -> None:
        connection.send(ORDERS, [self._with("grouped", JMSXGroupID="g1"), self.text("plain")])
        poller = connection.poller(ORDERS, selector="JMSXGroupID = 'g1'")
        assert self.rest(connection, poller) == ["grouped"]

    def test_a_rejected_message_keeps_its_body(self, connection: Connection) -> None:
        connection.send(ORDERS, [self._with("x" * 100_000, type="T", region="EU")])
        poller = connection.poller(ORDERS, selector="JMSType = 'T' AND region <> 'EU'")
        assert poller.take(1, 0) is None
        assert self.bodies(connection, ORDERS) == ["x" * 100_000]
        selecting = connection.poller(ORDERS, selector="JMSType = 'T' AND region = 'EU'")
        assert self.rest(connection, selecting) == ["x" * 100_000]

    def test_a_selector_that_is_not_valid_is_refused(self, connection: Connection) -> None:
        with pytest.raises(SelectorError):
            connection.poller(ORDERS, selector="number = = 1")

    def test_an_empty_selector_takes_all(self, connection: Connection) -> None:
        for empty in ("", " ", "\t\n"):
            self._send_numbered(connection, 3)
            poller = connection.poller(ORDERS, selector=empty)
            assert self.rest_soon(connection, poller, 3) == ["0", "1", "2"]
            poller.close()

    def test_a_selected_message_behind_many_rejected_ones_is_found(self, connection: Connection) -> None:
        self._send_numbered(connection, 500)
        poller = connection.poller(ORDERS, selector="number = 499")
        assert self.rest(connection, poller) == ["499"]

    def test_a_message_that_comes_later_is_found_behind_rejected_ones(self, connection: Connection) -> None:
        self._send_numbered(connection, 20)
        poller = connection.poller(ORDERS, selector="number = 20")
        for sequence in range(3):
            assert poller.take(1, sequence) is None
        connection.send(ORDERS, [self._with("late", number=20)])
        assert self.rest_soon(connection, poller, 1) == ["late"]

    def test_selected_messages_come_by_priority_then_by_age(self, connection: Connection) -> None:
        for number, priority in enumerate((4, 9, 0, 4, 9)):
            connection.send(ORDERS, [self._with(str(number), number=number, priority=priority)])
        poller = connection.poller(ORDERS, selector="number <> 4")
        assert self.rest(connection, poller) == ["1", "0", "3", "2"]

    def test_what_a_selecting_consumer_gives_back_comes_to_it_again(self, connection: Connection) -> None:
        self._send_numbered(connection, 3)
        poller = connection.poller(ORDERS, selector="number = 1")
        for count in range(5):
            claim = self.take_soon(poller, sequence=count)
            assert claim.delivery_count == self.count_after_return(count)
            connection.settle([Settlement(claim, give_back=True, delivery_count=count + 1)])

    @needs("transactions", has=False)
    def test_a_selector_may_ask_for_the_delivery_count(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "1", "2")
        claim = self.take(connection.poller(ORDERS))
        connection.settle([Settlement(claim, give_back=True, delivery_count=1)])
        again = connection.poller(ORDERS, selector="JMSXDeliveryCount > 1")
        assert self.rest_soon(connection, again, 1) == ["1"]

    def test_an_expired_message_is_expired_whatever_the_selector(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("old", expiration=1, priority=9), self.text("good")])
        poller = connection.poller(ORDERS, selector="JMSPriority < 9")
        assert self.rest(connection, poller) == ["good"]
        assert self.drain(connection, ORDERS) == []

    @needs("in_progress")
    def test_a_selector_works_with_an_in_progress_destination(self, connection: Connection) -> None:
        self._send_numbered(connection, 3)
        poller = connection.poller(ORDERS, IN_PROGRESS, selector="number = 1")
        claim = self.take(poller)
        assert poller.take(1, 1) is None
        assert self.bodies(connection, IN_PROGRESS) == ["1"]
        connection.settle([Settlement(claim, copy_to=ARCHIVE)])
        assert self.bodies(connection, ARCHIVE) == ["1"]
        assert self.bodies(connection, ORDERS) == ["0", "2"]

    def test_consumers_with_selectors_that_exclude_each_other_take_all_between_them(
        self, connect: Connect
    ) -> None:
        sender = connect()
        self._send_numbered(sender, 90)
        found: dict[int, list[str]] = {}

        def consume(part: int, connection: Connection) -> None:
            low, high = part * 30, part * 30 + 29
            selector = f"number BETWEEN {low} AND {high}"
            found[part] = self.rest(connection, connection.poller(ORDERS, selector=selector))

        threads = [threading.Thread(target=consume, args=(part, connect())) for part in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [found[part] for part in range(3)] == [
            [str(number) for number in range(part * 30, part * 30 + 30)] for part in range(3)
        ]

    def _with(
        self, body: str, priority: int = 4, type: str | None = None, **properties: PropertyValue
    ) -> Message:
        message = self.text(body, priority=priority, type=type)
        for name, value in properties.items():
            message.set_property(name, value)
        return message

    def _send_numbered(self, connection: Connection, count: int) -> None:
        connection.send(ORDERS, [self._with(str(number), number=number) for number in range(count)])
