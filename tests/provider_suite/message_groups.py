"""Groups of messages: a poller by group takes nothing of a group that another client has in progress."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.polling import Poller
from connector.messaging.provider import Connection
from connector.messaging.settlement import GroupSettlement, Settlement
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


class _Grouped(SuiteBase):
    def send_grouped(self, connection: Connection, destination: Destination, *names: str) -> None:
        """Sends a message for each name. The letters of a name are its group. ``1`` has no group."""
        messages = []
        for name in names:
            message = self.text(name)
            if group := name.rstrip("0123456789"):
                message.set_property("JMSXGroupID", group)
            messages.append(message)
        connection.send(destination, messages)

    def by_group(self, connection: Connection, selector: str = "") -> Poller:
        return connection.poller(ORDERS, selector=selector, by_group=True)

    def bodies_of(self, connection: Connection, claims: Sequence[Claim]) -> list[str]:
        """Returns the bodies of claims."""
        return [self.load(connection, claim).body.decode() for claim in claims]

    def settle_all(self, connection: Connection, claims: Sequence[Claim]) -> None:
        connection.settle([Settlement(claim) for claim in claims])

    def return_all(self, connection: Connection, claims: Sequence[Claim]) -> None:
        connection.settle([Settlement(claim, give_back=True) for claim in claims])


@needs("message_groups", has=False)
class MessageGroupsIgnoredTests(_Grouped):
    def test_a_poller_by_group_takes_what_any_poller_takes(self, connect: Connect) -> None:
        one, other = connect(), connect()
        self.send_grouped(one, ORDERS, "a1", "a2")
        poller = one.poller(ORDERS)
        self.take(poller)
        self.release_fetched(poller)
        assert self.bodies_of(other, [self.take_soon(self.by_group(other))]) == ["a2"]


@needs("message_groups")
class MessageGroupTests(_Grouped):
    @pytest.mark.parametrize("selector", ["", "JMSPriority = 4"])
    def test_a_poller_by_group_leaves_the_groups_that_another_client_has_claimed(
        self, connect: Connect, selector: str
    ) -> None:
        one, other = connect(), connect()
        self.send_grouped(one, ORDERS, "a1", "a2", "b1", "a3", "1", "b2")
        claims = self.by_group(one, selector).claim(1, range(1))
        assert self.bodies_of(one, claims) == ["a1"]
        poller = self.by_group(other, selector)
        assert self.bodies_of(other, poller.claim(1, range(2))) == ["b1", "1"]
        assert self.bodies_of(other, poller.claim(2, range(5))) == ["b2"]
        assert poller.claim(3, range(5)) == []

    def test_it_heeds_the_claims_of_a_poller_that_is_not_by_group(self, connect: Connect) -> None:
        one, other = connect(), connect()
        self.send_grouped(one, ORDERS, "a1", "a2", "b1")
        assert len(one.poller(ORDERS).claim(1, range(1))) == 1
        assert self.bodies_of(other, self.by_group(other).claim(1, range(5))) == ["b1"]

    def test_a_poller_that_is_not_by_group_takes_from_any_group(self, connect: Connect) -> None:
        one, other = connect(), connect()
        self.send_grouped(one, ORDERS, "a1", "a2")
        assert len(self.by_group(one).claim(1, range(1))) == 1
        assert self.bodies_of(other, other.poller(ORDERS).claim(1, range(5))) == ["a2"]

    @pytest.mark.parametrize("selector", ["", "JMSPriority = 4"])
    def test_the_claims_of_a_client_do_not_hold_up_itself(
        self, connection: Connection, selector: str
    ) -> None:
        self.send_grouped(connection, ORDERS, "a1", "a2", "a3")
        poller = self.by_group(connection, selector)
        found = [self.bodies_of(connection, poller.claim(cycle, range(1))) for cycle in range(4)]
        assert found == [["a1"], ["a2"], ["a3"], []]

    @pytest.mark.parametrize("selector", ["", "JMSPriority = 4"])
    def test_a_group_is_free_once_its_claims_are_settled(self, connect: Connect, selector: str) -> None:
        one, other = connect(), connect()
        self.send_grouped(one, ORDERS, "a1", "a2", "a3", "b1", "b2", "b3")
        first, second, third, fourth = self.by_group(one).claim(1, range(4))[:4]
        poller = self.by_group(other, selector)
        assert poller.claim(1, range(5)) == []
        self.settle_all(one, [first])
        assert poller.claim(2, range(5)) == [], "it has two more"
        one.settle([GroupSettlement([second, third], ARCHIVE)])
        assert poller.claim(3, range(5)) == [], "there are no more of the group"
        self.settle_all(one, [fourth])
        assert self.bodies_of(other, poller.claim(4, range(5))) == ["b2", "b3"]

    @pytest.mark.parametrize("selector", ["", "JMSPriority = 4"])
    def test_what_was_given_back_comes_before_the_rest_of_its_group(
        self, connect: Connect, selector: str
    ) -> None:
        one, other = connect(), connect()
        self.send_grouped(one, ORDERS, "a1", "a2", "a3")
        claims = self.by_group(one).claim(1, range(2))
        poller = self.by_group(other, selector)
        assert poller.claim(1, range(5)) == []
        self.return_all(one, claims)
        assert self.bodies_of(other, poller.claim(2, range(5))) == ["a1", "a2", "a3"]

    def test_a_group_that_is_held_leaves_room_for_others(self, connect: Connect) -> None:
        one, other = connect(), connect()
        self.send_grouped(one, ORDERS, *(f"a{n}" for n in range(300)), "b1")
        assert len(self.by_group(one).claim(1, range(1))) == 1
        assert self.bodies_of(other, self.by_group(other).claim(1, range(1))) == ["b1"]

    def test_a_wait_ends_for_no_group_that_is_held(self, connect: Connect) -> None:
        one, other = connect(), connect()
        self.send_grouped(one, ORDERS, "a1", "a2")
        assert len(self.by_group(one).claim(1, range(1))) == 1
        for selector in ("", "JMSPriority = 4"):
            poller = self.by_group(other, selector)
            assert poller.claim(1, range(1)) == []
            started = time.monotonic()
            other.wait(0.2)
            assert time.monotonic() - started >= 0.2
            poller.close()

    def test_a_group_is_one_of_its_destination(self, connect: Connect) -> None:
        one, other = connect(), connect()
        self.send_grouped(one, NOTES, "a1")
        self.send_grouped(one, ORDERS, "a2")
        assert len(one.poller(NOTES, by_group=True).claim(1, range(1))) == 1
        assert self.bodies_of(other, self.by_group(other).claim(1, range(5))) == ["a2"]

    @needs("topics")
    def test_the_consumers_of_a_subscription_share_its_groups(self, connect: Connect) -> None:
        one, other = connect(), connect()
        wanted = TopicSubscription(PRICES, "audit", durable=True, shared=True)
        books = TopicSubscription(PRICES, "books", durable=True, shared=True)
        pollers = [client.poller(wanted, by_group=True) for client in (one, other)]
        beside = other.poller(books, by_group=True)
        self.send_grouped(one, PRICES, "a1", "a2", "b1")
        assert self.bodies_of(one, pollers[0].claim(1, range(1))) == ["a1"]
        assert self.bodies_of(other, pollers[1].claim(1, range(5))) == ["b1"]
        assert self.bodies_of(other, beside.claim(2, range(5))) == ["a1", "a2", "b1"]

    @needs("takeover")
    def test_a_dead_client_holds_its_groups_until_somebody_takes_over(self, connect: Connect) -> None:
        one, other = connect(), connect()
        self.send_grouped(one, ORDERS, "a1", "a2", "b1")
        assert len(self.by_group(one).claim(1, range(1))) == 1
        one.abandon()
        poller = self.by_group(other)
        assert self.bodies_of(other, poller.claim(1, range(5))) == ["b1"]
        self.end_all(other.leftovers(None, at_start=False), expected=1)
        assert self.bodies_of(other, poller.claim(2, range(5))) == ["a1", "a2"]

    @needs("in_progress")
    def test_a_message_in_progress_holds_its_group_in_its_origin(self, connect: Connect) -> None:
        one, other = connect(), connect()
        self.send_grouped(one, ORDERS, "a1", "a2", "b1")
        claims = one.poller(ORDERS, IN_PROGRESS, by_group=True).claim(1, range(1))
        poller = other.poller(ORDERS, IN_PROGRESS, by_group=True)
        assert self.bodies_of(other, poller.claim(1, range(5))) == ["b1"]
        self.return_all(one, claims)
        assert self.bodies_of(other, poller.claim(2, range(5))) == ["a1", "a2"]

    @needs("in_progress")
    def test_a_message_that_waits_in_progress_holds_its_group_until_somebody_adopts_it(
        self, connect: Connect
    ) -> None:
        one, other = connect(), connect()
        self.send_grouped(one, ORDERS, "a1", "a2")
        pollers = [client.poller(ORDERS, IN_PROGRESS, by_group=True) for client in (one, other)]
        (claim,) = pollers[0].claim(1, range(1))
        one.settle([Settlement(claim, give_back=True, stay=True)])
        assert [poller.claim(2, range(5)) for poller in pollers] == [[], []]
        (waiting,) = other.find_unowned(IN_PROGRESS)
        adopted = other.adopt(waiting, 3, 0)
        assert adopted is not None
        assert pollers[0].claim(3, range(5)) == []
        assert self.bodies_of(other, pollers[1].claim(4, range(5))) == ["a2"]

    @needs("takeover")
    @needs("in_progress")
    def test_a_message_in_doubt_that_nobody_owns_holds_nobody_up(self, connect: Connect) -> None:
        one, other = connect(), connect()
        self.send_grouped(one, ORDERS, "a1", "a2")
        assert len(one.poller(ORDERS, IN_PROGRESS, by_group=True).claim(1, range(1))) == 1
        one.abandon()
        poller = other.poller(ORDERS, IN_PROGRESS, by_group=True)
        for leftover in other.leftovers(IN_PROGRESS, at_start=False):
            assert poller.claim(1, range(5)) == []
            for claim in leftover.claims:
                other.leave_unowned(claim)
            leftover.forget()
        assert self.bodies_of(other, poller.claim(2, range(5))) == ["a2"]
