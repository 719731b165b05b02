"""The kernel tells of messages in directories; where it cannot, that is said once, and polls go on."""

from __future__ import annotations

import errno
import logging
import os
import resource
import shutil
from pathlib import Path

import pytest

from connector.messaging.message import Message
from connector.messaging.polling import Waiter
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox import waiter as waiter_module
from connector.stores.dropbox.inotify import Inotify
from connector.stores.dropbox.waiter import InotifyWaiter
from connector.stores.engine.connection import LocalConnection
from tests.stores.conftest import Mv
from tests.stores.dropbox.steps import NOTES, ORDERS, PRICES, store_of

AT_ONCE = 0.0
"""The kernel tells before the call returns that moves a file. So no wait is needed."""
PATIENCE = 60.0


@pytest.fixture
def waiter(connection: LocalConnection) -> Waiter:
    """That of a connection which polls two queues; a poll has begun."""
    connection.poller(ORDERS)
    connection.poller(NOTES)
    found = connection.waiter()
    assert found is not None
    assert found.begin()
    return found


@pytest.fixture
def target(root: Path) -> Path:
    return root / "orders" / "incoming" / "target"


def said(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    """The reasons of all log lines of that text."""
    return [vars(record)["reason"] for record in caplog.records if record.getMessage() == text]


def test_what_comes_is_told_once_it_is_whole(waiter: Waiter, target: Path, mv: Mv, tmp_path: Path) -> None:
    """Moved, written, copied, and renamed from a hidden name. What leaves or is no file is not told."""
    assert not waiter.wait(AT_ONCE)
    mv("orders", "moved")
    assert waiter.wait(PATIENCE)
    waiter.begin()
    with open(target / "written", "w") as file:
        file.write("half")
        file.flush()
        assert not waiter.wait(AT_ONCE)
    assert waiter.wait(PATIENCE)
    waiter.begin()
    (tmp_path / "copied").write_bytes(b"body")
    shutil.copy(tmp_path / "copied", target)
    assert waiter.wait(PATIENCE)
    waiter.begin()
    (target / ".hidden").write_bytes(b"body")
    assert not waiter.wait(AT_ONCE)
    (target / ".hidden").rename(target / "shown")
    assert waiter.wait(PATIENCE)
    waiter.begin()
    os.rename(target / "shown", target.parent / "processing" / "shown")
    (tmp_path / "directory").mkdir()
    (target / "made").mkdir()
    shutil.move(tmp_path / "directory", target / "brought")
    assert not waiter.wait(AT_ONCE)


def test_what_a_program_puts_into_a_topic_is_told_and_taken(root: Path, connection: LocalConnection) -> None:
    poller = connection.poller(TopicSubscription(PRICES))
    waiter = connection.waiter()
    assert waiter is not None
    topic = root / "topic-root" / "prices" / ".incoming" / "target"
    for cycle in range(1, 4):  # one poll right after the other
        waiter.begin()
        assert poller.take(cycle, 0) is None
        (topic / f"price{cycle}").write_bytes(b"body")
        assert waiter.wait(PATIENCE)
        waiter.begin()
        assert poller.take(10 + cycle, 0) is not None


def test_a_replaced_directory_is_watched_from_the_next_poll_on(waiter: Waiter, target: Path, mv: Mv) -> None:
    target.rename(target.parent / "old")
    target.mkdir()
    assert waiter.begin()
    (target.parent / "old" / "order.json").write_bytes(b"body")
    assert not waiter.wait(AT_ONCE), "that is none of ours any more"
    mv("orders", "order.json")
    assert waiter.wait(PATIENCE)


def test_a_directory_that_is_removed_is_watched_when_it_is_there_again(
    waiter: Waiter, target: Path, mv: Mv, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(target.parent)
    assert not waiter.begin(), "one of two is missing"
    mv("notes", "note.json")
    assert waiter.wait(PATIENCE)
    target.mkdir(parents=True)
    assert waiter.begin()
    mv("orders", "order.json")
    assert waiter.wait(PATIENCE)
    assert caplog.records == []


def test_two_names_of_one_directory_are_one(root: Path, connection: LocalConnection, mv: Mv) -> None:
    pollers = [connection.poller(destination) for destination in (ORDERS, NOTES)]
    notes = root / "notes" / "incoming" / "target"
    notes.rmdir()
    notes.symlink_to(root / "orders" / "incoming" / "target")
    waiter = connection.waiter()
    assert waiter is not None
    assert waiter.begin()
    pollers[1].close()
    assert waiter.begin()
    mv("orders", "order.json")
    assert waiter.wait(PATIENCE)


class SmallKernel(Inotify):
    """Watches no more than one directory for a user, while its limit holds."""

    holds = True

    def watch(self, path: str) -> int:
        if self.holds and "notes" in path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return super().watch(path)


def test_too_many_watches_are_one_warning_and_the_others_are_told(
    connection: LocalConnection, mv: Mv, caplog: pytest.LogCaptureFixture
) -> None:
    for one in (ORDERS, NOTES):
        connection.poller(one)
    directories = list(store_of(connection).directories())
    kernel = SmallKernel()
    waiter = InotifyWaiter(kernel, lambda: directories)
    assert not waiter.begin()
    assert not waiter.begin()
    (reason,) = said(caplog, "new files in some directories do not start a poll")
    assert reason.startswith("too many inotify watches of this user:")
    mv("notes", "note.json")
    assert not waiter.wait(AT_ONCE)
    mv("orders", "order.json")
    assert waiter.wait(PATIENCE)
    kernel.holds = False
    assert waiter.begin()
    mv("notes", "another.json")
    assert waiter.wait(PATIENCE)
    waiter.close()


def test_too_many_open_files_are_one_warning_and_no_waiter(
    connection: LocalConnection, caplog: pytest.LogCaptureFixture
) -> None:
    poller = connection.poller(ORDERS)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_one = os.dup(0)
    os.close(next_one)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_one, hard))
    try:
        waiters = connection.waiter(), connection.waiter()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert waiters == (None, None)
    (reason,) = said(caplog, "new files in some directories do not start a poll")
    assert reason.startswith("too many inotify instances")
    connection.send(ORDERS, [Message(b"body", "T")])
    assert poller.take(1, 0) is not None


def test_after_an_overflow_a_poll_begins_at_once_and_waking_goes_on(
    waiter: Waiter, target: Path, mv: Mv, caplog: pytest.LogCaptureFixture
) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for _ in range(2):
        first, second = target / "order.json", target / "other.json"
        first.write_bytes(b"body")
        for _ in range(most + 10):
            first.rename(second)
            first, second = second, first
        assert waiter.wait(PATIENCE)
        waiter.begin()
        assert not waiter.wait(AT_ONCE)
        mv("orders", "another.json")
        assert waiter.wait(PATIENCE)
        waiter.begin()
    reasons = said(caplog, "the kernel dropped file notifications, so a poll starts now")
    assert len(reasons) == 1
    assert "max_queued_events" in reasons[0]


def test_a_file_system_that_other_machines_change_is_only_polled(
    root: Path,
    connection: LocalConnection,
    mv: Mv,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiter_module, "is_shared", lambda path: "orders" in path)
    caplog.set_level(logging.INFO, "connector.dropbox")
    pollers = [connection.poller(destination) for destination in (ORDERS, NOTES)]
    waiter = connection.waiter()
    assert waiter is not None
    assert not waiter.begin()
    assert not waiter.begin()
    mv("orders", "order.json")
    assert not waiter.wait(AT_ONCE)
    assert pollers[0].take(1, 0) is not None
    mv("notes", "note.json")
    assert waiter.wait(PATIENCE)
    said_once = [(record.levelname, vars(record)["directory"]) for record in caplog.records]
    assert said_once == [("INFO", str(root / "orders" / "incoming" / "target"))]


def test_a_system_without_inotify_has_no_waiter_and_says_so_once(
    connection: LocalConnection, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiter_module, "exists", lambda: False)
    caplog.set_level(logging.INFO, "connector.dropbox")
    assert connection.waiter() is None
    assert connection.waiter() is None
    assert said(caplog, "new files do not start a poll, so the adapter polls at PollFrequency only") == [
        "this system has no inotify"
    ]
    connection.wake()
