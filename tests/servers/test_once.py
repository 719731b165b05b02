"""Sending once by key at real brokers: commits without an answer, and a broker that is killed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from connector.brokers.engine.connection import RemoteConnection
from connector.errors import ProviderError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.once import OnceKey, SentOnce
from tests.servers.broker import REFUSED
from tests.servers.commit_proxy import CommitProxy
from tests.servers.conftest import AT_ARTEMIS, AT_BROKER_J, in_turn
from tests.waiting import wait_for

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy

ORDERS = parse_destination("queue://orders")
SENT = "connector.shop.sent"


Connect = Callable[..., RemoteConnection]


@pytest.fixture
def fresh(broker: Broker) -> Iterator[Broker]:
    broker.empty()
    yield broker
    broker.empty()


@pytest.fixture
def connect(fresh: Broker, tmp_path: Path) -> Connect:
    """Connects clients that have one state directory. Takes the port of a proxy."""
    return lambda port=None: fresh.provider(port, state=tmp_path).connect()


def send(connection: RemoteConnection, key: str = "k", queue: str = "orders") -> SentOnce:
    once = OnceKey("shop", key, 600)
    return connection.send_once(parse_destination(f"queue://{queue}"), Message(b"1"), once)


def ids(connection: RemoteConnection, queue: str) -> list[str]:
    return [str(one.message_id) for one in connection.browse(parse_destination(f"queue://{queue}"))]


@in_turn("when", "after", "before", "late", "after", "before", "late", "never", "never")
def test_the_next_sender_knows_how_a_commit_without_an_answer_has_ended(
    fresh: Broker, connect: Connect, when: Any
) -> None:
    proxy = CommitProxy(fresh.port)
    first = connect(proxy.port)
    with contextlib.closing(connect()) as second, contextlib.closing(proxy):
        earlier = send(first, "earlier")
        proxy.cut_next("late" if when == "never" else when, behind=SENT)
        with pytest.raises(ProviderError):
            send(first)
        assert proxy.cuts == 1
        first.abandon()
        if when in ("late", "never"):
            with pytest.raises(ProviderError, match="nobody knows yet"):
                send(second)
            proxy.deliver() if when == "late" else proxy.drop()
        answers: list[SentOnce] = []

        def is_known() -> bool:
            with contextlib.suppress(ProviderError):  # the broker has not seen the end of the connection
                answers.append(send(second))
            return bool(answers)

        wait_for(is_known)
        assert answers[0].is_new is (when in ("before", "never"))
        assert ids(second, "orders") == [earlier.message_id, answers[0].message_id]
        assert not send(second).is_new
        assert len(ids(second, SENT)) == 1


def test_refusals_cost_no_mark(connect: Connect) -> None:
    """The broker allows 10 deliveries."""
    with contextlib.closing(connect()) as connection:
        send(connection, "earlier")
        for _ in range(12):
            with pytest.raises(ProviderError):
                send(connection, queue=REFUSED)
        assert connection.find_sent("shop", "k") is None
        assert send(connection).is_new
        assert (len(ids(connection, SENT)), ids(connection, "DLQ")) == (1, [])


@AT_BROKER_J
def test_keys_outlive_the_broker(fresh: Broker, connect: Connect) -> None:
    with contextlib.closing(connect()) as connection:
        answer = send(connection)
    fresh.kill()
    fresh.start()
    with contextlib.closing(connect()) as connection:
        assert send(connection) == answer._replace(is_new=False)
        assert send(connection, "another").is_new


def test_the_survey_uses_the_queue_and_leaves_nothing(fresh: Broker, connect: Connect) -> None:
    (found,) = fresh.provider().survey_once("shop")
    assert found.able, found.text
    with contextlib.closing(connect()) as connection:
        assert ids(connection, SENT) == []


@AT_ARTEMIS
def test_check_connect_tries_the_queue_where_a_timer_sends(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    name = f"queue queue://connector.{deployment.name}.sent, for messages that are sent once"
    assert name not in {one["ability"] for one in deployment.lines("check", "--connect")}
    text = (deployment.directory / "adapter.yaml").read_text()
    deployment.write("adapter.yaml", f"{text}timers: [{{name: a, every: 1m, to: 'queue://jobs', body: x}}]\n")
    found = {one["ability"]: one for one in deployment.lines("check", "--connect")}
    assert (found[name]["able"], found[name]["needed"]) == (True, True)
