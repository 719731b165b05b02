"""Tables of values: all rows of a test run, and all that fail are told at once."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

_DIRECTORIES: Final = ("tmp_path", "root")
"""Fixtures that are an empty directory for a test to fill."""


class Table:
    """Collects the failures of rows. A test with many values and no fixture for each is one test.

    ``with table.row(value): assert ...`` for each row. The end of ``with Table() as table:`` fails with all
    rows that failed, each with its name and its failure.
    """

    def __init__(self) -> None:
        self._failures: list[tuple[str, BaseException]] = []
        self._rows = 0

    def __enter__(self) -> Table:
        return self

    @contextmanager
    def row(self, *name: object) -> Iterator[None]:
        """Runs one row. Its name is told when it fails."""
        self._rows += 1
        try:
            yield
        except (Exception, pytest.fail.Exception) as failure:  # the second one is what `pytest.raises` raises
            self._failures.append((", ".join(_short(repr(part)) for part in name), failure))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None:
            return
        assert self._rows, "a table without rows shows nothing"
        if self._failures:
            told = "\n".join(
                f"{name}: {type(failed).__name__}: {_short(str(failed), 2000)}"
                for name, failed in self._failures
            )
            summary = f"{len(self._failures)} of {self._rows} rows failed:\n{told}"
            raise AssertionError(summary) from self._failures[0][1]


def _short(text: str, most: int = 100) -> str:
    """Returns a text without its middle part if it is longer than ``most`` characters."""
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 :]}"


def rows(names: str, values: Iterable[object]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes one test of a function and a table. The function runs once for each row, with its values.

    It is written like ``pytest.mark.parametrize``, and two above one another make all combinations. Each row
    has a ``tmp_path``, a ``root`` and a ``monkeypatch`` of its own. Of a fixture with a method ``again`` it
    has what that returns. All other fixtures are the same for all rows, so a row must leave nothing in them.

    names: the arguments of the function, with a comma between two
    values: the rows. With more than one name, each is a tuple
    """
    arguments, table_rows = names.replace(" ", "").split(","), list(values)

    def make(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function)
        unknown = set(arguments) - set(signature.parameters)
        assert not unknown, f"{function.__name__} takes no {unknown}"

        @functools.wraps(function, updated=())
        def run(*args: object, **fixtures: object) -> None:
            with Table() as table:
                for number, row in enumerate(table_rows, 1):
                    cells = row if len(arguments) > 1 else (row,)
                    assert isinstance(cells, tuple | list), f"{row!r} is no tuple of {names}"
                    with table.row(*cells), ExitStack() as end:
                        own = {name: _renew(name, fixture, number, end) for name, fixture in fixtures.items()}
                        function(*args, **own, **dict(zip(arguments, cells, strict=True)))

        left = [one for name, one in signature.parameters.items() if name not in arguments]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]  # pytest asks it
        run.pytestmark = getattr(function, "pytestmark", [])  # type: ignore[attr-defined]
        return run

    return make


def texts(table: str) -> list[str]:
    """Returns the texts of a table. A line end, or two blanks and more, stand between two of them."""
    return [text for text in re.split(r"\s*(?:\n|  )\s*", table) if text]


def _renew(name: str, fixture: object, number: int, end: ExitStack) -> object:
    """Returns what a row gets for a fixture. The stack takes it back at the end of the row."""
    if name in _DIRECTORIES and isinstance(fixture, Path):
        directory = fixture / str(number)
        directory.mkdir()
        return directory
    if isinstance(fixture, pytest.MonkeyPatch):
        return end.enter_context(pytest.MonkeyPatch.context())
    again = getattr(fixture, "again", None)
    return again() if callable(again) else fixture
