"""How many requests are in flight, how long they wait, and what a stop makes of them."""

from __future__ import annotations

import gc
import threading
import time

import pytest

from connector.messaging.client import ReceivedMessage
from connector.requests.pending import Call
from connector.requests.result import RequestResult
from connector.status import ReturnCode
from tests.requests.world import (
    REPLIES,
    REQUESTS,
    Replying,
    World,
    body_of,
    customer,
    done,
    greet,
    is_greeted,
    soon,
)


def test_never_more_requests_are_in_flight_than_the_pool_has_sessions(world: World) -> None:
    client = world.client(pool_size=5)
    futures = [client.request_async("Customer.Retrieve", customer(number)) for number in range(40)]
    world.requests_on_queue(5)
    time.sleep(0.1)
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
    soon(lambda: len(asked_again) == 40, "each has asked again")
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
        assert timeout / 1000 <= waited < timeout / 1000 + 2.0


def test_a_timeout_of_0_looks_once(world: World) -> None:
    client = world.client()
    begun = time.monotonic()
    for number in range(5):
        result = client.request("Customer.Retrieve", customer(number), timeout=0)
        assert (result.status, result.not_sent) == (ReturnCode.APPRESPONSETIMEOUT, False)
    assert time.monotonic() - begun < 3.0
    assert [request.expiration for request in world.requests_on_queue(5)] == [0] * 5


def test_a_request_expires_when_nobody_awaits_its_reply_any_more(world: World) -> None:
    client = world.client()
    before = time.time_ns() // 1_000_000
    result = client.request("Customer.Retrieve", customer(1), timeout=300)
    after = time.time_ns() // 1_000_000
    assert result.status is ReturnCode.APPRESPONSETIMEOUT
    time.sleep(0.05)
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


def test_requests_that_have_ended_are_not_kept_until_their_time_is_up(world: World) -> None:
    """Also where one that waits longer than all of them keeps the first place."""

    def all_but_one(request: ReceivedMessage, replying: Replying) -> None:
        if body_of(request)["CustomerId"] != "waits":
            greet(request, replying)

    world.application(all_but_one)
    client = world.client()
    client.request_async("Customer.Retrieve", customer("waits"), timeout=60_000)
    for first in range(0, 3200, 40):
        futures = [
            client.request_async("Customer.Retrieve", customer(n), timeout=120_000)
            for n in range(first, first + 40)
        ]
        done(futures)
    gc.collect()
    assert sum(isinstance(one, Call) for one in gc.get_objects()) < 1500


def test_a_stop_completes_what_is_in_flight_and_what_waits_once_each(world: World) -> None:
    client = world.client(pool_size=4)
    completed: list[int] = []
    futures = []
    for number in range(10):
        future = client.request_async("Customer.Retrieve", customer(number))
        future.add_done_callback(lambda _, number=number: completed.append(number))  # type: ignore[misc]
        futures.append(future)
    world.requests_on_queue(4)
    begun = time.monotonic()
    client.stop(0.2)
    assert time.monotonic() - begun < 3.0
    assert sorted(completed) == list(range(10))
    results = done(futures, 0.0)
    assert [result.not_sent for result in results] == [False] * 4 + [True] * 6
    assert {result.status for result in results[4:]} == {ReturnCode.FAIL}
    assert not any(result.good for result in results)
    assert all(result.message for result in results)
    assert len(world.browse(REQUESTS)) == 4


def test_a_stop_lets_replies_come_for_as_long_as_it_is_told_to(world: World) -> None:
    def slowly(request: ReceivedMessage, replying: Replying) -> None:
        time.sleep(0.05)
        greet(request, replying)

    client = world.client()
    futures = [client.request_async("Customer.Retrieve", customer(number)) for number in range(4)]
    world.requests_on_queue(4)
    world.application(slowly)
    begun = time.monotonic()
    client.stop(8.0)
    assert time.monotonic() - begun < 6.0
    assert [is_greeted(result, number) for number, result in enumerate(done(futures, 0.0))] == [True] * 4


def test_a_stop_waits_for_nothing_whatever_the_listener_is_doing(world: World) -> None:
    for number in range(60):
        client = world.client()
        client.request("Customer.Retrieve", customer(number), timeout=0)
        time.sleep(number % 6 * 0.0002)
        begun = time.monotonic()
        client.stop()
        assert time.monotonic() - begun < 0.8


def test_what_waits_for_its_turn_is_told_of_a_stop_at_once(world: World) -> None:
    """Though what is in flight has time to have its reply."""
    client = world.client(pool_size=1)
    first = client.request_async("Customer.Retrieve", customer(1))
    request = world.request_on_queue()
    waiting = [client.request_async("Customer.Retrieve", customer(number)) for number in range(5)]
    stopping = threading.Thread(target=client.stop, args=(8.0,))
    stopping.start()
    for result in done(waiting, 3.0):
        assert (result.status, result.not_sent) == (ReturnCode.FAIL, True)
    assert not first.done()
    world.replying().reply(request, {"CustomerId": "1", "Name": "name of 1"})
    assert is_greeted(first.result(3.0), 1)
    stopping.join(3.0)
    assert not stopping.is_alive()


def test_nothing_is_sent_after_a_stop(world: World) -> None:
    world.application()
    client = world.client()
    assert is_greeted(client.request("Customer.Retrieve", customer(1)), 1)
    client.stop()
    client.stop()
    for verb in ("Retrieve", "Create"):
        result = client.request(f"Customer.{verb}", customer(2))
        assert (result.status, result.not_sent) == (ReturnCode.FAIL, True)
        (result,) = done([client.request_async(f"Customer.{verb}", customer(2))])
        assert (result.status, result.not_sent) == (ReturnCode.FAIL, True)
    assert world.browse(REQUESTS) == []


def test_callers_in_threads_of_their_own_all_return_when_the_client_stops(world: World) -> None:
    world.application()
    client = world.client(pool_size=4)
    results: list[tuple[int, RequestResult]] = []
    lock = threading.Lock()

    def call(first: int) -> None:
        number = first
        while True:
            result = client.request("Customer.Retrieve", customer(number), timeout=60_000)
            with lock:
                results.append((number, result))
            if not result.good:
                return
            number += 100

    threads = [threading.Thread(target=call, args=(number,)) for number in range(30)]
    for thread in threads:
        thread.start()
    soon(lambda: len(results) > 60, "requests go on")
    begun = time.monotonic()
    client.stop(0.1)
    for thread in threads:
        thread.join(5.0)
        assert not thread.is_alive()
    assert time.monotonic() - begun < 5.0
    for number, result in results:
        if not result.good:
            ended = (result.status, result.not_sent)
            assert ended in ((ReturnCode.FAIL, True), (ReturnCode.APPRESPONSETIMEOUT, False))
        else:
            assert is_greeted(result, number)


def test_many_requests_that_wait_cost_the_processor_next_to_nothing(world: World) -> None:
    client = world.client(pool_size=300)
    futures = [
        client.request_async("Customer.Retrieve", customer(number), timeout=60_000) for number in range(300)
    ]
    world.requests_on_queue(300)
    time.sleep(0.1)
    used = time.process_time()
    time.sleep(1.0)
    assert time.process_time() - used < 0.2
    assert not any(future.done() for future in futures)


def test_a_client_that_was_never_used_stops(world: World) -> None:
    client = world.client()
    client.stop(1.0)
    assert world.info(REPLIES).waiting == 0


def test_replies_are_taken_from_the_queue_that_a_request_names(world: World) -> None:
    world.application()
    client = world.client()
    names = ["queue://first", "queue://second", str(REPLIES)]
    futures = [
        client.request_async("Customer.Retrieve", customer(number, ReplyToDestination=names[number % 3]))
        for number in range(30)
    ]
    assert all(is_greeted(result, number) for number, result in enumerate(done(futures)))


def test_without_a_reply_destination_replies_come_to_a_temporary_queue(world: World) -> None:
    application = world.application()
    client = world.client(reply_to=None)
    futures = [client.request_async("Customer.Retrieve", customer(number)) for number in range(20)]
    assert all(is_greeted(result, number) for number, result in enumerate(done(futures)))
    (name,) = {request.reply_to for request in application.requests}
    assert name is not None
    assert name.startswith("queue://temporary-")
    client.stop()
    soon(lambda: name not in {str(info.destination) for info in world.looking.destinations()}, "it ended")


def test_a_request_may_be_sent_to_a_topic_and_the_first_reply_is_the_answer(world: World) -> None:
    applications = [world.application(queue="topic://ask") for _ in range(2)]
    client = world.client()
    for number in range(5):
        result = client.request("Customer.Retrieve", customer(number, OutputDestination="topic://ask"))
        assert is_greeted(result, number)
    soon(lambda: all(len(one.requests) == 5 for one in applications), "both have answered all")
    soon(lambda: world.bodies(REPLIES) == [], "the second replies are put aside")


def test_a_request_to_a_topic_that_nobody_subscribes_waits_for_nobody(world: World) -> None:
    client = world.client()
    result = client.request("Customer.Retrieve", customer(1, OutputDestination="topic://nobody"), timeout=50)
    assert (result.status, result.not_sent) == (ReturnCode.APPRESPONSETIMEOUT, False)
