"""Delayed messages when their client dies, and beside programs that know nothing of them.

``tests/crash_states`` lets an adapter die at each operation on the files of delayed messages.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.engine.connection import LocalConnection
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from tests.stores.dropbox.steps import closed
from tests.tables import rows
from tests.waiting import now_ms, until_past

ORDERS = parse_destination("orders")
BODIES = ["one", "two", "three"]
LATER = 3_600_000
"""Milliseconds until no test runs any more."""


def connect(root: Path, kind: str = "dropbox", instance: str = "one") -> LocalConnection:
    if kind == "dropbox":
        return DropboxProvider(root, create=True, durable=False).connect("suite", instance)
    return SqlProvider(Settings(f"sqlite:///{root}/messages.db", durable=False)).connect("suite", instance)


def found(connection: Connection) -> tuple[Counter[str], Counter[str]]:
    """Returns the bodies that wait, and those that are delayed."""
    return (
        Counter(one.body.decode() for one in connection.browse(ORDERS)),
        Counter(one.body.decode() for one in connection.browse(ORDERS, delayed=True)),
    )


def send_due(connection: Connection, *bodies: bytes) -> int:
    """Sends messages that are due in a moment. Returns that time in milliseconds since 1970."""
    due = now_ms() + 50
    connection.send(ORDERS, [Message(body, delivery_time=due) for body in bodies])
    return due


@rows("kind", ["dropbox", "sql"])
def test_an_adapter_moves_what_is_due_for_other_programs(root: Path, kind: str) -> None:
    connection = connect(root, kind)
    due = send_due(connection, b"due")
    connection.send(ORDERS, [Message(b"later", delivery_time=now_ms() + LATER)])
    until_past(due)
    connection.prune()
    assert found(connection) == (Counter(["due"]), Counter(["later"]))
    connection.close()


def test_a_foreign_file_among_the_delayed_stays(root: Path) -> None:
    connection = connect(root)
    poller = connection.poller(ORDERS)
    folder = root / "orders/incoming/delayed"
    for name in ("notes.txt", "12345", ".hidden"):
        (folder / name).write_bytes(b"not ours")
    until_past(send_due(connection, b"due"))
    assert poller.take(1, 0) is not None
    assert sorted(os.listdir(folder)) == [".hidden", "12345", "notes.txt"]
    connection.close()


def test_a_closed_folder_holds_up_no_other_message(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    connection = connect(root)
    poller = connection.poller(ORDERS)
    due = send_due(connection, b"due")
    connection.send(ORDERS, [Message(b"now")])
    until_past(due)
    with closed(root / "orders/incoming/delayed"):
        assert len(poller.claim(1, range(5))) == 1
        assert poller.claim(2, range(5)) == []
    assert [record.getMessage() for record in caplog.records] == ["delayed messages stay delayed"]
    assert found(connection)[1] == Counter(["due"])
    connection.close()


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
