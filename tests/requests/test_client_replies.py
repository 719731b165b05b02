"""Which reply is whose: strangers, late and duplicate replies, and replies that say nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from connector.messaging.client import ReceivedMessage
from connector.messaging.message import Message, PropertyValue
from connector.messaging.provider import Connection
from connector.status import ReturnCode
from tests.requests.world import (
    LATE,
    PATIENCE,
    REPLIES,
    REQUESTS,
    Replying,
    World,
    body_of,
    customer,
    done,
    greet,
    is_greeted,
)
from tests.waiting import wait_for


def strangers(count: int) -> list[Message]:
    """Messages on the reply queue that are no reply to anything that is awaited."""
    found = []
    for number in range(count):
        stranger = Message(b"stranger %d" % number)
        stranger.correlation_id = (None, "", "ID:", "c-1", "1795278509031403-client-1", "%", "ID:%-%")[
            number % 7
        ]
        stranger.set_property("ResponseResult", "VALCHANGE")
        found.append(stranger)
    return found


def test_every_caller_gets_its_own_answer_and_strangers_stay_as_they_were(world: World) -> None:
    world.application()
    client = world.client()
    futures = []
    for number in range(40):
        world.send(REPLIES, *strangers(7))
        futures.append(client.request_async("Customer.Retrieve", customer(number)))
    assert [is_greeted(result, number) for number, result in enumerate(done(futures))] == [True] * 40
    left = world.browse(REPLIES)
    assert len(left) == 280
    assert {message.delivery_count for message in left} == {1}
    assert world.bodies(LATE) == []


def test_a_delayed_request_is_taken_in_its_time(world: World) -> None:
    application = world.application()
    client = world.client()
    began = time.monotonic()
    delayed = client.request_async("Customer.Retrieve", customer(1, DeliveryDelay="1500"))
    other = client.request_async("Customer.Retrieve", customer(2))
    assert is_greeted(*done([other]), 2)
    assert is_greeted(*done([delayed]), 1)
    assert time.monotonic() - began >= 1.5
    assert [body_of(one)["CustomerId"] for one in application.requests] == ["2", "1"]


def test_a_reply_says_which_request_it_answers_not_the_order_of_replies(world: World) -> None:
    held: list[ReceivedMessage] = []

    def backwards(request: ReceivedMessage, replying: Replying) -> None:
        held.append(request)
        if len(held) == 10:
            for one in reversed(held):
                greet(one, replying)

    world.application(backwards)
    client = world.client()
    futures = [client.request_async("Customer.Retrieve", customer(number)) for number in range(10)]
    assert all(is_greeted(result, number) for number, result in enumerate(done(futures)))


def test_the_leading_id_of_a_message_id_may_be_left_out(world: World) -> None:
    def without(request: ReceivedMessage, replying: Replying) -> None:
        identity = (request.message_id or "").removeprefix("ID:")
        replying.reply(request, {"CustomerId": "1", "Name": "n"}, correlation_id=identity)

    world.application(without)
    assert world.client().request("Customer.Retrieve", customer(1)).status is ReturnCode.VALCHANGE


@pytest.mark.parametrize(("fatal", "status"), [(True, "APPRESPONSETIMEOUT"), (False, "FAIL")])
def test_a_late_reply_is_put_aside_and_answers_nobody(world: World, fatal: bool, status: str) -> None:
    client = world.client()
    result = client.request(
        "Customer.Retrieve", customer(1, TimeoutFatal=fatal, TimeToLive="60000"), timeout=50
    )
    assert result.status.name == status
    assert str(REPLIES) in (result.message or "")
    request = world.request_on_queue()
    world.replying().reply(request, {"CustomerId": "1", "Name": "late"})
    wait_for(lambda: world.bodies(LATE) != [], what="the late reply is put aside")
    (late,) = world.browse(LATE)
    assert (late.correlation_id, body_of(late)["Name"]) == (request.message_id, "late")
    assert late.properties["connector_outcome"] == "late_reply"
    assert late.properties["connector_origin_destination"] == str(REPLIES)
    assert world.bodies(REPLIES) == []
    world.application()
    assert is_greeted(client.request("Customer.Retrieve", customer(2)), 2)


def test_late_replies_keep_nobody_from_its_answer_however_many_there_are(world: World) -> None:
    client = world.client()
    ended = [client.request_async("Customer.Retrieve", customer(n), timeout=0) for n in range(30)]
    assert {result.status.name for result in done(ended)} == {"APPRESPONSETIMEOUT"}
    world.application()  # answers those thirty first
    assert is_greeted(client.request("Customer.Retrieve", customer(99)), 99)
    wait_for(lambda: world.bodies(REPLIES) == [], what="no late reply is left")


def test_of_two_replies_the_first_is_the_answer_and_the_other_is_put_aside(world: World) -> None:
    def twice(request: ReceivedMessage, replying: Replying) -> None:
        greet(request, replying)
        replying.reply(request, {"CustomerId": "0", "Name": "the second"})

    world.application(twice)
    client = world.client()
    for number in range(5):
        assert is_greeted(client.request("Customer.Retrieve", customer(number)), number)
    wait_for(lambda: len(world.browse(LATE)) == 5, what="the others are put aside")
    assert {body_of(message)["Name"] for message in world.browse(LATE)} == {"the second"}
    assert {message.properties["connector_outcome"] for message in world.browse(LATE)} == {"duplicate_reply"}
    assert world.bodies(REPLIES) == []


def test_late_replies_may_be_discarded(world: World) -> None:
    client = world.client(late_replies=None)
    client.request("Customer.Retrieve", customer(1), timeout=0)
    world.replying().reply(world.request_on_queue(), {"CustomerId": "1"})
    wait_for(lambda: world.bodies(REPLIES) == [], what="the late reply is gone")
    assert world.bodies(LATE) == []


def test_a_late_reply_that_cannot_be_put_aside_is_kept_and_is_in_nobody_s_way(world: World) -> None:
    world.block(LATE)
    client = world.client()
    client.request("Customer.Retrieve", customer(1), timeout=0)
    request = world.request_on_queue()
    world.application()
    for number in range(2, 5):
        assert is_greeted(client.request("Customer.Retrieve", customer(number)), number)
    wait_for(lambda: client.stats.late_replies >= 1, what="the late reply has been seen")
    if world.is_broker:  # its message has no owner that would try again
        wait_for(lambda: world.browse(REPLIES) == [], what="the late reply is gone")
        return
    client.stop()
    kept = [message.correlation_id for message in world.browse(REPLIES)]
    assert kept == [request.message_id]


@pytest.mark.parametrize("result", [None, "SUCCEED", "valchange", "", "VALCHANGE ", 1, True, 0.5])
def test_a_reply_without_a_result_that_there_is_fails_its_request_only(
    world: World, result: PropertyValue | None
) -> None:
    def odd(request: ReceivedMessage, replying: Replying) -> None:
        if body_of(request)["CustomerId"] == "odd":
            replying.reply(request, {"CustomerId": "1"}, result)
        else:
            greet(request, replying)

    world.application(odd)
    client = world.client()
    futures = [client.request_async("Customer.Retrieve", customer(number)) for number in ("odd", 2)]
    answer, other = done(futures)
    assert answer.status is ReturnCode.FAIL
    assert "ResponseResult" in (answer.message or "")
    assert result is None or str(result).lower() in (answer.message or "").lower()
    assert answer.object.as_dict() == {"CustomerId": "odd"}
    assert is_greeted(other, 2)
    assert world.bodies(REPLIES) == []


def test_a_result_under_another_name_is_no_result(world: World) -> None:
    world.application(lambda request, replying: replying.reply(request, {}, property="Result"))
    assert world.client().request("Customer.Retrieve", customer(1)).status is ReturnCode.FAIL


@pytest.mark.parametrize(
    ("body", "message_class"),
    [
        (b"{", "T"),
        (b"\xff\xfe", "T"),
        (b"[1]", "T"),
        (b'{"Nobody": 1}', "T"),
        (b"x" * 3000, "T"),
        (b"{}", "O"),
    ],
    ids=["no JSON", "no text", "no object", "unknown attribute", "too large", "object message"],
)
def test_a_reply_that_cannot_be_read_fails_its_request_only(
    world: World, body: bytes, message_class: str
) -> None:
    def unreadable(request: ReceivedMessage, replying: Replying) -> None:
        if body_of(request)["CustomerId"] == "odd":
            replying.reply(request, body, message_class=message_class)
        else:
            greet(request, replying)

    world.application(unreadable)
    client = world.client(max_body=2000)
    answer, other = done([client.request_async("Customer.Retrieve", customer(n)) for n in ("odd", 2)])
    assert answer.status is ReturnCode.FAIL
    assert answer.message
    assert answer.object.as_dict() == {"CustomerId": "odd"}
    assert is_greeted(other, 2)
    assert world.bodies(REPLIES) == []


class Pausing:
    """A real connection that pauses between the commit of a request and its return."""

    def __init__(self, connection: Connection, pause: Callable[[], object]) -> None:
        self._connection = connection
        self._pause = pause

    def settle(self, settlements: Any = (), sends: Any = (), *arguments: Any, **options: Any) -> None:
        self._connection.settle(settlements, sends, *arguments, **options)
        if sends:
            self._pause()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_a_reply_that_comes_before_the_wait_begins_is_the_answer(stored: World) -> None:
    answered = threading.Event()

    def answer(request: ReceivedMessage, replying: Replying) -> None:
        greet(request, replying)
        answered.set()

    stored.application(answer)
    paused: list[bool] = []

    def pause() -> None:
        paused.append(answered.wait(PATIENCE))

    def connect() -> Any:
        return Pausing(stored.provider.connect(), pause)

    client = stored.client(connect=connect)
    for timeout in (5000, 0):
        answered.clear()
        assert is_greeted(client.request("Customer.Retrieve", customer(1), timeout=timeout), 1)
    assert paused == [True, True]


def test_the_object_of_the_caller_is_never_changed(world: World) -> None:
    world.application()
    data = customer(1, CorrelationID="c")
    before = {**data, "Meta": {**data["Meta"]}}
    client = world.client()
    first = client.request("Customer.Retrieve", data)
    assert is_greeted(first, 1)
    assert data == before
    asked = first.object
    asked["Name"] = "the caller's"
    assert is_greeted(client.request("Customer.Retrieve", asked), 1)
    assert asked["Name"] == "the caller's"


def test_every_call_completes_exactly_once(world: World) -> None:
    """Replies, time-outs and a stop at the same moment."""

    def sometimes(request: ReceivedMessage, replying: Replying) -> None:
        number = int(body_of(request)["CustomerId"])
        for _ in range(number % 3):
            greet(request, replying)

    world.application(sometimes)
    client = world.client()
    completed: list[int] = []
    lock = threading.Lock()
    futures: list[Future[Any]] = []

    def count(number: int) -> Callable[[Future[Any]], None]:
        def completed_now(_: Future[Any]) -> None:
            with lock:
                completed.append(number)

        return completed_now

    for number in range(90):
        future = client.request_async("Customer.Retrieve", customer(number), timeout=number % 5 * 40)
        future.add_done_callback(count(number))
        futures.append(future)
    client.stop(0.05)
    results = done(futures)
    assert sorted(completed) == list(range(90))
    for number, result in enumerate(results):
        assert result.status.name in ("VALCHANGE", "APPRESPONSETIMEOUT", "FAIL")
        assert result.status is not ReturnCode.VALCHANGE or is_greeted(result, number)


def test_a_request_that_wants_no_reply_is_sent_and_that_is_all(world: World) -> None:
    client = world.client()
    result = client.request("Customer.Create", {"CustomerId": "1", "Name": "n"})
    assert (result.status, result.message) == (ReturnCode.SUCCEED, None)
    request = world.request_on_queue()
    assert (request.reply_to, request.expiration, request.correlation_id) == (None, 0, None)
    assert body_of(request) == {
        "BusinessObject": "Customer",
        "Verb": "Create",
        "CustomerId": "1",
        "Name": "n",
    }
    assert world.info(REQUESTS).waiting == 1


def test_a_reply_that_cannot_be_read_is_kept_where_late_ones_are(world: World) -> None:
    world.application(lambda request, replying: replying.reply(request, b"x" * 3000))
    result = world.client(max_body=2000).request("Customer.Retrieve", customer(1))
    assert result.status is ReturnCode.FAIL
    (kept,) = world.browse(LATE)
    assert kept.properties["connector_outcome"] == "unreadable_reply"
    assert kept.properties["connector_reason"] == result.message
    assert len(kept.body) == 3000
