"""The log of the connector in a program: nothing without logging set up, everything with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forked_command import PipedProcess

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


@pytest.mark.process
@pytest.mark.parametrize("set_up", ["", "import logging; logging.basicConfig()"])
def test_a_program_sees_the_log_only_where_it_has_set_up_logging(tmp_path: Path, set_up: str) -> None:
    leaving = PipedProcess(cwd=tmp_path, script=_LEAVE)
    leaving.communicate(timeout=120)
    assert leaving.returncode == 0
    output, errors = PipedProcess(cwd=tmp_path, script=f"{set_up}\n{_TAKE_OVER}").communicate(timeout=120)
    assert output == "one\n"
    if set_up:
        assert "messages of a dead client are redelivered" in errors
    else:
        assert errors == ""
