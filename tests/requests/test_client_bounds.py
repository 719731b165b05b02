"""How many requests are in flight, how long they wait, and what that costs."""

from __future__ import annotations

import gc
import time
from pathlib import Path

from connector.messaging.client import ReceivedMessage
from connector.messaging.destination import parse_destination
from connector.messaging.provider import Connection
from connector.requests.pending import Call
from connector.requests.result import RequestResult
from connector.status import ReturnCode
from tests.requests.world import (
    REQUESTS,
    Replying,
    World,
    a_world,
    body_of,
    customer,
    done,
    greet,
    is_greeted,
)
from tests.waiting import now_ms, until_past, wait_for


def test_never_more_requests_are_in_flight_than_the_pool_has_sessions(world: World) -> None:
    client = world.client(pool_size=5)
    futures = [client.request_async("Customer.Retrieve", customer(number)) for number in range(40)]
    world.requests_on_queue(5)
    wait_for(lambda: client._slots.waiting == 35)
    assert len(world.browse(REQUESTS)) == 5
    unanswered: list[int] = []

    def answer(request: ReceivedMessage, replying: Replying) -> None:
        unanswered.append(1 + len(world.browse(REQUESTS)))  # this one is taken, and has no answer yet
        greet(request, replying)

    world.application(answer)
    assert all(is_greeted(result, number) for number, result in enumerate(done(futures)))
    assert max(unanswered) == 5


def test_requests_beyond_the_pool_are_sent_first_come_first_served(world: World) -> None:
    client = world.client(pool_size=1)
    futures = [client.request_async("Customer.Retrieve", customer(number)) for number in range(10)]
    application = world.application()
    done(futures)
    asked = [body_of(request)["CustomerId"] for request in application.requests]
    assert asked == [str(number) for number in range(10)]


def test_who_asks_again_when_a_future_completes_keeps_no_other_from_its_turn(world: World) -> None:
    """More than there are threads that complete futures, while all of the pool is in use."""
    world.application()
    client = world.client(pool_size=2)
    asked_again: list[RequestResult] = []
    futures = []
    for number in range(40):
        future = client.request_async("Customer.Retrieve", customer(number))
        future.add_done_callback(
            lambda _: asked_again.append(client.request("Customer.Retrieve", customer("again")))
        )
        futures.append(future)
    assert all(is_greeted(result, number) for number, result in enumerate(done(futures)))
    wait_for(lambda: len(asked_again) == 40, what="each has asked again")
    assert all(is_greeted(result, "again") for result in asked_again)


def test_a_request_that_may_not_be_sent_in_time_is_not_sent(world: World) -> None:
    client = world.client(pool_size=1, pool_timeout=0.2)
    first = client.request_async("Customer.Retrieve", customer(1))
    world.request_on_queue()
    begun = time.monotonic()
    results = [
        client.request("Customer.Retrieve", customer(2)),
        *done([client.request_async("Customer.Retrieve", customer(3))]),
    ]
    assert time.monotonic() - begun >= 0.4
    assert [(result.status, result.not_sent) for result in results] == [(ReturnCode.FAIL, True)] * 2
    assert all("SessionPoolSizeForRequests" in (result.message or "") for result in results)
    world.application()
    assert is_greeted(first.result(), 1)
    assert world.browse(REQUESTS) == []  # neither of the two has come after all


def test_a_request_waits_at_least_as_long_as_it_is_told_to(world: World) -> None:
    client = world.client()
    for timeout in (0, 1, 60, 400):
        begun = time.monotonic()
        result = client.request("Customer.Retrieve", customer(1), timeout=timeout)
        assert (result.status, result.not_sent) == (ReturnCode.APPRESPONSETIMEOUT, False)
        assert time.monotonic() - begun >= timeout / 1000


def test_a_request_with_a_timeout_of_0_does_not_expire(world: World) -> None:
    client = world.client()
    for number in range(5):
        client.request("Customer.Retrieve", customer(number), timeout=0)
    assert [request.expiration for request in world.requests_on_queue(5)] == [0] * 5


def test_a_request_expires_when_nobody_awaits_its_reply_any_more(world: World) -> None:
    client = world.client()
    result = client.request("Customer.Retrieve", customer(1), timeout=300)
    assert result.status is ReturnCode.APPRESPONSETIMEOUT
    until_past(now_ms() + 50)
    application = world.application()
    before = now_ms()
    (alive,) = done([client.request_async("Customer.Retrieve", customer(2), timeout=120_000)])
    assert is_greeted(alive, 2)
    (seen,) = application.requests  # the first had expired before anybody could answer it
    assert body_of(seen)["CustomerId"] == "2"
    assert before + 120_000 <= seen.expiration <= now_ms() + 120_000


def test_a_request_without_a_timeout_of_its_own_has_the_meta_object_s(world: World) -> None:
    client = world.client()
    before = now_ms()
    future = client.request_async("Customer.Retrieve", customer(1, ResponseTimeout="70000"))
    request = world.request_on_queue()
    assert before + 70_000 <= request.expiration <= now_ms() + 70_000
    client.stop()
    assert future.done()


def test_the_time_to_live_of_a_request_decides_when_it_expires(world: World) -> None:
    client = world.client()
    for lives in (90_000, 0):
        for timeout in (-1, 0, 70_000):
            queue = parse_destination(f"queue://requests-{lives}-{timeout}")
            data = customer(1, TimeToLive=str(lives), OutputDestination=str(queue))
            before = now_ms()
            client.request_async("Customer.Retrieve", data, timeout=timeout)
            expiration = world.request_on_queue(queue).expiration
            assert before + lives <= expiration <= now_ms() + lives if lives else expiration == 0


def test_an_asynchronous_request_expires_where_nobody_takes_it(stored: World) -> None:
    client = stored.client()
    assert client.request("Customer.Retrieve", customer(1, TimeToLive="1"), timeout=-1).good
    until_past(now_ms() + 1)  # a take before the expiration would have the request
    poller = stored.provider.connect().poller(REQUESTS)
    wait_for(lambda: poller.take(1, 0) is None and poller.expired == 1, what="the request expires")


def test_requests_that_have_ended_are_not_kept_until_their_time_is_up(tmp_path: Path) -> None:
    """Also where one that waits longer than all of them keeps the first place."""

    def all_but_one(request: ReceivedMessage, replying: Replying) -> None:
        if body_of(request)["CustomerId"] != "waits":
            greet(request, replying)

    with a_world("memory", tmp_path) as world:
        world.application(all_but_one)
        client = world.client()
        client.request_async("Customer.Retrieve", customer("waits"), timeout=600_000)
        for first in range(0, 1600, 40):
            numbers = range(first, first + 40)
            done([client.request_async("Customer.Retrieve", customer(n), timeout=1_200_000) for n in numbers])
        gc.collect()
        assert sum(isinstance(one, Call) for one in gc.get_objects()) < 1200


def test_many_requests_that_wait_cost_the_processor_next_to_nothing(world: World) -> None:
    client = world.client(pool_size=300)
    futures = [
        client.request_async("Customer.Retrieve", customer(number), timeout=600_000) for number in range(300)
    ]
    world.requests_on_queue(300)

    def is_at_rest() -> bool:
        used = time.process_time()
        time.sleep(1.0)  # only real time shows what it costs
        return time.process_time() - used < 0.2

    wait_for(is_at_rest)
    assert not any(future.done() for future in futures)


def test_a_request_that_awaits_nothing_needs_no_turn(world: World) -> None:
    client = world.client(pool_size=1, pool_timeout=600.0)
    waiting = client.request_async("Customer.Retrieve", customer(1), timeout=600_000)
    world.request_on_queue()
    assert client.request("Customer.Create", customer(2)).good
    assert done([client.request_async("Customer.Create", customer(3))])[0].good
    assert len(world.requests_on_queue(3)) == 3
    assert not waiting.done()


def test_the_time_to_expire_begins_when_a_request_is_sent_not_when_it_is_made(stored: World) -> None:
    connected: list[int] = []

    def slowly() -> Connection:
        until_past(now_ms() + 300)
        connected.append(now_ms())
        return stored.provider.connect()

    client = stored.client(connect=slowly)
    client.request("Customer.Retrieve", customer(1), timeout=100)
    (request,) = stored.browse(REQUESTS) or stored.browse(parse_destination("queue://requests~EXPIRED"))
    assert request.expiration >= connected[0] + 100
