"""A small deployment without mistakes, into which tests put theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from connector.config.loading import Configuration, check, load
from connector.errors import Problem

SOURCE = Path(__file__).parent / "deployment"


class Deployment:
    """Files of a deployment in a directory of their own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = {
            str(path.relative_to(SOURCE)): path.read_text("utf-8")
            for path in sorted(SOURCE.rglob("*"))
            if path.suffix in (".yaml", ".py")
        }

    def replace(self, file: str, old: str, new: str) -> None:
        assert self.files[file].count(old) == 1, old
        self.files[file] = self.files[file].replace(old, new)

    def write(self) -> Path:
        for name, text in self.files.items():
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        return self.directory / "adapter.yaml"

    def check(self, **environment: str) -> list[Problem]:
        self.write()
        return check("adapter.yaml", environment)

    def load(self, **environment: str) -> Configuration:
        self.write()
        return load("adapter.yaml", environment)


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    monkeypatch.chdir(tmp_path)
    return Deployment(tmp_path)
