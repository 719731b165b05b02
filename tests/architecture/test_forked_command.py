"""A forked process is like a new one: the server of :mod:`tests.forked_command` shares nothing with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from tests.forked_command import PipedProcess

pytestmark = pytest.mark.process

SHOW = """
import gc, json, os, threading
from sqlalchemy import Engine
gc.unfreeze()
engines = [repr(one) for one in gc.get_objects() if isinstance(one, Engine)]
files = os.listdir("/proc/self/fd")
print(json.dumps([os.getppid(), engines, threading.active_count(), sorted(map(int, files))]), flush=True)
input()
"""


def test_the_server_has_one_thread_and_nothing_open_that_a_child_could_share() -> None:
    with PipedProcess(script=SHOW) as child:
        server, engines, threads, files = json.loads(child.stdout.readline())
        assert (engines, threads) == ([], 1)
        assert files == [0, 1, 2, 3], "3 is the listed directory"
        assert len(os.listdir(f"/proc/{server}/task")) == 1
        opened = [os.readlink(f"/proc/{server}/fd/{number}") for number in os.listdir(f"/proc/{server}/fd")]
    assert len(opened) == 4, f"three streams and the channel to the tests: {opened}"


def test_a_fault_is_of_one_script_alone() -> None:
    script = "from connector import faults\nfaults.point('claim')\nprint('lives')"
    killed = PipedProcess(script=script, CONNECTOR_FAULT="claim=kill")
    assert (killed.communicate()[0], killed.returncode) == ("", -signal.SIGKILL)
    living = PipedProcess(script=script)
    assert (living.communicate()[0], living.returncode) == ("lives\n", 0)


def test_a_script_that_does_not_end_is_killed_with_the_test() -> None:
    with PipedProcess(script="input()") as child, pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.01)
    assert child.returncode == -signal.SIGKILL
