"""The message of a request: its headers, its properties, and a body without meta-data."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.businessobjects.definition import Definitions
from connector.businessobjects.dynamic import fill_dynamic
from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData, RequestRefused
from connector.formats.handlers import HandlerSpec
from connector.messaging.message import Message
from connector.requests.building import build
from connector.requests.properties import resolve
from connector.requests.settings import RequestSettings
from tests.requests.samples import PROPERTIES, SAMPLES, customer, handlers, settings
from tests.tables import rows


def message_of(bo: BusinessObject, of_plan: RequestSettings | None = None) -> Message:
    of_plan = of_plan or settings()
    return build(bo, resolve(bo, of_plan), of_plan, handlers(of_plan))


class Handler:
    """A data handler whose ``to_body`` is one line of a test."""

    mime_types = ("text/odd",)
    options = ()

    def __init__(self, options: object, definitions: Definitions) -> None: ...

    def to_business_object(self, body: bytes | str, hint: object) -> BusinessObject:
        raise NotImplementedError

    def to_body(self, bo: BusinessObject) -> Any:
        raise NotImplementedError


class Careless(Handler):
    """Writes all there is, meta-data too."""

    def to_body(self, bo: BusinessObject) -> str:
        return json.dumps(bo.as_dict())


class Refusing(Handler):
    def to_body(self, bo: BusinessObject) -> str:
        raise MalformedData("Customer: Name: a comma cannot be written")


class Broken(Handler):
    def to_body(self, bo: BusinessObject) -> str:
        raise ZeroDivisionError("division by zero")


class Ending(Handler):
    def to_body(self, bo: BusinessObject) -> str:
        raise SystemExit(3)


class Unspeakable(Handler):
    def to_body(self, bo: BusinessObject) -> str:
        class Silent(Exception):
            def __str__(self) -> str:
                raise RuntimeError

        raise Silent


class Empty(Handler):
    def to_body(self, bo: BusinessObject) -> None:
        return None


class Surrogate(Handler):
    def to_body(self, bo: BusinessObject) -> str:
        return "\ud800"


class Text(Handler):
    def to_body(self, bo: BusinessObject) -> str:
        return "København"


class Binary(Handler):
    def to_body(self, bo: BusinessObject) -> bytes:
        return b"\xff\x00"


def with_handler(kind: type[Handler]) -> RequestSettings:
    return settings(handlers=(HandlerSpec("text/odd", kind.__name__, __name__),), default_handler="text/odd")


# --- table 1: header population --------------------------------------------------------------------


def test_table_1_output_format_undefined_leaves_the_message_without_a_format() -> None:
    message = message_of(customer())
    assert (message.type, message.properties) == (None, {})


def test_table_1_output_format_is_the_format_of_the_message() -> None:
    assert message_of(customer(OutputFormat="CUST")).type == "CUST"


def test_table_1_output_format_goes_where_message_format_property_wants_it() -> None:
    message = message_of(customer(OutputFormat="CUST"), settings(format_property="format"))
    assert (message.type, message.properties) == (None, {"format": "CUST"})


def test_table_1_correlation_id_undefined_is_blank() -> None:
    assert message_of(customer()).correlation_id is None


def test_table_1_correlation_id_is_that_of_the_header() -> None:
    assert message_of(customer(CorrelationID="C-7")).correlation_id == "C-7"


def test_table_1_priority_undefined_is_the_providers_default() -> None:
    assert message_of(customer()).priority == 4


@rows("priority", [0, 9])
def test_table_1_priority_is_that_of_the_header(priority: int) -> None:
    assert message_of(customer(Priority=priority)).priority == priority


def test_table_1_jms_properties_undefined_are_none() -> None:
    assert message_of(customer(Priority=1)).properties == {}


def test_table_1_jms_properties_are_properties_of_the_message_with_their_types() -> None:
    message = message_of(customer(JMSProperties={"Region": "EU", "Urgent": False, "Count": 3}))
    assert message.properties == {"region": "EU", "urgent": False, "count": 3}
    assert message.property_types == {"region": "string", "urgent": "boolean", "count": "int"}


# --- table 2: delivery -----------------------------------------------------------------------------


@rows("persistent, mode", [(True, 2), (False, 1)])
def test_table_2_delivery_mode_undefined_is_what_the_provider_keeps(persistent: bool, mode: int) -> None:
    assert message_of(customer(), settings(persistent=persistent)).delivery_mode == mode


@rows("written, mode", [("Persistent", 2), ("NonPersistent", 1)])
@rows("persistent", [True, False])
def test_table_2_delivery_mode_is_as_indicated(written: str, mode: int, persistent: bool) -> None:
    assert message_of(customer(DeliveryMode=written), settings(persistent=persistent)).delivery_mode == mode


# --- where the format is said ----------------------------------------------------------------------


def test_the_output_format_counts_before_a_property_of_the_same_name() -> None:
    bo = customer(OutputFormat="NEW", JMSProperties={"Region": "OLD"})
    assert message_of(bo, settings(format_property="region")).properties == {"region": "NEW"}


def test_a_format_can_be_said_in_the_correlation_id() -> None:
    message = message_of(customer(OutputFormat="CUST"), settings(format_property="JMSCorrelationID"))
    assert message.correlation_id == "CUST"


@rows("name", ["JMSMessageID", "JMSPriority", "JMSXDeliveryCount", "a b"])
def test_a_format_cannot_be_said_in_what_only_providers_write(name: str) -> None:
    with pytest.raises(RequestRefused, match="OutputFormat cannot be set: MessageFormatProperty: "):
        message_of(customer(OutputFormat="CUST"), settings(format_property=name))


# --- bodies ----------------------------------------------------------------------------------------


def test_the_body_is_written_by_the_data_handler_of_the_request() -> None:
    message = message_of(customer(values={"Name": "Ada"}))
    assert json.loads(message.body) == {
        "BusinessObject": "Customer",
        "Verb": "Create",
        "CustomerId": "7",
        "Name": "Ada",
    }
    assert message_of(customer(DataHandlerMimeType="text/xml")).body.startswith(b"<")


def test_meta_data_are_no_part_of_a_body_even_of_a_careless_data_handler() -> None:
    bo = customer(Priority=9, OutputDestination="queue://secret")
    assert json.loads(message_of(bo, with_handler(Careless)).body) == {"CustomerId": "7"}


def test_the_object_of_the_request_is_not_changed() -> None:
    bo = customer(Priority=9, JMSProperties={"Region": "EU"})
    before = bo.as_dict()
    message_of(bo, with_handler(Careless))
    assert bo.as_dict() == before


@rows("kind, message_class, body", [(Text, "T", "København".encode()), (Binary, "B", b"\xff\x00")])
def test_text_is_sent_as_text_and_other_bytes_as_bytes(
    kind: type[Handler], message_class: str, body: bytes
) -> None:
    message = message_of(customer(), with_handler(kind))
    assert (message.message_class, message.body) == (message_class, body)


@rows(
    "kind, text",
    [
        (Refusing, "Customer: Name: a comma cannot be written"),
        (Broken, "the data handler Broken raised ZeroDivisionError: division by zero"),
        (Ending, "the data handler Ending raised SystemExit: 3"),
        (Unspeakable, "the data handler Unspeakable raised Silent"),
        (Empty, "the data handler Empty returned NoneType, no body"),
        (Surrogate, "the data handler Surrogate raised UnicodeEncodeError: "),
    ],
)
def test_a_data_handler_that_cannot_write_the_object_refuses_the_request(
    kind: type[Handler], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    with pytest.raises(RequestRefused) as refused:
        message_of(customer(), with_handler(kind))
    assert str(refused.value).startswith(text)
    said = [(one.getMessage(), vars(one)["data_handler"], bool(one.exc_info)) for one in caplog.records]
    assert said == [("a data handler has failed", kind.__name__, True)] * (" raised " in text)


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


# --- there and back --------------------------------------------------------------------------------


@given(
    region=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    urgent=st.booleans(),
    count=st.integers(-(2**31), 2**31 - 1),
    correlation=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(
        str.strip
    ),
    priority=st.integers(0, 9),
)
def test_what_a_request_says_is_what_an_event_reads(
    region: str, urgent: bool, count: int, correlation: str, priority: int
) -> None:
    said = {
        "CorrelationID": correlation,
        "Priority": priority,
        "JMSProperties": {"Region": region, "Urgent": urgent, "Count": count},
    }
    message = message_of(customer(**said))
    read = customer()
    fill_dynamic(read, message, message_format=None, input_destination="queue://in")
    found = read.as_dict()["Meta"]
    assert {name: found[name] for name in said} == said
    assert len(PROPERTIES) == len(found["JMSProperties"])
    assert read.definition is SAMPLES["Customer"]
