"""A drain: poll cycles until the inputs are empty, several of them at a time on their way.

While the job of one batch runs, that of the next waits at its gate (:mod:`connector.events.gate`), and
the batch after it is claimed. What the end of one means for those behind it is said to each in turn.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from connector.errors import ProviderError
from connector.events.claiming import Batch
from connector.events.cycle import CycleReport, EventCycles, report_on
from connector.events.gate import Gate
from connector.events.job import CycleJob, Result
from connector.status import OutcomeKind, ReturnCode

_NEIGHBOUR_SECONDS: Final = 30.0
_NEIGHBOUR_PAUSE: Final = (0.01, 0.05)
_BEGIN_PAUSE: Final = 0.0005
_ROLLED_BACK: Final = OutcomeKind.ROLLED_BACK.value


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


class Drain:
    """Empties the inputs.

    Args:
        cycles: whose steps it overlaps.
        job: runs the batches.
    """

    def __init__(self, cycles: EventCycles, job: CycleJob) -> None:
        self._cycles = cycles
        self._job = job

    def run(self, after_cycle: Callable[[CycleReport], None] | None = None) -> CycleReport:
        """Cycles until the inputs are empty.

        While the job of one batch runs, that of the next is sent, to begin the moment the first one ends,
        and the batch after it is claimed, to be sent then.

        Ends early when a cycle does not SUCCEED, or claims something and settles nothing; copies of what
        a neighbour is publishing are waited for, half a minute long.

        Raises:
            ProviderError: as :meth:`EventCycles.poll`.
        """
        if self._cycles.stopping:
            return CycleReport(ReturnCode.SUCCEED)
        settled_at = time.monotonic()
        rolled_back = 0
        running = self._begin()
        waiting = self._send_ahead(self._claim_after(running), running)
        following = self._claim_after(waiting, running)
        while running.batch.claims:
            batch, result = running.batch, running.result()
            stop = self._cycles.must_stop(batch, result) or self._cycles.stopping
            self._cycles.note_published(batch, result)
            if stop:
                self._call_off(waiting)
                self._call_off(following)
            else:
                self._admit(waiting, changed=self._cycles.carry_over(batch, result, waiting.batch))
                if any(one.kind == _ROLLED_BACK for one in result.outcomes.values()):
                    # It comes first, so what is behind it goes back, and is claimed when it is back itself.
                    self._call_off(following)
                    following = self._give_back(following)
                else:
                    self._send_ahead(following, waiting)
            try:
                report = self._cycles.settle(batch, result)
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
            waits = batch.busy > 0 and report.settled == 0
            if not waits:
                settled_at = time.monotonic()
            elif time.monotonic() - settled_at < _NEIGHBOUR_SECONDS:
                fruitless = False
            if stop or report.code is not ReturnCode.SUCCEED or fruitless:
                self._wind_up(waiting, following, report)
                if report.code is ReturnCode.SUCCEED and not stop:
                    report.code, report.reason = ReturnCode.FAIL, "a cycle claimed messages and settled none"
                return report
            if waits:
                # The neighbour may wait for what is in flight here. During the pause nothing is.
                self._wind_up(waiting, following, report)
                if report.settled:
                    settled_at = time.monotonic()
                waiting = following = _Job(Batch(0))
                time.sleep(random.uniform(*_NEIGHBOUR_PAUSE))
            if waiting.batch.claims:
                running, waiting = waiting, following
            else:  # what was given back meanwhile, or has just come
                running = self._begin()
                waiting = self._send_ahead(self._claim_after(running), running)
            following = self._claim_after(waiting, running)
        self._cycles.release()
        return report_on(running.batch)

    def _begin(self) -> _Job:
        """Claims a batch and starts its job."""
        batch = Batch(0) if self._cycles.stopping else self._cycles.claim(())
        return _Job(batch, self._cycles.start(batch) if batch.claims else None)

    def _claim_after(self, before: _Job, *unsettled: _Job) -> _Job:
        """Claims the batch after ``before``, while that and others are not settled; nothing is sent."""
        if self._cycles.stopping or not before.batch.claims:
            return _Job(Batch(0))
        return _Job(
            self._cycles.claim([key for job in (before, *unsettled) for key in job.batch.held_keys()])
        )

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
            job.gate, job.future = gate, self._cycles.start(job.batch, gate, after)
        return job

    def _admit(self, job: _Job, *, changed: bool) -> None:
        """The job before it has ended: lets a job begin, sent anew where what it is for has changed."""
        if not changed and job.gate is not None and job.gate.open():
            job.gate = None
        elif self._refuse(job) and job.batch.claims:
            job.future = self._cycles.start(job.batch)

    @staticmethod
    def _refuse(job: _Job) -> bool:
        """Keeps a job that waits at its gate from beginning; False where it has begun."""
        if job.gate is not None and job.gate.refuse():
            job.result()  # it has touched nothing
            job.future = None
        job.gate = None
        return job.future is None

    def _call_off(self, job: _Job) -> None:
        """Gives a batch back whose job has not begun; one that has is finished."""
        if self._refuse(job):
            job.batch.give_back()

    def _give_back(self, job: _Job) -> _Job:
        """Settles a batch that was called off; returns an empty one in its place."""
        if job.batch.claims:
            self._cycles.settle(job.batch, Result())
        return _Job(Batch(0))

    def _wind_up(self, waiting: _Job, following: _Job, report: CycleReport) -> None:
        """The end of a drain that ends early: what runs is finished, the batch after it goes back."""
        self._call_off(following)
        for job in (waiting, following):
            if job.batch.claims:
                result = job.result()
                self._cycles.note_published(job.batch, result)
                rest = self._cycles.settle(job.batch, result)
                report.claimed += rest.claimed
                report.settled += rest.settled
        self._cycles.release()
