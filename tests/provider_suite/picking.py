"""Picking: an operator takes some messages of a queue and moves them, also to one subscription of a topic."""

from __future__ import annotations

import pytest

from connector.errors import CapabilityError, SettlementError, UnknownDestination
from connector.messaging.claim import Claim
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from tests.provider_suite.base import (
    ARCHIVE,
    NOTES,
    ORDERS,
    PRICES,
    Connect,
    SuiteBase,
    needs,
)

FIRST = TopicSubscription(PRICES, "first", durable=True, shared=True)
SECOND = TopicSubscription(PRICES, "second", durable=True, shared=True)


def _is_odd(message: Message) -> bool:
    return message.type == "odd"


def _all(message: Message) -> bool:
    return True


class PickingTests(SuiteBase):
    def _fill(self, connection: Connection) -> None:
        for number in range(6):
            self.send(connection, ORDERS, str(number), type="odd" if number % 2 else "even")

    def _pick(self, connection: Connection, most: int = 10) -> list[Claim]:
        picker = connection.picker(ORDERS, _is_odd)
        claims = list(picker.claim(1, range(most)))
        picker.close()
        return claims

    def test_a_picker_takes_what_is_wanted_in_order_and_leaves_the_rest(self, connection: Connection) -> None:
        self._fill(connection)
        claims = self._pick(connection)
        assert [self.load(connection, claim).body for claim in claims] == [b"1", b"3", b"5"]
        connection.settle([Settlement(claim, copy_to=NOTES) for claim in claims])
        assert self.bodies(connection, NOTES) == ["1", "3", "5"]
        poller = connection.poller(ORDERS)
        left = self.claim(poller, 2, range(3))
        assert [(self.load(connection, one).body, one.delivery_count) for one in left] == [
            (b"0", 0),
            (b"2", 0),
            (b"4", 0),
        ]

    def test_a_picker_takes_so_many_at_a_time_until_none_is_left(self, connection: Connection) -> None:
        self._fill(connection)
        picker = connection.picker(ORDERS, _is_odd)
        found = []
        for cycle in range(1, 4):
            claims = picker.claim(cycle, range(2))
            found.append(len(claims))
            connection.settle([Settlement(claim, copy_to=NOTES) for claim in claims])
        assert found == [2, 1, 0]
        assert self.bodies(connection, ORDERS) == ["0", "2", "4"]

    def test_a_picker_judges_what_a_settlement_has_added(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "0", "1")
        claims = self.claim(connection.poller(ORDERS), 1, range(2))
        connection.settle(
            [Settlement(one, ARCHIVE, {"connector_attempts": number}) for number, one in enumerate(claims)]
        )
        picker = connection.picker(ARCHIVE, lambda message: message.properties["connector_attempts"] == 1)
        (claim,) = picker.claim(2, range(2))
        assert claim.message_id == claims[1].message_id
        connection.settle([Settlement(claim, copy_to=NOTES)])
        assert self.bodies(connection, ARCHIVE) == ["0"]

    def test_what_is_picked_and_not_settled_comes_again(self, connect: Connect) -> None:
        first = connect("")
        self._fill(first)
        assert len(self._pick(first)) == 3
        first.abandon()
        second = connect("")
        self.end_all(second.leftovers(None, at_start=False), expected=1)
        assert sorted(self.drain(second, ORDERS)) == list("012345")

    @needs("shows_all")
    def test_a_picker_puts_nothing_aside(self, connection: Connection) -> None:
        for kind in ("odd", "even"):
            connection.send(ORDERS, [self.text("old", expiration=1, type=kind)])
        picker = connection.picker(ORDERS, _is_odd)
        (claim,) = picker.claim(1, range(2))
        assert picker.claim(1, range(1, 2)) == []
        connection.settle([Settlement(claim, copy_to=NOTES)])
        assert len(self.bodies(connection, ORDERS)) == len(self.bodies(connection, NOTES)) == 1

    @needs("virtual_destinations")
    def test_messages_of_a_virtual_destination_are_picked(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("old", expiration=1)])
        assert self.drain(connection, ORDERS) == []
        (claim,) = connection.picker(parse_destination("orders~EXPIRED"), _all).claim(1, range(2))
        connection.settle([Settlement(claim, copy_to=NOTES)])
        assert self.bodies(connection, NOTES) == ["old"]

    def test_nothing_is_picked_from_a_topic(self, connection: Connection) -> None:
        with pytest.raises(CapabilityError):
            connection.picker(PRICES, _all)

    @needs("shows_all")
    def test_nothing_is_picked_from_a_queue_that_is_not_there(self, connection: Connection) -> None:
        with pytest.raises(UnknownDestination):
            connection.picker(parse_destination("queue://no-such-queue"), _all)

    @needs("topics")
    def test_a_copy_goes_back_to_the_subscription_alone_that_its_message_came_from(
        self, connection: Connection
    ) -> None:
        first, second = connection.poller(FIRST), connection.poller(SECOND)
        self.send(connection, PRICES, "1")
        claims = [self.take_soon(poller, sequence=number) for number, poller in enumerate((first, second))]
        name = claims[0].subscription
        assert "first" in name
        assert name != claims[1].subscription
        copies = [Settlement(claims[0], ARCHIVE, {"connector_reason": "r"}), Settlement(claims[1])]
        connection.settle(copies[:1])
        connection.settle(copies[1:])
        (claim,) = connection.picker(ARCHIVE, _all).claim(2, range(1))
        kept = {"connector_delivered": "store"}
        connection.settle([Settlement(claim, PRICES, kept, subscription=name)])
        again = self.take_soon(first, cycle=3)
        assert (again.message_id, again.delivery_count) == (claims[0].message_id, 0)
        assert (again.destination, again.subscription) == (PRICES, name)
        assert again.duplicate_key == claims[0].duplicate_key
        found = self.load(connection, again)
        assert (found.body, found.properties) == (b"1", kept)
        assert second.take(4, 0) is None
        connection.settle([Settlement(again)])
        assert self.visible(connection, ARCHIVE) == []

    @needs("topics")
    @needs("administers")
    def test_a_copy_for_a_subscription_that_is_gone_settles_nothing(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "1")
        (claim,) = connection.picker(ORDERS, _all).claim(1, range(1))
        with pytest.raises(SettlementError, match="no-such"):
            connection.settle([Settlement(claim, PRICES, subscription="no-such")])
        connection.settle([Settlement(claim, copy_to=NOTES)])
        assert self.bodies(connection, NOTES) == ["1"]
