"""Delayed messages through kills, for programs that know nothing of them, and in great numbers."""

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
from tests.stores.conftest import Children
from tests.stores.dropbox.steps import closed
from tests.waiting import now_ms, until_past

ORDERS = parse_destination("orders")
BODIES = ["one", "two", "three"]
LATER = 3_600_000
"""Milliseconds until no test runs any more."""

SEND = """
due = int(sys.argv[2])
connection = provider(sys.argv[1]).connect("suite", "dead")
messages = [Message(body, delivery_time=due) for body in (b"one", b"two", b"three")]
connection.send(parse_destination("orders"), messages)
"""
GIVE_BACK = """
due = int(sys.argv[2])
connection = provider(sys.argv[1]).connect("suite", "dead")
claims = connection.poller(parse_destination("orders")).claim(1, range(3))
connection.settle([Settlement(claim, give_back=True, due=due) for claim in claims])
"""
TAKE = """
connection = provider(sys.argv[1]).connect("suite", "dead")
poller = connection.poller(parse_destination("orders"))
while poller.take(1, 0) is None:
    connection.wait(1.0)
"""
MADE = {
    "dropbox": "def provider(where): return DropboxProvider(where, create=True, durable=False)\n",
    "sql": """
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
def provider(where): return SqlProvider(Settings(f"sqlite:///{where}/messages.db", durable=False))
""",
}


def provider_of(kind: str, root: Path) -> DropboxProvider | SqlProvider:
    if kind == "dropbox":
        return DropboxProvider(root, create=True, durable=False)
    root.mkdir(exist_ok=True)
    return SqlProvider(Settings(f"sqlite:///{root}/messages.db", durable=False))


def recovered(kind: str, root: Path) -> LocalConnection:
    connection = provider_of(kind, root).connect("suite", "heir")
    for leftover in connection.leftovers(None, at_start=True):
        leftover.forget()
    return connection


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


KINDS = pytest.mark.parametrize("kind", ["dropbox", "sql"])


@pytest.mark.process
@KINDS
@pytest.mark.parametrize("fault", ["settle.record", "settle.committing", "settle.move:2", "settle.finished"])
def test_delayed_messages_are_sent_all_or_none(root: Path, children: Children, kind: str, fault: str) -> None:
    connection = provider_of(kind, root).connect()
    connection.send(ORDERS, [Message(b"zero")])
    connection.close()
    children.run(MADE[kind] + SEND, root, now_ms() + LATER, fault=f"{fault}=kill")
    connection = recovered(kind, root)
    waiting, delayed = found(connection)
    assert waiting == Counter(["zero"])
    assert delayed in (Counter(), Counter(BODIES))
    connection.close()


@pytest.mark.process
@KINDS
@pytest.mark.parametrize("fault", ["settle.record", "settle.committing", "settle.move:2", "settle.finished"])
def test_messages_given_back_for_later_are_never_lost(
    root: Path, children: Children, kind: str, fault: str
) -> None:
    connection = provider_of(kind, root).connect()
    connection.send(ORDERS, [Message(body.encode()) for body in BODIES])
    connection.close()
    children.run(MADE[kind] + GIVE_BACK, root, now_ms() + LATER, fault=f"{fault}=kill")
    connection = recovered(kind, root)
    waiting, delayed = found(connection)
    assert waiting + delayed == Counter(BODIES)
    connection.close()


@pytest.mark.process
@pytest.mark.parametrize("number", [1, 2, 3])
def test_messages_that_are_due_are_moved_once(root: Path, children: Children, number: int) -> None:
    connection = provider_of("dropbox", root).connect()
    connection.send(ORDERS, [Message(body.encode(), delivery_time=now_ms() + 300) for body in BODIES])
    connection.close()
    status, _, err = children.run(MADE["dropbox"] + TAKE, root, fault=f"delayed.move:{number}=kill")
    assert status == -9, err
    connection = recovered("dropbox", root)
    waiting, delayed = found(connection)
    assert waiting + delayed == Counter(BODIES)
    assert sum(waiting.values()) == number
    poller = connection.poller(ORDERS)
    claims = poller.claim(1, range(5))
    assert [claim.message_id for claim in claims] == sorted(claim.message_id for claim in claims)
    assert len(claims) == 3
    connection.close()


@KINDS
def test_an_adapter_moves_what_is_due_for_other_programs(root: Path, kind: str) -> None:
    connection = provider_of(kind, root).connect("suite", "one")
    due = send_due(connection, b"due")
    connection.send(ORDERS, [Message(b"later", delivery_time=now_ms() + LATER)])
    until_past(due)
    connection.prune()
    assert found(connection) == (Counter(["due"]), Counter(["later"]))
    connection.close()


def test_a_foreign_file_among_the_delayed_stays(root: Path) -> None:
    connection = provider_of("dropbox", root).connect("suite", "one")
    poller = connection.poller(ORDERS)
    folder = root / "orders/incoming/delayed"
    for name in ("notes.txt", "12345", ".hidden"):
        (folder / name).write_bytes(b"not ours")
    until_past(send_due(connection, b"due"))
    assert poller.take(1, 0) is not None
    assert sorted(os.listdir(folder)) == [".hidden", "12345", "notes.txt"]
    connection.close()


def test_a_folder_that_may_not_be_changed_holds_up_no_other_message(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    connection = provider_of("dropbox", root).connect("suite", "one")
    poller = connection.poller(ORDERS)
    due = send_due(connection, b"due")
    connection.send(ORDERS, [Message(b"now")])
    until_past(due)
    folder = root / "orders/incoming/delayed"
    with closed(folder):
        assert len(poller.claim(1, range(5))) == 1
        assert poller.claim(2, range(5)) == []
    assert [record.getMessage() for record in caplog.records] == ["delayed messages stay delayed"]
    assert found(connection)[1] == Counter(["due"])
    connection.close()


def test_a_target_folder_that_was_removed_is_made_again(root: Path) -> None:
    connection = provider_of("dropbox", root).connect("suite", "one")
    poller = connection.poller(ORDERS)
    until_past(send_due(connection, b"due"))
    (root / "orders/incoming/target").rmdir()
    assert len(poller.claim(1, range(5))) == 1
    connection.close()


def test_a_root_without_the_folder_of_delayed_messages_is_used(root: Path) -> None:
    connection = provider_of("dropbox", root).connect("suite", "one")
    connection.send(ORDERS, [Message(b"old")])
    (root / "orders/incoming/delayed").rmdir()
    poller = connection.poller(ORDERS)
    assert poller.take(1, 0) is not None
    send_due(connection, b"one")
    until_past(send_due(connection, b"two", b"three"))
    assert len(poller.claim(1, range(1, 5))) == 3
    connection.close()
