"""Which reply is whose: strangers, late and duplicate replies, and replies that say nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from connector.businessobjects.definition import Definitions
from connector.businessobjects.facets import Facets
from connector.errors import MalformedData
from connector.messaging.client import ReceivedMessage
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.status import ReturnCode
from tests.requests.world import (
    IN_MEMORY,
    LATE,
    PATIENCE,
    REPLIES,
    Replying,
    World,
    all_greeted,
    ask,
    body_of,
    customer,
    definitions,
    done,
    greet,
    is_greeted,
)
from tests.waiting import wait_for


def strangers() -> list[Message]:
    """Messages on the reply queue that are no reply to anything that is awaited."""
    found = []
    for number, who in enumerate((None, "", "ID:", "c-1", "1795278509031403-client-1", "%", "ID:%-%")):
        stranger = Message(b"stranger %d" % number, correlation_id=who)
        stranger.set_property("ResponseResult", "VALCHANGE")
        found.append(stranger)
    return found


def test_every_caller_gets_its_own_answer_and_strangers_stay_as_they_were(world: World) -> None:
    world.application()
    client = world.client()
    futures = []
    for number in range(40):
        world.send(REPLIES, *strangers())
        futures.append(ask(client, number))
    assert all_greeted(futures)
    left = world.replies
    assert len(left) == 280
    assert {message.delivery_count for message in left} == {1}
    assert world.late == []


@IN_MEMORY
def test_facets_hold_for_what_is_asked_and_for_what_is_answered(world: World) -> None:
    known = definitions()
    age = replace(known["Customer"].attributes["Age"], facets=Facets(maximum=100))
    strict = replace(known["Customer"], attributes={**known["Customer"].attributes, "Age": age})
    client = world.client(definitions=Definitions({**known, "Customer": strict}))
    told = "Customer: Age: found the number 101, expected at most 100"
    with pytest.raises(MalformedData, match=told):
        client.request("Customer.Retrieve", {"CustomerId": "1", "Age": 101})
    assert world.requests == []
    world.application(lambda request, replying: replying.reply(request, {"CustomerId": "1", "Age": 101}))
    answered = client.request("Customer.Retrieve", {"CustomerId": "1", "Age": 100})
    assert answered.status is ReturnCode.FAIL
    assert told in (answered.message or "")


def test_a_delayed_request_is_taken_in_its_time(world: World) -> None:
    world.application()
    client = world.client()
    began = time.monotonic()
    delayed = ask(client, 1, DeliveryDelay="500")
    other = ask(client, 2)
    for number, future in ((2, other), (1, delayed)):
        (result,) = done([future])
        assert is_greeted(result, number)
    assert time.monotonic() - began >= 0.5


def test_the_leading_id_of_a_message_id_may_be_left_out(world: World) -> None:
    def without(request: ReceivedMessage, replying: Replying) -> None:
        identity = (request.message_id or "").removeprefix("ID:")
        replying.reply(request, {"CustomerId": "1", "Name": "n"}, correlation_id=identity)

    world.application(without)
    assert world.client().request("Customer.Retrieve", customer(1)).status is ReturnCode.VALCHANGE


@pytest.mark.parametrize(("fatal", "status"), [(True, "APPRESPONSETIMEOUT"), (False, "FAIL")])
def test_a_late_reply_is_put_aside_and_answers_nobody(world: World, fatal: bool, status: str) -> None:
    client = world.client()
    data = customer(1, TimeoutFatal=fatal, TimeToLive="60000")
    result = client.request("Customer.Retrieve", data, timeout=50)
    assert result.status.name == status
    assert str(REPLIES) in (result.message or "")
    request = world.request_on_queue()
    world.replying().reply(request, {"CustomerId": "1", "Name": "late"})
    wait_for(lambda: world.late != [], what="the late reply is put aside")
    (late,) = world.late
    assert (late.correlation_id, body_of(late)["Name"]) == (request.message_id, "late")
    assert late.properties["connector_outcome"] == "late_reply"
    assert late.properties["connector_origin_destination"] == str(REPLIES)
    assert world.replies == []
    world.application()
    assert is_greeted(client.request("Customer.Retrieve", customer(2)), 2)


def test_of_two_replies_the_first_is_the_answer_and_the_other_is_put_aside(world: World) -> None:
    def twice(request: ReceivedMessage, replying: Replying) -> None:
        greet(request, replying)
        replying.reply(request, {"CustomerId": "0", "Name": "the second"})

    world.application(twice)
    client = world.client()
    for number in range(5):
        assert is_greeted(client.request("Customer.Retrieve", customer(number)), number)
    wait_for(lambda: len(world.late) == 5, what="the others are put aside")
    assert {body_of(message)["Name"] for message in world.late} == {"the second"}
    assert {message.properties["connector_outcome"] for message in world.late} == {"duplicate_reply"}
    assert world.replies == []


def test_a_late_reply_that_cannot_be_put_aside_is_kept_and_is_in_nobody_s_way(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.block(LATE)
    client = world.client()
    client.request("Customer.Retrieve", customer(1), timeout=0)
    request = world.request_on_queue()
    world.application()
    for number in range(2, 5):
        assert is_greeted(client.request("Customer.Retrieve", customer(number)), number)
    late = "a reply came for which no request waits"
    wait_for(lambda: late in caplog.messages, what="the late reply has been seen")
    if world.is_broker:  # its message has no owner that would try again
        wait_for(lambda: world.replies == [], what="the late reply is gone")
        return
    client.stop()
    kept = [message.correlation_id for message in world.replies]
    assert kept == [request.message_id]


def test_a_reply_that_cannot_be_read_fails_its_request_only(world: World) -> None:
    """What each reply means is shown in test_replies."""
    odd: list[Callable[[Replying, ReceivedMessage], object]] = [
        lambda replying, request: replying.reply(request, b"{"),
        lambda replying, request: replying.reply(request, b"x" * 3000),
        lambda replying, request: replying.reply(request, b"{}", message_class="O"),
        lambda replying, request: replying.reply(request, {"CustomerId": "1"}, "SUCCEED"),
        lambda replying, request: replying.reply(request, {"CustomerId": "1"}, property="Result"),
    ]

    def answer(request: ReceivedMessage, replying: Replying) -> None:
        number = int(body_of(request)["CustomerId"])
        odd[number](replying, request) if number < len(odd) else greet(request, replying)

    world.application(answer)
    client = world.client(max_body=2000)
    numbers = range(len(odd) + 2)
    results = done([ask(client, number) for number in numbers])
    for number, result in enumerate(results):
        if number >= len(odd):
            assert is_greeted(result, number)
        else:
            assert (result.status, result.object.as_dict()) == (ReturnCode.FAIL, {"CustomerId": str(number)})
            assert result.message
    assert world.replies == []


def test_a_reply_that_comes_before_the_wait_begins_is_the_answer(stored: World) -> None:
    answered = threading.Event()
    paused: list[bool] = []

    def answer(request: ReceivedMessage, replying: Replying) -> None:
        greet(request, replying)
        answered.set()

    def connect() -> Connection:
        """Pauses between the commit of a request and its return."""
        connection = stored.provider.connect()
        settle = connection.settle

        def settle_and_pause(settlements: Any = (), sends: Any = (), *more: Any, **options: Any) -> None:
            settle(settlements, sends, *more, **options)
            if sends:
                paused.append(answered.wait(PATIENCE))

        connection.settle = settle_and_pause  # type: ignore[method-assign]
        return connection

    stored.application(answer)
    client = stored.client(connect=connect)
    for timeout in (120_000, 0):
        answered.clear()
        assert is_greeted(client.request("Customer.Retrieve", customer(1), timeout=timeout), 1)
    assert paused == [True, True]


@IN_MEMORY
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


@IN_MEMORY
def test_every_call_completes_exactly_once(world: World) -> None:
    """Replies, time-outs and a stop at the same moment."""

    def sometimes(request: ReceivedMessage, replying: Replying) -> None:
        number = int(body_of(request)["CustomerId"])
        for _ in range(number % 3):
            greet(request, replying)

    world.application(sometimes)
    client = world.client()
    completed: list[int] = []
    futures = [ask(client, number, timeout=number % 5 * 40, told=completed) for number in range(90)]
    client.stop(0.05)
    for number, result in enumerate(done(futures)):
        assert result.status.name in ("VALCHANGE", "APPRESPONSETIMEOUT", "FAIL")
        assert result.status is not ReturnCode.VALCHANGE or is_greeted(result, number)
    assert sorted(completed) == list(range(90))


def test_a_reply_that_cannot_be_read_is_kept_where_late_ones_are(world: World) -> None:
    world.application(lambda request, replying: replying.reply(request, b"x" * 3000))
    result = world.client(max_body=2000).request("Customer.Retrieve", customer(1))
    assert result.status is ReturnCode.FAIL
    (kept,) = world.late
    assert kept.properties["connector_outcome"] == "unreadable_reply"
    assert kept.properties["connector_reason"] == result.message
    assert len(kept.body) == 3000
