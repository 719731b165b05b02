"""The server that tests run on leaves nothing behind, however it ends."""

from __future__ import annotations

import os
from pathlib import Path

from tests.postgres import new_server


def test_a_server_leaves_no_process_and_no_file() -> None:
    with new_server() as server:
        assert _processes(server.directory)
        server.kill()
        assert _processes(server.directory) == []
        server.start()
    assert _processes(server.directory) == []
    assert not server.directory.exists()


def _processes(directory: Path) -> list[int]:
    """Processes that work in a directory or below."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdecimal() and Path(os.readlink(process / "cwd")).is_relative_to(directory):
                found.append(int(process.name))
        except OSError:
            continue
    return found
