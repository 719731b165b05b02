"""The sink ``destination``: the messages that it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData
from connector.messaging.destination import parse_destination
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, STANDARD_TYPES, Message, PropertyValue
from connector.sinks.destination.sink import DestinationSink, DestinationSpec
from connector.testing.sinks import PreparedSinkSuite, sample_context, sample_event, sample_object
from tests.tables import rows
from tests.waiting import now_ms

SAMPLE = sample_object(), sample_event()
Said = Callable[[str, str], Mapping[str, str]]


class TestDestination(PreparedSinkSuite):
    key = "destination"
    entry = "{destination: 'queue://notes', mime_type: application/json, format: NOTE}"


def sink(
    body: bytes | str = "x",
    said: Said = lambda name, verb: {},
    message_format: str | None = None,
    *,
    persistent: bool = True,
) -> DestinationSink:
    context = sample_context(writer=lambda mime_type: lambda bo: body, properties=said, persistent=persistent)
    return DestinationSpec(parse_destination("queue://q"), format=message_format).open(context)


def test_the_message_keeps_what_belongs_to_the_event_and_nothing_else() -> None:
    came = Message(
        message_id="ID:1", correlation_id="c", priority=7, reply_to="queue://r", type="IN", expiration=5
    )
    came.set_property("JMSXGroupID", "g")
    came.set_property("JMSXGroupSeq", 3, "int")
    came.set_property("connector_attempts", 3)
    came.set_property("region", "south")
    made = sink(said=lambda name, verb: {"OutputFormat": f"{name}/{verb}"})
    message = made.prepare(sample_object(), sample_event(came))
    own = {"JMSCorrelationID": "c", "JMSPriority": 7, "JMSType": "Note/Create"}
    assert message.headers() == {**Message().headers(), **own}
    assert message.properties == {"JMSXGroupID": "g", "JMSXGroupSeq": 3, "connector_event_id": "ID:1"}
    types = {"JMSXGroupID": "string", "JMSXGroupSeq": "int", "connector_event_id": "string"}
    assert message.property_types == types


@rows(
    "name, value, kind, sent",
    [
        ("JMSXGroupID", 5, "int", "5"),
        ("JMSXGroupID", True, "boolean", "true"),
        ("JMSXGroupID", 1.5, "double", "1.5"),
        ("JMSXGroupSeq", 5, "long", 5),
        ("JMSXGroupSeq", "5", "string", 5),
        ("JMSXGroupSeq", 1 << 40, "long", None),
        ("JMSXGroupSeq", "a", "string", None),
        ("JMSXGroupSeq", 1.5, "double", None),
    ],
)
def test_a_group_of_another_type_is_sent_in_the_type_of_jms(
    name: str, value: PropertyValue, kind: str, sent: PropertyValue | None
) -> None:
    came = Message(message_id="ID:1")
    came.set_property(name, value, kind)
    message = sink().prepare(sample_object(), sample_event(came))
    assert message.properties.get(name) == sent
    assert message.property_types.get(name) == (None if sent is None else STANDARD_TYPES[name])


def test_the_static_meta_object_says_priority_delivery_mode_and_format_unless_the_subscription_does() -> None:
    said = {"Priority": "9", "DeliveryMode": "1", "OutputFormat": "RULE"}
    message = sink(said=lambda name, verb: said).prepare(*SAMPLE)
    assert (message.priority, message.delivery_mode, message.type) == (9, NON_PERSISTENT, "RULE")
    own = sink(said=lambda name, verb: said, message_format="OWN").prepare(*SAMPLE)
    assert own.type == "OWN"


@rows("key, header", [("TimeToLive", "expiration"), ("DeliveryDelay", "delivery_time")])
@rows("value, milliseconds", [("90000", 90000), ("0", 0), (" ", 0)])
def test_the_static_meta_object_says_how_long_the_message_lives_and_waits(
    key: str, header: str, value: str, milliseconds: int
) -> None:
    before = now_ms()
    found = getattr(sink(said=lambda name, verb: {key: value}).prepare(*SAMPLE), header)
    if milliseconds:
        assert before + milliseconds <= found <= now_ms() + milliseconds
    else:
        assert found == 0


@rows("persistent, mode", [(True, PERSISTENT), (False, NON_PERSISTENT)])
def test_a_message_is_as_persistent_as_the_provider_can_keep_it(persistent: bool, mode: int) -> None:
    message = sink(persistent=persistent).prepare(*SAMPLE)
    assert message.delivery_mode == mode


BUG = "the data handler function raised KeyError: 'bug'"


@rows("error, words", [(MalformedData("no room"), "no room"), (KeyError("bug"), BUG)])
def test_an_object_that_cannot_be_written_is_malformed(error: Exception, words: str) -> None:
    def to_body(bo: BusinessObject) -> str:
        raise error

    made = DestinationSpec(parse_destination("queue://q")).open(sample_context(writer=lambda kind: to_body))
    with pytest.raises(MalformedData) as raised:
        made.prepare(*SAMPLE)
    assert str(raised.value) == words


def test_text_that_no_encoding_can_write_is_malformed() -> None:
    with pytest.raises(MalformedData):
        sink("\ud800").prepare(*SAMPLE)
