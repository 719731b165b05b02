"""A runner that runs several assignments at the same time, each in a slot (``parallel``).

A call that takes longer than its ``timeout`` cannot be ended alone, because a thread cannot be ended. So the
runner begins no further event, the other slots end their events, and only then the runner is ended. The
journals then blame only the events whose calls took too long. Meanwhile a new runner takes the next
assignments.
"""

from __future__ import annotations

import heapq
import select
import threading
import time
from concurrent.futures import Future
from typing import Final

from connector.errors import PipelineError
from connector.events.run.runner import SLOT, follow_shared, receive, send
from connector.events.run.runner_process import POLL_MS, RunnerProcess, overdue_answer
from connector.events.run.task_answer import TaskAnswer, pack_answer
from connector.events.run.task_settings import TaskSettings
from connector.limits.runner_control import SharedState, SlotControl

MOST_SLOTS: Final = 1000
"""Slots of a runner, at most."""


class RunnerLeaves(Exception):
    """Raised if a runner takes no further assignment."""


class SharedRunner:
    """A runner with slots. For any thread.

    The thread that forks the runner lives as long as the runner, because the kernel tells the runner when
    that thread ends.
    """

    def __init__(self, task_settings: TaskSettings, deployment: str) -> None:
        self._task_settings = task_settings
        self._deployment = deployment
        self._state = SharedState(MOST_SLOTS)
        self._controls: dict[int, SlotControl] = {}
        self._lock = threading.Lock()
        self._free: list[int] = []
        self._calls: dict[int, Future[bytes]] = {}
        self._overdue: dict[int, bytes] = {}
        """The answers of calls and conversions that have passed their deadlines, by slot."""
        self._forked: Future[RunnerProcess] = Future()
        self._thread = threading.Thread(target=self._watch, name="shared-runner", daemon=True)
        self._thread.start()
        self._process = self._forked.result()

    def run(self, assignment: bytes) -> bytes:
        """Returns the answer to a pickled assignment (:mod:`connector.events.run.task_answer`).

        Raises:
            RunnerLeaves: the runner takes no further assignment.
            PipelineError: the runner cannot work at all (a process cannot be loaded, ...).
        """
        answer: Future[bytes] = Future()
        with self._lock:
            if self._state.is_leaving:
                raise RunnerLeaves
            slot = heapq.heappop(self._free) if self._free else len(self._controls)
            if slot == MOST_SLOTS:
                raise PipelineError(f"a runner has {MOST_SLOTS} slots at most")
            if slot not in self._controls:
                self._controls[slot] = self._state.slot(slot)
            self._controls[slot].disarm()
            self._calls[slot] = answer
            try:
                send(self._process.commands, SLOT.pack(slot) + assignment)
            except OSError:  # it has ended, and its thread answers
                self._state.leave()
        return answer.result()

    def leave(self) -> None:
        """Lets the runner end once its events have ended."""
        with self._lock:
            self._state.leave()

    def stop(self) -> None:
        """Lets the runner end, and waits for its end."""
        self.leave()
        self._thread.join()

    def _watch(self) -> None:
        try:
            process = RunnerProcess(
                lambda *pipes: follow_shared(self._task_settings, self._deployment, self._state, *pipes)
            )
        except BaseException as error:
            self._forked.set_exception(error)
            return
        self._forked.set_result(process)
        try:
            self._take_answers(process)
        finally:
            self._end(process)

    def _take_answers(self, process: RunnerProcess) -> None:
        """Gives each answer to its caller, until the runner has ended or is to be ended."""
        poll = process.poll()
        while True:
            seconds = self._look_at_deadlines()
            with self._lock:
                if self._state.is_leaving and len(self._calls) == len(self._overdue):
                    return
            ready = dict(poll.poll(min(POLL_MS, seconds * 1000 + 1)))
            if process.answers in ready and ready[process.answers] & select.POLLIN:
                data = receive(process.answers)
                if data is not None:
                    self._answer(data)
                    continue
            if process.has_ended(ready):
                return
            if process.answers in ready:  # a business process has closed the pipe, and may go on
                poll.unregister(process.answers)

    def _look_at_deadlines(self) -> float:
        """Notes the calls that have passed their deadlines. Returns the seconds to the next deadline."""
        soonest, now = POLL_MS / 1000, time.monotonic()
        with self._lock:
            slots = [slot for slot in self._calls if slot not in self._overdue]
        for slot in slots:
            deadline = self._controls[slot].read()
            if deadline.at and deadline.at <= now:
                answer = overdue_answer(deadline)
                self._overdue[slot] = pack_answer(answer)
                self.leave()
            elif deadline.at:
                soonest = min(soonest, deadline.at - now)
        return soonest

    def _answer(self, data: bytes) -> None:
        (slot,) = SLOT.unpack_from(data)
        kind, _, answer = data[SLOT.size :].partition(b"\n")
        with self._lock:
            self._overdue.pop(slot, None)  # it has ended after all
            call = self._calls.pop(slot)
            heapq.heappush(self._free, slot)
            if kind == b"F":
                self._state.leave()
        if kind == b"E":
            call.set_exception(PipelineError(answer.decode()))
        else:
            call.set_result(answer)

    def _end(self, process: RunnerProcess) -> None:
        """Ends the runner, and answers the calls that have no answer."""
        with self._lock:
            self._state.leave()
            left = dict(self._calls)
        if left and len(left) == len(self._overdue):
            how = process.kill()
        elif left:
            how = process.how_it_ended()
        else:
            process.stop()
            return
        for slot, call in left.items():
            call.set_result(self._overdue.get(slot) or self._ended(slot, how))

    def _ended(self, slot: int, how: str) -> bytes:
        return pack_answer(TaskAnswer(ended=how, converting=self._controls[slot].is_converting))


class SharedRunners:
    """The shared runners of a process. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runners: dict[tuple[bytes, str], SharedRunner] = {}

    def run(self, key: tuple[bytes, str], task_settings: TaskSettings, assignment: bytes) -> bytes:
        """Runs an assignment in a slot.

        Args:
            key: names the settings. A runner with other settings ends: the adapter has started anew.

        Raises:
            PipelineError: see :meth:`SharedRunner.run`.
        """
        while True:
            runner = self._runner(key, task_settings)
            try:
                return runner.run(assignment)
            except RunnerLeaves:
                with self._lock:
                    if self._runners.get(key) is runner:
                        del self._runners[key]

    def _runner(self, key: tuple[bytes, str], task_settings: TaskSettings) -> SharedRunner:
        with self._lock:
            runner = self._runners.get(key)
            if runner is None:
                for earlier in self._runners.values():
                    earlier.leave()
                runner = SharedRunner(task_settings, key[1])
                self._runners = {key: runner}
            return runner

    def stop(self) -> None:
        """Ends all runners."""
        with self._lock:
            runners, self._runners = self._runners, {}
        for runner in runners.values():
            runner.stop()
