"""How many requests are in flight, how long they wait, and what that costs."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest

from connector.errors import MalformedData
from connector.messaging.client import ReceivedMessage
from connector.messaging.destination import parse_destination
from connector.messaging.provider import Connection
from connector.requests.pending import Call
from connector.requests.result import RequestResult
from connector.status import ReturnCode
from tests.requests.world import REQUESTS, Replying, World, body_of, customer, done, greet, is_greeted
from tests.waiting import until_past, wait_for


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
    waited = time.monotonic() - begun
    assert [(result.status, result.not_sent) for result in results] == [(ReturnCode.FAIL, True)] * 2
    assert all("SessionPoolSizeForRequests" in (result.message or "") for result in results)
    assert waited >= 0.4
    world.application()
    assert is_greeted(first.result(), 1)
    assert is_greeted(client.request("Customer.Retrieve", customer(4)), 4)
    assert world.browse(REQUESTS) == []  # neither of the two has come after all


@pytest.mark.parametrize("timeout", [1, 60, 400])
def test_a_request_waits_at_least_as_long_as_it_is_told_to(world: World, timeout: int) -> None:
    client = world.client()
    client.request("Customer.Retrieve", customer(0), timeout=0)  # what the first request costs more
    for _ in range(3):
        begun = time.monotonic()
        result = client.request("Customer.Retrieve", customer(1), timeout=timeout)
        waited = time.monotonic() - begun
        assert result.status is ReturnCode.APPRESPONSETIMEOUT
        assert timeout / 1000 <= waited < timeout / 1000 + 60


def test_a_timeout_of_0_looks_once(world: World) -> None:
    client = world.client()
    begun = time.monotonic()
    for number in range(5):
        result = client.request("Customer.Retrieve", customer(number), timeout=0)
        assert (result.status, result.not_sent) == (ReturnCode.APPRESPONSETIMEOUT, False)
    assert time.monotonic() - begun < 60
    assert [request.expiration for request in world.requests_on_queue(5)] == [0] * 5


def test_a_request_expires_when_nobody_awaits_its_reply_any_more(world: World) -> None:
    client = world.client()
    before = time.time_ns() // 1_000_000
    result = client.request("Customer.Retrieve", customer(1), timeout=300)
    after = time.time_ns() // 1_000_000
    assert result.status is ReturnCode.APPRESPONSETIMEOUT
    until_past(after + 50)
    application = world.application()
    future = client.request_async("Customer.Retrieve", customer(2), timeout=6000)
    (alive,) = done([future])
    assert is_greeted(alive, 2)
    (seen,) = application.requests  # the first had expired before anybody could answer it
    assert body_of(seen)["CustomerId"] == "2"
    assert before + 6000 <= seen.expiration <= after + 6000 + 5000


def test_a_request_without_a_timeout_of_its_own_has_the_meta_object_s(world: World) -> None:
    client = world.client()
    before = time.time_ns() // 1_000_000
    future = client.request_async("Customer.Retrieve", customer(1, ResponseTimeout="7000"))
    request = world.request_on_queue()
    after = time.time_ns() // 1_000_000
    assert before + 7000 <= request.expiration <= after + 7000
    client.stop()
    assert future.done()


@pytest.mark.parametrize("timeout", [-1, 0, 7000])
@pytest.mark.parametrize("lives", ["90000", "0"])
def test_the_time_to_live_of_a_request_decides_when_it_expires(
    world: World, timeout: int, lives: str
) -> None:
    client = world.client()
    before = time.time_ns() // 1_000_000
    client.request_async("Customer.Retrieve", customer(1, TimeToLive=lives), timeout=timeout)
    request = world.request_on_queue()
    after = time.time_ns() // 1_000_000
    if lives == "0":
        assert request.expiration == 0
    else:
        assert before + 90000 <= request.expiration <= after + 90000
    client.stop()


def test_an_asynchronous_request_expires_where_nobody_takes_it(world: World) -> None:
    client = world.client()
    assert client.request("Customer.Retrieve", customer(1, TimeToLive="1"), timeout=-1).good
    sent = time.time_ns()
    wait_for(lambda: time.time_ns() > sent + 2_000_000)  # a take before the expiration would have the request
    poller = world.provider.connect().poller(REQUESTS)
    wait_for(lambda: poller.take(1, 0) is None and poller.expired == 1, what="the request expires")


def test_requests_that_have_ended_are_not_kept_until_their_time_is_up(world: World) -> None:
    """Also where one that waits longer than all of them keeps the first place."""

    def all_but_one(request: ReceivedMessage, replying: Replying) -> None:
        if body_of(request)["CustomerId"] != "waits":
            greet(request, replying)

    world.application(all_but_one)
    client = world.client()
    client.request_async("Customer.Retrieve", customer("waits"), timeout=60_000)
    for first in range(0, 2600, 40):
        futures = [
            client.request_async("Customer.Retrieve", customer(n), timeout=120_000)
            for n in range(first, first + 40)
        ]
        done(futures)
    gc.collect()
    assert sum(isinstance(one, Call) for one in gc.get_objects()) < 1500


def test_many_requests_that_wait_cost_the_processor_next_to_nothing(world: World) -> None:
    client = world.client(pool_size=300)
    futures = [
        client.request_async("Customer.Retrieve", customer(number), timeout=60_000) for number in range(300)
    ]
    world.requests_on_queue(300)
    time.sleep(0.1)
    used = time.process_time()
    time.sleep(1.0)  # only real time shows what it costs
    assert time.process_time() - used < 0.2
    assert not any(future.done() for future in futures)


def test_a_request_that_awaits_nothing_needs_no_turn(world: World) -> None:
    client = world.client(pool_size=1, pool_timeout=60.0)
    waiting = client.request_async("Customer.Retrieve", customer(1), timeout=60_000)
    world.request_on_queue()
    assert client.request("Customer.Create", customer(2)).good
    assert done([client.request_async("Customer.Create", customer(3))])[0].good
    assert len(world.requests_on_queue(3)) == 3
    assert not waiting.done()


def test_the_time_to_expire_begins_when_a_request_is_sent_not_when_it_is_made(world: World) -> None:
    def slowly() -> Connection:
        time.sleep(0.3)
        return world.provider.connect()

    client = world.client(connect=slowly)
    client.request("Customer.Retrieve", customer(1), timeout=100)
    (request,) = world.browse(REQUESTS) or world.browse(parse_destination("queue://requests~EXPIRED"))
    assert 90 <= request.expiration - request.timestamp <= 150  # the time is taken a moment before the stamp


def test_what_an_object_must_have_is_not_left_out(world: World) -> None:
    client = world.client()
    for ask in (client.request, client.request_async):
        with pytest.raises(MalformedData, match="CustomerId: required, but not set"):
            ask("Customer.Create", {"Name": "nobody"})
    assert world.browse(REQUESTS) == []


@pytest.mark.parametrize("data", [[], None, "x", 7, [("CustomerId", "1")]], ids=repr)
def test_only_attributes_make_an_object(world: World, data: Any) -> None:
    with pytest.raises(MalformedData, match="expected a mapping"):
        world.client().request("Customer.Create", data)


@pytest.mark.parametrize("timeout", ["7", 1.5, True], ids=repr)
def test_a_timeout_is_a_number_of_milliseconds(world: World, timeout: Any) -> None:
    with pytest.raises(MalformedData, match="expected milliseconds"):
        world.client().request("Customer.Retrieve", customer(1), timeout=timeout)
