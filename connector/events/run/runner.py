"""The runner: the child of a worker in which business processes run.

A pipe brings assignments, and another pipe returns answers. The runner notes its current call in
memory that its parent watches. A business process may end the runner at any moment.

A shared runner has several slots (``parallel``). Each slot is a thread with a task of its own, which runs one
assignment at a time. So each slot has its journal, its sinks and its connections.
"""

from __future__ import annotations

import ctypes
import gc
import io
import logging
import os
import pickle
import queue
import signal
import struct
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from connector.errors import ConnectorError
from connector.events.hooks.grouped_log import LogGroups
from connector.events.run.task import Task
from connector.events.run.task_answer import NO_ANSWER, TaskAnswer, overdue_call, pack_answer
from connector.events.run.task_settings import Assignment, TaskSettings
from connector.limits.memory import WorkerMemory, resident_memory
from connector.limits.runner_control import RunnerControl, RunnerState, SharedState
from connector.log import (
    divert_to_log,
    let_user_code_configure,
    set_up_logging,
    show_user_code,
)
from connector.printed import PrintedLines, take_prints
from connector.sinks.event_loop import CallOverdue
from connector.sinks.lazy_requests import SharedRequests

_log: Final = logging.getLogger("connector.events")

_PR_SET_PDEATHSIG: Final = 1
_LENGTH: Final = struct.Struct("<Q")
_CLOSE_SECONDS: Final = 2.0
"""Seconds in which the slots close their sinks at the end."""
SLOT: Final = struct.Struct("<I")
"""Before an assignment and its answer: the number of the slot."""
_TWICE: Final = "was given the task twice; the first run counts"


def follow_commands(
    task_settings: TaskSettings,
    deployment: str,
    control: RunnerControl,
    commands: int,
    answers: int,
    parent: int,
) -> None:
    """Runs assignments until the pipe of commands is closed.

    Args:
        control: shared with the parent.
        commands: pipe with pickled assignments.
        answers: pipe for the answers.
        parent: the watching process. The runner ends soon after this process.
    """
    printed = _set_up(task_settings, control.state, {commands, answers}, parent)
    if printed is None:
        return
    worker = _RunnerTask(task_settings, deployment, control)
    try:
        while (data := receive(commands)) is not None and not control.stopping:
            answer = worker.run(data)
            _end_lines(printed)
            try:
                send(answers, answer)
            except BrokenPipeError:
                return
    finally:
        worker.close()


def follow_shared(
    task_settings: TaskSettings,
    deployment: str,
    state: SharedState,
    commands: int,
    answers: int,
    parent: int,
) -> None:
    """Runs assignments in slots until the pipe of commands is closed.

    Args:
        state: shared with the parent.
        commands: pipe with pickled assignments, each behind the number of its slot (:data:`SLOT`).
        answers: pipe for the answers, each behind the number of its slot.
        parent: as for :func:`follow_commands`.
    """
    printed = _set_up(task_settings, state, {commands, answers}, parent)
    if printed is None:
        return
    writing, groups = threading.Lock(), LogGroups()
    if task_settings.requests is not None:
        task_settings = replace(task_settings, requests=SharedRequests(task_settings.requests))
    slots: dict[int, _Slot] = {}
    while (data := receive(commands)) is not None and not state.stopping:
        (number,) = SLOT.unpack_from(data)
        if number not in slots:
            worker = _RunnerTask(task_settings, deployment, state.slot(number), groups)
            slots[number] = _Slot(number, worker, printed, answers, writing)
            slots[number].start()
        slots[number].work.put(data[SLOT.size :])
    for slot in slots.values():
        slot.work.put(None)
    deadline = time.monotonic() + _CLOSE_SECONDS
    for slot in slots.values():
        slot.join(max(0.0, deadline - time.monotonic()))


class _Slot(threading.Thread):
    """A thread of a shared runner.

    Args:
        writing: held by who writes an answer.
    """

    def __init__(
        self,
        number: int,
        worker: _RunnerTask,
        printed: Sequence[PrintedLines],
        answers: int,
        writing: threading.Lock,
    ) -> None:
        super().__init__(name=f"slot-{number}", daemon=True)
        self._head = SLOT.pack(number)
        self._worker = worker
        self._printed = printed
        self._answers = answers
        self._writing = writing
        self.work: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        """Assignments. None = the end."""

    def run(self) -> None:
        try:
            while (data := self.work.get()) is not None:
                answer = self._worker.run(data)
                _end_lines(self._printed, threading.get_ident())
                with self._writing:
                    send(self._answers, self._head + answer)
        except BrokenPipeError:
            pass
        finally:
            self._worker.close()


def _set_up(
    task_settings: TaskSettings, state: RunnerState, pipes: set[int], parent: int
) -> list[PrintedLines] | None:
    """Makes a runner of this fork. Returns the streams of what is printed. None = the parent has ended."""
    _take_signals(state, task_settings.connector.stop_timeout)
    _close_inherited(pipes)
    _renew_streams()
    # A child of a business process must neither keep the pipes open nor write answers.
    os.register_at_fork(after_in_child=lambda: close(pipes))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        return None
    set_up_logging(task_settings.logging)
    show_user_code(task_settings.logging)
    divert_to_log()
    let_user_code_configure()
    printed = take_prints()
    logging.raiseExceptions = False  # a log line that cannot be written harms no event
    state.memory = WorkerMemory(task_settings.connector.worker_memory)
    return printed


def _end_lines(printed: Sequence[PrintedLines], thread: int | None = None) -> None:
    """Writes what a thread has printed, or all threads."""
    with suppress(OSError, ValueError):  # a business process may have replaced or closed them
        sys.stdout.flush()
        sys.stderr.flush()
    for stream in printed:
        stream.end_lines(thread)


def _take_signals(state: RunnerState, stop_timeout: float) -> None:
    """Replaces the handlers of the parent. A signal to stop lets the event at work end within a time."""

    def finish_and_stop(signum: int, frame: object) -> None:
        state.stopping = True
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, max(0.01, stop_timeout))

    signal.set_wakeup_fd(-1)  # the parent's descriptor is closed here, and its number may be used again
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, finish_and_stop)
    signal.signal(signal.SIGHUP, finish_and_stop)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


class _RunnerTask:
    """The task of a runner, made for the first assignment."""

    def __init__(
        self,
        task_settings: TaskSettings,
        deployment: str,
        control: RunnerControl,
        groups: LogGroups | None = None,
    ) -> None:
        self._groups = groups
        self._task_settings = task_settings
        self._connector = task_settings.connector
        self._deployment = deployment
        self._control = control
        self._task: Task | None = None

    def run(self, data: bytes) -> bytes:
        """Returns the answer to a pickled assignment."""
        assignment: Assignment = pickle.loads(data)  # from our own parent
        try:
            if self._task is None:
                self._task = self._make_task()
            if assignment.journal is None:
                return b"O\n" + pack_answer(NO_ANSWER)
            began = time.monotonic()
            outcomes = self._task.run(assignment.journal, *assignment[1:])
            full = self._task.is_full
            if full and not self._control.is_leaving:
                self._tell_full(self._task)
            seconds = time.monotonic() - began
            told = self._task.take_told()
            calls, keys = self._task.calls, self._task.keys
            answer = TaskAnswer(calls=calls, seconds=seconds, full=full, told=told, keys=keys)
            return (b"F\n" if full else b"O\n") + pack_answer(answer, outcomes)
        except CallOverdue as overdue:
            return b"O\n" + pack_answer(overdue_call(overdue.subscription))
        except FileExistsError:
            return b"O\n" + pack_answer(TaskAnswer(ended=_TWICE))
        except ConnectorError as error:
            return b"E\n" + str(error).encode("utf-8", "backslashreplace")
        except Exception:
            return b"E\n" + traceback.format_exc().encode("utf-8", "backslashreplace")

    def _make_task(self) -> Task:
        with _making:  # a module that is being imported is no module yet
            task = Task(self._task_settings, self._deployment, self._control, self._groups)
            if not gc.get_freeze_count():
                gc.collect()
                gc.freeze()
            return task

    def _tell_full(self, task: Task) -> None:
        extra = {"events": task.events, "memory": resident_memory()}
        if task.events >= self._connector.worker_events:
            _log.info("a worker is replaced after many events", extra=extra)
        else:
            extra["worker_memory"] = self._connector.worker_memory or 0
            _log.warning("a worker is replaced because of its memory", extra=extra)

    def close(self) -> None:
        if self._task is not None:
            self._task.close()


_making: Final = threading.Lock()
"""Held by the slot that makes its task."""
_inherited: Final[list[object]] = []
"""Streams of the parent. Their end would flush them."""


def _renew_streams() -> None:
    """Replaces stdout and stderr. A thread of the parent may have held their locks at the fork.

    Both write lines to the same descriptor. Two would be mixed within a line: Spark forwards each in pieces.
    """
    for name in ("stdout", "stderr"):
        before = getattr(sys, name)
        encoding = getattr(before, "encoding", None) or "utf-8"
        try:
            raw = io.BufferedWriter(io.FileIO(2, "w", closefd=False))
        except OSError:  # the parent has closed the descriptor
            continue
        _inherited.append(before)
        setattr(sys, name, io.TextIOWrapper(raw, encoding, "backslashreplace", line_buffering=True))
    with suppress(OSError):
        os.dup2(2, 1)  # for the children of business processes


def _close_inherited(kept: set[int]) -> None:
    """Closes the Spark worker's connections, which must end with the worker and not with its child."""
    close({int(name) for name in os.listdir("/proc/self/fd")} - {0, 1, 2} - kept)


def close(descriptors: set[int]) -> None:
    """Closes descriptors. A descriptor that is closed already is no error."""
    for descriptor in descriptors:
        try:
            os.close(descriptor)
        except OSError:
            pass


def send(descriptor: int, data: bytes) -> None:
    """Writes one message into a pipe.

    Raises:
        BrokenPipeError: the reader has ended.
    """
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(descriptor, view) :]


def receive(descriptor: int) -> bytes | None:
    """Returns the next message of a pipe, or None if the writer has ended."""
    header = _read_exactly(descriptor, _LENGTH.size)
    return _read_exactly(descriptor, _LENGTH.unpack(header)[0]) if header is not None else None


def _read_exactly(descriptor: int, size: int) -> bytes | None:
    chunks = []
    while size:
        chunk = os.read(descriptor, min(size, 1 << 20))
        if not chunk:
            return None
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)
