"""Recovery: claims of dead clients, and their takeover."""

from __future__ import annotations

import pytest

from connector.messaging.settlement import Settlement
from tests.provider_suite.base import (
    NOTES,
    ORDERS,
    Connect,
    SuiteBase,
    needs,
)


class RecoveryTests(SuiteBase):
    @needs("takeover")
    def test_claims_of_a_client_that_ended_are_found_with_who_it_was(self, connect: Connect) -> None:
        first, second = connect("suite", "a"), connect("suite", "b")
        first.send(ORDERS, [self.text(str(n)) for n in range(3)])
        poller = first.poller(ORDERS)
        for number in range(2):
            self.take(poller, cycle=1, sequence=number)
        first.abandon()
        (leftover,) = second.leftovers(None, at_start=True)
        assert (leftover.client_id, leftover.application, leftover.instance) == (
            first.client_id,
            "suite",
            "a",
        )
        assert [(claim.cycle, claim.sequence) for claim in leftover.claims] == [(1, 0), (1, 1)]
        second.settle([Settlement(c, give_back=True, delivery_count=1) for c in leftover.claims])
        leftover.forget()
        assert list(second.leftovers(None, at_start=True)) == []
        poller = second.poller(ORDERS)
        assert [self.take_soon(poller, sequence=n).delivery_count for n in range(3)] == [1, 1, 0]

    def test_claims_of_a_living_client_are_no_leftovers(self, connect: Connect) -> None:
        first, second = connect(), connect()
        first.send(ORDERS, [self.text("body")])
        self.take(first.poller(ORDERS))
        for at_start in (True, False):
            assert list(second.leftovers(None, at_start=at_start)) == []

    def test_a_client_that_was_closed_leaves_nothing(self, connect: Connect) -> None:
        first, second = connect(), connect()
        first.send(ORDERS, [self.text("body")])
        claim = self.take(first.poller(ORDERS))
        first.settle([Settlement(claim)])
        first.close()
        assert list(second.leftovers(None, at_start=True)) == []

    @needs("takeover")
    def test_nobody_else_takes_over_until_the_first_lets_go(self, connect: Connect) -> None:
        first, second, third = connect(), connect(), connect()
        first.send(ORDERS, [self.text("body")])
        self.take(first.poller(ORDERS))
        first.abandon()
        (leftover,) = second.leftovers(None, at_start=False)
        assert list(third.leftovers(None, at_start=False)) == []
        leftover.release()
        (later,) = third.leftovers(None, at_start=False)
        assert (later.client_id, len(later.claims)) == (first.client_id, 1)
        later.release()

    @needs("takeover")
    @pytest.mark.parametrize("end", ["close", "abandon"])
    def test_a_claim_that_nobody_has_settled_comes_again_when_its_client_is_forgotten(
        self, connect: Connect, end: str
    ) -> None:
        first, second = connect(), connect()
        first.send(ORDERS, [self.text(str(number), type="t" * 300 * number) for number in range(2)])
        poller = first.poller(ORDERS)
        for number in range(2):
            self.take(poller, sequence=number)
        getattr(first, end)()
        again = second.poller(ORDERS)
        assert again.take(1, 0) is None
        # some providers find the claims of a closed client only at a start
        self.end_all(second.leftovers(None, at_start=end == "close"), expected=1)
        assert list(second.leftovers(None, at_start=True)) == []
        for number in range(2):
            claim = self.take_soon(again, sequence=number)
            got = self.load(second, claim)
            assert (claim.delivery_count, got.body, got.type or "") == (
                1,
                str(number).encode(),
                "t" * 300 * number,
            )

    @needs("takeover")
    @pytest.mark.parametrize("end", ["close", "abandon"])
    def test_what_a_client_has_not_dealt_with_when_it_ends_is_left_to_the_next(
        self, connect: Connect, end: str
    ) -> None:
        first, second, third = connect(), connect(), connect()
        first.send(ORDERS, [self.text("body")])
        self.take(first.poller(ORDERS))
        first.abandon()
        held = list(second.leftovers(None, at_start=False))
        assert [leftover.client_id for leftover in held] == [first.client_id]
        getattr(second, end)()
        held[0].forget()  # it is no longer its to forget
        later = {leftover.client_id: leftover for leftover in third.leftovers(None, at_start=False)}
        assert [claim.destination for claim in later[first.client_id].claims] == [ORDERS]
        for leftover in later.values():
            leftover.release()

    @needs("takeover")
    def test_an_adapter_is_left_to_the_instances_of_its_own_application(self, connect: Connect) -> None:
        first, stranger = connect("suite"), connect("another")
        first.send(ORDERS, [self.text("body")])
        self.take(first.poller(ORDERS))
        first.abandon()
        assert list(stranger.leftovers(None, at_start=True)) == []
        self.end_all(connect("suite").leftovers(None, at_start=True), expected=1)

    def test_prepared_messages_of_the_dead_are_never_sent(self, connect: Connect) -> None:
        first, second = connect(), connect()
        access = self.access(first)
        access.prepare(NOTES, self.text("prepared"), "key")
        access.sync()
        first.abandon()
        self.end_all(second.leftovers(None, at_start=True), expected=1)
        assert self.visible(second, NOTES) == []
