"""What was consumed, and copies of an adapter, are kept for a while, then removed, never earlier."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from connector.messaging.message import Message
from connector.messaging.retention import Retention
from connector.messaging.settlement import Settlement
from connector.stores.dropbox import pruning
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.engine.connection import LocalConnection
from tests.stores.dropbox.steps import ARCHIVE, NOTES, ORDERS, layout_of, take
from tests.tables import rows
from tests.waiting import wait_for

KEEP = 1000.0
"""Seconds for which a test keeps processed messages."""
KEPT = [Retention(ARCHIVE, 3600.0)]


def consume(connection: LocalConnection, body: bytes, property_size: int = 1) -> None:
    message = Message(body=body)
    message.set_property("note", "n" * property_size)
    connection.send(ORDERS, [message])
    connection.settle([Settlement(take(connection))])


def processed(connection: LocalConnection) -> list[str]:
    return os.listdir(layout_of(connection).queue(ORDERS).processed)


class LaterClock:
    """The clock of the pruning, which a test may set."""

    def __init__(self) -> None:
        self.time = time.time

    def monotonic(self) -> float:
        """Returns the same time always, so that a stalled machine ends no pass early."""
        return 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> LaterClock:
    found = LaterClock()
    monkeypatch.setattr(pruning, "time", found)
    return found


def test_old_files_go_with_their_sidecars_and_young_ones_stay(tmp_path: Path, clock: LaterClock) -> None:
    connection = DropboxProvider(tmp_path, create=True, keep_processed=KEEP).connect()
    consume(connection, b"old", property_size=600)
    assert len(os.listdir(layout_of(connection).headers)) == 1
    (old,) = Path(layout_of(connection).queue(ORDERS).processed).iterdir()
    probe, settled = tmp_path / "probe", old.stat().st_ctime

    def later() -> float | None:
        probe.write_text("")
        return probe.stat().st_ctime if probe.stat().st_ctime > settled else None

    between = wait_for(later, what="the coarse clock of the files goes on")
    consume(connection, b"young")
    clock.time = lambda: between + KEEP
    assert connection.prune().settled == 1
    assert len(processed(connection)) == 1
    assert os.listdir(layout_of(connection).headers) == []
    for_ever = DropboxProvider(tmp_path, keep_processed=None).connect()
    clock.time = lambda: between + 2 * KEEP
    assert for_ever.prune().settled == 0
    for_ever.close()
    connection.close()


def test_pruning_is_done_by_one_client_and_not_all_the_time(tmp_path: Path, clock: LaterClock) -> None:
    provider = DropboxProvider(tmp_path, create=True, keep_processed=KEEP)
    connection = provider.connect()
    assert connection.prune().settled == 0
    consume(connection, b"old")
    other = provider.connect()
    assert other.prune().settled == 0  # it was looked at just now
    clock.time = lambda: time.time() + KEEP + 1
    assert other.prune().settled == 1
    connection.close()
    other.close()


def copies(connection: LocalConnection, number: int, reason: str = "") -> None:
    """Makes copies in the archive that are old enough to go."""
    connection.send(ORDERS, [Message(body=b"old") for _ in range(number)])
    claims = connection.poller(ORDERS).claim(1, range(number))
    old = {"connector_origin_destination": str(ORDERS), "connector_time": "2024-05-17T08:00:00.000Z"}
    properties = {**old, "connector_reason": reason}
    connection.settle([Settlement(claim, copy_to=ARCHIVE, properties=properties) for claim in claims])


def test_a_copy_that_is_claimed_between_two_steps_keeps_its_headers(connection: LocalConnection) -> None:
    copies(connection, 2, reason="r" * 600)
    assert connection.prune(KEPT, seconds=0.0).copies == {ARCHIVE: 1}
    claim = take(connection, cycle=2, source=ARCHIVE)
    assert connection.prune(KEPT).copies == {}
    assert claim.headers().properties["connector_reason"] == "r" * 600


def test_a_copy_that_is_in_progress_stays(connection: LocalConnection) -> None:
    copies(connection, 1)
    take(connection.poller(ARCHIVE, NOTES))
    assert connection.prune([Retention(NOTES, 3600.0)]).copies == {}


@rows("seconds", [-3700.0, 86400.0])
def test_copies_are_looked_at_by_one_instance_and_not_all_the_time(tmp_path: Path, seconds: float) -> None:
    """The mark of the last look may be of a clock that went back since."""
    provider = DropboxProvider(tmp_path, create=True)
    first, second = provider.connect("app", "one"), provider.connect("app", "two")
    assert first.prune(KEPT).is_done
    copies(second, 1)
    assert second.prune(KEPT).copies == first.prune(KEPT).copies == {}
    mark = tmp_path / "dropboxmq" / "adapter" / "app" / "pruned"
    os.utime(mark, (time.time() + seconds,) * 2)
    assert second.prune(KEPT).copies == {ARCHIVE: 1}
    first.close()
    second.close()


def test_a_copy_that_cannot_be_removed_is_logged_and_keeps_no_other(
    connection: LocalConnection, caplog: pytest.LogCaptureFixture
) -> None:
    copies(connection, 3, reason="r" * 600)
    broken, *_ = os.listdir(layout_of(connection).headers)
    Path(layout_of(connection).headers, broken).unlink()
    Path(layout_of(connection).headers, broken).mkdir()
    assert connection.prune(KEPT).copies == {ARCHIVE: 2}
    assert os.listdir(layout_of(connection).headers) == [broken]
    text = "old messages could not be removed"
    (reason,) = [vars(record)["reason"] for record in caplog.records if record.getMessage() == text]
    assert broken in reason
