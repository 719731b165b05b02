"""Polls the inputs at a broker.

With transactions each input is polled alone, because the claims of one poll are one transaction. An input
whose events cannot be settled, or from which something went back, is left out for a while.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from connector.events.claim.intake import Intake
from connector.events.claim.polled_input import PolledInput
from connector.events.connection_state import ConnectionState
from connector.events.cycle_report import CycleReport
from connector.events.settle.no_transactions import NoTransactions
from connector.events.settle.open_settlements import OpenSettlements
from connector.events.settle.settling import untouched_settlement
from connector.messaging.claim import Claim
from connector.messaging.input import Input
from connector.messaging.settlement import SettlementOpen


class BrokerIntake(Intake):
    """The pollers of one connection to a broker."""

    def __init__(
        self, state: ConnectionState, transactions: NoTransactions, open_settlements: OpenSettlements
    ) -> None:
        self._transactions = transactions
        self._open_settlements = open_settlements
        self._is_patient = False
        self._held: list[Sequence[Claim]] = []
        """Transactions with an event that another client still has."""
        super().__init__(state)

    def poll(self, report: CycleReport, *, ahead: bool, patient: bool) -> Iterator[Sequence[Claim]]:
        self._is_patient = patient
        held, self._held = self._held, []
        for claims in held:
            yield from self._ready(claims, report)
        for one in self._open:
            if not patient and (reason := self._obstacle(one)):
                report.fail(reason, provider_failed=False)
        chosen = self._choose(ahead=ahead, patient=patient)
        for group in [[one] for one in chosen] if self._transactions.polls_alone else [chosen]:
            yield from self._ready(self._traced_claim(group, report), report)

    def _ready(self, claims: Sequence[Claim], report: CycleReport) -> Iterator[Sequence[Claim]]:
        """Yields claims, but not those that the provider holds, or that another client still has."""
        report.claimed += len(claims)
        if claims and self._transactions.hold(claims):
            self._inputs[claims[0].input].is_full = True
            report.held += len(claims)
        elif claims and self._transactions.must_wait(claims):
            self._held.append(claims)
            report.busy += len(claims)
        else:
            yield claims

    def _claim(self, inputs: Sequence[PolledInput], report: CycleReport) -> list[Claim]:
        for one in inputs:
            one.most = self._transactions.quantity(one)
        return super()._claim(inputs, report)

    def _first_sequence(self) -> int | None:
        return None if self._transactions.polls_alone else super()._first_sequence()

    def _is_shut(self, one: PolledInput) -> bool:
        return super()._is_shut(one) or self._must_rest(one)

    def _may_poll_again(self, one: PolledInput) -> bool:
        return not self._must_rest(one) and super()._may_poll_again(one)

    def _must_rest(self, one: PolledInput) -> bool:
        """Whether nothing is claimed from an input now: it has a pause, or its events cannot be settled."""
        return (self._is_patient and one.back_off.is_on) or bool(self._obstacle(one))

    def _obstacle(self, one: PolledInput) -> str:
        """Returns why the events of an input cannot be settled now. Empty = they can."""
        open_settlement = self._open_settlements.reason(one.input)
        return open_settlement or self._transactions.obstacle(one, looks=not self._is_patient)

    def _may_poll(self, one: PolledInput, *, ahead: bool) -> bool:
        waits = self._waits
        if (waits.until or waits.left_aside) and waits.has(one.destination):
            return False
        if ahead and not self._transactions.polls_alone:
            return not self._open_settlements.are_many(one.input) and self._schedule.may_poll(one)
        if any(claims[0].input == one.input for claims in self._held):
            return False
        may_begin = not ahead or one.is_full  # a second transaction beside the events of the first
        return (may_begin and self._transactions.may_overlap(one)) or self._schedule.is_settled(one.input)

    def _reason(self, one: PolledInput) -> str:
        return super()._reason(one) or self._obstacle(one)

    def has_bound_messages(self, wanted: Input, others: Sequence[str]) -> bool:
        return super().has_bound_messages(wanted, others) or self._transactions.awaits(wanted.destination)

    def give_back_held(self, *, only_paused: bool = False) -> None:
        held, self._held = self._held, []
        for claims in held:
            if not only_paused or not self._inputs[claims[0].input].is_open:
                with contextlib.suppress(SettlementOpen):
                    self._connection.settle([untouched_settlement(claim) for claim in claims])
                    continue
            self._held.append(claims)
