"""Settles the claims of a broker, whose transactions are settled as a whole, in threads of their own."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from connector.events.claim.duplicates import published_of
from connector.events.connection_state import ConnectionState
from connector.events.cycle_report import CycleReport
from connector.events.outcome import Outcome
from connector.events.run.schedule import EndedClaims
from connector.events.settle.closing import Closing
from connector.events.settle.no_transactions import NoTransactions
from connector.events.settle.open_settlements import OpenSettlements
from connector.events.settle.settling import Commit, SettlementRules
from connector.messaging.claim import Claim
from connector.messaging.settlement import SettlementOpen, TransactionRefused
from connector.messaging.state_store import ClientJournals

_log: Final = logging.getLogger("connector.events")

_MOST_COMMITS: Final = 1000
"""Commits side by side. Each input of a broker has two transactions at most."""


class BrokerClosing(Closing):
    """Settles in threads of their own, because a destination may be full. That delays nothing else.

    Args:
        state, rules, journals: as in :class:`.Closing`.
    """

    def __init__(
        self,
        state: ConnectionState,
        rules: SettlementRules,
        journals: ClientJournals,
        transactions: NoTransactions,
        open_settlements: OpenSettlements,
    ) -> None:
        super().__init__(state, rules, journals)
        self._transactions = transactions
        self._open = open_settlements
        self._threads = ThreadPoolExecutor(_MOST_COMMITS, thread_name_prefix="settle")

    @property
    def is_running(self) -> bool:  # type: ignore[override]  # constants where nothing stays open
        return self._open.is_running

    @property
    def has_open(self) -> bool:  # type: ignore[override]  # as before
        return bool(self._open)

    @property
    def first_reason(self) -> str:  # type: ignore[override]  # as before
        return self._open.first_reason

    def begin(self, claims: Sequence[Claim]) -> tuple[Sequence[Claim], list[tuple[Claim, Outcome]]]:
        return self._transactions.begin(claims)

    def close(self, ended: EndedClaims, *, began: float | None = None) -> CycleReport:
        for one in self._transactions.complete(ended):
            for part in one.by_input():
                self._open.add(self._settler.prepare(part, self._schedule.id_of, began))
        self.settle_open()
        return CycleReport()

    def settle_open(self, *, at_once: bool = False) -> None:
        for commit in self._open.begin(at_once=at_once):
            self._threads.submit(self._try, commit)

    def _try(self, commit: Commit) -> None:
        commit.error = None
        try:
            self._traced_settle(commit)
        except BaseException as error:
            commit.error = error
        self.tell(commit)

    def end_try(self, commit: Commit) -> bool:
        error = commit.error
        if isinstance(error, SettlementOpen):
            published = published_of(commit.claims)
            if self._settler.fail(commit, error.refused, self._schedule.id_of):
                self._forget_published(published, commit.claims)
                self._open.repeat(commit)
                self.settle_open()
                return False
            self._open.keep(commit, str(error))
            return True
        self._open.remove(commit)
        if error is not None and not isinstance(error, TransactionRefused):
            raise error
        return True

    def close_commit(self, commit: Commit) -> CycleReport:
        report = CycleReport()
        if isinstance(commit.error, SettlementOpen):
            report.fail(str(commit.error), provider_failed=False)
        elif isinstance(commit.error, TransactionRefused):
            self._note_refusal(commit, commit.error, report)
            self._forget(commit.claims)
        else:
            report = self._end(commit)
        return report

    def _end(self, commit: Commit) -> CycleReport:
        new = {id(claim) for claim in self._transactions.note_settled(commit.claims)}
        if self._duplicates is not None and new:
            self._duplicates.add(one for one in commit.claims.decided if id(one[0]) in new)
        return super()._end(commit)

    def _note_refusal(self, commit: Commit, error: TransactionRefused, report: CycleReport) -> None:
        """Notes that the broker has refused a transaction. That holds up no other."""
        ended = commit.claims
        published = published_of(ended)
        is_repeated = self._transactions.note_refusal(ended, error)
        self._forget_published(published, ended)
        for observe in self._hooks.refused:
            observe(commit, str(error))
        number, reason = len(ended.claims), str(error)
        report.returned += number
        if not is_repeated:
            report.fail(reason, provider_failed=False)
            return
        report.rolled_back += number
        fields = {"destination": str(ended.claims[0].destination), "number": number, "reason": reason}
        _log.warning("a transaction was refused and is repeated", extra=fields)

    def _forget_published(self, before: Sequence[tuple[Claim, Outcome]], ended: EndedClaims) -> None:
        """Lets the events come again that have failed in the end, after they counted as published."""
        if self._duplicates is not None:
            kept = {id(claim) for claim, _ in published_of(ended)}
            self._duplicates.remove(one for one in before if id(one[0]) not in kept)

    def _forget_cycles(self, cycles: list[int]) -> None:
        self._transactions.forget(cycles)

    def recover(self, timeout: float) -> None:
        self._transactions.recover(timeout)

    def end_threads(self) -> None:
        self._threads.shutdown(wait=False)  # a destination that is full would hold up the end

    def shut(self) -> None:
        self._transactions.close()
