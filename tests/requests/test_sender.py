"""The sender and the slots of a client: who commits for whom, whose turn it is, and nobody is held up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import SimpleNamespace
from typing import cast

import pytest

from connector.core.session import CoreSession
from connector.errors import ProviderError, UnknownDestination
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.requests.sender import OutgoingRequest, Sender
from connector.requests.slots import Slots
from tests.waiting import wait_for

REQUESTS = parse_destination("queue://requests")
NOWHERE = parse_destination("queue://nowhere")


class Recorder:
    """A session that notes each commit. ``commit`` may be replaced."""

    def __init__(self) -> None:
        self.commits: list[list[str]] = []
        self.connection = SimpleNamespace(sent_ids="", check=lambda: None)
        self.before_commit: Callable[[], object] = lambda: None
        self._open: list[str] = []

    def dispatch(self, destination: Destination, messages: list[Message]) -> list[str]:
        if destination == NOWHERE:
            raise UnknownDestination("there is no such queue")
        self._open += [message.body.decode() for message in messages]
        return [message.body.decode() for message in messages]

    def commit(self, may_begin: Callable[[], bool]) -> None:
        self.before_commit()
        assert may_begin()
        self.commits.append(self._open)
        self._open = []

    def abandon(self) -> None:
        self._open = []

    close = abandon


@pytest.fixture
def session() -> Recorder:
    return Recorder()


@pytest.fixture
def sender(session: Recorder) -> Sender:
    return Sender(lambda: cast(CoreSession, session))


def outgoing(name: str, destination: Destination = REQUESTS) -> OutgoingRequest:
    return OutgoingRequest(destination, Message(name.encode()))


class Line:
    """Requests that wait while the commit of the first one is held. Its end lets all go on."""

    def __init__(self, session: Recorder, sender: Sender) -> None:
        self.sent: list[Future[None]] = []
        self._sender = sender
        self._reached, self._opened = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(32)
        session.before_commit = self.hold

    def hold(self) -> None:
        """Holds the first commit."""
        if not self._reached.is_set():
            self._reached.set()
            assert self._opened.wait(120)

    def __enter__(self) -> Line:
        self.sent.append(self._pool.submit(self._sender.send, outgoing("first")))
        assert self._reached.wait(120)
        return self

    def send(self, name: str, destination: Destination = REQUESTS) -> None:
        """Lets another request wait behind those that wait already."""
        number = len(self.sent)
        self.sent.append(self._pool.submit(self._sender.send, outgoing(name, destination)))
        wait_for(lambda: len(self._sender._waiting) == number)

    def __exit__(self, *_: object) -> None:
        self._opened.set()
        wait(self.sent, 120)
        self._pool.shutdown()


def test_what_waits_during_a_commit_is_one_commit(session: Recorder, sender: Sender) -> None:
    names = [str(number) for number in range(20)]
    with Line(session, sender) as line:
        for name in names:
            line.send(name)
    assert [one.result() for one in line.sent] == [None] * 21
    assert session.commits == [["first"], names]


def test_an_error_of_one_request_is_told_to_its_thread_alone(session: Recorder, sender: Sender) -> None:
    with Line(session, sender) as line:
        line.send("bad", NOWHERE)
        line.send("good")
    assert [type(one.exception()) for one in line.sent] == [type(None), UnknownDestination, type(None)]
    assert session.commits == [["first"], ["good"]]


@pytest.mark.parametrize("commit", [1, 2])
def test_an_interrupt_in_a_commit_is_told_to_those_for_whom_it_was_and_holds_up_nobody(
    session: Recorder, sender: Sender, commit: int
) -> None:
    """Two requests wait while the first one is committed. The other two are one commit."""
    line = Line(session, sender)

    def interrupt() -> None:
        line.hold()
        if len(session._open) == commit:
            session.before_commit = lambda: None
            raise KeyboardInterrupt

    session.before_commit = interrupt
    with line:
        line.send("second")
        line.send("third")
    first, *others = (type(one.exception()).__name__ for one in line.sent)
    if commit == 1:
        assert (first, others) == ("KeyboardInterrupt", ["NoneType"] * 2)
        assert session.commits == [["second", "third"]]
    else:
        assert (first, sorted(others)) == ("NoneType", ["KeyboardInterrupt", "ProviderError"])
        assert session.commits == [["first"]]
    sender.send(outgoing("later"))
    assert session.commits[-1] == ["later"]


class Interrupted(OutgoingRequest):
    """A request whose thread is interrupted while it waits."""

    def __post_init__(self) -> None:
        self.turn = cast(threading.Lock, SimpleNamespace(acquire=self._interrupt, release=lambda: None))

    def _interrupt(self) -> None:
        raise KeyboardInterrupt


def test_a_request_whose_thread_is_interrupted_is_not_sent_and_holds_up_nobody(
    session: Recorder, sender: Sender
) -> None:
    with pytest.raises(KeyboardInterrupt):  # as the first, which would have to commit
        sender.send(Interrupted(REQUESTS, Message(b"interrupted")))
    with Line(session, sender) as line:
        with pytest.raises(KeyboardInterrupt):  # behind another one
            sender.send(Interrupted(REQUESTS, Message(b"interrupted")))
        line.send("second")
    assert [one.result() for one in line.sent] == [None, None]
    assert session.commits == [["first"], ["second"]]


def test_a_request_that_a_stop_overtakes_is_told_so_and_connects_to_nothing(session: Recorder) -> None:
    connected: list[Recorder] = []

    def connect() -> CoreSession:
        connected.append(session)
        return cast(CoreSession, session)

    sender = Sender(connect)
    sender.send(outgoing("first"))
    sender.close()
    with pytest.raises(ProviderError, match="stopped"):
        sender.send(outgoing("second"))
    assert (len(connected), session.commits) == (1, [["first"]])


# -- slots: first come, first served, each granted once ---------------------------------------------


def test_waiters_are_granted_a_slot_in_the_order_of_asking() -> None:
    slots = Slots(1)
    assert slots.acquire().done()
    granted: list[int] = []
    for number in range(3):
        slots.acquire().add_done_callback(lambda _, number=number: granted.append(number))  # type: ignore[misc]
    assert (granted, slots.waiting) == ([], 3)
    for _ in range(3):
        slots.release()
    assert (granted, slots.waiting) == ([0, 1, 2], 0)


def test_nobody_overtakes_those_who_wait_and_who_has_gone_keeps_no_slot_from_the_next() -> None:
    slots = Slots(2)
    first, second, third, fourth = [slots.acquire() for _ in range(4)]
    slots.release()
    late = slots.acquire()
    assert [slot.done() for slot in (first, second, third, fourth, late)] == [True, True, True, False, False]
    assert fourth.cancel()
    assert slots.waiting == 1
    slots.release()
    assert late.done()
    assert not late.cancel()
    assert slots.used == 2


def test_closed_slots_cancel_all_who_wait_and_all_who_come() -> None:
    slots = Slots(1)
    granted, waiting = slots.acquire(), slots.acquire()
    slots.close()
    assert [slot.cancelled() for slot in (granted, waiting, slots.acquire())] == [False, True, True]
    assert not slots.wait_until_unused(0.0)
    slots.release()
    assert slots.wait_until_unused(1.0)
