"""The job of one cycle: assignments to tasks, outcomes back, whatever becomes of the tasks."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import orjson

from connector.errors import PipelineError
from connector.events.claiming import Batch
from connector.events.gate import Gate
from connector.events.lanes import make_lanes, spread
from connector.events.outcome import Outcome
from connector.events.plan import Assignment, EventPlan
from connector.messaging.provider import Claim
from connector.state.journal import JournalDirectory, JournalFile
from connector.state.store import ClientJournals, CycleJournal, JournalHandle
from connector.status import OutcomeKind

FUNCTION: Final = "connector.events.worker:run_assignment"
CHECK: Final = "connector.events.worker:check_worker"

_NAMES_SHOWN: Final = 3
_TASK_COST: Final = 0.008
"""Seconds that one more task of a job costs; below that an event is better off in another's."""


class Pipeline(Protocol):
    """What runs the tasks: Spark (:class:`connector.spark.pipeline.SparkPipeline`)."""

    @property
    def parallelism(self) -> int: ...

    @property
    def alive(self) -> bool: ...

    @property
    def overlaps(self) -> bool:
        """Whether :meth:`run` may be called while another job runs, by another thread."""

    def run(self, function: str, plan: bytes, payloads: Sequence[bytes], description: str) -> list[bytes]:
        """One job, one task for each payload.

        Raises:
            PipelineError: a task or all of it failed.
        """

    def cancel(self) -> None:
        """Lets the job that runs fail. From any thread."""


class ProbeAnswer(Protocol):
    """What one executor answered to a probe."""

    @property
    def executor(self) -> str: ...

    @property
    def answer(self) -> bytes: ...

    @property
    def error(self) -> str:
        """Why it cannot work; empty when it can."""


class Workers(Pipeline, Protocol):
    """A pipeline with its life: what an adapter starts, asks and stops."""

    def start(self) -> None:
        """Raises PipelineError when it cannot."""

    def probe(self, function: str, plan: bytes) -> Sequence[ProbeAnswer]:
        """Runs ``function`` with an empty payload once on every executor."""

    def stop(self) -> None:
        """Ends it with all its processes. Repeatable."""


@dataclass(slots=True)
class Result:
    """What a job has brought.

    Args:
        outcomes: by sequence; an event that is in neither was left untouched.
        begun: deliveries begun of events without an outcome, by sequence.
        error: why the job could not be finished; None where it was.
        running: a task has not ended, so that nobody can say yet what became of its events.
    """

    outcomes: dict[int, Outcome] = field(default_factory=dict)
    begun: dict[int, int] = field(default_factory=dict)
    error: PipelineError | None = None
    running: bool = False


class CycleJob:
    """Runs batches as jobs.

    Args:
        pipeline: runs the tasks.
        plan: of the adapter.
        journals: of this client.
        order: ``destination``, ``group`` or ``none``.
        patience: seconds to wait for a task that is still writing its journal after its job has failed.
    """

    def __init__(
        self, pipeline: Pipeline, plan: EventPlan, journals: ClientJournals, order: str, patience: float
    ) -> None:
        self._pipeline = pipeline
        self._plan = plan
        self._plan_bytes = pickle.dumps(plan, protocol=5)
        self._journals = journals
        self._order = order
        self._patience = patience
        self._seconds_an_event = 1.0
        self._cancelled = False
        self._numbers = itertools.count()
        self._paths: dict[int, list[JournalHandle]] = {}  # journals of the jobs that run, by cycle
        self._ends: dict[int, tuple[str, ...]] = {}  # those of a job's first turn: no part is left out
        self._gates: dict[int, Gate] = {}

    @property
    def plan_bytes(self) -> bytes:
        return self._plan_bytes

    def cancel(self) -> None:
        """Ends the tasks that run; what they have journalled counts, and nothing runs again.

        For any thread.
        """
        self._cancelled = True
        self._refuse_gates()
        with contextlib.suppress(OSError):  # then a task may run once more before it is ended
            for paths in list(self._paths.values()):
                self._journals.seal(paths)
        self._pipeline.cancel()
        self._journals.end_writers()

    def gate(self, cycle: int) -> Gate | None:
        """A gate for the job of a cycle that is sent while another runs; None where jobs do not overlap."""
        if not self._pipeline.overlaps or not isinstance(self._journals, JournalDirectory):
            return None
        gate = self._gates[cycle] = Gate(self._journals.gate(cycle))
        if self._cancelled:
            gate.refuse()
        return gate

    def has_begun(self, cycle: int) -> bool:
        """Whether every task of the cycle's job has opened its journal: it has its core."""
        paths = self._paths.get(cycle)
        return paths is not None and all(path.read(CycleJournal()) for path in paths)

    def ends(self, cycle: int) -> tuple[str, ...]:
        """Journals whose end is that of the cycle's job; none where only its outcomes tell that."""
        return self._ends.get(cycle, ())

    def _refuse_gates(self) -> None:
        for gate in list(self._gates.values()):
            gate.refuse()

    def run(
        self, batch: Batch, claims: Sequence[Claim], gate: Gate | None = None, after: tuple[str, ...] = ()
    ) -> Result:
        """Runs the given claims of a batch. Called from a thread of its own; never raises PipelineError.

        With a gate its first job waits there, for the end of the journals ``after`` or for the driver;
        a job that was refused has touched nothing.
        """
        try:
            return self._run(batch, claims, gate, after)
        finally:
            self._paths.pop(batch.cycle, None)
            self._ends.pop(batch.cycle, None)
            self._gates.pop(batch.cycle, None)

    def _run(
        self, batch: Batch, claims: Sequence[Claim], gate: Gate | None, after: tuple[str, ...]
    ) -> Result:
        result = Result()
        pending = list(claims)
        attempts: dict[int, int] = {}
        for turn in range(self._plan.max_attempts * 2 + 1):
            if not pending or self._cancelled:
                break
            before = len(result.outcomes), sum(result.begun.values())
            suspects = [claim for claim in pending if claim.sequence in attempts]
            now = suspects[:1] or pending
            error = self._once(batch.cycle, now, attempts, result, None if turn else gate, after)
            if error is not None:
                self._refuse_gates()  # a waiting job must not keep the cores from what is tried again
                if not self._read_journals(batch.cycle, result):
                    result.error, result.running = error, True
                    break
                for sequence, times in result.begun.items():
                    if sequence not in result.outcomes:
                        attempts[sequence] = times
                self._give_up(pending, attempts, result, str(error))
                if self._cancelled or not self._pipeline.alive:
                    result.error = error
                    break
                if before == (len(result.outcomes), sum(result.begun.values())):
                    result.error = error  # nothing was begun: it would fail the same way again
                    break
            elif (
                any(o.kind == OutcomeKind.GIVEN_BACK.value for o in result.outcomes.values()) or not suspects
            ):
                break
            pending = [claim for claim in pending if claim.sequence not in result.outcomes]
        result.begun = {s: n for s, n in result.begun.items() if s not in result.outcomes}
        return result

    def _once(
        self,
        cycle: int,
        claims: Sequence[Claim],
        attempts: dict[int, int],
        result: Result,
        gate: Gate | None,
        after: tuple[str, ...],
    ) -> PipelineError | None:
        lanes = make_lanes(self._order, claims)
        if attempts:
            lanes = [
                [
                    (number, name, reference, count + attempts.get(number, 0))
                    for number, name, reference, count in lane
                ]
                for lane in lanes
            ]
        number = next(self._numbers)  # never used again: journals of a job that has failed are sealed
        parts = spread(lanes, self._partitions(len(claims)))
        paths = self._paths[cycle] = [self._journals.file(cycle, task, number) for task in range(len(parts))]
        files = tuple(path.path for path in paths if isinstance(path, JournalFile))
        self._ends[cycle] = () if attempts else files
        wait = (gate.path, after) if gate is not None else ("", ())
        payloads = [
            pickle.dumps(Assignment(path, part, *wait), protocol=5)
            for path, part in zip(paths, parts, strict=True)
        ]
        if self._cancelled:
            return PipelineError("the adapter is stopping")
        started = time.time()
        count = len(claims)
        try:
            answers = self._pipeline.run(FUNCTION, self._plan_bytes, payloads, _description(cycle, claims))
        except PipelineError as error:
            return PipelineError("it was not done within stop_timeout") if self._cancelled else error
        if gate is not None:
            opened_at = gate.opened_at()
            if opened_at is None:
                return None
            started = max(started, opened_at)
        spent = max(0.0, time.time() - started) * len(payloads) / count
        self._seconds_an_event += (spent - self._seconds_an_event) * 0.3
        for answer in answers:
            for values in orjson.loads(answer):
                result.outcomes[values[0]] = Outcome.from_list(values)
        return None

    def _partitions(self, events: int) -> int:
        """As many tasks as there are cores, unless the events are too few and too quick to repay them."""
        worth = int(events * self._seconds_an_event / _TASK_COST)
        return max(1, min(self._pipeline.parallelism, worth))

    def _read_journals(self, cycle: int, result: Result) -> bool:
        """Adds what the journals of a failed job say; False when a task still writes one."""
        try:
            self._journals.seal(self._paths[cycle])
        except OSError:
            return False
        if not self._journals.wait(self._patience):
            return False
        journal = self._journals.read().get(cycle, CycleJournal())
        for values in journal.done.values():
            if isinstance(values, list):
                outcome = Outcome.from_list(values)
                result.outcomes.setdefault(outcome.sequence, outcome)
        result.begun = journal.begun
        return True

    def _give_up(self, pending: Sequence[Claim], attempts: dict[int, int], result: Result, why: str) -> None:
        """Events whose worker has died too often have failed; where nothing may run twice, they stay."""
        for claim in pending:
            times = attempts.get(claim.sequence)
            if times is None or claim.sequence in result.outcomes:
                continue
            total = claim.delivery_count + times
            if not self._plan.rerun:
                kind, reason = OutcomeKind.IN_DOUBT.value, f"its worker ended: {why}"
            elif total >= self._plan.max_attempts:
                kind, reason = OutcomeKind.FAILED.value, f"ended its worker {total} times: {why}"
            else:
                continue
            result.outcomes[claim.sequence] = Outcome(
                claim.sequence, kind, None, None, reason, total, unread=True
            )


def _description(cycle: int, claims: Sequence[Claim]) -> str:
    """What Spark's UI says of a job: ``poll 17, 240 events of queue://orders, queue://notes``."""
    names = list(dict.fromkeys(str(claim.destination) for claim in claims))
    if len(names) > _NAMES_SHOWN:
        names[_NAMES_SHOWN:] = [f"{len(names) - _NAMES_SHOWN} more"]
    return f"poll {cycle}, {len(claims)} event{'s' * (len(claims) != 1)} of {', '.join(names)}"
