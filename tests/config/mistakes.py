"""Mistakes in the deployment of these tests: what is changed, and what the check says then.

In the replacements a ``§`` marks the place that the problem must name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.config.conftest import Sample

A = "adapter.yaml"
O = "metaobjects/objects.yaml"  # noqa: E741  # a table is read better with short names
R = "metaobjects/rules.yaml"
P = "    process: processes:store_customer"

Edit = tuple[str, str, str]
"""File, text and replacement. Without a text, the replacement is the whole file."""


@dataclass
class Mistake:
    """Replacements in files, and what the only problem is then."""

    name: str
    edits: list[Edit]
    path: str
    words: tuple[str, ...]
    nearest: str | None = None
    warning: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    def assert_alone(self, deployment: Sample) -> None:
        """Makes the mistake in a deployment. It is the only problem, beside warnings unless it is one."""
        deployment.edit((file, old, new.replace("§", "")) for file, old, new in self.edits)
        problems = deployment.check(**self.environment)
        found = [problem for problem in problems if self.warning or not problem.warning]
        assert len(found) == 1, [str(problem) for problem in found]
        problem = found[0]
        for file, _, new in self.edits:
            before, mark, after = new.partition("§")
            if mark:
                text = deployment.read(file)
                start = text.index(before + after) + len(before)
                line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
                assert (problem.file, problem.line, problem.column) == (file, line, column)
        assert (problem.path, problem.warning) == (self.path, self.warning)
        assert problem.line
        for word in self.words:
            assert word in str(problem)
        assert problem.nearest == self.nearest


def case(
    name: str,
    file: str,
    old: str,
    new: str,
    path: str,
    *words: str,
    nearest: str | None = None,
    warning: bool = False,
    more: tuple[Edit, ...] = (),
) -> Mistake:
    """Returns a mistake of one replacement, and ``more``."""
    return Mistake(name, [(file, old, new), *more], path, words, nearest, warning)
