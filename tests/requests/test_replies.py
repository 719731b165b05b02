"""What a reply means: WBI Adapter for JMS, table 6."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.formats.handlers import HandlerSpec
from connector.messaging.message import MESSAGE_CLASSES, Message, PropertyValue
from connector.requests.properties import resolve
from connector.requests.replies import MAX_TEXT, RESULTS, interpret
from connector.requests.result import RequestResult
from connector.requests.settings import RequestSettings
from connector.status import ReturnCode
from tests.requests.samples import customer, definitions, handlers, reply, settings
from tests.tables import rows

REFILLING = ["VALCHANGE", "MULTIPLE_HITS"]
ERRORS = [
    *("FAIL", "FAIL_RETRIEVE_BY_CONTENT", "BO_DOES_NOT_EXIST", "UNABLE_TO_LOGIN", "VALDUPES"),
    "APPRESPONSETIMEOUT",
]
FROM = "the reply (ID:reply) of the application behind queue://out"
KEPT = {"CustomerId": "7", "Meta": {"CorrelationID": "c"}}
PLAN = settings()
HANDLERS = handlers(PLAN)


def answer(
    message: Message, bo: BusinessObject | None = None, of_plan: RequestSettings | None = None
) -> RequestResult:
    bo = bo or customer()
    of_plan = of_plan or PLAN
    made = HANDLERS if of_plan is PLAN else handlers(of_plan)
    return interpret(message, bo, resolve(bo, of_plan), of_plan, made)


def fails_with(message: Message, *words: str, of_plan: RequestSettings | None = None) -> None:
    """Checks that a reply fails its request with a text that has the words, and leaves the object alone."""
    bo = customer(CorrelationID="c")
    result = answer(message, bo, of_plan)
    assert result.status is ReturnCode.FAIL
    assert all(one in str(result.message) for one in words), result.message
    assert result.object is bo
    assert bo.as_dict() == KEPT


# --- table 6 ---------------------------------------------------------------------------------------


ASKED = {"Age": 40, "Address": [{"City": "Ulm"}]}
ADA = b'{"CustomerId": "8", "Name": "Ada", "Address": [{"City": "Bonn"}, {"City": "Kiel"}]}'


def test_table_6_success_makes_no_change_whatever_the_body() -> None:
    bo = customer(CorrelationID="c")
    result = answer(reply("SUCCESS", ADA, correlation_id="other"), bo)
    assert (result.status, result.message, result.good) == (ReturnCode.SUCCEED, None, True)
    assert result.object is bo
    assert bo.as_dict() == KEPT


@rows("name", REFILLING)
@rows(
    "message_class, body",
    [("T", ADA), ("T", b""), ("B", b""), ("T", b" \r\n\t"), ("M", b""), ("M", b"no body")],
)
def test_table_6_valchange_and_multiple_hits_refill_the_object_from_the_body_if_it_has_one(
    name: str, message_class: str, body: bytes
) -> None:
    bo = customer(values=ASKED)
    result = answer(reply(name, body, message_class), bo)
    assert (result.status.name, result.message, result.good) == (name, None, True)
    assert result.object.as_dict(body_only=True) == (json.loads(ADA) if body == ADA else bo.as_dict())
    assert (result.object.type, result.object.verb) == ("Customer", "Create")


@rows("name", REFILLING)
@rows("body", [b"", b'{"CustomerId": "8"}'])
def test_table_6_the_dynamic_meta_object_is_refilled_with_the_headers_of_the_reply(
    name: str, body: bytes
) -> None:
    bo = customer(CorrelationID="mine", Priority=9, TimeStamp="1", JMSProperties={"Region": "EU", "Count": 1})
    message = reply(
        name, body, correlation_id="ID:request", type="REPLY", timestamp=1700000000123, delivery_mode=1
    )
    message.destination = "queue://replies"
    message.set_property("region", "US")
    assert answer(message, bo).object.as_dict()["Meta"] == {
        "CorrelationID": "ID:request",
        "Priority": 4,
        "DeliveryMode": "1",
        "MessageID": "ID:reply",
        "TimeStamp": "1700000000123",
        "Destination": "queue://replies",
        "Type": "REPLY",
        "Redelivered": False,
        "InputFormat": "REPLY",
        "InputDestination": "queue://replies",
        "JMSProperties": {"Region": "US"},
    }


def test_table_6_what_stands_for_no_header_stays_in_the_dynamic_meta_object() -> None:
    kept: dict[str, Any] = {
        "OutputDestination": "queue://crm",
        "OutputFormat": "CUST",
        "ResponseTimeout": 5,
        "TimeoutFatal": False,
        "DataHandlerMimeType": "application/json",
        "Note": "mine",
    }
    bo = customer(**kept)
    bo.object_event_id = "ID:event"
    refilled = answer(reply("VALCHANGE"), bo).object
    found = refilled.as_dict()["Meta"]
    assert {name: found.get(name) for name in kept} == kept
    assert refilled.object_event_id == "ID:event"


def test_the_request_dictates_object_verb_and_data_handler_whatever_the_body_says() -> None:
    body = b'{"BusinessObject": "Plain", "Verb": "Retrieve", "CustomerId": "8"}'
    refilled = answer(reply("VALCHANGE", body)).object
    assert (refilled.type, refilled.verb) == ("Customer", "Create")
    assert refilled["Meta"]["MessageID"] == "ID:reply"  # though the request had no dynamic meta-object
    body = b"<Customer><CustomerId>8</CustomerId></Customer>"
    result = answer(reply("VALCHANGE", body), customer(DataHandlerMimeType="text/xml"))
    assert result.object["CustomerId"] == "8"


@rows("name", ERRORS)
@rows(
    "message_class, body, text",
    [
        ("T", b"no such customer", "no such customer"),
        ("T", "K\u00f8benhavn \U0001f600\n".encode(), "K\u00f8benhavn \U0001f600"),
        ("B", b"bytes say it too", "bytes say it too"),
        ("B", b"\xffbroken", "\ufffdbroken"),
        ("S", b'["a"]', '["a"]'),
        ("P", b'{"code": 7}', '{"code": 7}'),
        *(("T", b"", None), ("T", b"  \n", None), ("M", b"", None), ("O", b"\xac\xed", None)),
    ],
)
def test_table_6_an_error_returns_the_text_of_the_body_or_a_generic_one(
    name: str, message_class: str, body: bytes, text: str | None
) -> None:
    bo = customer()
    result = answer(reply(name, body, message_class), bo)
    text = text or f"the application behind queue://out answered {name}, and said no more"
    assert (result.status.name, result.message, result.good) == (name, text, False)
    assert result.object is bo


@rows(
    "value, words",
    [
        (None, "has no property ResponseResult (MessageResponseResultProperty), expected one of SUCCESS, "),
        ("", "ResponseResult is '', expected"),
        ("SUCCEED", "ResponseResult is 'SUCCEED', expected one of SUCCESS, VALCHANGE, "),
        ("Success", "did you mean 'SUCCESS'?"),
        (" SUCCESS", "ResponseResult is ' SUCCESS', expected"),
        ("APP_RESPONSE_TIMEOUT", "did you mean 'APPRESPONSETIMEOUT'?"),
        (0, "ResponseResult is the number 0, expected"),
        (True, "ResponseResult is true, expected"),
    ],
)
def test_table_6_an_undefined_or_unrecognised_value_fails_the_request(
    value: PropertyValue | None, words: str
) -> None:
    fails_with(reply(value, b'{"CustomerId": "8"}'), FROM, words)


# --- where the result stands, and what cannot be read ------------------------------------------------


def test_the_result_stands_in_the_property_that_the_connector_names() -> None:
    message = reply(None)
    message.set_property("Status", "VALDUPES")
    assert (
        answer(message, of_plan=settings(message_response_result_property="Status")).status
        is ReturnCode.VALDUPES
    )


@rows(
    "message_class, body, words",
    [
        ("T", b"{", "cannot be read: "),
        ("T", b'{"CustomerId": 8}', "CustomerId: found the number 8, expected a text"),
        ("T", b'{"Name": "Ada"}', "CustomerId: required, but not set"),
        ("T", b'{"CustomerId": "8", "Meta": {"Priority": 1}}', "never part of a body"),
        ("B", b"\xff\xfe", "cannot be read: "),
        ("S", b"[]", "cannot be read: "),
        ("O", b"\xac\xed", "an object message is never deserialised"),
    ],
)
@rows("name", REFILLING)
def test_a_reply_that_cannot_be_read_fails_the_request_and_touches_nothing(
    name: str, message_class: str, body: bytes, words: str
) -> None:
    fails_with(reply(name, body, message_class), f"{FROM} cannot be ", words)


def test_headers_that_do_not_fit_the_dynamic_meta_object_fail_the_request() -> None:
    of = definitions(types={"TimeStamp": "Integer"})
    result = answer(reply("VALCHANGE", timestamp=1700000000123), customer(of), settings(of))
    assert (result.status, "Customer: Meta.TimeStamp: " in str(result.message)) == (ReturnCode.FAIL, True)


def test_the_default_of_a_required_attribute_counts_where_the_connector_uses_defaults() -> None:
    known = dict(definitions())
    attributes = dict(known["Customer"].attributes)
    attributes["CustomerId"] = replace(attributes["CustomerId"], default="none")
    of = Definitions({**known, "Customer": replace(known["Customer"], attributes=attributes)})
    message = reply("VALCHANGE", b'{"Name": "Ada"}')
    assert answer(message, customer(of), settings(of, use_defaults=True)).object["CustomerId"] == "none"
    assert answer(message, customer(of), settings(of)).status is ReturnCode.FAIL


class Odd:
    """A data handler that reads what a test wants it to."""

    mime_types = ("text/odd",)
    options = ()

    def __init__(self, options: object, definitions: Definitions) -> None:
        self.definitions = definitions

    def to_business_object(self, body: bytes, hint: object) -> Any:
        what = body.decode()
        if what == "other":
            return BusinessObject(self.definitions, "Plain", "Create")
        if what == "nothing":
            return None
        raise SystemExit(what) if what == "exit" else KeyError(what)

    def to_body(self, bo: BusinessObject) -> str:
        return ""


@rows(
    "body, words",
    [
        (b"other", "the data handler Odd returned a Plain, no Customer"),
        (b"nothing", "the data handler Odd returned NoneType, no Customer"),
        (b"exit", "the data handler Odd raised SystemExit: exit"),
        (b"key", "the data handler Odd raised KeyError: 'key'"),
    ],
)
def test_whatever_a_data_handler_does_the_request_fails_with_its_text(
    body: bytes, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    odd = settings(handlers=(HandlerSpec("text/odd", "Odd", __name__),), default_handler="text/odd")
    fails_with(reply("VALCHANGE", body), words, of_plan=odd)
    said = [one.getMessage() for one in caplog.records]
    assert said == ["a data handler has failed"] * (" raised " in words)


@given(body=st.binary(max_size=40).map(lambda part: part * 400), result=st.sampled_from(ERRORS))
def test_a_text_is_at_most_8_kib_of_valid_unicode_whatever_the_body(body: bytes, result: str) -> None:
    text = answer(reply(result, body)).message
    assert text
    assert len(text.encode("utf-8")) <= MAX_TEXT
    whole = body.strip().decode("utf-8", "replace")
    if len(whole.encode()) > MAX_TEXT:
        assert text.endswith(" ...")
        assert whole.startswith(text.removesuffix(" ...")[:-1])


VALUES = st.one_of(
    st.none(), st.sampled_from(list(RESULTS)), st.text(max_size=20), st.integers(-9, 9), st.booleans()
)


@given(value=VALUES, body=st.binary(max_size=60), message_class=st.sampled_from(list(MESSAGE_CLASSES)))
def test_no_reply_raises_and_only_names_of_table_6_are_more_than_a_failure(
    value: PropertyValue | None, body: bytes, message_class: str
) -> None:
    bo = customer(CorrelationID="c")
    before = bo.as_dict()
    result = answer(reply(value, body, message_class), bo)
    assert bo.as_dict() == before
    if result.status is not ReturnCode.FAIL:
        assert RESULTS[str(value)] is result.status
    assert result.good == (result.message is None)
