"""The files of the history are searched in parts, and for any text and any time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.messaging.history import HistoryRow
from connector.state import history_files
from connector.state.history_files import HistoryFiles
from tests.tables import rows

ID = "ID:" + "a" * 20


@given(st.binary(max_size=40), st.binary(min_size=1, max_size=6), st.integers(0, 40), st.integers(1, 8))
def test_a_search_in_parts_finds_the_first_place(
    content: bytes, pattern: bytes, begin: int, size: int
) -> None:
    content, pattern = (bytes(one % 2 for one in given_bytes) for given_bytes in (content, pattern))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history_files, "_LEAST_BYTES", size)
        patch.setattr(history_files, "_MOST_BYTES", 2 * size)
        assert history_files._find(content, pattern, begin) == content.find(pattern, begin)


@rows("since, found", [(0.0, True), (-1e9, True), (-1e18, True), (1e9, False), (1e18, False), (1e300, False)])
def test_rows_are_found_since_any_time(tmp_path: Path, since: float, found: bool) -> None:
    files = HistoryFiles(str(tmp_path / "root" / "shop"), "host-a")
    tmp_path.joinpath("root").mkdir(exist_ok=True)
    files.append([HistoryRow(time=1e6, what="failed", ids=[ID])])
    assert bool(list(files.find([ID], since))) is found
    assert bool(list(files.find(None, since))) is found
    assert list(files.find(["a" * 100_000], since)) == []
