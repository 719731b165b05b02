"""Several processes use one database, and PostgreSQL tells those that wait of a message.

``tests/crashing`` lets them die at every step.
"""

from __future__ import annotations

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
from connector.stores.sql.notices import Notices
from connector.stores.sql.provider import SqlProvider
from tests.postgres import PostgresServer
from tests.stores.conftest import Children
from tests.stores.sql.conftest import ARCHIVE, ORDERS, PRICES

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
    ended = [(child.communicate(timeout=120)[1], child.returncode) for child in started]
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
    monkeypatch.setattr(Notices, "pause", lambda self, *, selects: 3600.0)
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
