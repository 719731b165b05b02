"""The section ``spark`` of ``adapter.yaml``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field

from connector.declare.pipeline_section import PipelineSection
from connector.declare.problem_reporter import ProblemReporter
from connector.declare.value_types import PathName, Text, integer, one_or_list
from connector.spark.lint import check_spark
from connector.spark.settings import OWNED_LOCAL_SETTINGS, OWNED_SETTINGS, owner_reason
from connector.text.names import shown

DEFAULT_MASTER: Final = "local[*]"


class Spark(PipelineSection):
    """The Spark application that processes the events."""

    master: Text | None = Field(
        default=None,
        description="`local[4]`, `local[*]`, `spark://HOST:PORT` (`,HOST:PORT` for each further master), "
        "`yarn` or `k8s://HOST:PORT`. None: the master of the given session or spark-submit, otherwise "
        "`local[*]`.",
    )
    max_jobs: Annotated[int, integer(1, "jobs")] | None = Field(
        default=None,
        description="Batches of events that run side by side. None: the cores of the application.",
    )
    python: Text | None = Field(
        default=None, description="The workers' Python. Default: the Python of the adapter."
    )
    ship: Annotated[tuple[PathName, ...] | None, BeforeValidator(one_or_list)] = Field(
        default=None,
        description="Files and directories sent to the workers of a cluster. Default: `*.py` and "
        "`datahandlers` beside this file.",
    )
    conf: dict[str, Text] = Field(
        default_factory=dict,
        repr=False,
        description="Any Spark setting but those that the event job owns. A name one or two letters "
        "away from a setting of Spark is a mistake, and so is a size or a duration that Spark cannot read.",
    )

    def check(self, directory: Path, reporter: ProblemReporter) -> None:
        master = self.master or DEFAULT_MASTER
        check_spark(master, self.conf, self.ship or (), self.python, directory, reporter)

    def effective(self) -> Self:
        """Leaves out settings of the event job that the user has written with the same value."""
        local = self.elsewhere is None
        conf = {key: value for key, value in self.conf.items() if owner_reason(key, local=local) is None}
        return self.model_copy(update={"conf": conf})

    @property
    def runs_here(self) -> bool:
        return self.python is None and self.elsewhere is None

    @property
    def elsewhere(self) -> tuple[str, str] | None:
        master = self.master or DEFAULT_MASTER
        if master.startswith("local"):
            return None
        return f"spark.master is {shown(master)}", f"spark.master {DEFAULT_MASTER}"

    @property
    def shipped(self) -> Sequence[Path]:
        return self.ship or ()

    @classmethod
    def appendix(cls) -> Iterator[str]:
        yield "## Spark settings that the event job owns"
        yield ""
        yield "`spark.conf` cannot change them, nor anything below them."
        yield ""
        yield "| setting | because |"
        yield "|---|---|"
        for setting, reason in OWNED_SETTINGS.items():
            yield f"| `{setting}` | {reason} |"
        for setting, reason in OWNED_LOCAL_SETTINGS.items():
            yield f"| `{setting}`, with the master `local` | {reason} |"
