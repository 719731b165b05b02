"""All inbound work over one connection: poll, run, settle, recover.

The driver's thread does all of this. Each job runs in a thread of its own, and reports its end. A new
connection gets a new :class:`Inbound`.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from connector.errors import PipelineError, ProviderError
from connector.events.claim.admission import Admission
from connector.events.claim.duplicates import published_of
from connector.events.claim.intake import Intake
from connector.events.connection_state import ConnectionState
from connector.events.cycle_report import CycleReport
from connector.events.run.job import EventJobs, Result
from connector.events.run.schedule import Batch, EndedClaims
from connector.events.settle.closing import Closing
from connector.events.settle.recovery import Recovered, Recovery
from connector.events.settle.settling import Commit
from connector.messaging.claim import Claim
from connector.messaging.input import Input
from connector.messaging.polling import Waiter
from connector.messaging.state_store import ControlRecord
from connector.status import OutcomeKind

_log = logging.getLogger("connector.events")

_MOST_THREADS: Final = 64
_OPEN_SECONDS: Final = 10.0
"""Seconds for which the end waits for open settlements, at most."""
_OPEN_PAUSE: Final = 0.2
AfterBatch = Callable[[CycleReport], None]


class Inbound:
    """Polls, batches and recovery over one connection.

    Args:
        state: of the connection, which this object closes.
        control: the record of what operators have told the application.
    """

    def __init__(
        self,
        state: ConnectionState,
        jobs: EventJobs,
        intake: Intake,
        closing: Closing,
        recovery: Recovery,
        control: ControlRecord,
    ) -> None:
        self.connection = state.connection
        self.jobs = jobs
        self.stopping = False
        """Set from any thread. Nothing more is claimed, and running batches finish."""
        self.pausing = False
        """Whether nothing more is claimed until the next connection."""
        self._settings = settings = state.settings
        self._connector = settings.connector
        self._working = state.working
        self._schedule = state.schedule
        self._duplicates = state.duplicates
        self._hooks = state.hooks
        self._intake = intake
        self._closing = closing
        self._recovery = recovery
        self._control = control
        self._admission = Admission(settings.orders, settings.connector, state.waits)
        self._traced_recover = settings.trace.around(
            "recover", self._recover, lambda at_start: {"at_start": at_start}
        )
        self._threads = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="batch")
        self._ended: queue.SimpleQueue[tuple[Batch, Result | BaseException] | Commit] = queue.SimpleQueue()
        self._signal = threading.Event()
        self._is_waiting = False
        """Whether the thread of the adapter waits. Otherwise it looks for ended batches before it does."""
        self._knows_waiting_events = False
        closing.tell = self._note_ended

    @property
    def waiter(self) -> Waiter | None:
        """The waiter that reports new messages. None with ``wake: false``, or if the provider has none."""
        return self.connection.waiter() if self._connector.wake else None

    @property
    def is_running(self) -> bool:
        """Whether a batch runs, or has ended and is not settled yet."""
        return bool(self._schedule.running) or self._closing.is_running

    @property
    def has_events(self) -> bool:
        """Whether an event is not settled yet."""
        return bool(self._schedule.unsettled)

    @property
    def in_progress(self) -> int:
        """Number of events that are claimed and not settled yet. For any thread."""
        return self._schedule.unsettled

    @property
    def closed(self) -> dict[str, str]:
        """Why no message of an input can be taken now, by input."""
        return self._intake.closed

    @property
    def in_doubt(self) -> list[str]:
        """The ids of the messages in the in-progress destination that wait for an operator."""
        return self._recovery.in_doubt

    @property
    def left_open(self) -> dict[str, str]:
        """Why events of dead clients cannot be settled now, by their inputs."""
        return {str(one): reason for one, reason in self._recovery.open.items()}

    @property
    def running_since(self) -> float | None:
        """Start of the oldest running batch in monotonic seconds. None = no batch runs. For any thread."""
        return min((batch.began for batch in list(self._schedule.running)), default=None)

    # -- poll --------------------------------------------------------------------------------------

    def poll(self, *, ahead: bool = True, patient: bool = False, again: bool = False) -> CycleReport:
        """Claims from the destinations that may be polled, and starts batches. Waits for no batch.

        Args:
            ahead: whether a destination with unsettled events may be polled, too.
            patient: whether an input from which something went back has a pause.
            again: whether only events that come again later are claimed.

        Raises:
            ProviderError: an event could not be settled. Recovery tries again.
        """
        report = CycleReport()
        if self.stopping:
            return report
        self.look()
        if self.pausing:
            return report
        if shortage := self._working.disk.shortage():
            report.fail(shortage, provider_failed=False)
            return report
        try:
            self.jobs.check()
        except PipelineError as error:
            report.fail(str(error), provider_failed=True)
            return report
        intake = self._intake
        polls = intake.poll_again(report) if again else intake.poll(report, ahead=ahead, patient=patient)
        for claims in polls:
            self._take_in(claims, report)
        self._start()
        self._note_more(report)
        return report

    def look(self) -> bool:
        """Obeys what operators have told the application. Looks at most once a second.

        Returns whether an input has been resumed.

        Raises:
            ProviderError: the record cannot be read, or an input cannot be used.
        """
        control = self._working.control
        has_changed = control.look(self._control)
        self._working.circuits.end_rests(control.rested)
        return has_changed and self._intake.obey()

    def has_bound_messages(self, one: Input, others: Sequence[str]) -> bool:
        """Whether messages are of no use without an input: in progress, delayed or held.

        Args:
            others: selectors of further inputs of the same queue.

        Raises:
            ConnectorError: the input cannot be read.
        """
        if "" in others:
            return False
        in_progress = None if others else self._settings.copies.in_progress
        unowned = () if in_progress is None else self.connection.find_unowned(in_progress)
        return any(
            claim.destination == one.destination for claim in unowned
        ) or self._intake.has_bound_messages(one, others)

    def due_in(self) -> float:
        """Returns the seconds until the next delayed message of an input is due, as far as is known.

        Raises:
            ProviderError: an input cannot be read.
        """
        return self._intake.due_in()

    def _note_more(self, report: CycleReport) -> None:
        report.more_in = None if self.stopping or self.pausing else self._intake.more_in()
        report.more = report.more_in == 0

    def _take_in(self, claims: Sequence[Claim], report: CycleReport) -> None:
        """Hands claims to the schedule. Claims that need no task are settled at once."""
        if not claims:
            return
        ended_claims = EndedClaims()
        ids: dict[int, str] = {}
        busy: Collection[str] = ()
        window = None
        if self._duplicates is not None:
            ids, busy = self._duplicates.reserve(claims)
            window = self._duplicates.window
        new, ended_claims.decided = self._closing.begin(claims)
        wanted = self._admission.decide(new, ids, window, busy, ended_claims)
        self._schedule.add(claims, ids, wanted)
        if self._duplicates is not None and ended_claims.decided:
            self._duplicates.add(published_of(ended_claims))  # of events that were done before
        if ended_claims.decided or ended_claims.returned or self._closing.has_open:
            closed = self._close(ended_claims)
            closed.busy = len(ended_claims.returned)
            report.add(closed)

    # -- batches -----------------------------------------------------------------------------------

    def _start(self) -> None:
        """Starts as many batches as may run side by side."""
        if self.stopping:
            return
        cores = self.jobs.parallelism
        most = self._settings.max_jobs or cores
        most_running = _MOST_THREADS if self._schedule.is_parallel else min(most, _MOST_THREADS)
        while len(self._schedule.running) < most_running:
            batch = self._schedule.next_batch(cores, most)
            if batch is None:
                return
            self._threads.submit(self._run, batch)

    def _run(self, batch: Batch) -> None:
        """Runs a batch in a thread of its own."""
        result: Result | BaseException
        try:
            result = self.jobs.run(batch)
        except BaseException as error:
            result = error
        self._note_ended((batch, result))

    def _note_ended(self, one: tuple[Batch, Result | BaseException] | Commit) -> None:
        """Notes the end of a batch, or of a try to settle. For any thread."""
        self._ended.put(one)
        if self._is_waiting:
            self.wake()

    def settle_ended(self, timeout: float | None = 0.0, after_batch: AfterBatch | None = None) -> CycleReport:
        """Settles each batch whose job has ended, and starts the next batches.

        Args:
            timeout: seconds to wait for the first batch or commit to end. None = without limit.
            after_batch: called with the report of each batch.

        Raises:
            ProviderError: an event cannot be settled. Recovery tries again.
        """
        total = CycleReport()
        closings: list[tuple[EndedClaims, Result, float]] = []
        commits: list[Commit] = []
        with contextlib.suppress(queue.Empty):
            while self.is_running:
                one = self._ended.get(timeout=0.0 if closings or commits else timeout)
                if isinstance(one, Commit):
                    if self._closing.end_try(one):
                        commits.append(one)
                    continue
                batch, result = one
                if isinstance(result, BaseException):
                    raise result
                closings.append((self._end(batch, result), result, batch.began))
        self._start()  # before the commits, which take a while
        reports = []
        for commit in commits:
            report = self._closing.close_commit(commit)
            self._tell(report)
            reports.append(report)
        for ended_claims, result, began in closings:
            reports.append(self._close(ended_claims, result.error, began=began))
        for report in reports:
            total.add(report)
            if after_batch is not None:
                after_batch(report)
        self._closing.settle_open()
        if reports:
            self._start()
            total.idle = not self.is_running
        self._note_more(total)
        return total

    def _end(self, batch: Batch, result: Result) -> EndedClaims:
        """Returns the claims that leave the schedule because a job has ended.

        Raises:
            ProviderError: a task has not ended.
        """
        if result.running:
            raise ProviderError(
                f"{result.error}; a task still runs, and its events are settled when the task ends"
            )
        for told in result.told:
            for observe in self._hooks.told:
                observe(batch.cycle, told)
        for inputs, seconds in result.durations:
            self._schedule.note(inputs, seconds)
        if self._duplicates is not None:
            found = ((claim, result.outcomes.get(claim.sequence)) for claim in batch.claims)
            self._duplicates.add(
                (claim, one) for claim, one in found if one is not None and one.kind == OutcomeKind.PUBLISHED
            )
        gave_back = any(one.kind == OutcomeKind.GIVEN_BACK for one in result.outcomes.values())
        ends_poll = result.error is not None or gave_back or self.stopping
        waits = self._admit(batch, result) if batch.asks_keys and not ends_poll else ()
        ended = self._schedule.take_ended(
            batch,
            result.outcomes,
            result.attempts,
            result.again,
            is_untouched=result.is_untouched,
            ends_poll=ends_poll,
            waits=waits,
        )
        while self._duplicates is not None and (freed := self._schedule.freed):
            self._schedule.freed = []
            self._schedule.resume(self._duplicates.admit(freed), ended)
        return ended

    def _admit(self, batch: Batch, result: Result) -> Collection[int]:
        """Decides about the events of a batch that has found their keys by values.

        Adds the decisions to the result. Returns the sequences of those that wait for others.
        """
        assert self._duplicates is not None
        claims = [claim for claim in batch.claims if claim.sequence in result.keys]
        for claim in claims:
            self._schedule.note_found(claim, result.keys[claim.sequence])
        admitted = self._duplicates.admit(claims)
        result.outcomes.update((claim.sequence, outcome) for claim, outcome in admitted.decided)
        result.again.update(claim.sequence for claim in admitted.runs)
        return {claim.sequence for claim in admitted.waits}

    def _close(
        self, ended_claims: EndedClaims, error: PipelineError | None = None, *, began: float | None = None
    ) -> CycleReport:
        """Settles the claims that leave the schedule. See :meth:`.Closing.close`.

        Args:
            ended_claims: that leave.
            error: of their job.
            began: start of their batch in monotonic seconds. None = there was no batch.
        """
        report = self._closing.close(ended_claims, began=began)
        if self._duplicates is not None:
            self._duplicates.release(has_returned=False)
        if error is not None:
            report.fail(str(error), provider_failed=True)
        if report.reason:
            self._tell(report)
        return report

    def _tell(self, report: CycleReport) -> None:
        if report.reason:
            fields = {"cycle": self._intake.cycle, "reason": report.reason}
            self._working.lines.error("a poll ended early", extra=fields)

    def finish(self, after_batch: AfterBatch | None = None) -> CycleReport:
        """Runs all claims to their end. After a stop, claims that have not begun go back.

        A settlement that stays open is left to recovery.

        Raises:
            ProviderError: as :meth:`settle_ended`.
        """
        total = CycleReport()
        while True:
            if self.stopping:
                self._intake.give_back_held()
                total.add(self._close(self._schedule.cancel()))
            if not self.is_running:
                break
            total.add(self.settle_ended(None, after_batch))
        deadline = time.monotonic() + min(self._connector.stop_timeout, _OPEN_SECONDS)
        while self._closing.has_open and time.monotonic() < deadline:
            time.sleep(_OPEN_PAUSE)
            self._closing.settle_open(at_once=True)
            while self._closing.is_running:
                total.add(self.settle_ended(None, after_batch))
        if reason := self._closing.first_reason or next(iter(self._recovery.open.values()), ""):
            total.fail(reason, provider_failed=False)
        return total

    # -- waiting -----------------------------------------------------------------------------------

    def wait(self, seconds: float, *, listens: bool) -> bool:
        """Waits until a batch has ended, :meth:`wake` is called, or a message has come.

        Args:
            listens: whether a new message ends the wait.

        Returns:
            whether a message has come.
        """
        waiter = self.waiter if listens else None
        self._is_waiting = True  # first, so that a batch that ends now is seen, or ends the wait
        try:
            if not self._ended.empty():
                return False
            if waiter is not None:
                return waiter.wait(seconds)
            self._signal.wait(seconds)
            self._signal.clear()
            return False
        finally:
            self._is_waiting = False

    def wake(self) -> None:
        """Ends the current wait, or the next wait. For any thread."""
        self._signal.set()
        self.connection.wake()

    # -- recovery ----------------------------------------------------------------------------------

    def recover(self, *, at_start: bool) -> CycleReport:
        """Takes over from dead clients. At start, also runs the events to reprocess before any new input.

        Raises:
            InDoubtAtStartup: InDoubtEvents is FailOnStartup and a message is in doubt.
            ProviderError: an event cannot be settled now.
        """
        return self._traced_recover(at_start)

    def _recover(self, at_start: bool) -> CycleReport:
        timeout = self._connector.stop_timeout + 5.0
        try:
            recovered: Recovered = self._recovery.run(at_start=at_start, timeout=timeout)
        except OSError as error:
            raise ProviderError(f"recovery failed: {error.strerror}: {error.filename!r}") from error
        self._closing.recover(timeout if at_start else 0.0)
        if not self._knows_waiting_events or recovered.returned:
            self._intake.find_waiting_events()
            self._knows_waiting_events = True
        report = CycleReport(claimed=recovered.settled, settled=recovered.settled)
        if recovered.reprocess:
            self._intake.cycle = recovered.reprocess[0].cycle
            report.claimed += len(recovered.reprocess)
            self._take_in(recovered.reprocess, report)
        if at_start or self.stopping:
            self._start()
            report.add(self.finish())
        return report

    def prune(self) -> bool:
        """Removes copies whose retention time is over, for half a second at most.

        Returns whether all are removed.
        """
        if not (self._schedule.unsettled or self._intake.more_in() == 0):
            for observe in self._hooks.idle:
                observe()
        pruned = self.connection.prune(self._settings.retentions)
        for destination, number in pruned.copies.items():
            _log.info(
                "old copies were removed",
                extra={"destination": str(destination), "number": number},
            )
        return pruned.is_done

    # -- end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes the connection after the running batches have ended.

        Events that cannot be settled or given back are left to the recovery of another client.

        Raises:
            ProviderError: an event cannot be settled.
        """
        self.stopping = True
        self.finish()
        self._end_threads()
        for observe in self._hooks.close:
            observe()
        if self._schedule.unsettled:
            self.abandon()
            return
        if self._duplicates is not None:
            self._duplicates.window.release()
        self._closing.shut()
        self.connection.close()

    def abandon(self) -> None:
        """Abandons the connection once no batch runs. The next connection recovers the claims."""
        self._end_threads()
        for observe in self._hooks.close:
            observe()
        self.connection.abandon()

    def _end_threads(self) -> None:
        self._threads.shutdown(wait=True)
        self._closing.end_threads()
