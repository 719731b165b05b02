"""How many requests are in flight, how long they wait and what that costs, and what a stop makes of them."""

from __future__ import annotations

import gc
import itertools
import threading
import time
from functools import partial

import pytest

from connector.messaging.client import ReceivedMessage
from connector.messaging.destination import parse_destination
from connector.messaging.provider import Connection
from connector.requests.pending import Call
from connector.requests.result import RequestResult
from connector.requests.settings import ListenerIntervals
from connector.status import ReturnCode
from tests.brokers.engine.provider import LentProvider
from tests.requests.world import (
    IN_MEMORY,
    PATIENCE,
    Replying,
    World,
    all_greeted,
    ask,
    body_of,
    customer,
    done,
    greet,
    is_greeted,
    watched,
)
from tests.waiting import beside, now_ms, until_past, wait_for


@IN_MEMORY
def test_never_more_requests_are_in_flight_than_the_pool_has_sessions(world: World) -> None:
    client = world.client(session_pool_size_for_requests=5)
    futures = [ask(client, number) for number in range(40)]
    world.requests_on_queue(5)
    wait_for(lambda: client._slots.waiting == 35)
    assert len(world.requests) == 5
    unanswered: list[int] = []

    def answer(request: ReceivedMessage, replying: Replying) -> None:
        unanswered.append(1 + len(world.requests))  # this one is taken, and has no answer yet
        greet(request, replying)

    world.application(answer)
    assert all_greeted(futures)
    assert max(unanswered) == 5


@IN_MEMORY
def test_who_asks_again_when_a_future_completes_keeps_no_other_from_its_turn(world: World) -> None:
    """More than there are threads that complete futures, while all of the pool is in use."""
    world.application()
    client = world.client(session_pool_size_for_requests=2)
    asked_again: list[RequestResult] = []
    futures = []
    for number in range(40):
        future = ask(client, number)
        future.add_done_callback(
            lambda _: asked_again.append(client.request("Customer.Retrieve", customer("again")))
        )
        futures.append(future)
    assert all_greeted(futures)
    wait_for(lambda: len(asked_again) == 40, what="each has asked again")
    assert all(is_greeted(result, "again") for result in asked_again)


@IN_MEMORY
def test_a_request_that_may_not_be_sent_in_time_is_not_sent(world: World) -> None:
    client = world.client(session_pool_size_for_requests=1, pool_timeout=0.2)
    first = ask(client, 1)
    world.request_on_queue()
    begun = time.monotonic()
    results = [client.request("Customer.Retrieve", customer(2)), *done([ask(client, 3)])]
    assert time.monotonic() - begun >= 0.4
    assert [(result.status, result.not_sent) for result in results] == [(ReturnCode.FAIL, True)] * 2
    assert all("SessionPoolSizeForRequests" in (result.message or "") for result in results)
    assert client.request("Customer.Create", customer(4)).good  # it awaits nothing, and needs no turn
    assert done([client.request_async("Customer.Create", customer(5))])[0].good
    application = world.application()
    assert is_greeted(first.result(), 1)
    wait_for(lambda: world.requests == [], what="all are taken")
    assert [body_of(request)["CustomerId"] for request in application.requests] == ["1", "4", "5"]


@IN_MEMORY
def test_a_request_waits_at_least_as_long_as_it_is_told_to(world: World) -> None:
    client = world.client()
    for timeout in (0, 1, 60, 400):
        begun = time.monotonic()
        result = client.request("Customer.Retrieve", customer(1), timeout=timeout)
        assert (result.status, result.not_sent) == (ReturnCode.APPRESPONSETIMEOUT, False)
        assert time.monotonic() - begun >= timeout / 1000


def test_a_request_expires_with_its_time_to_live_else_with_its_timeout_else_never(world: World) -> None:
    client = world.client()
    cases: list[tuple[dict[str, str], int | None, int]] = [
        # the meta-object, the timeout of the call, and the milliseconds after which the request expires
        *(({}, 0, 0), ({}, 70_000, 70_000), ({"ResponseTimeout": "70000"}, None, 70_000)),
        *(({"TimeToLive": str(lives)}, t, lives) for lives in (90_000, 0) for t in (-1, 0, 70_000)),
    ]
    for number, (meta, timeout, lives) in enumerate(cases):
        queue = parse_destination(f"queue://requests-{number}")
        before = now_ms()
        client.request_async(
            "Customer.Retrieve", customer(1, OutputDestination=str(queue), **meta), timeout=timeout
        )
        expiration = world.request_on_queue(queue).expiration
        assert before + lives <= expiration <= now_ms() + lives if lives else expiration == 0, (meta, timeout)


@IN_MEMORY
def test_requests_that_have_ended_are_not_kept_until_their_time_is_up(world: World) -> None:
    """Also where one that waits longer than all of them keeps the first place."""

    def all_but_one(request: ReceivedMessage, replying: Replying) -> None:
        if body_of(request)["CustomerId"] != "waits":
            greet(request, replying)

    world.application(all_but_one)
    client = world.client()
    ask(client, "waits", timeout=600_000)
    for first in range(0, 1600, 40):
        done([ask(client, n, timeout=1_200_000) for n in range(first, first + 40)])
    gc.collect()
    assert sum(isinstance(one, Call) for one in gc.get_objects()) < 1200


def test_many_requests_that_wait_cost_the_processor_next_to_nothing(world: World) -> None:
    client = world.client(session_pool_size_for_requests=300)
    futures = [ask(client, number, timeout=600_000) for number in range(300)]
    world.requests_on_queue(300)

    def is_at_rest() -> bool:
        used = time.process_time()
        time.sleep(0.5)  # only real time shows what it costs
        return time.process_time() - used < 0.1

    wait_for(is_at_rest)
    assert not any(future.done() for future in futures)


def test_the_time_to_expire_begins_when_a_request_is_sent_not_when_it_is_made(stored: World) -> None:
    connected: list[int] = []

    def slowly() -> Connection:
        until_past(now_ms() + 300)
        connected.append(now_ms())
        return stored.provider.connect()

    client = stored.client(connect=slowly)
    client.request("Customer.Retrieve", customer(1), timeout=100)
    (request,) = stored.requests or stored.browse(parse_destination("queue://requests~EXPIRED"))
    assert request.expiration >= connected[0] + 100


def test_a_provider_that_hangs_holds_no_request_beyond_its_time(stored: World) -> None:
    hangs, ends = threading.Event(), threading.Event()

    def hang() -> None:
        if hangs.is_set():
            ends.wait(3 * PATIENCE)

    client = stored.client(
        connect=lambda: watched(stored.provider.connect(), hang),
        session_pool_size_for_requests=1,
        pool_timeout=0.2,
        intervals=ListenerIntervals(grace=0.2),
    )
    client.request("Customer.Retrieve", customer(0), timeout=0)
    hangs.set()
    try:
        data = customer(1, TimeToLive="600000")
        awaiting = client.request_async("Customer.Retrieve", data, timeout=2000)
        stored.requests_on_queue(2)
        refused = ask(client, 2)
        answers = done([awaiting, refused])
        assert [answer.status for answer in answers] == [ReturnCode.APPRESPONSETIMEOUT, ReturnCode.FAIL]
        assert "has not answered" in (answers[0].message or "")
        assert answers[1].not_sent
        late = client.request("Customer.Retrieve", customer(3), timeout=0)
        assert late.status is ReturnCode.APPRESPONSETIMEOUT
    finally:
        ends.set()


# -- a stop: each completes, and nothing is sent any more -------------------------------------------------


def test_a_stop_completes_what_is_in_flight_and_what_waits_once_each(world: World) -> None:
    client = world.client(session_pool_size_for_requests=4)
    completed: list[int] = []
    futures = [ask(client, number, told=completed) for number in range(10)]
    world.requests_on_queue(4)
    client.stop(0.2)
    assert sorted(completed) == list(range(10))
    results = done(futures, 0.0)
    assert [result.not_sent for result in results] == [False] * 4 + [True] * 6
    assert {result.status for result in results[4:]} == {ReturnCode.FAIL}
    assert not any(result.good for result in results)
    assert all(result.message for result in results)
    assert len(world.requests) == 4


def test_a_stop_waits_for_nothing_whatever_the_listener_is_doing(world: World) -> None:
    """Neither for the next look of the listener."""
    for number in range(12):
        client = world.client(intervals=ListenerIntervals(idle=600.0, grace=600.0, takeover=600.0))
        client.request("Customer.Retrieve", customer(number), timeout=0)
        for _ in range(number % 6):
            client.request("Customer.Create", customer(number))
        beside(client.stop).result(120)


@pytest.mark.parametrize("way", ["stop", "refuse"])
@IN_MEMORY
def test_what_waits_for_its_turn_is_told_at_once_though_what_is_in_flight_has_its_reply(
    world: World, way: str
) -> None:
    client = world.client(session_pool_size_for_requests=1)
    flying = ask(client, 0)
    request = world.request_on_queue()
    waiting = [ask(client, number) for number in range(5)]
    stopping = beside(partial(client.stop, 120.0) if way == "stop" else client.refuse)
    for result in done(waiting):
        assert (result.status, result.not_sent) == (ReturnCode.FAIL, True)
    assert client.request("Customer.Create", customer(3)).not_sent
    assert not flying.done()
    world.replying().reply(request, {"CustomerId": "0", "Name": "name of 0"})
    assert all_greeted([flying])
    stopping.result(120)
    assert len(world.requests) == 1


@pytest.mark.parametrize("world", ["broker"], indirect=True)
def test_a_request_to_a_full_queue_ends_with_its_response_timeout_and_is_never_sent(world: World) -> None:
    assert isinstance(world.provider, LentProvider)
    broker = world.provider.broker
    client = world.client()
    broker.without_room.add("requests")
    results = [client.request("Customer.Retrieve", customer(n), timeout=100) for n in range(3)]
    assert [(result.status, result.not_sent) for result in results] == [(ReturnCode.FAIL, True)] * 3
    for result in results:
        assert "queue://requests has not taken it within 1 s (ResponseTimeout)" in str(result.message)
    patient = ask(client, 4)
    broker.make_room()
    application = world.application()
    (result,) = done([patient])
    assert is_greeted(result, 4)
    assert [body_of(request)["CustomerId"] for request in application.requests] == ["4"]


@IN_MEMORY
def test_nothing_is_sent_after_a_stop(world: World) -> None:
    world.application()
    client, unused = world.client(), world.client()
    assert is_greeted(client.request("Customer.Retrieve", customer(1)), 1)
    client.stop()
    client.stop()
    unused.stop(1.0)
    for one in (client, unused):
        for verb in ("Retrieve", "Create"):
            called = one.request(f"Customer.{verb}", customer(2))
            for result in (called, *done([one.request_async(f"Customer.{verb}", customer(2))])):
                assert (result.status, result.not_sent) == (ReturnCode.FAIL, True)
    assert world.requests == world.replies == []


@IN_MEMORY
def test_callers_in_threads_of_their_own_all_return_when_the_client_stops(world: World) -> None:
    world.application()
    client = world.client(session_pool_size_for_requests=4)
    results: list[tuple[int, RequestResult]] = []

    def call(first: int) -> None:
        for number in itertools.count(first, 100):
            result = client.request("Customer.Retrieve", customer(number), timeout=600_000)
            results.append((number, result))
            if not result.good:
                return

    calling = [beside(call, number) for number in range(30)]
    wait_for(lambda: len(results) > 60, what="requests go on")
    client.stop(0.1)
    assert [one.exception(120) for one in calling] == [None] * 30
    for number, result in results:
        ended = (result.status, result.not_sent)
        is_told = ended in ((ReturnCode.FAIL, True), (ReturnCode.APPRESPONSETIMEOUT, False))
        assert is_greeted(result, number) if result.good else is_told


@pytest.mark.parametrize("world", ["broker"], indirect=True)
def test_a_client_that_only_sends_leaves_no_connection_behind(world: World) -> None:
    client = world.client()
    assert client.request("Customer.Create", customer(1)).good
    client.stop()
    assert isinstance(world.provider, LentProvider)
    assert [connection for connection in world.provider.broker.connections if not connection.ended] == []
