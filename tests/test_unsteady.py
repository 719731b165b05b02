"""A test that failed once is run once more, alone, and the result says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.docs.forked import RUN_PYTHON
from tests.forked_command import PipedProcess
from tests.unsteady import decide

ROOT = Path(__file__).resolve().parents[1]

STEADY = "def test_steady():\n    pass\n"
ONCE = """
import pathlib
def test_once_{0}():
    seen = pathlib.Path("seen_{0}")
    if not seen.exists():
        seen.touch()
        raise OSError("the machine was busy")
"""
TWICE = "def test_twice():\n    assert 1 == 2\n"
STAYS = """
import threading, tests.unsteady
tests.unsteady._EXIT_SECONDS = 0.5
def test_that_leaves_a_thread():
    threading.Thread(target=threading.Event().wait, name="left").start()
"""
DIES_ONCE = """
import os, pathlib
def test_dies():
    if not pathlib.Path("died").exists():
        pathlib.Path("died").touch()
        os._exit(1)
def test_after():
    pathlib.Path("after").touch()
"""


class Run(Protocol):
    """Runs pytest on each text, then decides. Returns the status and the output."""

    def __call__(self, *texts: str, before: int = 0, program: bool = False) -> tuple[int, list[str]]: ...


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs pytest on each text in a fork, then decides here, or in the program that ``.ci/run`` starts."""
    records = tmp_path / "records"
    records.mkdir()
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def fork(command: list[str], env: Any, check: bool = False) -> subprocess.CompletedProcess[str]:
        python, *arguments = command
        assert python == sys.executable
        with PipedProcess(*arguments, cwd=tmp_path, script=RUN_PYTHON, **env) as process:
            texts = process.communicate()
        return subprocess.CompletedProcess(command, process.wait(), *texts)

    def run_texts(*texts: str, before: int = 0, program: bool = False) -> tuple[int, list[str]]:
        status = before
        for number, text in enumerate(texts):
            path = tmp_path / f"test_{number}.py"
            path.write_text(text)
            command = [sys.executable, "-m", "pytest", "-p", "tests.unsteady", path.name]
            done = fork(command, {"TEST_RECORDS": str(records)})
            (records / "errors").write_text(done.stderr)
            status = done.returncode or status
        if program:
            command = [sys.executable, "-m", "tests.unsteady", str(records), str(status)]
            environment = os.environ | {"PYTHONPATH": str(ROOT), "TEST_RECORDS": str(records)}
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            return done.returncode, done.stdout.splitlines()
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "run", fork)
            return decide(records, status, []), capsys.readouterr().out.splitlines()

    return run_texts


def test_nothing_is_said_of_steady_tests(run: Run) -> None:
    assert run(STEADY, STEADY) == (0, [])


def test_a_test_that_passes_the_second_time_is_named(run: Run) -> None:
    status, lines = run(STEADY, ONCE.format(1), program=True)
    assert status == 0
    assert lines[-1].startswith("UNSTEADY test_1.py::test_once_1 OSError: the machine was busy (")


def test_a_test_that_fails_twice_makes_the_run_fail(run: Run) -> None:
    status, lines = run(TWICE, ONCE.format(1))
    assert status == 1
    assert [line.split()[:2] for line in lines[-2:]] == [
        ["FAILED", "test_0.py::test_twice"],
        ["UNSTEADY", "test_1.py::test_once_1"],
    ]


@pytest.mark.parametrize(("number", "status"), [(3, 0), (4, 1)])
def test_at_most_three_tests_may_be_unsteady(run: Run, number: int, status: int) -> None:
    decided, _ = run(*[ONCE.format(one) for one in range(number)])
    assert decided == status


def test_tests_behind_one_that_ends_its_run_are_run(run: Run, tmp_path: Path) -> None:
    status, lines = run(STEADY, DIES_ONCE)
    assert status == 0
    assert lines[-1].startswith("UNSTEADY test_1.py::test_dies the test run ended in this test")
    assert (tmp_path / "after").exists()


def test_a_failure_behind_one_that_ends_its_run_is_unsteady_too(run: Run) -> None:
    status, lines = run(DIES_ONCE + ONCE.format(1))
    assert status == 0
    assert sorted(line.split()[1] for line in lines if line.startswith("UNSTEADY")) == [
        "test_0.py::test_dies",
        "test_0.py::test_once_1",
    ]


def test_a_file_that_cannot_be_collected_makes_the_run_fail(run: Run) -> None:
    status, lines = run("import there_is_no_such_module\n", ONCE.format(1))
    assert status == 1
    assert any(line.startswith("BROKEN") and "there_is_no_such_module" in line for line in lines)


def test_a_process_that_does_not_end_is_ended_and_shows_its_threads(run: Run, tmp_path: Path) -> None:
    assert run(STAYS) == (0, [])
    errors = (tmp_path / "records" / "errors").read_text()
    assert errors.startswith("The tests have ended, and their process goes on:\n")
    assert "threading.py" in errors


def test_a_status_that_no_test_explains_makes_the_run_fail(run: Run) -> None:
    status, lines = run(STEADY, before=3)
    assert status == 1
    assert lines == ["BROKEN the tests ended with status 3, and no test has failed"]
