"""Durability: what is on the disk before a message is visible, and what a rejected message costs."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.state import file_systems
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.engine.connection import LocalConnection

ORDERS = parse_destination("queue://orders")
PRICES = parse_destination("topic://prices")


@dataclass
class Sync:
    """One call: the inode, whether it is a directory, and how many messages were visible then."""

    inode: int
    is_directory: bool
    visible: int


@dataclass
class Watch:
    """The syncs of this process, each as it was made; they are made all the same."""

    root: Path
    syncs: list[Sync] = field(default_factory=list)

    def visible(self) -> list[Path]:
        """The messages that a consumer could take now."""
        return [path for path in self.root.glob("**/target/*") if not path.name.startswith(".")]

    def add(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        self.syncs.append(Sync(status.st_ino, stat.S_ISDIR(status.st_mode), len(self.visible())))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def watch(root: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch(root)

    def sync(call: Callable[[int], None], descriptor: int) -> None:
        watch.add(descriptor)
        call(descriptor)

    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, partial(sync, getattr(os, name)))
    return watch


@contextmanager
def connected(root: Path, *, durable: bool) -> Iterator[LocalConnection]:
    """Connects to a root where queue and subscriptions are there."""
    provider = DropboxProvider(root, create=True, durable=durable)
    with closing(provider.connect()) as connection:
        provider.layout.ensure(ORDERS)
        for name in ("audit", "books"):
            connection.poller(TopicSubscription(PRICES, name, durable=True, shared=True)).close()
        yield connection


def messages(count: int) -> list[Message]:
    """Of which the first has headers that are too long for a file name."""
    made = [Message(str(number).encode()) for number in range(count)]
    made[0].set_property("long", "x" * 300)
    return made


def commit(connection: Connection) -> None:
    access = connection.access().open()
    prepared = [access.prepare(d, m, f"{d}{n}") for d in (ORDERS, PRICES) for n, m in enumerate(messages(10))]
    access.sync()
    connection.settle([], prepared)


SENDS: dict[str, Callable[[Connection], object]] = {
    "one message": lambda connection: connection.send(ORDERS, messages(1)),
    "many messages": lambda connection: connection.send(ORDERS, messages(20)),
    "to a topic": lambda connection: connection.send(PRICES, messages(20)),
    "a commit": commit,
}


@pytest.mark.parametrize("way", SENDS)
def test_with_durability_batch_messages_are_on_the_disk_before_one_of_them_is_visible(
    root: Path, watch: Watch, way: str
) -> None:
    with connected(root, durable=True) as connection:
        watch.syncs.clear()
        SENDS[way](connection)
        visible = watch.visible()
    synced_unseen = {sync.inode for sync in watch.syncs if not sync.visible}
    assert {path.stat().st_ino for path in visible} <= synced_unseen
    headers = list((watch.root / "dropboxmq/headers").iterdir())
    assert headers
    assert {path.stat().st_ino for path in headers} <= synced_unseen
    names_synced = [sync.inode for sync in watch.syncs if sync.is_directory and sync.visible == len(visible)]
    folders = {path.parent.stat().st_ino for path in visible}
    assert folders <= set(names_synced)
    assert way == "one message" or sorted(names_synced) == sorted(folders), "each folder once"


@pytest.mark.parametrize("way", SENDS)
def test_with_durability_none_nothing_is_synced(
    root: Path, watch: Watch, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New folders are, where the file system changes names in another order than the program."""
    monkeypatch.setattr(file_systems, "keeps_order", lambda path: True)
    with connected(root, durable=False) as connection:
        SENDS[way](connection)
        poller = connection.poller(ORDERS)
        claims = [claim for n in range(20) if (claim := poller.take(1, n)) is not None]
        connection.settle([Settlement(claim, copy_to=parse_destination("archive")) for claim in claims])
    assert watch.visible()
    assert watch.syncs == []


def test_what_threads_send_is_synced_side_by_side_so_that_the_disk_commits_it_together(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither waits for the sync of the other: were there a lock around it, the barrier would break."""
    together = threading.Barrier(4)
    fdatasync, begun = os.fdatasync, threading.local()

    def sync(descriptor: int) -> None:
        if not hasattr(begun, "first"):
            begun.first = True
            together.wait(120)
        fdatasync(descriptor)

    provider = DropboxProvider(root, create=True)
    connections = [provider.connect() for _ in range(4)]
    monkeypatch.setattr(os, "fdatasync", sync)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda connection: connection.send(ORDERS, messages(1)), connections))
    for connection in connections:
        connection.close()
    assert len(list((root / "orders/incoming/target").iterdir())) == 4


def test_a_message_that_a_selector_rejects_is_not_renamed(root: Path) -> None:
    """A rename would change the time of the last change of its inode."""
    with closing(DropboxProvider(root, create=True, durable=False).connect()) as connection:
        connection.send(ORDERS, messages(20))
        target = root / "orders/incoming/target"
        before = {path: path.stat().st_ctime_ns for path in target.iterdir()}
        time.sleep(0.02)  # clocks of file systems are coarse
        poller = connection.poller(ORDERS, selector="long LIKE 'x%'")
        claim = poller.take(1, 0)
        assert claim is not None
        connection.settle([Settlement(claim)])
        assert poller.take(1, 1) is None
        after = {path: path.stat().st_ctime_ns for path in target.iterdir()}
    assert len(after) == 19
    assert after.items() <= before.items()
