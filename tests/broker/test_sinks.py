"""Sinks: calls of business processes, and the messages made for destinations."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from connector.broker.sinks import DestinationSink, Event, ProcessSink
from connector.broker.subscriptions import SentHeaders
from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData, NotActive, TemporaryFailure, Unsubscribed
from connector.messaging.message import Message

ORDER = Definition("Order", attributes={"Id": Attribute("Id", "String")}, verbs={"Create": Verb("Create")})
DEFINITIONS = Definitions({"Order": ORDER})


class Clockwork:
    """A watch that notes what it was told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def arm(self, seconds: float, what: str) -> None:
        self.told.append((seconds, what))

    def disarm(self) -> None:
        self.told.append("disarmed")


def order() -> BusinessObject:
    return BusinessObject(DEFINITIONS, "Order", "Create", {"Id": "1"})


def unsaid(name: str, verb: str) -> SentHeaders:
    return SentHeaders()


def event(message: Message | None = None) -> Event:
    return Event("ID:1", "queue://orders", 1, message or Message(message_id="ID:1"))


def failing(times: int, error: Exception) -> Callable[..., str]:
    calls = []

    def process(bo: BusinessObject, event: Event) -> str:
        calls.append(time.monotonic())
        if len(calls) <= times:
            raise error
        return "whatever it returns means done"

    process.calls = calls  # type: ignore[attr-defined]
    return process


@pytest.mark.parametrize(
    ("retries", "failures", "calls"), [(0, 0, 1), (2, 1, 2), (2, 2, 3), (2, 9, 3), (0, 1, 1)]
)
def test_a_temporary_failure_is_tried_again_as_often_as_configured(
    retries: int, failures: int, calls: int
) -> None:
    process = failing(failures, TemporaryFailure("busy"))
    sink = ProcessSink(process, "s", retries=retries, timeout=None, watch=Clockwork())
    if failures > retries:
        with pytest.raises(TemporaryFailure, match="busy"):
            sink.deliver(order(), event())
    else:
        sink.deliver(order(), event())
    assert len(process.calls) == calls  # type: ignore[attr-defined]


def test_the_wait_between_two_tries_grows() -> None:
    process = failing(9, TemporaryFailure())
    sink = ProcessSink(process, "s", retries=3, timeout=None, watch=Clockwork())
    with pytest.raises(TemporaryFailure):
        sink.deliver(order(), event())
    times = process.calls  # type: ignore[attr-defined]
    waits = [later - earlier for earlier, later in pairwise(times)]
    for wait, least in zip(waits, (0.1, 0.2, 0.4), strict=True):
        assert wait >= least


@pytest.mark.parametrize("error", [Unsubscribed("x"), NotActive("x"), ValueError("x")])
def test_any_other_answer_comes_through_at_once(error: Exception) -> None:
    process = failing(9, error)
    sink = ProcessSink(process, "s", retries=5, timeout=None, watch=Clockwork())
    with pytest.raises(type(error), match="x"):
        sink.deliver(order(), event())
    assert len(process.calls) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("failures", [0, 1])
def test_each_call_has_the_whole_timeout_and_none_runs_on_after_it(failures: int) -> None:
    watch = Clockwork()
    sink = ProcessSink(failing(failures, TemporaryFailure()), "s", retries=1, timeout=2.5, watch=watch)
    sink.deliver(order(), event())
    assert watch.told == [(2.5, "s"), "disarmed"] * (failures + 1)


@pytest.mark.parametrize(
    ("body", "message_class", "data"),
    [
        ("Käse", "T", "Käse".encode()),
        ("Käse".encode(), "T", "Käse".encode()),
        (b"\xff\x00", "B", b"\xff\x00"),
        (b"", "T", b""),
    ],
)
def test_the_message_for_a_destination_is_text_where_the_body_is(
    body: bytes | str, message_class: str, data: bytes
) -> None:
    message = DestinationSink(lambda bo: body, unsaid).prepare(order(), event())
    assert (message.message_class, message.body) == (message_class, data)


def test_the_message_for_a_destination_keeps_what_belongs_to_the_event_and_nothing_else() -> None:
    came = Message(
        message_id="ID:1", correlation_id="c", priority=7, reply_to="queue://r", type="IN", expiration=5
    )
    came.set_property("JMSXGroupID", "g")
    came.set_property("JMSXGroupSeq", 3, "int")
    came.set_property("connector_attempts", 3)
    came.set_property("region", "south")
    sink = DestinationSink(lambda bo: "x", lambda name, verb: SentHeaders(f"{name}/{verb}"))
    message = sink.prepare(order(), event(came))
    assert message.headers() == {
        **Message().headers(),
        "JMSCorrelationID": "c",
        "JMSPriority": 7,
        "JMSType": "Order/Create",
    }
    assert message.properties == {"JMSXGroupID": "g", "JMSXGroupSeq": 3, "connector_event_id": "ID:1"}
    assert message.property_types == {
        "JMSXGroupID": "string",
        "JMSXGroupSeq": "int",
        "connector_event_id": "string",
    }


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MalformedData("no room"), "no room"),
        (KeyError("bug"), "the data handler function raised KeyError: 'bug'"),
    ],
)
def test_an_object_that_cannot_be_written_is_malformed(error: Exception, words: str) -> None:
    def to_body(bo: BusinessObject) -> str:
        raise error

    with pytest.raises(MalformedData) as raised:
        DestinationSink(to_body, unsaid).prepare(order(), event())
    assert str(raised.value) == words


def test_text_that_no_encoding_can_write_is_malformed() -> None:
    with pytest.raises(MalformedData):
        DestinationSink(lambda bo: "\ud800", unsaid).prepare(order(), event())
