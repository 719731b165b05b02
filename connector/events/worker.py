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

import ctypes
import functools
import gc
import mmap
import os
import pickle
import select
import signal
import struct
import sys
import time
import traceback
from typing import Final

import orjson

from connector.errors import ConnectorError, PipelineError
from connector.events.gate import pass_gate
from connector.events.outcome import Outcome
from connector.events.plan import Assignment, EventPlan, WorkItem
from connector.events.task import Task
from connector.state.journal import CycleJournal, attempt_path, read_journal
from connector.status import OutcomeKind

_PR_SET_PDEATHSIG: Final = 1
_LENGTH: Final = struct.Struct("<Q")
_STATE: Final = struct.Struct("<qd")
_NOTHING: Final = -1
_POLL_MS: Final = 200
_MAX_NAME: Final = 200


class RunnerProgress:
    """What the runner is doing, in memory that it shares with its watcher.

    Layout: number of the event at work, the time (monotonic seconds) at which it is ended, 0 for never, and
    the name of the subscription that is being called.
    """

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, mmap.PAGESIZE)
        self.stopping = False
        self.reset()

    def reset(self) -> None:
        _STATE.pack_into(self._shared, 0, _NOTHING, 0.0)

    def enter(self, sequence: int) -> None:
        _STATE.pack_into(self._shared, 0, sequence, 0.0)

    def arm(self, seconds: float, what: str) -> None:
        name = what.encode("utf-8", "replace")[:_MAX_NAME]
        self._shared[_STATE.size : _STATE.size + 1 + len(name)] = bytes([len(name)]) + name
        struct.pack_into("<d", self._shared, 8, time.monotonic() + seconds)

    def disarm(self) -> None:
        struct.pack_into("<d", self._shared, 8, 0.0)

    def read(self) -> tuple[int, float, str]:
        sequence, deadline = _STATE.unpack_from(self._shared, 0)
        length = self._shared[_STATE.size]
        name = self._shared[_STATE.size + 1 : _STATE.size + 1 + length].decode("utf-8", "replace")
        return sequence, deadline, name


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
                _runner_main(plan, deployment, self.progress, command_read, answer_write, parent)
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
            _send(self._commands, assignment)
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
                header = _read_exactly(self._answers, _LENGTH.size)
                if header is not None:
                    data = _read_exactly(self._answers, _LENGTH.unpack(header)[0])
                    if data is not None:
                        return data
            if self._ended in ready or self._answers in ready:
                raise RunnerEnded(self._how_it_ended())

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
    try:
        outcomes = runner.run(payload)
    except RunnerEnded as ended:
        supervision = _Supervision(plan_bytes, deployment, pickle.loads(payload))  # from our own driver
        outcomes = b",".join(supervision.run(runner, ended))
    return b"[" + outcomes + b"]"


@functools.lru_cache(maxsize=4)
def _plan(plan_bytes: bytes) -> EventPlan:
    plan: EventPlan = pickle.loads(plan_bytes)  # from our own driver
    return plan


def check_worker(plan_bytes: bytes, deployment: str, payload: bytes) -> bytes:
    """Loads everything an event needs, runs none; for the probe at start. Returns the pid."""
    _plan(plan_bytes).access.open().check()
    try:
        _runner(plan_bytes, deployment).run(pickle.dumps(Assignment("", [])))
    except RunnerEnded as ended:
        _runners.clear()
        raise PipelineError(f"the worker {ended.why} while it loaded processes and data handlers") from None
    return str(os.getpid()).encode()


def _runner(plan_bytes: bytes, deployment: str) -> Runner:
    key = (plan_bytes, deployment)
    runner = _runners.get(key)
    if runner is None:
        for old in _runners.values():  # another plan: the adapter has started anew
            old.kill()
        _runners.clear()
        runner = _runners[key] = Runner(_plan(plan_bytes), deployment)
    return runner


def stop_runners() -> None:
    """Ends the runners of this process; for those who call :func:`run_assignment` outside Spark."""
    for runner in _runners.values():
        runner.kill()
    _runners.clear()


class _Supervision:
    """Brings an assignment to its end after its runner has ended, however many more that takes."""

    def __init__(self, plan_bytes: bytes, deployment: str, assignment: Assignment) -> None:
        self._plan = _plan(plan_bytes)
        self._plan_bytes = plan_bytes
        self._deployment = deployment
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
            path = attempt_path(self._journal, self._attempt)
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

    def _learn(self, path: str, runner: Runner, ended: RunnerEnded) -> None:
        """What the journal of an ended runner says; then who is to blame."""
        _runners.clear()
        found = CycleJournal()
        try:
            read_journal(path, found)
        except FileNotFoundError:
            pass
        self._outcomes.extend(orjson.dumps(values) for values in found.done.values())
        culprit = runner.progress.read()[0]
        self._drop_finished()
        item = next((item for lane in self._lanes for item in lane if item[0] == culprit), None)
        if item is not None:
            self._blame(item, ended, begun=culprit in found.begun)
            self._drop_finished()
        elif culprit == _NOTHING:
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


def _runner_main(
    plan: EventPlan, deployment: str, progress: RunnerProgress, commands: int, answers: int, parent: int
) -> None:
    """The life of a runner."""

    def finish_and_stop(signum: int, frame: object) -> None:
        progress.stopping = True
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, max(0.01, plan.stop_timeout))

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, finish_and_stop)
    signal.signal(signal.SIGHUP, finish_and_stop)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    _close_inherited({commands, answers})
    # a child of a business process must hold neither end open, nor speak in our name
    os.register_at_fork(after_in_child=lambda: _close({commands, answers}))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        return
    task: Task | None = None
    while True:
        header = _read_exactly(commands, _LENGTH.size)
        if header is None or progress.stopping:
            return
        data = _read_exactly(commands, _LENGTH.unpack(header)[0])
        if data is None:
            return
        assignment: Assignment = pickle.loads(data)  # from our own parent
        try:
            if task is None:
                task = Task(plan, deployment, progress)
                gc.collect()
                gc.freeze()
            answer = b"O\n" + b",".join(_outcomes(task, assignment, progress))
        except ConnectorError as error:
            answer = b"E\n" + str(error).encode("utf-8", "backslashreplace")
        except Exception:
            answer = b"E\n" + traceback.format_exc().encode("utf-8", "backslashreplace")
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            _send(answers, answer)
        except BrokenPipeError:
            return


def _outcomes(task: Task, assignment: Assignment, progress: RunnerProgress) -> list[bytes]:
    """Runs an assignment when it may begin."""
    gate = assignment.gate
    if not assignment.lanes or (gate and not pass_gate(gate, assignment.after, lambda: progress.stopping)):
        return []
    return task.run(assignment.journal, assignment.lanes)


def _close_inherited(kept: set[int]) -> None:
    """The Spark worker's connections must end with the worker, not with its child."""
    _close({int(name) for name in os.listdir("/proc/self/fd")} - {0, 1, 2} - kept)


def _close(descriptors: set[int]) -> None:
    for descriptor in descriptors:
        try:
            os.close(descriptor)
        except OSError:
            pass


def _send(descriptor: int, data: bytes) -> None:
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(descriptor, view) :]


def _read_exactly(descriptor: int, size: int) -> bytes | None:
    chunks = []
    while size:
        chunk = os.read(descriptor, min(size, 1 << 20))
        if not chunk:
            return None
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)
