"""Settles the claims that leave the schedule, and forgets them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from connector.errors import ClaimLost, SettlementError
from connector.events.connection_state import ConnectionState
from connector.events.cycle_report import CycleReport
from connector.events.outcome import Outcome
from connector.events.run.schedule import EndedClaims
from connector.events.settle.settling import Commit, SettlementRules, Settler
from connector.messaging.claim import Claim
from connector.messaging.state_store import ClientJournals
from connector.status import OutcomeKind


class Closing:
    """Settles at once, as a local provider can. For the thread of the adapter."""

    is_running: bool = False
    """Whether a settlement is tried now."""
    has_open: bool = False
    """Whether a settlement is not done."""
    first_reason: str = ""
    """Why the oldest settlement stays open. Empty = none does."""

    def __init__(self, state: ConnectionState, rules: SettlementRules, journals: ClientJournals) -> None:
        self._hooks = state.hooks
        self._schedule = state.schedule
        self._duplicates = state.duplicates
        self._waits = state.waits
        self._waiting = state.waiting
        self._journals = journals
        self.tell: Callable[[Commit], None] = _ignore
        """Gets each commit whose try in a thread of its own has ended, in that thread."""
        self._settler = Settler(state.connection, rules)
        self._traced_settle = state.settings.trace.around("settle", self._settle)

    def begin(self, claims: Sequence[Claim]) -> tuple[Sequence[Claim], list[tuple[Claim, Outcome]]]:
        """Begins with the claims of one poll. Returns those whose events run, and those of done events.

        Raises:
            ProviderError: the claims cannot be recorded.
        """
        return claims, []

    def close(self, ended: EndedClaims, *, began: float | None = None) -> CycleReport:
        """Settles the claims that leave the schedule. At a broker the commits only begin here.

        Args:
            began: start of their batch in monotonic seconds. None = there was no batch.

        Returns:
            what is settled now.

        Raises:
            ProviderError: the claims could not be settled. This client still owns them, and recovery settles
                them.
        """
        if not (ended.decided or ended.returned):
            return CycleReport()
        commit = self._settler.prepare(ended, self._schedule.id_of, began)
        try:
            self._traced_settle(commit)
        except (ClaimLost, SettlementError) as error:
            for observe in self._hooks.refused:
                observe(commit, str(error))
            raise
        return self._end(commit)

    def _settle(self, commit: Commit) -> None:
        for observe in self._hooks.settling:
            observe(commit)
        self._settler.settle(commit)

    def _end(self, commit: Commit) -> CycleReport:
        """Counts and forgets what a commit has settled."""
        if commit.stays and self._waiting is not None:
            self._waiting.look()
        report = self._settler.end(commit)
        for observe in self._hooks.settled:
            observe(commit)
        if commit.settled:
            for observe in self._hooks.not_published:
                observe(commit)
        self._forget(commit.claims)
        return report

    def _forget(self, claims: EndedClaims) -> None:
        closed = self._schedule.remove_settled(claims)
        self._forget_cycles(closed)
        for claim, outcome in claims.decided:
            if outcome.kind == OutcomeKind.LATER:
                self._waits.add(claim, outcome)
            elif self._waits.has_any:
                self._waits.end(claim)
        for observe in self._hooks.ended:
            observe(closed)
        if self._duplicates is not None:
            self._duplicates.release(has_returned=bool(claims.returned))

    def _forget_cycles(self, cycles: list[int]) -> None:
        """Removes all that is kept for ended polls.

        Raises:
            ProviderError: the record cannot be written.
        """
        for cycle in cycles:
            self._journals.forget(cycle)

    def settle_open(self, *, at_once: bool = False) -> None:
        """Tries the settlements again that are not done."""

    def end_try(self, commit: Commit) -> bool:
        """Notes that a try to settle in a thread of its own has ended.

        Returns False if another try has begun, because events have failed whose messages the broker refuses.

        Raises:
            ProviderError: the claims could not be settled, as of :meth:`close`.
        """
        return True

    def close_commit(self, commit: Commit) -> CycleReport:
        """Closes a commit whose try in a thread of its own has ended."""
        return CycleReport()

    def recover(self, timeout: float) -> None:
        """Takes over from dead clients what only a broker knows.

        Args:
            timeout: seconds to wait for a running task of a dead client.

        Raises:
            OSError: a journal cannot be read.
            ProviderError: the state or the broker cannot be used.
        """

    def end_threads(self) -> None:
        """Lets the threads end that settle."""

    def shut(self) -> None:
        """Removes the journals of this client."""
        self._journals.forget()


def _ignore(commit: Commit) -> None: ...
