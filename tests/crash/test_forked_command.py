"""What the crash tests start is a process of its own, although it is forked from one that has imported it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests import forked_command
from tests.crash.conftest import Deploy
from tests.waiting import wait_for

JAVA = False


def test_a_fork_has_a_session_a_directory_and_an_environment_of_its_own(deploy: Deploy) -> None:
    deployment = deploy()
    deployment.fill("in", ["gate:1"])
    run = deployment.start("--drain")
    (runner,) = wait_for(lambda: deployment.reached("1"))
    assert {run.pid, runner} <= set(run.members()), "they have the mark of this run"
    assert {os.getsid(pid) for pid in run.members()} == {run.pid}
    assert Path(f"/proc/{run.pid}/cwd").readlink() == deployment.directory
    with pytest.raises(subprocess.TimeoutExpired):
        run.process.wait(0.01)
    run.signal_driver(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    run.await_gone()


def test_a_fault_is_of_one_fork_alone(deploy: Deploy) -> None:
    deployment = deploy()
    ids = deployment.fill("in", [""])
    assert deployment.start("--drain", fault="claim:1=kill").wait() == -signal.SIGKILL
    deployment.drain()
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)


def test_a_fork_ends_with_the_status_and_the_output_of_the_command(deploy: Deploy) -> None:
    deployment = deploy()
    wrong = forked_command.run(["run", "--once", "--drain"], cwd=deployment.directory)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "--once and --drain exclude each other" in wrong.stderr
    right = forked_command.run(["status", "--json"], cwd=deployment.directory)
    assert (right.returncode, right.stderr) == (0, "")
    assert '"application"' in right.stdout
