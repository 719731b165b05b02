"""Collects all mistakes, each with its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from connector.errors import Problem
from connector.text.names import one_line


class Position(NamedTuple):
    """A place in a file. ``line`` and ``column`` count from 1. 0 = the file as a whole."""

    file: str
    line: int = 0
    column: int = 0


@dataclass(slots=True)
class _Collected:
    order: int
    problem: Problem


class Problems:
    """A list of mistakes that grows while a configuration is read."""

    def __init__(self) -> None:
        self._collected: list[_Collected] = []
        self._files: dict[str, int] = {}
        self._seen: set[Problem] = set()
        self._hidden: dict[Position, list[tuple[str, str]]] = {}
        self._secret: list[tuple[str, str]] = []
        self._file_contents: set[str] = set()

    def hide(
        self, position: Position, value: str, reference: str, *, secret: bool, from_file: bool = False
    ) -> None:
        """Shows ``reference`` in place of ``value`` in the texts of problems at ``position``.

        Args:
            value: the value of a reference such as ``${NAME}``.
            secret: hide the value in the texts of all problems.
            from_file: whether the value is the content of a file, which no output shows.
        """
        if value:
            if from_file:
                self._file_contents.add(value)
            self._hidden.setdefault(position, []).append((value, reference))
            if secret:
                self._secret.append((value, reference))

    def add(
        self,
        position: Position,
        path: str,
        found: str,
        expected: str,
        nearest: str | None = None,
        *,
        warning: bool = False,
    ) -> None:
        """Reports a mistake. The arguments are those of :class:`connector.errors.Problem`."""
        for value, reference in (*self._hidden.get(position, ()), *self._secret):
            found, expected = found.replace(value, reference), expected.replace(value, reference)
        problem = Problem(
            position.file,
            position.line,
            position.column,
            one_line(path),
            one_line(found),
            one_line(expected),
            nearest,
            warning,
        )
        if problem in self._seen:
            return
        self._seen.add(problem)
        self._files.setdefault(position.file, len(self._files))
        self._collected.append(_Collected(len(self._collected), problem))

    def is_reported(self, position: Position) -> bool:
        """Tells whether a mistake at that place is reported already."""
        places = ((one.problem.file, one.problem.line, one.problem.column) for one in self._collected)
        return position in places

    def sorted(self) -> list[Problem]:
        """Returns the mistakes by file in the order of reading, then by place."""

        def key(item: _Collected) -> tuple[int, int, int, int]:
            problem = item.problem
            return self._files[problem.file], problem.line, problem.column, item.order

        return [item.problem for item in sorted(self._collected, key=key)]

    @property
    def file_contents(self) -> frozenset[str]:
        """The contents of files that values named as ``${file:PATH}``."""
        return frozenset(self._file_contents)

    @property
    def errors(self) -> int:
        return sum(not item.problem.warning for item in self._collected)
