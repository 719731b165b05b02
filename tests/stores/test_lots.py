"""Lots through kills: none changes its messages, nothing is lost, and nothing is settled twice."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connector.core.takeover import take_over
from connector.errors import LotError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from tests.stores.conftest import Children

ORDERS = parse_destination("orders")
ARCHIVE = parse_destination("archive")
NAME = "to-lake"
NUMBER = 10

OWNER = """
import json, signal
from connector.core.takeover import take_over
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider

where, takes_over, killed_at = sys.argv[1:4]
if "://" in where:
    provider = SqlProvider(Settings(where, durable=False))
else:
    provider = DropboxProvider(where, create=True)
orders, archive = parse_destination("orders"), parse_destination("archive")
connection = provider.connect()
if takes_over == "first":
    take_over(connection, at_start=True)

def settle_all():
    while (lot := connection.claim_lot(orders, "to-lake", 4)) is not None:
        ids = [claim.message_id for claim in lot.claims]
        print(json.dumps([lot.sequence_id, lot.number, ids]), flush=True)
        assert [message.message_id for message in lot.read()] == ids
        if killed_at == "read":
            os.kill(os.getpid(), signal.SIGKILL)
        outcomes = [Settlement(claim, archive, {"connector_outcome": "published"}) for claim in lot.claims]
        if lot.claims[-1].delivery_count == 0:
            outcomes[-1] = Settlement(lot.claims[-1], give_back=True, delivery_count=1)
        lot.settle(outcomes)

settle_all()
if takes_over != "none":
    take_over(connection, at_start=True)
settle_all()
connection.close()
"""
OPEN = ("lot.number", "claim:1", "claim:3", "lot.claimed", "lot.list", "read", "settle.record")
"""Kills before the settlement of the first lot."""
OF_FILES = ("settle.committing", "settle.move:1", "settle.move:3", "settle.finished", "lot.settled")
"""Kills after the settlement of the first lot, in a root."""
OF_DATABASES = ("claim.uncommitted", "settle.committing", "settle.finished", "lot.settled")
"""Kills before the commit of the whole step."""
KILLS = [
    *(("dropbox", place) for place in (*OPEN, *OF_FILES)),
    *((kind, place) for kind in ("sqlite", "postgresql") for place in (*OPEN, *OF_DATABASES)),
]


@pytest.fixture
def where(kind: str, root: Path, request: pytest.FixtureRequest) -> str:
    """The root, or the URL of a database."""
    if kind == "dropbox":
        return str(root / "root")
    return f"sqlite:///{root}/messages.db" if kind == "sqlite" else str(request.getfixturevalue("database"))


def connect(where: str) -> Connection:
    if "://" in where:
        return SqlProvider(Settings(where, durable=False)).connect()
    return DropboxProvider(where, create=True).connect()


def ids(connection: Connection, queue: Any) -> list[str]:
    return [str(message.message_id) for message in connection.browse(queue)]


@pytest.mark.process
@pytest.mark.parametrize(("kind", "place"), KILLS)
def test_a_killed_owner_leaves_the_same_lot(where: str, children: Children, kind: str, place: str) -> None:
    """Whether the next owner takes over from the dead first, last or never."""
    sent: list[str] = []
    for takes_over in ("first", "last", "none"):
        connection = connect(where)
        sent += connection.send(ORDERS, [Message(b"body") for _ in range(NUMBER)])
        _kill_an_owner(
            connection, where, children, place, takes_over, settles=place in OF_FILES and kind == "dropbox"
        )
        connection = connect(where)
        assert Counter(ids(connection, ARCHIVE)) == dict.fromkeys(sent, 1)
        assert ids(connection, ORDERS) == []
        connection.close()


def _kill_an_owner(
    connection: Connection, where: str, children: Children, place: str, takes_over: str, *, settles: bool
) -> None:
    """Kills the owner of a lot at a place, and runs the next owner.

    Args:
        settles: whether the first lot of the killed owner is settled.
    """
    waiting = set(ids(connection, ORDERS))
    fault = "" if place == "read" else f"{place}=kill"
    status, out, errors = children.run(OWNER, where, takes_over, place, fault=fault)
    assert status == -signal.SIGKILL, errors
    seen = [json.loads(line) for line in out.splitlines()]
    for leftover in connection.leftovers(None, at_start=True) if takes_over == "first" else ():
        assert leftover.claims == []
        leftover.forget()
    if seen and not settles:
        poller = connection.poller(ORDERS)
        assert {claim.message_id for claim in poller.claim(1, range(NUMBER))} == waiting - set(seen[0][2])
        connection.close()  # leaves its claims
        connection = connect(where)
        take_over(connection, at_start=True)
    connection.close()
    status, out, errors = children.run(OWNER, where, takes_over, "")
    assert status == 0, errors
    again = [json.loads(line) for line in out.splitlines()]
    if seen:
        assert (again[0] == seen[0]) is not settles
    assert len({number for _, number, _ in again}) == len(again), "a number was used twice"
    assert len({sequence for sequence, _, _ in (*seen, *again)}) == 1


@pytest.mark.process
@pytest.mark.parametrize("kind", ["dropbox", "sqlite", "postgresql"])
def test_a_living_owner_is_named_and_a_killed_owner_is_not(where: str, children: Children, kind: str) -> None:
    connection = connect(where)
    connection.send(ORDERS, [Message(b"body")])
    hold = OWNER.partition("def settle_all")[0] + (
        "lot = connection.claim_lot(orders, 'to-lake', 4)\nprint(os.getpid(), flush=True)\nsys.stdin.read()\n"
    )
    child = children.start(hold, where, "", "")
    pid = child.stdout.readline().strip()
    with pytest.raises(LotError, match=f"in use by the client .*, process {pid} on "):
        connection.claim_lot(ORDERS, NAME, 4)
    child.kill()
    child.wait()
    lot = connection.claim_lot(ORDERS, NAME, 4)
    assert lot is not None
    assert len(lot.claims) == 1
    connection.close()


@pytest.fixture
def owner(root: Path) -> Connection:
    """The owner of a lot of two messages."""
    connection = DropboxProvider(root, create=True).connect()
    connection.send(ORDERS, [Message(b"a"), Message(b"b")])
    assert connection.claim_lot(ORDERS, NAME, 2) is not None
    return connection


def test_a_lot_that_lost_a_message_by_hand_is_an_error_and_can_be_given_back(
    root: Path, owner: Connection
) -> None:
    gone, kept = sorted((root / "orders/incoming/processing").iterdir())
    gone.unlink()
    with pytest.raises(LotError, match=r"has 1 of 2 messages: .*; connector lot NAME --give-back ends"):
        owner.claim_lot(ORDERS, NAME, 2)
    assert owner.give_back_lot(NAME).messages == 1
    assert not kept.exists()
    assert [message.body for message in owner.browse(ORDERS)] == [b"b"]
    owner.close()


def test_an_empty_queue_uses_no_number(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = DropboxProvider(root, create=True).connect()
    now = time.monotonic()
    for later in (0.0, 10.0):  # then the listing of the folder is old
        monkeypatch.setattr(time, "monotonic", lambda later=later: now + later)
        assert connection.claim_lot(ORDERS, NAME, 2) is None
    (record,) = (root / "dropboxmq/lots").glob("*/lot.json")
    assert json.loads(record.read_text())["number"] == 0
    connection.close()


def test_an_owner_that_is_declared_dead_settles_nothing(root: Path, owner: Connection) -> None:
    lot = owner.claim_lot(ORDERS, NAME, 2)
    assert lot is not None
    provider = DropboxProvider(root)
    provider.declare_dead(owner.client_id)
    heir = provider.connect()
    take_over(heir, at_start=True)
    again = heir.claim_lot(ORDERS, NAME, 2)
    assert again is not None
    assert again.number == lot.number
    outcomes = [Settlement(claim, ARCHIVE) for claim in lot.claims]
    with pytest.raises(LotError, match=f"in use by the client {heir.client_id}"):
        lot.settle(outcomes)
    heir.close()
    with pytest.raises(LotError, match="does not own the name"):
        lot.settle(outcomes)
    assert "archive" not in {path.name for path in root.iterdir()}
    owner.abandon()


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"name": "to-lake", "number": 1}'])
def test_messages_of_a_lot_whose_file_is_gone_come_again(
    root: Path, owner: Connection, content: str | None
) -> None:
    first = owner.claim_lot(ORDERS, NAME, 2)
    owner.close()
    (record,) = (root / "dropboxmq/lots").glob("*/lot.json")
    record.unlink()
    if content is not None:
        record.write_text(content)
    heir = DropboxProvider(root).connect()
    assert take_over(heir, at_start=True) == 2
    lot = heir.claim_lot(ORDERS, NAME, 2)
    assert first is not None
    assert lot is not None
    assert lot.sequence_id != first.sequence_id
    heir.close()


@pytest.mark.parametrize("kind", ["dropbox", "sqlite", "postgresql"])
def test_lots_are_no_batches_of_an_adapter(where: str) -> None:
    connection = connect(where)
    connection.send(ORDERS, [Message(b"a"), Message(b"b")])
    assert connection.claim_lot(ORDERS, NAME, 1) is not None
    assert connection.poller(ORDERS).take(7, 0) is not None
    batches: Callable[[Any], Any] = (
        SqlProvider(Settings(where)).batches if "://" in where else DropboxProvider(where).batches
    )
    assert [(one.client_id, one.number) for one in batches(None)] == [(connection.client_id, 7)]
    connection.abandon()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_others_are_told_of_messages_that_a_settlement_moves(where: str) -> None:
    """After the commit, which is that of the whole step."""
    connection, other = connect(where), connect(where)
    connection.send(ORDERS, [Message(b"a")])
    poller = other.poller(ARCHIVE)
    waiter = other.waiter()
    assert waiter is not None
    waiter.begin()
    assert poller.take(1, 0) is None
    lot = connection.claim_lot(ORDERS, NAME, 1)
    assert lot is not None
    lot.settle([Settlement(lot.claims[0], ARCHIVE)])
    assert waiter.wait(10)
    assert poller.take(1, 0) is not None
    connection.close()
    other.abandon()
