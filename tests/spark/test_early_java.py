"""Java is started before the imports of ``run``, once, and never without need."""

from __future__ import annotations

import copy
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from connector.java import find_java
from connector.spark import early_java
from tests.cli.in_process import call
from tests.forked_command import ForkedProcess
from tests.tables import Table

Sections = dict[str, Any]
Begins = Callable[..., bool]


class Recorded:
    """A deployment whose Java notes each of its starts.

    Args:
        directory: which is made.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._notes = directory / "starts"
        self.text = ""
        """Of adapter.yaml, instead of the sections."""
        self.sections: Sections = {
            "provider": {"type": "dropbox", "root": "data", "create": True},
            "connector": {
                "ApplicationName": "early",
                "InputDestination": "queue://in",
                "ErrorDestination": "queue://error",
            },
        }
        java = find_java()
        home = directory / "java"
        (home / "bin").mkdir(parents=True)
        (home / "release").write_text(f'JAVA_VERSION="{java.version}"\n')
        script = home / "bin" / "java"
        real, notes = shlex.quote(str(java.executable)), shlex.quote(str(self._notes))
        fakes = "[ -e sleeps ] && rm sleeps && exec sleep 600\n[ -e fails ] && exit 3"
        script.write_text(f'#!/bin/sh\necho $$ >>{notes}\n{fakes}\nexec {real} "$@"\n')
        script.chmod(0o755)

    @property
    def starts(self) -> list[int]:
        """The process id of each Java that was started."""
        return [int(line) for line in self._notes.read_text().split()] if self._notes.exists() else []

    def fake(self, *what: str) -> None:
        """Lets the first Java be one that ``sleeps``, or the next one that ``fails``. A real one is dear."""
        for one in what:
            (self.directory / one).touch()

    def write(self) -> None:
        """Writes adapter.yaml."""
        (self.directory / "adapter.yaml").write_text(self.text or yaml.safe_dump(self.sections))

    def run(self, *arguments: str, environ: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Returns exit status and errors of ``connector run``."""
        self.write()
        errors = self.directory / "errors"
        with open(errors, "wb") as file:
            process = ForkedProcess(
                ["run", *arguments],
                cwd=self.directory,
                env={**os.environ, "JAVA_HOME": str(self.directory / "java"), **(environ or {})},
                stdout=file.fileno(),
                stderr=file.fileno(),
                java=True,
            )
            return process.wait(240), errors.read_text()


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path)


def assert_no_java(recorded: Recorded) -> None:
    assert not [pid for pid in recorded.starts if Path(f"/proc/{pid}").exists()]


@pytest.mark.process
def test_the_early_java_is_the_java_of_the_run(recorded: Recorded) -> None:
    recorded.fake("fails")
    status, errors = recorded.run("--once")
    assert (status, "Java ended with status 3 before Spark was up" in errors) == (1, True), errors
    assert len(recorded.starts) == 1


@pytest.mark.process
def test_java_starts_before_a_mistake_is_found_and_ends(recorded: Recorded) -> None:
    recorded.sections["connector"]["PollQuantity"] = "many"
    recorded.fake("sleeps")
    status, errors = recorded.run("--once")
    assert (status, "PollQuantity" in errors) == (2, True)
    assert len(recorded.starts) == 1
    assert_no_java(recorded)


@pytest.mark.process
def test_an_early_java_that_does_not_fit_is_replaced(recorded: Recorded) -> None:
    recorded.sections["connector"]["ApplicationName"] = "${NAME}"
    recorded.fake("sleeps", "fails")
    status, errors = recorded.run("--once", environ={"NAME": "early"})
    assert (status, "Java ended with status 3 before Spark was up" in errors) == (1, True), errors
    assert len(recorded.starts) == 2
    assert_no_java(recorded)


@pytest.fixture
def begins(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> Begins:
    """Begins a run in this process, and returns whether Java is started for it. That Java ends at once."""
    monkeypatch.chdir(recorded.directory)
    monkeypatch.setenv("JAVA_HOME", str(recorded.directory / "java"))

    def begins(*arguments: str) -> bool:
        recorded.write()
        early_java.begin(["run", *arguments])
        early, early_java._early = early_java._early, None
        if early is not None:
            early.stop()
        return early is not None

    return begins


def test_java_starts_early_if_a_run_will_need_it(
    recorded: Recorded, begins: Begins, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in (["-c", "adapter.yaml"], ["--config=./adapter.yaml"], ["--once"]):
        assert begins(*arguments), arguments
    monkeypatch.setenv("CONNECTOR_CONFIG", "other.yaml")
    assert not begins("--once"), "the variable names the configuration, too"


def test_no_java_starts_without_need(recorded: Recorded, begins: Begins) -> None:
    whole = copy.deepcopy(recorded.sections)
    with Table() as table:
        for section, key, value, arguments in (
            ("connector", "InputDestination", None, ["--once"]),
            ("connector", "InputDestination", "queue://in", ["--help"]),
            ("connector", "InputDestination", "queue://in", ["--once", "-c", "other.yaml"]),
            ("spark", "conf", {"spark.master": "local[1]"}, ["--once"]),
            ("spark", "master", "local[none]", ["--once"]),
            ("provider", "type", "memory", ["--once"]),
        ):
            with table.row(section, key, value, arguments):
                recorded.sections = copy.deepcopy(whole)
                recorded.sections.setdefault(section, {})[key] = value
                assert not begins(*arguments)


def test_a_file_that_is_no_configuration_is_an_ordinary_mistake(recorded: Recorded, begins: Begins) -> None:
    with Table() as table:
        for text in ("[" * 200_000, "a: " * 200_000, "- " * 200_000, "*nobody", "\0", "{" * 2_000_000):
            with table.row(text[:9]):
                recorded.text = text
                assert not begins("--once")
                answer = call(recorded.directory, "run", "--once")
                assert (answer.returncode, "adapter.yaml" in answer.stderr) == (2, True), answer.stderr
