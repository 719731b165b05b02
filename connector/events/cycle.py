"""The poll cycle: claim, run the job, settle. :mod:`connector.events.drain` overlaps several."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from connector.errors import ProviderError
from connector.events.claiming import Batch, WaitingMessages, claim_round_robin
from connector.events.gate import Gate
from connector.events.job import CycleJob, Result
from connector.events.lanes import lane_key
from connector.events.outcome import Outcome, event_fields
from connector.events.settling import Settling, rolled_back, untouched
from connector.events.summary import Summary
from connector.messaging.provider import Claim, Connection, Poller, Settlement
from connector.state.store import ClientJournals, PublishedIds
from connector.status import OutcomeKind, ReturnCode, timestamp
from connector.trace import EVENTS, OFF, Trace, step

_log = logging.getLogger("connector.events")

_PUBLISHED: Final = OutcomeKind.PUBLISHED.value
_DUPLICATE: Final = OutcomeKind.DUPLICATE.value
_FAILED: Final = OutcomeKind.FAILED.value
_GIVEN_BACK: Final = OutcomeKind.GIVEN_BACK.value
_ROLLED_BACK: Final = OutcomeKind.ROLLED_BACK.value


@dataclass(frozen=True, slots=True)
class PollSettings:
    """How an adapter polls.

    Args:
        quantity: PollQuantity, messages of one destination and poll.
        order: ``destination``, ``group`` or ``none``.
        max_attempts: deliveries begun for one event; then it has failed.
        trace: of AgentTraceLevel.
    """

    quantity: int
    order: str
    max_attempts: int
    trace: Trace = OFF


@dataclass(slots=True)
class CycleReport:
    """What one cycle came to.

    Args:
        code: SUCCEED, or APPRESPONSETIMEOUT where the poll has to end.
        claimed, settled: numbers of events; expired messages are in neither.
        rolled_back: events whose transaction failed, and that come again, their delivery count one more.
        more: whether more may wait than the poll has taken.
        reason: why it is not SUCCEED.
        provider_failed: whether a new connection may help.
    """

    code: ReturnCode
    claimed: int = 0
    settled: int = 0
    reason: str = ""
    provider_failed: bool = False
    rolled_back: int = 0
    more: bool = False


class EventCycles:
    """Runs poll cycles for one connection.

    Args:
        connection: of the provider; used by the calling thread only.
        pollers: of the inputs, in the order of the configuration.
        job: runs a batch.
        journals: of this client.
        settling: decides what settles an event.
        window: for duplicate event elimination; None = it is off.
        summary: counts.
        settings: of the adapter.
        waiting: messages whose process was not active; None without InProgressDestination.
    """

    def __init__(
        self,
        connection: Connection,
        pollers: Sequence[Poller],
        job: CycleJob,
        journals: ClientJournals,
        settling: Settling,
        window: PublishedIds | None,
        summary: Summary,
        settings: PollSettings,
        waiting: WaitingMessages | None = None,
    ) -> None:
        self._connection = connection
        self._pollers = list(pollers)
        self._job = job
        self._journals = journals
        self._settling = settling
        self._window = window
        self._summary = summary
        self._settings = settings
        self.trace = settings.trace
        self._waiting = waiting
        self._cycle = 0
        self._expired: dict[int, int] = {}
        self._executor = ThreadPoolExecutor(2, thread_name_prefix="cycle-job")
        self.unsettled = 0
        """Batches that were claimed and are not settled yet."""
        self.stopping = False
        """Set from a signal handler: no more is claimed; what runs is finished."""

    def poll(self) -> CycleReport:
        """One cycle.

        Raises:
            ProviderError: it could not be settled; the claims are still ours, recovery finishes them.
        """
        if self.stopping:
            return CycleReport(ReturnCode.SUCCEED)
        batch = self.claim(())
        report = self._finish(batch) if batch.claims else report_on(batch)
        self.release()
        return report

    def run_claims(self, claims: Sequence[Claim], cycle: int) -> CycleReport:
        """Runs claims that were adopted from a dead client, as a cycle of their own.

        Raises:
            ProviderError: as :meth:`poll`.
        """
        self.unsettled += 1
        batch = Batch(cycle, claims=list(claims))
        self._decide(batch, ())
        return self._finish(batch)

    def release(self) -> None:
        """Everything claimed is settled: a neighbour may publish other copies of it."""
        if self._window is not None:
            self._window.release()

    def next_cycle(self) -> int:
        """A number that no cycle of this client has had."""
        self._cycle += 1
        return self._cycle

    def close(self) -> None:
        self._executor.shutdown(wait=True)

    # -- the steps ---------------------------------------------------------------------------------

    @step("claim")
    def claim(self, in_flight: Sequence[str]) -> Batch:
        """Claims a batch, and decides what needs no task.

        Args:
            in_flight: duplicate keys of batches that are not settled.
        """
        self.unsettled += 1
        batch = claim_round_robin(self._pollers, self._settings.quantity, self.next_cycle(), self._waiting)
        for number, poller in enumerate(self._pollers):
            seen = self._expired.get(number, 0)
            if poller.expired != seen:
                self._summary.expired(str(poller.destination), poller.expired - seen)
                self._expired[number] = poller.expired
        if batch.failure is not None:
            _log.error("claiming failed", extra={"cycle": batch.cycle, "reason": str(batch.failure)})
        elif not batch.claims:
            self._connection.check()
        if self.trace.level >= EVENTS:
            for claim in batch.claims:
                self.trace(
                    EVENTS,
                    "message detected",
                    message_id=claim.message_id,
                    destination=str(claim.destination),
                    cycle=batch.cycle,
                )
        self._decide(batch, in_flight)
        if not batch.claims:
            self.unsettled -= 1
        return batch

    def _decide(self, batch: Batch, in_flight: Sequence[str]) -> None:
        """Outcomes that need no task: duplicates, and events whose delivery was begun too often."""
        if self._window is not None:
            self._find_duplicates(batch, self._window, in_flight)
        for claim in batch.claims:
            count = claim.delivery_count
            if count >= self._settings.max_attempts and claim.sequence not in batch.decided:
                reason = f"its delivery was begun {count} times and never came to an end (max_attempts)"
                batch.decided[claim.sequence] = Outcome(
                    claim.sequence, _FAILED, None, None, reason, count, unread=True
                )

    def _find_duplicates(self, batch: Batch, window: PublishedIds, in_flight: Sequence[str]) -> None:
        if not batch.claims:
            return
        batch.keys = [claim.duplicate_key for claim in batch.claims]
        busy = window.reserve(batch.keys, in_flight)
        seen = set(in_flight)
        for sequence, key in enumerate(batch.keys):
            if key in window:
                batch.decided[sequence] = _duplicate(batch.claims[sequence])
            elif key in busy:
                batch.returned.add(sequence)
                batch.busy += 1
            elif key in seen:
                batch.waiting.append(sequence)
            else:
                seen.add(key)

    def start(self, batch: Batch, gate: Gate | None = None, after: tuple[str, ...] = ()) -> Future[Result]:
        """Runs the job of a batch in another thread; with a gate it waits there."""
        kept_back = batch.kept_back()
        claims = (
            [claim for claim in batch.claims if claim.sequence not in kept_back]
            if kept_back
            else batch.claims
        )
        return self._executor.submit(self._job.run, batch, claims, gate, after)

    def note_published(self, batch: Batch, result: Result) -> None:
        """Lets the duplicate window know what a job has published, before it is settled."""
        if self._window is not None:
            keys = batch.keys
            self._window.add(
                keys[outcome.sequence] for outcome in result.outcomes.values() if outcome.kind == _PUBLISHED
            )

    def carry_over(self, batch: Batch, result: Result, following: Batch) -> bool:
        """What the end of one batch means for the next, which was claimed before it was known.

        Returns whether it has changed which events of the next batch a job is for.
        """
        before = following.kept_back()
        if self._window is not None:
            self._resolve_waiting(following, self._window, final=False)
        rolled_back = {number for number, one in result.outcomes.items() if one.kind == _ROLLED_BACK}
        stopped = {
            lane_key(self._settings.order, claim)
            for claim in batch.claims
            if (
                claim.sequence not in result.outcomes
                and claim.sequence not in batch.decided
                and claim.sequence not in batch.waiting
            )
            or claim.sequence in rolled_back
        } - {None}
        if stopped:
            for claim in following.claims:
                if lane_key(self._settings.order, claim) in stopped:
                    following.returned.add(claim.sequence)
                    following.busy += bool(batch.busy)
                    following.decided.pop(claim.sequence, None)
        return following.kept_back() != before

    def _resolve_waiting(self, batch: Batch, window: PublishedIds, *, final: bool) -> None:
        """Second copies: a duplicate when the first was published, else they run or come again."""
        first: set[str] = set()
        waiting = []
        for sequence in batch.waiting:
            key = batch.keys[sequence]
            if key in window:
                batch.decided[sequence] = _duplicate(batch.claims[sequence])
            elif final:
                batch.returned.add(sequence)
            elif key in first or any(
                other == key and number < sequence and number not in batch.waiting
                for number, other in enumerate(batch.keys)
            ):
                waiting.append(sequence)
            else:
                first.add(key)
        batch.waiting = waiting

    @staticmethod
    def must_stop(batch: Batch, result: Result) -> bool:
        """Whether the poll ends with this batch."""
        return (
            result.error is not None
            or batch.failure is not None
            or any(o.kind == _GIVEN_BACK for o in result.outcomes.values())
        )

    def _finish(self, batch: Batch) -> CycleReport:
        result = self.start(batch).result()
        self.note_published(batch, result)
        return self.settle(batch, result)

    @step("settle", lambda self, batch, result: {"cycle": batch.cycle})
    def settle(self, batch: Batch, result: Result) -> CycleReport:
        """Settles a batch in one commit; an event without an outcome goes back.

        Raises:
            ProviderError: it could not be; the claims are still ours, recovery finishes them.
        """
        if result.running:
            raise ProviderError(f"{result.error}; a task has not ended, its events are settled when it has")
        if self._window is not None and batch.keys:
            self._resolve_waiting(batch, self._window, final=True)
        outcomes = {**result.outcomes, **batch.decided}
        now = timestamp()
        settlements: list[Settlement] = []
        settled: list[tuple[Claim, Outcome, bool]] = []
        report = report_on(batch)
        keys = batch.keys or None
        for claim in batch.claims:
            outcome = outcomes.get(claim.sequence)
            if outcome is None or claim.sequence in batch.returned:
                begun = result.begun.get(claim.sequence, 0)
                settlements.append(rolled_back(claim, begun) if begun else untouched(claim))
                continue
            key = keys[claim.sequence] if keys is not None else None
            settlement = self._settling.settlement(claim, outcome, key, now)
            if settlement is not None:
                settlements.append(settlement)
            if outcome.kind == _ROLLED_BACK:
                report.rolled_back += 1
                _log.warning(
                    "an event is rolled back",
                    extra=event_fields(batch.cycle, claim, claim.message_id, outcome),
                )
            elif outcome.kind == _GIVEN_BACK:
                report.code = ReturnCode.APPRESPONSETIMEOUT
                report.reason = outcome.reason or ""
                report.provider_failed = outcome.provider_failed
            else:
                discarded = settlement is not None and settlement.copy_to is None
                settled.append((claim, outcome, discarded))
        identities = [claim.message_id for claim, _, _ in settled]
        self._connection.settle(settlements)
        if self._waiting is not None and any(settlement.stay for settlement in settlements):
            self._waiting.look()
        self.unsettled -= 1
        self._journals.forget(batch.cycle)
        report.settled = len(settled)
        report.claimed = len(batch.claims)
        if result.error is not None:
            report.code, report.reason = ReturnCode.APPRESPONSETIMEOUT, str(result.error)
            report.provider_failed = True
        for (claim, outcome, discarded), identity in zip(settled, identities, strict=True):
            self._summary.settled(str(claim.destination), identity, outcome, discarded=discarded)
            if outcome.kind not in (_PUBLISHED, _DUPLICATE):
                _log.warning(
                    "an event was not published", extra=event_fields(batch.cycle, claim, identity, outcome)
                )
            if self.trace.level >= EVENTS:
                self.trace(EVENTS, "event settled", **event_fields(batch.cycle, claim, identity, outcome))
        if report.reason:
            _log.error("the poll ends", extra={"cycle": batch.cycle, "reason": report.reason})
        return report


def report_on(batch: Batch) -> CycleReport:
    """What there is to say of a batch before it is settled."""
    report = CycleReport(ReturnCode.SUCCEED, len(batch.claims), more=batch.more)
    if batch.failure is not None:
        report.code = ReturnCode.APPRESPONSETIMEOUT
        report.reason = str(batch.failure)
        report.provider_failed = True
    return report


def _duplicate(claim: Claim) -> Outcome:
    return Outcome(claim.sequence, _DUPLICATE, reason="it was published before", unread=True)
