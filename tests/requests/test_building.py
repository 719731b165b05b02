"""The message of a request: its headers, its properties, and a body without meta-data."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData, RequestRefused
from connector.formats.handlers import HandlerSpec
from connector.messaging.message import Message
from connector.requests.building import build
from connector.requests.properties import resolve
from connector.requests.settings import RequestSettings
from tests.requests.samples import customer, handlers, settings
from tests.tables import rows


def message_of(bo: BusinessObject, of_plan: RequestSettings | None = None) -> Message:
    of_plan = of_plan or settings()
    return build(bo, resolve(bo, of_plan), of_plan, handlers(of_plan))


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError


BODIES: dict[str, Any] = {
    "text": "København",
    "binary": b"\xff\x00",
    "nothing": None,
    "surrogate": "\ud800",
    "refused": MalformedData("Customer: Name: a comma cannot be written"),
    "broken": ZeroDivisionError("division by zero"),
    "ended": SystemExit(3),
    "unspeakable": Silent(),
}


class Odd:
    """A data handler whose body the name of a customer says. Without a name it writes all, meta-data too."""

    mime_types = ("text/odd",)
    options = ()

    def __init__(self, options: object, definitions: Definitions) -> None: ...

    def to_business_object(self, body: bytes | str, hint: object) -> BusinessObject:
        raise NotImplementedError

    def to_body(self, bo: BusinessObject) -> Any:
        body = BODIES[bo["Name"]] if bo["Name"] else json.dumps(bo.as_dict())
        if isinstance(body, BaseException):
            raise body
        return body


ODD = settings(handlers=(HandlerSpec("text/odd", "Odd", __name__),), default_handler="text/odd")


def odd_message(name: str) -> Message:
    return message_of(customer(values={"Name": name}), ODD)


# --- headers ---------------------------------------------------------------------------------------


MADE: list[tuple[dict[str, Any], dict[str, Any], dict[str, object]]] = [
    # a dynamic meta-object, changes of the settings, and the headers of the message
    ({}, {}, {"type": None, "correlation_id": None, "priority": 4, "properties": {}}),
    ({"OutputFormat": "CUST"}, {}, {"type": "CUST", "properties": {}}),
    ({"OutputFormat": "CUST"}, {"message_format_property": "f"}, {"type": None, "properties": {"f": "CUST"}}),
    ({"OutputFormat": "CUST"}, {"message_format_property": "JMSCorrelationID"}, {"correlation_id": "CUST"}),
    (  # the format counts before a property of the same name
        {"OutputFormat": "NEW", "JMSProperties": {"Region": "OLD"}},
        {"message_format_property": "region"},
        {"properties": {"region": "NEW"}},
    ),
    ({"CorrelationID": "C-7"}, {}, {"correlation_id": "C-7"}),
    ({"Priority": 0}, {}, {"priority": 0, "properties": {}}),
    ({"Priority": 9}, {}, {"priority": 9}),
    (
        {"JMSProperties": {"Region": "EU", "Urgent": False, "Count": 3}},
        {},
        {
            "properties": {"region": "EU", "urgent": False, "count": 3},
            "property_types": {"region": "string", "urgent": "boolean", "count": "int"},
        },
    ),
    # table 2: what the provider keeps, unless it is indicated
    ({}, {"persistent": True}, {"delivery_mode": 2}),
    ({}, {"persistent": False}, {"delivery_mode": 1}),
    ({"DeliveryMode": "Persistent"}, {"persistent": True}, {"delivery_mode": 2}),
    ({"DeliveryMode": "Persistent"}, {"persistent": False}, {"delivery_mode": 2}),
    ({"DeliveryMode": "NonPersistent"}, {"persistent": True}, {"delivery_mode": 1}),
    ({"DeliveryMode": "NonPersistent"}, {"persistent": False}, {"delivery_mode": 1}),
]


@rows("meta, changes, headers", MADE)
def test_tables_1_and_2_headers_say_what_is_defined(
    meta: dict[str, Any], changes: dict[str, Any], headers: dict[str, object]
) -> None:
    message = message_of(customer(**meta), settings(**changes))
    assert {name: getattr(message, name) for name in headers} == headers


@rows("name", ["JMSMessageID", "JMSPriority", "JMSXDeliveryCount", "a b"])
def test_a_format_cannot_be_said_in_what_only_providers_write(name: str) -> None:
    with pytest.raises(RequestRefused, match="OutputFormat cannot be set: MessageFormatProperty: "):
        message_of(customer(OutputFormat="CUST"), settings(message_format_property=name))


# --- bodies ----------------------------------------------------------------------------------------


def test_the_body_is_written_by_the_data_handler_of_the_request() -> None:
    said = {"BusinessObject": "Customer", "Verb": "Create", "CustomerId": "7", "Name": "Ada"}
    assert json.loads(message_of(customer(values={"Name": "Ada"})).body) == said
    assert message_of(customer(DataHandlerMimeType="text/xml")).body.startswith(b"<")


def test_meta_data_are_no_part_of_a_body_even_of_a_careless_data_handler_and_stay_in_the_object() -> None:
    bo = customer(Priority=9, OutputDestination="queue://secret", JMSProperties={"Region": "EU"})
    before = bo.as_dict()
    assert json.loads(message_of(bo, ODD).body) == {"CustomerId": "7"}
    assert bo.as_dict() == before


def test_text_is_sent_as_text_and_other_bytes_as_bytes() -> None:
    messages = [odd_message(name) for name in ("text", "binary")]
    found = [(message.message_class, message.body) for message in messages]
    assert found == [("T", "København".encode()), ("B", b"\xff\x00")]


@rows(
    "name, text",
    [
        ("refused", "Customer: Name: a comma cannot be written"),
        ("broken", "the data handler Odd raised ZeroDivisionError: division by zero"),
        ("ended", "the data handler Odd raised SystemExit: 3"),
        ("unspeakable", "the data handler Odd raised Silent"),
        ("nothing", "the data handler Odd returned NoneType from to_body, expected bytes or str"),
        ("surrogate", "the data handler Odd raised UnicodeEncodeError: "),
    ],
)
def test_a_data_handler_that_cannot_write_the_object_refuses_the_request(
    name: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    with pytest.raises(RequestRefused) as refused:
        odd_message(name)
    assert str(refused.value).startswith(text)
    said = [(one.getMessage(), vars(one)["data_handler"], bool(one.exc_info)) for one in caplog.records]
    assert said == [("a data handler has failed", "Odd", True)] * (" raised " in text)


@rows(
    "meta, text",
    [
        ({"DataHandlerMimeType": "text/xlm"}, "no data handler for 'text/xlm', expected one of "),
        ({"DataHandlerConfigMO": "MO_None"}, "no data handler for 'application/json' in MO_None"),
        ({"DataHandlerClassName": "mine:Csv"}, "no data handler for 'mine:Csv'"),
    ],
)
def test_a_data_handler_that_is_not_there_refuses_the_request(meta: dict[str, Any], text: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        message_of(customer(**meta))
    assert str(refused.value).startswith(text)
