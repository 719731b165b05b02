"""The sink ``destination`` with placeholders: where a message goes, and what it has, for each object."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.businessobjects.instance import BusinessObject
from connector.errors import ConnectorError, WrongValue
from connector.messaging.message import Message
from connector.sinks.contract import PreparedSink
from connector.sinks.destination.computed import ComputedSpec
from connector.sinks.destination.sink import DestinationSpec
from connector.sinks.destination.templates import DestinationTemplate, fits, may_both_be
from connector.sinks.template import TextTemplate
from connector.testing.deployment import Deployment
from connector.testing.sinks import PreparedSinkSuite, sample_context, sample_event
from tests.tables import rows
from tests.waiting import now_ms

_SIMPLE = ("String", "Integer", "Boolean", "Double", "Float", "Decimal", "Date")
DEFINITIONS = Definitions(
    {
        "Order": Definition(
            "Order",
            attributes={
                **{f"A{kind}": Attribute(f"A{kind}", kind) for kind in _SIMPLE},
                "Address": Attribute("Address", "Address"),
                "Line": Attribute("Line", "Address", cardinality="n"),
            },
            verbs={"Create": Verb("Create")},
        ),
        "Address": Definition("Address", attributes={"City": Attribute("City", "String")}),
    }
)


class TestComputedDestination(PreparedSinkSuite):
    key = "destination"
    entry = "{destination: 'queue://notes-{Text}', destinations: ['queue://notes-*'], delay: 0}"

    def test_each_event_that_is_published_is_one_message(self, deployment: Deployment) -> None:
        self.publish(deployment, "one", "two", "one")
        found = {name: len(deployment.messages(f"queue://notes-{name}")) for name in ("one", "two", "three")}
        assert found == {"one": 2, "two": 1, "three": 0}

    def test_the_destination_is_that_of_the_message(self, open_sink: Callable[[], PreparedSink]) -> None:
        bo = BusinessObject(_note_definitions(), "Note", "Create", {"Text": "x"})
        assert open_sink().prepare(bo, sample_event()).destination == "queue://notes-x"


def _note_definitions() -> Definitions:
    attributes = {"Text": Attribute("Text", "String")}
    return Definitions({"Note": Definition("Note", attributes=attributes, verbs={"Create": Verb("Create")})})


def order(**values: Any) -> BusinessObject:
    return BusinessObject(DEFINITIONS, "Order", "Create", values)


def prepared(
    bo: BusinessObject, came: Message | None = None, *, own_names: bool = False, **keys: Any
) -> Message:
    """The message for an object, of a subscription whose keys are ``keys``."""
    for key in ("priority", "correlation_id", "group", "delay"):
        if key in keys:
            keys[key] = TextTemplate(keys[key])
    properties = tuple((name, TextTemplate(text)) for name, text in keys.pop("properties", {}).items())
    text = TextTemplate(keys.pop("destination", "queue://orders-{AString}"))
    destinations = keys.pop("destinations", ("queue://orders-*",))
    spec = ComputedSpec(
        DestinationSpec(None), DestinationTemplate(text, own_names), destinations, properties, **keys
    )
    context = sample_context(writer=lambda mime_type: lambda bo: "x")
    return spec.open(context).prepare(bo, sample_event(came or Message(message_id="ID:1")))


@rows(
    "template, values, destination",
    [
        ("queue://orders-{AString}", {"AString": "EU"}, "queue://orders-EU"),
        ("queue://orders-{AInteger}-{ABoolean}", {"AInteger": 7, "ABoolean": True}, "queue://orders-7-true"),
        ("queue://orders-{Address.City}", {"Address": {"City": "Köln 1"}}, "queue://orders-Köln 1"),
        ("queue://orders-{AString}", {"AString": "a.b"}, "queue://orders-a.b"),
        ("orders-{AString}", {"AString": "EU"}, "queue://orders-EU"),
    ],
)
def test_the_name_is_made_of_values(template: str, values: dict[str, Any], destination: str) -> None:
    assert prepared(order(**values), destination=template).destination == destination


@rows("own_names", [False, True])
@rows(
    "value, words",
    [
        (None, "has no value"),
        ("", "has no value"),
        ("  ", "has no value"),
        (" EU", "white space"),
        ("a/b", "a name has no '/'"),
        ("a\\b", "a name has no"),
        ("..", "a name has no '..'"),
        ("a..b", "a name has no '..'"),
        ("a\nb", "control character"),
        ("a\x00", "control character"),
        ("a;b", "a name has no ';'"),
        ("a~EXPIRED", "no '~'"),
        ("a%2Fb", "no escape"),
        ("x" * 250, "longer than 200 bytes"),
        ("\ud800", "not valid Unicode"),
        ("US", "none of destinations"),
    ],
)
def test_a_value_that_is_no_part_of_a_name_fails_the_event(
    own_names: bool, value: str | None, words: str
) -> None:
    with pytest.raises((ConnectorError, ValueError), match=words):
        prepared(order(AString=value), own_names=own_names, destinations=("queue://orders-E*",))


@rows("name", ["Line.City", "Address", "AString.City", "Missing", "Address.Missing"])
def test_a_placeholder_without_a_single_value_fails_the_event(name: str) -> None:
    with pytest.raises(ConnectorError):
        prepared(order(Address={"City": "x"}), destination=f"queue://orders-{{{name}}}")


@rows(
    "template, value, kind",
    [
        ("{AString}", "text", "string"),
        ("{AInteger}", 7, "int"),
        ("{ABoolean}", True, "boolean"),
        ("{ADouble}", 1.5, "double"),
        ("{AFloat}", 2.5, "float"),
        ("{ADecimal}", "10.50", "string"),
        ("{ADate}", "2024-01-31", "string"),
        ("{AInteger}!", "7!", "string"),
        ("{AInteger}{ABoolean}", "7true", "string"),
        ("fixed", "fixed", "string"),
        ("{{AInteger}}", "{AInteger}", "string"),
        ("{Address.City}", None, None),
        ("x{Address.City}", None, None),
    ],
)
def test_a_property_has_the_type_of_its_attribute(template: str, value: object, kind: str | None) -> None:
    bo = order(
        AString="text",
        AInteger=7,
        ABoolean=True,
        ADouble=1.5,
        AFloat=2.5,
        ADecimal="10.50",
        ADate="2024-01-31",
    )
    message = prepared(bo, destination="queue://orders-{AInteger}", properties={"p": template})
    message.check()
    found = message.properties.get("p"), message.property_types.get("p")
    assert (found, type(found[0])) == ((value, kind), type(value))


def test_headers_come_from_the_object() -> None:
    came = Message(message_id="ID:1", correlation_id="c", priority=2)
    came.set_property("JMSXGroupID", "g")
    came.set_property("JMSXGroupSeq", 3, "int")
    before = now_ms()
    headers: dict[str, Any] = {
        "priority": "{AInteger}",
        "correlation_id": "o-{AString}",
        "group": "{AString}",
        "delay": "2m",
    }
    message = prepared(order(AString="EU", AInteger=7), came, **headers)
    assert (message.priority, message.correlation_id, message.group_id) == (7, "o-EU", "EU")
    assert "JMSXGroupSeq" not in message.properties
    assert before + 120_000 <= message.delivery_time <= now_ms() + 120_000


def test_null_leaves_a_header_out() -> None:
    came = Message(message_id="ID:1", correlation_id="c", priority=2)
    came.set_property("JMSXGroupID", "g")
    headers: dict[str, Any] = dict.fromkeys(("priority", "correlation_id", "group", "delay"), "{AInteger}")
    message = prepared(order(AString="EU"), came, **headers)
    assert (message.priority, message.correlation_id, message.group_id) == (2, None, None)
    assert message.delivery_time == 0


@rows("key, value", [("priority", 10), ("priority", -1), ("delay", -5)])
def test_a_header_that_cannot_be_fails_the_event(key: str, value: int) -> None:
    header: dict[str, Any] = {key: "{AInteger}"}
    with pytest.raises(ValueError, match="expected"):
        prepared(order(AString="EU", AInteger=value), **header)


@rows("text", ["{", "}", "a{b", "{a b}", "{}", "{a.}", "{a}}", "{a{b}}"])
def test_a_template_with_a_brace_too_many_is_refused(text: str) -> None:
    with pytest.raises(WrongValue):
        TextTemplate(text)


@rows(
    "pattern, text, is_fit",
    [
        ("a-*", "a-", True),
        ("a-*", "a", False),
        ("a?c", "abc", True),
        ("a.c", "abc", False),
        ("[a]", "a", False),
    ],
)
def test_a_pattern_knows_stars_and_question_marks(pattern: str, text: str, is_fit: bool) -> None:
    assert fits(pattern, text) is is_fit


@rows(
    "one, other, both",
    [
        ("a-*", "a-b", True),
        ("a-*", "*-b", True),
        ("a-*-c", "a-?-*", True),
        ("a-*", "b-*", False),
        ("*", "", True),
        ("a*b", "a?", True),
        ("a*b", "ac?d", False),
    ],
)
def test_two_patterns_have_a_text_in_common_or_not(one: str, other: str, both: bool) -> None:
    assert (may_both_be(one, other), may_both_be(other, one)) == (both, both)


def test_the_body_is_that_of_the_object() -> None:
    message = prepared(order(AString="EU"))
    assert (message.body, json.dumps(message.properties)) == (b"x", '{"connector_event_id": "ID:1"}')
