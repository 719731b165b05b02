"""A settlement happens whole, whoever dies in the middle of it and whatever the disk says."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.errors import MalformedData, ProviderError, SettlementError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import GroupSettlement, Settlement
from connector.state.duplicates import DuplicateWindow
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.engine.connection import LocalConnection
from tests.privileges import without_privileges
from tests.stores.conftest import Children, Mv
from tests.stores.dropbox.steps import (
    ORDERS,
    bodies,
    closed,
    connect,
    everything,
    fault,
    files_limited_to,
    layout_of,
    recover,
    store_of,
    take,
)
from tests.tables import rows

NOTES = parse_destination("queue://notes")
ARCHIVE = parse_destination("queue://archive")

CLAIM = """
connection = DropboxProvider(sys.argv[1], create=True, durable=False).connect("suite", "dead")
print(connection.client_id, flush=True)
archive, notes = map(parse_destination, ("archive", "notes"))
claims = connection.poller(parse_destination("orders")).claim(1, range(4))
added = {"connector_outcome": "published"}
back = Settlement(claims[3], give_back=True, delivery_count=1)
"""
SINGLY = """
access = connection.access().open()
sent = access.prepare(notes, Message(b"sent"), "key-1")
dropped = access.prepare(notes, Message(b"dropped"), "key-2")
batch = [
    Settlement(claims[0], archive, added, sends=[sent], published=claims[0].duplicate_key),
    Settlement(claims[1], archive, {"connector_reason": "r" * 500}, discards=[dropped]),
    Settlement(claims[2]),
    back,
]
"""
AS_A_GROUP = """
keys = [claim.duplicate_key for claim in claims[:3]]
batch = [GroupSettlement(claims[:3], archive, added, published=keys), back]
"""
SETTLE = """
connection.settle(batch)
print("settled", flush=True)
"""
KINDS = {"singly": SINGLY, "as a group": AS_A_GROUP}
MOVES = {"singly": 7, "as a group": 4}
"""Sent, copy, discarded, copy, its old sidecar, processed, returned. Three copies, returned."""
SETTLED = {
    "singly": {"archive/target": "01", "notes/target": "sent", "orders/processed": "2", "orders/target": "3"},
    "as a group": {"archive/target": "012", "orders/target": "3"},
}
ADDED = {"connector_outcome": "published"}
COPIES = {
    "singly": [ADDED, {"long": "x" * 300, "connector_reason": "r" * 500}],
    "as a group": [ADDED, {"long": "x" * 300, **ADDED}, ADDED],
}


def waiting(root: Path) -> LocalConnection:
    """A client, and four messages in orders, the second with a sidecar."""
    connection = connect(root)
    messages = [Message(str(number).encode()) for number in range(4)]
    messages[1].set_property("long", "x" * 300)
    connection.send(ORDERS, messages)
    layout_of(connection).ensure(NOTES)
    layout_of(connection).ensure(ARCHIVE)
    return connection


def in_window(connection: LocalConnection) -> int:
    window = DropboxProvider(layout_of(connection).root).state("suite").window(connection.client_id, 100)
    assert isinstance(window, DuplicateWindow)
    return len(window)


def settle(root: Path, children: Children, kind: str, fault: str) -> tuple[int, str]:
    """Settles in a process that dies. Returns its exit status and its client id."""
    waiting(root).close()
    status, out, err = children.run(CLAIM + KINDS[kind] + SETTLE, root, fault=fault)
    assert status in (0, -9), err
    client_id, *rest = out.split()
    assert rest == ["settled"] * (status == 0)
    return status, client_id


@pytest.mark.process
@rows(
    "kind, place",
    [
        *((kind, f"settle.move:{n}") for kind in KINDS for n in range(1, MOVES[kind] + 2)),
        *((kind, place) for kind in KINDS for place in ("settle.committing", "settle.finished")),
    ],
)
def test_what_was_committed_is_finished_by_a_neighbour_whichever_rename_it_died_at(
    root: Path, children: Children, kind: str, place: str
) -> None:
    status, dead = settle(root, children, kind, f"{place}=kill")
    assert status == (0 if place == f"settle.move:{MOVES[kind] + 1}" else -9), "there are as many moves"
    neighbour = recover(root, dead if status else "")
    assert everything(root) == SETTLED[kind]
    assert in_window(neighbour) == {"singly": 1, "as a group": 3}[kind]
    (returned,) = neighbour.browse(ORDERS)
    assert returned.delivery_count == 2
    assert [message.properties for message in neighbour.browse(ARCHIVE)] == COPIES[kind]
    neighbour.close()


@pytest.mark.process
@rows("kind, place", [(kind, place) for kind in KINDS for place in ("claim:4", "settle.record")])
def test_what_was_not_committed_never_happened(root: Path, children: Children, kind: str, place: str) -> None:
    status, dead = settle(root, children, kind, f"{place}=kill")
    assert status == -9
    neighbour = recover(root, dead)
    assert everything(root) == {"orders/target": "0123"}
    assert [message.delivery_count for message in neighbour.browse(ORDERS)] == [2] * 4
    assert in_window(neighbour) == 0
    neighbour.close()


def batch(connection: LocalConnection, kind: str) -> list[Settlement | GroupSettlement]:
    """The settlements of the processes, made in this process."""
    claims = connection.poller(ORDERS).claim(1, range(4))
    back = Settlement(claims[3], give_back=True, delivery_count=1)
    if kind == "as a group":
        return [GroupSettlement(claims[:3], ARCHIVE, ADDED), back]
    access = connection.access().open()
    sent = access.prepare(NOTES, Message(b"sent"), "key-1")
    dropped = access.prepare(NOTES, Message(b"dropped"), "key-2")
    return [
        Settlement(claims[0], ARCHIVE, ADDED, sends=[sent]),
        Settlement(claims[1], ARCHIVE, {"connector_reason": "r" * 500}, discards=[dropped]),
        Settlement(claims[2]),
        back,
    ]


@rows("kind", KINDS)
def test_a_full_disk_settles_nothing_and_the_same_client_settles_later(root: Path, kind: str) -> None:
    connection = waiting(root)
    settlements = batch(connection, kind)
    with fault("settle.record=enospc"), pytest.raises(SettlementError) as refused:
        connection.settle(settlements)
    said = "cannot write the commit record of a poll: No space left on device: 'settle.record'; make room on"
    assert said in str(refused.value)
    assert "none is lost" in str(refused.value)
    with files_limited_to(100), pytest.raises(SettlementError) as refused:
        connection.settle(settlements)
    assert f"cannot write the commit record of a poll: File too large: '{root}/" in str(refused.value)
    assert "make room on the disk" in str(refused.value)
    layout = layout_of(connection)
    assert os.listdir(layout.associated) == os.listdir(layout.committing) == []
    connection.settle(settlements)
    assert everything(root) == SETTLED[kind]
    assert os.listdir(layout.associated) == os.listdir(layout.committing) == []
    connection.abandon()


def test_a_copy_of_a_group_whose_name_is_taken_gets_another(connection: LocalConnection, mv: Mv) -> None:
    for number in range(20):
        mv("archive", f"4.{number:02}.T.....connector_outcomeS=published", b"old")
        mv("orders", f"4.{number:02}.T", b"new")
    claims = connection.poller(ORDERS).claim(1, range(20))
    connection.settle([GroupSettlement(claims, ARCHIVE, {"connector_outcome": "published"})])
    copies = sorted((message.message_id or "", message.body) for message in connection.browse(ARCHIVE))
    assert copies == [(f"ID:{n:02}", body) for n in range(20) for body in (b"new", b"old")]
    assert bodies(connection, ORDERS) == []


def test_many_are_claimed_and_settled_after_their_folders_were_made_anew(
    root: Path, connection: LocalConnection, mv: Mv
) -> None:
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


def test_a_group_says_which_rename_has_failed_and_recovery_finishes_it(root: Path) -> None:
    connection = waiting(root)
    settlements = batch(connection, "as a group")
    with (
        fault("settle.move:2=eacces"),
        pytest.raises(ProviderError, match="cannot move a settled message: Permission denied"),
    ):
        connection.settle(settlements)
    connection.abandon()
    recover(root, connection.client_id).close()
    assert everything(root) == SETTLED["as a group"]


SEND_ALONE = """
connection = DropboxProvider(sys.argv[1], create=True).connect("suite", "dead")
print(connection.client_id, flush=True)
access = connection.access().open()
prepared = access.prepare(parse_destination("notes"), Message(b"sent"), "key")
access.sync()
connection.settle([], sends=[prepared])
print("settled", flush=True)
"""


@pytest.mark.process
@rows(
    "place, sent",
    [
        ("settle.move=kill", {}),
        ("settle.finished=kill", {"notes/target": "sent"}),
        *((f"{place}=kill", None) for place in ("settle.record", "settle.committing", "settle.move:2")),
    ],
)
def test_a_prepared_message_alone_is_sent_by_one_rename_or_not_at_all_and_needs_no_record(
    root: Path, children: Children, place: str, sent: dict[str, str] | None
) -> None:
    connect(root).close()
    status, out, err = children.run(SEND_ALONE, root, fault=place)
    assert (status, out.count("settled")) == ((0, 1) if sent is None else (-9, 0)), err
    if sent is not None:
        recover(root, out.strip()).close()
    assert everything(root) == ({"notes/target": "sent"} if sent is None else sent)


@pytest.mark.process
@rows("place", ["settle.move:3", "settle.finished"])
def test_a_recovery_that_dies_itself_is_finished_by_the_next(
    root: Path, children: Children, place: str
) -> None:
    status, first = settle(root, children, "singly", "settle.move:2=kill")
    assert status == -9
    code = """
connection = DropboxProvider(sys.argv[1], create=True, durable=False).connect("suite", "second")
print(connection.client_id, flush=True)
for leftover in connection.leftovers(None, at_start=True):
    leftover.forget()
"""
    status, second, err = children.run(code, root, fault=f"{place}=kill")
    assert status == -9, err
    third = connect(root, "third")
    leftovers = list(third.leftovers(None, at_start=True))
    assert {leftover.client_id for leftover in leftovers} == {first, second.strip()}
    assert all(leftover.claims == [] for leftover in leftovers)
    for leftover in leftovers:
        leftover.forget()
    assert everything(root) == SETTLED["singly"]
    assert in_window(third) == 1
    third.close()


def test_a_full_disk_sends_nothing(root: Path) -> None:
    connection = connect(root)
    for count in (1, 3):
        small, large = Message(b"x" * 900), Message(b"x" * 5000)
        with files_limited_to(1000), pytest.raises(ProviderError) as refused:
            connection.send(ORDERS, [*[small] * (count - 1), large])
        said = f"cannot send to queue://orders: File too large: '{root}/orders/incoming/working/"
        assert said in str(refused.value)
        assert "; make room on the disk; nothing was sent" in str(refused.value)
    assert everything(root) == {}
    connection.close()


def test_without_an_error_destination_that_can_be_written_nothing_is_settled(root: Path) -> None:
    connection = waiting(root)
    error = parse_destination("error")
    (root / "error").write_text("a file where the queue should be")
    claim = take(connection)
    with pytest.raises(
        SettlementError, match=r"queue://error cannot be written: .*remove what stands in the way"
    ):
        connection.settle([Settlement(claim, copy_to=error)])
    assert everything(root) == {"orders/processing": "0", "orders/target": "123"}
    (root / "error").unlink()
    connection.settle([Settlement(claim, copy_to=error)])
    assert everything(root) == {"error/target": "0", "orders/target": "123"}
    connection.close()


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
    for leftover in second.leftovers(None, at_start=True):
        assert leftover.claims == []
        leftover.forget()
    assert os.listdir(layout_of(second).committing) == []
    assert everything(root) == {"orders/processed": "12"}
    second.close()


@pytest.mark.process
def test_a_destination_that_this_user_may_not_write_is_named(root: Path, children: Children) -> None:
    root.chmod(0o777)
    code = """
connection = DropboxProvider(sys.argv[1], create=True, durable=False).connect()
orders, error = map(parse_destination, ("orders", "error"))
connection.send(orders, [Message(b"1")])
claim = connection.poller(orders).take(1, 0)
folders = connection.store.layout.ensure(error)
os.chmod(folders.target, 0o555)
try:
    connection.settle([Settlement(claim, copy_to=error)])
except SettlementError as error_:
    print(error_)
os.chmod(folders.target, 0o755)
connection.settle([Settlement(claim, copy_to=error)])
print([message.body for message in connection.browse(error)])
"""
    status, out, err = children.run(code, root, ordinary_user=True)
    assert status == 0, err
    assert "queue://error cannot be written" in out
    assert "permission denied; give this user the right to write there" in out
    assert out.endswith("[b'1']\n")


def test_a_destination_on_another_file_system_is_refused_before_anything_happens(
    root: Path, other_file_system: Path
) -> None:
    connection = waiting(root)
    (root / "far").symlink_to(other_file_system)
    claim = take(connection)
    with pytest.raises(SettlementError, match=r"queue://far cannot be written: .* on another file system"):
        connection.settle([Settlement(claim, copy_to=parse_destination("far"))])
    connection.settle([Settlement(claim, copy_to=ARCHIVE)])
    assert bodies(connection, ARCHIVE) == ["0"]


def test_folders_of_one_queue_on_two_file_systems_are_an_error_of_the_provider(
    root: Path, other_file_system: Path
) -> None:
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


@pytest.mark.process
def test_a_root_that_cannot_be_made_or_written_says_what_to_do(root: Path, children: Children) -> None:
    (root / "file").touch()
    with pytest.raises(ProviderError, match=r"cannot be used: Not a directory: .*; make the directory"):
        DropboxProvider(root / "file" / "root", create=True).connect()
    code = """
if os.stat(sys.argv[1]).st_uid == os.geteuid():
    os.chmod(sys.argv[1], 0o555)
there, missing = (DropboxProvider(sys.argv[1] + name, create=True) for name in ("", "/no"))
for attempt in (there.connect, missing.existing):
    try:
        attempt()
    except ProviderError as error:
        print(error)
"""
    (root / "readonly").mkdir(mode=0o755)
    status, out, err = children.run(code, root / "readonly", ordinary_user=True)
    assert status == 0, err
    assert "cannot be used: Permission denied" in out
    assert "give this user the right to write it" in out
    assert f"there is no root {root}/readonly/no yet; run or send makes it" in out


@pytest.mark.process
def test_a_root_that_became_read_only_is_noticed_at_connecting(root: Path, children: Children) -> None:
    DropboxProvider(root, create=True).connect().close()
    root.chmod(0o755)
    code = """
clients = sys.argv[1] + "/dropboxmq/clients"
if os.stat(clients).st_uid == os.geteuid():
    os.chmod(clients, 0o555)
try:
    DropboxProvider(sys.argv[1], create=True).connect()
except ProviderError as error:
    print(error)
"""
    status, out, err = children.run(code, root, ordinary_user=True)
    assert status == 0, err
    assert "cannot be written (read-only, or owned by another user); give this user the right to write" in out


def test_a_record_that_leaves_the_root_is_not_followed(root: Path) -> None:
    connection = waiting(root)
    (root.parent / f"{root.name}-outside").write_text("not ours")
    try:
        record = Path(layout_of(connection).committing) / "unknown-1"
        record.write_text(f"dropboxmq --type received --message-file ../{root.name}-outside\n")
        with pytest.raises(ProviderError, match="leaves the root"):
            list(connection.leftovers(None, at_start=True))
        assert (root.parent / f"{root.name}-outside").read_text() == "not ours"
        assert record.exists()
    finally:
        (root.parent / f"{root.name}-outside").unlink()


def test_files_in_working_that_are_not_ours_are_never_touched(root: Path) -> None:
    connection = waiting(root)
    old = root / "orders/incoming/working/upload.part"
    old.write_text("a foreign program still writes")
    os.utime(old, (0, 0))
    second = DropboxProvider(root, create=True, durable=False, keep_processed=0).connect("suite", "b")
    connection.abandon()
    for leftover in second.leftovers(None, at_start=True):
        leftover.forget()
    second.prune()
    assert old.read_text() == "a foreign program still writes"
    second.close()


def test_the_same_bare_name_again_is_another_message(root: Path, connection: LocalConnection, mv: Mv) -> None:
    keys = []
    for _ in range(2):
        mv("orders", "report.csv")
        claim = take(connection)
        assert claim.message_id == "report.csv"
        keys.append(claim.duplicate_key)
        connection.settle([Settlement(claim, copy_to=ARCHIVE, published=keys[-1])])
    assert len(set(keys)) == 2
    assert [message.message_id for message in connection.browse(ARCHIVE)] == ["report.csv"] * 2


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


def test_what_a_settlement_has_discarded_needs_no_sync_once_the_access_knows(root: Path) -> None:
    connection = DropboxProvider(root, create=True, durable=True).connect()
    access = connection.access().open()
    dropped = access.prepare(NOTES, Message(b"dropped"), "dropped")
    connection.settle([], discards=[dropped])
    access.discard(dropped)
    sent = access.prepare(NOTES, Message(b"sent"), "sent")
    access.sync()
    connection.settle([], sends=[sent])
    assert [seen.body for seen in connection.browse(NOTES)] == [b"sent"]
    connection.close()


def test_a_prepared_message_that_somebody_has_removed_is_an_error_of_the_sync(root: Path) -> None:
    connection = DropboxProvider(root, create=True, durable=True).connect()
    access = connection.access().open()
    access.prepare(NOTES, Message(b"removed"), "removed")
    (working,) = (root / "notes" / "incoming" / "working").iterdir()
    working.unlink()
    with pytest.raises(ProviderError, match="durable"):
        access.sync()
    connection.abandon()


REPLY = """
connection = DropboxProvider(sys.argv[1], create=True, durable=True).connect("suite", "serving")
claim = connection.poller(parse_destination("orders")).take(1, 0)
access = connection.access().open()
reply = access.prepare(parse_destination(sys.argv[2]), Message(b"reply"), "key-1")
access.sync()
archive = parse_destination("archive")
connection.settle([Settlement(claim, copy_to=archive, sends=[reply], published=claim.duplicate_key)])
print("settled", flush=True)
"""


@pytest.mark.process
def test_whoever_takes_a_reply_and_leaves_at_once_does_not_keep_its_commit_from_being_finished(
    root: Path, children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONNECTOR_FAULT_DIRECTORY", str(tmp_path))
    requester = DropboxProvider(root, create=True, durable=True).connect()
    requester.send(ORDERS, [Message(b"request")])
    replies = requester.temporary("queue")
    poller = requester.poller(replies)
    child = children.start(REPLY, root, replies, fault="settle.move:2=pause")
    while not (paused := list(tmp_path.glob("settle.move.*"))):
        assert child.poll() is None, child.communicate()
    claim = take(poller)
    requester.settle([Settlement(claim)])
    requester.close()
    paused[0].unlink()
    out, err = child.communicate(timeout=120)
    assert (out, child.returncode) == ("settled\n", 0), err
    assert os.listdir(root / "dropboxmq" / "transaction" / "committing") == []
    assert len(os.listdir(root / "dropboxmq" / "adapter" / "suite" / "published")) == 1
    assert len(os.listdir(root / "archive" / "incoming" / "target")) == 1
