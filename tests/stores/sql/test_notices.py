"""Whoever waits on PostgreSQL is told of a message, not only by looking from time to time."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest

from connector.databases.urls import parse_url
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.sql import watch as watch_module
from connector.stores.sql.database import Settings
from connector.stores.sql.notices import Notices
from connector.stores.sql.provider import SqlProvider
from tests.postgres import PostgresServer
from tests.stores.sql.conftest import ARCHIVE, ORDERS, PRICES


@pytest.fixture
def provider(database: str) -> SqlProvider:
    return SqlProvider(Settings(database))


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


def test_only_empty_channels_are_told_of(provider: SqlProvider, listener: psycopg.Connection[object]) -> None:
    connection = provider.connect("suite", "one")
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


def test_a_notice_ends_a_wait_that_looks_at_nothing(
    provider: SqlProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_who_listens_goes_on_after_its_connection_was_lost(
    provider: SqlProvider, database: str, postgres: PostgresServer
) -> None:
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
