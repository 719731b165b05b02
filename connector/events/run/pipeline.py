"""The contract of what runs tasks: Spark, or the process of a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

FUNCTION: Final = "connector.events.run.worker:run_assignment"
BESIDE: Final = "connector.events.run.worker:run_beside"
"""Like :data:`FUNCTION`, for assignments that run beside others in one process."""
CHECK: Final = "connector.events.run.worker:check_worker"


class Pipeline(Protocol):
    """Runs the tasks: Spark (:class:`connector.spark.pipeline.SparkPipeline`)."""

    @property
    def parallelism(self) -> int:
        """Number of tasks that can run at the same time, at least 1."""

    @property
    def alive(self) -> bool:
        """False if no job can run any more."""

    @property
    def obstacle(self) -> str:
        """Why no event can be processed now. Empty = nothing is known to be wrong. For any thread."""

    @property
    def tasks_stay(self) -> bool:
        """Whether tasks stay from one batch to the next. Otherwise each batch is a Spark job."""

    def run(
        self,
        function: str,
        task_settings: bytes,
        payloads: Sequence[bytes],
        description: str,
        *,
        shares: bool = False,
    ) -> list[bytes]:
        """Runs a job with one task for each payload. Several threads may run jobs at the same time.

        Args:
            shares: whether the payloads share tasks with each other and with other payloads, and run side by
                side there.

        Raises:
            PipelineError: a task or the whole job failed.
        """

    def check(self) -> None:
        """Raises the error of tasks that have failed while nothing ran. Returns at once.

        Raises:
            PipelineError: no event can be processed now.
        """

    def cancel(self) -> None:
        """Makes the running jobs fail, or the start. For any thread. Returns at once."""


class ProbeAnswer(Protocol):
    """The answer of one executor to a probe."""

    @property
    def executor(self) -> str: ...

    @property
    def answer(self) -> bytes: ...

    @property
    def error(self) -> str:
        """Why the executor cannot work. Empty if the executor works."""


class Workers(Pipeline, Protocol):
    """A pipeline that an adapter starts, probes and stops."""

    @property
    def ships(self) -> bool:
        """Whether workers run the code that was shipped at the start."""

    def start(self) -> None:
        """Starts the pipeline.

        Raises:
            PipelineError: the pipeline cannot start.
        """

    def probe(self, function: str, task_settings: bytes) -> Sequence[ProbeAnswer]:
        """Runs ``function`` with an empty payload once on every executor."""

    def stop(self) -> None:
        """Ends the pipeline with all its processes. Repeatable."""
