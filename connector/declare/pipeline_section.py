"""The base class of the section of the pipeline, which runs the batches: ``spark``.

The entry point ``spark`` of the group ``connector.pipelines`` names the class of the section. So the
deployment is read and checked without a name of Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from connector.declare.problem_reporter import ProblemReporter
from connector.declare.section import Section
from connector.plugins import PlugIns


class PipelineSection(Section, ABC):
    """Base of the section ``spark``."""

    @abstractmethod
    def check(self, directory: Path, reporter: ProblemReporter) -> None:
        """Reports mistakes in the section, and in what the section names."""

    @abstractmethod
    def effective(self) -> Self:
        """Returns the section without values that change nothing."""

    @property
    @abstractmethod
    def runs_here(self) -> bool:
        """Whether the workers have the machine, the Python and the packages of this process."""

    @property
    @abstractmethod
    def elsewhere(self) -> tuple[str, str] | None:
        """The setting that puts workers on other machines, and a value that does not. None = no setting."""

    @property
    @abstractmethod
    def shipped(self) -> Sequence[Path]:
        """The files and directories that workers on other machines get, as far as the section names them."""

    @classmethod
    @abstractmethod
    def appendix(cls) -> Iterable[str]:
        """Yields the lines of a section of the reference page. Empty = there is none."""


def _mistake(name: str, section: Any) -> str:
    is_one = isinstance(section, type) and issubclass(section, PipelineSection)
    return "" if is_one else "is no PipelineSection"


PIPELINES: Final = PlugIns[type[PipelineSection]]("connector.pipelines", "pipeline", _mistake)

if TYPE_CHECKING:
    Pipeline = PipelineSection
else:
    Pipeline = PIPELINES.load("spark")
