"""Several steps in one adapter, and the number of hops that ends what loops all the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connector.messaging.history import hops_of
from connector.messaging.message import Message
from tests.events.conftest import ORDER, Bench, with_rules
from tests.tables import rows

STEPS = with_rules(
    "  Order_Create: {InputDestination: queue://orders, OutputFormat: STEP}\n"
    "  Order_Cancel: {InputFormat: STEP}\n"
)
SECOND = {"object": "Order", "verbs": ["Cancel"], "process": "processes:a", "name": "a"}
FIRST = {"object": "Order", "verbs": ["Create"], "destination": "queue://customers", "name": "first"}


def test_what_one_subscription_sends_is_taken_by_another(bench: Bench, section: Mapping[str, str]) -> None:
    deployment = bench.deploy(provider=section, subscriptions=[FIRST, SECOND], objects=STEPS)
    identity = deployment.send("queue://orders", ORDER)
    with deployment.running() as adapter:
        adapter.drain()
    (call,) = bench.calls()
    assert (call["from"], call["verb"], call["id"] != identity) == ("queue://customers", "Cancel", True)
    first, second = sorted(deployment.messages("archive"), key=hops_of)
    assert (first.properties.get("connector_hops"), second.properties["connector_hops"]) == (None, 1)
    assert second.properties["connector_event_id"] == identity


def test_hops_end_a_loop_of_one_adapter(bench: Bench, section: Mapping[str, str]) -> None:
    """A loop that check cannot be sure of: it warns, and the adapter starts."""
    around = {
        "object": "Order",
        "destination": "queue://{Id}",
        "destinations": "queue://*",
        "name": "around",
    }
    deployment = bench.deploy(provider=section, subscriptions=[around], max_hops=3)
    deployment.send("queue://orders", '{"BusinessObject": "Order", "Id": "orders"}')
    with deployment.running() as adapter:
        adapter.drain()
    (failed,) = deployment.messages("error")
    told = {name: failed.properties[f"connector_{name}"] for name in ("hops", "kind", "reason")}
    assert told == {
        "hops": 4,
        "kind": "loop",
        "reason": "the message was sent on 4 times, more often than max_hops (3)",
    }
    assert sorted(hops_of(message) for message in deployment.messages("archive")) == [0, 1, 2, 3]


def test_hops_end_a_loop_of_two_applications(bench: Bench) -> None:
    one = {"object": "Order", "destination": "queue://two", "name": "to-two"}
    other = {"object": "Order", "destination": "queue://one", "name": "to-one"}
    benches = bench.again(), bench.again()
    for each in benches:
        each.root = bench.root
    apps = [
        each.deploy(
            subscriptions=[subscription],
            InputDestination=name,
            ApplicationName=name,
            ErrorDestination=f"e-{name}",
        )
        for each, subscription, name in zip(benches, (one, other), ("one", "two"), strict=True)
    ]
    apps[0].send("queue://one", ORDER)
    for _ in range(12):
        for app in apps:
            app.drain()
    assert apps[0].messages("queue://two") == apps[0].messages("queue://one") == []
    (failed,) = apps[0].messages("e-two")
    assert (failed.properties["connector_hops"], failed.properties["connector_kind"]) == (21, "loop")


@rows(
    "value, kind, hops",
    [
        (3, "int", 3),
        (3, "long", 3),
        ("3", "string", 3),
        (3.0, "double", 3),
        (-3, "int", 0),
        ("many", "string", 0),
        ("", "string", 0),
        (True, "boolean", 1),
        (float("nan"), "double", 0),
        (float("inf"), "double", 1_000_000_000),
        (1 << 60, "long", 1_000_000_000),
        ("9" * 5000, "string", 1_000_000_000),
    ],
)
def test_hops_count_from_anybody(value: Any, kind: str, hops: int) -> None:
    message = Message()
    message.set_property("connector_hops", value, kind)
    assert hops_of(message) == hops


def test_a_message_of_anybody_with_too_many_hops_fails(bench: Bench) -> None:
    deployment = bench.deploy()
    identities = [
        deployment.send("queue://orders", ORDER, properties={"connector_hops": hops}) for hops in (20, 21)
    ]
    found = deployment.outcomes()
    assert [found[identity][0] for identity in identities] == ["published", "failed"]
