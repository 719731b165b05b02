"""The job of a batch: sends assignments to tasks, collects answers, and blames events for dead workers.

A worker repeats nothing. Without a complete answer, the journal of the task decides:

* *done*: the event has the outcome in the journal.
* *begun*: the event is to blame. After its last attempt the event has failed. A begun event that may not
  run twice stays in doubt. Otherwise the event runs again, alone.
* *at work*, and the worker has ended during the conversion: the event runs once more, alone. Then it has
  failed. An event whose conversion took longer than ``convert_timeout`` has failed at once. If the worker has
  ended in a transaction of a database, which no *begun* precedes, ``max_attempts`` counts.
* *untouched*: the event runs again with the others.
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final

from connector.errors import PipelineError, SparkLost
from connector.events.hooks.event_history import NOTES, pack_notes
from connector.events.outcome import Outcome, retries_of
from connector.events.run.circuits import CallCounts, CircuitState
from connector.events.run.event_keys import FoundKey, RecordKey, join_keys
from connector.events.run.pipeline import BESIDE, FUNCTION, Pipeline
from connector.events.run.schedule import Batch
from connector.events.run.task_answer import TaskAnswer, unpack_answer
from connector.events.run.task_settings import NOTHING, Assignment, TaskSettings, WorkItem
from connector.events.working_state import WorkingState
from connector.messaging.claim import Claim
from connector.messaging.input import Input
from connector.messaging.state_store import ClientJournals, CycleJournal, JournalHandle
from connector.operate.reasons import ReasonKind
from connector.sinks.retry_later import join_retries
from connector.status import OutcomeKind

_NAMES_SHOWN: Final = 3
_CANCELLED_SECONDS: Final = 5.0
"""Seconds to wait for the end of cancelled tasks. Recovery settles the events of a task that stays."""


@dataclass(slots=True)
class Result:
    """The result of a job.

    Args:
        outcomes: by sequence.
        attempts: number of deliveries or conversions that ended a worker, by sequence, for events without an
            outcome.
        again: sequences that run again in another job. Events in ``attempts`` run alone. All other events
            without an outcome go back untouched.
        durations: for each task that has finished, the inputs of its events, and their duration in seconds.
        is_untouched: whether no event was touched because workers had ended before.
        error: why no event can go on. None if events can go on.
        running: a task has not ended, so that the outcomes are not yet known.
        told: what each task has told the hooks of the driver, by their names.
        keys: by sequence, the duplicate keys by values that tasks were asked for.
    """

    outcomes: dict[int, Outcome] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)
    again: set[int] = field(default_factory=set)
    durations: list[tuple[Sequence[Input | None], float]] = field(default_factory=list)
    is_untouched: bool = False
    error: PipelineError | None = None
    running: bool = False
    told: list[Mapping[str, Any]] = field(default_factory=list)
    keys: dict[int, tuple[FoundKey, ...]] = field(default_factory=dict)


class EventJobs:
    """Runs batches as jobs. For any thread.

    Args:
        timeout: seconds to wait for a task that still writes its journal after its job has failed.
        working: what the instance remembers: resting and paused subscriptions, and its activity.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        task_settings: TaskSettings,
        journals: ClientJournals,
        timeout: float,
        working: WorkingState,
    ) -> None:
        self._activity = working.summary.activity
        self._pipeline = pipeline
        self._task_settings = task_settings
        self._connector = task_settings.connector
        self.plan_bytes: Final = pickle.dumps(task_settings, protocol=5)
        self._journals = journals
        self._journal_timeout = timeout
        self._circuits = working.circuits
        self._control = working.control
        self._cancelled = False
        self._numbers = itertools.count()
        self._running: dict[int, list[JournalHandle]] = {}

    @property
    def parallelism(self) -> int:
        """Number of tasks that can run at the same time."""
        return self._pipeline.parallelism

    @property
    def tasks_stay(self) -> bool:
        """Whether tasks stay from one batch to the next."""
        return self._pipeline.tasks_stay

    def check(self) -> None:
        """Raises the error of tasks that have failed while nothing ran.

        Raises:
            PipelineError: no event can be processed now.
        """
        self._pipeline.check()

    def cancel(self) -> None:
        """Ends the running tasks. Their journals count, and no event runs again."""
        self._cancelled = True
        with contextlib.suppress(OSError):  # in that case a task may run once more before it is ended
            for handles in list(self._running.values()):
                self._journals.seal(handles)
        self._pipeline.cancel()
        self._journals.end_writers()

    def run(self, batch: Batch) -> Result:
        """Runs the events of a batch and waits for their outcomes. Never raises.

        A job that fails although Spark runs may have met workers that had ended while idle: a process that
        kills its process group kills all workers. If no event was touched, another job may meet others. If
        the workers end again, each event runs alone, because an event may end its worker and leave no trace.

        Jobs of single batches may meet one ended worker after the other. A task that stays is known to live
        when it gets an assignment, so its job is repeated once.
        """
        result, error = self._run(batch)
        for _ in range(1 if self.tasks_stay else self.parallelism):
            if error is None or not result.is_untouched or self._cancelled or not self._pipeline.alive:
                break
            result, error = self._run(batch)
        if error is not None and result.is_untouched:
            result.is_untouched = False
            if isinstance(error, SparkLost) and self._pipeline.alive and not self._cancelled:
                self._try_alone(batch, result, f"its worker ended: {error}")
            else:
                result.error = error
        return result

    def _most_attempts(self, claim: Claim) -> int:
        by_input = self._task_settings.by_input
        settings = by_input.get(claim.input, self._connector) if claim.input else self._connector
        return settings.max_attempts

    def _try_alone(self, batch: Batch, result: Result, ended: str) -> None:
        """Lets each event run alone. An event that was alone has ended its worker once more."""
        for claim in batch.claims:
            number = claim.sequence
            attempts = batch.attempts[number] + 1 if number in batch.attempts else 0
            if claim.delivery_count + attempts >= self._most_attempts(claim):
                reason = f"{ended}; it was tried alone {attempts} times (max_attempts)"
                result.outcomes[number] = Outcome(
                    OutcomeKind.FAILED,
                    reason=reason,
                    attempts=attempts,
                    not_read=True,
                    reason_kind=ReasonKind.WORKER_DIED,
                )
                result.again.discard(number)
            else:
                result.attempts[number] = attempts
                result.again.add(number)

    def _run(self, batch: Batch) -> tuple[Result, PipelineError | None]:
        number = next(self._numbers)
        own = self._task_settings.by_input
        groups = [work_items(group, batch.attempts, own) for group in batch.order_groups]
        parts = spread(groups, batch.tasks)
        handles = [self._journals.file(batch.cycle, task, number) for task in range(len(parts))]
        self._running[number] = handles
        began = time.monotonic()
        try:
            error, answers = self._answers(batch, parts, handles)
            self._count(time.monotonic() - began, error, answers)
            return self._result(batch, parts, handles, answers, error), error
        finally:
            del self._running[number]

    def _ids(self, batch: Batch, part: list[list[WorkItem]]) -> Mapping[int, str]:
        """Returns the duplicate keys of a part. Only a transactional sink asks for them."""
        if not (batch.ids and self._task_settings.databases):
            return NOTHING
        return {item[0]: batch.ids[item[0]] for group in part for item in group if item[0] in batch.ids}

    def _count(self, seconds: float, error: PipelineError | None, answers: list[TaskAnswer]) -> None:
        died, longest = int(error is not None and not self._cancelled), 0.0
        for answer in answers:
            longest = max(longest, answer.seconds)
            died += error is None and answer.ended is not None
        self._activity.count_job(seconds, longest, died)

    def _answers(
        self, batch: Batch, parts: list[list[list[WorkItem]]], handles: list[JournalHandle]
    ) -> tuple[PipelineError | None, list[TaskAnswer]]:
        error: PipelineError | None = None
        states: Sequence[Mapping[str, CircuitState]] = [NOTHING] * len(parts)
        if self._circuits.has_failures:
            states = self._circuits.states(len(parts))
        paused = self._control.delays()
        payloads = []
        for handle, part, state in zip(handles, parts, states, strict=True):
            assignment = Assignment(handle, part, batch.cycle, state, paused, self._ids(batch, part))
            if batch.asks_keys or batch.values:
                assignment = assignment._replace(asks_keys=batch.asks_keys, values=_values(batch, part))
            payloads.append(pickle.dumps(assignment, protocol=5))
        answers: list[TaskAnswer] = []
        try:
            if not self._cancelled:
                shares = batch.side_by_side is not None
                found = self._pipeline.run(
                    BESIDE if shares else FUNCTION,
                    self.plan_bytes,
                    payloads,
                    _description(batch),
                    shares=shares,
                )
                answers = [unpack_answer(answer) for answer in found]
                return None, answers
        except PipelineError as failed:
            error = failed
        finally:
            for circuits, answer in zip_longest(states, answers, fillvalue=None):
                calls = answer.calls if answer is not None else NOTHING
                if circuits or calls:
                    self._circuits.note(circuits or NOTHING, calls)
        if self._cancelled:
            error = PipelineError("it was not done within stop_timeout")
        # Nobody has seen how the workers ended. With databases it may have been in transactions.
        converting = not self._task_settings.databases
        return error, [TaskAnswer(ended=f"ended: {error}", converting=converting)] * len(parts)

    def _result(
        self,
        batch: Batch,
        parts: list[list[list[WorkItem]]],
        handles: list[JournalHandle],
        answers: list[TaskAnswer],
        error: PipelineError | None,
    ) -> Result:
        result = Result()
        unknown: list[JournalHandle] = []
        claims = {claim.sequence: claim for claim in batch.claims}
        for part, handle, answer in zip(parts, handles, answers, strict=True):
            if answer.ended is not None:
                unknown.append(handle)
                continue
            items = [item for group in part for item in group]
            result.outcomes.update(answer.outcomes)
            if answer.told:
                result.told.append(answer.told)
            for number, keys in answer.keys:
                result.keys[number] = tuple([FoundKey(*one) for one in keys])
            if answer.full:  # a new worker goes on
                known = result.keys if batch.asks_keys else answer.outcomes
                result.again.update(item[0] for item in items if item[0] not in known)
                items = [item for item in items if item[0] in answer.outcomes]
            if items and not batch.asks_keys:
                result.durations.append(([claims[item[0]].input for item in items], answer.seconds))
        if unknown:
            self._add_ended(batch, parts, handles, answers, unknown, error, result)
        return result

    def _add_ended(
        self,
        batch: Batch,
        parts: list[list[list[WorkItem]]],
        handles: list[JournalHandle],
        answers: list[TaskAnswer],
        unknown: list[JournalHandle],
        error: PipelineError | None,
        result: Result,
    ) -> None:
        """Adds what the journals say of tasks whose workers have ended.

        Args:
            unknown: the journals of these tasks.
        """
        claims = {claim.sequence: claim for claim in batch.claims}
        try:
            if not self._have_ended(unknown):
                raise TimeoutError(f"a task did not end within {self._journal_timeout:.0f} s")
            for part, handle, answer in zip(parts, handles, answers, strict=True):
                if answer.ended is not None:
                    taken = [claims[item[0]] for group in part for item in group]
                    self._blame(batch, taken, handle, answer, result)
            for number, outcome in result.outcomes.items() if batch.values else ():
                keys = join_keys(batch.values.get(number, ()))
                result.outcomes[number] = outcome._replace(keys=keys)
        except OSError as failed:
            result.error = error or PipelineError(f"the journal of a worker cannot be read: {failed}")
            result.running = True
            return
        if not (result.outcomes or result.attempts or result.keys):
            if error is not None and self._pipeline.alive and not self._cancelled:
                result.is_untouched = True
            elif error is None and not batch.is_untouched:
                result.is_untouched = True  # the workers may have ended by chance while idle
            else:
                result.error = error or PipelineError(f"the worker {answers[0].ended} before its first event")
        elif self._cancelled or (error is not None and not self._pipeline.alive):
            result.error = error or PipelineError("it was not done within stop_timeout")

    def _have_ended(self, handles: list[JournalHandle]) -> bool:
        """Whether the journals are complete: no task can open them, and no task has them open.

        Raises:
            OSError: the journals cannot be sealed.
        """
        self._journals.seal(handles)
        timeout = min(self._journal_timeout, _CANCELLED_SECONDS) if self._cancelled else self._journal_timeout
        return self._journals.wait(timeout, handles)

    def _blame(
        self, batch: Batch, claims: list[Claim], handle: JournalHandle, answer: TaskAnswer, result: Result
    ) -> None:
        """Adds the outcomes from the journal of an ended worker, and finds the events to blame."""
        journal = CycleJournal()
        ended = f"its worker {answer.ended}"
        if answer.exceeded and answer.ended is not None:
            ended = answer.ended
        handle.read(journal)
        if journal.notes:
            result.told.append({NOTES: pack_notes(journal.notes)})
        for number, values in journal.done.items():
            if isinstance(values, list):
                result.outcomes[number] = Outcome.from_list(values)
        for claim in claims:
            number = claim.sequence
            if number in result.outcomes:
                continue
            begun = number in journal.begun
            if not begun and (number not in journal.at_work or self._cancelled):
                result.again.add(number)
                continue
            attempts = batch.attempts.get(number, 0) + 1
            total = claim.delivery_count + attempts
            kind = OutcomeKind.FAILED
            later = self._later(claim, answer, total, ended)
            if begun and not self._task_settings.reruns:
                kind, reason = OutcomeKind.IN_DOUBT, ended
            elif later is not None:
                result.outcomes[number] = later
                continue
            elif answer.exceeded and not begun:
                reason = ended
            elif not begun and answer.converting and number in batch.attempts:
                reason = f"{ended} during the conversion; it was tried alone, too"
            elif total >= self._most_attempts(claim):
                times = "once" if total == 1 else f"{total} times"
                reason = f"{ended}; it was tried {times} (max_attempts)"
            else:
                result.attempts[number] = attempts
                result.again.add(number)
                continue
            timed_out = answer.exceeded or answer.overdue
            result.outcomes[number] = Outcome(
                kind,
                reason=reason,
                attempts=total,
                not_read=True,
                reason_kind=ReasonKind.TIMEOUT if timed_out else ReasonKind.WORKER_DIED,
                subscription=answer.overdue,
            )

    def _later(self, claim: Claim, answer: TaskAnswer, total: int, ended: str) -> Outcome | None:
        """Returns the outcome of an event whose call its ``timeout`` has ended, if it may come again later.

        The call counts as a try, and as a delivery that nobody ended.
        """
        found = [one for one in self._task_settings.subscriptions if one.name == answer.overdue]
        rules = found[0].retry_later if found else None
        if rules is None or not rules.names(TimeoutError()):
            return None
        name = answer.overdue
        self._circuits.note({}, {name: CallCounts(1, 1, reason=ended)})
        retries = retries_of(claim.headers(), self._task_settings.own, str(claim.destination)).get(name, 0)
        if retries >= rules.attempts or total >= self._most_attempts(claim):
            return None
        due = self._task_settings.access.open().now() + int(rules.seconds(retries) * 1000)
        tried = join_retries({name: retries + 1})
        reason = f"{name}: {ended}"
        return Outcome(
            OutcomeKind.LATER,
            reason=reason,
            attempts=total,
            not_read=True,
            due=due,
            retries=tried,
            reason_kind=ReasonKind.TIMEOUT,
            subscription=name,
        )


def _description(batch: Batch) -> str:
    """Returns the text for Spark's UI: ``poll 17, 240 events of queue://orders, queue://notes``."""
    names = list(map(str, dict.fromkeys([group[0].destination for group in batch.order_groups])))
    if len(names) > _NAMES_SHOWN:
        names[_NAMES_SHOWN:] = [f"{len(names) - _NAMES_SHOWN} more"]
    count = len(batch.claims)
    what = "keys of " if batch.asks_keys else ""
    return f"poll {batch.cycle}, {what}{count} event{'s' * (count != 1)} of {', '.join(names)}"


def _values(batch: Batch, part: list[list[WorkItem]]) -> Mapping[int, tuple[RecordKey, ...]]:
    """Returns what is known of the keys by values of a part."""
    known = batch.values
    return {item[0]: known[item[0]] for group in part for item in group if item[0] in known}


def work_items(
    claims: Sequence[Claim], attempts: Mapping[int, int], own: Collection[Input] = ()
) -> list[WorkItem]:
    """Returns the work items of an order group.

    Args:
        claims: of one destination.
        attempts: by sequence, begun deliveries that the claims do not count.
        own: the inputs with keys of their own.
    """
    name = str(claims[0].destination)
    if not (attempts or own):
        return [(claim.sequence, name, claim.reference, claim.delivery_count, None) for claim in claims]
    return [
        (
            claim.sequence,
            name,
            claim.reference,
            claim.delivery_count + attempts.get(claim.sequence, 0),
            claim.input if claim.input in own else None,
        )
        for claim in claims
    ]


def spread(order_groups: list[list[WorkItem]], partitions: int) -> list[list[list[WorkItem]]]:
    """Spreads order groups over at most ``partitions`` tasks, about equally many events each."""
    partitions = max(1, min(partitions, len(order_groups)))
    if partitions == 1:
        return [order_groups]
    tasks: list[list[list[WorkItem]]] = [[] for _ in range(partitions)]
    loads = [0] * partitions
    for group in sorted(order_groups, key=len, reverse=True):
        lightest = loads.index(min(loads))
        tasks[lightest].append(group)
        loads[lightest] += len(group)
    return [task for task in tasks if task]
