"""Only an answer of the broker says that there is nothing."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from connector.brokers.engine import lots
from connector.brokers.engine.broker import Received
from connector.brokers.engine.client import BrokerMessagingConnection
from connector.brokers.engine.silence import BrokerSilent
from connector.brokers.jms import browsing
from connector.errors import ClaimLost, ProviderError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.retention import Retention
from connector.messaging.settlement import Settlement
from connector.operate.replay import MessageChoice, Mover, Replay, carry_out
from connector.status import ReturnCode
from connector.testing.deployment import Deployment
from tests.brokers.engine.broker import BrokerSession
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.test_open_settlements import be_silent, speak
from tests.brokers.engine.world import deploy, ids, running, send
from tests.tables import Table
from tests.waiting import wait_for

ORDERS, ARCHIVE, PROGRESS = map(parse_destination, ("queue://orders", "queue://archive", "queue://progress"))
HELD, LATER, LOTS = "connector.shop.held", "connector.lent.later", "connector.shop.lots"


def put(provider: LentProvider, *bodies: bytes, queue: str = "orders") -> list[str]:
    with contextlib.closing(provider.connect()) as connection:
        return connection.send(parse_destination(f"queue://{queue}"), [Message(body) for body in bodies])


def test_a_question_without_an_answer_is_an_error_for_everybody_who_asks(provider: LentProvider) -> None:
    put(provider, b"1")
    first = provider.connect("shop", "one")
    assert first.lots.claim(ORDERS, "name", 1) is not None
    first.close()
    connection = provider.connect("shop", "one")
    program = BrokerMessagingConnection(provider)
    consumer = program.session().consumer("queue://orders")
    provider.broker.is_mute = True
    questions: dict[str, Callable[[], Any]] = {
        "marks of commits": lambda: connection.committed_cycles("b0"),
        "clients with marks": connection.marked_clients,
        "removal of marks": lambda: connection.remove_markers("b0"),
        "announcement": lambda: connection.announce(None),
        "messages in progress at the start": lambda: connection.announce(PROGRESS),
        "messages without an owner": lambda: connection.find_unowned(PROGRESS),
        "held messages": lambda: connection.poller(ORDERS).claim(1, range(1)),
        "messages that come again later": lambda: list(connection.browse(ORDERS, delayed=True)),
        "browse": lambda: list(connection.browse(ORDERS)),
        "owners": lambda: connection.owners(ORDERS),
        "messages of an operator": lambda: connection.picker(ORDERS, bool).claim(1, range(1)),
        "lot": lambda: connection.lots.claim(ORDERS, "name", 1),
        "lots": connection.destinations,
        "old copies": lambda: connection.prune([Retention(ARCHIVE, seconds=1.0)]),
        "receive": lambda: consumer.receive(timeout=0),
        "messages": lambda: list(consumer.messages(timeout=0)),
    }
    with Table() as table:
        for name, ask in questions.items():
            with table.row(name), pytest.raises(BrokerSilent):
                ask()
    provider.broker.is_mute = False
    program.close()


# -- a queue whose messages are long on their way ------------------------------------------------------------


def test_a_program_that_does_not_wait_gets_what_is_there(provider: LentProvider) -> None:
    provider.broker.slow.add("orders")
    sent = put(provider, b"1", b"2", b"3", b"4")
    with BrokerMessagingConnection(provider) as connection, connection.session() as session:
        consumer = session.consumer("queue://orders")
        first, second = consumer.receive(timeout=0), consumer.receive_nowait()
        found = [first, second, *consumer.messages(timeout=0)]
        assert [one.message_id for one in found if one is not None] == sent
        assert consumer.receive(timeout=0.01) is None, "who waits gets what comes"


@pytest.mark.parametrize("in_progress", [False, True])
def test_an_adapter_that_empties_its_inputs_asks(
    tmp_path: Path, provider: LentProvider, in_progress: bool
) -> None:
    keys: dict[str, Any] = {"InProgressDestination": str(PROGRESS), "DuplicateEventElimination": False}
    deployment = deploy(tmp_path, **(keys if in_progress else {}))
    sent = send(provider, "", "")
    provider.broker.slow |= {"customers", "urgent"}
    with running(deployment, provider) as adapter:
        adapter.drain()
    assert ids(provider, "archive") == sent


def test_events_that_come_again_later_come(tmp_path: Path, provider: LentProvider) -> None:
    deployment = deploy(tmp_path, store={"retry_later": {"first": "1ms", "most": "1ms", "attempts": 9}})
    deployment.write("away", "")
    provider.broker.slow.add(LATER)
    with running(deployment, provider) as adapter:
        sent = send(provider, "away")
        adapter.poll()
        (deployment.directory / "away").unlink()
        wait_for(lambda: adapter.drain().code is ReturnCode.SUCCEED and ids(provider, "archive"))
    assert ids(provider, "archive") == sent


def test_a_lot_has_all_that_waits(provider: LentProvider) -> None:
    provider.broker.slow.add("orders")
    put(provider, b"1", b"2")
    lot = provider.connect("shop", "one").lots.claim(ORDERS, "name", 9)
    assert lot is not None
    assert len(lot.claims) == 2


def test_old_copies_are_removed(tmp_path: Path, provider: LentProvider) -> None:
    send(provider, "")
    with running(deploy(tmp_path), provider) as adapter:
        adapter.drain()
    provider.broker.slow.add("archive")
    pruned = provider.connect("lent", "two").prune([Retention(ARCHIVE, seconds=0.0)])
    assert pruned.copies == {ARCHIVE: 1}


# -- a queue that shows messages and gives none --------------------------------------------------------------


@pytest.mark.parametrize("is_slow", [False, True])
def test_held_messages_come_first_however_late(root: Path, is_slow: bool) -> None:
    provider = LentProvider(root / "state", redelivery_limit=2)
    provider.broker.limit = 2
    sent = put(provider, b"a")
    connection = provider.connect("shop", "one")
    poller = connection.poller(ORDERS)
    connection.settle([Settlement(claim, give_back=True) for claim in poller.claim(1, range(1))])
    assert len(provider.broker.waiting(HELD)) == 1
    sent += put(provider, b"b")
    if is_slow:
        provider.broker.slow.add(HELD)
    else:
        be_silent(provider, HELD)
        for cycle in range(2, 5):
            assert poller.claim(cycle, range(1)) == []
            assert poller.obstacle == f"held messages do not come from queue://{HELD}"
        poller.asks = True
        with pytest.raises(BrokerSilent, match="held messages do not come"):
            poller.claim(5, range(1))
        poller.asks = False
        speak(provider)
    found = []
    for cycle in range(6, 8):
        (claim,) = poller.claim(cycle, range(1))
        connection.settle([Settlement(claim)])
        found.append(claim.message_id)
    assert (found, poller.obstacle) == (sent, "")


def test_an_operator_is_told_that_messages_do_not_come(
    tmp_path: Path, provider: LentProvider, deployment: Deployment
) -> None:
    sent = send(provider, "fail")
    with running(deployment, provider) as adapter:
        adapter.drain()
    error = parse_destination("queue://error")

    def replay() -> Any:
        mover = Mover(error, MessageChoice(), Replay(error))
        return carry_out(provider, "lent", mover, yes=True, note=lambda _: None)

    be_silent(provider, "error")
    with pytest.raises(BrokerSilent, match="messages of queue://error do not come"):
        replay()
    speak(provider)
    provider.broker.slow.add("error")
    assert replay().moved == 1
    assert ids(provider, "customers") == sent


def test_copies_of_a_lot_are_gone_only_if_the_broker_shows_none(
    provider: LentProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lots, "ANSWER", 0.1)
    put(provider, b"1")
    connection = provider.connect("shop", "one")
    lot = connection.lots.claim(ORDERS, "name", 1)
    assert lot is not None
    outcomes = [Settlement(claim, ARCHIVE) for claim in lot.claims]
    provider.broker.is_silent = lambda queue, message: queue == LOTS and bool(message.body)
    with pytest.raises(ProviderError, match="do not come") as told:
        lot.settle(outcomes)
    assert not isinstance(told.value, ClaimLost)
    be_silent(provider, LOTS)
    with pytest.raises(ProviderError, match=r"does not come|do not come"):
        lot.settle(outcomes)
    speak(provider)
    lot.settle(outcomes)
    assert len(ids(provider, "archive")) == 1


# -- the browsers of a client library ------------------------------------------------------------------------


class _JmsConnectionFailedException(Exception):
    getCause = staticmethod(lambda: None)

    def getClass(self) -> Any:
        return SimpleNamespace(getName=lambda: type(self).__name__)

    def getMessage(self) -> str:
        return "the peer is gone"


class _Library:
    """A client library whose browsers show messages, and then say no without an answer, or with one.

    Args:
        answers: of each browser: the ids of the messages, and whether the broker answers after them. None =
            too much comes.
    """

    def __init__(self, *answers: tuple[str, bool | None]) -> None:
        self._answers = list(answers)
        self.seconds: list[float] = []
        self.has_ended = False

    def connect(self, seconds: float) -> Any:
        self.seconds.append(seconds)
        return SimpleNamespace(
            plain_session=lambda: SimpleNamespace(createBrowser=self._browser, close=lambda: None),
            destinations=SimpleNamespace(find=lambda _: True),
            making=contextlib.nullcontext(),
            errors=lambda _: contextlib.nullcontext(),
            reader=SimpleNamespace(read=lambda body, _: Received(Message(b"", message_id=body), 0)),
            failure=None,
            java=SimpleNamespace(getClientID=self._client_id),
            jpype=SimpleNamespace(JException=_JmsConnectionFailedException),
            jms=SimpleNamespace(InvalidDestinationException=KeyError),
        )

    def _client_id(self) -> str:
        if self.has_ended:
            raise _JmsConnectionFailedException
        return ""

    def _browser(self, *_: object) -> Any:
        ids, is_answered = self._answers.pop(0)
        left = list(ids)

        def has_more() -> bool:
            if not left and is_answered is None:
                raise ProviderError("the connection has failed: Java heap space")
            if not left and not is_answered:
                self.time += 60.0
            return bool(left)

        enumeration = SimpleNamespace(hasMoreElements=has_more, nextElement=lambda: left.pop(0))
        return SimpleNamespace(getEnumeration=lambda: enumeration)

    time = 0.0


@pytest.mark.parametrize(
    ("answers", "shown", "seconds"),
    [
        ([("ab", True)], "ab", [25.0]),
        ([("ab", False), ("abc", True)], "abc", [25.0, 30.0]),
        ([("", False), ("aab", True)], "aab", [25.0, 30.0]),
        ([("a", None), ("ab", True)], "ab", [25.0, 30.0]),
        ([("aa", False), ("aaab", True)], "aaab", [25.0, 30.0]),
        ([("a", False), ("ab", False)], None, [25.0, 30.0]),
        ([("", False), ("", False)], None, [25.0, 30.0]),
    ],
)
def test_a_browser_without_an_answer_asks_once_more(
    monkeypatch: pytest.MonkeyPatch,
    answers: list[tuple[str, bool | None]],
    shown: str | None,
    seconds: list[float],
) -> None:
    """Qpid JMS calls it the end when nobody has answered."""
    library = _Library(*answers)
    monkeypatch.setattr(browsing, "time", SimpleNamespace(monotonic=lambda: library.time))
    context = pytest.raises(BrokerSilent) if shown is None else contextlib.nullcontext()
    with context:
        found = browsing.JmsBrowsers(library.connect).browse(ORDERS, "")
        assert "".join(str(one.message_id) for one in found) == shown
    assert library.seconds == seconds


def test_a_browser_does_not_end_with_its_connection() -> None:
    library = _Library(("a", True))
    found = browsing.JmsBrowsers(library.connect).browse(ORDERS, "")
    assert next(found).message_id == "a"
    library.has_ended = True
    with pytest.raises(_JmsConnectionFailedException):
        next(found)


def test_a_connection_to_a_slow_broker_closes_as_a_whole(
    provider: LentProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each session waits for an answer, which comes late or never, until the connection has ended."""
    monkeypatch.setattr("connector.brokers.engine.connection.CLOSE", 0.05)
    connection = provider.connect("shop", "one")
    for number in range(3):
        connection.poller(parse_destination(f"queue://orders.{number}"))
    ended = threading.Event()
    end = connection.broker.close

    def close() -> None:
        ended.set()
        end()

    monkeypatch.setattr(connection.broker, "close", close)
    waits: list[bool] = []
    monkeypatch.setattr(BrokerSession, "rollback", lambda session: waits.append(ended.wait(120)))
    connection.close()
    assert len(waits) >= 3
    assert all(waits)
