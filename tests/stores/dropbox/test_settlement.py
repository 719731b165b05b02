"""A settlement happens whole, whoever dies in the middle of it and whatever the disk says."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector import own_files
from connector.errors import MalformedData, ProviderError, SettlementError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import GroupSettlement, Settlement
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.engine.connection import LocalConnection
from tests.privileges import without_privileges
from tests.stores.conftest import Children, Mv
from tests.stores.dropbox.steps import (
    ARCHIVE,
    NOTES,
    ORDERS,
    Died,
    at,
    bodies,
    closed,
    connect,
    die,
    everything,
    fault,
    files_limited_to,
    give_back_all,
    layout_of,
    recover,
    store_of,
    take,
)
from tests.tables import rows


def waiting(root: Path) -> LocalConnection:
    """A client, and four messages in orders, the second with a sidecar."""
    connection = connect(root)
    messages = [Message(str(number).encode()) for number in range(4)]
    messages[1].set_property("long", "x" * 300)
    connection.send(ORDERS, messages)
    layout_of(connection).ensure(NOTES)
    layout_of(connection).ensure(ARCHIVE)
    return connection


@rows("is_group", [False, True])
def test_a_full_disk_settles_nothing_and_the_same_client_settles_later(root: Path, is_group: bool) -> None:
    connection = waiting(root)
    claims = connection.poller(ORDERS).claim(1, range(4))
    access = connection.access().open()
    sent, dropped = (access.prepare(NOTES, Message(key.encode()), key) for key in ("sent", "dropped"))
    settlements: list[Settlement | GroupSettlement] = [
        Settlement(claims[0], ARCHIVE, {"connector_outcome": "published"}, sends=[sent]),
        Settlement(claims[1], ARCHIVE, {"connector_reason": "r" * 500}, discards=[dropped]),
        Settlement(claims[2]),
        Settlement(claims[3], give_back=True, delivery_count=1),
    ]
    settled = {"archive/target": "01", "notes/target": "sent", "orders/processed": "2", "orders/target": "3"}
    if is_group:
        access.discard(sent)
        access.discard(dropped)
        settlements[:3] = [GroupSettlement(claims[:3], ARCHIVE, {"connector_outcome": "published"})]
        settled = {"archive/target": "012", "orders/target": "3"}
    said = "cannot write the commit record of a poll: No space left on device: 'settle.record'; make room on"
    with fault("settle.record=enospc"), pytest.raises(SettlementError, match=f"{said}.*none is lost"):
        connection.settle(settlements)
    said = rf"cannot write the commit record of a poll: File too large: '{root}/.*make room on the disk"
    with files_limited_to(100), pytest.raises(SettlementError, match=said):
        connection.settle(settlements)
    layout = layout_of(connection)
    assert os.listdir(layout.associated) == os.listdir(layout.committing) == []
    connection.settle(settlements)
    assert everything(root) == settled
    assert os.listdir(layout.associated) == os.listdir(layout.committing) == []
    connection.abandon()


def test_a_prepared_message_alone_is_sent_by_one_rename_and_needs_no_record(root: Path) -> None:
    connection = connect(root, durable=True)
    access = connection.access().open()
    prepared = access.prepare(NOTES, Message(b"sent"), "key")
    access.sync()
    with fault("settle.record=eacces,settle.committing=eacces,settle.move:2=eacces"):
        connection.settle([], sends=[prepared])
    assert everything(root) == {"notes/target": "sent"}
    connection.close()


def test_a_copy_of_a_group_whose_name_is_taken_gets_another(connection: LocalConnection, mv: Mv) -> None:
    for number in range(20):
        mv("archive", f"4.{number:02}.T.....connector_outcomeS=published", b"old")
        mv("orders", f"4.{number:02}.T", b"new")
    claims = connection.poller(ORDERS).claim(1, range(20))
    connection.settle([GroupSettlement(claims, ARCHIVE, {"connector_outcome": "published"})])
    copies = sorted((message.message_id or "", message.body) for message in connection.browse(ARCHIVE))
    assert copies == [(f"ID:{n:02}", body) for n in range(20) for body in (b"new", b"old")]
    assert bodies(connection, ORDERS) == []


def test_many_are_settled_in_folders_made_anew(root: Path, connection: LocalConnection, mv: Mv) -> None:
    poller = connection.poller(ORDERS)
    for number in range(3):
        for place in range(20):
            mv("orders", f"4.{number}-{place:02}.T", b"")
        store_of(connection).refresh()
        claims = poller.claim(number, range(20))
        assert [claim.message_id for claim in claims] == [f"ID:{number}-{n:02}" for n in range(20)]
        connection.settle([GroupSettlement(claims, ARCHIVE)])
        assert len(bodies(connection, ARCHIVE)) == 20
        for folder in ("orders/incoming/target", "orders/incoming/processing", "archive"):
            shutil.rmtree(root / folder)
        assert poller.take(number, 20) is None


def test_a_full_disk_sends_nothing(root: Path) -> None:
    connection = connect(root)
    for count in (1, 3):
        small, large = Message(b"x" * 900), Message(b"x" * 5000)
        said = f"cannot send to {ORDERS}: File too large: '{root}/.*; make room on the disk; nothing was sent"
        with files_limited_to(1000), pytest.raises(ProviderError, match=said):
            connection.send(ORDERS, [*[small] * (count - 1), large])
    assert everything(root) == {}
    connection.close()


@rows("name, said", [("error", "remove what stands in the way"), ("far", "on another file system")])
def test_a_copy_to_nowhere_settles_nothing(root: Path, other_file_system: Path, name: str, said: str) -> None:
    connection = waiting(root)
    (root / "error").write_text("a file where the queue should be")
    (root / "far").symlink_to(other_file_system)
    claim = take(connection)
    with pytest.raises(SettlementError, match=rf"queue://{name} cannot be written: .*{said}"):
        connection.settle([Settlement(claim, copy_to=parse_destination(name))])
    assert everything(root) == {"orders/processing": "0", "orders/target": "123"}
    connection.settle([Settlement(claim, copy_to=ARCHIVE)])
    assert everything(root) == {"archive/target": "0", "orders/target": "123"}
    connection.abandon()


def test_a_move_that_fails_after_the_commit_point_is_finished_by_recovery(root: Path) -> None:
    connection, second = connect(root), connect(root, "b")
    connection.send(ORDERS, [Message(b"1"), Message(b"2")])
    claims = connection.poller(ORDERS).claim(1, range(2))
    processed = layout_of(connection).queue(ORDERS).processed
    said = "cannot move a settled message: Permission denied"
    with closed(processed):
        with pytest.raises(ProviderError, match=said) as failed:
            connection.settle([Settlement(claim) for claim in claims])
        assert not isinstance(failed.value, SettlementError), "it is after the commit point"
        connection.abandon()
        with pytest.raises(ProviderError, match=said):
            list(second.leftovers(None, at_start=True))
    assert give_back_all(second) == [0]
    assert os.listdir(layout_of(second).committing) == []
    assert everything(root) == {"orders/processed": "12"}
    second.close()


def test_a_queue_whose_client_died_while_making_it_is_a_queue(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise nobody finds what the next client leaves in its folders."""
    connection, made = connect(root), own_files.make_directories

    def make_one(path: str) -> None:
        made(path)
        if "incoming/" in path:
            die()

    with monkeypatch.context() as patch:
        patch.setattr(own_files, "make_directories", make_one)
        with pytest.raises(Died):
            connection.send(NOTES, [Message(b"1")])
    connection.abandon()
    living = recover(root)
    assert NOTES in layout_of(living).queues()
    living.close()


@pytest.mark.process
def test_an_ordinary_user_is_told_what_it_may_not_write(root: Path, children: Children) -> None:
    """The provider asks the kernel what the user of the process may do, and root may do all."""
    root.chmod(0o777)
    code = """
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
provider = DropboxProvider(sys.argv[1], create=True, durable=False)
connection = provider.connect()
orders, error = map(parse_destination, ("orders", "error"))
connection.send(orders, [Message(b"1")])
settlement = Settlement(connection.poller(orders).take(1, 0), copy_to=error)
layout = connection.store.layout
for folder, attempt in (
    (layout.ensure(error).target, lambda: connection.settle([settlement])),
    (layout.clients, DropboxProvider(sys.argv[1], create=True).connect),
):
    os.chmod(folder, 0o555)
    try:
        attempt()
    except ProviderError as refused:
        print(refused)
    os.chmod(folder, 0o755)
connection.settle([settlement])
print([message.body for message in connection.browse(error)])
"""
    status, out, err = children.run(code, root)
    assert status == 0, err
    target, clients, end = out.splitlines()
    assert "queue://error cannot be written" in target
    assert "permission denied; give this user the right to write there" in target
    assert "(read-only, or owned by another user); give this user the right to write" in clients
    assert end == "[b'1']"


def test_a_queue_on_two_file_systems_is_an_error(root: Path, other_file_system: Path) -> None:
    connection = waiting(root)
    processing = Path(layout_of(connection).queue(ORDERS).processing)
    processing.rmdir()
    processing.symlink_to(other_file_system)
    with pytest.raises(ProviderError, match="lie on different file systems"):
        connection.poller(ORDERS).take(1, 0)
    assert bodies(connection, ORDERS) == ["0", "1", "2", "3"]


@pytest.fixture
def other_file_system(root: Path) -> Iterator[Path]:
    """A directory that a file cannot be renamed into."""
    for base in (tempfile.gettempdir(), "/dev/shm", "/var/tmp", os.path.expanduser("~"), "/run"):
        if os.access(base, os.W_OK | os.X_OK) and os.stat(base).st_dev != os.stat(root).st_dev:
            with tempfile.TemporaryDirectory(prefix="connector-test-", dir=base) as directory:
                yield Path(directory)
                return
    pytest.fail("this test needs two file systems that it may write: a temporary directory and /dev/shm")


def test_a_root_that_cannot_be_made_or_written_says_what_to_do(root: Path) -> None:
    (root / "file").touch()
    (root / "readonly").mkdir()
    for place, said in (
        ("file/root", "cannot be used: Not a directory: .*; make the directory"),
        ("readonly", "cannot be used: Permission denied.*give this user the right to write it"),
    ):
        with closed(root / "readonly"), pytest.raises(ProviderError, match=said):
            DropboxProvider(root / place, create=True).connect()
    with pytest.raises(ProviderError, match=f"there is no root {root}/readonly/no yet; run or send makes it"):
        DropboxProvider(root / "readonly/no", create=True).existing()


def test_the_same_bare_name_again_is_another_message(root: Path, connection: LocalConnection, mv: Mv) -> None:
    keys = []
    for _ in range(2):
        mv("orders", "report.csv")
        claim = take(connection)
        assert claim.file_name == "report.csv"
        keys.append(claim.duplicate_key)
        connection.settle([Settlement(claim, copy_to=ARCHIVE, published=keys[-1])])
    assert len(set(keys)) == 2
    copies = list(connection.browse(ARCHIVE))
    assert keys == [f"queue://orders|{message.message_id}" for message in copies]
    assert [message.properties["connector_file_name"] for message in copies] == ["report.csv"] * 2


def test_a_message_that_may_not_be_read_is_its_senders_mistake(connection: LocalConnection, mv: Mv) -> None:
    """Malformed, so that it fails alone; as an error of the provider it would stop all behind it."""
    mv("orders", "4.1.T").chmod(0)
    error = parse_destination("error")
    with without_privileges():
        claim = take(connection)
        said = "permission denied; its sender has to let this user read it"
        with pytest.raises(MalformedData, match=said):
            connection.access().open().load(claim.reference, 1000)
        connection.settle([Settlement(claim, copy_to=error)])
    assert len(os.listdir(layout_of(connection).queue(error).target)) == 1


def test_a_sync_passes_over_what_was_discarded_and_fails_where_somebody_has_removed_a_message(
    root: Path,
) -> None:
    connection = connect(root, durable=True)
    access = connection.access().open()
    dropped = access.prepare(NOTES, Message(b"dropped"), "dropped")
    connection.settle([], discards=[dropped])
    access.discard(dropped)
    sent = access.prepare(NOTES, Message(b"sent"), "sent")
    access.sync()
    connection.settle([], sends=[sent])
    assert bodies(connection, NOTES) == ["sent"]
    access.prepare(NOTES, Message(b"removed"), "removed")
    (working,) = (root / "notes" / "incoming" / "working").iterdir()
    working.unlink()
    with pytest.raises(ProviderError, match="durable"):
        access.sync()
    connection.abandon()


def test_a_commit_is_finished_though_the_taker_of_its_reply_leaves_at_once(root: Path) -> None:
    provider = DropboxProvider(root, create=True, durable=True)
    requester, serving = provider.connect(), provider.connect("suite", "serving")
    requester.send(ORDERS, [Message(b"request")])
    replies = requester.temporary("queue")
    poller = requester.poller(replies)
    claim = take(serving)
    access = serving.access().open()
    reply = access.prepare(replies, Message(b"reply"), "key-1")
    access.sync()

    def leave() -> None:
        requester.settle([Settlement(take(poller))])
        requester.close()

    with at("settle.move:2", leave):
        serving.settle([Settlement(claim, ARCHIVE, sends=[reply], published=claim.duplicate_key)])
    for folder, number in (("transaction/committing", 0), ("adapter/suite/published", 1)):
        assert len(os.listdir(root / "dropboxmq" / folder)) == number
    assert everything(root) == {"archive/target": "request"}
    serving.close()
