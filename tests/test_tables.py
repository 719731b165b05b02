"""A table of values tells all rows that fail."""

# ruff: noqa: PT012, SIM117 -- the tables are what fails

from __future__ import annotations

import inspect
import os
from pathlib import Path

import pytest

from tests.tables import Table, rows, texts


def test_all_rows_run_and_all_that_fail_are_told() -> None:
    done = []
    with pytest.raises(AssertionError) as told:
        with Table() as table:
            for value in (1, 0, 2, "x"):
                with table.row("half of", value):
                    done.append(value)
                    assert value != 2, "two is not allowed"
                    1 / value  # type: ignore[operator]
    assert done == [1, 0, 2, "x"]
    lines = str(told.value).splitlines()
    assert lines[0] == "3 of 4 rows failed:"
    assert [line.split(": ")[:2] for line in lines[1:] if line.startswith("'half of'")] == [
        ["'half of', 0", "ZeroDivisionError"],
        ["'half of', 2", "AssertionError"],
        ["'half of', 'x'", "TypeError"],
    ]
    assert isinstance(told.value.__cause__, ZeroDivisionError)


def test_an_error_that_did_not_come_fails_its_row_alone() -> None:
    with pytest.raises(AssertionError, match="1 of 2 rows failed:\n'none': Failed: DID NOT RAISE"):
        with Table() as table:
            with table.row("none"), pytest.raises(KeyError):
                pass
            with table.row("one"), pytest.raises(KeyError):
                raise KeyError


def test_a_long_row_is_told_in_short() -> None:
    with pytest.raises(AssertionError) as told:
        with Table() as table:
            with table.row("x" * 1_000_000):
                raise ValueError("y" * 1_000_000)
    assert 1000 < len(str(told.value)) < 2500


def test_a_table_without_rows_fails() -> None:
    with pytest.raises(AssertionError, match="a table without rows shows nothing"):
        with Table():
            pass


def test_an_error_outside_of_a_row_is_told_itself() -> None:
    with pytest.raises(LookupError):
        with Table() as table:
            with table.row("fails"):
                raise ValueError
            raise LookupError


# --- a function and a table -------------------------------------------------------------------


def test_a_function_runs_once_for_each_row_and_combination() -> None:
    done = []

    @rows("one, two", [(1, 2), (3, 4)])
    @rows("letter", "ab")
    def run(letter: str, one: int, two: int) -> None:
        done.append((letter, one, two))
        assert (letter, one) != ("b", 3)

    with pytest.raises(AssertionError) as told:
        run()
    assert done == [("a", 1, 2), ("b", 1, 2), ("a", 3, 4), ("b", 3, 4)]
    assert str(told.value).startswith(
        "1 of 2 rows failed:\n3, 4: AssertionError: 1 of 2 rows failed:\n'b': AssertionError: "
    )


class Counter:
    """A fixture that is made anew for each row."""

    def __init__(self) -> None:
        self.made = 0

    def again(self) -> list[int]:
        self.made += 1
        return [self.made]


@pytest.fixture
def counter() -> Counter:
    return Counter()


@rows("row", [1, 2])
@pytest.mark.usefixtures("capsys")
def test_a_row_has_its_own_directory_changes_and_fixtures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counter: list[int], row: int
) -> None:
    assert list(tmp_path.iterdir()) == []
    assert "ROW" not in os.environ
    monkeypatch.setenv("ROW", "set")
    (tmp_path / "file").touch()
    assert counter == [row]


def test_a_function_keeps_its_marks_and_its_name() -> None:
    test = test_a_row_has_its_own_directory_changes_and_fixtures
    assert test.__name__ == "test_a_row_has_its_own_directory_changes_and_fixtures"
    assert [mark.name for mark in test.pytestmark] == ["usefixtures"]  # type: ignore[attr-defined]
    assert list(inspect.signature(test).parameters) == ["tmp_path", "monkeypatch", "counter"]


@pytest.mark.parametrize(
    ("names", "values", "words"),
    [
        ("other", [1], "run takes no {'other'}"),
        ("value", [], "a table without rows shows nothing"),
        ("value, more", [1], "1 is no tuple of value, more"),
        ("value, more", [(1, 2, 3)], r"argument 2 is longer than argument 1"),
    ],
)
def test_a_table_that_does_not_fit_its_function_fails(names: str, values: list[object], words: str) -> None:
    def run(value: object, more: object = None) -> None:
        pass

    with pytest.raises(AssertionError, match=words):
        rows(names, values)(run)()


def test_texts_stand_on_a_line_each_or_with_two_blanks_between() -> None:
    assert texts("""
        a = 1  a b   c

        d
    """) == ["a = 1", "a b", "c", "d"]
