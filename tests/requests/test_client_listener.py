"""The listener of a client: one thread takes all replies, and a provider that hangs holds nobody for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from connector.messaging.provider import Connection
from connector.requests.settings import ListenerIntervals
from connector.status import ReturnCode
from tests.requests.world import LATE, PATIENCE, REQUESTS, World, customer, done, is_greeted
from tests.waiting import wait_for


class Watched:
    """A real connection that calls a function before each look for messages."""

    def __init__(self, connection: Connection, look: Callable[[], object]) -> None:
        self._connection = connection
        self._look = look

    def poller(self, *arguments: Any, **options: Any) -> Any:
        poller = self._connection.poller(*arguments, **options)
        claim = poller.claim

        def look_and_claim(*arguments: Any) -> Any:
            self._look()
            return claim(*arguments)

        poller.claim = look_and_claim  # type: ignore[method-assign]
        return poller

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_one_thread_takes_the_replies_of_all_callers(stored: World) -> None:
    looking: set[threading.Thread] = set()
    stored.application()
    client = stored.client(
        connect=lambda: Watched(  # type: ignore[arg-type, return-value]
            stored.provider.connect(), lambda: looking.add(threading.current_thread())
        )
    )
    results: dict[int, bool] = {}

    def ask(number: int) -> None:
        results[number] = is_greeted(client.request("Customer.Retrieve", customer(number)), number)

    ask(0)
    callers = [threading.Thread(target=ask, args=(number,)) for number in range(1, 10)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert results == dict.fromkeys(range(10), True)
    assert [thread.name for thread in looking] == ["connector-replies"]


@pytest.fixture
def hanging(stored: World) -> Iterator[tuple[World, threading.Event, Any]]:
    """A client of a provider that answers nothing from the moment when the event is set."""
    hangs, ends = threading.Event(), threading.Event()

    def look() -> None:
        if hangs.is_set():
            ends.wait(3 * PATIENCE)

    def connect() -> Any:
        return Watched(stored.provider.connect(), look)

    yield (
        stored,
        hangs,
        stored.client(connect=connect, pool_size=1, pool_timeout=0.2, intervals=ListenerIntervals(grace=0.2)),
    )
    ends.set()


def test_a_provider_that_hangs_holds_no_request_beyond_its_time(
    hanging: tuple[World, threading.Event, Any],
) -> None:
    world, hangs, client = hanging
    client.request("Customer.Retrieve", customer(0), timeout=0)
    hangs.set()
    awaiting = client.request_async("Customer.Retrieve", customer(1), timeout=3000)
    world.requests_on_queue(2)
    refused = client.request_async("Customer.Retrieve", customer(2))
    answers = done([awaiting, refused])
    assert [answer.status for answer in answers] == [ReturnCode.APPRESPONSETIMEOUT, ReturnCode.FAIL]
    assert "has not answered" in (answers[0].message or "")
    assert answers[1].not_sent
    assert client.request("Customer.Retrieve", customer(3), timeout=0).status is ReturnCode.APPRESPONSETIMEOUT


def test_an_idle_listener_takes_late_replies_and_new_ones(world: World) -> None:
    client = world.client(intervals=ListenerIntervals(idle=0.05))
    client.request("Customer.Retrieve", customer(1), timeout=0)
    (request,) = world.requests_on_queue(1, REQUESTS)
    world.replying().reply(request, {"CustomerId": "late"})
    wait_for(lambda: len(world.browse(LATE)) == 1)
    world.replying().reply(request, {"CustomerId": "later"})
    wait_for(lambda: len(world.browse(LATE)) == 2)
    world.application()
    assert is_greeted(client.request("Customer.Retrieve", customer(2)), 2)
