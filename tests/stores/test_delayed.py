"""Delayed messages when their client dies, and beside programs that know nothing of them.

``tests/crash_states`` lets an adapter die at each operation on the files of delayed messages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.messaging.message import Message
from connector.stores.engine.connection import LocalConnection
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from tests.stores.dropbox.steps import ORDERS, closed, connect
from tests.tables import rows
from tests.waiting import now_ms, until_past


@pytest.fixture
def connection(root: Path) -> Iterator[LocalConnection]:
    connection = connect(root)
    yield connection
    connection.close()


def delayed(connection: LocalConnection) -> list[bytes]:
    return [message.body for message in connection.browse(ORDERS, delayed=True)]


def send_due(connection: LocalConnection, *bodies: bytes) -> int:
    """Sends messages that are due in a moment. Returns that time in milliseconds since 1970."""
    due = now_ms() + 50
    connection.send(ORDERS, [Message(body, delivery_time=due) for body in bodies])
    return due


@rows("kind", ["dropbox", "sql"])
def test_an_adapter_moves_what_is_due_for_other_programs(root: Path, kind: str) -> None:
    connection = connect(root)
    if kind == "sql":
        connection = SqlProvider(Settings(f"sqlite:///{root}/messages.db")).connect("suite", "one")
    due = send_due(connection, b"due")
    connection.send(ORDERS, [Message(b"later", delivery_time=now_ms() + 3_600_000)])
    until_past(due)
    connection.prune()
    assert [message.body for message in connection.browse(ORDERS)] == [b"due"]
    assert delayed(connection) == [b"later"]
    connection.close()


def test_a_foreign_file_among_the_delayed_stays(root: Path, connection: LocalConnection) -> None:
    poller = connection.poller(ORDERS)
    folder = root / "orders/incoming/delayed"
    for name in ("notes.txt", "12345", ".hidden"):
        (folder / name).write_bytes(b"not ours")
    until_past(send_due(connection, b"due"))
    assert poller.take(1, 0) is not None
    assert sorted(os.listdir(folder)) == [".hidden", "12345", "notes.txt"]


def test_a_closed_folder_holds_up_no_other_message(
    root: Path, connection: LocalConnection, caplog: pytest.LogCaptureFixture
) -> None:
    poller = connection.poller(ORDERS)
    due = send_due(connection, b"due")
    connection.send(ORDERS, [Message(b"now")])
    until_past(due)
    with closed(root / "orders/incoming/delayed"):
        assert len(poller.claim(1, range(5))) == 1
        assert poller.claim(2, range(5)) == []
    assert [record.getMessage() for record in caplog.records] == ["delayed messages stay delayed"]
    assert delayed(connection) == [b"due"]


@rows("folder", ["target", "delayed"])
def test_a_folder_that_was_removed_is_made_again(root: Path, folder: str) -> None:
    """A root of an earlier version has none for delayed messages."""
    connection = connect(root)
    poller = connection.poller(ORDERS)
    if folder == "target":
        until_past(send_due(connection, b"one", b"two"))
    (root / "orders/incoming" / folder).rmdir()
    if folder == "delayed":
        assert poller.take(1, 0) is None
        until_past(send_due(connection, b"one", b"two"))
    assert len(poller.claim(1, range(1, 4))) == 2
    connection.close()
