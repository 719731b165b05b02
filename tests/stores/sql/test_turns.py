"""Processes that write to one SQLite file take turns, and none waits for a turn that nobody can give."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from connector.stores.sql.turns import Turns
from tests.stores.sql.conftest import ORDERS
from tests.waiting import wait_for

HOLD = """
from connector.stores.sql.turns import Turns
with Turns(sys.argv[1], sys.argv[2], 30.0).turn():
    print("holds", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    (tmp_path / "gate").mkdir()
    return tmp_path / "gate"


def turns(gate: Path, patience: float = 60.0) -> Turns:
    return Turns(str(gate), str(gate.with_name("turn")), patience)


def is_locked(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_the_last_writer_lets_each_other_that_waits_write_first(gate: Path) -> None:
    """A loop of writes lets another process in after each write, as soon as it waits."""
    loop, other = turns(gate), turns(gate)
    written: list[str] = []

    def write_once() -> None:
        with other.turn():
            written.append("other")

    for _ in range(20):
        with loop.turn():
            thread = threading.Thread(target=write_once)
            thread.start()
            wait_for(lambda: is_locked(gate), what="the other waits")
            written.append("loop")
        with loop.turn():
            written.append("loop again")
        thread.join()
    assert written == ["loop", "other", "loop again"] * 20


@pytest.mark.process
def test_only_one_process_has_the_turn(gate: Path, children: Any) -> None:
    child = children.start(HOLD, gate, gate.with_name("turn"))
    assert child.stdout.readline() == "holds\n"
    taken = threading.Event()

    def take() -> None:
        with turns(gate).turn():
            taken.set()

    thread = threading.Thread(target=take)
    thread.start()
    wait_for(lambda: is_locked(gate), what="this process waits")
    assert not taken.is_set()
    os.kill(child.pid, signal.SIGKILL)
    thread.join()
    assert taken.is_set(), "the kernel releases the turn of a process that is killed"


def test_a_process_that_has_waited_long_enough_goes_on_without_the_turn(gate: Path) -> None:
    with turns(gate).turn(), turns(gate, 0.05).turn():
        pass
    with turns(gate, 0.05).turn():
        assert is_locked(gate.with_name("turn")), "afterwards there are turns again"


def test_without_the_directory_there_are_no_turns(tmp_path: Path) -> None:
    with turns(tmp_path / "missing").turn(), turns(tmp_path / "missing").turn():
        pass
    assert os.listdir(tmp_path) == []


def test_a_turn_within_a_turn_of_the_thread_is_the_same(gate: Path) -> None:
    own = turns(gate)
    with own.turn():
        with own.turn():
            pass
        assert is_locked(gate.with_name("turn"))
    assert not is_locked(gate.with_name("turn"))


@pytest.mark.process
def test_a_forked_process_waits_for_its_own_turn(gate: Path, children: Any) -> None:
    code = """
from connector.stores.sql.turns import Turns
own = Turns(sys.argv[1], sys.argv[2], 0.05)
with own.turn():
    child = os.fork()
    if not child:
        own._threads.__init__()
        os._exit(0 if own._take() < 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
    descriptor = os.open(sys.argv[2], os.O_RDONLY)
    import fcntl
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        print("still held")
"""
    status, out, err = children.run(code, gate, gate.with_name("turn"))
    assert (status, out) == (0, "still held\n"), err


def test_each_write_to_a_file_is_a_turn(root: Path) -> None:
    """A client waits for its turn where another holds it, and writes when the other has written."""
    provider = SqlProvider(Settings(f"sqlite:///{root}/m.db"))
    connection, looking = provider.connect(), provider.existing()
    connection.send(ORDERS, [Message(b"1")])
    other = Turns(f"{root}/m.db.clients", f"{root}/m.db.turn", 60.0)
    settled: list[bool] = []

    def settle() -> None:
        claim = connection.poller(ORDERS).take(1, 0)
        assert claim is not None
        connection.settle([Settlement(claim)])
        settled.append(True)

    with other.turn():
        thread = threading.Thread(target=settle)
        thread.start()
        wait_for(lambda: is_locked(root / "m.db.clients"), what="the client waits for its turn")
        assert [message.body for message in looking.browse(ORDERS)] == [b"1"], "to read needs no turn"
        assert not settled
    thread.join()
    assert settled
    connection.close()
