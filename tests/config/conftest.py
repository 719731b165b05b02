"""A small deployment without mistakes, into which tests put theirs."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import pytest

from connector.config.loading import Configuration, check, load
from connector.errors import Problem
from connector.testing.deployment import Deployment

pytest.register_assert_rewrite("tests.config.mistakes")
SOURCE = Path(__file__).parent / "deployment"


class Sample(Deployment):
    """A copy of the deployment without mistakes, in the current directory. A test edits it and checks it."""

    def __init__(self, directory: Path, source: Path = SOURCE) -> None:
        super().__init__(directory)
        shutil.copytree(source, directory, ignore=shutil.ignore_patterns("__pycache__"))
        os.chdir(directory)
        self._copies = itertools.count(1)

    def again(self) -> Self:
        """Returns a copy of this deployment for a row of a table, in what is now the current directory."""
        return type(self)(Path(f"{self.directory}-{next(self._copies)}"), self.directory)

    def read(self, file: str) -> str:
        return (self.directory / file).read_text("utf-8")

    def replace(self, file: str, old: str, new: str) -> None:
        text = self.read(file)
        assert text.count(old) == 1, old
        self.write(file, text.replace(old, new))

    def edit(self, edits: Iterable[tuple[str, str, str]]) -> None:
        """Replaces a text in each file. Without an old text, the new one is the whole file."""
        for file, old, new in edits:
            if old:
                self.replace(file, old, new)
            else:
                self.write(file, new)

    def add(self, section: str) -> None:
        """Writes a section more."""
        self.write("adapter.yaml", f"{self.read('adapter.yaml')}\n{section}\n")

    def check(self, **environment: str) -> list[Problem]:
        return check("adapter.yaml", environment)

    def problem(self, **environment: str) -> Problem:
        """Checks it, and returns the only problem."""
        problems = self.check(**environment)
        assert len(problems) == 1, [str(problem) for problem in problems]
        return problems[0]

    def load(self, **environment: str) -> Configuration:
        return load("adapter.yaml", environment)


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sample:
    monkeypatch.chdir(tmp_path)  # so that the end of the test goes back
    return Sample(tmp_path / "deployment")
