"""The dynamic meta-object: headers of a message in a child of its business object."""

from __future__ import annotations

import pytest

from connector.businessobjects.definition import Attribute, Definition, Definitions
from connector.businessobjects.dynamic import HEADERS, dynamic_problems, fill_dynamic
from connector.businessobjects.instance import BusinessObject
from connector.messaging.message import Message, PropertyValue
from connector.testing.datahandlers import sample_definitions
from tests.datahandlers.definitions import define, known, refusal
from tests.tables import rows


def with_meta(*attributes: Attribute, properties: tuple[Attribute, ...] = ()) -> Definitions:
    """An object ``A`` whose dynamic meta-object ``Meta`` has these attributes."""
    if properties:
        attributes = (*attributes, Attribute("JMSProperties", "Properties"))
    return known(
        define("A", "x=y; cw_mo_any=Meta", Meta="MetaObject"),
        define("MetaObject", **{part.name: part for part in attributes}),
        define("Properties", **{part.name: part for part in properties}),
    )


def filled(definitions: Definitions, message: Message) -> dict[str, object]:
    bo = BusinessObject(definitions, "A", "Create")
    fill_dynamic(bo, message, message_format="FORMAT", input_destination="queue://in")
    values: dict[str, object] = bo.as_dict()["Meta"]
    return values


@pytest.fixture
def full() -> Message:
    """A message with every header."""
    message = Message(message_id="ID:1", correlation_id="c", reply_to="queue://r", destination="queue://d")
    message.type, message.delivery_mode, message.priority, message.delivery_count = "T", 1, 9, 2
    message.timestamp, message.expiration = 1700000000123, 1700000060000
    for name in ("UserID", "AppID", "GroupID"):
        message.set_property(f"JMSX{name}", name.lower())
    message.set_property("JMSXGroupSeq", 3)
    return message


def test_every_header_that_is_declared_is_filled(full: Message) -> None:
    assert filled(with_meta(*(Attribute(name, "String") for name in HEADERS)), full) == {
        "MessageID": "ID:1",
        "CorrelationID": "c",
        "ReplyToDestination": "queue://r",
        "Destination": "queue://d",
        "Type": "T",
        "DeliveryMode": "1",
        "Priority": "9",
        "Expiration": "1700000060000",
        "TimeStamp": "1700000000123",
        "Redelivered": "true",
        "UserID": "userid",
        "AppID": "appid",
        "GroupID": "groupid",
        "GroupSeq": "3",
        "DeliveryCount": "2",
        "InputFormat": "FORMAT",
        "InputDestination": "queue://in",
    }


@rows("name, kind", [(name, kind) for name in HEADERS for kind in HEADERS[name].types])
def test_every_type_that_the_table_allows_holds_the_header(full: Message, name: str, kind: str) -> None:
    assert list(filled(with_meta(Attribute(name, kind)), full)) == [name]


def test_a_header_that_the_message_lacks_stays_unset() -> None:
    names = ("MessageID", "CorrelationID", "Expiration", "TimeStamp", "GroupID", "OutputDestination")
    assert filled(with_meta(*(Attribute(name, "String") for name in names)), Message()) == {}


def test_a_header_is_converted_to_the_type_of_its_attribute() -> None:
    kinds = {"Priority": "Integer", "Redelivered": "Boolean", "TimeStamp": "Date", "Expiration": "Double"}
    definitions = with_meta(*(Attribute(*pair) for pair in kinds.items()))
    message = Message(timestamp=1700000000123, expiration=1700000060000)
    assert filled(definitions, message) == {
        "Priority": 4,
        "Redelivered": False,
        "TimeStamp": "2023-11-14T22:13:20.123Z",
        "Expiration": 1700000060000.0,
    }


@rows(
    "name, kind, message",
    [
        ("TimeStamp", "Integer", Message(timestamp=1700000000123)),
        ("CorrelationID", "Integer", Message(correlation_id="c")),
        ("Priority", "Boolean", Message()),
        ("Expiration", "Date", Message(expiration=2**62)),
        ("MessageID", "Date", Message(message_id="ID:1")),
    ],
)
def test_a_header_that_does_not_fit_fails_with_its_path(name: str, kind: str, message: Message) -> None:
    reason = refusal(filled, with_meta(Attribute(name, kind)), message)
    assert reason.startswith(f"A: Meta.{name}: ")


def test_an_object_without_a_dynamic_meta_object_is_left_alone() -> None:
    bo = BusinessObject(sample_definitions(), "Address", "Create", {"City": "a"})
    fill_dynamic(bo, Message(message_id="ID:1"), message_format=None, input_destination="queue://in")
    assert bo.as_dict() == {"City": "a"}


def test_properties_are_found_by_the_name_in_the_tag_or_that_of_the_attribute() -> None:
    message = Message()
    for name, value in (("region.code", "EU"), ("Plain", 5), ("ignored", "x")):
        message.set_property(name, value)
    tagged = Attribute("Region", "String", app_specific_info="name=region.code; type=String")
    definitions = with_meta(properties=(tagged, Attribute("Plain", "Integer"), Attribute("Absent", "String")))
    assert filled(definitions, message) == {"JMSProperties": {"Region": "EU", "Plain": 5}}


REFUSED = object()


@rows(
    "kind, attribute_type, value, actual, kept",
    [
        ("String", "String", 7, "int", "7"),
        ("String", "String", True, "boolean", "true"),
        ("Int", "Integer", "7", "string", 7),
        ("Integer", "Integer", 7, "short", 7),
        ("Long", "Integer", 7, "byte", 7),
        ("Long", "String", 2**40, "long", str(2**40)),
        ("Double", "Double", 0.5, "float", 0.5),
        ("Boolean", "Boolean", "TRUE", "string", True),
        ("Boolean", "String", False, "boolean", "false"),
        ("Int", "Integer", "seven", "string", REFUSED),
        ("Int", "Integer", 7, "long", REFUSED),
        ("Int", "Integer", 0.5, "double", REFUSED),
        ("Boolean", "Boolean", 1, "int", REFUSED),
        ("Float", "Float", 1.0, "double", REFUSED),
        ("Long", "Integer", 2**40, "long", REFUSED),
        ("String", "Integer", "7", "string", REFUSED),
        ("Number", "Integer", 7, "int", REFUSED),
    ],
)
def test_a_property_is_read_as_the_type_in_its_tag_or_refused_with_its_path(
    kind: str, attribute_type: str, value: PropertyValue, actual: str, kept: object
) -> None:
    part = Attribute("P", attribute_type, app_specific_info=f"name=p;type={kind}")
    definitions, message = with_meta(properties=(part,)), Message()
    message.set_property("p", value, actual)
    if kept is REFUSED:
        assert refusal(filled, definitions, message).startswith("A: Meta.JMSProperties.P: ")
    else:
        assert filled(definitions, message) == {"JMSProperties": {"P": kept}}


def test_the_shipped_samples_have_sound_meta_objects() -> None:
    definitions = sample_definitions()
    assert [text for d in definitions.values() for text in dynamic_problems(d, definitions)] == []


@rows(
    "info, attributes, words",
    [
        ("cw_mo_x=Mta", (Attribute("Meta", "MetaObject"),), "no attribute of B, did you mean 'Meta'"),
        ("cw_mo_x=Meta", (Attribute("Meta", "String"),), "must be one business object"),
        ("cw_mo_x=Meta", (Attribute("Meta", "MetaObject", cardinality="n"),), "must be one business object"),
        ("cw_mo_x=Meta", (Attribute("Meta", "MetaObject"),), "P of Properties has type=Number"),
    ],
)
def test_a_mistake_in_a_meta_object_is_found(
    info: str, attributes: tuple[Attribute, ...], words: str
) -> None:
    definitions = with_meta(properties=(Attribute("P", "String", app_specific_info="name=p;type=Number"),))
    definition = Definition("B", app_specific_info=info, attributes={a.name: a for a in attributes})
    assert words in "\n".join(dynamic_problems(definition, definitions))
