"""A file that several processes read and change."""

from __future__ import annotations

import os
from pathlib import Path

from connector.state.shared_file import SharedFile


def test_a_change_within_one_tick_of_the_clock_is_read(tmp_path: Path) -> None:
    """The file may then have the time and the number of the file that it replaced."""
    path = tmp_path / "value"
    shared = SharedFile[list[int]](str(path), f"{path}.lock", list, list, list)
    with shared.change() as value:
        value.append(1)
    assert shared.read() == [1]
    before = path.stat()
    path.write_text("[2]")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert shared.read() == [2]
