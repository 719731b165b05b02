"""The directory passes the suite of state stores."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import pytest

from connector.state.directory import StateDirectory
from tests.provider_suite.state import OpenStore, Record, StateStoreSuite


def folder(name: str) -> str:
    """A folder that is none of the store's own."""
    return f"@{quote(name, safe='')}"


class TestStateDirectory(StateStoreSuite):
    """A directory whose records are keys, one a line."""

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        path = str(tmp_path / "state")
        return lambda: StateDirectory(path, folder=folder, keys_of=lambda record: record.decode().split("\n"))

    @pytest.fixture
    def record(self, tmp_path: Path) -> Record:
        directory = tmp_path / "state" / "published"
        numbers = itertools.count(1)

        def write(client_id: str, keys: Sequence[str]) -> None:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / f"{client_id}-{next(numbers)}").write_text("\n".join(keys))

        return write
