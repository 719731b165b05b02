"""From a message to a business object, as a process sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Bench = Any
Outcomes = Callable[..., dict[str, tuple[str, str]]]

CUSTOMER = '{"CustomerId": "7", "Age": 40, "Address": [{"City": "Ulm"}]}'
NAMED = '{"BusinessObject": "Order", "Verb": "Cancel", "Id": "1"}'


@pytest.mark.parametrize(
    ("queue", "name", "body", "expected"),
    [
        pytest.param("customers", "4.1.T", CUSTOMER, ("Customer", "Create"), id="one rule, by destination"),
        pytest.param("orders", "4.1.T....NOTE", "hello", ("Note", "Create"), id="one rule, by format"),
        pytest.param("orders", "4.1.T", NAMED, ("Order", "Cancel"), id="no rule: the body names both"),
        pytest.param(
            "orders", "4.1.T", '{"BusinessObject": "Order"}', ("Order", "Create"), id="no verb: DefaultVerb"
        ),
        pytest.param(
            "customers",
            "4.1.T",
            '{"BusinessObject": "Customer", "Verb": "Update", "CustomerId": "7"}',
            ("Customer", "Create"),
            id="rule and body name a verb: the rule's",
        ),
        pytest.param(
            "customers", "4.1.T....NOTE", NAMED, ("Order", "Cancel"), id="two rules match: the body decides"
        ),
    ],
)
def test_rule_or_body_name_object_and_verb(
    bench: Bench, outcomes: Outcomes, queue: str, name: str, body: str, expected: tuple[str, str]
) -> None:
    deployment = bench.deploy()
    deployment.drop(queue, body, name)
    assert outcomes(deployment)["ID:1"] == ("published", "")
    (call,) = bench.calls()
    assert (call["object"], call["verb"]) == expected


def test_the_dynamic_meta_object_holds_the_headers_of_the_message(bench: Bench, outcomes: Outcomes) -> None:
    deployment = bench.deploy()
    deployment.drop(
        "customers", CUSTOMER, "7.42.T..corr%2E1..CUST.regionS=south&otherI=3&JMSXDeliveryCountI=3"
    )
    outcomes(deployment)
    (call,) = bench.calls()
    assert call["values"] == {
        "CustomerId": "7",
        "Age": 40,
        "Address": [{"City": "Ulm"}],
        "Meta": {
            "MessageID": "ID:42",
            "CorrelationID": "corr.1",
            "Priority": 7,
            "Destination": "queue://customers",
            "DeliveryCount": 3,
            "Redelivered": True,
            "InputFormat": "CUST",
            "InputDestination": "queue://customers",
            "JMSProperties": {"Region": "south"},
        },
    }


def test_a_body_cannot_bring_a_dynamic_meta_object_of_its_own(bench: Bench, outcomes: Outcomes) -> None:
    deployment = bench.deploy()
    deployment.drop("customers", '{"CustomerId": "7", "Meta": {"MessageID": "forged"}}', "4.1.T")
    kind, reason = outcomes(deployment)["ID:1"]
    assert kind == "failed"
    assert "Meta" in reason
    assert bench.calls() == []


def test_the_object_event_id_is_the_message_id(bench: Bench, outcomes: Outcomes) -> None:
    deployment = bench.deploy()
    deployment.drop("orders", NAMED, "4.abc.T")
    outcomes(deployment)
    (call,) = bench.calls()
    assert call["values"] == {"Id": "1", "ObjectEventId": "ID:abc"}


def test_the_event_tells_where_from_and_which_attempt(bench: Bench, outcomes: Outcomes) -> None:
    deployment = bench.deploy()
    deployment.drop("orders", NAMED, "4.abc.T.....JMSXDeliveryCountI=2")
    deployment.drop("orders", NAMED, "a bare name")
    outcomes(deployment)
    assert [(c["id"], c["from"], c["count"]) for c in bench.calls()] == [
        ("ID:abc", "queue://orders", 2),
        ("a bare name", "queue://orders", 1),
    ]


HANDLER = '''\
import connector
from connector.businessobjects.instance import BusinessObject


class Odd:
    """Does wrong what the body says."""

    mime_types = ("text/x-odd",)
    options = ()

    def __init__(self, options, definitions):
        self.definitions = definitions

    def to_business_object(self, body, hint):
        what = bytes(body).decode()
        if what == "bug":
            return {}["missing"]
        if what == "recursion":
            return self.to_business_object(body, hint)
        if what == "nothing":
            return None
        if what == "inactive":
            raise connector.NotActive("a handler has no say in this")
        if what == "exit":
            raise SystemExit(4)
        if what == "connection":
            raise ConnectionError("no such host")
        if what == "mute":
            raise Mute()
        bo = BusinessObject(self.definitions, "Order", "Create", {"Id": what})
        if what == "verb":
            bo.verb = ["Create"]
        return bo

    def to_body(self, bo):
        raise RuntimeError("cannot write")


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("not even this")
'''


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("bug", "KeyError: 'missing'"),
        ("recursion", "RecursionError"),
        ("nothing", "returned NoneType, no BusinessObject"),
        ("inactive", "NotActive: a handler has no say in this"),
        ("exit", "SystemExit: 4"),
        ("connection", "ConnectionError: no such host"),
        ("mute", "raised Mute"),
        ("verb", "TypeError"),
    ],
)
def test_a_bug_of_a_data_handler_fails_the_one_event(
    bench: Bench, outcomes: Outcomes, body: str, words: str
) -> None:
    deployment = bench.deploy(DataHandlerMimeType="text/x-odd", more={"datahandlers": "./handlers"})
    deployment.write("handlers/odd.py", HANDLER)
    deployment.drop("orders", "first", "4.1.T")
    deployment.drop("orders", body, "4.2.T")
    deployment.drop("orders", "last", "4.3.T")
    found = outcomes(deployment)
    assert {i: kind for i, (kind, _) in found.items()} == {
        "ID:1": "published",
        "ID:2": "failed",
        "ID:3": "published",
    }
    assert words in found["ID:2"][1]
    assert "Odd" in found["ID:2"][1]
    assert bench.called() == ["ID:1", "ID:3"]


def test_a_bytes_message_is_decoded_by_the_handler(bench: Bench, outcomes: Outcomes) -> None:
    deployment = bench.deploy()
    body = '{"BusinessObject": "Order", "Id": "Käse"}'
    deployment.drop("orders", body, "4.1.B")
    deployment.drop("orders", body, "4.2.T")
    outcomes(deployment)
    assert [call["values"]["Id"] for call in bench.calls()] == ["Käse", "Käse"]


def test_another_property_may_hold_the_format(bench: Bench, outcomes: Outcomes) -> None:
    deployment = bench.deploy(MessageFormatProperty="kind")
    deployment.drop("orders", "hello", "4.1.T.....kindS=NOTE")
    deployment.drop("orders", "hello", "4.2.T....NOTE")
    found = outcomes(deployment)
    assert found["ID:1"] == ("published", "")
    assert found["ID:2"][0] == "failed"  # its type is no format now, and plain text is no JSON


def test_a_required_attribute_may_take_its_default(bench: Bench, outcomes: Outcomes) -> None:
    objects = (
        "business_object: Order\nverbs: {Create: }\n"
        "attributes:\n  Id: {type: String, required: true, default: x}\n"
    )
    body = '{"BusinessObject": "Order"}'
    deployment = bench.deploy(objects=objects, ConfigurationMetaObject=None, UseDefaults=True)
    deployment.drop("orders", body, "4.1.T")
    assert outcomes(deployment)["ID:1"] == ("published", "")
    assert bench.calls()[0]["values"] == {"Id": "x"}
    deployment = bench.deploy(objects=objects, ConfigurationMetaObject=None, UseDefaults=False)
    deployment.drop("orders", body, "4.2.T")
    assert outcomes(deployment)["ID:2"][0] == "failed"
