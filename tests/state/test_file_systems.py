"""What the types of file systems tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from connector.state.file_systems import is_shared, keeps_order


def test_a_file_system_without_a_journal_of_names_keeps_no_order() -> None:
    assert not keeps_order("/proc")
    assert not is_shared("/proc")


def test_a_directory_that_is_missing_has_no_file_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        keeps_order(str(tmp_path / "missing"))
