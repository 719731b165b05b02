"""The sender: who commits for whom, and that a thread that ends in between holds up nobody."""

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
from connector.requests.sender import Outgoing, Sender
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

    def commit(self, *, sends_expired: bool) -> None:
        self.before_commit()
        self.commits.append(self._open)
        self._open = []

    def abandon(self) -> None:
        self._open = []


@pytest.fixture
def session() -> Recorder:
    return Recorder()


@pytest.fixture
def sender(session: Recorder) -> Sender:
    return Sender(lambda: cast(CoreSession, session))


def outgoing(name: str, destination: Destination = REQUESTS) -> Outgoing:
    return Outgoing(destination, Message(name.encode()))


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


def test_many_threads_send_each_request_once(session: Recorder, sender: Sender) -> None:
    def send_some(caller: int) -> None:
        for number in range(50):
            sender.send(outgoing(f"{caller}-{number}"))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(send_some, range(16)))
    sent = [name for commit in session.commits for name in commit]
    assert sorted(sent) == sorted(f"{caller}-{number}" for caller in range(16) for number in range(50))


def test_an_error_of_one_request_is_told_to_its_thread_alone(session: Recorder, sender: Sender) -> None:
    with Line(session, sender) as line:
        line.send("bad", NOWHERE)
        line.send("good")
    assert [type(one.exception()) for one in line.sent] == [type(None), UnknownDestination, type(None)]
    assert session.commits == [["first"], ["good"]]


def test_an_interrupt_in_a_commit_holds_up_nobody(session: Recorder, sender: Sender) -> None:
    line = Line(session, sender)

    def interrupt() -> None:
        line.hold()
        session.before_commit = lambda: None
        raise KeyboardInterrupt

    session.before_commit = interrupt
    with line:
        line.send("second")
    assert [type(one.exception()) for one in line.sent] == [KeyboardInterrupt, type(None)]
    assert session.commits == [["second"]]


def test_an_interrupt_in_a_commit_is_told_to_those_for_whom_it_was(session: Recorder, sender: Sender) -> None:
    line = Line(session, sender)

    def interrupt() -> None:
        line.hold()
        if len(session._open) > 1:
            session.before_commit = lambda: None
            raise KeyboardInterrupt

    session.before_commit = interrupt
    with line:
        line.send("second")
        line.send("third")
    first, *others = (type(one.exception()) for one in line.sent)
    assert first is type(None)
    assert sorted(others, key=str) == sorted([KeyboardInterrupt, ProviderError], key=str)
    assert session.commits == [["first"]]
    sender.send(outgoing("later"))
    assert session.commits == [["first"], ["later"]]


class Interrupted(Outgoing):
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
