"""`when`: the values of an object decide who gets it."""

from __future__ import annotations

import json
from typing import Any

from tests.events.conftest import IN_MEMORY, Bench, EventDeployment
from tests.tables import rows

OBJECTS = """\
business_object: Order
verbs: {Create: }
attributes:
  Id: {type: String, key: true}
  Total: Decimal
  Region: String
  At: Date
---
business_object: Note
verbs: {Create: }
attributes: {Id: {type: String, key: true}, Region: String}
---
static_metaobject: MO_Config
rules:
  Order_Create: {InputDestination: queue://orders}
  Note_Create: {InputDestination: queue://customers, jmespath: "lookup('regions.csv', Region) == 'Europe'"}
"""
REGIONS = "code,name\nEU,Europe\nUS,America\n"
EUROPE = {"object": "Order", "destination": "queue://europe", "name": "europe", "when": "Region == 'EU'"}
LARGE = {"object": "*", "destination": "queue://large", "name": "large", "when": "Total > `100`"}


def deploy(bench: Bench, *subscriptions: Any, objects: str = OBJECTS, **how: Any) -> EventDeployment:
    deployment = bench.deploy(subscriptions=subscriptions, objects=objects, provider=IN_MEMORY, **how)
    for file in ("regions.csv", "metaobjects/regions.csv"):
        deployment.write(file, REGIONS)
    return deployment


def order(**values: Any) -> str:
    return json.dumps({"Id": "1", **values})


@rows(
    "values, europe, large",
    [
        ({"Total": 100.01, "Region": "EU"}, 1, 1),
        ({"Total": 100, "Region": "EU"}, 1, 0),
        ({"Total": "100.00000000000000000000000001", "Region": "US"}, 0, 1),
    ],
)
def test_who_wants_the_values_gets_the_object(bench: Bench, values: Any, europe: int, large: int) -> None:
    deployment = deploy(bench, EUROPE, LARGE)
    identity = deployment.send("queue://orders", order(**values))
    assert deployment.outcomes(isolated=False) == {identity: ("published", "")}
    assert [len(deployment.messages(queue)) for queue in ("europe", "large")] == [europe, large]


def test_an_object_that_nobody_wants_is_unsubscribed_and_the_reason_names_who_said_no(bench: Bench) -> None:
    deployment = deploy(bench, EUROPE, LARGE)
    identity = deployment.send("queue://orders", order(Total=1))
    reason = "no subscription wants Order.Create (the when of europe, large says no)"
    assert deployment.outcomes() == {identity: ("unsubscribed", reason)}
    assert deployment.ids("unsubscribed") == [identity]


def test_an_expression_that_fails_fails_its_event_before_any_delivery(bench: Bench) -> None:
    when = "upper(Region) == 'EU'"
    deployment = deploy(
        bench, {**EUROPE, "when": when}, {"object": "*", "process": "processes:a", "name": "a"}
    )
    bad = deployment.send("queue://orders", order())
    good = deployment.send("queue://orders", order(Region="eu"))
    reason = "europe: when: Region: found null, expected a text in upper()"
    assert deployment.outcomes() == {bad: ("failed", reason), good: ("published", "")}
    assert bench.called() == [good]
    assert deployment.properties("error", bad)["connector_kind"] == "malformed"


def test_the_values_of_each_record_decide(bench: Bench) -> None:
    objects = f"{OBJECTS}---\ndatahandler_metaobject: MO_DataHandler_Default\n"
    objects += "handlers:\n  application/json: {split: true}\n"
    deployment = deploy(bench, {**EUROPE, "when": "upper(Region) == 'EU'"}, objects=objects)
    both = deployment.send("queue://orders", f"[{order(Region='EU')}, {order(Region='US')}]")
    bad = deployment.send("queue://orders", f"[{order(Region='EU')}, {order()}]")
    unwanted = "record 2: no subscription wants Order.Create (the when of europe says no)"
    failed = "record 2: europe: when: Region: found null, expected a text in upper()"
    assert deployment.outcomes() == {both: ("published", unwanted), bad: ("failed", failed)}
    assert len(deployment.messages("europe")) == 1


def test_dates_and_files_decide(bench: Bench) -> None:
    when = "At >= '2024-05-31T10:00:00+02:00' && lookup('regions.csv', Region) == 'Europe'"
    deployment = deploy(bench, {**EUROPE, "when": when})
    late = deployment.send("queue://orders", order(Region="EU", At="2024-05-31T08:00:00Z"))
    early = deployment.send("queue://orders", order(Region="EU", At="2024-05-31T09:59:59+02:00"))
    other = deployment.send("queue://orders", order(Region="US", At="2024-06-30T08:00:00Z"))
    found = {identity: outcome for identity, (outcome, _) in deployment.outcomes().items()}
    assert found == {late: "published", early: "unsubscribed", other: "unsubscribed"}


def test_a_rule_looks_values_up_beside_its_own_file(bench: Bench) -> None:
    deployment = deploy(bench, {"object": "Note", "process": "processes:a", "name": "a"})
    known = deployment.send("queue://customers", order(Region="EU"))
    unknown = deployment.send("queue://customers", order(Region="US"))
    found = {identity: outcome for identity, (outcome, _) in deployment.outcomes().items()}
    assert found == {known: "published", unknown: "unsubscribed"}


def test_an_attribute_that_only_some_objects_have_decides_for_these(bench: Bench) -> None:
    deployment = deploy(bench, LARGE)
    note = deployment.send("queue://customers", order(Region="EU"))
    reason = "no subscription wants Note.Create (the when of large says no)"
    assert deployment.outcomes() == {note: ("unsubscribed", reason)}


def test_conditions_travel_to_another_process(bench: Bench) -> None:
    deployment = bench.deploy(
        subscriptions=[{**EUROPE, "when": "lookup('regions.csv', Region) == 'Europe'"}], objects=OBJECTS
    )
    for file in ("regions.csv", "metaobjects/regions.csv"):
        deployment.write(file, REGIONS)
    identity = deployment.send("queue://orders", order(Region="EU"))
    assert deployment.outcomes(isolated=True) == {identity: ("published", "")}
