"""Virtual and temporary destinations, client ids, names for the way out, and what a name may not do."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connector.errors import ClientIdError, DestinationError, ProviderError, SettlementError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import DestinationInfo, TopicSubscription
from connector.stores.dropbox import files as dropbox_files
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.engine.connection import LocalConnection
from tests.stores.conftest import Mv
from tests.stores.dropbox.steps import (
    ARCHIVE,
    ORDERS,
    PRICES,
    closed,
    everything,
    give_back_all,
    layout_of,
    take,
)
from tests.tables import rows

EXPIRED = parse_destination("orders~EXPIRED")
RECOVER = parse_destination("orders~RECOVER-ERROR")
REJECT = parse_destination("orders~REJECT-ERROR")


def connect(root: Path, **options: Any) -> LocalConnection:
    limited = {"create": True, "durable": False, "redelivery_limit": 1}
    return DropboxProvider(root, **{**limited, **options}).connect()


@pytest.fixture
def connection(root: Path) -> Iterator[LocalConnection]:
    connection = connect(root)
    yield connection
    connection.abandon()


def fail(connection: LocalConnection, **headers: Any) -> None:
    """Puts a message into the error folder of orders: delivered too often."""
    connection.send(ORDERS, [Message(b"1", **headers)])
    poller = connection.poller(ORDERS)
    connection.settle([Settlement(take(poller), give_back=True, delivery_count=1)])
    assert poller.take(1, 1) is None


@rows("keep, headers", [(None, {}), (None, {"type": "t" * 400}), (0.0, {})])
def test_what_is_recovered_is_sent_anew(root: Path, keep: float | None, headers: dict[str, Any]) -> None:
    """Also where nothing is kept."""
    connection = connect(root, keep_processed=keep)
    fail(connection, **headers)
    assert everything(root) == {"orders/error": "1"}
    connection.settle([Settlement(take(connection, source=RECOVER))])
    assert everything(root) == {"orders/target": "1"}
    again = take(connection)
    assert again.delivery_count == 0
    assert connection.access().open().load(again.reference, 10).type == headers.get("type")
    connection.abandon()


@pytest.mark.parametrize(
    "headers", [{}, {"type": "t" * 205}, {"type": "t" * 400}], ids=["short", "fits", "long"]
)
def test_what_is_moved_back_from_error_is_delivered_anew_and_its_attempts_are_counted_on(
    root: Path, connection: LocalConnection, headers: dict[str, Any]
) -> None:
    fail(connection, **headers)
    for attempts in (1, 2):
        (path,) = (root / "orders/incoming/error").iterdir()
        assert "JMSXDeliveryCount" not in path.name
        (seen,) = connection.browse(RECOVER)
        assert (seen.delivery_count, seen.properties) == (1, {"connector_attempts": attempts})
        assert len(os.listdir(layout_of(connection).headers)) == ("hdr" in path.name)
        path.rename(root / "orders/incoming/target" / path.name)
        poller = connection.poller(ORDERS)
        claim = take(poller)
        assert claim.delivery_count == 0
        assert connection.access().open().load(claim.reference, 10).type == headers.get("type")
        connection.settle([Settlement(claim, give_back=True, delivery_count=1)])
        assert poller.take(1, 1) is None
    assert everything(root) == {"orders/error": "1"}


@rows("view, folder", [(EXPIRED, "expired"), (RECOVER, "error"), (REJECT, "error")])
def test_what_the_dead_took_from_a_view_goes_back_there(root: Path, view: Destination, folder: str) -> None:
    connection, dead = connect(root), connect(root)
    if folder == "error":
        fail(connection)
    else:
        connection.send(ORDERS, [Message(b"1", expiration=1)])
        assert connection.poller(ORDERS).take(1, 0) is None
    take(dead, source=view)
    dead.abandon()
    assert everything(root) == {"orders/processing": "1"}
    (leftover,) = connection.leftovers(None, at_start=False)
    assert [claim.destination for claim in leftover.claims] == [view]
    leftover.release()
    assert give_back_all(connection) == [1]
    assert everything(root) == {f"orders/{folder}": "1"}
    connection.abandon()


def test_a_copy_to_a_view_is_refused_and_nothing_happens(root: Path, connection: LocalConnection) -> None:
    connection.send(ORDERS, [Message(b"1")])
    claim = take(connection)
    with pytest.raises(SettlementError, match="a view of queue://orders: send to queue://orders"):
        connection.settle([Settlement(claim, copy_to=EXPIRED)])
    with pytest.raises(DestinationError, match="send to queue://orders"):
        connection.access().open().prepare(EXPIRED, Message(), "key")
    assert everything(root) == {"orders/processing": "1"}


# -- temporary ---------------------------------------------------------------------------------------


def test_a_message_was_sent_though_its_queue_ends_at_once(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requester = DropboxProvider(root, create=True).connect()
    sender = DropboxProvider(root).connect()
    queue = requester.temporary("queue")
    sync = dropbox_files.sync_directory

    def sync_late(path: str) -> None:
        requester.close()
        sync(path)

    monkeypatch.setattr(dropbox_files, "sync_directory", sync_late)
    assert sender.send(queue, [Message(b"reply")])
    sender.close()


def test_a_sync_passes_over_what_has_gone_with_its_temporary_queue(root: Path) -> None:
    provider = DropboxProvider(root, create=True, durable=True)
    own, other = provider.connect(), provider.connect()
    queue = own.temporary("queue")
    access = other.access().open()
    prepared = [access.prepare(to, Message(b"1"), str(to)) for to in (ORDERS, queue)]
    own.delete_temporary(queue)
    access.sync()
    other.settle([], sends=prepared)
    assert everything(root) == {"orders/target": "1"}
    own.close()
    other.close()


def test_a_queue_only_called_temporary_is_one_like_any_other(root: Path, connection: LocalConnection) -> None:
    queue = parse_destination("queue://temporary-files")
    connection.send(queue, [Message(b"1")])
    connection.settle([Settlement(take(connection, source=queue))])
    assert [str(info.destination) for info in connection.destinations()] == ["queue://temporary-files"]


def test_temporary_destinations_of_the_dead_leave_no_file(root: Path, connection: LocalConnection) -> None:
    dead = connect(root)
    queue, _ = dead.temporary("queue"), dead.temporary("topic")
    connection.send(queue, [Message(b"1", type="t" * 400)])
    dead.abandon()
    assert give_back_all(connection, at_start=False) == [0]
    assert [path.name for path in root.rglob("*temporary*")] == []
    assert os.listdir(root / "dropboxmq/headers") == []


@rows("client_id", ["billing", "a.b|c/ü ", "x" * 300])
def test_a_client_id_is_held_by_one_client_until_it_ends(root: Path, client_id: str) -> None:
    provider = DropboxProvider(root, create=True, durable=False)
    holder = provider.connect(client_id=client_id)
    with pytest.raises(ClientIdError, match=f"in use by process {os.getpid()} on "):
        provider.connect(client_id=client_id)
    assert len(os.listdir(root / "dropboxmq/clients")) == 1
    provider.connect(client_id=client_id + "2").close()
    holder.abandon()
    for _ in range(2):
        provider.connect(client_id=client_id).close()


# -- names -------------------------------------------------------------------------------------------


def test_ids_increase_though_the_clock_goes_back(
    connection: LocalConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns()
    ids: list[str] = []
    for step in (0, -3_600_000_000_000, -7_200_000_000_000, 1_000_000_000):
        monkeypatch.setattr(time, "time_ns", lambda step=step: now + step)
        ids += connection.send(ORDERS, [Message(str(len(ids)).encode()), Message(b"x")])
        prepared = connection.access().open().prepare(ORDERS, Message(b"x"), str(step))
        connection.settle([], discards=[prepared])
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_with_names_for_in_and_out_a_partner_has_it_the_other_way_round(root: Path) -> None:
    here = connect(root, incoming="in", outgoing="out")
    there = connect(root, incoming="out", outgoing="in")
    here.send(ORDERS, [Message(b"1")])
    there.send(ORDERS, [Message(b"2"), Message(b"3")])
    prepared = there.access().open().prepare(ORDERS, Message(b"4"), "key")
    there.settle([], sends=[prepared])
    got = {}
    for connection in (here, there):
        claims = connection.poller(ORDERS).claim(1, range(9))
        access = connection.access().open()
        got[connection.client_id] = [access.load(claim.reference, 10).body for claim in claims]
        connection.settle([Settlement(claim) for claim in claims])
    assert list(got.values()) == [[b"2", b"3", b"4"], [b"1"]]
    assert sorted(path.name for path in (root / "orders").iterdir()) == ["in", "out"]
    here.close()
    there.close()


@rows("incoming, outgoing", [("", "out"), ("in", "")])
def test_both_names_for_in_and_out_are_empty_or_neither(root: Path, incoming: str, outgoing: str) -> None:
    with pytest.raises(ValueError, match="expected both empty, or none"):
        DropboxProvider(root, create=True, incoming=incoming, outgoing=outgoing)
    DropboxProvider(root, create=True, incoming="", outgoing="").connect().send(ORDERS, [Message(b"1")])
    assert len(list((root / "orders/target").iterdir())) == 1


def test_only_what_is_a_message_is_counted(root: Path, connection: LocalConnection) -> None:
    bases = {ORDERS: root / "orders/incoming", PRICES: root / "topic-root/prices/.incoming"}
    for destination, base in bases.items():
        connection.send(destination, [Message()])  # makes it
        for folder in ("target", "processing", "processed", "expired", "error"):
            for path in (base / folder).iterdir():
                path.unlink()
            (base / folder / "4.1.T").write_text("a message")
            (base / folder / ".nfs0001").touch()
            (base / folder / "directory").mkdir()
            (base / folder / "link").symlink_to(base / folder / "4.1.T")
            os.mkfifo(base / folder / "pipe")
    infos = connection.destinations()
    assert infos == [DestinationInfo(destination, 1, 1, 1, 1, 1) for destination in bases]
    assert len(list(connection.browse(ORDERS))) == infos[0].waiting + infos[0].in_progress
    (root / "orders/incoming/error").rename(root / "aside")
    assert connection.destinations()[0].error == 0


# -- one message, one rename ---------------------------------------------------------------------------


@rows("keep", [None, 0.0])
def test_one_message_is_settled_without_a_commit_record(root: Path, keep: float | None) -> None:
    connection = DropboxProvider(root, create=True, keep_processed=keep).connect("suite")
    connection.send(ORDERS, [Message(str(number).encode()) for number in range(4)])
    (root / "dropboxmq/transaction/associated").rmdir()
    claims = connection.poller(ORDERS).claim(1, range(4))
    connection.settle([Settlement(claims[0])])
    connection.settle([Settlement(claims[1], copy_to=ARCHIVE, properties={"connector_outcome": "x"})])
    connection.settle([Settlement(claims[2], give_back=True, delivery_count=1)])
    assert [message.properties for message in connection.browse(ARCHIVE)] == [{"connector_outcome": "x"}]
    assert [m.delivery_count for m in connection.browse(ORDERS)] == [2, 1]
    with pytest.raises(SettlementError, match="cannot write the commit record"):
        connection.settle([Settlement(claims[3], published="key")])
    connection.abandon()


def test_a_message_settled_alone_replaces_no_file_and_makes_the_folder_that_somebody_removed(
    root: Path, connection: LocalConnection, mv: Mv
) -> None:
    for number in range(3):
        mv("orders", "report.csv")
        claim = take(connection)
        if not number:
            (root / "orders/incoming/processed").rmdir()
        connection.settle([Settlement(claim)])
    assert everything(root) == {"orders/processed": "body" * 3}


def test_what_cannot_be_settled_alone_stays_claimed(root: Path, connection: LocalConnection) -> None:
    connection.send(ORDERS, [Message(b"1")])
    claim = take(connection)
    said = "cannot move a message: Permission denied.*none is lost"
    with closed(claim.folders.processed), pytest.raises(SettlementError, match=said):
        connection.settle([Settlement(claim)])
    connection.settle([Settlement(claim)])
    assert everything(root) == {"orders/processed": "1"}


def test_what_a_connection_that_only_looks_cannot_do(root: Path, connection: LocalConnection) -> None:
    looking = DropboxProvider(root, create=True).existing()
    connection.send(ORDERS, [Message(b"1")])
    connection.poller(TopicSubscription(PRICES, "news", "c", durable=True))
    found = [(info.destination, info.waiting) for info in looking.destinations()]
    assert found == [(ORDERS, 1), (PRICES, 0)]
    assert [(info.subscription.name, info.consumers) for info in looking.subscriptions()] == [("news", 1)]
    with pytest.raises(ProviderError, match="only browses"):
        looking.temporary("queue")
    looking.close()
