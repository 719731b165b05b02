"""A root on a fast disk, and real processes to do harm to."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from connector.messaging.message import Message
from connector.messaging.selector import Selector, compile_selector
from tests.forked_command import PipedProcess

SHARED_MEMORY = "/dev/shm"

_PRELUDE = """
import os, sys, time
from connector.errors import *
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import GroupSettlement, Settlement
from connector.stores.dropbox.provider import DropboxProvider
"""


@contextmanager
def new_root(otherwise: Path) -> Iterator[Path]:
    """A directory that any user may look into. Without shared memory it is ``otherwise``."""
    if not os.access(SHARED_MEMORY, os.W_OK | os.X_OK):
        yield otherwise
        return
    directory = Path(tempfile.mkdtemp(prefix="connector-test-", dir=SHARED_MEMORY))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A directory for one test, see :func:`new_root`."""
    with new_root(tmp_path) as directory:
        yield directory


class Children:
    """Forks Python processes that see the provider and, as ``sys.argv``, what they are given."""

    def __init__(self) -> None:
        self._running: list[PipedProcess] = []

    def start(self, code: str, *arguments: object, fault: str = "") -> PipedProcess:
        child = PipedProcess(*arguments, script=_PRELUDE + code, CONNECTOR_FAULT=fault)
        self._running.append(child)
        return child

    def run(self, code: str, *arguments: object, fault: str = "") -> tuple[int, str, str]:
        """Exit status, standard output and standard error of a process that has ended."""
        child = self.start(code, *arguments, fault=fault)
        out, err = child.communicate()
        return child.wait(), out, err

    def end(self) -> None:
        for child in self._running:
            child.end()


@pytest.fixture
def children() -> Iterator[Children]:
    started = Children()
    try:
        yield started
    finally:
        started.end()


Mv = Callable[..., Path]
"""Sends to a queue, under a name, a body."""


@pytest.fixture
def mv(root: Path) -> Mv:
    """Sends as a foreign program does: writes into ``working/``, moves into ``target/``."""

    def send(queue: str, name: str | bytes, body: bytes = b"body") -> Path:
        base = root / queue / "incoming"
        for folder in ("working", "target"):
            (base / folder).mkdir(parents=True, exist_ok=True)
        (base / "working" / "x").write_bytes(body)
        return (base / "working" / "x").rename(base / "target" / os.fsdecode(name))

    return send


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """The messages that selectors of this test were asked about."""
    found: list[Message] = []

    def compile_counting(selector: str) -> Selector:
        compiled = compile_selector(selector)

        def matches(message: Message) -> bool:
            found.append(message)
            return compiled.matches(message)

        return Selector(selector, compiled.identifiers, matches)

    monkeypatch.setattr("connector.stores.engine.connection.compile_selector", compile_counting)
    return found
