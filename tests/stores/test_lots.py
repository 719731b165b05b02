"""Lots whose owner dies: none changes its messages, nothing is lost, and nothing is settled twice.

``tests/crash_states`` lets an owner die at each operation on the files of a root.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest

from connector import faults
from connector.core.takeover import take_over
from connector.errors import LotError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection, Provider
from connector.messaging.settlement import Settlement
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from tests.stores.dropbox.steps import Died, at, die
from tests.tables import Table, rows

ORDERS = parse_destination("orders")
ARCHIVE = parse_destination("archive")
NAME = "to-lake"
NUMBER = 10
OPEN = ("lot.number", "claim:1", "claim:3", "lot.claimed", "lot.list", "lot.row", "settle.record")
"""Places in a root before the settlement of the first lot."""
SETTLED = ("settle.committing", "settle.move:1", "settle.move:3", "settle.finished", "lot.settled")
"""Places in a root after the settlement of the first lot."""
OF_DATABASES = ("lot.number", "claim.uncommitted", "lot.list", "lot.row", "settle.record", "lot.settled")
"""Places in the two transactions of a database, and the one between."""

Told = list[tuple[str, int, list[str]]]
"""The lots that a client has claimed: the sequence, the number, the ids."""


@pytest.fixture
def provider(kind: str, root: Path, request: pytest.FixtureRequest) -> DropboxProvider | SqlProvider:
    if kind == "dropbox":
        return DropboxProvider(root, create=True, durable=False)
    url = f"sqlite:///{root}/m.db" if kind == "sqlite" else str(request.getfixturevalue("database"))
    return SqlProvider(Settings(url, durable=False))


def ids(connection: Connection, queue: Destination) -> list[str]:
    return [str(message.message_id) for message in connection.browse(queue)]


@pytest.mark.parametrize("kind", ["dropbox", "sqlite", "postgresql"])
def test_an_owner_that_dies_leaves_the_same_lot(provider: Provider, kind: str) -> None:
    """Whether the next owner takes over from the dead first, last or never."""
    is_root = kind == "dropbox"
    with Table() as table:
        for place in (*OPEN, *SETTLED) if is_root else OF_DATABASES:
            for takes_over in ("first", "last", "never"):
                with table.row(place, takes_over):
                    is_settled = is_root and place in SETTLED
                    check_next_owner(provider, place, takes_over, is_settled=is_settled)


def check_next_owner(provider: Provider, place: str, takes_over: str, *, is_settled: bool) -> None:
    """Lets the owner of lots die at a place, and another one go on with them.

    Args:
        is_settled: whether the first lot of the dead owner is settled.
    """
    row = f"{place.replace(':', '.')}-{takes_over}"
    queue, archive = parse_destination(f"orders-{row}"), parse_destination(f"archive-{row}")
    dead = provider.connect()
    sent = dead.send(queue, [Message(b"body") for _ in range(NUMBER)])
    seen, again = Told(), Told()
    with pytest.raises(Died), at(place, die):
        settle_lots(dead, queue, archive, takes_over, seen)
    dead.abandon()
    other = provider.connect()
    if seen and not is_settled:
        rest = [claim.message_id for claim in other.poller(queue).claim(1, range(NUMBER))]
        assert sorted(rest) == sorted(set(sent) - set(seen[0][2]))
    other.abandon()  # leaves its claims, as the dead may have left some
    heir = provider.connect()
    settle_lots(heir, queue, archive, takes_over, again)
    if takes_over == "never":
        take_over(heir, at_start=True)
        settle_lots(heir, queue, archive, takes_over, again)
    assert Counter(ids(heir, archive)) == dict.fromkeys(sent, 1)
    assert ids(heir, queue) == []
    if seen:
        assert (again[0] == seen[0]) is not is_settled
    assert len({number for _, number, _ in again}) == len(again), "a number was used twice"
    assert len({sequence for sequence, _, _ in (*seen, *again)}) == 1
    heir.close()


def settle_lots(
    connection: Connection, queue: Destination, archive: Destination, takes_over: str, told: Told
) -> None:
    """Settles lots until no message waits. The last message of each is given back once."""
    if takes_over == "first":
        take_over(connection, at_start=True)
    for _ in range(2):
        while (lot := connection.lots.claim(queue, f"{NAME} {queue}", 4)) is not None:
            told.append((lot.sequence_id, lot.number, [str(claim.message_id) for claim in lot.claims]))
            assert [message.message_id for message in lot.read()] == told[-1][2]
            faults.point("lot.row")
            outcomes = [Settlement(one, archive, {"connector_outcome": "published"}) for one in lot.claims]
            if lot.claims[-1].delivery_count == 0:
                outcomes[-1] = Settlement(lot.claims[-1], give_back=True, delivery_count=1)
            lot.settle(outcomes)
        if takes_over != "never":
            take_over(connection, at_start=True)


def owner_of_two(root: Path) -> Connection:
    """Returns the owner of a lot of two messages."""
    connection = DropboxProvider(root, create=True).connect()
    connection.send(ORDERS, [Message(b"a"), Message(b"b")])
    assert connection.lots.claim(ORDERS, NAME, 2) is not None
    return connection


def test_a_lot_that_lost_a_message_by_hand_is_an_error_and_can_be_given_back(root: Path) -> None:
    owner = owner_of_two(root)
    gone, kept = sorted((root / "orders/incoming/processing").iterdir())
    gone.unlink()
    with pytest.raises(LotError, match=r"has 1 of 2 messages: .*; connector lot NAME --give-back ends"):
        owner.lots.claim(ORDERS, NAME, 2)
    assert owner.lots.give_back(NAME).messages == 1
    assert not kept.exists()
    assert [message.body for message in owner.browse(ORDERS)] == [b"b"]
    owner.close()


def test_an_empty_queue_uses_no_number(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = DropboxProvider(root, create=True).connect()
    now = time.monotonic()
    for later in (0.0, 10.0):  # then the listing of the folder is old
        monkeypatch.setattr(time, "monotonic", lambda later=later: now + later)
        assert connection.lots.claim(ORDERS, NAME, 2) is None
    (record,) = (root / "dropboxmq/lots").glob("*/lot.json")
    assert json.loads(record.read_text())["number"] == 0
    connection.close()


def test_an_owner_that_is_declared_dead_settles_nothing(root: Path) -> None:
    owner = owner_of_two(root)
    lot = owner.lots.claim(ORDERS, NAME, 2)
    assert lot is not None
    provider = DropboxProvider(root)
    provider.declare_dead(owner.client_id)
    heir = provider.connect()
    take_over(heir, at_start=True)
    again = heir.lots.claim(ORDERS, NAME, 2)
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


@rows("content", [None, "", "[]", "{}", '{"name": "to-lake", "number": 1}'])
def test_messages_of_a_lot_whose_file_is_gone_come_again(root: Path, content: str | None) -> None:
    owner = owner_of_two(root)
    first = owner.lots.claim(ORDERS, NAME, 2)
    owner.close()
    (record,) = (root / "dropboxmq/lots").glob("*/lot.json")
    record.unlink()
    if content is not None:
        record.write_text(content)
    heir = DropboxProvider(root).connect()
    assert take_over(heir, at_start=True) == 2
    lot = heir.lots.claim(ORDERS, NAME, 2)
    assert first is not None
    assert lot is not None
    assert lot.sequence_id != first.sequence_id
    heir.close()


@pytest.mark.parametrize("kind", ["dropbox", "sqlite", "postgresql"])
def test_lots_are_no_batches_of_an_adapter(provider: DropboxProvider | SqlProvider) -> None:
    connection = provider.connect()
    connection.send(ORDERS, [Message(b"a"), Message(b"b")])
    assert connection.lots.claim(ORDERS, NAME, 1) is not None
    assert connection.poller(ORDERS).take(7, 0) is not None
    assert [(one.client_id, one.number) for one in provider.batches(None)] == [(connection.client_id, 7)]
    connection.abandon()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_others_are_told_of_messages_that_a_settlement_moves(provider: Provider) -> None:
    """After the commit, which is that of the whole step."""
    connection, other = provider.connect(), provider.connect()
    connection.send(ORDERS, [Message(b"a")])
    poller = other.poller(ARCHIVE)
    waiter = other.waiter()
    assert waiter is not None
    waiter.begin()
    assert poller.take(1, 0) is None
    lot = connection.lots.claim(ORDERS, NAME, 1)
    assert lot is not None
    lot.settle([Settlement(lot.claims[0], ARCHIVE)])
    assert waiter.wait(10)
    assert poller.take(1, 0) is not None
    connection.close()
    other.abandon()
