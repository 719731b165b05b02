"""Tables 1 to 6 of WBI Adapter for JMS as an application and a caller see them: each row, on every provider.

The rows' finer points are in test_properties, test_building and test_replies.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest

from connector.errors import MalformedData, ProviderError, UnknownBusinessObject
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.requests.client import RequestClient
from connector.requests.result import RequestResult
from connector.status import ReturnCode
from tests.requests.samples import HANDLERS, SAMPLES, settings
from tests.requests.world import World

OUT = parse_destination("queue://out")
REPLIES = parse_destination("queue://replies")


def client(world: World, *, reply_to: Any = None, default: dict[str, str] | None = None) -> RequestClient:
    """A client whose requests go to queue://out, by ``Default``."""
    rules = settings(default={"OutputDestination": str(OUT), **(default or {})}).rules
    return world.client(
        definitions=SAMPLES,
        rules=rules,
        handlers=HANDLERS,
        default_handler="application/json",
        reply_to=reply_to,
    )


def sent(world: World, default: dict[str, str] | None = None, /, **meta: Any) -> Message:
    """The message of an asynchronous request with this dynamic meta-object."""
    data = {"CustomerId": "7", **({"Meta": meta} if meta else {})}
    result = client(world, default=default).request("Customer.Create", data)
    assert (result.status, result.message) == (ReturnCode.SUCCEED, None)
    (message,) = world.browse(OUT)
    return message


# --- table 1: header population, asynchronous ------------------------------------------------------


def test_table_1_nothing_is_said_where_nothing_is_defined(world: World) -> None:
    message = sent(world)
    assert (message.type, message.correlation_id, message.reply_to) == (None, None, None)
    assert (message.priority, message.properties) == (4, {})


@dataclass
class Row:
    """A property of a request, and what its message has to say then."""

    name: str
    value: Any
    header: str
    expected: object


HEADERS = [
    Row("OutputFormat", "CUST", "type", "CUST"),
    Row("CorrelationID", "C-7", "correlation_id", "C-7"),
    Row("ReplyToDestination", "queue://mine", "reply_to", "queue://mine"),
    Row("Priority", "9", "priority", 9),
]


@pytest.mark.parametrize("row", HEADERS, ids=lambda row: row.name)
def test_table_1_a_header_says_what_the_dynamic_meta_object_says(world: World, row: Row) -> None:
    value = int(row.value) if row.name == "Priority" else row.value
    assert getattr(sent(world, **{row.name: value}), row.header) == row.expected


@pytest.mark.parametrize("row", HEADERS, ids=lambda row: row.name)
def test_table_1_a_header_says_what_the_static_meta_object_says(world: World, row: Row) -> None:
    assert getattr(sent(world, {row.name: row.value}), row.header) == row.expected


def test_table_1_jms_properties_are_properties_of_the_message(world: World) -> None:
    message = sent(world, JMSProperties={"Region": "EU", "Urgent": True, "Count": 3})
    assert {name: message.properties[name] for name in ("region", "urgent", "count")} == {
        "region": "EU",
        "urgent": True,
        "count": 3,
    }
    assert message.property_types["count"] == "int"


# --- table 2: delivery -----------------------------------------------------------------------------


def test_table_2_output_destination_is_where_the_message_goes(world: World) -> None:
    elsewhere = parse_destination("queue://elsewhere")
    client(world).request(
        "Customer.Create", {"CustomerId": "7", "Meta": {"OutputDestination": str(elsewhere)}}
    )
    assert (len(world.browse(elsewhere)), world.browse(OUT)) == (1, [])


def test_table_2_without_an_output_destination_nothing_is_sent(world: World) -> None:
    result = client(world, default={"OutputDestination": ""}).request("Customer.Create", {"CustomerId": "7"})
    assert result.status is ReturnCode.FAIL
    assert str(result.message).startswith("Customer.Create: no OutputDestination: ")


def test_table_2_delivery_mode_undefined_is_what_the_provider_keeps(world: World) -> None:
    assert sent(world).delivery_mode == world.mode


def test_table_2_delivery_mode_is_as_indicated(world: World) -> None:
    assert sent(world, DeliveryMode="NonPersistent").delivery_mode == 1


# --- table 3: return codes -------------------------------------------------------------------------


def test_table_3_a_request_that_was_delivered_succeeds(world: World) -> None:
    result = client(world).request("Customer.Create", {"CustomerId": "7"})
    assert (result.status, result.good) == (ReturnCode.SUCCEED, True)
    assert len(world.browse(OUT)) == 1


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ({"Priority": 12}, "Customer.Meta.Priority: found the number 12"),
        ({"OutputDestination": "queue://a/b"}, "Customer.Meta.OutputDestination: "),
        ({"DataHandlerMimeType": "text/none"}, "no data handler for 'text/none'"),
        ({"DataHandlerMimeType": "text/plain"}, "Text"),
    ],
)
def test_table_3_wrong_meta_data_or_a_data_handler_that_fails_is_fail(
    world: World, meta: dict[str, Any], words: str
) -> None:
    result = client(world).request("Customer.Create", {"CustomerId": "7", "Meta": meta})
    assert (result.status, result.good) == (ReturnCode.FAIL, False)
    assert words in str(result.message)
    assert world.browse(OUT) == []


def test_table_3_a_provider_that_is_gone_is_appresponsetimeout(world: World) -> None:
    def connect() -> Connection:
        raise ProviderError("the directory is gone")

    rules = settings().rules
    made = world.client(connect=connect, definitions=SAMPLES, rules=rules, handlers=HANDLERS)
    result = made.request("Customer.Create", {"CustomerId": "7"})
    assert result.status is ReturnCode.APPRESPONSETIMEOUT
    assert "the directory is gone" in str(result.message)


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("Custmer.Create", {}, UnknownBusinessObject),
        ("Customer.Creat", {}, UnknownBusinessObject),
        ("Customer.Create", {"CustomerId": 7}, MalformedData),
        ("Customer.Create", {"Nam": "x"}, MalformedData),
    ],
)
def test_a_call_that_is_wrong_in_itself_raises_instead(
    world: World, name: str, data: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        client(world).request(name, data)


# --- table 4: synchronous meta-data ----------------------------------------------------------------


@pytest.mark.parametrize("timeout", [0, 150])
def test_table_4_response_timeout_is_waited_for_at_least(world: World, timeout: int) -> None:
    made = client(world, reply_to=REPLIES)
    begun = time.monotonic()
    result = made.request("Customer.Create", {"CustomerId": "7", "Meta": {"ResponseTimeout": timeout}})
    assert time.monotonic() - begun >= timeout / 1000
    assert result.status is ReturnCode.APPRESPONSETIMEOUT


@pytest.mark.parametrize(
    ("fatal", "status"),
    [
        (None, ReturnCode.APPRESPONSETIMEOUT),
        ("true", ReturnCode.APPRESPONSETIMEOUT),
        ("false", ReturnCode.FAIL),
    ],
)
def test_table_4_timeout_fatal_decides_what_no_reply_means(
    world: World, fatal: str | None, status: ReturnCode
) -> None:
    said = {"ResponseTimeout": "20", **({} if fatal is None else {"TimeoutFatal": fatal})}
    result = client(world, reply_to=REPLIES, default=said).request("Customer.Create", {"CustomerId": "7"})
    assert result.status is status
    assert result.message


# --- table 5: where the reply goes -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("meta", "reply_to"), [({}, "queue://replies"), ({"ReplyToDestination": "queue://mine"}, "queue://mine")]
)
def test_table_5_a_synchronous_request_says_where_its_reply_is_awaited(
    world: World, meta: dict[str, Any], reply_to: str
) -> None:
    made = client(world, reply_to=REPLIES)
    made.request("Customer.Create", {"CustomerId": "7", "Meta": {**meta, "ResponseTimeout": 0}})
    (message,) = world.browse(OUT)
    assert message.reply_to == reply_to


# --- table 6: replies ------------------------------------------------------------------------------


def replied(world: World, result: str | None, body: object) -> RequestResult:
    """What a request answers whose reply is this."""
    application = world.application(
        lambda request, replying: replying.reply(request, body, result, type="REPLY"), str(OUT)
    )
    data = {"CustomerId": "7", "Age": 40, "Meta": {"ResponseTimeout": 8000, "Note": "mine"}}
    answer = client(world, reply_to=REPLIES).request("Customer.Create", data)
    assert len(application.requests) == 1
    return answer


def test_table_6_success_makes_no_changes(world: World) -> None:
    answer = replied(world, "SUCCESS", {"CustomerId": "8"})
    assert (answer.status, answer.message) == (ReturnCode.SUCCEED, None)
    assert answer.object.as_dict() == {
        "CustomerId": "7",
        "Age": 40,
        "Meta": {"ResponseTimeout": 8000, "Note": "mine"},
    }


@pytest.mark.parametrize("result", ["VALCHANGE", "MULTIPLE_HITS"])
@pytest.mark.parametrize(
    ("body", "values"),
    [
        ({"CustomerId": "8", "Name": "Ada"}, {"CustomerId": "8", "Name": "Ada"}),
        (None, {"CustomerId": "7", "Age": 40}),
    ],
)
def test_table_6_valchange_and_multiple_hits_refill_object_and_dynamic_meta_object(
    world: World, result: str, body: object, values: dict[str, Any]
) -> None:
    answer = replied(world, result, body)
    assert (answer.status.name, answer.message) == (result, None)
    assert answer.object.as_dict(body_only=True) == values
    meta = answer.object["Meta"]
    assert (meta["Type"], meta["ResponseTimeout"], meta["Note"]) == ("REPLY", 8000, "mine")
    assert (meta["InputFormat"], meta["InputDestination"]) == ("REPLY", "queue://replies")
    assert meta["MessageID"]


@pytest.mark.parametrize(
    "result",
    [
        "FAIL",
        "FAIL_RETRIEVE_BY_CONTENT",
        "BO_DOES_NOT_EXIST",
        "UNABLE_TO_LOGIN",
        "VALDUPES",
        "APPRESPONSETIMEOUT",
    ],
)
@pytest.mark.parametrize(
    ("body", "text"), [(b"it is so", "it is so"), (None, "behind queue://out answered ")]
)
def test_table_6_errors_return_their_text_or_a_generic_one(
    world: World, result: str, body: bytes | None, text: str
) -> None:
    answer = replied(world, result, body)
    assert answer.status.name == result
    assert text in str(answer.message)
    assert answer.object.as_dict(body_only=True) == {"CustomerId": "7", "Age": 40}


@pytest.mark.parametrize("result", [None, "OK"])
def test_table_6_an_undefined_or_unrecognised_value_fails_the_request(
    world: World, result: str | None
) -> None:
    answer = replied(world, result, {"CustomerId": "8"})
    assert answer.status is ReturnCode.FAIL
    assert "ResponseResult" in str(answer.message)
    assert answer.object.as_dict(body_only=True) == {"CustomerId": "7", "Age": 40}
