"""An event pipeline without Spark: the same tasks, run in the process of a test.

Everything of a batch is real but the distribution: claims, conversion, processes, journals,
settlement. A cycle takes milliseconds and needs no Java, so that a deployment can be tested in
bulk; that its code reaches the workers of a cluster is the one thing this cannot show.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from connector.errors import ConnectorError, PipelineError
from connector.events.answer import pack_answer
from connector.events.job import CHECK, FUNCTION
from connector.events.plan import Assignment, EventPlan
from connector.events.probe import versions
from connector.events.task import Task
from connector.events.worker import stop_runners
from connector.spark.worker import resolve


class InProcessAnswer(NamedTuple):
    """What the one executor there is answered to a probe.

    Args:
        executor: ``this process``.
        answer: what the function returned; empty when it failed.
        error: why it failed; empty when it did not.
    """

    executor: str
    answer: bytes
    error: str


class InProcessPipeline:
    """A :class:`connector.events.job.Pipeline` with its life, :class:`~connector.events.job.Workers`.

    The tasks of a job run one after the other, in the deployment's directory. Jobs run side by side where
    they are isolated, each with a child process of its own.

    Args:
        deployment: directory of adapter.yaml.
        isolated: True: business processes run in a forked child that is watched, exactly as in a
            Spark worker, so that ``timeout`` and the death of a process mean what they mean there.
            False: they run in this very process, where a debugger stops and what they change can
            be looked at; then nobody ends one that takes too long, and one that ends its
            interpreter ends the test.
        parallelism: into how many tasks a batch is divided at most, and how many batches run side by side.
    """

    def __init__(self, deployment: str | Path, *, isolated: bool = True, parallelism: int = 1) -> None:
        self._deployment = os.path.abspath(deployment)
        self._isolated = isolated
        self._parallelism = parallelism
        self._alive = True
        self._task: tuple[bytes, Task] | None = None
        self._one_at_a_time = threading.Lock()
        self.jobs: list[str] = []
        """The descriptions of the jobs that were run: one a batch."""

    @property
    def parallelism(self) -> int:
        return self._parallelism

    @property
    def alive(self) -> bool:
        return self._alive

    def launch(self) -> None:
        """There is nothing to launch."""

    def start(self) -> None:
        """There is nothing to start; after :meth:`stop` it may be used again."""
        self._alive = True

    def stop(self) -> None:
        """Ends the child process. Repeatable."""
        self._alive = False
        self._close_task()
        stop_runners()

    def cancel(self) -> None:
        """Nothing: a job that runs here comes to its end by itself."""

    def probe(self, function: str, plan: bytes) -> list[InProcessAnswer]:
        """Runs ``function`` once; what is wrong is in the answer."""
        try:
            return [InProcessAnswer("this process", self._call(function, plan, b""), "")]
        except PipelineError as error:
            return [InProcessAnswer("this process", b"", str(error))]

    def run(self, function: str, plan: bytes, payloads: Sequence[bytes], description: str) -> list[bytes]:
        """The answers, in the order of the payloads.

        Raises:
            PipelineError: a task failed.
        """
        self.jobs.append(description)
        with contextlib.nullcontext() if self._isolated else self._one_at_a_time:
            return [self._call(function, plan, payload) for payload in payloads]

    def _call(self, function: str, plan: bytes, payload: bytes) -> bytes:
        if not self._alive:
            raise PipelineError("the pipeline has been stopped")
        try:
            with _working_directory(self._deployment), warnings.catch_warnings():
                # the child only runs what a fork may run in a process with threads
                warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
                if self._isolated or function not in (FUNCTION, CHECK):
                    return resolve(function)(plan, self._deployment, payload)
                return self._run_here(plan, payload)
        except PipelineError:
            raise
        except (ConnectorError, OSError) as error:
            raise PipelineError(str(error)) from error

    def _run_here(self, plan_bytes: bytes, payload: bytes) -> bytes:
        if self._task is None or self._task[0] != plan_bytes:
            self._close_task()
            plan: EventPlan = pickle.loads(plan_bytes)  # from our own driver
            self._task = plan_bytes, Task(plan, self._deployment, _Unwatched())
        if not payload:
            return versions()
        assignment: Assignment = pickle.loads(payload)  # from our own driver
        assert assignment.journal is not None
        began = time.monotonic()
        outcomes = self._task[1].run(assignment.journal, assignment.lanes)
        return pack_answer(outcomes, time.monotonic() - began)

    def _close_task(self) -> None:
        if self._task is not None:
            self._task[1].close()
            self._task = None


class _Unwatched:
    """A watch that ends nothing."""

    stopping = False

    def arm(self, seconds: float, what: str) -> None: ...

    def disarm(self) -> None: ...


_inside = threading.Lock()
_entered: list[str] = []


@contextlib.contextmanager
def _working_directory(path: str) -> Iterator[None]:
    """The working directory of this process, until the last job that needs it has ended."""
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
