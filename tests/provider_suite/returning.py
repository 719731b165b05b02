"""Negative acknowledgement: a message that is given back comes again, and is counted."""

from __future__ import annotations

from connector.messaging.message import PropertyValue
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from tests.provider_suite.base import (
    NOTES,
    ORDERS,
    Connect,
    SuiteBase,
    needs,
)


class ReturningTests(SuiteBase):
    @needs("transactions", has=False)
    def test_an_untouched_message_comes_back_as_it_was(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("body", type="T1")])
        poller = connection.poller(ORDERS)
        claim = self.take(poller)
        before = self.load(connection, claim)
        connection.settle([Settlement(claim, give_back=True, delivery_count=claim.delivery_count)])
        again = self.take_soon(poller, sequence=1)
        assert again.delivery_count == 0
        assert self.load(connection, again) == before

    @needs("transactions", has=False)
    def test_deliveries_are_counted_over_any_number_of_returns(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("body")])
        poller = connection.poller(ORDERS)
        for count in range(12):
            claim = self.take_soon(poller, sequence=count)
            got = self.load(connection, claim)
            assert (claim.delivery_count, got.delivery_count, got.redelivered) == (
                count,
                count + 1,
                count > 0,
            )
            connection.settle([Settlement(claim, give_back=True, delivery_count=count + 1)])

    @needs("transactions", has=False)
    def test_a_count_begins_anew_and_is_never_less_than_nothing(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("body")])
        poller = connection.poller(ORDERS)
        for sequence, (given, expected) in enumerate(((3, 3), (-1, 0), (2, 2), (0, 0))):
            claim = self.take_soon(poller, sequence=sequence)
            connection.settle([Settlement(claim, copy_to=NOTES, give_back=True, delivery_count=given)])
            (seen,) = connection.browse(ORDERS)
            assert (seen.delivery_count, seen.redelivered) == (expected + 1, expected > 0)
        assert self.visible(connection, NOTES) == []

    def test_a_returned_message_is_again_before_the_younger_ones(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text(str(n)) for n in range(3)])
        poller = connection.poller(ORDERS)
        claim = self.take(poller)
        connection.settle([Settlement(claim, give_back=True, delivery_count=1)])
        assert self.load(connection, self.take_soon(poller, sequence=1)).body == b"0"

    def test_what_one_client_returns_another_takes(self, connect: Connect) -> None:
        first, second = connect(), connect()
        first.send(ORDERS, [self.text("body")])
        source = first.poller(ORDERS)
        claim = self.take(source)
        poller = second.poller(ORDERS)
        assert poller.take(1, 0) is None
        first.settle([Settlement(claim, give_back=True, delivery_count=1)])
        self.release_fetched(source)  # a broker may hand the message to the first client once more
        assert self.take_soon(poller).delivery_count == self.count_after_return(1)

    @needs("transactions", has=False)
    def test_what_becomes_of_one_claim_counts_nothing_of_the_others(self, connect: Connect) -> None:
        """One call claims all messages, and several calls settle them."""
        connection = connect()
        self.send(connection, ORDERS, *"0123")
        done, returned, untouched, late = self.claim(connection.poller(ORDERS), 1, range(4))
        connection.settle([Settlement(done)])
        connection.settle([Settlement(returned, give_back=True, delivery_count=1)])
        connection.settle([Settlement(untouched, give_back=True)])
        connection.settle([Settlement(late, give_back=True, delivery_count=3)])
        poller = connection.poller(ORDERS)
        again = [self.take_soon(poller, 2, number) for number in range(3)]
        counts = {self.load(connection, claim).body: claim.delivery_count for claim in again}
        assert counts == {b"1": 1, b"2": 0, b"3": 3}

    @needs("transactions", has=False)
    def test_a_returned_message_carries_the_properties_it_was_given(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("body")])
        poller = connection.poller(ORDERS)
        for number, value in enumerate(("a", "a;b")):
            claim = self.take_soon(poller, sequence=number)
            properties: dict[str, PropertyValue] = {"connector_delivered": value}
            connection.settle(
                [Settlement(claim, give_back=True, delivery_count=number, properties=properties)]
            )
        got = self.load(connection, self.take_soon(poller, sequence=2))
        assert got.properties == {"connector_delivered": "a;b"}
