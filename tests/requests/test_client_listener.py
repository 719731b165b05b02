"""The listener of a client: one thread takes all replies, and a provider that hangs holds nobody for ever."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from connector.requests.client import RequestClient
from connector.requests.settings import ListenerIntervals
from connector.status import ReturnCode
from tests.requests.world import LATE, PATIENCE, World, customer, done, is_greeted, watched
from tests.waiting import wait_for


def test_one_thread_takes_the_replies_of_all_callers(stored: World) -> None:
    looking: set[threading.Thread] = set()
    stored.application()
    client = stored.client(
        connect=lambda: watched(stored.provider.connect(), lambda: looking.add(threading.current_thread()))
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
def hanging(stored: World) -> Iterator[tuple[World, threading.Event, RequestClient]]:
    """A client of a provider that answers nothing from the moment when the event is set."""
    hangs, ends = threading.Event(), threading.Event()

    def look() -> None:
        if hangs.is_set():
            ends.wait(3 * PATIENCE)

    client = stored.client(
        connect=lambda: watched(stored.provider.connect(), look),
        pool_size=1,
        pool_timeout=0.2,
        intervals=ListenerIntervals(grace=0.2),
    )
    yield stored, hangs, client
    ends.set()


def test_a_provider_that_hangs_holds_no_request_beyond_its_time(
    hanging: tuple[World, threading.Event, RequestClient],
) -> None:
    world, hangs, client = hanging
    client.request("Customer.Retrieve", customer(0), timeout=0)
    hangs.set()
    awaiting = client.request_async("Customer.Retrieve", customer(1, TimeToLive="600000"), timeout=2000)
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
    request = world.request_on_queue()
    for number, text in enumerate(("late", "later"), 1):
        world.replying().reply(request, {"CustomerId": text})
        wait_for(lambda number=number: len(world.browse(LATE)) == number)  # type: ignore[misc]
    world.application()
    assert is_greeted(client.request("Customer.Retrieve", customer(2)), 2)
