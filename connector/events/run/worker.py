"""The worker: runs assignments in a child process, and survives any end of that child.

A business process may crash its interpreter, be killed for lack of memory, or never return. If the Spark
worker itself died, Spark would fail the whole job and end the other tasks in the middle of other events. So
each Spark worker keeps a *runner*, a forked child that does the work, and watches it. If the runner ends, or
a call exceeds its ``timeout``, or a conversion ``convert_timeout``, the worker answers why. The worker
repeats nothing: the driver reads the journal and decides.

A runner whose parent dies finishes its event within ``stop_timeout``, so that few events are in doubt.
"""

from __future__ import annotations

import functools
import os
import pickle
import select
import signal
import threading
import time
from typing import Final

from connector.errors import PipelineError
from connector.events.run.module_versions import versions
from connector.events.run.runner import close, follow_commands, receive, send
from connector.events.run.task_answer import TaskAnswer, pack_answer
from connector.events.run.task_settings import Assignment, TaskSettings
from connector.limits.process_end import how_it_ended
from connector.limits.runner_control import RunnerControl

_POLL_MS: Final = 200
_LEAVE_MS: Final = 3000


class RunnerEnded(Exception):
    """Raised if the runner ended before its answer.

    Args:
        answer: of its task. ``ended`` says why.
    """

    def __init__(self, answer: TaskAnswer) -> None:
        super().__init__(answer.ended)
        self.answer = answer


class Runner:
    """The child process that converts and publishes."""

    def __init__(self, task_settings: TaskSettings, deployment: str) -> None:
        self.control = RunnerControl()
        self.is_full = False
        """Whether the runner keeps so much memory that another runner should go on."""
        command_read, self._commands = os.pipe()
        self._answers, answer_write = os.pipe()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                follow_commands(task_settings, deployment, self.control, command_read, answer_write, parent)
                status = 0
            finally:
                os._exit(status)
        os.close(command_read)
        os.close(answer_write)
        self._ended = os.pidfd_open(self.pid)

    def run(self, assignment: bytes) -> bytes:
        """Returns the answer to a pickled assignment (:mod:`connector.events.run.task_answer`).

        Raises:
            RunnerEnded: the runner is gone. The journal holds the outcomes so far.
            PipelineError: the runner cannot work at all (a process cannot be loaded, ...).
        """
        self.control.disarm()
        try:
            send(self._commands, assignment)
        except BrokenPipeError:
            raise RunnerEnded(TaskAnswer(ended=self._how_it_ended())) from None
        answer = self._receive()
        kind, _, data = answer.partition(b"\n")
        if kind == b"E":
            raise PipelineError(data.decode())
        self.is_full = kind == b"F"
        return data

    def _receive(self) -> bytes:
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        poll.register(self._ended, select.POLLIN)
        while True:
            deadline = self.control.read()
            left = deadline.at - time.monotonic() if deadline.at else _POLL_MS / 1000
            if deadline.at and left <= 0:
                self.kill()
                if deadline.converts:
                    stage = deadline.text or "choice of the data handler"
                    limit = f"{deadline.whole:g} s (convert_timeout)"
                    why = f"{stage}: did not end within {limit}"
                    raise RunnerEnded(TaskAnswer(ended=why, exceeded=True))
                why = f"did not return from {deadline.text} in time and was ended"
                raise RunnerEnded(TaskAnswer(ended=why, overdue=deadline.text))
            ready = dict(poll.poll(min(_POLL_MS, left * 1000 + 1)))
            if self._answers in ready and ready[self._answers] & select.POLLIN:
                data = receive(self._answers)
                if data is not None:
                    return data
            if self._ended in ready:
                why, converting = self._how_it_ended(), self.control.is_converting
                raise RunnerEnded(TaskAnswer(ended=why, converting=converting))
            if self._answers in ready:  # a business process has closed the pipe, and may go on
                poll.unregister(self._answers)

    def stop(self) -> None:
        """Lets the runner end by itself, and kills the runner after a few seconds."""
        close({self._commands})
        self._commands = -1
        self._how_it_ended()

    def kill(self) -> None:
        """Kills the runner now."""
        self._signal_end()
        self._how_it_ended()

    def _signal_end(self) -> None:
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _how_it_ended(self) -> str:
        """Waits for the end of the runner, and returns a text about that end. Kills a runner that stays."""
        poll = select.poll()
        poll.register(self._ended, select.POLLIN)
        if not poll.poll(_LEAVE_MS):
            self._signal_end()
        try:
            _, status = os.waitpid(self.pid, 0)
        except ChildProcessError:
            status = 0
        for descriptor in (self._commands, self._answers, self._ended):
            try:
                os.close(descriptor)
            except OSError:
                pass
        return how_it_ended(status)


class _Runners(threading.local):
    """The runner of a thread. A Spark worker has one thread. Tests run several jobs in one process."""

    def __init__(self) -> None:
        self.task_settings: tuple[bytes, str] | None = None
        self.runner: Runner | None = None


_runners = _Runners()
_all: set[Runner] = set()


def run_assignment(plan_bytes: bytes, deployment: str, payload: bytes) -> bytes:
    """Runs one partition of the Spark job.

    Args:
        plan_bytes: a pickled :class:`TaskSettings`, made by the driver of this adapter.
        deployment: directory of processes and plug-ins on this machine.
        payload: a pickled :class:`Assignment`.

    Returns:
        an answer (:mod:`connector.events.run.task_answer`).

    Raises:
        PipelineError: processes or data handlers cannot be loaded here.
    """
    runner = _runner(plan_bytes, deployment)
    try:
        answer = runner.run(payload)
    except RunnerEnded as ended:
        _remove_runner()
        return pack_answer(ended.answer)
    if runner.is_full:
        _remove_runner()
        runner.stop()
    return answer


@functools.lru_cache(maxsize=4)
def _task_settings(plan_bytes: bytes) -> TaskSettings:
    try:
        task_settings: TaskSettings = pickle.loads(plan_bytes)  # from our own driver
    except (ImportError, AttributeError) as error:
        raise PipelineError(
            f"the worker cannot read the task settings: {error}; "
            "install the package of each sink on the workers, too"
        ) from error
    return task_settings


def check_worker(plan_bytes: bytes, deployment: str, payload: bytes) -> bytes:
    """Loads everything that events need, for a probe. Returns the installed packages.

    A runner with other settings goes on if these cannot be used.
    """
    _task_settings(plan_bytes).access.open().check()
    runner = _runner_of(plan_bytes, deployment)
    for is_last in (False, True):  # a runner may be killed by chance
        if runner is None:
            runner = Runner(_task_settings(plan_bytes), deployment)
        try:
            runner.run(pickle.dumps(Assignment(None, [])))
        except RunnerEnded as ended:
            _all.discard(runner)
            runner = None
            if is_last:
                raise PipelineError(
                    f"the worker {ended.answer.ended} while it loaded processes and data handlers"
                ) from None
        except BaseException:
            _all.discard(runner)
            runner.stop()
            raise
        else:
            _use(runner, plan_bytes, deployment)
            break
    return versions()


def _runner(plan_bytes: bytes, deployment: str) -> Runner:
    runner = _runner_of(plan_bytes, deployment)
    if runner is None:
        runner = Runner(_task_settings(plan_bytes), deployment)
        _use(runner, plan_bytes, deployment)
    return runner


def _runner_of(plan_bytes: bytes, deployment: str) -> Runner | None:
    """Returns the runner of this thread, unless that has ended or has other settings."""
    runner = _runners.runner
    is_known = runner in _all and _runners.task_settings == (plan_bytes, deployment)
    return runner if is_known else None


def _use(runner: Runner, plan_bytes: bytes, deployment: str) -> None:
    """Makes a runner that of this thread. A runner with other settings ends: the adapter has started anew."""
    earlier = _runners.runner
    if earlier is not None and earlier is not runner and earlier in _all:
        _all.remove(earlier)
        earlier.stop()
    _all.add(runner)
    _runners.runner, _runners.task_settings = runner, (plan_bytes, deployment)


def _remove_runner() -> None:
    """Removes the ended runner of this thread."""
    if _runners.runner is not None:
        _all.discard(_runners.runner)
        _runners.runner = None


def stop_runners() -> None:
    """Ends the runners of this process. For callers of :func:`run_assignment` outside Spark."""
    while _all:
        _all.pop().stop()
