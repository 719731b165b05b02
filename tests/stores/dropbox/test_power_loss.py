"""What a loss of power must not undo, and what it may leave.

``tests/crash_states`` recovers from what a loss of power leaves. Here is what the provider does meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from connector.errors import ClaimLost
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.state import file_systems
from connector.stores.dropbox import files
from connector.stores.dropbox.forgotten_state import remove_forgotten_state
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.engine.channel import Channel
from connector.stores.engine.connection import LocalConnection
from tests.stores.dropbox.steps import ARCHIVE, NOTES, ORDERS, connect, store_of, take
from tests.tables import rows


class Syncs:
    """The directories that were synced, in order, each with the files that the commits had then."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.seen: list[str] = []
        self.moved: dict[str, bool] = {}
        """Whether the archive had a message when a directory was synced for the first time."""

    def __call__(self, path: str) -> None:
        name = os.path.relpath(path, self.root)
        self.seen.append(name)
        archive = self.root / "archive/incoming/target"
        self.moved.setdefault(name, archive.is_dir() and bool(os.listdir(archive)))


@pytest.fixture
def syncs(root: Path, monkeypatch: pytest.MonkeyPatch) -> Syncs:
    found = Syncs(root)
    monkeypatch.setattr(files, "sync_directory", found)
    return found


@pytest.fixture
def durable(root: Path) -> Iterator[LocalConnection]:
    """A connection of an adapter whose commits are durable."""
    connection = DropboxProvider(root, create=True).connect("suite", "a")
    yield connection
    connection.abandon()


def lose_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the provider see a file system that keeps no order of names."""
    monkeypatch.setattr(file_systems, "keeps_order", lambda path: False)


def test_an_order_of_names_spares_all_syncs_but_those_of_the_moved_messages(
    durable: LocalConnection, syncs: Syncs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one, a record is durable before its moves."""
    store_of(durable).layout.ensure(ARCHIVE)
    durable.send(ORDERS, [Message(b"1"), Message(b"2"), Message(b"3"), Message(b"4")])
    claims = durable.poller(ORDERS).claim(1, range(2))
    syncs.seen.clear()
    durable.settle([Settlement(claim, copy_to=ARCHIVE) for claim in claims])
    assert syncs.seen == ["archive/incoming/target"]
    for path in (syncs.root / "archive/incoming/target").iterdir():
        path.unlink()
    lose_order(monkeypatch)
    other = DropboxProvider(syncs.root).connect("suite", "b")
    claims = other.poller(ORDERS).claim(1, range(2))
    syncs.moved.clear()
    other.settle([Settlement(claim, copy_to=ARCHIVE) for claim in claims])
    other.abandon()
    assert syncs.moved == {
        "orders/incoming/processing": False,
        "dropboxmq/transaction/committing": False,
        "archive/incoming/target": True,
    }


def test_without_an_order_of_names_new_folders_are_durable_from_the_root_down(
    durable: LocalConnection, syncs: Syncs, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_order(monkeypatch)
    store_of(durable).layout.ensure(ARCHIVE)
    assert syncs.seen == [".", "archive", "archive/incoming"]


def test_what_is_settled_is_synced_where_it_has_come_to(durable: LocalConnection, syncs: Syncs) -> None:
    """A message alone, and the message of a lot before it counts as settled."""
    durable.send(ORDERS, [Message(b"1"), Message(b"2")])
    claim = take(durable)
    syncs.seen.clear()
    durable.settle([Settlement(claim)])
    assert syncs.seen == ["orders/incoming/processed"]
    lot = durable.lots.claim(ORDERS, "lake", 10)
    assert lot is not None
    syncs.seen.clear()
    lot.settle([Settlement(claim) for claim in lot.claims])
    assert syncs.seen[0] == "orders/incoming/processed"


def test_a_message_that_is_removed_is_synced_where_it_was(root: Path, syncs: Syncs) -> None:
    connection = DropboxProvider(root, create=True, keep_processed=0).connect("suite", "a")
    for number in (1, 2):
        connection.send(ORDERS, [Message(b"1")] * number)
        claims = connection.poller(ORDERS).claim(number, range(number))
        syncs.seen.clear()
        connection.settle([Settlement(claim) for claim in claims])
        assert syncs.seen == ["orders/incoming/processing"]
    connection.close()


@rows("body, is_sent", [(b"whole", True), (b"", False), (b"\0\0\0\0\0", False), (None, False)])
def test_a_prepared_message_of_a_dead_client_is_sent_only_with_its_body(
    root: Path, body: bytes | None, is_sent: bool
) -> None:
    """A journal that says done may be on the disk, and the body may not."""
    dead, living = connect(root, durable=True), connect(root, "b", durable=True)
    prepared = dead.access().open().prepare(ORDERS, Message(b"whole"), "key")
    dead.abandon()
    path = root / str(prepared.handle[0])
    path.unlink() if body is None else path.write_bytes(body)
    living.store.create(Channel(ORDERS))
    living.send(NOTES, [Message(b"cause")])
    claim = take(living, source=NOTES)
    with nullcontext() if is_sent else pytest.raises(ClaimLost):
        living.settle([Settlement(claim, copy_to=ARCHIVE, sends=[prepared])])
    assert [message.body for message in living.browse(ORDERS)] == [b"whole"] * is_sent
    living.close()


def test_the_start_of_an_adapter_removes_what_nobody_owns(
    durable: LocalConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Journals, keys in flight and records of a client without a file, but not those of a living client."""
    layout = store_of(durable).layout
    state = Path(layout.adapters) / "suite"
    made = []
    for client in ("ghost", durable.client_id):
        folder = state / "a" / client
        folder.mkdir(parents=True)
        (folder / "1.0.0").write_text("P 1 host\n")
        (state / "in-flight").mkdir(exist_ok=True)
        (state / "in-flight" / client).write_text("key")
        made += [folder, state / "in-flight" / client]
    closed = state / "a" / "ghost.closed"
    closed.mkdir()
    record = Path(layout.associated) / "ghost-1"
    record.write_text("")

    def refuse(path: str, **folder: object) -> None:
        raise PermissionError(path)

    assert list(durable.leftovers(None, at_start=False)) == []
    assert closed.exists()
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        remove_forgotten_state(layout)
    assert (state / "in-flight" / "ghost").exists(), "what cannot be removed stays"
    assert list(durable.leftovers(None, at_start=True)) == []
    assert [path.exists() for path in (*made, closed, record)] == [False, False, True, True, False, False]
