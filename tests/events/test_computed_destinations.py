"""Messages whose destination and properties come from the object, at each local provider."""

from __future__ import annotations

from collections.abc import Mapping

from tests.events.conftest import Bench, customer, placeless

ROUTE = {
    "object": "Customer",
    "name": "route",
    "destination": "queue://of-{Name}",
    "destinations": ["queue://of-*"],
    "properties": {"who": "{CustomerId}", "came": "{Meta.MessageID}", "age": "{Age}"},
    "group": "{CustomerId}",
}


def test_each_message_goes_where_its_object_says(bench: Bench, section: Mapping[str, str]) -> None:
    deployment = bench.deploy(provider=section, subscriptions=[ROUTE])
    sent = {name: deployment.send("queue://customers", customer(name)) for name in ("a", "b", "../c", "")}
    found = deployment.outcomes()
    assert [found[sent[name]] for name in ("a", "b")] == [("published", "")] * 2
    assert found[sent["../c"]][0] == "failed"
    assert "a name has no '/'" in found[sent["../c"]][1]
    assert found[sent[""]] == (
        "failed",
        "route: ObjectRefused: the destination queue://of-{Name} needs Name, which has no value",
    )
    for name in ("a", "b"):
        (message,) = deployment.messages(f"queue://of-{name}")
        told = {"who": "1", "came": sent[name], "JMSXGroupID": "1", "connector_event_id": sent[name]}
        assert {key: message.properties.get(key) for key in (*told, "age")} == {**told, "age": None}
    failed = deployment.messages("queue://error")
    assert {message.properties["connector_kind"] for message in failed} == {"send_failed"}


def test_one_failed_destination_sends_nothing_of_the_event(bench: Bench, section: Mapping[str, str]) -> None:
    copy = {"object": "Customer", "name": "copy", "destination": "queue://copies"}
    deployment = bench.deploy(provider=section, subscriptions=[copy, ROUTE])
    identity = deployment.send("queue://customers", customer("a/b"))
    assert deployment.outcomes()[identity][0] == "failed"
    assert deployment.messages("queue://copies") == []


def test_a_retried_event_with_another_destination_sends_once(
    bench: Bench, section: Mapping[str, str]
) -> None:
    """The process ends after the first message was prepared and written."""
    try_ = {
        "object": "Customer",
        "name": "try",
        "destination": "queue://try-{Meta.DeliveryCount}",
        "destinations": ["queue://try-?"],
    }
    process = {"object": "Customer", "process": "processes:a", "name": "a"}
    deployment = bench.deploy(provider=section, subscriptions=[try_, process])
    is_isolated = section.get("type") != "memory"
    wish = "a: exit-once 3" if is_isolated else "a: inactive-once"
    deployment.send("queue://customers", customer(wish))
    with deployment.running(isolated=is_isolated) as adapter:
        adapter.poll()
        (bench.directory / "woken").touch()
        adapter.drain()
    assert len(bench.deliveries()) == 2
    counts = [len(deployment.messages(f"queue://try-{number}")) for number in (1, 2, 3)]
    assert sum(counts) == 1
    assert counts[0] == (0 if is_isolated else 1), "a delivery that nobody began does not count"


def test_the_message_of_an_event_that_failed_is_sent_when_it_is_replayed(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=[ROUTE])
    deployment.drop_customers(x1="a/b")
    assert placeless(deployment.outcomes()["ID:x1"][1]).startswith("route: ObjectRefused: the destination")
    deployment.move("error", "customers", customer("ab"))
    deployment.drain()
    assert len(deployment.messages("queue://of-ab")) == 1
