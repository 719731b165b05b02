"""The sinks ``load`` and ``dataframe``: the messages that they make."""

from __future__ import annotations

import socket
from dataclasses import replace
from decimal import Decimal
from typing import ClassVar

import pytest

from connector.businessobjects.definition import Attribute, Definition, Definitions
from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData
from connector.lake.sink import LoadSink, LoadSpec, load_queue, read_object
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message
from connector.testing.deployment import Deployment
from connector.testing.sinks import PreparedSinkSuite, sample_context, sample_event, sample_object
from tests.tables import rows


class _LoadSuite(PreparedSinkSuite):
    name: ClassVar[str]

    def queue(self, deployment: Deployment) -> str:
        return str(load_queue("suite", socket.gethostname(), self.name))


class TestDataframe(_LoadSuite):
    key = "dataframe"
    entry = "{dataframe: {format: parquet, path: ./lake/notes}}"
    name = "Note ./lake/notes"


class TestLoad(_LoadSuite):
    key = "load"
    entry = "{load: 'fnmatch:fnmatch'}"
    name = "Note fnmatch:fnmatch"


def load_sink(*, persistent: bool = True) -> LoadSink:
    context = sample_context(persistent=persistent)
    return LoadSpec().open(replace(context, application="shop", instance="host-a"))


def test_the_message_has_the_values_the_object_the_verb_and_the_event() -> None:
    event = replace(sample_event(), id="ID:7", traceparent="00-1-2-01")
    message = load_sink().prepare(sample_object("Käse"), event)
    assert message.body == '{"Text":"Käse"}'.encode()
    load = {"connector_load_object": "Note", "connector_load_verb": "Create"}
    event_of = {"connector_event_id": "ID:7", "traceparent": "00-1-2-01"}
    assert message.properties == {**load, **event_of}
    assert (message.message_class, message.delivery_mode, message.priority) == ("T", PERSISTENT, 4)
    assert load_sink(persistent=False).prepare(sample_object(), event).delivery_mode == NON_PERSISTENT


def test_all_values_come_back() -> None:
    types = {"Id": "Integer", "Price": "Decimal", "Rate": "Double", "Paid": "Boolean", "Day": "Date"}
    attributes = {
        **{name: Attribute(name, kind) for name, kind in types.items()},
        "Blank": Attribute("Blank", "Integer"),
        "Lines": Attribute("Lines", "Line", cardinality="n"),
        "Notes": Attribute("Notes", "String", cardinality="n"),
        "Unset": Attribute("Unset", "String"),
    }
    line = Definition("Line", attributes={"Sku": Attribute("Sku", "String")})
    known = Definitions({"Order": Definition("Order", attributes=attributes), "Line": line})
    values = {
        "Id": 7,
        "Price": Decimal("12345678901234567890.1234567890"),
        "Rate": 0.1,
        "Paid": False,
        "Day": "2026-03-01T10:00:00Z",
        "Blank": "",
        "Lines": [{"Sku": "a"}, {}],
        "Notes": ["x", "Ö"],
    }
    order = BusinessObject(known, "Order", "Update", values)
    found = read_object(known, "Order", load_sink().prepare(order, sample_event()))
    assert found == order
    assert found["Price"] == values["Price"]


def test_an_attribute_that_is_gone_is_passed_over_and_other_changes_are_mistakes() -> None:
    definition = Definition("Note", attributes={"Text": Attribute("Text", "Integer")})
    known = Definitions({"Note": definition})
    assert read_object(known, "Note", Message(b'{"Text":1,"Old":2}', "T")).as_dict() == {"Text": 1}
    for body in (b'{"Text":"x"}', b"[1]", b"{", b"\xff"):
        with pytest.raises(MalformedData):
            read_object(known, "Note", Message(body, "T"))


@rows(
    "names, name",
    [
        (("shop", "host-a", "orders"), "connector.shop.load.host-a.orders"),
        (("shop", "", "orders"), "connector.shop.load.-.orders"),
        (("a.b", "h.example", "Order ./x;y"), "connector.a%2Eb.load.h%2Eexample.Order%20%2E%2Fx%3By"),
    ],
)
def test_the_queue_is_named_after_all_that_it_belongs_to(names: tuple[str, str, str], name: str) -> None:
    assert str(load_queue(*names)) == f"queue://{name}"
    first, second = (load_queue("shop", "host", "ö" * 300 + end) for end in "ab")
    assert first != second
    assert len(first.name) <= 200
