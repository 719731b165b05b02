"""Tables 1 to 6 of WBI Adapter for JMS as an application and a caller see them, on every provider.

The rows' finer points are in test_properties, test_building and test_replies.
"""

from __future__ import annotations

from typing import Any

import pytest

from connector.errors import MalformedData, ProviderError, UnknownBusinessObject
from connector.messaging.client import ReceivedMessage
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.requests.client import RequestClient
from connector.status import ReturnCode
from tests.requests.samples import HANDLERS, SAMPLES, settings
from tests.requests.world import Replying, World, body_of, done
from tests.tables import Table

OUT = parse_destination("queue://out")
REPLIES = parse_destination("queue://replies")
HEADERS = {"OutputFormat": "CUST", "CorrelationID": "C-7", "ReplyToDestination": "queue://mine"}
TEXT = b"it is so"


def client(world: World, **changes: Any) -> RequestClient:
    """A client whose requests go to queue://out, by ``Default``."""
    plan = {"definitions": SAMPLES, "rules": settings().rules, "handlers": HANDLERS, "reply_to": None}
    return world.client(**{**plan, **changes})


def sent(world: World, **meta: Any) -> Message:
    """The message of an asynchronous request with this dynamic meta-object."""
    data = {"CustomerId": "7", **({"Meta": meta} if meta else {})}
    result = client(world).request("Customer.Create", data)
    assert (result.status, result.message, result.good) == (ReturnCode.SUCCEED, None, True)
    (message,) = world.browse(parse_destination(meta.get("OutputDestination", str(OUT))))
    return message


def test_tables_1_and_2_nothing_is_said_where_nothing_is_defined(world: World) -> None:
    message = sent(world)
    assert (message.type, message.correlation_id, message.reply_to) == (None, None, None)
    assert (message.priority, message.properties, message.delivery_mode) == (4, {}, world.mode)


def test_tables_1_and_2_a_message_says_what_the_meta_object_says(world: World) -> None:
    properties = {"Region": "EU", "Urgent": True, "Count": 3}
    delivery = {"Priority": 9, "DeliveryMode": "NonPersistent", "OutputDestination": "queue://elsewhere"}
    message = sent(world, JMSProperties=properties, **HEADERS, **delivery)
    assert (message.type, message.correlation_id, message.reply_to) == ("CUST", "C-7", "queue://mine")
    assert (message.priority, message.delivery_mode) == (9, 1)
    found = {name: message.properties[name.lower()] for name in properties}
    assert (found, message.property_types["count"]) == (properties, "int")
    assert world.browse(OUT) == []


def test_table_3_wrong_meta_data_or_a_data_handler_that_fails_is_fail(world: World) -> None:
    for words, meta in (
        ("Customer.Meta.Priority: found the number 12", {"Priority": 12}),
        ("Text", {"DataHandlerMimeType": "text/plain"}),
    ):
        result = client(world).request("Customer.Create", {"CustomerId": "7", "Meta": meta})
        assert (result.status, result.good) == (ReturnCode.FAIL, False)
        assert words in str(result.message)
    assert world.browse(OUT) == []


def test_table_3_a_provider_that_is_gone_is_appresponsetimeout(world: World) -> None:
    def connect() -> Connection:
        raise ProviderError("the directory is gone")

    result = client(world, connect=connect).request("Customer.Create", {"CustomerId": "7"})
    assert result.status is ReturnCode.APPRESPONSETIMEOUT
    assert "the directory is gone" in str(result.message)


def test_a_call_that_is_wrong_in_itself_raises_instead(world: World) -> None:
    made = client(world)
    no_object: list[Any] = [[], None, "x", 7, [("CustomerId", "1")]]
    wrong: list[tuple[str, Any, Any, type[Exception], str]] = [
        # a name, data, a timeout, the error, and words of it
        ("Custmer.Create", {}, None, UnknownBusinessObject, "did you mean"),
        ("Customer.Creat", {}, None, UnknownBusinessObject, "did you mean"),
        ("Customer.Create", {"CustomerId": 7}, None, MalformedData, "CustomerId: found the number 7"),
        ("Customer.Create", {"Nam": "x"}, None, MalformedData, "Nam"),
        ("Customer.Create", {"Name": "nobody"}, None, MalformedData, "CustomerId: required, but not set"),
        *(("Customer.Create", data, None, MalformedData, "expected a mapping") for data in no_object),
        ("Customer.Create", {"CustomerId": "7"}, "7", MalformedData, "expected milliseconds"),
        ("Customer.Create", {"CustomerId": "7"}, 1.5, MalformedData, "expected milliseconds"),
        ("Customer.Create", {"CustomerId": "7"}, True, MalformedData, "expected milliseconds"),
    ]
    with Table() as table:
        for name, data, timeout, error, words in wrong:
            for ask in (made.request, made.request_async):
                with table.row(name, data, timeout), pytest.raises(error, match=words):
                    ask(name, data, timeout=timeout)
    assert world.browse(OUT) == []


def test_tables_4_and_5_a_synchronous_request_says_where_its_reply_is_awaited(world: World) -> None:
    made = client(world, reply_to=REPLIES)
    for number, meta in enumerate(({}, {"ReplyToDestination": "queue://mine"})):
        data = {"CustomerId": "7", "Meta": {**meta, "ResponseTimeout": 0}}
        assert made.request("Customer.Create", data).status is ReturnCode.APPRESPONSETIMEOUT
        assert len(world.browse(OUT)) == number + 1
    assert [message.reply_to for message in world.browse(OUT)] == ["queue://replies", "queue://mine"]


def test_table_6_a_reply_means_what_its_result_says(world: World) -> None:
    asked, ada = {"CustomerId": "7", "Age": 40}, {"CustomerId": "8", "Name": "Ada"}
    # the result and the body of a reply, what is answered, the values then, and words of the message
    table: list[tuple[str | None, object, str, dict[str, Any], str | None]] = [
        ("SUCCESS", ada, "SUCCEED", asked, None),
        ("VALCHANGE", ada, "VALCHANGE", ada, None),
        ("MULTIPLE_HITS", None, "MULTIPLE_HITS", asked, None),
        ("VALDUPES", TEXT, "VALDUPES", asked, TEXT.decode()),
        ("APPRESPONSETIMEOUT", None, "APPRESPONSETIMEOUT", asked, "behind queue://out answered "),
        *((name, ada, "FAIL", asked, "ResponseResult") for name in (None, "OK")),
    ]

    def answer(request: ReceivedMessage, replying: Replying) -> None:
        result, body, *_ = table[int(body_of(request)["Name"])]
        replying.reply(request, body, result, type="REPLY")

    world.application(answer, str(OUT))
    made = client(world, reply_to=REPLIES)
    meta = {"ResponseTimeout": 120_000, "Note": "mine"}
    numbered = [{**asked, "Name": str(number), "Meta": meta} for number in range(len(table))]
    answers = done([made.request_async("Customer.Create", data) for data in numbered])
    with Table() as rows:
        for (result, body, status, values, words), data, found in zip(table, numbered, answers, strict=True):
            with rows.row(result, body):
                assert found.status.name == status
                assert found.message is None if words is None else words in str(found.message)
                expected = values if values is ada else {**values, "Name": data["Name"]}
                assert found.object.as_dict(body_only=True) == expected
                refilled = found.object.as_dict()["Meta"]
                assert {name: refilled[name] for name in meta} == meta
                is_refilled = status in ("VALCHANGE", "MULTIPLE_HITS")
                assert refilled.get("InputDestination") == ("queue://replies" if is_refilled else None)
