"""Ctrl-C while a command loads, starts and ends, and what ``run`` shows while a user waits for its start."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from connector.cli import run as run_verb
from connector.cli.notify import ServiceManager
from connector.config.loading import load
from connector.errors import SparkLost
from connector.service.adapter import Adapter
from tests.waiting import wait_for

REPOSITORY: Final = Path(__file__).resolve().parents[2]

_INTERRUPTED: Final = """
import atexit, os, signal, sys
import connector.cli.__main__ as entry

PLACE = sys.argv.pop(1)

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

class Place:
    def find_spec(name, path=None, target=None):
        if name == PLACE:
            interrupt()

sys.meta_path.insert(0, Place)
if PLACE == "the end":
    atexit.register(interrupt)
entry.main()
"""
"""Runs a command, and presses Ctrl-C when it is about to import a module."""
_PROCESSES: Final = """
import pathlib, time
while not pathlib.Path("go").exists():
    time.sleep(0.01)

def book(order, event):
    pass
"""
_ORDER: Final = "business_object: Order\nverbs:\n  Create:\nattributes:\n  Id: {type: String, key: true}\n"
_ADAPTER: Final = """\
provider: {type: dropbox, root: ./data, create: true}
connector: {ApplicationName: a, DataHandlerMimeType: application/json, InputDestination: queue://orders}
metaobjects: ./metaobjects
subscriptions: [{object: Order, process: "processes:book"}]
"""


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    """A deployment whose processes cannot be imported before there is a file ``go``."""
    (tmp_path / "metaobjects").mkdir()
    (tmp_path / "metaobjects/order.yaml").write_text(_ORDER)
    (tmp_path / "adapter.yaml").write_text(_ADAPTER)
    (tmp_path / "processes.py").write_text(_PROCESSES)
    return tmp_path


@pytest.mark.process
@pytest.mark.parametrize(
    ("verb", "place"),
    [
        ("check", "connector.cli.app"),
        ("check", "typer"),
        ("queues", "connector.cli.queues"),
        ("send", "connector.config.loading"),
        ("check", "the end"),
        ("run", "connector.cli.app"),
        ("run", "connector.service.adapter"),
    ],
)
def test_ctrl_c_while_a_command_loads_or_has_ended_shows_no_traceback(
    deployment: Path, verb: str, place: str
) -> None:
    text = (deployment / "adapter.yaml").read_text()  # without inputs, so that run needs no Spark
    (deployment / "adapter.yaml").write_text(text.replace(", InputDestination: queue://orders", ""))
    arguments = {"send": ["orders"], "run": ["--once"]}.get(verb, [])
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, place, verb, *arguments],
        cwd=deployment,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.process
def test_the_package_is_the_command_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "connector", "--version"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("connector ")


class Terminal:
    """A command without Spark at a terminal.

    Args:
        arguments: of ``connector``.
        directory: where it is typed.
    """

    def __init__(self, *arguments: str, directory: Path) -> None:
        self._master, slave = pty.openpty()
        self._read = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.without_java", *arguments],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "200"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()

    def _follow(self) -> None:
        with suppress(OSError):  # the last process has closed the terminal
            while data := os.read(self._master, 4096):
                self._read += data

    @property
    def text(self) -> str:
        """What was written so far, without colours."""
        return re.sub("\x1b\\[[0-9;]*m", "", self._read.decode())

    def await_text(self, text: str) -> None:
        wait_for(lambda: text in self.text or self.process.poll() is not None, 60)
        assert text in self.text

    def wait(self) -> int:
        status = self.process.wait(60)
        self._reader.join(60)
        return status

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(60)
        os.close(self._master)


@pytest.fixture
def drain(deployment: Path) -> Iterator[Terminal]:
    terminal = Terminal("run", "--drain", directory=deployment)
    try:
        yield terminal
    finally:
        terminal.close()


@pytest.mark.process
def test_a_terminal_shows_what_the_start_waits_for_and_then_only_the_log(
    deployment: Path, drain: Terminal
) -> None:
    drain.await_text("\r\x1b[Kwaits for the workers, which load the processes")
    (deployment / "go").touch()
    assert drain.wait() == 0, drain.text
    lines = [line.rpartition("\r\x1b[K")[2] for line in drain.text.replace("\r\n", "\n").split("\n")]
    assert not [line for line in lines if "waits for" in line], "the line is gone at the end"
    assert [line for line in lines if line.startswith("0 events")] == ["0 events: 0 published"]


@pytest.mark.process
def test_ctrl_c_ends_a_start_that_nothing_else_ends(deployment: Path, drain: Terminal) -> None:
    """A process that waits while it is imported, in the process of the adapter."""
    drain.await_text("waits for the workers")
    drain.process.send_signal(signal.SIGINT)
    assert drain.process.wait(60) == 130
    (deployment / "go").touch()  # a worker without Spark outlives it for a while
    drain.wait()
    assert "SIGINT: the start is ended" in drain.text
    assert "the start does not end, so the process ends at once" in drain.text
    assert "Traceback" not in drain.text


@pytest.mark.parametrize("is_ready", [False, True])
def test_only_a_start_is_ended_by_force(
    deployment: Path, monkeypatch: pytest.MonkeyPatch, is_ready: bool
) -> None:
    ends: list[int] = []
    monkeypatch.setattr(os, "_exit", ends.append)
    life = run_verb._Life(Adapter(load(deployment / "adapter.yaml")), ServiceManager({}))
    life.is_ready = is_ready
    life._end()
    assert ends == ([] if is_ready else [130])


def test_a_stop_ends_the_start_at_work_and_no_restart_follows(
    deployment: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A Spark that was killed is started again, but not by an adapter that stops."""
    adapter = Adapter(load(deployment / "adapter.yaml"))
    begun, ended = threading.Event(), threading.Event()

    def start() -> None:
        begun.set()
        assert ended.wait(60)
        raise SparkLost("Java was ended")

    monkeypatch.setattr(adapter._connection, "start", start)
    monkeypatch.setattr(adapter._connection, "abort", ended.set)
    thread = threading.Thread(target=adapter.start, kwargs={"waits": True})
    thread.start()
    assert begun.wait(60)
    assert adapter.starts_now
    adapter.request_stop()
    thread.join(60)
    assert not thread.is_alive()
    assert "restarting the connection" not in caplog.text
    adapter.stop()
