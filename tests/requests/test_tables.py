"""What a client makes of tables 1 to 3 of WBI Adapter for JMS, on every provider.

The rows of all tables are in test_properties, test_building and test_replies.
"""

from __future__ import annotations

from typing import Any

import pytest

from connector.errors import MalformedData, UnknownBusinessObject
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.requests.client import RequestClient
from connector.status import ReturnCode
from tests.requests.samples import HANDLERS, SAMPLES, settings
from tests.requests.world import World
from tests.tables import Table

OUT = parse_destination("queue://out")
HEADERS = {"OutputFormat": "CUST", "CorrelationID": "C-7", "ReplyToDestination": "queue://mine"}


def client(world: World, **changes: Any) -> RequestClient:
    """A client whose requests go to queue://out, by ``Default``."""
    plan = {"definitions": SAMPLES, "rules": settings().rules, "handlers": HANDLERS}
    plan["reply_to_destination"] = None
    return world.client(**{**plan, **changes})


def sent(world: World, **meta: Any) -> Message:
    """The message of an asynchronous request with this dynamic meta-object."""
    data = {"CustomerId": "7", **({"Meta": meta} if meta else {})}
    result = client(world).request("Customer.Create", data)
    assert (result.status, result.message, result.good) == (ReturnCode.SUCCEED, None, True)
    (message,) = world.browse(parse_destination(meta.get("OutputDestination", str(OUT))))
    return message


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
