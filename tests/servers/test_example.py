"""The deployment examples/artemis, and the commands of pages for a broker, on a real one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from connector.brokers.jars.locked import LOCK, Jars
from tests.docs.forked import Forks
from tests.docs.reader import blocks
from tests.servers.broker import PASSWORD, USER
from tests.servers.conftest import REPOSITORY, Broker

PAGE = REPOSITORY / "docs/how-to/jms-broker.md"
QUESTION = REPOSITORY / "docs/questions/jms-from-python.md"


@pytest.mark.process
@pytest.mark.timeout(1800)  # many commands, each with a Java of its own
def test_the_commands_of_the_page_work_on_artemis(artemis: Broker, tmp_path: Path) -> None:
    artemis.empty()
    directory = tmp_path / "artemis"
    shutil.copytree(REPOSITORY / "examples/artemis", directory)
    output = _follow(PAGE, directory, artemis, tmp_path)
    assert "yes transactions" in output
    assert (directory / "booked.txt").read_text() == "O-1 12.50\n"
    assert (directory / LOCK).exists()
    assert "O-1" in output  # the archived order
    assert '"Total": 12.50' in output  # the answer to the question
    packages = ["org.apache.qpid:qpid-jms-client:2.10.0", "org.slf4j:slf4j-nop:2.0.17"]
    assert all(note.state == "there" for note in Jars(packages, directory).notes())


@pytest.mark.process
@pytest.mark.timeout(1800)
def test_the_program_of_a_page_speaks_jms_with_artemis(artemis: Broker, tmp_path: Path) -> None:
    artemis.empty()
    directory = tmp_path / "bills"
    directory.mkdir()
    for block in blocks(QUESTION):
        if block.file:
            (directory / block.file).write_text(block.text)
    output = _follow(QUESTION, directory, artemis, tmp_path)
    assert output.endswith("O-1: 12.50\n"), output


def _follow(page: Path, directory: Path, artemis: Broker, programs: Path) -> str:
    """Runs the blocks of a page that need a broker; returns what they print."""
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "BROKER_URL": f"amqp://127.0.0.1:{artemis.port}",
        "BROKER_USER": USER,
        "BROKER_PASSWORD": PASSWORD,
    }
    output = ""
    with Forks(programs) as forks:
        for name, command in (("connector", forks.command), ("python", sys.executable)):
            (programs / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (programs / name).chmod(0o755)
        for block in blocks(page):
            if block.not_run == "needs-broker":
                given: dict[str, Any] = {"cwd": directory, "env": environment, "timeout": 900}
                answer = subprocess.run(
                    ["sh", "-euc", block.text], capture_output=True, text=True, check=False, **given
                )
                assert answer.returncode == 0, answer.stdout + answer.stderr
                output += answer.stdout
    return output
