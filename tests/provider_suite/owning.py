"""Operators and programs leave what a client owns. They get what nobody owns, such as an event in doubt."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from connector.messaging.client import AcknowledgeMode
from connector.messaging.message import Message
from connector.messaging.provider import Connection, Provider
from connector.messaging.settlement import Settlement
from tests.provider_suite.base import (
    ARCHIVE,
    IN_PROGRESS,
    NOTES,
    ORDERS,
    SOON,
    Connect,
    SuiteBase,
    needs,
)


def _all(message: Message) -> bool:
    return True


class OwningTests(SuiteBase):
    def _own(self, connection: Connection, *bodies: str, **headers: int) -> Sequence[str]:
        """Sends messages and claims them into the in-progress destination."""
        sent = self.send(connection, ORDERS, *bodies, **headers)
        self.claim(connection.poller(ORDERS, IN_PROGRESS), 1, range(len(bodies)))
        return sent

    def _take_by_hand(self, connection: Connection, *, to: bool = True) -> list[tuple[str, int]]:
        """Moves what a picker takes of the in-progress destination. Returns the bodies and deliveries."""
        claims = connection.picker(IN_PROGRESS, _all).claim(5, range(9))
        found = [(self.load(connection, one).body.decode(), one.delivery_count) for one in claims]
        place = NOTES if to else None
        if claims:
            connection.settle([Settlement(one, copy_to=place) for one in claims])
        return found

    def _receive(self, provider: Provider) -> list[str]:
        """Receives what a program gets of the in-progress destination."""
        with self.client_class(provider, takeover_interval=0.0) as connection:
            connection.start()
            session = connection.session(AcknowledgeMode.AUTO)
            consumer, found = session.consumer(IN_PROGRESS), []
            while (message := consumer.receive(0.1)) is not None:
                found.append(message.body.decode())
            return found

    @needs("in_progress")
    def test_what_an_adapter_has_in_progress_nobody_takes(self, provider: Provider, connect: Connect) -> None:
        before = time.time() - 1
        owner, operator = connect("suite", "first"), connect("")
        (identity,) = self._own(owner, "1")
        assert not self._take_by_hand(operator)
        assert not self._receive(provider)
        ((note,),) = (operator.owners(IN_PROGRESS)[identity],)
        assert "'first'" in note.who
        assert "'suite'" in note.who
        assert "process" in note.who
        assert before < note.since < time.time() + 1
        assert "since 20" in str(note)
        assert owner.find_unowned(IN_PROGRESS) == []
        assert self.bodies(owner, IN_PROGRESS) == ["1"]

    @needs("in_progress")
    def test_headers_of_any_length_keep_their_owner(self, provider: Provider, connect: Connect) -> None:
        owner, operator = connect(), connect("")
        sent = owner.send(ORDERS, [self.text("1", type="t" * 600)])
        claim = self.take(owner.poller(ORDERS, IN_PROGRESS))
        assert not self._take_by_hand(operator)
        assert not self._receive(provider)
        assert [*operator.owners(IN_PROGRESS)] == sent
        owner.settle([Settlement(claim, copy_to=ARCHIVE)], fenced=True)
        assert operator.owners(IN_PROGRESS) == {}

    @needs("in_progress")
    def test_a_program_puts_nothing_aside_that_is_in_progress(
        self, provider: Provider, connect: Connect
    ) -> None:
        owner = connect()
        expiration = time.time_ns() // 1_000_000 + SOON
        sent = owner.send(ORDERS, [self.text("1", expiration=expiration)])
        claim = self.take(owner.poller(ORDERS, IN_PROGRESS))
        self.let_pass(expiration)
        assert self._receive(provider) == []
        owner.settle([Settlement(claim, copy_to=ARCHIVE)], fenced=True)
        assert [one.message_id for one in owner.browse(ARCHIVE)] == sent

    @needs("in_progress")
    def test_what_a_dead_adapter_had_in_progress_waits_for_its_takeover(
        self, provider: Provider, connect: Connect
    ) -> None:
        first, second, operator = connect(), connect(), connect("")
        (identity,) = self._own(first, "1")
        first.abandon()
        assert not self._take_by_hand(operator)
        assert not self._receive(provider)
        assert "has ended" in str(operator.owners(IN_PROGRESS)[identity][0])
        (leftover,) = second.leftovers(IN_PROGRESS, at_start=True)
        second.leave_unowned(leftover.claims[0])
        leftover.forget()
        assert operator.owners(IN_PROGRESS) == {}
        assert self._take_by_hand(operator) == [("1", 1)]

    @needs("in_progress")
    def test_what_is_in_doubt_is_nobodys_and_its_copy_counts_on(self, connect: Connect) -> None:
        first, second, operator = connect(), connect(), connect("")
        self._own(first, "1")
        first.abandon()
        (leftover,) = second.leftovers(IN_PROGRESS, at_start=True)
        second.leave_unowned(leftover.claims[0])
        leftover.forget()
        (claim,) = operator.picker(IN_PROGRESS, _all).claim(1, range(2))
        assert claim.headers().properties["connector_origin_destination"] == str(ORDERS)
        operator.settle([Settlement(claim, copy_to=ORDERS, delivery_count=claim.delivery_count)], fenced=True)
        again = self.take_soon(second.poller(ORDERS))
        got = self.load(second, again)
        assert (again.delivery_count, got.delivery_count) == (1, 2)
        assert not {"connector_token", "connector_left", "connector_owner"} & got.properties.keys()
        second.settle([Settlement(again, copy_to=ARCHIVE)])
        assert self.bodies(second, ARCHIVE) == ["1"]

    @needs("in_progress")
    def test_programs_receive_what_is_in_doubt(self, provider: Provider, connect: Connect) -> None:
        owner, other = connect(), connect()
        self._own(owner, "1", "2")
        owner.abandon()
        (leftover,) = other.leftovers(IN_PROGRESS, at_start=True)
        for claim in leftover.claims:
            other.leave_unowned(claim)
        leftover.forget()
        assert sorted(self._receive(provider)) == ["1", "2"]
        assert other.find_unowned(IN_PROGRESS) == []

    @needs("in_progress")
    def test_what_waits_is_nobodys_and_waits_again_when_an_operator_fails(self, connect: Connect) -> None:
        owner, operator = connect(), connect("")
        self.send(owner, ORDERS, "1")
        claim = self.take(owner.poller(ORDERS, IN_PROGRESS))
        owner.settle([Settlement(claim, give_back=True, stay=True)])
        assert operator.owners(IN_PROGRESS) == {}
        (picked,) = operator.picker(IN_PROGRESS, _all).claim(1, range(2))
        operator.settle([Settlement(picked, give_back=True, delivery_count=picked.delivery_count)])
        (waiting,) = owner.find_unowned(IN_PROGRESS)
        assert (waiting.waits, waiting.destination, waiting.delivery_count) == (True, ORDERS, 0)
        assert self._take_by_hand(operator, to=False) == [("1", 0)]
        assert owner.find_unowned(IN_PROGRESS) == []

    @needs("shows_all")
    def test_who_has_claimed_a_message_is_told(
        self, connect: Connect, client: Callable[..., Connection]
    ) -> None:
        adapter, program, operator = connect("suite", "first"), client(), client()
        first, second = self.send(adapter, ORDERS, "1", "2")
        self.take(adapter.poller(ORDERS))
        self.take(program.poller(ORDERS))
        assert operator.picker(ORDERS, _all).claim(1, range(9)) == []
        owners = operator.owners(ORDERS)
        assert "'first'" in str(owners[first][0])
        assert "adapter" not in str(owners[second][0])
        assert all(note.since for notes in owners.values() for note in notes)
        assert [*program.owners(ORDERS)] == [first], "what is one's own is no obstacle"
        assert operator.owners(NOTES) == {}

    @needs("lots")
    @needs("shows_all")
    def test_messages_of_a_lot_are_owned_by_the_lot(self, connect: Connect) -> None:
        loader, operator = connect(), connect("")
        sent = self.send(loader, ORDERS, "1", "2")
        lot = loader.lots.claim(ORDERS, "nightly", 5)
        assert lot is not None
        owners = operator.owners(ORDERS)
        assert owners.keys() == set(sent)
        assert "the lot 1 of 'nightly'" in str(owners[sent[0]][0])
        assert operator.picker(ORDERS, _all).claim(1, range(9)) == []
        lot.settle([Settlement(one) for one in lot.claims])
        assert operator.owners(ORDERS) == {}
