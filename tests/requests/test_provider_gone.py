"""The provider goes away, at each phase of a request, and comes back."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from connector.businessobjects.definition import Verb
from connector.core.takeover import try_take_over
from connector.errors import ProviderError
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.requests.result import RequestResult
from connector.status import ReturnCode
from tests.brokers.engine.broker import BrokerError, BrokerSession
from tests.brokers.engine.provider import LentProvider
from tests.requests.world import (
    PATIENCE,
    REPLIES,
    REQUESTS,
    World,
    ask,
    body_of,
    customer,
    done,
    is_greeted,
    watched,
)
from tests.waiting import beside, wait_for

LONG = 600_000
"""ResponseTimeout of requests that are not to wait that long."""


class Root:
    """The root of a dropbox, which can be moved as if it were not mounted any more."""

    def __init__(self, world: World) -> None:
        self._path = world.root
        self._elsewhere = world.root.with_name("elsewhere")
        self.moved = threading.Event()

    def take_away(self) -> None:
        """Moves it, the first time."""
        if not self.moved.is_set():
            os.rename(self._path, self._elsewhere)
            self.moved.set()

    def bring_back(self) -> None:
        """Moves it back. Nobody has made another in its place."""
        assert not self._path.exists()
        os.rename(self._elsewhere, self._path)


@contextmanager
def away(world: World) -> Iterator[None]:
    """The root is not there meanwhile."""
    root = Root(world)
    root.take_away()
    try:
        yield
    finally:
        root.bring_back()


def is_gone(result: RequestResult, world: World) -> bool:
    """Whether the result says that the provider is gone."""
    return result.status is ReturnCode.APPRESPONSETIMEOUT and str(world.root) in (result.message or "")


def goes_on(world: World) -> None:
    """Checks that a new request of the first client is answered."""
    world.application()
    assert is_greeted(world.clients[0].request("Customer.Retrieve", customer(99)), 99)


def test_a_request_that_cannot_be_sent_says_so_also_the_first_of_a_client_and_the_next_works(
    dropbox: World,
) -> None:
    used, fresh = dropbox.client(), dropbox.client()
    assert used.request("Customer.Create", customer(0)).good
    with away(dropbox):
        for client in (used, fresh):
            for verb in ("Retrieve", "Create"):
                result = client.request(f"Customer.{verb}", customer(1), timeout=None)
                assert is_gone(result, dropbox)
                assert result.not_sent
    application = dropbox.application()
    for number, client in ((8, used), (9, fresh)):
        assert is_greeted(client.request("Customer.Retrieve", customer(number)), number)
    assert [body_of(request)["CustomerId"] for request in application.requests] == ["0", "8", "9"]


def test_who_waits_is_told_at_once_and_the_reply_that_comes_later_is_put_aside(dropbox: World) -> None:
    future = dropbox.client().request_async("Customer.Retrieve", customer(1), timeout=LONG)
    request = dropbox.request_on_queue()
    with away(dropbox):
        assert is_gone(done([future])[0], dropbox)
    assert dropbox.request_on_queue().message_id == request.message_id
    goes_on(dropbox)
    wait_for(lambda: len(dropbox.late) == 1, what="the reply to the first is put aside")
    (late,) = dropbox.late
    assert late.correlation_id == request.message_id
    assert late.properties["connector_outcome"] == "late_reply"
    assert dropbox.replies == []


def test_a_provider_that_is_gone_when_the_time_is_up_is_no_reply_that_did_not_come(dropbox: World) -> None:
    """Such a request would only fail, were the provider there."""
    up, root = float("inf"), Root(dropbox)

    def look() -> None:
        if time.monotonic() >= up:
            root.take_away()

    client = dropbox.client(connect=lambda: watched(dropbox.provider.connect(), look))
    data = customer(1, TimeoutFatal=False, TimeToLive="600000")
    assert client.request("Customer.Retrieve", data, timeout=1).status is ReturnCode.FAIL
    up = time.monotonic() + 0.3
    result = client.request("Customer.Retrieve", data, timeout=300)
    root.bring_back()
    assert is_gone(result, dropbox)


def test_everybody_who_waits_is_told_once_in_threads_and_beyond_the_pool_too(dropbox: World) -> None:
    client = dropbox.client(session_pool_size_for_requests=10)
    completed: list[int] = []
    futures = [beside(partial(client.request, timeout=LONG), "Customer.Retrieve", customer(60))]
    dropbox.request_on_queue()
    futures += [ask(client, number, timeout=LONG, told=completed) for number in range(60)]
    dropbox.requests_on_queue(10)
    with away(dropbox):
        results = done(futures)
    assert {result.status for result in results} == {ReturnCode.APPRESPONSETIMEOUT}
    wait_for(lambda: len(completed) == 60, what="everybody is told")
    assert sorted(completed) == list(range(60))
    assert len(dropbox.requests) == 10
    goes_on(dropbox)


def gone_at(dropbox: World, phase: str) -> RequestResult:
    """The result of a request during whose first reply the root goes away, when that is read, or settled."""
    root = Root(dropbox)

    def connect() -> Connection:
        connection = dropbox.provider.connect()
        settle, access = connection.settle, connection.access

        def meddle_and_settle(settlements: Any = (), *arguments: Any, **options: Any) -> None:
            if settlements:
                root.take_away()
            settle(settlements, *arguments, **options)

        def meddle_and_read() -> Any:
            opened = access().open()
            load = opened.load

            def meddle_and_load(reference: Any, max_body: int) -> Message:
                root.take_away()
                return load(reference, max_body)

            opened.load = meddle_and_load  # type: ignore[method-assign]
            return SimpleNamespace(open=lambda: opened)

        if phase == "settling":
            connection.settle = meddle_and_settle  # type: ignore[method-assign]
        else:
            connection.access = meddle_and_read  # type: ignore[method-assign]
        return connection

    future = dropbox.client(connect=connect).request_async("Customer.Retrieve", customer(1), timeout=LONG)
    dropbox.replying().reply(dropbox.request_on_queue(), {"CustomerId": "1", "Name": "name of 1"})
    assert root.moved.wait(PATIENCE)
    (result,) = done([future])
    root.bring_back()
    return result


def test_a_reply_that_cannot_be_read_for_the_provider_is_a_failure_of_the_provider(dropbox: World) -> None:
    assert gone_at(dropbox, "reading").status is ReturnCode.APPRESPONSETIMEOUT
    wait_for(lambda: len(dropbox.late) == 1, what="the reply is put aside when it can be read again")
    assert [body_of(message)["Name"] for message in dropbox.late] == ["name of 1"]
    goes_on(dropbox)


def test_a_reply_that_was_read_is_the_answer_whatever_comes_after(dropbox: World) -> None:
    assert is_greeted(gone_at(dropbox, "settling"), 1)
    wait_for(lambda: len(dropbox.late) == 1, what="it comes again, and is put aside")
    assert dropbox.late[0].properties["connector_outcome"] == "duplicate_reply"
    assert dropbox.replies == []


def test_a_client_whose_connections_have_ended_makes_new_ones(world: World) -> None:
    made: list[Connection] = []

    def connect() -> Connection:
        made.append(world.provider.connect())
        return made[-1]

    client = world.client(connect=connect, reply_to_destination=None)
    for number in range(3):
        future = ask(client, number, timeout=LONG)
        world.request_on_queue()
        for connection in made:
            connection.close()
        (result,) = done([future])
        assert result.status is ReturnCode.APPRESPONSETIMEOUT
        with world.session() as session:
            assert session.consumer(REQUESTS).receive(120.0) is not None
        client.request("Customer.Create", customer("lost"))  # may find the sender's connection closed
        client.request("Customer.Retrieve", customer("lost"), timeout=0)
        with world.session() as session:
            while session.consumer(REQUESTS).receive(0.05) is not None:
                pass
    goes_on(world)


def test_a_provider_that_was_away_for_a_moment_refuses_no_reply_destination(
    dropbox: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = ["the root is gone"]

    def connect() -> Connection:
        made = dropbox.provider.connect()
        make = made.poller

        def poller(source: Any, *arguments: Any, **options: Any) -> Any:
            if source == REPLIES and failures:
                raise ProviderError(failures.pop())
            return make(source, *arguments, **options)

        monkeypatch.setattr(made, "poller", poller)
        return made

    dropbox.client(connect=connect)
    goes_on(dropbox)
    assert failures == []


def test_a_takeover_from_dead_clients_that_fails_is_tried_again(
    dropbox: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def leftovers(*_: object, **__: object) -> object:
        raise ProviderError("the root is gone")

    monkeypatch.setattr(dropbox.looking, "leftovers", leftovers)
    try_take_over(dropbox.looking, at_start=True)
    assert "taking over from dead clients failed and is tried again" in caplog.messages


# -- reply destinations of a broker, which outlast a connection ----------------------------------------------

BROKERED = pytest.mark.parametrize("world", ["broker"], indirect=True)


def end_connections(world: World) -> None:
    """Ends all connections of the first client, as a network does."""
    assert isinstance(world.provider, LentProvider)
    kept = {id(world.looking.broker._connection)}  # type: ignore[attr-defined]
    for connection in tuple(world.provider.broker.connections):
        if id(connection) not in kept:
            connection.close()


@BROKERED
def test_a_call_at_a_reply_destination_outlasts_its_connection_and_a_late_reply_is_put_aside(
    world: World,
) -> None:
    client = world.client(Verb("Find", "response_selector=Who = '{1}':Name"))
    assert not client.request("Customer.Retrieve", customer(0, TimeToLive="600000"), timeout=50).good
    futures = [
        ask(client, 1, timeout=LONG),
        client.request_async("Customer.Find", {"CustomerId": "2", "Name": "two"}, timeout=LONG),
    ]
    requests = {body_of(request)["CustomerId"]: request for request in world.requests_on_queue(3)}
    for _ in range(2):
        end_connections(world)
        assert not client.request("Customer.Retrieve", customer("new"), timeout=50).good  # it connects anew
    replying = world.replying()
    replying.reply(requests["0"], {"CustomerId": "0", "Name": "late"})
    replying.reply(requests["1"], {"CustomerId": "1", "Name": "name of 1"})
    replying.reply(
        requests["2"], {"CustomerId": "2", "Name": "2"}, correlation_id="", properties={"Who": "two"}
    )
    by_id, by_selector = done(futures)
    assert is_greeted(by_id, 1)
    assert by_selector.object["Name"] == "2"
    wait_for(lambda: len(world.late) == 1, what="the late reply is put aside")
    assert [body_of(message)["Name"] for message in world.late] == ["late"]
    assert world.replies == []


@BROKERED
def test_a_reply_is_put_aside_whose_request_or_whose_settlement_had_no_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(world.provider, LentProvider)
    commit, losing = BrokerSession.commit, [True]

    def commit_and_lose(self: BrokerSession) -> None:
        is_request = any(queue == REQUESTS.name for queue, _ in self._sent)
        commit(self)
        if is_request and losing:
            losing.clear()
            self._connection.close()
            raise BrokerError("the answer is lost")

    monkeypatch.setattr(BrokerSession, "commit", commit_and_lose)
    client = world.client()
    lost = client.request("Customer.Retrieve", customer(1, TimeToLive="600000"), timeout=LONG)
    assert lost.status is ReturnCode.APPRESPONSETIMEOUT
    replying = world.replying()
    replying.reply(world.request_on_queue(), {"CustomerId": "1", "Name": "name of 1"})
    wait_for(lambda: len(world.late) == 1, what="the reply to a request that may have been sent")
    answered = ask(client, 2, timeout=LONG)
    world.provider.broker.lost_answers.append("undone")
    replying.reply(world.requests_on_queue(2)[1], {"CustomerId": "2", "Name": "name of 2"})
    assert is_greeted(done([answered])[0], 2)
    wait_for(lambda: len(world.late) == 2, what="the reply that came again")
    outcomes = [message.properties["connector_outcome"] for message in world.late]
    assert outcomes == ["late_reply", "duplicate_reply"]
    assert world.replies == []
