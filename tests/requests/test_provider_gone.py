"""The provider goes away, at each phase of a request, and comes back."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from connector.errors import ProviderError
from connector.messaging.provider import Connection
from connector.requests.client import RequestClient
from connector.requests.result import RequestResult
from connector.status import ReturnCode
from tests.requests.world import (
    LATE,
    PATIENCE,
    REPLIES,
    REQUESTS,
    Application,
    World,
    body_of,
    customer,
    done,
    is_greeted,
    watched,
)
from tests.waiting import wait_for

LONG = 600_000
"""ResponseTimeout of requests that are not to wait that long."""


def take_away(world: World) -> None:
    """Moves the root, as if it were not mounted any more."""
    os.rename(world.root, world.root.with_name("elsewhere"))


def bring_back(world: World) -> None:
    """Moves the root back. Nobody has made another in its place."""
    assert not world.root.exists()
    os.rename(world.root.with_name("elsewhere"), world.root)


@contextmanager
def away(world: World) -> Iterator[None]:
    """The root is not there meanwhile."""
    take_away(world)
    try:
        yield
    finally:
        bring_back(world)


def once(what: Callable[[], object]) -> Callable[[], bool]:
    """Does something the first time."""
    todo = [what]

    def do() -> bool:
        for first in todo[:1]:
            todo.clear()
            first()
        return True

    return do


def test_a_request_that_cannot_be_sent_says_so_also_the_first_of_a_client_and_the_next_works(
    dropbox: World,
) -> None:
    used, fresh = dropbox.client(), dropbox.client()
    assert used.request("Customer.Create", customer(0)).good
    with away(dropbox):
        for client in (used, fresh):
            for verb in ("Retrieve", "Create"):
                result = client.request(f"Customer.{verb}", customer(1), timeout=None)
                assert result.status is ReturnCode.APPRESPONSETIMEOUT
                assert str(dropbox.root) in (result.message or "")
    application = dropbox.application()
    for number, client in ((8, used), (9, fresh)):
        assert is_greeted(client.request("Customer.Retrieve", customer(number)), number)
    assert [body_of(request)["CustomerId"] for request in application.requests] == ["0", "8", "9"]


def test_who_waits_is_told_at_once_and_the_reply_that_comes_later_is_put_aside(dropbox: World) -> None:
    client = dropbox.client()
    future = client.request_async("Customer.Retrieve", customer(1), timeout=LONG)
    request = dropbox.request_on_queue()
    with away(dropbox):
        (result,) = done([future])
        assert result.status is ReturnCode.APPRESPONSETIMEOUT
        assert str(dropbox.root) in (result.message or "")
    assert dropbox.request_on_queue().message_id == request.message_id
    application = dropbox.application()
    assert is_greeted(client.request("Customer.Retrieve", customer(2)), 2)
    assert [body_of(one)["CustomerId"] for one in application.requests] == ["1", "2"]
    wait_for(lambda: len(dropbox.browse(LATE)) == 1, what="the reply to the first is put aside")
    (late,) = dropbox.browse(LATE)
    assert late.correlation_id == request.message_id
    assert late.properties["connector_outcome"] == "late_reply"
    assert dropbox.browse(REPLIES) == []


def test_a_provider_that_is_gone_when_the_time_is_up_is_no_reply_that_did_not_come(dropbox: World) -> None:
    """Such a request would only fail, were the provider there."""
    up = float("inf")
    go_away = once(lambda: take_away(dropbox))
    client = dropbox.client(
        connect=lambda: watched(dropbox.provider.connect(), lambda: time.monotonic() >= up and go_away())
    )
    data = customer(1, TimeoutFatal=False, TimeToLive="600000")
    assert client.request("Customer.Retrieve", data, timeout=1).status is ReturnCode.FAIL
    up = time.monotonic() + 0.3
    result = client.request("Customer.Retrieve", data, timeout=300)
    bring_back(dropbox)
    assert result.status is ReturnCode.APPRESPONSETIMEOUT
    assert str(dropbox.root) in (result.message or "")


def test_everybody_who_waits_is_told_once_in_threads_and_beyond_the_pool_too(dropbox: World) -> None:
    client = dropbox.client(pool_size=10)
    completed: list[int] = []
    called: list[RequestResult] = []
    calling = threading.Thread(
        target=lambda: called.append(client.request("Customer.Retrieve", customer(60), timeout=LONG))
    )
    calling.start()
    dropbox.request_on_queue()
    futures = []
    for number in range(60):
        future = client.request_async("Customer.Retrieve", customer(number), timeout=LONG)
        future.add_done_callback(lambda _, number=number: completed.append(number))  # type: ignore[misc]
        futures.append(future)
    dropbox.requests_on_queue(10)
    with away(dropbox):
        results = done(futures)
        calling.join(PATIENCE)
    assert {result.status for result in (*results, *called)} == {ReturnCode.APPRESPONSETIMEOUT}
    wait_for(lambda: len(completed) == 60, what="everybody is told")
    assert sorted(completed) == list(range(60))
    assert (len(called), len(dropbox.browse(REQUESTS))) == (1, 10)
    dropbox.application()
    assert is_greeted(client.request("Customer.Retrieve", customer(99)), 99)


def meddling(dropbox: World, phase: str) -> tuple[RequestClient, threading.Event]:
    """A client of which the root goes away once, when its first reply is read, or settled."""
    moved = threading.Event()

    def move() -> None:
        take_away(dropbox)
        moved.set()

    meddle = once(move)

    def connect() -> Connection:
        connection = dropbox.provider.connect()
        settle, access = connection.settle, connection.access

        def meddle_and_settle(settlements: Any = (), *arguments: Any, **options: Any) -> None:
            if settlements:
                meddle()
            settle(settlements, *arguments, **options)

        def meddle_and_read() -> Any:
            opened = access().open()
            load = opened.load
            opened.load = lambda *arguments: (meddle(), load(*arguments))[1]  # type: ignore[method-assign]
            return SimpleNamespace(open=lambda: opened)

        if phase == "settling":
            connection.settle = meddle_and_settle  # type: ignore[method-assign]
        else:
            connection.access = meddle_and_read  # type: ignore[method-assign]
        return connection

    return dropbox.client(connect=connect), moved


def test_a_reply_that_cannot_be_read_for_the_provider_is_a_failure_of_the_provider(dropbox: World) -> None:
    client, moved = meddling(dropbox, "reading")
    future = client.request_async("Customer.Retrieve", customer(1), timeout=LONG)
    request = dropbox.request_on_queue()
    dropbox.replying().reply(request, {"CustomerId": "1", "Name": "late"})
    assert moved.wait(PATIENCE)
    (result,) = done([future])
    bring_back(dropbox)
    assert result.status is ReturnCode.APPRESPONSETIMEOUT
    wait_for(lambda: len(dropbox.browse(LATE)) == 1, what="the reply is put aside when it can be read again")
    assert [body_of(message)["Name"] for message in dropbox.browse(LATE)] == ["late"]
    dropbox.application()
    assert is_greeted(client.request("Customer.Retrieve", customer(2)), 2)


def test_a_reply_that_was_read_is_the_answer_whatever_comes_after(dropbox: World) -> None:
    client, moved = meddling(dropbox, "settling")
    future = client.request_async("Customer.Retrieve", customer(1), timeout=LONG)
    request = dropbox.request_on_queue()
    dropbox.replying().reply(request, {"CustomerId": "1", "Name": "name of 1"})
    assert moved.wait(PATIENCE)
    (result,) = done([future])
    bring_back(dropbox)
    assert is_greeted(result, 1)
    wait_for(lambda: len(dropbox.browse(LATE)) == 1, what="it comes again, and is put aside")
    assert dropbox.browse(LATE)[0].properties["connector_outcome"] == "duplicate_reply"
    assert dropbox.browse(REPLIES) == []


def test_a_client_whose_connections_have_ended_makes_new_ones(world: World) -> None:
    made: list[Connection] = []

    def connect() -> Connection:
        made.append(world.provider.connect())
        return made[-1]

    client = world.client(connect=connect, reply_to=None)
    for number in range(3):
        future = client.request_async("Customer.Retrieve", customer(number), timeout=LONG)
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
    world.application()
    (result,) = done([client.request_async("Customer.Retrieve", customer(9))])
    assert is_greeted(result, 9)


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

    dropbox.application()
    result = dropbox.client(connect=connect).request("Customer.Retrieve", customer(1))
    assert failures == []
    assert is_greeted(result, 1), result.message


def test_requests_go_on_while_the_provider_comes_and_goes(dropbox: World) -> None:
    """Each completes once, with its own answer or none, and none that has its answer has another's."""
    stop = threading.Event()

    def application() -> None:
        """One that survives it as well."""
        while not stop.is_set():
            try:
                running = Application(dropbox.provider)
                wait_for(lambda running=running: stop.is_set() or not running.is_alive(), 600)  # type: ignore[misc]
                running.end()
            except ProviderError:
                wait_for(lambda: stop.is_set() or dropbox.root.exists(), 600)

    client = dropbox.client()
    thread = threading.Thread(target=application)
    thread.start()
    results: list[tuple[int, Any]] = []
    lock = threading.Lock()

    def call(first: int) -> None:
        number = first
        while not stop.is_set():
            result = client.request("Customer.Retrieve", customer(number), timeout=3000)
            with lock:
                results.append((number, result))
            number += 100

    callers = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for caller in callers:
        caller.start()

    def count(good: bool) -> int:
        with lock:
            return sum(result.good is good for _, result in results)

    def await_one(good: bool) -> None:
        before = count(good)
        wait_for(lambda: count(good) > before)

    for _ in range(4):
        await_one(good=True)
        with away(dropbox):
            await_one(good=False)
    await_one(good=True)
    stop.set()
    for caller in callers:
        caller.join()
    thread.join()
    assert len({number for number, _ in results}) == len(results)
    for number, result in results:
        assert is_greeted(result, number) or result.status is ReturnCode.APPRESPONSETIMEOUT
