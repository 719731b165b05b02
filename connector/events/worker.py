"""The worker: runs assignments in a process of its own, and survives what they do to it.

A business process may crash its interpreter, be killed for lack of memory, or never return. If
that were the Spark worker itself, Spark would fail the whole job, and with it end the other tasks in the
middle of innocent events. So each Spark worker keeps one *runner*, a forked child that does the
work, and watches it. When the runner ends, or a call exceeds its ``timeout`` and it is ended,
the journal says what was done; the event that was at work runs again alone, up to ``max_attempts``
times, and the rest goes on. Spark never notices.

A runner whose parent dies (the adapter was killed, the JVM got the signal first) finishes the event
at work, within ``stop_timeout``, so that as little as possible is in doubt.
"""

from __future__ import annotations

import functools
import os
import pickle
import select
import signal
import time
from typing import Final

import orjson

from connector.errors import PipelineError
from connector.events.outcome import Outcome
from connector.events.plan import Assignment, EventPlan, WorkItem
from connector.events.probe import versions
from connector.events.runner import NOTHING, RunnerProgress, close, follow_commands, receive, send
from connector.state.store import CycleJournal, JournalHandle
from connector.status import OutcomeKind

_POLL_MS: Final = 200
_LEAVE_MS: Final = 3000


class RunnerEnded(Exception):
    """The runner ended before it answered; ``why`` completes "its worker ..."."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Runner:
    """The child process that converts and publishes.

    Args:
        plan: of the adapter.
        deployment: directory of processes and plug-ins.
    """

    def __init__(self, plan: EventPlan, deployment: str) -> None:
        self.progress = RunnerProgress()
        command_read, self._commands = os.pipe()
        self._answers, answer_write = os.pipe()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                follow_commands(plan, deployment, self.progress, command_read, answer_write, parent)
                status = 0
            finally:
                os._exit(status)
        os.close(command_read)
        os.close(answer_write)
        self._ended = os.pidfd_open(self.pid)

    def run(self, assignment: bytes) -> bytes:
        """Outcomes of a pickled assignment, as JSON, with commas between.

        Raises:
            RunnerEnded: the runner is gone; the journal says how far it came.
            PipelineError: it cannot do anything at all (a process cannot be loaded, ...).
        """
        self.progress.reset()
        try:
            send(self._commands, assignment)
        except BrokenPipeError:
            raise RunnerEnded(self._how_it_ended()) from None
        answer = self._receive()
        kind, _, data = answer.partition(b"\n")
        if kind == b"E":
            raise PipelineError(data.decode())
        return data

    def _receive(self) -> bytes:
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        poll.register(self._ended, select.POLLIN)
        while True:
            _, deadline, name = self.progress.read()
            left = deadline - time.monotonic() if deadline else _POLL_MS / 1000
            if deadline and left <= 0:
                self.kill()
                raise RunnerEnded(f"did not return from {name} in time and was ended")
            ready = dict(poll.poll(min(_POLL_MS, left * 1000 + 1)))
            if self._answers in ready and ready[self._answers] & select.POLLIN:
                data = receive(self._answers)
                if data is not None:
                    return data
            if self._ended in ready or self._answers in ready:
                raise RunnerEnded(self._how_it_ended())

    def end(self) -> None:
        """Lets it take its leave and end; ends it when that takes too long."""
        close({self._commands})
        self._commands = -1
        poll = select.poll()
        poll.register(self._ended, select.POLLIN)
        poll.poll(_LEAVE_MS)
        self.kill()

    def kill(self) -> None:
        """Ends it now."""
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._how_it_ended()

    def _how_it_ended(self) -> str:
        """Waits for its end; returns what to say about it."""
        try:
            _, status = os.waitpid(self.pid, 0)
        except ChildProcessError:
            status = 0
        for descriptor in (self._commands, self._answers, self._ended):
            try:
                os.close(descriptor)
            except OSError:
                pass
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            known = {one.value: one.name for one in signal.Signals}  # real-time signals have no name
            return f"was ended by {known.get(number, f'signal {number}')}"
        return f"ended with status {os.waitstatus_to_exitcode(status)}"


_runners: dict[tuple[bytes, str], Runner] = {}


def run_assignment(plan_bytes: bytes, deployment: str, payload: bytes) -> bytes:
    """What one partition of the Spark job does: an assignment in, outcomes out.

    Args:
        plan_bytes: a pickled :class:`EventPlan`, made by the driver of this adapter.
        deployment: directory of processes and plug-ins on this machine.
        payload: a pickled :class:`Assignment`.

    Returns:
        a JSON list of outcomes.

    Raises:
        PipelineError: processes or data handlers cannot be loaded here.
    """
    runner = _runner(plan_bytes, deployment)
    ended: RunnerEnded | None = None
    try:
        outcomes = runner.run(payload)
    except RunnerEnded as error:
        ended = error
    if ended is not None:  # not while it is handled: the next runner is forked, and would inherit that
        supervision = _Supervision(plan_bytes, deployment, pickle.loads(payload))  # from our own driver
        outcomes = b",".join(supervision.run(runner, ended))
    return b"[" + outcomes + b"]"


@functools.lru_cache(maxsize=4)
def _plan(plan_bytes: bytes) -> EventPlan:
    plan: EventPlan = pickle.loads(plan_bytes)  # from our own driver
    return plan


def check_worker(plan_bytes: bytes, deployment: str, payload: bytes) -> bytes:
    """Loads everything an event needs, runs none; for the probe at start. Returns what is installed."""
    _plan(plan_bytes).access.open().check()
    try:
        _runner(plan_bytes, deployment).run(pickle.dumps(Assignment(None, [])))
    except RunnerEnded as ended:
        _runners.clear()
        raise PipelineError(f"the worker {ended.why} while it loaded processes and data handlers") from None
    return versions()


def _runner(plan_bytes: bytes, deployment: str) -> Runner:
    key = (plan_bytes, deployment)
    runner = _runners.get(key)
    if runner is None:
        for old in _runners.values():  # another plan: the adapter has started anew
            old.end()
        _runners.clear()
        runner = _runners[key] = Runner(_plan(plan_bytes), deployment)
    return runner


def stop_runners() -> None:
    """Ends the runners of this process; for those who call :func:`run_assignment` outside Spark."""
    for runner in _runners.values():
        runner.end()
    _runners.clear()


class _Supervision:
    """Brings an assignment to its end after its runner has ended, however many more that takes."""

    def __init__(self, plan_bytes: bytes, deployment: str, assignment: Assignment) -> None:
        self._plan = _plan(plan_bytes)
        self._plan_bytes = plan_bytes
        self._deployment = deployment
        assert assignment.journal is not None
        self._journal = assignment.journal
        self._gate = assignment.gate
        self._after = assignment.after
        self._lanes = [lane for lane in assignment.lanes if lane]
        self._attempt = 0
        self._deaths: dict[int, int] = {}
        self._barren = 0
        self._outcomes: list[bytes] = []

    def run(self, runner: Runner, ended: RunnerEnded) -> list[bytes]:
        """All outcomes, those from before the end of ``runner`` included.

        Raises:
            PipelineError: workers end before they do anything.
        """
        self._learn(self._journal, runner, ended)
        while self._lanes:
            first = self._lanes[0][0]
            alone = first[0] in self._deaths
            batch = [[first]] if alone else self._lanes
            self._attempt += 1
            path = self._journal.attempt(self._attempt)
            runner = _runner(self._plan_bytes, self._deployment)
            try:
                counted = Assignment(path, self._counted(batch), self._gate, self._after)
                answer = runner.run(pickle.dumps(counted))
            except RunnerEnded as again:
                self._learn(path, runner, again)
                continue
            if answer:
                self._outcomes.extend(orjson.dumps(values) for values in orjson.loads(b"[" + answer + b"]"))
            self._drop_finished()
            if not alone:
                break  # what is left was left untouched on purpose
        return self._outcomes

    def _counted(self, lanes: list[list[WorkItem]]) -> list[list[WorkItem]]:
        """The lanes, with the deliveries that ended a worker added to those begun before."""
        return [
            [
                (number, name, reference, begun + self._deaths.get(number, 0))
                for number, name, reference, begun in lane
            ]
            for lane in lanes
        ]

    def _learn(self, journal: JournalHandle, runner: Runner, ended: RunnerEnded) -> None:
        """What the journal of an ended runner says; then who is to blame."""
        _runners.clear()
        found = CycleJournal()
        journal.read(found)
        self._outcomes.extend(orjson.dumps(values) for values in found.done.values())
        culprit = runner.progress.read()[0]
        self._drop_finished()
        item = next((item for lane in self._lanes for item in lane if item[0] == culprit), None)
        if item is not None:
            self._blame(item, ended, begun=culprit in found.begun)
            self._drop_finished()
        elif culprit == NOTHING:
            # it was idle when it was ended; if the next one does no better, it is not chance
            self._barren += 1
            if self._barren == 1:
                return
            raise PipelineError(f"the worker {ended.why} before its first event")

    def _blame(self, item: WorkItem, ended: RunnerEnded, *, begun: bool) -> None:
        """The event that ended the worker runs again alone, or has failed, or, once begun, stays in doubt."""
        sequence = item[0]
        deaths = self._deaths[sequence] = self._deaths.get(sequence, 0) + 1
        attempts = item[3] + deaths
        if begun and not self._plan.rerun:
            kind, reason = OutcomeKind.IN_DOUBT.value, f"its worker {ended.why}"
        elif attempts >= self._plan.max_attempts:
            times = "once" if attempts == 1 else f"{attempts} times"
            kind = OutcomeKind.FAILED.value
            reason = f"its worker {ended.why}; it was tried {times} (max_attempts)"
        else:
            # alone, before everything else: it keeps its place in its lane
            self._lanes.sort(key=lambda lane: lane[0][0] != sequence)
            return
        outcome = Outcome(sequence, kind, None, None, reason, attempts, unread=True)
        self._outcomes.append(outcome.to_json())

    def _drop_finished(self) -> None:
        """Takes out the events that have an outcome; one that was given back stops all others.

        One that was rolled back stops those that come after it in its lane.
        """
        finished = set()
        rolled_back = set()
        for data in self._outcomes:
            values = orjson.loads(data)
            if values[1] == OutcomeKind.GIVEN_BACK.value:
                self._lanes = []
                return
            finished.add(values[0])
            if values[1] == OutcomeKind.ROLLED_BACK.value:
                rolled_back.add(values[0])
        lanes = (
            [item for item in lane if item[0] not in finished]
            for lane in self._lanes
            if not any(item[0] in rolled_back for item in lane)
        )
        self._lanes = [lane for lane in lanes if lane]
