"""The deployment examples/artemis, and the commands of its how-to page, on a real broker."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from connector.brokers.jars.locked import LOCK, Jars
from tests.docs.forked import Forks
from tests.docs.reader import blocks
from tests.servers.broker import PASSWORD, USER
from tests.servers.conftest import REPOSITORY, Broker

PAGE = REPOSITORY / "docs/how-to/jms-broker.md"


@pytest.mark.process
@pytest.mark.timeout(1800)  # many commands, each with a Java of its own
def test_the_commands_of_the_page_work_on_artemis(artemis: Broker, tmp_path: Path) -> None:
    artemis.empty()
    directory = tmp_path / "artemis"
    shutil.copytree(REPOSITORY / "examples/artemis", directory)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "BROKER_URL": f"amqp://127.0.0.1:{artemis.port}",
        "BROKER_USER": USER,
        "BROKER_PASSWORD": PASSWORD,
    }
    output = ""
    with Forks(tmp_path) as forks:
        (tmp_path / "connector").write_text(f'#!/bin/sh\nexec {forks.command} "$@"\n')
        (tmp_path / "connector").chmod(0o755)
        for block in blocks(PAGE):
            if block.not_run == "needs-broker":
                command = ["sh", "-euc", block.text]
                given: dict[str, Any] = {"cwd": directory, "env": environment, "timeout": 900}
                answer = subprocess.run(command, capture_output=True, text=True, check=False, **given)
                assert answer.returncode == 0, answer.stdout + answer.stderr
                output += answer.stdout
    assert "yes transactions" in output
    assert (directory / "booked.txt").read_text() == "O-1 12.50\n"
    assert (directory / LOCK).exists()
    assert "O-1" in output  # the archived order
    assert '"Total": 12.50' in output  # the answer to the question
    packages = ["org.apache.qpid:qpid-jms-client:2.10.0", "org.slf4j:slf4j-nop:2.0.17"]
    assert all(note.state == "there" for note in Jars(packages, directory).notes())
