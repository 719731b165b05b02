"""The living are told from the dead by a lock that the kernel keeps, and share the work."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from connector.errors import ProviderError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox.clients import (
    ClientDetails,
    dead_clients,
    new_client_id,
    remove_dead,
)
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.engine.connection import LocalConnection
from tests.stores.conftest import Children
from tests.stores.dropbox.steps import ORDERS, connect, files_limited_to, layout_of, recover
from tests.tables import rows

HOLD = """
import subprocess
connection = DropboxProvider(sys.argv[1], create=True, durable=False).connect("suite", "child")
poller = connection.poller(parse_destination("orders"))
claims = [poller.take(1, number) for number in range(2)]
sleeper = subprocess.Popen(["sleep", "30"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(connection.client_id, sleeper.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.process
def test_the_killed_are_found_dead_at_once(
    root: Path, connection: LocalConnection, children: Children
) -> None:
    """The program that it has started, and that nobody waits for, does not keep it alive."""
    connection.send(ORDERS, [Message(str(n).encode()) for n in range(3)])
    child = children.start(HOLD, root)
    client_id, sleeper = child.stdout.readline().split()
    try:
        assert list(connection.leftovers(None, at_start=True)) == []
        child.kill()
        child.wait()
        (leftover,) = connection.leftovers(None, at_start=False)
        found = (leftover.client_id, leftover.application, leftover.instance)
        assert found == (client_id, "suite", "child")
        assert [claim.sequence for claim in leftover.claims] == [0, 1]
        leftover.release()
    finally:
        os.kill(int(sleeper), signal.SIGKILL)


def test_claims_without_a_mark_are_found_at_start_only(root: Path, connection: LocalConnection) -> None:
    first = DropboxProvider(root, create=True, durable=False).connect("suite", "b")
    first.send(ORDERS, [Message(b"1")])
    assert first.poller(ORDERS).take(1, 0) is not None
    (root / "dropboxmq/clients" / first.client_id).unlink()
    assert list(connection.leftovers(None, at_start=False)) == []
    (leftover,) = connection.leftovers(None, at_start=True)
    assert (leftover.client_id, leftover.application) == (first.client_id, "")
    connection.settle([Settlement(claim, give_back=True, delivery_count=1) for claim in leftover.claims])
    assert [message.delivery_count for message in connection.browse(ORDERS)] == [2]
    first.abandon()


def test_client_ids_are_unique_sort_by_time_and_need_no_escape() -> None:
    ids = []
    for _ in range(50):
        ids.append(new_client_id())
        made = time.time_ns() // 1000
        while time.time_ns() // 1000 == made:
            pass
    assert len(set(ids)) == 50
    assert [identity[:-3] for identity in ids] == sorted(identity[:-3] for identity in ids)
    assert all(identity.isalnum() and identity.islower() for identity in ids)


LATER_VERSION = '{"application": "a", "instance": "i", "pid": 7, "colour": "red"}'


@rows("content", ["", "{", "[]", "null", '"x"', "{}", '{"application": ', "\x00\xff", LATER_VERSION])
def test_a_mark_that_cannot_be_read_is_of_a_client_that_was_no_adapter_yet(root: Path, content: str) -> None:
    """What else lies among the marks is left alone."""
    (root / "directory").mkdir()
    (root / ".hidden").touch()
    (root / "link").symlink_to("/etc/passwd")
    (root / "unknown").write_text(content)
    (client,) = dead_clients(str(root), "own")
    details = ClientDetails("a", "i", pid=7) if content == LATER_VERSION else ClientDetails()
    assert (Path(client.path).name, ClientDetails.parse(client.read())) == ("unknown", details)
    remove_dead(client)
    assert sorted(path.name for path in root.iterdir()) == [".hidden", "directory", "link"]


def test_a_full_disk_leaves_no_mark(root: Path) -> None:
    provider = DropboxProvider(root, create=True)
    provider.connect().close()
    said = "File too large; make room on the disk"
    with files_limited_to(0), pytest.raises(ProviderError, match=said):
        provider.connect("suite", "a")
    assert os.listdir(root / "dropboxmq/clients") == []


@rows("name", ["published", "in-flight", "window.lock", "a/b", "..", "host-a"])
def test_any_name_is_a_good_name_of_an_instance(root: Path, name: str) -> None:
    provider = DropboxProvider(root, create=True, durable=False)
    state = provider.state("suite")
    held = state.instance(name)
    assert held.name == name
    connection = provider.connect("suite", name)
    folder = Path(state.journals(connection.client_id, name).path).parent
    assert (folder / "lock").exists()
    assert folder.parent == root / "dropboxmq" / "adapter" / "suite"
    assert folder not in (folder.parent / "published", folder.parent / "in-flight")
    connection.close()
    held.close()


def test_a_root_that_went_away_is_not_made_anew(root: Path) -> None:
    provider = DropboxProvider(root / "data", create=True, durable=False)
    provider.state("suite").instance("a").close()
    connection = provider.connect("suite", "a")
    access = connection.access().open()
    connection.check()
    access.check()
    os.rename(root / "data", root / "elsewhere")
    for use, said in (
        (connection.check, "move it back"),
        (access.check, "does not see the root .* mount it there under the same path"),
    ):
        with pytest.raises(ProviderError, match=said):
            use()
    with pytest.raises(ProviderError, match=r"is missing .* move it back"):
        provider.connect("suite", "a")
    os.rename(root / "elsewhere", root / "data")
    connection.check()
    connection.close()


@rows("recorded", [False, True])
@rows("shared", [False, True])
def test_a_root_that_another_makes_during_the_look_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: bool, shared: bool
) -> None:
    def provider() -> DropboxProvider:
        record = tmp_path / "state" / "roots" if recorded else None
        return DropboxProvider(tmp_path / "root", create=True, record=record)

    first = provider()
    other = first if shared else provider()
    look, looks = os.scandir, []

    def look_and_be_overtaken(path: Any) -> Any:
        looks.append(path)
        try:
            return look(path)
        except FileNotFoundError:
            if len(looks) == 1:
                other.connect().close()
            raise

    monkeypatch.setattr(os, "scandir", look_and_be_overtaken)
    first.connect().close()
    assert len(looks) > 1


@rows("source", ["queue", "subscription"])
def test_two_threads_that_end_a_connection_close_each_descriptor_once(
    root: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second close of one descriptor would close somebody else's file."""
    connection = DropboxProvider(root, create=True, durable=False).connect()
    poller = connection.poller(
        connection.temporary("queue")
        if source == "queue"
        else TopicSubscription(Destination("topic", "prices"))
    )
    close = os.close
    is_closing = threading.Event()

    def close_slowly(descriptor: int) -> None:
        close(descriptor)
        is_closing.set()
        time.sleep(0.05)  # meanwhile the other thread comes here, or waits, which nothing shows

    monkeypatch.setattr(os, "close", close_slowly)
    thread = threading.Thread(target=connection.close)
    thread.start()
    is_closing.wait()
    connection.abandon()
    poller.close()
    thread.join()


def prepared_files(root: Path) -> list[str]:
    return [path.name for path in root.glob("*/incoming/working/*")]


def prepare(connection: LocalConnection, *keys: str) -> None:
    access = connection.access().open()
    for key in keys:
        access.prepare(parse_destination("queue://out"), Message(b"body"), key)
    access.sync()


def test_only_the_end_of_a_client_removes_what_it_has_prepared(root: Path) -> None:
    """What a dead client has prepared is left to its recovery."""
    first, second = connect(root), connect(root, "b")
    prepare(first, "1", "2")
    prepare(second, "3")
    first.close()
    second.abandon()
    assert len(prepared_files(root)) == 1
    recover(root).close()
    assert prepared_files(root) == []


@rows("keep", [None, 0.0, 3600.0])
@rows("way", ["start", "prune"])
def test_prepared_messages_of_an_unknown_client_are_removed(root: Path, way: str, keep: float | None) -> None:
    provider = DropboxProvider(root, create=True, durable=False, keep_processed=keep)
    gone, living = provider.connect("suite", "a"), provider.connect("suite", "b")
    prepare(gone, "1", "2")
    prepare(living, "3")
    (root / "out/incoming/working/upload").write_bytes(b"of another program")
    os.unlink(os.path.join(layout_of(gone).clients, gone.client_id))
    last = provider.connect("suite", "c")
    if way == "start":
        assert list(last.leftovers(None, at_start=True)) == []
    else:
        last.prune()
    (kept, other) = sorted(prepared_files(root))
    assert (living.client_id in kept, other) == (True, "upload")
    for connection in (living, last):
        connection.close()
    gone.abandon()
