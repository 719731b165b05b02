"""The window remembers what was published: across restarts, instances and many small records.

``test_suite.py`` shows what every window promises.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from connector.errors import ProviderError
from connector.state.duplicates import DuplicateWindow

OLD = tuple(f"old{i}." for i in range(10))
NEW = tuple(f"new{i}." for i in range(10))


def keys_of(record: bytes) -> Sequence[str]:
    """The records of these tests: one key a line."""
    return record.decode().split("\n")


class State:
    """The state directory of one ApplicationName, as its instances share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records = path / "published"
        self._clock = 1_700_000_000

    def window(self, client: str = "a", size: int = 100) -> DuplicateWindow:
        return DuplicateWindow(str(self.records), str(self.path), client, size, keys_of)

    def finish_many(self, client: str, numbers: range, *prefixes: str) -> None:
        """Settlements are finished: of each number, a key for each prefix."""
        for number in numbers:
            self.finish(f"{client}-{number}", *(f"{prefix}{number}" for prefix in prefixes))

    def finish(self, name: str, *keys: str) -> None:
        """A settlement of a client is finished: its record is there, a second later than the last."""
        self.records.mkdir(exist_ok=True)
        record = self.records / name
        record.write_text("\n".join(keys))
        self._clock += 1
        os.utime(record, (self._clock, self._clock))


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path)


def test_a_directory_that_has_not_changed_is_not_read_again(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.finish("b-1", "k1")
    os.utime(state.records, (0, 0))
    window = state.window("a")
    monkeypatch.setattr(os, "listdir", None)
    window.refresh()
    assert "k1" in window


def test_a_key_that_is_published_again_is_young_again(state: State) -> None:
    window = state.window(size=10)
    window.add(["again"])
    window.add([f"a{number}" for number in range(1005)])
    window.add(["again"])
    window.add([f"b{number}" for number in range(6)])
    assert len(window) == 10
    assert "again" in window


def test_records_are_merged_while_the_adapter_runs(state: State) -> None:
    window = state.window("a", size=10_000)
    for number in range(600):
        state.finish(f"a-{number}", f"k{number}")
        window.reserve([])
    assert len(os.listdir(state.records)) <= 202
    assert len(state.window("b", size=10_000)) == 600


def test_a_neighbour_that_has_read_some_records_misses_none_that_were_merged(state: State) -> None:
    state.finish_many("a", range(150), "k")
    neighbour = state.window("n", size=1000)
    state.finish_many("a", range(150, 300), "k")
    state.window("b", size=1000)
    state.finish_many("a", range(300, 310), "k")
    neighbour.refresh()
    assert all(f"k{number}" in neighbour for number in range(310))


def test_merging_forgets_by_age_whichever_instance_published(state: State) -> None:
    """The client that started first may well be the one that published last."""
    state.finish_many("late", range(150), *OLD)
    state.finish_many("early", range(150), *NEW)
    state.window("b", size=1500)
    window = state.window("c", size=1500)
    assert all(f"{new}{number}" in window for number in range(150) for new in NEW)
    window = state.window("d", size=20)
    assert ("new9.149" in window, "old0.0" in window) == (True, False)


def test_records_that_were_merged_stay_older_than_those_that_follow(state: State) -> None:
    state.finish_many("b", range(250), *OLD)
    state.window("x", size=5000)
    state.finish_many("a", range(10), *NEW)
    window = state.window("y", size=100)
    assert all(f"{new}{number}" in window for number in range(10) for new in NEW)


def test_a_merge_that_was_interrupted_is_harmless(state: State) -> None:
    state.finish_many("a", range(300), "k")
    (state.records / ".dead").write_text("k0\nhalf")
    window = state.window("b", size=1000)
    assert (len(window), "half" in window) == (300, False)
    assert len(os.listdir(state.records)) < 10, "many small records become few"


def test_a_state_directory_that_cannot_be_used_is_an_error_of_the_provider(
    state: State, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ProviderError, match="cannot make"):
        State(tmp_path / "file").window()
    window = state.window()
    (state.path / "in-flight").rmdir()
    (state.path / "in-flight").touch()
    with pytest.raises(ProviderError, match=r"cannot use .*in-flight"):
        window.reserve(["k"])
