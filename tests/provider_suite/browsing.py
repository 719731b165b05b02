"""Browsing takes no message."""

from __future__ import annotations

import pytest

from connector.errors import (
    UnknownDestination,
)
from connector.messaging.destination import parse_destination
from connector.messaging.history import EVENT_ID
from connector.messaging.provider import Connection
from tests.provider_suite.base import (
    ORDERS,
    SuiteBase,
)


class BrowsingTests(SuiteBase):
    def test_browsing_shows_what_waits_and_what_is_claimed_in_the_order_of_taking(
        self, connection: Connection
    ) -> None:
        for number, priority in enumerate((4, 9, 4, 0, 9)):
            connection.send(ORDERS, [self.text(str(number), priority=priority)])
        before = self.bodies(connection, ORDERS)
        poller = connection.poller(ORDERS)
        claims = [self.take(poller, sequence=n) for n in range(3)]
        self.release_fetched(poller)
        shown = before if self.able.shows_all else before[3:]
        assert self.bodies_soon(connection, ORDERS, len(shown)) == shown
        if self.fetches_ahead:
            poller = connection.poller(ORDERS)
        claims += [self.take(poller, sequence=n) for n in range(3, 5)]
        assert [self.load(connection, claim).body.decode() for claim in claims] == before

    def test_browsing_takes_nothing_and_shows_all_headers(self, connection: Connection) -> None:
        message = self.text("body", correlation_id="c1", type="T1")
        message.set_property("p", 1, "byte")
        (identity,) = connection.send(ORDERS, [message])
        for _ in range(2):
            (seen,) = connection.browse(ORDERS)
            assert (seen.message_id, seen.correlation_id, seen.type) == (identity, "c1", "T1")
            assert (seen.properties, seen.property_types) == ({"p": 1}, {"p": "byte"})
            assert (seen.body, seen.destination) == (b"body", str(ORDERS))
        assert self.drain(connection, ORDERS) == ["body"]

    def test_messages_are_found_by_id_among_others(self, connection: Connection) -> None:
        messages = [self.text(str(n), correlation_id="c" * n) for n in range(5)]
        ids = connection.send(ORDERS, messages)
        child = self.text("child")
        child.set_property(EVENT_ID, ids[1])
        connection.send(ORDERS, [child])
        for given in ({ids[3]}, {ids[3].removeprefix("ID:")}):
            (seen,) = connection.browse(ORDERS, ids=given)
            assert (seen.body, seen.message_id, seen.correlation_id) == (b"3", ids[3], "ccc")
        found = sorted(one.body for one in connection.browse(ORDERS, ids={ids[1], ids[4]}))
        assert found == [b"1", b"4", b"child"]
        assert len(list(connection.browse(ORDERS, ids={*ids, *map(str, range(100))}))) == 6
        for none in ((), {"", "ID:", "ID:7'\"%_", "é", "9" * 30}):
            assert list(connection.browse(ORDERS, ids=none)) == []
        if self.able.shows_all:
            (claim,) = connection.poller(ORDERS).claim(1, range(1))
            assert self.load(connection, claim).message_id == ids[0]
            assert [one.body for one in connection.browse(ORDERS, ids=ids[:1])] == [b"0"]

    def test_an_unknown_destination_cannot_be_browsed(self, connection: Connection) -> None:
        for name in ("queue://no-such-queue", "topic://no-such-topic"):
            with pytest.raises(UnknownDestination, match=name):
                connection.browse(parse_destination(name))
        with pytest.raises(UnknownDestination, match="no-such-queue"):
            connection.browse(parse_destination("queue://no-such-queue"), ids=["1"])
