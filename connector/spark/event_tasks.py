"""The contract of the two ways in which Spark runs assignments: a job for each batch, and tasks that stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol

POOL: Final = "spark.scheduler.pool"
"""The property of a job that names its pool in a FAIR scheduler."""

Explain = Callable[[str], AbstractContextManager[None]]
"""Turns the exceptions of Spark within a ``with`` into a PipelineError. The argument begins its text."""


class WorkerAnswer(NamedTuple):
    """The answer of one worker to a probe.

    Args:
        directory: of its executor.
        python: its interpreter.
        version: of that Python.
        prefix: ``sys.prefix`` of that Python.
        answer: result of the function. Empty after a failure.
        error: reason of the failure. Empty after success.
    """

    host: str
    directory: str
    python: str
    version: str
    prefix: str
    answer: bytes
    error: str


class EventTasks(Protocol):
    """Runs functions in Spark tasks. All methods are for any thread."""

    @property
    def stays(self) -> bool:
        """Whether tasks stay from one batch to the next."""

    @property
    def parallelism(self) -> int:
        """Number of assignments that can run at the same time, at least 1."""

    @property
    def obstacle(self) -> str:
        """Why no event can be processed now. Empty = nothing is known to be wrong."""
        return ""  # a cluster replaces its executors, and the Spark of a program belongs to the program

    def run(
        self,
        function: str,
        task_settings: bytes,
        payloads: Sequence[bytes],
        description: str,
        *,
        shares: bool = False,
    ) -> list[bytes]:
        """Calls ``function`` once for each payload, in different tasks, and waits for all answers.

        Args:
            function: ``package.module:name`` of ``f(task_settings, deployment, payload) -> answer``.
            task_settings: argument of each call. Unchanged settings are sent to a worker only once.
            payloads: at least one, below 2 GiB each.
            description: begins the text of an error.
            shares: whether a task may have several payloads at the same time.

        Returns:
            The answers, in the order of the payloads.

        Raises:
            PipelineError: a task failed or ended, was cancelled, or Spark died. Other tasks of the batch may
                go on for some seconds.
        """

    def probe(self, function: str, task_settings: bytes) -> list[WorkerAnswer]:
        """Calls ``function`` with an empty payload in every task that can run at the same time.

        Raises:
            PipelineError: Spark died, or no worker can be started. A failure of the function is an answer and
                does not raise.
        """

    def check(self) -> None:
        """Raises the error of tasks that have failed while nothing ran. Returns at once.

        Raises:
            PipelineError: workers cannot work any more, or Spark died.
        """

    def cancel(self) -> None:
        """Ends the running assignments, and those that wait for a task, so that :meth:`run` raises.

        If Java does not answer, only returns when Java has been killed.
        """

    def close(self) -> None:
        """Ends all tasks. Repeatable."""
