"""A group settlement has the same effect as a settlement of each of its claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from connector.errors import ClaimLost, SettlementError
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.message import Message, PropertyValue
from connector.messaging.provider import Connection, Provider
from connector.messaging.settlement import HISTORY, GroupSettlement, Settlement
from connector.messaging.subscription import TopicSubscription
from tests.provider_suite.base import (
    ARCHIVE,
    IN_PROGRESS,
    NOTES,
    ORDERS,
    PRICES,
    Connect,
    SuiteBase,
    needs,
)

ADDED: dict[str, PropertyValue] = {"connector_outcome": "published", "connector_attempts": 1}
DONE = Destination("queue", "done")


class GroupTests(SuiteBase):
    def _kinds(self) -> list[Message]:
        """Returns messages of many kinds: copied and dropped properties, and headers of any length."""
        kept = self.text("kept", correlation_id="c1", type="T1", priority=8)
        kept.set_property("region", "EU & more")
        history = self.text("history")
        for name in HISTORY:
            history.set_property(name, "dropped")
        long = self.text("long", type="L" * 300)
        long.set_property("note", "é " * 200)
        lasting = self.text("lasting", expiration=1 << 42)
        plain = [self.message(letter.encode(), letter) for letter in "TBM"]
        return [*plain, kept, history, long, lasting, self.message(b"\xff\0", "B")]

    def _claims(self, connection: Connection, *bodies: str, first: int = 0) -> Sequence[Claim]:
        self.send(connection, ORDERS, *bodies)
        poller = connection.poller(ORDERS)
        claims = self.claim(poller, 1, range(first, first + len(bodies)))
        self.release_fetched(poller)
        return claims

    def _claimed(self, connection: Connection, source: Destination, number: int) -> Sequence[Claim]:
        """Returns the claims of a poller that is closed, in a cycle of their own."""
        poller = connection.poller(source)
        self._cycle = getattr(self, "_cycle", 0) + 1
        claims = self.claim(poller, self._cycle, range(number))
        poller.close()
        return claims

    def test_copies_are_those_of_single_settlements(self, connection: Connection) -> None:
        for properties in ({}, ADDED, {**ADDED, "connector_delivered": "a b;é" * 60}):
            found = []
            for is_group in (False, True):
                connection.send(ORDERS, self._kinds())
                claims = self._claimed(connection, ORDERS, 8)
                if is_group:
                    connection.settle([GroupSettlement(claims, ARCHIVE, properties)])
                else:
                    connection.settle([Settlement(claim, ARCHIVE, properties) for claim in claims])
                found.append([_facts(copy) for copy in connection.browse(ARCHIVE)])
                assert self.bodies(connection, ORDERS) == []
                connection.settle([Settlement(claim) for claim in self._claimed(connection, ARCHIVE, 8)])
            assert len(found[0]) == 8
            assert found[0] == found[1]

    def test_the_ids_and_the_order_of_the_messages_stay(self, connection: Connection) -> None:
        ids = self.send(connection, ORDERS, *map(str, range(50)))
        claims = self.claim(connection.poller(ORDERS), 1, range(50))
        connection.settle([GroupSettlement(claims, ARCHIVE, ADDED)])
        assert [copy.message_id for copy in connection.browse(ARCHIVE)] == ids

    def test_a_group_without_a_copy_is_gone(self, connection: Connection) -> None:
        connection.settle([GroupSettlement(self._claims(connection, *"012"))])
        assert self.bodies(connection, ORDERS) == []

    def test_an_empty_group_is_nothing(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "0")
        connection.settle([GroupSettlement([], ARCHIVE, ADDED), GroupSettlement([])])
        assert self.bodies(connection, ORDERS) == ["0"]

    def test_what_came_again_is_copied_without_its_delivery_count(self, connection: Connection) -> None:
        claims = self._claims(connection, *"012")
        connection.settle([Settlement(claim, give_back=True, delivery_count=2) for claim in claims])
        poller = connection.poller(ORDERS)
        again = [self.take_soon(poller, 2, number) for number in range(3)]
        connection.settle([GroupSettlement(again, ARCHIVE, ADDED)])
        copies = [(copy.body, copy.delivery_count) for copy in connection.browse(ARCHIVE)]
        assert copies == [(b"0", 1), (b"1", 1), (b"2", 1)]

    def test_claims_of_many_destinations_are_one_group(self, connection: Connection) -> None:
        claims: list[Claim] = []
        for place, source in enumerate((ORDERS, NOTES)):
            self.send(connection, source, *(f"{number} of {source.name}" for number in range(3)))
            claims += connection.poller(source).claim(1, range(place, 6, 2))
        connection.settle([GroupSettlement(claims, ARCHIVE, ADDED)])
        assert sorted(self.bodies(connection, ARCHIVE)) == sorted(
            f"{number} of {name}" for number in range(3) for name in ("orders", "notes")
        )
        assert self.bodies(connection, ORDERS) == self.bodies(connection, NOTES) == []

    @needs("transactions", has=False)
    def test_groups_and_single_settlements_are_one_commit(self, connection: Connection) -> None:
        claims = self._claims(connection, *"01234567")
        access = self.access(connection)
        sent = access.prepare(NOTES, self.text("sent"), "key-1")
        dropped = access.prepare(NOTES, self.text("dropped"), "key-2")
        access.sync()
        connection.settle(
            [
                GroupSettlement(claims[:2], ARCHIVE, ADDED),
                Settlement(claims[2], ARCHIVE, ADDED, sends=[sent]),
                GroupSettlement(claims[3:5], DONE),
                Settlement(claims[5], give_back=True, delivery_count=1),
                GroupSettlement(claims[6:]),
            ],
            discards=[dropped],
        )
        assert self.bodies(connection, ARCHIVE) == ["0", "1", "2"]
        assert self.bodies(connection, DONE) == ["3", "4"]
        assert self.bodies(connection, NOTES) == ["sent"]
        assert self.bodies(connection, ORDERS) == ["5"]

    @needs("transactions", has=False)
    def test_a_group_that_cannot_be_settled_whole_is_not_settled_at_all(
        self, connection: Connection, unwritable: Any
    ) -> None:
        claims = self._claims(connection, *"0123")
        good = GroupSettlement(claims[:2], ARCHIVE, ADDED)
        with pytest.raises(SettlementError, match=unwritable.name):
            connection.settle([good, GroupSettlement(claims[2:], unwritable, ADDED)])
        assert self.in_queue(connection, ORDERS, claimed="0123")
        assert self.visible(connection, ARCHIVE) == []
        connection.settle([good, GroupSettlement(claims[2:], ARCHIVE, ADDED)])
        assert self.bodies(connection, ARCHIVE) == ["0", "1", "2", "3"]

    @needs("transactions", has=False)
    def test_a_fenced_group_touches_nothing_where_a_claim_is_lost(self, connect: Connect) -> None:
        connection, claims = self._one_is_lost(connect)
        with pytest.raises(ClaimLost):
            connection.settle([GroupSettlement(claims, ARCHIVE, ADDED)], fenced=True)
        assert self.visible(connection, ARCHIVE) == []
        connection.settle([GroupSettlement(claims[1:], ARCHIVE, ADDED)], fenced=True)
        assert self.bodies(connection, ARCHIVE) == ["1", "2"]

    @needs("transactions", has=False)
    def test_a_claim_that_is_lost_is_not_settled_with_its_group(self, connect: Connect) -> None:
        connection, claims = self._one_is_lost(connect)
        connection.settle([GroupSettlement(claims, ARCHIVE, ADDED)])
        assert self.bodies(connection, ARCHIVE) == ["1", "2"]
        assert self.bodies(connection, ORDERS) == ["0"]

    @needs("transactions", has=False)
    @pytest.mark.parametrize("copy_to", [None, ARCHIVE])
    def test_a_claim_alone_that_is_lost_cannot_be_settled(
        self, connect: Connect, copy_to: Destination | None
    ) -> None:
        connection, claims = self._one_is_lost(connect)
        with pytest.raises(ClaimLost):
            connection.settle([GroupSettlement(claims[:1], copy_to)])
        connection.settle([Settlement(claim, give_back=True) for claim in claims[1:]])
        assert self.bodies(connection, ORDERS) == ["0", "1", "2"]

    def _one_is_lost(self, connect: Connect) -> tuple[Connection, list[Claim]]:
        """Returns a connection and its claims, the first of which was given back.

        If the provider has takeover, another client has given back that claim.
        """
        late, other = connect(), connect()
        claims = list(self._claims(late, *"012"))
        thief = other if self.able.takeover else late
        thief.settle([Settlement(claims[0], give_back=True, delivery_count=1)])
        return late, claims

    @pytest.mark.parametrize("copy_to", [None, ARCHIVE])
    def test_published_keys_of_a_group_are_in_the_window(
        self, provider: Provider, connect: Connect, copy_to: Destination | None
    ) -> None:
        first, second = connect(), connect()
        claims = self._claims(first, *"01234")
        keys = [claim.duplicate_key for claim in claims]
        first.settle(
            [
                GroupSettlement(claims[:2], copy_to, ADDED, published=keys[:2]),
                GroupSettlement(claims[2:4], copy_to, ADDED),
                Settlement(claims[4], published=keys[4]),
            ]
        )
        window = provider.state("suite").window(second.client_id, 100)
        assert [key in window for key in keys] == [True, True, False, False, True]

    def test_a_key_for_each_claim_or_none_at_all(self, connection: Connection) -> None:
        claims = self._claims(connection, *"012")
        for keys in (["one"], [*"1234"]):
            with pytest.raises(ValueError, match="published key"):
                connection.settle([GroupSettlement(claims, ARCHIVE, ADDED, published=keys)])
        assert self.in_queue(connection, ORDERS, claimed="012")
        assert self.visible(connection, ARCHIVE) == []

    @needs("in_progress")
    def test_a_group_in_an_in_progress_destination_leaves_it(self, connection: Connection) -> None:
        self.send(connection, ORDERS, *"012")
        claims = self.claim(connection.poller(ORDERS, IN_PROGRESS), 1, range(3))
        connection.settle([GroupSettlement(claims, ARCHIVE, ADDED)])
        assert self.bodies(connection, ARCHIVE) == ["0", "1", "2"]
        assert self.bodies(connection, IN_PROGRESS) == []
        assert [copy.properties for copy in connection.browse(ARCHIVE)] == [ADDED] * 3

    @needs("topics")
    def test_a_group_may_be_copied_to_a_topic(self, client: Callable[..., Connection]) -> None:
        connection = client(client_id="suite")
        subscription = TopicSubscription(PRICES, "all", "suite", durable=True)
        poller = connection.poller(subscription)
        claims = self._claims(connection, *"012", first=10)
        connection.settle([GroupSettlement(claims, PRICES, ADDED)])
        assert self.rest_soon(connection, poller, 3) == ["0", "1", "2"]
        assert self.bodies(connection, ORDERS) == []

    @needs("topics")
    def test_two_subscriptions_settle_the_same_messages_in_one_group(
        self, client: Callable[..., Connection]
    ) -> None:
        connection = client(client_id="suite")
        wanted = [TopicSubscription(PRICES, name, "suite", durable=True) for name in "ab"]
        pollers = [connection.poller(one) for one in wanted]
        self.send(connection, PRICES, *"012")
        claims = [
            claim for n, poller in enumerate(pollers) for claim in self.claim(poller, 1, range(n, 6, 2))
        ]
        connection.settle([GroupSettlement(claims, ARCHIVE, ADDED)])
        assert sorted(self.bodies(connection, ARCHIVE)) == ["0", "0", "1", "1", "2", "2"]

    def test_a_connection_that_has_ended_settles_no_group(self, connect: Connect) -> None:
        connection, other = connect(), connect()
        claims = self._claims(connection, *"01")
        connection.abandon()
        with pytest.raises(SettlementError):
            connection.settle([GroupSettlement(claims, ARCHIVE, ADDED)])
        assert self.bodies(other, ORDERS) == ["0", "1"]


def _facts(copy: Message) -> tuple[object, ...]:
    """Returns the parts of a copy without id and times."""
    return copy.body, copy.message_class, copy.correlation_id, copy.type, copy.priority, copy.properties
