"""Sending once by key at a broker: commits without an answer, kills, and a queue that was emptied."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from connector.brokers.engine import once as module
from connector.brokers.engine.connection import RemoteConnection
from connector.errors import ProviderError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.once import OnceKey, SentOnce
from tests.brokers.engine.broker import BrokerSession
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.server import serving
from tests.brokers.engine.world import ids
from tests.stores.conftest import Children
from tests.stores.dropbox.steps import at
from tests.tables import Table

ORDERS = parse_destination("queue://orders")
SENT = "connector.shop.sent"
SENDER = """
from connector.messaging.once import OnceKey
from tests.brokers.engine.server import SocketProvider
connection = SocketProvider(*sys.argv[1:3]).connect()
print(connection.send_once(parse_destination("orders"), Message(b"1"), OnceKey("shop", "k", 60)).message_id)
"""


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for what does not come."""
    monkeypatch.setattr(module, "LOOK", 0.02)
    monkeypatch.setattr(module, "SHORT_LOOK", 0.01)


def send(connection: RemoteConnection, key: str = "k", queue: str = "orders") -> SentOnce:
    return connection.send_once(parse_destination(queue), Message(b"1"), OnceKey("shop", key, 60))


def notes(provider: LentProvider) -> list[str]:
    return [path.name for path in Path(provider.state("shop").path).glob("sent.d/new-*")]


@pytest.mark.parametrize("ends", ["done", "undone"])
def test_the_next_sender_knows_how_a_commit_without_an_answer_has_ended(
    provider: LentProvider, ends: str
) -> None:
    first = provider.connect()
    send(first, "earlier")
    provider.broker.lost_answers = [ends]
    with pytest.raises(ProviderError, match="the connection was lost in a commit"):
        send(first)
    assert len(notes(provider)) == 1
    second = provider.connect()
    assert (second.find_sent("shop", "k") is not None) is (ends == "done")
    answer = send(second)
    assert answer.is_new is (ends == "undone")
    assert ids(provider, "orders")[1:] == [answer.message_id]
    assert (len(ids(provider, SENT)), notes(provider)) == (1, [])
    second.close()


@pytest.mark.parametrize("commits", [True, False])
def test_while_a_commit_is_on_its_way_nobody_sends(provider: LentProvider, *, commits: bool) -> None:
    first = provider.connect()
    send(first, "earlier")
    provider.broker.lost_answers = ["late"]
    with pytest.raises(ProviderError, match="the connection was lost in a commit"):
        send(first)
    second = provider.connect()
    for _ in range(2):
        with pytest.raises(ProviderError, match=r"nobody knows yet whether .* 'k' was sent.*Try again"):
            send(second)
        with pytest.raises(ProviderError, match="nobody knows yet"):
            second.find_sent("shop", "k")
        with pytest.raises(ProviderError, match="nobody knows yet"):
            send(second, "another")
    provider.broker.late[0].end_late(commits=commits)
    answer = send(second)
    assert answer.is_new is not commits
    assert ids(provider, "orders")[1:] == [answer.message_id]
    second.close()


@contextmanager
def ending(provider: LentProvider, number: int, *, after: bool) -> Iterator[list[str]]:
    """Ends the connection at the operation of a number on its sessions. Yields those that came."""
    came: list[str] = []

    def wrap(name: str) -> Callable[..., Any]:
        method = getattr(BrokerSession, name)

        def call(self: BrokerSession, *arguments: Any) -> Any:
            came.append(name)
            is_it = len(came) == number
            if is_it and not after:
                self._connection.close()
            found = method(self, *arguments)
            if is_it and after:
                self._connection.close()
            return found

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("send", "receive", "commit"):
            patch.setattr(BrokerSession, name, wrap(name))
        yield came


@pytest.mark.parametrize("is_first", [True, False])
def test_a_connection_that_ends_at_any_step_costs_and_doubles_nothing(
    tmp_path: Path, *, is_first: bool
) -> None:
    with Table() as table:
        for number, after in [(number, after) for number in range(1, 12) for after in (False, True)]:
            with table.row(number, after):
                provider = LentProvider(tmp_path / f"{number}-{after}")
                first, second = provider.connect(), provider.connect()
                if not is_first:
                    send(second, "earlier")
                with ending(provider, number, after=after) as came:
                    try:
                        answer = send(first)
                    except ProviderError:
                        answer = None
                known = second.find_sent("shop", "k")
                last = send(second)
                assert ids(provider, "orders")[0 if is_first else 1 :] == [last.message_id]
                assert answer is None or answer.message_id == last.message_id
                assert last.is_new is (known is None)
                assert notes(provider) == []
                send(second, "later")
                assert len(ids(provider, SENT)) == 1
            steps = len(came)
    assert 4 <= steps < 11


@pytest.mark.process
@pytest.mark.parametrize("is_first", [True, False])
def test_after_a_kill_the_message_is_sent_once(root: Path, children: Children, *, is_first: bool) -> None:
    with Table() as table:
        for place in ("once.noted", "once.uncommitted", "once.committed"):
            with table.row(place):
                _check_kill(root / place, children, place, is_first=is_first)


def _check_kill(root: Path, children: Children, place: str, *, is_first: bool) -> None:
    root.mkdir()
    provider = LentProvider(root / "state")
    connection = provider.connect()
    if not is_first:
        send(connection, "earlier")
    given = root / "state", root / "socket"
    with serving(provider.broker, given[1]):
        status, _, errors = children.run(SENDER, *given, fault=f"{place}=kill")
        assert status == -signal.SIGKILL, errors
        assert len(notes(provider)) == 1
        for _ in range(2):
            status, out, errors = children.run(SENDER, *given)
            assert status == 0, errors
            assert ids(provider, "orders")[0 if is_first else 1 :] == [out.strip()]
    assert send(connection).is_new is False
    assert (len(ids(provider, SENT)), notes(provider)) == (1, [])


def test_a_queue_that_was_emptied_gets_a_new_mark(provider: LentProvider) -> None:
    connection = provider.connect()
    send(connection)
    provider.broker.queues[SENT].clear()
    assert send(connection, "another").is_new
    assert not send(connection).is_new
    assert (len(ids(provider, "orders")), len(ids(provider, SENT))) == (2, 1)


def test_an_emptied_queue_and_a_commit_without_an_answer_need_a_person(provider: LentProvider) -> None:
    first = provider.connect()
    send(first, "earlier")
    provider.broker.lost_answers = ["done"]
    with pytest.raises(ProviderError):
        send(first)
    provider.broker.queues[SENT].clear()
    second = provider.connect()
    with pytest.raises(ProviderError, match=r"If somebody has emptied the queue, remove /.*/sent\.d/new-"):
        send(second)
    (path,) = Path(provider.state("shop").path).glob("sent.d/new-*")
    path.unlink()
    assert send(second).is_new


def test_a_mark_that_comes_back_late_says_nothing(provider: LentProvider) -> None:
    """A transaction without a note is rolled back, whenever the broker sees that its client has ended."""
    dead, living = provider.connect(), provider.connect()
    send(living, "earlier")
    session = dead.broker.session()
    assert session.receiver(parse_destination(SENT), "", 100).receive(0.1)
    assert send(living).is_new
    session.close()
    provider.broker.lost_answers = ["done"]
    with pytest.raises(ProviderError):
        send(living, "lost")
    heir = provider.connect()
    assert not send(heir, "lost").is_new
    assert len(ids(provider, "orders")) == 3


@pytest.mark.parametrize("slow", [True, False])
def test_a_broker_that_is_silent_lets_nobody_send(provider: LentProvider, *, slow: bool) -> None:
    connection = provider.connect()
    send(connection, "earlier")
    provider.broker.slow.add(SENT)
    if slow:  # it answers who asks
        assert send(connection).is_new
    provider.broker.is_mute = True
    with pytest.raises(ProviderError, match="has not answered"):
        send(connection, "mute")
    provider.broker.is_mute = False
    assert send(connection, "mute").is_new
    assert len(ids(provider, "orders")) == 2 + slow


@pytest.mark.parametrize("refused", ["blocked", SENT])
def test_a_refusal_leaves_no_key_and_no_mark_that_is_put_aside(root: Path, refused: str) -> None:
    provider = LentProvider(root / "state")
    provider.broker.limit = 2
    connection = provider.connect()
    send(connection, "earlier")
    provider.broker.refused.add(refused)
    for _ in range(5):
        with pytest.raises(ProviderError, match="no right to send"):
            send(connection, queue="blocked")
    provider.broker.refused.clear()
    assert connection.find_sent("shop", "k") is None
    assert send(connection).is_new
    assert (ids(provider, "DLQ"), notes(provider)) == ([], [])


def test_commits_without_an_answer_put_no_mark_aside(root: Path) -> None:
    provider = LentProvider(root / "state")
    provider.broker.limit = 2
    send(provider.connect(), "earlier")
    for number in range(5):  # each after the first one finds out what became of the one before
        provider.broker.lost_answers = ["", "undone"] if number else ["undone"]
        with pytest.raises(ProviderError):
            send(provider.connect())
    assert send(provider.connect()).is_new
    assert (ids(provider, "DLQ"), len(ids(provider, "orders"))) == ([], 2)


def test_a_key_is_kept_where_the_answer_was_lost_after_the_commit(provider: LentProvider) -> None:
    connection = provider.connect()

    def fail() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(ProviderError, match="No space left"), at("once.committed", fail):
        send(connection)
    assert not send(connection).is_new
    assert len(ids(provider, "orders")) == 1


def test_the_survey_names_a_queue_that_cannot_be_used(provider: LentProvider) -> None:
    (found,) = provider.survey_once("shop")
    assert (found.able, found.needed) == (True, True)
    assert SENT in found.name
    provider.broker.refused.add(SENT)
    (found,) = provider.survey_once("shop")
    assert not found.able
    assert "no right to send" in found.text
    provider.broker.refused.clear()
    assert ids(provider, SENT) == []
