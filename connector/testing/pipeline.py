"""An event pipeline without Spark, which runs the same tasks in the process of a test.

Claims, conversion, processes, journals and settlement are real. Only the distribution is not. A cycle takes
milliseconds and needs no Java, so that many tests of a deployment are quick. Such tests cannot show that the
code reaches the workers of a cluster.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from connector.errors import ConnectorError, PipelineError
from connector.events.run.module_versions import versions
from connector.events.run.pipeline import BESIDE, CHECK, FUNCTION
from connector.events.run.task import Task
from connector.events.run.task_answer import TaskAnswer, overdue_call, pack_answer
from connector.events.run.task_settings import Assignment, TaskSettings
from connector.events.run.worker import stop_runners
from connector.sinks.event_loop import CallOverdue
from connector.spark.worker import resolve


class InProcessAnswer(NamedTuple):
    """The answer of the only executor to a probe.

    Args:
        executor: ``this process``.
        answer: result of the function. Empty after a failure.
        error: reason of the failure. Empty after success.
    """

    executor: str
    answer: bytes
    error: str


class InProcessPipeline:
    """Implements :class:`connector.events.run.pipeline.Workers` without Spark.

    The tasks of a job run one after the other, in the deployment's directory. Isolated jobs run side by side,
    each with a separate child process. Events of an input with ``parallel`` run side by side in one process.

    Args:
        deployment: directory of adapter.yaml.
        isolated: True = business processes run in a watched child, as in a Spark worker. ``timeout`` and the
            death of a process then have their usual effects. False = business processes run in this process,
            and a debugger can stop them. ``timeout`` then has no effect, and a process that ends its
            interpreter ends the test.
        parallelism: most tasks of a batch, and most batches that run side by side.
    """

    def __init__(self, deployment: str | Path, *, isolated: bool = True, parallelism: int = 1) -> None:
        self.tasks_stay = True
        self.ships = False
        self.obstacle = ""
        self._deployment = os.path.abspath(deployment)
        self._isolated = isolated
        self.parallelism = parallelism
        self.alive = True
        self._plan = b""
        self._tasks: list[Task] = []
        """Tasks for the plan that do not run."""
        self._one_at_a_time = threading.Lock()
        self._making = threading.Lock()
        self.jobs: list[str] = []
        """The descriptions of all jobs, one for each batch."""

    def launch(self) -> None:
        """Does nothing."""

    def session(self) -> None:
        """Returns None: there is no Spark, so what is to be loaded waits."""

    def start(self) -> None:
        """Makes the pipeline usable again after :meth:`stop`."""
        self.alive = True

    def stop(self) -> None:
        """Ends the child process. Repeatable."""
        self.alive = False
        self._close_tasks()
        stop_runners()

    def check(self) -> None:
        """Does nothing, because a task cannot end while nothing runs."""

    def cancel(self) -> None:
        """Does nothing, because a running job ends by itself."""

    def probe(self, function: str, task_settings: bytes) -> list[InProcessAnswer]:
        """Runs ``function`` once. The answer contains a failure."""
        try:
            return [InProcessAnswer("this process", self._call(function, task_settings, b""), "")]
        except PipelineError as error:
            return [InProcessAnswer("this process", b"", str(error))]

    def run(
        self,
        function: str,
        task_settings: bytes,
        payloads: Sequence[bytes],
        description: str,
        *,
        shares: bool = False,
    ) -> list[bytes]:
        """Runs a job and returns the answers, in the order of the payloads.

        Raises:
            PipelineError: a task failed.
        """
        self.jobs.append(description)
        if shares:
            with ThreadPoolExecutor(len(payloads)) as threads:
                return [*threads.map(lambda payload: self._call(function, task_settings, payload), payloads)]
        with contextlib.nullcontext() if self._isolated else self._one_at_a_time:
            return [self._call(function, task_settings, payload) for payload in payloads]

    def _call(self, function: str, task_settings: bytes, payload: bytes) -> bytes:
        if not self.alive:
            raise PipelineError("the pipeline has been stopped")
        try:
            with _working_directory(self._deployment), warnings.catch_warnings():
                # the child runs only code that is safe after a fork in a process with threads
                warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
                if self._isolated or function not in (FUNCTION, BESIDE, CHECK):
                    return resolve(function)(task_settings, self._deployment, payload)
                return self._run_here(task_settings, payload)
        except PipelineError:
            raise
        except (ConnectorError, OSError) as error:
            raise PipelineError(str(error)) from error

    def _run_here(self, plan_bytes: bytes, payload: bytes) -> bytes:
        task = self._take_task(plan_bytes)
        try:
            if not payload:
                return versions()
            assignment: Assignment = pickle.loads(payload)  # from our own driver
            assert assignment.journal is not None
            began = time.monotonic()
            try:
                outcomes = task.run(assignment.journal, *assignment[1:])
            except CallOverdue as overdue:
                return pack_answer(overdue_call(overdue.subscription))
            seconds = time.monotonic() - began
            answer = TaskAnswer(calls=task.calls, seconds=seconds, told=task.take_told(), keys=task.keys)
            return pack_answer(answer, outcomes)
        finally:
            self._tasks.append(task)

    def _take_task(self, plan_bytes: bytes) -> Task:
        with self._making:
            if self._plan != plan_bytes:
                self._close_tasks()
                self._plan = plan_bytes
            if self._tasks:
                return self._tasks.pop()
            task_settings: TaskSettings = pickle.loads(plan_bytes)  # from our own driver
            return Task(task_settings, self._deployment, _NoTimer())

    def _close_tasks(self) -> None:
        while self._tasks:
            self._tasks.pop().close()


class _NoTimer:
    """A timer that ends no process."""

    stopping = False
    is_full = False

    def limit(self, seconds: float, whole: float) -> None: ...

    def give_up(self) -> None: ...

    def arm(self, seconds: float, what: str) -> None: ...

    def disarm(self) -> None: ...


_inside = threading.Lock()
_entered: list[str] = []


@contextlib.contextmanager
def _working_directory(path: str) -> Iterator[None]:
    """Changes the working directory of this process until the last job has ended."""
    with _inside:
        before = os.getcwd()
        if not _entered:
            os.chdir(path)
        _entered.append(before)
    try:
        yield
    finally:
        with _inside:
            before = _entered[0]
            _entered.pop()
            if not _entered:
                os.chdir(before)
