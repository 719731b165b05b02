"""Several processes use one database: they take turns at SQLite, and PostgreSQL tells those that wait.

``tests/crashing`` lets them die at every step.
"""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from connector.databases.urls import parse_url
from connector.errors import ProviderError
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.sql import watch as watch_module
from connector.stores.sql.database import Settings
from connector.stores.sql.postgres_notifier import PostgresNotifier
from connector.stores.sql.provider import SqlProvider
from connector.stores.sql.turns import Turns
from tests.postgres import PostgresServer
from tests.stores.conftest import Children
from tests.stores.sql.conftest import ARCHIVE, ORDERS, PRICES
from tests.waiting import beside, wait_for

PRELUDE = """
from connector.messaging.subscription import TopicSubscription
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
orders = parse_destination("orders")
connection = SqlProvider(Settings(sys.argv[1])).connect("suite", "child")
"""


@pytest.fixture
def provider(url: str) -> SqlProvider:
    return SqlProvider(Settings(url))


def test_the_bodies_of_a_fan_out_are_kept_once(root: Path) -> None:
    provider = SqlProvider(Settings(f"sqlite:///{root}/messages.db"))
    connection = provider.connect("suite", "parent")
    pollers = [connection.poller(TopicSubscription(PRICES)) for _ in range(20)]
    connection.send(PRICES, [Message(b"x" * 1_000_000)])
    assert sum(path.stat().st_size for path in root.glob("messages*")) < 4_000_000
    for poller in pollers:
        (claim,) = poller.claim(1, range(5))
        connection.settle([Settlement(claim)])


@pytest.mark.process
def test_processes_that_come_to_a_subscription_and_leave_it_at_once_leave_nothing(
    provider: SqlProvider, url: str, children: Children
) -> None:
    work = """
shared = TopicSubscription(parse_destination("topic://prices"), "all", shared=True)
for number in range(25):
    poller = connection.poller(shared)
    connection.send(shared.topic, [Message(b"body")])
    connection.settle([Settlement(claim) for claim in poller.claim(number, range(3))])
    poller.close()
connection.close()
"""
    started = [children.start(PRELUDE + work, url) for _ in range(3)]
    ended = [(child.communicate(timeout=240)[1], child.returncode) for child in started]
    assert ended == [("", 0)] * 3
    connection = provider.connect("suite", "parent")
    assert (list(connection.subscriptions()), connection.names()) == ([], [PRICES])
    assert list(connection.leftovers(None, at_start=True)) == []


@pytest.mark.process
def test_who_forks_leaves_its_connections_behind(provider: SqlProvider, url: str, children: Children) -> None:
    work = """
connection.send(orders, [Message(b"parent")])
for number in range(3):
    child = os.fork()
    if not child:
        access = connection.access().open()
        access.check()
        own = SqlProvider(Settings(sys.argv[1])).connect("suite", "forked")
        own.send(orders, [Message(str(number).encode())])
        own.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    connection.send(orders, [Message(b"parent")])
connection.close()
"""
    assert children.run(PRELUDE + work, url) == (0, "", "")
    found = [message.body for message in provider.connect().browse(ORDERS)]
    assert found == [b"parent", b"0", b"parent", b"1", b"parent", b"2", b"parent"]


def test_a_client_that_somebody_takes_over_from_claims_nothing(provider: SqlProvider) -> None:
    connection, heir = provider.connect("suite", "one"), provider.connect("suite", "other")
    poller = connection.poller(ORDERS)
    connection.send(ORDERS, [Message(b"1")])
    provider.declare_dead(connection.client_id)
    assert poller.take(1, 0) is None
    (leftover,) = heir.leftovers(None, at_start=False)
    assert poller.take(2, 0) is None
    leftover.forget()
    assert poller.take(3, 0) is None
    with pytest.raises(ProviderError, match="has taken over"):
        connection.check()
    assert heir.poller(ORDERS).take(1, 0) is not None


# -- notices of PostgreSQL ------------------------------------------------------------------------------


@pytest.fixture
def listener(database: str, postgres: PostgresServer) -> Iterator[psycopg.Connection[object]]:
    with postgres.connect(str(parse_url(database).database)) as connection:
        connection.execute("LISTEN connector_messages")
        yield connection


def told(listener: psycopg.Connection[object]) -> list[str]:
    """The channels that were told of until now."""
    listener.execute("SELECT pg_notify('connector_messages', 'end')")
    found: list[str] = []
    for notice in listener.notifies(timeout=10):
        if notice.payload == "end":
            break
        found.append(notice.payload)
    return found


def test_only_empty_channels_are_told_of(database: str, listener: psycopg.Connection[object]) -> None:
    connection = SqlProvider(Settings(database)).connect("suite", "one")
    connection.send(ORDERS, [Message(b"1")])
    connection.send(ORDERS, [Message(b"2")])
    assert told(listener) == ["queue://orders"]
    claims = connection.poller(ORDERS).claim(1, range(5))
    assert told(listener) == []
    connection.settle([Settlement(claims[0], copy_to=ARCHIVE), Settlement(claims[1], give_back=True)])
    assert sorted(told(listener)) == ["queue://archive", "queue://orders"]
    subscription = connection.poller(TopicSubscription(PRICES, "all", "suite", durable=True))
    connection.send(PRICES, [Message(b"3")])
    (channel,) = told(listener)
    assert channel.startswith("topic://prices;")
    subscription.close()


def test_a_notice_ends_a_wait_that_looks_at_nothing(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = SqlProvider(Settings(database))
    monkeypatch.setattr(watch_module, "_LONGEST", 3600.0)
    monkeypatch.setattr(PostgresNotifier, "interval", lambda self, *, selects: 3600.0)
    connection, other = provider.connect("suite", "one"), provider.connect("suite", "two")
    poller, waiter = connection.poller(ORDERS), connection.waiter()
    assert waiter is not None
    for number in range(3):
        waiter.begin()
        assert poller.take(number, 0) is None
        timer = threading.Timer(0.1, other.send, [ORDERS, [Message(b"body")]])
        timer.start()
        assert waiter.wait(120)
        timer.join()
        assert poller.take(number, 1) is not None


def test_who_listens_goes_on_after_its_connection_was_lost(database: str, postgres: PostgresServer) -> None:
    provider = SqlProvider(Settings(database))
    connection = provider.connect("suite", "one")
    poller, waiter = connection.poller(ORDERS), connection.waiter()
    assert waiter is not None
    waiter.begin()
    with postgres.connect() as looking:
        name = parse_url(database).database
        looking.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = %s AND query LIKE 'LISTEN%%'",
            [name],
        )
    provider.connect("suite", "two").send(ORDERS, [Message(b"body")])
    assert waiter.wait(120)
    assert poller.take(1, 0) is not None


# -- turns at a file of SQLite ----------------------------------------------------------------------

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
            thread = beside(write_once)
            wait_for(lambda: is_locked(gate), what="the other waits")
            written.append("loop")
        with loop.turn():
            written.append("loop again")
        thread.result(120)
    assert written == ["loop", "other", "loop again"] * 20


@pytest.mark.process
def test_only_one_process_has_the_turn(gate: Path, children: Children) -> None:
    child = children.start(HOLD, gate, gate.with_name("turn"))
    assert child.stdout.readline() == "holds\n"

    def take() -> None:
        with turns(gate).turn():
            pass

    taking = beside(take)
    wait_for(lambda: is_locked(gate), what="this process waits")
    assert not taking.done()
    os.kill(child.pid, signal.SIGKILL)
    taking.result(120)  # the kernel releases the turn of a process that is killed


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
def test_a_forked_process_waits_for_its_own_turn(gate: Path, children: Children) -> None:
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

    def settle() -> None:
        claim = connection.poller(ORDERS).take(1, 0)
        assert claim is not None
        connection.settle([Settlement(claim)])

    with other.turn():
        settling = beside(settle)
        wait_for(lambda: is_locked(root / "m.db.clients"), what="the client waits for its turn")
        assert [message.body for message in looking.browse(ORDERS)] == [b"1"], "to read needs no turn"
        assert not settling.done()
    settling.result(120)
    connection.close()
