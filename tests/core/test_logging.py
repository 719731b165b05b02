"""The log of the connector in a program: nothing without logging set up, everything with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).resolve().parents[2]
_LEAVE = """
import os
from connector.messaging import AcknowledgeMode, connect
session = connect("dropbox:./data?create=true").session(AcknowledgeMode.CLIENT)
session.send("queue://orders", "one")
session.consumer("queue://orders").receive(timeout=120)
os._exit(0)
"""
_TAKE_OVER = """
from connector.messaging import connect
with connect("dropbox:./data") as connection, connection.session() as session:
    print(session.consumer("queue://orders").receive(timeout=120).value)
"""


@pytest.mark.parametrize("set_up", ["", "import logging; logging.basicConfig()"])
def test_a_program_sees_the_log_only_where_it_has_set_up_logging(tmp_path: Path, set_up: str) -> None:
    def run(code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={"PYTHONPATH": str(_REPOSITORY)},
            capture_output=True,
            text=True,
            check=True,
        )

    run(_LEAVE)
    done = run(f"{set_up}\n{_TAKE_OVER}")
    assert done.stdout == "one\n"
    if set_up:
        assert "messages of a dead client are redelivered" in done.stderr
    else:
        assert done.stderr == ""
