"""Polls the inputs at a broker.

With transactions each input is polled alone, because the claims of one poll are one transaction. An input
whose events cannot be settled, or from which something went back, is left out for a while.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence

from connector.events.connection_state import ConnectionState
from connector.events.intake import Intake
from connector.events.no_transactions import NoTransactions
from connector.events.open_settlements import OpenSettlements
from connector.events.report import CycleReport
from connector.events.settings import Input
from connector.events.settling import untouched_settlement
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.polling import Poller
from connector.messaging.settlement import SettlementOpen


class BrokerIntake(Intake):
    """The pollers of one connection to a broker.

    Args:
        state: of the connection.
        transactions: of the broker, or none.
        open_settlements: of earlier claims.
    """

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
        for poller in self._pollers:
            if not patient and (reason := self._obstacle(poller.destination)):
                report.fail(reason, provider_failed=False)
        for group in self._transactions.groups(self._choose(ahead=ahead, patient=patient)):
            yield from self._ready(self._traced_claim(group, report), report)

    def _ready(self, claims: Sequence[Claim], report: CycleReport) -> Iterator[Sequence[Claim]]:
        """Yields claims, but not those that the provider holds, or that another client still has."""
        report.claimed += len(claims)
        if claims and self._transactions.hold(claims):
            self._full.add(claims[0].destination)
            report.held += len(claims)
        elif claims and self._transactions.must_wait(claims):
            self._held.append(claims)
            report.busy += len(claims)
        else:
            yield claims

    def _first_sequence(self) -> int | None:
        return None if self._transactions.polls_alone else super()._first_sequence()

    def _quantity(self, pollers: Sequence[Poller]) -> int:
        return self._transactions.quantity(pollers, self._settings.quantity)

    def _is_shut(self, poller: Poller) -> bool:
        return super()._is_shut(poller) or self._must_rest(poller.destination)

    def _may_poll_again(self, poller: Poller) -> bool:
        return not self._must_rest(poller.destination) and super()._may_poll_again(poller)

    def _must_rest(self, destination: Destination) -> bool:
        """Whether nothing is claimed from an input now: it has a pause, or its events cannot be settled."""
        has_pause = self._is_patient and self._working.pauses.has(destination)
        return has_pause or bool(self._obstacle(destination))

    def _obstacle(self, destination: Destination) -> str:
        """Returns why the events of an input cannot be settled now. Empty = they can."""
        looks = not self._is_patient
        open_settlement = self._open_settlements.reason(destination)
        return open_settlement or self._transactions.obstacle(destination, looks=looks)

    def _may_poll(self, destination: Destination, *, ahead: bool) -> bool:
        if self._waits.until and self._waits.has(destination):
            return False
        has_more = destination in self._full
        if ahead and not self._transactions.polls_alone:
            has_room = not self._open_settlements.are_many(destination)
            return has_room and self._schedule.may_poll(destination, has_more=has_more)
        may_begin = not ahead or has_more  # a second transaction beside the events of the first
        if self._is_held(destination):
            return False
        return (may_begin and self._transactions.may_overlap(destination)) or self._schedule.is_settled(
            destination
        )

    def _is_held(self, destination: Destination) -> bool:
        return any(claims[0].destination == destination for claims in self._held)

    def _reason(self, poller: Poller) -> str:
        return poller.obstacle or self._obstacle(poller.destination)

    def keeps(self, one: Input) -> bool:
        return super().keeps(one) or self._transactions.awaits(one.destination)

    def give_back_held(self, inputs: Collection[Destination] | None = None) -> None:
        held, self._held = self._held, []
        for claims in held:
            if inputs is None or claims[0].destination in inputs:
                with contextlib.suppress(SettlementOpen):
                    self._connection.settle([untouched_settlement(claim) for claim in claims])
                    continue
            self._held.append(claims)
