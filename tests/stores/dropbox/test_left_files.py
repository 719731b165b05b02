"""A message that cannot be taken, for a reason of its own, holds up no other message."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connector.errors import ProviderError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.engine.connection import LocalConnection
from tests.privileges import stuck, without_privileges
from tests.stores.dropbox.steps import Clock, closed, connect, everything, give_back_all, layout_of, store_of
from tests.tables import rows

ORDERS, OTHER = map(parse_destination, ("queue://orders", "queue://other"))
IN_PROGRESS = parse_destination("queue://in-progress")
STUCK = "a message cannot be taken now and stays in its directory"
MANY = "messages cannot be taken now and stay in their directory"


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[tuple[str, Any]]]]:
    """Returns the warnings since the last call: the text, and the file or directory."""

    def warnings() -> list[tuple[str, Any]]:
        found = [
            (one.getMessage(), vars(one).get("number") or os.path.basename(vars(one)["file"].strip("'")))
            for one in caplog.records
        ]
        caplog.clear()
        return found

    with caplog.at_level(logging.WARNING, "connector.dropbox"):
        yield warnings


def targets(connection: LocalConnection, destination: Destination = ORDERS) -> list[Path]:
    folder = Path(layout_of(connection).queue(destination).target)
    return sorted(path for path in folder.iterdir() if path.name[0] != ".")


def bodies(connection: LocalConnection, poller: Any, number: int = 9) -> list[bytes]:
    """Takes and settles up to ``number`` messages."""
    access = connection.access().open()
    claims = poller.claim(1, range(number))
    found = [access.load(claim.reference, 1 << 20).body for claim in claims]
    connection.settle([Settlement(claim) for claim in claims])
    return found


def texts(*bodies: str, **headers: Any) -> list[Message]:
    return [Message(body.encode(), "T", **headers) for body in bodies]


@pytest.mark.parametrize("number", [1, 9], ids=["one at a time", "many at a time"])
@pytest.mark.parametrize("in_progress", [None, IN_PROGRESS], ids=["", "in progress"])
def test_a_file_that_may_not_be_renamed_is_passed_over_and_named_once(
    connection: LocalConnection, clock: Clock, said: Any, number: int, in_progress: Destination | None
) -> None:
    connection.send(ORDERS, texts(*"012"))
    connection.send(OTHER, texts("other"))
    poller, other = connection.poller(ORDERS, in_progress), connection.poller(OTHER, in_progress)
    first, *_ = targets(connection)
    with stuck(first):
        taken = [body for _ in range(9) for body in bodies(connection, poller, number)]
        assert taken == [b"1", b"2"]
        assert bodies(connection, other, number) == [b"other"]
        assert said() == [(STUCK, first.name)]
        clock.offset += 100
        assert bodies(connection, poller, number) == []
        assert said() == []
    assert targets(connection) == [first]
    clock.offset += 100
    assert bodies(connection, poller, number) == [b"0"]


def test_an_attempt_waits_longer_each_time_but_half_a_minute_at_most(
    connection: LocalConnection, clock: Clock
) -> None:
    connection.send(ORDERS, texts("0"))
    poller = connection.poller(ORDERS)
    (path,) = targets(connection)
    attempts = []

    def refuse(source: Any, *rest: Any, **folders: Any) -> None:
        attempts.append(source)
        raise OSError(errno.EPERM, "Operation not permitted", source)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        for _ in range(600):
            assert poller.claim(1, range(1)) == []
            clock.offset += 1.0
            store_of(connection).refresh()
    assert 20 <= len(attempts) <= 30
    assert path.exists()
    clock.offset += 31
    assert bodies(connection, poller) == [b"0"]


@pytest.mark.parametrize("kind", ["expired", "expired, not kept", "delivered too often"])
def test_what_cannot_be_put_aside_is_passed_over(root: Path, clock: Clock, said: Any, kind: str) -> None:
    often = kind == "delivered too often"
    keep = 0.0 if kind == "expired, not kept" else None
    connection = connect(root, keep_processed=keep, redelivery_limit=2 if often else None)
    connection.send(ORDERS, texts("bad", priority=9, expiration=0 if often else 1))
    (path,) = targets(connection)
    if often:
        path = path.rename(f"{path}.....JMSXDeliveryCountI=7")
    connection.send(ORDERS, texts("good"))
    poller = connection.poller(ORDERS)
    with stuck(path):
        assert bodies(connection, poller) == [b"good"]
    assert (said(), poller.expired) == ([(STUCK, path.name)], 0)
    clock.offset += 100
    assert (bodies(connection, poller), poller.expired) == ([], not often)
    assert targets(connection) == []
    assert len(os.listdir(layout_of(connection).queue(ORDERS).error)) == often
    connection.close()


@pytest.mark.parametrize("folder", ["target", "processing"])
def test_a_folder_that_may_not_be_changed_holds_up_no_other_queue(
    connection: LocalConnection, clock: Clock, said: Any, folder: str
) -> None:
    connection.send(ORDERS, texts(*map(str, range(300))))
    connection.send(OTHER, texts("other"))
    poller, other = connection.poller(ORDERS), connection.poller(OTHER)
    place = Path(layout_of(connection).queue(ORDERS).base) / folder
    with closed(place):
        for _ in range(3):
            assert bodies(connection, poller) == []
            assert not poller.has_news()
            clock.offset += 100
        assert bodies(connection, other) == [b"other"]
    assert said() == [(MANY, 300)]
    clock.offset += 100
    assert poller.has_news()
    assert bodies(connection, poller, 2) == [b"0", b"1"]
    with closed(place):
        assert bodies(connection, poller) == []
    assert said() == [(MANY, 298)], "it was in order meanwhile"


@rows(
    "number, stops",
    [
        *((number, False) for number in (errno.EPERM, errno.EACCES, errno.EBUSY, errno.ELOOP, errno.EISDIR)),
        *((number, False) for number in (errno.EIO, errno.ESTALE, errno.EINVAL, errno.EUCLEAN, errno.EMLINK)),
        *((number, True) for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENOTCONN)),
    ],
)
def test_the_number_of_an_error_tells_the_message_from_the_provider(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: int, stops: bool
) -> None:
    connection = connect(root)
    connection.send(ORDERS, texts(*"012"))
    first, *_ = targets(connection)
    rename = os.rename

    def fail(source: Any, target: Any, **folders: Any) -> None:
        if os.path.basename(source) == first.name:
            raise OSError(number, os.strerror(number), source, None, target)
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", fail)
    poller = connection.poller(ORDERS)
    if stops:
        with pytest.raises(ProviderError, match="cannot take a message of queue://orders"):
            poller.claim(1, range(9))
    else:
        assert bodies(connection, poller) == [b"1", b"2"]
    connection.abandon()


def test_files_in_a_row_do_not_flood_the_log(connection: LocalConnection, clock: Clock, said: Any) -> None:
    poller = connection.poller(ORDERS)
    folder = Path(layout_of(connection).queue(ORDERS).target)
    for number in range(100):
        (folder / f"{number}").mkdir()
        store_of(connection).refresh()
        assert bodies(connection, poller) == []
    assert [number for _, number in said()] == [str(number) for number in range(10)]
    clock.offset += 61
    store_of(connection).refresh()
    assert bodies(connection, poller) == []
    assert said() == [("files in a message directory are not messages and stay there", 90)]


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_in_a_topic_that_may_not_be_read_is_put_aside(root: Path, durable: bool, said: Any) -> None:
    connection = connect(root, durable=durable)
    topic = parse_destination("topic://prices")
    pollers = [
        connection.poller(TopicSubscription(topic, name=name, client_id="c", durable=True)) for name in "ab"
    ]
    folder = Path(layout_of(connection).queue(topic).target)
    for name in ("4.1.T", "4.2.T"):
        (folder / name).write_bytes(name.encode())
    (folder / "4.1.T").chmod(0)
    if os.geteuid() == 0:
        os.chown(folder / "4.1.T", 65534, 65534)
    with without_privileges():
        assert [bodies(connection, poller) for poller in pollers] == [[b"4.2.T"]] * 2
    assert os.listdir(Path(layout_of(connection).queue(topic).error)) == ["4.1.T"]
    assert said() == [("a message of a topic cannot be distributed and was put aside", "4.1.T")]
    connection.close()


# -- a file that refuses to move after it was claimed ------------------------------------------------


def settlement(claim: Any, move: str) -> Settlement:
    if move == "copy":
        return Settlement(claim, copy_to=OTHER, published=f"key {claim.message_id}")
    return Settlement(claim, give_back=move == "back", delivery_count=1)


def processing(connection: LocalConnection) -> list[Path]:
    return sorted(Path(layout_of(connection).queue(ORDERS).processing).iterdir())


@rows("number", [1, 3])
@rows("move, folder", [("copy", "other/target"), ("gone", "orders/processed"), ("back", "orders/target")])
@rows("way", ["prune", "start", "crash"])
def test_a_claimed_file_that_refuses_to_move_is_settled_and_moved_later(
    root: Path, caplog: pytest.LogCaptureFixture, number: int, move: str, folder: str, way: str
) -> None:
    caplog.clear()
    connection, other = connect(root), connect(root, "b")
    connection.send(ORDERS, texts(*"012"))
    claims = connection.poller(ORDERS).claim(1, range(3))
    first, *_ = processing(connection)
    settlements = [settlement(claim, move) for claim in claims]
    with stuck(first):
        for place in range(0, 3, number):
            connection.settle(settlements[place : place + number])
        assert processing(connection) == [first]
        connection.prune()
        if way == "prune":
            assert processing(connection) == [first]
        else:
            (connection.abandon if way == "crash" else connection.close)()
            assert sum(give_back_all(other)) == 0, "it is settled"
            assert processing(other) == [first]
    lines = [one for one in caplog.records if "settled message cannot be moved" in one.getMessage()]
    assert 1 <= len(lines) <= 2, "each client names the file once"
    if way == "prune":
        connection.prune()
    else:
        last = connect(root, "c")
        give_back_all(last)
        last.prune()
        last.close()
    assert everything(root) == {folder: "012"}
    assert os.listdir(layout_of(other).committing) == []
    other.close()
    connection.abandon()


def test_a_takeover_gives_back_all_but_the_file_that_refuses_to_move(root: Path) -> None:
    dead, living = connect(root), connect(root, "b")
    dead.send(ORDERS, texts(*"012"))
    assert len(dead.poller(ORDERS).claim(1, range(3))) == 3
    dead.abandon()
    first, *_ = processing(living)
    with stuck(first):
        for leftover in living.leftovers(None, at_start=True):
            assert len(leftover.claims) == 3
            leftover.forget()
        assert bodies(living, living.poller(ORDERS)) == [b"1", b"2"]
    living.prune()
    assert bodies(living, living.poller(ORDERS)) == [b"0"]
    living.close()


def test_a_message_in_progress_that_refuses_to_move_holds_up_no_other_takeover(root: Path) -> None:
    dead, living = connect(root), connect(root, "b")
    dead.send(ORDERS, texts(*"012"))
    assert len(dead.poller(ORDERS, IN_PROGRESS).claim(1, range(3))) == 3
    dead.abandon()
    first, *_ = targets(living, IN_PROGRESS)
    with stuck(first):
        for leftover in living.leftovers(IN_PROGRESS, at_start=True):
            adopted = [living.adopt(claim, 5, place) for place, claim in enumerate(leftover.claims)]
            assert [one is None for one in adopted] == [True, False, False]
            leftover.forget()
        living.settle([Settlement(one) for one in adopted if one is not None])
    (claim,) = living.find_unowned(IN_PROGRESS)
    again = living.adopt(claim, 6, 0)
    assert again is not None
    living.settle([Settlement(again)])
    assert targets(living, IN_PROGRESS) == []
    living.close()
