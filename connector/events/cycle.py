"""The poll cycle: claim, run the job, settle; and a drain, which claims while a job runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from connector.errors import ProviderError
from connector.events.claiming import Batch, claim_round_robin
from connector.events.gate import Gate
from connector.events.job import CycleJob, Result
from connector.events.lanes import lane_key
from connector.events.outcome import Outcome
from connector.events.settling import Settling, rolled_back, timestamp, untouched
from connector.events.summary import Summary
from connector.messaging.provider import Claim, Connection, Poller, Settlement
from connector.state.duplicates import DuplicateWindow
from connector.state.journal import JournalDirectory
from connector.status import OutcomeKind, ReturnCode

_NEIGHBOUR_SECONDS: Final = 30.0
_NEIGHBOUR_PAUSE: Final = 0.02
_BEGIN_PAUSE: Final = 0.0005
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
    """

    quantity: int
    order: str
    max_attempts: int


@dataclass(slots=True)
class CycleReport:
    """What one cycle came to.

    Args:
        code: SUCCEED, or APPRESPONSETIMEOUT where the poll has to end.
        claimed, settled: numbers of events; expired messages are in neither.
        rolled_back: events whose transaction failed, and that come again, their delivery count one more.
        reason: why it is not SUCCEED.
        provider_failed: whether a new connection may help.
    """

    code: ReturnCode
    claimed: int = 0
    settled: int = 0
    reason: str = ""
    provider_failed: bool = False
    rolled_back: int = 0


@dataclass(slots=True)
class _Job:
    """A batch on its way through a drain.

    Args:
        batch: its claims.
        future: of its job; None where none was sent, or it was refused.
        gate: where the job waits; None once it may begin.
    """

    batch: Batch
    future: Future[Result] | None = None
    gate: Gate | None = None

    @property
    def done(self) -> bool:
        return self.future is None or self.future.done()

    def result(self) -> Result:
        """What its job has brought; nothing where there was none. Waits for it."""
        return self.future.result() if self.future is not None else Result()


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
    """

    def __init__(
        self,
        connection: Connection,
        pollers: Sequence[Poller],
        job: CycleJob,
        journals: JournalDirectory,
        settling: Settling,
        window: DuplicateWindow | None,
        summary: Summary,
        settings: PollSettings,
    ) -> None:
        self._connection = connection
        self._pollers = list(pollers)
        self._job = job
        self._journals = journals
        self._settling = settling
        self._window = window
        self._summary = summary
        self._settings = settings
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
        batch = self._claim(())
        report = self._finish(batch) if batch.claims else _report(batch, 0)
        self._release()
        return report

    def drain(self, after_cycle: Callable[[CycleReport], None] | None = None) -> CycleReport:
        """Cycles until the inputs are empty.

        While the job of one batch runs, that of the next is sent, to begin the moment the first one ends,
        and the batch after it is claimed, to be sent then.

        Ends early when a cycle does not SUCCEED, or claims something and settles nothing; copies of what
        a neighbour is publishing are waited for, half a minute long.

        Raises:
            ProviderError: as :meth:`poll`.
        """
        if self.stopping:
            return CycleReport(ReturnCode.SUCCEED)
        settled_at = time.monotonic()
        rolled_back = 0
        running = self._begin()
        waiting = self._send_ahead(self._claim_after(running), running)
        following = self._claim_after(waiting, running)
        while running.batch.claims:
            batch, result = running.batch, running.result()
            stop = self._must_stop(batch, result) or self.stopping
            self._note_published(batch, result)
            if stop:
                self._call_off(waiting, batch, result)
                self._call_off(following, waiting.batch, Result())
            else:
                self._admit(waiting, changed=self._after(batch, result, waiting.batch))
                if any(one.kind == _ROLLED_BACK for one in result.outcomes.values()):
                    # It comes first, so what is behind it goes back, and is claimed when it is back itself.
                    self._call_off(following, waiting.batch, Result())
                    following = self._give_back(following)
                else:
                    self._send_ahead(following, waiting)
            try:
                report = self._settle(batch, result)
            except ProviderError:
                for job in (following, waiting):  # their journals say what they did; recovery settles it
                    if job.gate is not None:
                        job.gate.refuse()
                    job.result()
                raise
            if after_cycle is not None:
                after_cycle(report)
            # Rolled back is an event at most max_attempts times; those behind it may have gone back with it.
            fruitless = not (report.settled or report.rolled_back or rolled_back)
            rolled_back = report.rolled_back
            if report.settled:
                settled_at = time.monotonic()
            elif batch.busy and time.monotonic() - settled_at < _NEIGHBOUR_SECONDS:
                fruitless = False
                time.sleep(_NEIGHBOUR_PAUSE)
            if stop or report.code is not ReturnCode.SUCCEED or fruitless:
                self._wind_up(waiting, following, report)
                if report.code is ReturnCode.SUCCEED and not stop:
                    report.code, report.reason = ReturnCode.FAIL, "a cycle claimed messages and settled none"
                return report
            if waiting.batch.claims:
                running, waiting = waiting, following
            else:  # what was given back meanwhile, or has just come
                running = self._begin()
                waiting = self._send_ahead(self._claim_after(running), running)
            following = self._claim_after(waiting, running)
        self._release()
        return _report(running.batch, 0)

    def _begin(self) -> _Job:
        """Claims a batch and starts its job."""
        batch = Batch(self._cycle) if self.stopping else self._claim(())
        return _Job(batch, self._start(batch) if batch.claims else None)

    def _claim_after(self, before: _Job, *unsettled: _Job) -> _Job:
        """Claims the batch after ``before``, while that and others are not settled; nothing is sent."""
        if self.stopping or not before.batch.claims:
            return _Job(Batch(self._cycle))
        return _Job(self._claim([key for job in (before, *unsettled) for key in job.batch.held_keys()]))

    def _send_ahead(self, job: _Job, before: _Job) -> _Job:
        """Sends a job while the one before it runs, where jobs may overlap; returns it.

        It is not sent until all tasks of the job before it have their cores: those that wait at its
        gate would keep them off.
        """
        gate = self._job.gate(job.batch.cycle) if job.batch.claims else None
        if gate is not None:
            while not (before.done or self._job.has_begun(before.batch.cycle)):
                time.sleep(_BEGIN_PAUSE)
            # Where the end of the job before can change what this one is for, the driver opens the gate.
            is_settled = not (job.batch.waiting or before.batch.returned or before.batch.failure)
            after = self._job.ends(before.batch.cycle) if is_settled else ()
            job.gate, job.future = gate, self._start(job.batch, gate, after)
        return job

    def _admit(self, job: _Job, *, changed: bool) -> None:
        """The job before it has ended: lets a job begin, sent anew where what it is for has changed."""
        if not changed and job.gate is not None and job.gate.open():
            job.gate = None
        elif self._refuse(job) and job.batch.claims:
            job.future = self._start(job.batch)

    @staticmethod
    def _refuse(job: _Job) -> bool:
        """Keeps a job that waits at its gate from beginning; False where it has begun."""
        if job.gate is not None and job.gate.refuse():
            job.result()  # it has touched nothing
            job.future = None
        job.gate = None
        return job.future is None

    def _call_off(self, job: _Job, before: Batch, result: Result) -> None:
        """Gives a batch back whose job has not begun; one that has is finished."""
        if self._refuse(job):
            self._after(before, result, job.batch, give_back=True)

    def _give_back(self, job: _Job) -> _Job:
        """Settles a batch that was called off; returns an empty one in its place."""
        if job.batch.claims:
            self._settle(job.batch, Result())
        return _Job(Batch(self._cycle))

    def _wind_up(self, waiting: _Job, following: _Job, report: CycleReport) -> None:
        """The end of a drain that ends early: what runs is finished, the batch after it goes back."""
        self._call_off(following, waiting.batch, Result())
        for job in (waiting, following):
            if job.batch.claims:
                result = job.result()
                self._note_published(job.batch, result)
                rest = self._settle(job.batch, result)
                report.claimed += rest.claimed
                report.settled += rest.settled
        self._release()

    def run_claims(self, claims: Sequence[Claim], cycle: int) -> CycleReport:
        """Runs claims that were adopted from a dead client, as a cycle of their own.

        Raises:
            ProviderError: as :meth:`poll`.
        """
        self.unsettled += 1
        batch = Batch(cycle, claims=list(claims))
        self._decide(batch, ())
        return self._finish(batch)

    def _release(self) -> None:
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

    def _claim(self, in_flight: Sequence[str]) -> Batch:
        self.unsettled += 1
        batch = claim_round_robin(self._pollers, self._settings.quantity, self.next_cycle())
        for number, poller in enumerate(self._pollers):
            seen = self._expired.get(number, 0)
            if poller.expired != seen:
                self._summary.expired(str(poller.destination), poller.expired - seen)
                self._expired[number] = poller.expired
        if batch.failure is not None:
            _log.error("%s", batch.failure)
        elif not batch.claims:
            self._connection.check()
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

    def _find_duplicates(self, batch: Batch, window: DuplicateWindow, in_flight: Sequence[str]) -> None:
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

    def _start(self, batch: Batch, gate: Gate | None = None, after: tuple[str, ...] = ()) -> Future[Result]:
        kept_back = batch.kept_back()
        claims = (
            [claim for claim in batch.claims if claim.sequence not in kept_back]
            if kept_back
            else batch.claims
        )
        return self._executor.submit(self._job.run, batch, claims, gate, after)

    def _note_published(self, batch: Batch, result: Result) -> None:
        if self._window is not None:
            keys = batch.keys
            self._window.add(
                keys[outcome.sequence] for outcome in result.outcomes.values() if outcome.kind == _PUBLISHED
            )

    def _after(self, batch: Batch, result: Result, following: Batch, *, give_back: bool = False) -> bool:
        """What the end of one batch means for the next, which was claimed before it was known.

        Returns whether it has changed which events of the next batch a job is for.
        """
        before = following.kept_back()
        if give_back:
            following.returned.update(range(len(following.claims)))
            following.decided.clear()
            following.waiting.clear()
            return True
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

    def _resolve_waiting(self, batch: Batch, window: DuplicateWindow, *, final: bool) -> None:
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
    def _must_stop(batch: Batch, result: Result) -> bool:
        return (
            result.error is not None
            or batch.failure is not None
            or any(o.kind == _GIVEN_BACK for o in result.outcomes.values())
        )

    def _finish(self, batch: Batch) -> CycleReport:
        result = self._start(batch).result()
        self._note_published(batch, result)
        return self._settle(batch, result)

    def _settle(self, batch: Batch, result: Result) -> CycleReport:
        if result.running:
            raise ProviderError(f"{result.error}; a task has not ended, its events are settled when it has")
        if self._window is not None and batch.keys:
            self._resolve_waiting(batch, self._window, final=True)
        outcomes = {**result.outcomes, **batch.decided}
        now = timestamp()
        settlements: list[Settlement] = []
        settled: list[tuple[Claim, Outcome, bool]] = []
        report = _report(batch, 0)
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
                _log.warning("%s of %s: rolled back: %s", claim.message_id, claim.destination, outcome.reason)
            elif outcome.kind == _GIVEN_BACK:
                report.code = ReturnCode.APPRESPONSETIMEOUT
                report.reason = outcome.reason or ""
                report.provider_failed = outcome.provider_failed
            else:
                discarded = settlement is not None and settlement.copy_to is None
                settled.append((claim, outcome, discarded))
        identities = [claim.message_id for claim, _, _ in settled]
        self._connection.settle(settlements)
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
                _log.warning("%s of %s: %s: %s", identity, claim.destination, outcome.kind, outcome.reason)
        if report.reason:
            _log.error("the poll ends: %s", report.reason)
        return report


def _report(batch: Batch, settled: int) -> CycleReport:
    report = CycleReport(ReturnCode.SUCCEED, len(batch.claims), settled)
    if batch.failure is not None:
        report.code = ReturnCode.APPRESPONSETIMEOUT
        report.reason = str(batch.failure)
        report.provider_failed = True
    return report


def _duplicate(claim: Claim) -> Outcome:
    return Outcome(claim.sequence, _DUPLICATE, reason="it was published before", unread=True)
