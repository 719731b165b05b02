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
import pickle
import select
import threading
import time

from connector.errors import PipelineError
from connector.events.run.module_versions import versions
from connector.events.run.runner import follow_commands, receive, send
from connector.events.run.runner_process import POLL_MS, RunnerEnded, RunnerProcess, overdue_answer
from connector.events.run.shared_runner import SharedRunners
from connector.events.run.task_answer import TaskAnswer, pack_answer
from connector.events.run.task_settings import Assignment, TaskSettings
from connector.limits.runner_control import RunnerControl


class Runner:
    """The runner of one assignment at a time."""

    def __init__(self, task_settings: TaskSettings, deployment: str) -> None:
        self.control = control = RunnerControl()
        self.is_full = False
        """Whether the runner keeps so much memory that another runner should go on."""
        self._process = RunnerProcess(
            lambda *pipes: follow_commands(task_settings, deployment, control, *pipes)
        )

    def run(self, assignment: bytes) -> bytes:
        """Returns the answer to a pickled assignment (:mod:`connector.events.run.task_answer`).

        Raises:
            RunnerEnded: the runner is gone. The journal holds the outcomes so far.
            PipelineError: the runner cannot work at all (a process cannot be loaded, ...).
        """
        self.control.disarm()
        try:
            send(self._process.commands, assignment)
        except BrokenPipeError:
            raise RunnerEnded(TaskAnswer(ended=self._process.how_it_ended())) from None
        answer = self._receive()
        kind, _, data = answer.partition(b"\n")
        if kind == b"E":
            raise PipelineError(data.decode())
        self.is_full = kind == b"F"
        return data

    def _receive(self) -> bytes:
        process = self._process
        poll = process.poll()
        while True:
            deadline = self.control.read()
            left = deadline.at - time.monotonic() if deadline.at else POLL_MS / 1000
            if deadline.at and left <= 0:
                process.kill()
                raise RunnerEnded(overdue_answer(deadline))
            ready = dict(poll.poll(min(POLL_MS, left * 1000 + 1)))
            if process.answers in ready and ready[process.answers] & select.POLLIN:
                data = receive(process.answers)
                if data is not None:
                    return data
            if process.has_ended(ready):
                why, converting = process.how_it_ended(), self.control.is_converting
                raise RunnerEnded(TaskAnswer(ended=why, converting=converting))
            if process.answers in ready:  # a business process has closed the pipe, and may go on
                poll.unregister(process.answers)

    def stop(self) -> None:
        """Lets the runner end by itself, and kills the runner after a few seconds."""
        self._process.stop()


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


_shared = SharedRunners()


def run_beside(plan_bytes: bytes, deployment: str, payload: bytes) -> bytes:
    """Runs an assignment beside others, in a slot of the shared runner of this process.

    For any thread. Arguments, result and error are those of :func:`run_assignment`.
    """
    return _shared.run((plan_bytes, deployment), _task_settings(plan_bytes), payload)


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
    _shared.stop()
