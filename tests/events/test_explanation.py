"""An explanation says what a run then does: outcome, reason, copy, and the messages that are sent."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from connector.messaging.message import Message
from connector.service.assembly import make_explainer
from connector.workbench.explain import Explanation
from tests.events.conftest import A_AND_B, OBJECTS, ORDER, SPLIT, Bench, EventDeployment, handler
from tests.tables import rows

PROCESS = {"object": "Customer", "process": "processes:a", "name": "a"}
QUEUE = {"object": "Customer", "destination": "queue://crm", "name": "crm", "format": "CUST"}
NOTE = {"object": "Note", "destination": "queue://notes", "name": "notes", "mime_type": "text/plain"}
AS_TEXT = {"object": "Order", "destination": "queue://x", "name": "x", "mime_type": "text/plain"}


def of(kind: str, **values: Any) -> str:
    return json.dumps({"BusinessObject": kind, **values})


def customer(**values: Any) -> str:
    return of("Customer", CustomerId="1", **values)


def compare(deployment: EventDeployment, queue: str) -> dict[str, Explanation]:
    """Explains the messages of a queue, runs the deployment, and compares both. Returns the explanations."""
    explainer, origin = make_explainer(deployment.configuration), f"queue://{queue}"
    found = {str(one.message_id): explainer.explain(one, origin) for one in deployment.messages(queue)}
    assert found
    done = deployment.outcomes()
    assert {name: (one.outcome, one.reason) for name, one in found.items()} == done
    for name, one in found.items():
        assert one.settled is not None
        copies = deployment.messages(one.settled.removeprefix("queue://"))
        assert name in [copy.message_id for copy in copies]
    return found


def essence(message: Message) -> tuple[Any, ...]:
    return message.body, message.type, message.message_class, message.correlation_id, message.properties


def sent(explanations: Iterable[Explanation]) -> list[tuple[Any, ...]]:
    """What would be sent for messages."""
    subscriptions = [one for found in explanations for bo in found.objects for one in bo.subscriptions]
    return [essence(one.sent) for one in subscriptions if one.sent is not None]


def test_the_explanation_of_each_message_is_what_happens(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=[PROCESS, QUEUE, NOTE, AS_TEXT], max_body="400B")
    bodies = [
        *(customer(Name="Ærø"), customer(Name=7), customer(Verb="Delete"), customer(Name="x" * 400)),
        *(of("Nothing"), of("OrderLine", Id="1"), ORDER, '{"CustomerId": "1"}', "no JSON", ""),
    ]
    for number, body in enumerate(bodies):
        deployment.drop("orders", body, f"4.{number}.T")
    deployment.send("orders", "a text", type="NOTE")
    found = compare(deployment, "orders")
    assert {one.outcome for one in found.values()} == {"published", "failed", "unsubscribed"}
    really = [essence(message) for queue in ("crm", "notes") for message in deployment.messages(queue)]
    assert len(really) == 2
    assert sorted(sent(found.values()), key=repr) == sorted(really, key=repr)


def test_a_handler_that_raises_is_named_with_its_place(bench: Bench) -> None:
    writes = {"object": "Order", "destination": "queue://x", "name": "x", "mime_type": "text/broken"}
    objects = OBJECTS.replace(
        "rules:\n", "rules:\n  Order_Cancel: {InputFormat: BROKEN, DataHandlerMimeType: text/broken}\n"
    )
    deployment = bench.deploy(subscriptions=[writes], objects=objects, more={"datahandlers": "./broken.py"})
    broken = handler("text/broken", reads='return {}["nothing"]', writes="return 1 / 0")
    deployment.write("broken.py", broken)
    deployment.send("orders", "a", type="BROKEN")
    deployment.drop("orders", ORDER, "4.1.T")
    reasons = [one.reason for one in compare(deployment, "orders").values()]
    assert sorted(reason.rpartition(" ")[2] for reason in reasons) == ["(broken.py:12)", "(broken.py:15)"]


def test_an_explanation_has_the_values_of_the_run_and_changes_nothing(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=[PROCESS, QUEUE])
    deployment.send("customers", '{"CustomerId": "1"}', correlation_id="C7", properties={"region": "EU"})
    (message,) = deployment.messages("customers")
    before = repr(message)
    make_explainer(deployment.configuration).explain(message, "queue://customers")
    assert (repr(message), (bench.root / "crm").exists()) == (before, False)
    (one,) = compare(deployment, "customers").values()
    (call,) = bench.calls()
    assert one.objects[0].values == call["values"]


@rows(
    "records",
    [
        [customer(), customer(), customer()],
        [customer(), ORDER],
        [ORDER],
        [ORDER, of("Order", Id="8")],
        [customer(), customer(Age="x")],
        [customer(), of("Customer")],
        [],
    ],
)
def test_a_body_that_is_split_is_explained_record_by_record(bench: Bench, records: list[str]) -> None:
    deployment = bench.deploy(
        subscriptions=[PROCESS, QUEUE], objects=SPLIT, DataHandlerMimeType="application/jsonl"
    )
    deployment.drop("orders", "\n".join(records), "4.1.T")
    explanations = compare(deployment, "orders").values()
    assert sent(explanations) == [essence(message) for message in deployment.messages("crm")]


def test_a_subscription_that_has_confirmed_gets_nothing_again(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=A_AND_B)
    deployment.drop("orders", customer(Name="b: fail no stock"), "4.1.T")
    deployment.outcomes()
    (copy,) = deployment.messages("error")
    found = make_explainer(deployment.configuration).explain(copy, "queue://orders")
    (bo,) = found.objects
    assert [(one.name, one.confirmed) for one in bo.subscriptions] == [("a", True), ("b", False)]
    assert (found.outcome, bo.values["Meta"]["DeliveryCount"]) == ("published", 2)


OWN = {"attribute": "Text", "charset": "ISO-8859-1"}


@rows(
    "entry, body, options, named_by",
    [
        (
            ", DataHandlerMimeType: text/plain, DataHandlerConfigMO: MO_Notes",
            b"\xe9",
            OWN,
            "the rule Note_Create",
        ),
        ("", "é".encode(), {"attribute": "Text", "charset": ""}, "Default"),
    ],
)
def test_the_data_handler_and_its_options_are_named_by_the_rule_or_by_default(
    bench: Bench, entry: str, body: bytes, options: dict[str, str], named_by: str
) -> None:
    objects = OBJECTS.replace("NOTE, DataHandlerMimeType: text/plain", f"NOTE{entry}")
    objects = objects.replace("rules:\n", "Default: {DataHandlerMimeType: text/plain}\nrules:\n")
    objects += "---\ndatahandler_metaobject: MO_Notes\nhandlers: {text/plain: {charset: ISO-8859-1}}\n"
    deployment = bench.deploy(objects=objects)
    found = make_explainer(deployment.configuration).explain(Message(body, type="NOTE"), "queue://orders")
    assert (found.mime_type, found.named_by, found.options) == ("text/plain", named_by, options)
    assert found.config == ("MO_Notes" if options is OWN else "")
    assert found.objects[0].values == {"Text": "é"}
