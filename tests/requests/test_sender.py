"""The sender: who commits for whom, and that a thread that ends in between holds up nobody."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


class Gate:
    """Holds the first commit until it is opened."""

    def __init__(self, session: Recorder) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        session.before_commit = self._pass

    def _pass(self) -> None:
        if not self.reached.is_set():
            self.reached.set()
            assert self.opened.wait(120)


def waiting(sender: Sender) -> int:
    return len(sender._waiting)


def test_what_waits_during_a_commit_is_one_commit(session: Recorder, sender: Sender) -> None:
    gate = Gate(session)
    names = [str(number) for number in range(20)]
    with ThreadPoolExecutor(21) as pool:
        first = pool.submit(sender.send, outgoing("first"))
        assert gate.reached.wait(120)
        others = [pool.submit(sender.send, outgoing(name)) for name in names]
        wait_for(lambda: waiting(sender) == 20)
        gate.opened.set()
        for future in (first, *others):
            future.result(120)
    assert session.commits[0] == ["first"]
    assert len(session.commits) == 2
    assert sorted(session.commits[1]) == sorted(names)


def test_many_threads_send_each_request_once(session: Recorder, sender: Sender) -> None:
    def send_some(caller: int) -> None:
        for number in range(50):
            sender.send(outgoing(f"{caller}-{number}"))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(send_some, range(16)))
    sent = [name for commit in session.commits for name in commit]
    assert sorted(sent) == sorted(f"{caller}-{number}" for caller in range(16) for number in range(50))


def test_an_error_of_one_request_is_told_to_its_thread_alone(session: Recorder, sender: Sender) -> None:
    gate = Gate(session)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(sender.send, outgoing("first"))
        assert gate.reached.wait(120)
        bad = pool.submit(sender.send, outgoing("bad", NOWHERE))
        wait_for(lambda: waiting(sender) == 1)
        good = pool.submit(sender.send, outgoing("good"))
        wait_for(lambda: waiting(sender) == 2)
        gate.opened.set()
        first.result(120)
        good.result(120)
        with pytest.raises(UnknownDestination):
            bad.result(120)
    assert session.commits == [["first"], ["good"]]


def test_an_interrupt_in_a_commit_holds_up_nobody(session: Recorder, sender: Sender) -> None:
    gate = Gate(session)

    def interrupt() -> None:
        gate._pass()
        session.before_commit = lambda: None
        raise KeyboardInterrupt

    session.before_commit = interrupt
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(sender.send, outgoing("first"))
        assert gate.reached.wait(120)
        second = pool.submit(sender.send, outgoing("second"))
        wait_for(lambda: waiting(sender) == 1)
        gate.opened.set()
        with pytest.raises(KeyboardInterrupt):
            first.result(120)
        second.result(120)
    assert session.commits == [["second"]]


def test_an_interrupt_in_a_commit_is_told_to_those_for_whom_it_was(session: Recorder, sender: Sender) -> None:
    gate = Gate(session)

    def interrupt() -> None:
        gate._pass()
        if len(session._open) > 1:
            session.before_commit = lambda: None
            raise KeyboardInterrupt

    session.before_commit = interrupt
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(sender.send, outgoing("first"))
        assert gate.reached.wait(120)
        others = [pool.submit(sender.send, outgoing(name)) for name in ("second", "third")]
        wait_for(lambda: waiting(sender) == 2)
        gate.opened.set()
        first.result(120)
        errors = [type(other.exception(120)) for other in others]
    assert sorted(errors, key=str) == sorted([KeyboardInterrupt, ProviderError], key=str)
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
    interrupted = Interrupted(REQUESTS, Message(b"interrupted"))
    with pytest.raises(KeyboardInterrupt):  # as the first, which would have to commit
        sender.send(interrupted)
    gate = Gate(session)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(sender.send, outgoing("first"))
        assert gate.reached.wait(120)
        with pytest.raises(KeyboardInterrupt):  # behind another one
            sender.send(Interrupted(REQUESTS, Message(b"interrupted")))
        second = pool.submit(sender.send, outgoing("second"))
        wait_for(lambda: waiting(sender) == 1)
        gate.opened.set()
        first.result(120)
        second.result(120)
    assert session.commits == [["first"], ["second"]]
