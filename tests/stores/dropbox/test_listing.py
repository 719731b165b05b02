"""One sorted listing of ``target/`` serves many polls, and only what is a message gets into it."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from connector.errors import ProviderError
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.stores.dropbox.listing import Listing
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.engine.connection import LocalConnection
from tests.stores.conftest import Mv
from tests.stores.dropbox.steps import ARCHIVE, ORDERS, Clock, layout_of, take


class Calls(Counter[str]):
    """Counts what the listing asks of the file system; the answers are the real ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        for name in ("scandir", "stat", "lstat"):
            monkeypatch.setattr(os, name, partial(self._count, name, getattr(os, name)))

    def _count(self, name: str, look: Callable[[str], object], path: str) -> object:
        self[name] += 1
        return look(path)


@pytest.fixture
def folder(root: Path) -> Path:
    (root / "target").mkdir()
    return root / "target"


def put(folder: Path, *names: str | bytes, age: float = 60.0) -> None:
    """Makes messages, and a folder that has not changed for ``age`` seconds."""
    for name in names:
        (folder / os.fsdecode(name)).touch()
    settle_down(folder, age)


def settle_down(folder: Path, age: float = 60.0) -> None:
    past = time.time() - age
    os.utime(folder, (past, past))


def drain(found: Listing) -> list[str]:
    names = []
    while (name := found.next()) is not None:
        names.append(name)
    return names


def structured(number: int, priority: int = 4) -> str:
    return f"{priority}.{1140429201295000 + number:016d}-1.T"


def test_one_scan_serves_all_messages_that_wait(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, *(structured(n) for n in range(500)))
    calls = Calls(monkeypatch)
    found = Listing(str(folder))
    assert [found.next() for _ in range(500)] == [structured(n) for n in range(500)]
    assert calls == {"scandir": 1, "stat": 1}


def test_an_empty_poll_is_one_look_at_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_down(folder)
    found = Listing(str(folder))
    found.next()
    calls = Calls(monkeypatch)
    assert [found.next() for _ in range(100)] == [None] * 100
    assert calls == {"stat": 100}
    (folder / "a").touch()
    assert found.next() == "a"


def test_a_change_within_the_tick_of_a_coarse_clock_is_not_missed(folder: Path) -> None:
    found = Listing(str(folder))
    for number in range(200):
        assert found.next() is None
        name = structured(number)
        (folder / name).touch()
        assert found.next() == name
        (folder / name).unlink()


def test_a_listing_is_kept_twenty_times_as_long_as_it_took(
    folder: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, *(structured(n) for n in range(10)))
    scandir = os.scandir

    def slow(path: str) -> Iterator[os.DirEntry[str]]:
        clock.offset += 2.0  # a scan that takes two seconds
        return scandir(path)

    monkeypatch.setattr(os, "scandir", slow)
    found = Listing(str(folder))
    found.next()
    calls = Calls(monkeypatch)
    clock.offset += 39.0
    found.next()
    assert calls == {}
    clock.offset += 2.0
    found.next()
    assert calls["scandir"] == 1


def test_who_loses_many_races_in_a_row_still_takes_in_order(provider: DropboxProvider) -> None:
    """Seed 001, 9.1.1: also where several processes take from one queue, each does so in order."""
    late, fast = provider.connect(), provider.connect()
    sent = late.send(ORDERS, [Message(b"") for _ in range(400)])
    taker, other = late.poller(ORDERS), fast.poller(ORDERS)
    taken = [take(taker).message_id]  # from here on it walks a listing in which more and more is gone
    lost: list[str] = []
    for number in range(1, 31):
        lost += [take(other, len(lost) + n, cycle=number).message_id for n in range(12)]
        taken.append(take(taker, number).message_id)
    assert taken == sorted(taken)
    assert lost == sorted(lost)
    assert sorted(taken + lost) == sent[:391]
    late.abandon()
    fast.abandon()


def test_the_order_is_priority_then_age_then_name_for_any_priority(folder: Path) -> None:
    names = [
        f"{priority}.{1140429201295000 + age:016d}-{number}.T"
        for priority in (-2147483648, -1, 0, 4, 9, 10, 150, 2147483647)
        for age in (0, 1)
        for number in (1, 2)
    ]
    put(folder, *reversed(names))
    expected = sorted(names, key=lambda name: (-int(name.split(".")[0]), name.split(".")[1]))
    assert drain(Listing(str(folder))) == expected


def test_bare_names_take_their_place_by_the_time_of_their_file(folder: Path) -> None:
    seconds = 1_700_000_000
    before, after = f"4.{seconds * 1_000_000 - 1:016d}-1.T", f"4.{seconds * 1_000_000 + 1:016d}-1.T"
    for name in (after, before, "report.csv", "9.noTime.B"):
        (folder / name).touch()
        os.utime(folder / name, (seconds, seconds))
    settle_down(folder)
    assert drain(Listing(str(folder))) == ["9.noTime.B", before, "report.csv", after]


def test_browsing_agrees_with_taking_for_names_of_every_kind(connection: LocalConnection, mv: Mv) -> None:
    base = 1_700_000_000_000_000_000
    names = ["b", "a", "150.late.T", "4.1700000000000001-1.T", "-3.x.B", "9.1140429201295000-1.T"]
    names.append("4.bad.T.soon")
    for number, name in enumerate([*names, os.fsdecode(b"caf\xe9"), "c" * 255]):
        path = mv("orders", name, name.encode("utf-8", "surrogateescape"))
        os.utime(path, ns=(base + 100_000 * number, base + 100_000 * number))
    browsed = [message.body for message in connection.browse(ORDERS)]
    poller = connection.poller(ORDERS)
    taken: list[str] = []
    while len(taken) < len(browsed):
        taken.append(layout_of(connection).absolute(take(poller, len(taken)).path))
        if len(taken) == 4:
            assert [message.body for message in connection.browse(ORDERS)] == browsed
    assert [Path(path).read_bytes() for path in taken] == browsed
    assert poller.take(1, len(taken)) is None


def test_what_is_no_message_stays_and_is_told_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "directory").mkdir()
    (folder / "elsewhere").symlink_to("/etc/passwd")
    (folder / ".hidden").touch()
    (folder / ".nfs0001").touch()
    put(folder, "message")
    found = Listing(str(folder))
    with caplog.at_level(logging.WARNING, "connector.dropbox"):
        for _ in range(3):
            found.remove()
            assert drain(found) == ["message"]
    said = [(record.getMessage(), vars(record)) for record in caplog.records]
    assert {text for text, _ in said} == {"a file in a message directory is not a message and stays there"}
    assert sorted((fields["file"].rpartition("/")[2], fields["kind"]) for _, fields in said) == [
        ("directory'", "a directory"),
        ("elsewhere'", "a symbolic link"),
        ("pipe'", "no regular file"),
    ]
    assert sorted(os.listdir(folder)) == [".hidden", ".nfs0001", "directory", "elsewhere", "message", "pipe"]


@pytest.mark.timeout(30)
def test_a_pipe_or_link_in_place_of_a_message_blocks_nothing(connection: LocalConnection, mv: Mv) -> None:
    """The listing has seen a file; what is claimed under its name is something else."""
    poller = connection.poller(ORDERS)
    for number in range(3):
        mv("orders", f"m{number}")
    take(poller)
    access = connection.access().open()
    target = Path(layout_of(connection).queue(ORDERS).target)
    for name in os.listdir(target):
        (target / name).unlink()
    os.mkfifo(target / "m1")
    (target / "m2").symlink_to("/etc/passwd")
    for number in (1, 2):
        claim = take(poller, number)
        with pytest.raises(ValueError, match="not a regular file"):
            access.load(claim.reference, 1 << 20)
        connection.settle([Settlement(claim, copy_to=ARCHIVE)])
    copies = os.scandir(layout_of(connection).queue(ARCHIVE).target)
    assert sorted((copy.is_symlink(), copy.is_file()) for copy in copies) == [(False, False), (True, True)]


def test_a_queue_that_is_removed_is_made_again_by_sending(root: Path, connection: LocalConnection) -> None:
    for count in (1, 2):
        connection.send(ORDERS, [Message() for _ in range(count)])
        for path in sorted((root / "orders").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        (root / "orders").rmdir()
    connection.send(ORDERS, [Message(b"1")])
    assert [message.body for message in connection.browse(ORDERS)] == [b"1"]


def test_a_file_where_the_folder_should_be_is_an_error_of_the_provider(connection: LocalConnection) -> None:
    poller = connection.poller(ORDERS)
    target = Path(layout_of(connection).queue(ORDERS).target)
    target.rmdir()
    target.touch()
    with pytest.raises(ProviderError, match=r"cannot read .*target: Not a directory"):
        poller.take(1, 0)
