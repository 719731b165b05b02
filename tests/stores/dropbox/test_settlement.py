"""A settlement happens whole, whoever dies in the middle of it and whatever the disk says."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connector.errors import ProviderError, SettlementError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import GroupSettlement, Settlement
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.engine.connection import LocalConnection

ORDERS = parse_destination("queue://orders")
NOTES = parse_destination("queue://notes")
ARCHIVE = parse_destination("queue://archive")

SETTLE = """
connection = DropboxProvider(sys.argv[1], create=True, durable=False).connect("suite", "dead")
print(connection.client_id, flush=True)
orders, archive, notes = map(parse_destination, ("orders", "archive", "notes"))
poller = connection.poller(orders)
claims = [poller.take(1, number) for number in range(4)]
access = connection.access().open()
sent = access.prepare(notes, Message(b"sent"), "key-1")
dropped = access.prepare(notes, Message(b"dropped"), "key-2")
connection.settle([
    Settlement(claims[0], copy_to=archive, properties={"connector_outcome": "published"}, sends=[sent],
               published=claims[0].duplicate_key),
    Settlement(claims[1], copy_to=archive, properties={"connector_reason": "r" * 500}, discards=[dropped]),
    Settlement(claims[2]),
    Settlement(claims[3], give_back=True, delivery_count=1),
])
print("settled", flush=True)
"""
MOVES = 7  # sent; copy; discarded; copy; its old sidecar; processed; returned


def waiting(connection: LocalConnection) -> None:
    """Four messages in orders, the second with a sidecar."""
    messages = [Message(str(number).encode()) for number in range(4)]
    messages[1].set_property("long", "x" * 300)
    connection.send(ORDERS, messages)
    connection.store.layout.ensure(NOTES)
    connection.store.layout.ensure(ARCHIVE)


def bodies(connection: LocalConnection, queue: str) -> list[str]:
    return [message.body.decode() for message in connection.browse(parse_destination(queue))]


def everything(root: Path) -> dict[str, str]:
    """Every message under the root by where it is."""
    found = {}
    for folder in ("working", "target", "processing", "processed", "error", "expired"):
        for path in sorted(root.glob(f"*/incoming/{folder}/*")):
            found.setdefault(f"{path.parts[-4]}/{folder}", "")
            found[f"{path.parts[-4]}/{folder}"] += path.read_text()
    return found


SETTLED = {"archive/target": "01", "notes/target": "sent", "orders/processed": "2", "orders/target": "3"}


def recover(root: Path, dead: str) -> LocalConnection:
    """What a living neighbour makes of it: claims that are left go back with one delivery more."""
    connection = DropboxProvider(root, create=True, durable=False).connect("suite", "living")
    (leftover,) = connection.leftovers(None, at_start=False)
    assert leftover.client_id == dead
    connection.settle([Settlement(c, give_back=True, delivery_count=1) for c in leftover.claims])
    leftover.forget()
    assert list(connection.leftovers(None, at_start=True)) == []
    for folder in (connection.store.layout.associated, connection.store.layout.committing):
        assert os.listdir(folder) == []
    return connection


def in_window(connection: LocalConnection) -> int:
    state = DropboxProvider(connection.store.layout.root).state("suite")
    return len(state.window(connection.client_id, 100))


@pytest.mark.parametrize(
    "fault",
    [
        *(f"settle.move:{n}=kill" for n in range(1, MOVES + 1)),
        "settle.committing=kill",
        "settle.finished=kill",
    ],
)
def test_what_was_committed_is_finished_by_a_neighbour_whichever_rename_it_died_at(
    root: Path, connection: LocalConnection, children: Any, fault: str
) -> None:
    waiting(connection)
    status, out, err = children.run(SETTLE, root, fault=fault)
    assert (status, out.count("settled")) == (-9, 0), err
    neighbour = recover(root, out.strip())
    assert everything(root) == SETTLED
    assert in_window(neighbour) == 1
    (returned,) = neighbour.browse(ORDERS)
    assert returned.delivery_count == 2
    properties = [message.properties for message in neighbour.browse(ARCHIVE)]
    assert properties == [
        {"connector_outcome": "published"},
        {"long": "x" * 300, "connector_reason": "r" * 500},
    ]
    neighbour.close()


def test_there_are_as_many_moves_as_the_tests_die_at(
    root: Path, connection: LocalConnection, children: Any
) -> None:
    waiting(connection)
    status, out, err = children.run(SETTLE, root, fault=f"settle.move:{MOVES + 1}=kill")
    assert (status, out.count("settled")) == (0, 1), err
    assert everything(root) == SETTLED


@pytest.mark.parametrize("fault", ["claim:4=kill", "settle.record=kill"])
def test_what_was_not_committed_never_happened(
    root: Path, connection: LocalConnection, children: Any, fault: str
) -> None:
    waiting(connection)
    status, out, err = children.run(SETTLE, root, fault=fault)
    assert status == -9, err
    neighbour = recover(root, out.strip())
    assert everything(root) == {"orders/target": "0123"}
    assert [message.delivery_count for message in neighbour.browse(ORDERS)] == [2] * 4
    assert in_window(neighbour) == 0
    neighbour.close()


SETTLE_GROUP = """
connection = DropboxProvider(sys.argv[1], create=True, durable=False).connect("suite", "dead")
print(connection.client_id, flush=True)
claims = connection.poller(parse_destination("orders")).claim(1, range(4))
connection.settle([
    GroupSettlement(claims[:3], parse_destination("archive"), {"connector_outcome": "published"},
                    published=[claim.duplicate_key for claim in claims[:3]]),
    Settlement(claims[3], give_back=True, delivery_count=1),
])
print("settled", flush=True)
"""
GROUP_MOVES = 4  # three copies, of which one keeps its sidecar; returned


@pytest.mark.parametrize(
    ("fault", "end"),
    [
        *((f"settle.move:{n}=kill", -9) for n in range(1, GROUP_MOVES + 1)),
        (f"settle.move:{GROUP_MOVES + 1}=kill", 0),
        ("settle.committing=kill", -9),
        ("settle.finished=kill", -9),
    ],
)
def test_a_group_that_was_committed_is_finished_by_a_neighbour(
    root: Path, connection: LocalConnection, children: Any, fault: str, end: int
) -> None:
    waiting(connection)
    status, out, err = children.run(SETTLE_GROUP, root, fault=fault)
    assert status == end, err
    neighbour = recover(root, out.split()[0])
    assert everything(root) == {"archive/target": "012", "orders/target": "3"}
    assert in_window(neighbour) == 3
    properties = [message.properties for message in neighbour.browse(ARCHIVE)]
    added = {"connector_outcome": "published"}
    assert properties == [added, {"long": "x" * 300, **added}, added]
    neighbour.close()


@pytest.mark.parametrize("fault", ["claim:3=kill", "settle.record=kill"])
def test_a_group_that_was_not_committed_never_happened(
    root: Path, connection: LocalConnection, children: Any, fault: str
) -> None:
    waiting(connection)
    status, out, err = children.run(SETTLE_GROUP, root, fault=fault)
    assert status == -9, err
    neighbour = recover(root, out.strip())
    assert everything(root) == {"orders/target": "0123"}
    assert in_window(neighbour) == 0
    neighbour.close()


def test_a_group_on_a_full_disk_settles_nothing_and_the_same_client_settles_later(
    root: Path, connection: LocalConnection, children: Any
) -> None:
    waiting(connection)
    again = """
try:
    settle()
except SettlementError as error:
    print(error, flush=True)
    settle()
"""
    head, call = SETTLE_GROUP.split("connection.settle(")
    code = f"{head}def settle():\n    connection.settle({call.partition('print(')[0]}{again}"
    status, out, err = children.run(code, root, fault="settle.record=enospc")
    assert (status, out.count("make room on the disk")) == (0, 1), err
    assert everything(root) == {"archive/target": "012", "orders/target": "3"}


def test_a_copy_of_a_group_whose_name_is_taken_gets_another(
    root: Path, connection: LocalConnection, mv: Any
) -> None:
    for number in range(20):
        mv("archive", f"4.{number:02}.T.....connector_outcomeS=published", b"old")
        mv("orders", f"4.{number:02}.T", b"new")
    claims = connection.poller(ORDERS).claim(1, range(20))
    connection.settle([GroupSettlement(claims, ARCHIVE, {"connector_outcome": "published"})])
    copies = sorted((message.message_id or "", message.body) for message in connection.browse(ARCHIVE))
    assert copies == [(f"ID:{n:02}", body) for n in range(20) for body in (b"new", b"old")]
    assert bodies(connection, "orders") == []


def test_many_are_claimed_and_settled_after_their_folders_were_made_anew(
    root: Path, connection: LocalConnection, mv: Any
) -> None:
    poller = connection.poller(ORDERS)
    for number in range(3):
        for place in range(20):
            mv("orders", f"4.{number}-{place:02}.T", b"")
        connection.store.refresh()
        claims = poller.claim(number, range(20))
        assert [claim.message_id for claim in claims] == [f"ID:{number}-{n:02}" for n in range(20)]
        connection.settle([GroupSettlement(claims, ARCHIVE)])
        assert len(bodies(connection, "archive")) == 20
        for folder in ("orders/incoming/target", "orders/incoming/processing", "archive"):
            shutil.rmtree(root / folder)


def test_a_group_makes_the_folder_of_its_copies_again(root: Path, connection: LocalConnection) -> None:
    for number in range(2):
        waiting(connection)
        claims = connection.poller(ORDERS).claim(number, range(4))
        shutil.rmtree(root / "archive")
        connection.settle([GroupSettlement(claims, ARCHIVE, {"connector_outcome": "published"})])
        assert bodies(connection, "archive") == ["0", "1", "2", "3"]


def test_a_group_says_which_rename_has_failed_and_recovery_finishes_it(
    root: Path, connection: LocalConnection, children: Any
) -> None:
    waiting(connection)
    status, out, err = children.run(SETTLE_GROUP, root, fault="settle.move:2=eacces")
    assert status == 1
    assert "ProviderError: cannot move a settled message: Permission denied" in err
    recover(root, out.split()[0]).close()
    assert everything(root) == {"archive/target": "012", "orders/target": "3"}


SEND_ALONE = """
connection = DropboxProvider(sys.argv[1], create=True).connect("suite", "dead")
print(connection.client_id, flush=True)
access = connection.access().open()
prepared = access.prepare(parse_destination("notes"), Message(b"sent"), "key")
access.sync()
connection.settle([], sends=[prepared])
print("settled", flush=True)
"""


@pytest.mark.parametrize(
    ("fault", "found"), [("settle.move=kill", {}), ("settle.finished=kill", {"notes/target": "sent"})]
)
def test_a_prepared_message_alone_is_sent_by_one_rename_or_not_at_all(
    root: Path, connection: LocalConnection, children: Any, fault: str, found: dict[str, str]
) -> None:
    connection.store.layout.ensure(NOTES)
    status, out, err = children.run(SEND_ALONE, root, fault=fault)
    assert (status, out.count("settled")) == (-9, 0), err
    recover(root, out.strip())
    assert everything(root) == found


@pytest.mark.parametrize("fault", ["settle.record=kill", "settle.committing=kill", "settle.move:2=kill"])
def test_a_prepared_message_alone_needs_no_record(root: Path, children: Any, fault: str) -> None:
    status, out, err = children.run(SEND_ALONE, root, fault=fault)
    assert (status, out.count("settled")) == (0, 1), err
    assert everything(root) == {"notes/target": "sent"}


@pytest.mark.parametrize("fault", ["settle.move:3=kill", "settle.finished=kill"])
def test_a_recovery_that_dies_itself_is_finished_by_the_next(
    root: Path, connection: LocalConnection, children: Any, fault: str
) -> None:
    waiting(connection)
    status, out, _ = children.run(SETTLE, root, fault="settle.move:2=kill")
    assert status == -9
    code = """
connection = DropboxProvider(sys.argv[1], create=True, durable=False).connect("suite", "second")
print(connection.client_id, flush=True)
for leftover in connection.leftovers(None, at_start=True):
    leftover.forget()
"""
    status, second, err = children.run(code, root, fault=fault)
    assert status == -9, err
    third = DropboxProvider(root, create=True, durable=False).connect("suite", "third")
    leftovers = list(third.leftovers(None, at_start=True))
    assert {leftover.client_id for leftover in leftovers} == {out.strip(), second.strip()}
    assert [leftover.claims for leftover in leftovers] == [[], []]
    for leftover in leftovers:
        leftover.forget()
    assert everything(root) == SETTLED
    assert in_window(third) == 1
    third.close()


def test_a_full_disk_settles_nothing_and_the_same_client_settles_later(
    root: Path, connection: LocalConnection, children: Any
) -> None:
    waiting(connection)
    code = SETTLE.replace("connection.settle([", "batch = ([").replace(
        'print("settled", flush=True)',
        """
try:
    connection.settle(batch)
except SettlementError as error:
    print(error)
connection.settle(batch)
""",
    )
    status, out, err = children.run(code, root, fault="settle.record=enospc")
    assert status == 0, err
    assert "cannot write the commit record of a poll: No space left on device: 'settle.record'; make" in out
    assert "none is lost" in out
    assert everything(root) == SETTLED
    assert (
        os.listdir(connection.store.layout.associated) == os.listdir(connection.store.layout.committing) == []
    )


def test_a_limit_on_the_size_of_files_leaves_nothing_half_written(
    root: Path, connection: LocalConnection, children: Any
) -> None:
    waiting(connection)
    code = SETTLE.replace(
        "connection.settle([",
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\nconnection.settle([",
    )
    status, out, err = children.run(code, root)
    assert status == 1
    assert f"cannot write the commit record of a poll: File too large: '{root}/" in err
    assert "make room on the disk" in err
    assert os.listdir(connection.store.layout.associated) == []
    recover(root, out.strip()).close()
    assert everything(root) == {"orders/target": "0123"}


def test_a_full_disk_sends_nothing(root: Path, children: Any) -> None:
    code = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
connection = DropboxProvider(sys.argv[1], create=True, durable=False).connect()
for count in (1, 3):
    try:
        small, large = Message(b"x" * 900), Message(b"x" * 5000)
        connection.send(parse_destination("orders"), [*[small] * (count - 1), large])
    except ProviderError as error:
        print(error)
"""
    status, out, err = children.run(code, root)
    assert status == 0, err
    assert out.count(f"cannot send to queue://orders: File too large: '{root}/orders/incoming/working/") == 2
    assert out.count("; make room on the disk; nothing was sent") == 2
    assert everything(root) == {}


def test_without_an_error_destination_that_can_be_written_nothing_is_settled(
    root: Path, connection: LocalConnection
) -> None:
    waiting(connection)
    (root / "error").write_text("a file where the queue should be")
    claim = connection.poller(ORDERS).take(1, 0)
    assert claim is not None
    with pytest.raises(
        SettlementError, match=r"queue://error cannot be written: .*remove what stands in the way"
    ):
        connection.settle([Settlement(claim, copy_to=parse_destination("error"))])
    assert everything(root) == {"orders/processing": "0", "orders/target": "123"}
    (root / "error").unlink()
    connection.settle([Settlement(claim, copy_to=parse_destination("error"))])
    assert everything(root) == {"error/target": "0", "orders/target": "123"}


def test_a_destination_that_this_user_may_not_write_is_named(root: Path, children: Any) -> None:
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


def test_a_move_that_fails_after_the_commit_point_is_finished_by_recovery(root: Path, children: Any) -> None:
    root.chmod(0o777)
    code = """
connection = DropboxProvider(sys.argv[1], create=True, durable=False).connect("suite", "a")
orders = parse_destination("orders")
connection.send(orders, [Message(b"1"), Message(b"2")])
poller = connection.poller(orders)
claims = [poller.take(1, number) for number in range(2)]
processed = connection.store.layout.queue(orders).processed
os.chmod(processed, 0o555)
try:
    connection.settle([Settlement(claim) for claim in claims])
except SettlementError:
    print("before the commit point")
except ProviderError as error:
    print(error)
connection.abandon()
second = DropboxProvider(sys.argv[1], create=True, durable=False).connect("suite", "b")
try:
    list(second.leftovers(None, at_start=True))
except ProviderError as error:
    print(error)
os.chmod(processed, 0o755)
for leftover in second.leftovers(None, at_start=True):
    print(leftover.claims)
    leftover.forget()
print(sorted(os.listdir(connection.store.layout.committing)), len(os.listdir(processed)))
"""
    status, out, err = children.run(code, root, ordinary_user=True)
    assert status == 0, err
    lines = out.splitlines()
    assert len(lines) == 4
    assert all("cannot move a settled message: Permission denied" in line for line in lines[:2])
    assert lines[2:] == ["[]", "[] 2"]


def test_a_destination_on_another_file_system_is_refused_before_anything_happens(
    root: Path, connection: LocalConnection, other_file_system: Path
) -> None:
    waiting(connection)
    (root / "far").symlink_to(other_file_system)
    claim = connection.poller(ORDERS).take(1, 0)
    assert claim is not None
    with pytest.raises(SettlementError, match=r"queue://far cannot be written: .* on another file system"):
        connection.settle([Settlement(claim, copy_to=parse_destination("far"))])
    connection.settle([Settlement(claim, copy_to=ARCHIVE)])
    assert bodies(connection, "archive") == ["0"]


def test_folders_of_one_queue_on_two_file_systems_are_an_error_of_the_provider(
    connection: LocalConnection, other_file_system: Path
) -> None:
    waiting(connection)
    processing = Path(connection.store.layout.queue(ORDERS).processing)
    processing.rmdir()
    processing.symlink_to(other_file_system)
    with pytest.raises(ProviderError, match="lie on different file systems"):
        connection.poller(ORDERS).take(1, 0)
    assert bodies(connection, "orders") == ["0", "1", "2", "3"]


@pytest.fixture
def other_file_system(root: Path) -> Iterator[Path]:
    """A directory that a file cannot be renamed into."""
    for base in (tempfile.gettempdir(), "/dev/shm", "/var/tmp", os.path.expanduser("~"), "/run"):
        if os.access(base, os.W_OK | os.X_OK) and os.stat(base).st_dev != os.stat(root).st_dev:
            with tempfile.TemporaryDirectory(prefix="connector-test-", dir=base) as directory:
                yield Path(directory)
                return
    pytest.fail("this test needs two file systems that it may write: a temporary directory and /dev/shm")


def test_a_root_that_cannot_be_made_or_written_says_what_to_do(root: Path, children: Any) -> None:
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


def test_a_root_that_became_read_only_is_noticed_at_connecting(root: Path, children: Any) -> None:
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


def test_a_record_that_leaves_the_root_is_not_followed(root: Path, connection: LocalConnection) -> None:
    waiting(connection)
    (root.parent / f"{root.name}-outside").write_text("not ours")
    try:
        record = Path(connection.store.layout.committing) / "unknown-1"
        record.write_text(f"dropboxmq --type received --message-file ../{root.name}-outside\n")
        with pytest.raises(ProviderError, match="leaves the root"):
            list(connection.leftovers(None, at_start=True))
        assert (root.parent / f"{root.name}-outside").read_text() == "not ours"
        assert record.exists()
    finally:
        (root.parent / f"{root.name}-outside").unlink()


def test_a_message_delivered_too_often_goes_to_the_error_folder_of_its_queue(root: Path) -> None:
    connection = DropboxProvider(root, create=True, durable=False, redelivery_limit=2).connect()
    connection.send(ORDERS, [Message(b"1")])
    for count in (1, 2):
        claim = connection.poller(ORDERS).take(1, 0)
        assert claim is not None
        connection.settle([Settlement(claim, give_back=True, delivery_count=count)])
    assert connection.poller(ORDERS).take(1, 0) is None
    assert everything(root) == {"orders/error": "1"}
    connection.close()


def test_expired_messages_are_kept_apart_or_removed(root: Path) -> None:
    for keep, expected in ((None, {"orders/expired": "1"}), (0.0, {})):
        connection = DropboxProvider(root, create=True, durable=False, keep_processed=keep).connect()
        connection.send(ORDERS, [Message(b"1", expiration=1)])
        poller = connection.poller(ORDERS)
        assert (poller.take(1, 0), poller.expired) == (None, 1)
        assert everything(root) == expected
        for path in root.glob("orders/incoming/expired/*"):
            path.unlink()
        connection.close()


def test_files_in_working_that_are_not_ours_are_never_touched(
    root: Path, connection: LocalConnection
) -> None:
    waiting(connection)
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


def test_the_same_bare_name_again_is_another_message(
    root: Path, connection: LocalConnection, mv: Any
) -> None:
    keys = []
    for _ in range(2):
        mv("orders", "report.csv")
        claim = connection.poller(ORDERS).take(1, 0)
        assert claim is not None
        assert claim.message_id == "report.csv"
        keys.append(claim.duplicate_key)
        connection.settle([Settlement(claim, copy_to=ARCHIVE, published=keys[-1])])
    assert len(set(keys)) == 2
    assert [message.message_id for message in connection.browse(ARCHIVE)] == ["report.csv"] * 2


def test_a_message_that_may_not_be_read_is_its_senders_mistake(root: Path, children: Any) -> None:
    """Malformed, so that it fails alone; as an error of the provider it would stop all behind it."""
    root.chmod(0o777)
    (root / "orders" / "incoming" / "target").mkdir(parents=True)
    message = root / "orders" / "incoming" / "target" / "4.1.T"
    message.write_bytes(b"secret")
    message.chmod(0)
    for folder in [root / "orders", *root.glob("orders/*"), *root.glob("orders/*/*")]:
        if folder.is_dir():
            folder.chmod(0o777)
    code = """
connection = DropboxProvider(sys.argv[1], create=True, durable=False).connect()
orders, error = parse_destination("orders"), parse_destination("error")
claim = connection.poller(orders).take(1, 0)
try:
    connection.access().open().load(claim.reference, 1000)
except MalformedData as error_:
    print(error_)
connection.settle([Settlement(claim, copy_to=error)])
"""
    status, out, err = children.run(code, root, ordinary_user=True)
    assert status == 0, err
    assert "permission denied; its sender has to let this user read it" in out
    assert len(os.listdir(root / "error" / "incoming" / "target")) == 1


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


def test_whoever_takes_a_reply_and_leaves_at_once_does_not_keep_its_commit_from_being_finished(
    root: Path, children: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONNECTOR_FAULT_DIRECTORY", str(tmp_path))
    requester = DropboxProvider(root, create=True, durable=True).connect()
    requester.send(ORDERS, [Message(b"request")])
    replies = requester.temporary("queue")
    poller = requester.poller(replies)
    child = children.start(REPLY, root, replies, fault="settle.move:2=pause")
    while not (paused := list(tmp_path.glob("settle.move.*"))):
        assert child.poll() is None, child.communicate()
    claim = poller.take(1, 0)
    assert claim is not None
    requester.settle([Settlement(claim)])
    requester.close()
    paused[0].unlink()
    out, err = child.communicate(timeout=120)
    assert (out, child.returncode) == ("settled\n", 0), err
    assert os.listdir(root / "dropboxmq" / "transaction" / "committing") == []
    assert len(os.listdir(root / "dropboxmq" / "adapter" / "suite" / "published")) == 1
    assert len(os.listdir(root / "archive" / "incoming" / "target")) == 1
