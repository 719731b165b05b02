"""From a message to a business object, as a process sees it."""

from __future__ import annotations

from tests.events.conftest import Bench
from tests.tables import Table

CUSTOMER = '{"CustomerId": "7", "Age": 40, "Address": [{"City": "Ulm"}]}'
UPDATE = '{"BusinessObject": "Customer", "Verb": "Update", "CustomerId": "7"}'
NAMED = '{"BusinessObject": "Order", "Verb": "Cancel", "Id": "1"}'


def test_rule_or_body_name_object_and_verb(bench: Bench) -> None:
    messages = {
        "one rule, by destination": ("customers", "", CUSTOMER, ("Customer", "Create")),
        "one rule, by format": ("orders", "....NOTE", "hello", ("Note", "Create")),
        "no rule: the body names both": ("orders", "", NAMED, ("Order", "Cancel")),
        "no verb: DefaultVerb": ("orders", "", '{"BusinessObject": "Order"}', ("Order", "Create")),
        "rule and body name a verb: the rule's": ("customers", "", UPDATE, ("Customer", "Create")),
        "two rules match: the body decides": ("customers", "....NOTE", NAMED, ("Order", "Cancel")),
    }
    deployment = bench.deploy()
    for number, (queue, end, body, _) in enumerate(messages.values()):
        deployment.drop(queue, body, f"4.{number}.T{end}")
    assert set(deployment.outcomes().values()) == {("published", "")}
    found = {call["id"]: (call["object"], call["verb"]) for call in bench.calls()}
    assert found == {f"ID:{number}": row[-1] for number, row in enumerate(messages.values())}


def test_the_dynamic_meta_object_holds_the_headers_of_the_message(bench: Bench) -> None:
    deployment = bench.deploy()
    deployment.drop(
        "customers", CUSTOMER, "7.42.T..corr%2E1..CUST.regionS=south&otherI=3&JMSXDeliveryCountI=3"
    )
    deployment.outcomes()
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


def test_a_body_cannot_bring_a_dynamic_meta_object_of_its_own(bench: Bench) -> None:
    deployment = bench.deploy()
    deployment.drop("customers", '{"CustomerId": "7", "Meta": {"MessageID": "forged"}}', "4.1.T")
    kind, reason = deployment.outcomes()["ID:1"]
    assert kind == "failed"
    assert "Meta" in reason
    assert bench.calls() == []


def test_the_event_tells_where_from_and_which_attempt_and_the_object_has_its_id(bench: Bench) -> None:
    deployment = bench.deploy()
    deployment.drop("orders", NAMED, "4.abc.T.....JMSXDeliveryCountI=2")
    deployment.drop("orders", NAMED, "a bare name")
    deployment.drain()
    assert [(c["id"], c["from"], c["count"], c["values"]["ObjectEventId"]) for c in bench.calls()] == [
        ("ID:abc", "queue://orders", 2, "ID:abc"),
        ("a bare name", "queue://orders", 1, "a bare name"),
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


def test_a_bug_of_a_data_handler_fails_the_one_event(bench: Bench) -> None:
    bugs = {
        "bug": "KeyError: 'missing'",
        "recursion": "RecursionError",
        "nothing": "returned NoneType, no BusinessObject",
        "inactive": "NotActive: a handler has no say in this",
        "exit": "SystemExit: 4",
        "connection": "ConnectionError: no such host",
        "mute": "raised Mute",
        "verb": "TypeError",
    }
    deployment = bench.deploy(DataHandlerMimeType="text/x-odd", more={"datahandlers": "./handlers"})
    deployment.write("handlers/odd.py", HANDLER)
    for body in bugs:
        deployment.drop("orders", body, f"4.{body}.T")
        deployment.drop("orders", "good", f"4.{body}-good.T")
    found = deployment.outcomes()
    with Table() as table:
        for body, words in bugs.items():
            with table.row(body):
                assert found[f"ID:{body}-good"] == ("published", "")
                outcome, reason = found[f"ID:{body}"]
                assert outcome == "failed"
                assert words in reason
                assert "Odd" in reason
    assert sorted(bench.called()) == sorted(f"ID:{body}-good" for body in bugs)


def test_a_bytes_message_is_decoded_by_the_handler(bench: Bench) -> None:
    deployment = bench.deploy()
    body = '{"BusinessObject": "Order", "Id": "Käse"}'
    deployment.drop("orders", body, "4.1.B")
    deployment.drop("orders", body, "4.2.T")
    deployment.outcomes()
    assert [call["values"]["Id"] for call in bench.calls()] == ["Käse", "Käse"]


def test_another_property_may_hold_the_format(bench: Bench) -> None:
    deployment = bench.deploy(MessageFormatProperty="kind")
    deployment.drop("orders", "hello", "4.1.T.....kindS=NOTE")
    deployment.drop("orders", "hello", "4.2.T....NOTE")
    found = deployment.outcomes()
    assert found["ID:1"] == ("published", "")
    assert found["ID:2"][0] == "failed"  # its type is no format now, and plain text is no JSON


def test_a_required_attribute_may_take_its_default(bench: Bench) -> None:
    objects = (
        "business_object: Order\nverbs: {Create: }\n"
        "attributes:\n  Id: {type: String, required: true, default: x}\n"
    )
    for has_defaults, outcome in ((True, "published"), (False, "failed")):
        deployment = bench.deploy(objects=objects, ConfigurationMetaObject=None, UseDefaults=has_defaults)
        deployment.drop("orders", '{"BusinessObject": "Order"}', f"4.{outcome}.T")
        assert deployment.outcomes()[f"ID:{outcome}"][0] == outcome
    assert [call["values"] for call in bench.calls()] == [{"Id": "x"}]
