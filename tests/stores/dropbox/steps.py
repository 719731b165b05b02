"""Steps that many tests of the dropbox share."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from connector import faults
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.polling import Poller
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox.claims import DropboxClaim
from connector.stores.dropbox.layout import RootLayout
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.dropbox.store import DropboxStore
from connector.stores.engine.connection import LocalConnection
from connector.stores.engine.poller import LocalPoller
from tests.privileges import without_privileges

ORDERS, NOTES, ARCHIVE = map(parse_destination, ("queue://orders", "queue://notes", "queue://archive"))
PRICES = parse_destination("topic://prices")


def store_of(connection: Connection) -> DropboxStore:
    """The store under a connection."""
    assert isinstance(connection, LocalConnection)
    assert isinstance(connection.store, DropboxStore)
    return connection.store


def layout_of(connection: Connection) -> RootLayout:
    """The places of files under the root of a connection."""
    return store_of(connection).layout


def take(
    taker: Connection | Poller,
    sequence: int = 0,
    *,
    cycle: int = 1,
    source: Destination | TopicSubscription = ORDERS,
) -> DropboxClaim:
    """Takes a message that waits, from a poller or, with a new poller, from a queue."""
    poller = taker.poller(source) if isinstance(taker, LocalConnection) else taker
    assert isinstance(poller, LocalPoller)
    claim = poller.take(cycle, sequence)
    assert isinstance(claim, DropboxClaim)
    return claim


def connect(root: str | Path, instance: str = "a", **options: Any) -> LocalConnection:
    """A client of the application ``suite``."""
    return DropboxProvider(root, create=True, **{"durable": False, **options}).connect("suite", instance)


def bodies(connection: Connection, queue: Destination) -> list[str]:
    return [message.body.decode() for message in connection.browse(queue)]


def everything(root: Path) -> dict[str, str]:
    """The bodies of all messages under the root, by folder, without the empty folders."""
    found: dict[str, str] = {}
    for folder in ("working", "target", "processing", "processed", "error", "expired"):
        for path in sorted(root.glob(f"*/incoming/{folder}/*")):
            place = f"{path.parts[-4]}/{folder}"
            found[place] = found.get(place, "") + path.read_text()
    return found


def give_back_all(connection: Connection, *, at_start: bool = True) -> list[int]:
    """Gives back all claims of the dead, as one delivery more. Returns their numbers, by client."""
    numbers = []
    for leftover in connection.leftovers(None, at_start=at_start):
        numbers.append(len(leftover.claims))
        connection.settle([Settlement(c, give_back=True, delivery_count=1) for c in leftover.claims])
        leftover.forget()
    return numbers


def recover(root: str | Path) -> LocalConnection:
    """A living neighbour that has given back the claims of the dead, as one delivery more."""
    connection = connect(root, "living")
    give_back_all(connection)
    assert list(connection.leftovers(None, at_start=True)) == []
    for folder in (layout_of(connection).associated, layout_of(connection).committing):
        assert os.listdir(folder) == []
    return connection


@contextmanager
def closed(*folders: str | Path) -> Iterator[None]:
    """Lets an ordinary user change nothing in some folders. This thread is one meanwhile."""
    before = {folder: os.stat(folder).st_mode for folder in folders}
    for folder in folders:
        os.chmod(folder, 0o555)
    try:
        with without_privileges():
            yield
    finally:
        for folder, mode in before.items():
            os.chmod(folder, mode)


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """Lets no file grow beyond a size in bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def fault(text: str) -> Iterator[None]:
    """Lets this process fail at a place, as ``CONNECTOR_FAULT`` does."""
    with mock.patch.object(faults, "point", faults._Faults(text)):
        yield


class Clock:
    """The monotonic clock, moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.offset = 0.0
        real = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: real() + self.offset)


@contextmanager
def at(place: str, action: Callable[[], object]) -> Iterator[None]:
    """Does something when this process comes to a place of faults. ``settle.move:2`` is the second time."""
    name, _, number = place.partition(":")
    left = int(number or 1)

    def point(reached: str) -> None:
        nonlocal left
        left -= reached == name
        if reached == name and not left:
            action()

    with mock.patch.object(faults, "point", point):
        yield


class Died(BaseException):
    """Raised where a process is to die. What it was at stays as it is there, if its client is abandoned."""


def die() -> None:
    raise Died


@contextmanager
def dying(place: str) -> Iterator[None]:
    """Ends what runs at a place of faults, if it comes there."""
    with suppress(Died), at(place, die):
        yield
