"""A call claims many messages: highest priority first, each with the given number."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from connector.errors import ProviderError
from connector.messaging.claim import Claim
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from tests.provider_suite.base import ORDERS, SOON, Connect, SuiteBase, needs


class ClaimingTests(SuiteBase):
    def _bodies(self, connection: Connection, claims: Sequence[Claim]) -> list[str]:
        return [self.load(connection, claim).body.decode() for claim in claims]

    def test_each_claim_has_its_number(self, connection: Connection) -> None:
        self.send(connection, ORDERS, *"01234")
        poller = connection.poller(ORDERS)
        claims = [*self.claim(poller, 7, range(2, 8, 3)), *self.claim(poller, 7, range(8, 17, 3))]
        assert [(claim.cycle, claim.sequence) for claim in claims] == [(7, n) for n in (2, 5, 8, 11, 14)]
        assert {claim.destination for claim in claims} == {ORDERS}
        assert self._bodies(connection, claims) == ["0", "1", "2", "3", "4"]

    def test_claims_come_by_priority_then_by_age(self, connection: Connection) -> None:
        for number, priority in enumerate((4, 9, 0, 4, 9, 1)):
            connection.send(ORDERS, [self.text(str(number), priority=priority)])
        claims = self.claim(connection.poller(ORDERS), 1, range(6))
        assert self._bodies(connection, claims) == ["1", "4", "0", "3", "5", "2"]

    def test_no_more_are_claimed_than_there_are_numbers(self, connection: Connection) -> None:
        self.send(connection, ORDERS, *"012")
        poller = connection.poller(ORDERS)
        assert list(poller.claim(1, range(0))) == []
        self.claim(poller, 1, range(2))
        self.release_fetched(poller)
        assert self.rest_soon(connection, connection.poller(ORDERS), 1) == ["2"]

    def test_fewer_come_where_fewer_wait(self, connection: Connection) -> None:
        poller = connection.poller(ORDERS)
        assert list(poller.claim(1, range(10))) == []
        self.send(connection, ORDERS, *"012")
        claims = list(poller.claim(1, range(10)))
        claims += self.claim(poller, 1, range(len(claims), 3))
        assert [claim.sequence for claim in claims] == [0, 1, 2]
        assert list(poller.claim(1, range(3, 10))) == []

    def test_a_take_is_a_claim_of_one(self, connection: Connection) -> None:
        self.send(connection, ORDERS, *"01")
        poller = connection.poller(ORDERS)
        claims = [self.take(poller, 3, 5), *self.claim(poller, 3, range(6, 7))]
        assert [(claim.cycle, claim.sequence) for claim in claims] == [(3, 5), (3, 6)]
        assert poller.take(3, 7) is None

    def test_two_pollers_share_what_waits(self, connect: Connect) -> None:
        first, second = connect(), connect()
        self.send(first, ORDERS, *map(str, range(50)))
        one, other = first.poller(ORDERS), second.poller(ORDERS)
        claims = [self.take_soon(other), *one.claim(1, range(30)), *other.claim(1, range(1, 30))]
        self.release_fetched(one)
        claims += [self.take_soon(other, 1, number) for number in range(len(claims), 50)]
        assert len(claims) == len({claim.message_id for claim in claims}) == 50

    def test_what_expires_between_two_claims_is_not_claimed(self, connection: Connection) -> None:
        soon = time.time_ns() // 1_000_000 + SOON
        self.send(connection, ORDERS, "0", priority=9)
        self.send(connection, ORDERS, "1", "2", expiration=soon)
        connection.send(ORDERS, [self.text("3"), self.text("4", expiration=1), self.text("5")])
        poller = connection.poller(ORDERS)
        claims = self.claim(poller, 1, range(1))
        self.let_pass(soon)
        claims += self.claim(poller, 1, range(1, 3))
        claims += poller.claim(1, range(3, 9))
        assert self._bodies(connection, claims) == ["0", "3", "5"]
        assert [claim.sequence for claim in claims] == [0, 1, 2]
        assert poller.expired == (3 if self.able.shows_all else 0)

    @needs("selectors")
    def test_a_selector_leaves_no_gap_in_the_numbers(self, connection: Connection) -> None:
        for number in range(6):
            message = self.text(str(number))
            message.set_property("number", number)
            connection.send(ORDERS, [message])
        poller = connection.poller(ORDERS, selector="number = 1 OR number > 3")
        claims = [*self.claim(poller, 1, range(10, 13)), *poller.claim(1, range(13, 20))]
        assert [claim.sequence for claim in claims] == [10, 11, 12]
        assert self._bodies(connection, claims) == ["1", "4", "5"]
        assert self.drain(connection, ORDERS) == ["0", "2", "3"]

    def test_what_is_given_back_can_be_claimed_again(self, connection: Connection) -> None:
        self.send(connection, ORDERS, *"012")
        poller = connection.poller(ORDERS)
        claims = self.claim(poller, 1, range(3))
        connection.settle([Settlement(one, give_back=True, delivery_count=1) for one in claims])
        again = self.claim_soon(poller, 2, range(3))
        assert self._bodies(connection, again) == ["0", "1", "2"]
        assert [claim.delivery_count for claim in again] == [self.count_after_return(1)] * 3

    def test_a_closed_poller_claims_nothing(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "0")
        poller = connection.poller(ORDERS)
        poller.close()
        with pytest.raises(ProviderError):
            poller.claim(1, range(3))
        assert self.bodies(connection, ORDERS) == ["0"]

    @needs("takeover")
    def test_the_claims_of_a_dead_client_are_listed_by_their_numbers(self, connect: Connect) -> None:
        first, second = connect(instance="one"), connect(instance="two")
        self.send(first, ORDERS, *"0123")
        one, other = first.poller(ORDERS), first.poller(ORDERS)
        claims = [*one.claim(1, range(0, 4, 2)), *other.claim(1, range(1, 5, 2))]
        assert len(claims) == 4
        first.abandon()
        (leftover,) = second.leftovers(None, at_start=True)
        assert [claim.sequence for claim in leftover.claims] == [0, 1, 2, 3]
        leftover.forget()
