"""`map`: a subscription gets an object of another type, made by one expression an attribute."""

from __future__ import annotations

import json
import sqlite3
from decimal import Decimal
from typing import Any

from connector.businessobjects.instance import BusinessObject
from connector.lake.sink import load_queue, read_object
from connector.testing.deployment import Deployment
from tests.events.conftest import IN_MEMORY, Bench, EventDeployment
from tests.tables import rows

OBJECTS = """\
business_object: Order
app_specific_info: cw_mo_conn=Meta
verbs: {Create: , Cancel: }
attributes:
  OrderId: {type: String, key: true}
  Total: Decimal
  Region: String
  At: Date
  Lines: {type: Line, cardinality: n}
  Meta: {type: OrderMeta}
---
business_object: Line
attributes: {Sku: String, Quantity: Integer, Price: Decimal}
---
business_object: OrderMeta
attributes: {CorrelationID: String, Priority: Integer}
---
business_object: Invoice
app_specific_info: cw_mo_conn=Head
verbs: {Create: , Update: }
attributes:
  Number: {type: String, key: true, required: true, max_length: 8}
  Currency: {type: String, required: true}
  Amount: {type: Decimal, scale: 2, minimum: 0}
  Day: Date
  Country: String
  First: {type: InvoiceLine}
  Lines: {type: InvoiceLine, cardinality: n}
  Skus: {type: String, cardinality: n}
  Head: {type: OrderMeta}
---
business_object: InvoiceLine
attributes: {Sku: {type: String, required: true}, Quantity: Integer}
---
map: OrderToInvoice
from: Order
to: Invoice
verb: Create
attributes:
  Number: "join('-', ['INV', OrderId])"
  Currency: "'EUR'"
  Amount: "round(multiply(Total, `1.19`), `2`)"
  Day: At
  Country: "lookup('countries.csv', Region)"
  First: "Lines[0].{Sku: Sku, Quantity: Quantity}"
  Lines: "Lines[].{Sku: Sku, Quantity: Quantity}"
  Skus: "Lines[].Sku"
  Head: "{CorrelationID: Meta.CorrelationID, Priority: `7`}"
---
static_metaobject: MO_Config
rules:
  Order_Create: {InputDestination: queue://orders}
"""
BILL = {"object": "Order", "destination": "queue://invoices", "name": "bill", "map": "OrderToInvoice"}
ORDER = {
    "OrderId": "7",
    "Total": 100.10,
    "Region": "NL",
    "At": "2024-05-31",
    "Lines": [{"Sku": "a", "Quantity": 2}, {"Sku": "b"}],
}
INVOICE = {
    "Number": "INV-7",
    "Currency": "EUR",
    "Amount": 119.12,
    "Day": "2024-05-31",
    "Country": "Netherlands",
    "First": {"Sku": "a", "Quantity": 2},
    "Lines": [{"Sku": "a", "Quantity": 2}, {"Sku": "b"}],
    "Skus": ["a", "b"],
}


def deploy(bench: Bench, *subscriptions: Any, objects: str = OBJECTS, **how: Any) -> EventDeployment:
    how = {"provider": IN_MEMORY, **how}
    deployment = bench.deploy(subscriptions=subscriptions, objects=objects, **how)
    deployment.write("metaobjects/countries.csv", "code,name\nNL,Netherlands\n")
    return deployment


def send(deployment: Deployment, **values: Any) -> str:
    return deployment.send("queue://orders", json.dumps({**ORDER, **values}), correlation_id="C-1")


def invoices(deployment: Deployment) -> list[Any]:
    return [json.loads(message.body) for message in deployment.messages("invoices")]


@rows("isolated", [False, True])
def test_a_destination_gets_the_object_that_the_map_makes(bench: Bench, isolated: bool) -> None:
    deployment = deploy(bench, BILL, {"object": "Order", "process": "processes:a", "name": "a"}, provider={})
    deployment.write("processes.py", "def a(order, event):\n    assert order.type == 'Order'\n")
    identity = send(deployment)
    assert deployment.outcomes(isolated=isolated) == {identity: ("published", "")}
    assert invoices(deployment) == [{"BusinessObject": "Invoice", "Verb": "Create", **INVOICE}]
    assert b'"Amount":119.12' in deployment.messages("invoices")[0].body.replace(b" ", b"")


def test_placeholders_name_the_object_of_the_event_and_then_that_of_the_map(bench: Bench) -> None:
    computed = {
        "destination": "queue://invoices-{Region}",
        "destinations": ["queue://invoices-*"],
        "properties": {"region": "{Region}", "amount": "{Amount}", "total": "{Total}"},
    }
    deployment = deploy(bench, {**BILL, **computed})
    identity = deployment.send("queue://orders", json.dumps(ORDER))
    assert deployment.outcomes() == {identity: ("published", "")}
    (sent,) = deployment.messages("queue://invoices-NL")
    assert [sent.properties[name] for name in computed["properties"]] == ["NL", "119.12", "100.1"]


def test_a_table_gets_the_columns_of_the_object_that_the_map_makes(bench: Bench) -> None:
    table = {
        "object": "Order",
        "table": "shop.invoice",
        "map": "OrderToInvoice",
        "name": "store",
        "columns": {"number": "Number", "amount": "Amount"},
        "on_conflict": "update",
    }
    file = bench.directory / "shop.db"
    deployment = deploy(bench, table, more={"databases": {"shop": {"url": f"sqlite:///{file}"}}})
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE invoice (number VARCHAR(20) PRIMARY KEY, amount VARCHAR(40))")
    first, again = send(deployment), send(deployment, Total="0.01")
    assert {outcome for outcome, _ in deployment.outcomes().values()} == {"published"}, (first, again)
    with sqlite3.connect(file) as database:
        assert database.execute("SELECT * FROM invoice").fetchall() == [("INV-7", "0.01")]


def test_when_sees_the_object_of_the_event_and_comes_before_the_map(bench: Bench) -> None:
    deployment = deploy(
        bench, {**BILL, "when": "Region == 'NL'"}, {"object": "*", "destination": "queue://all"}
    )
    wanted, other = send(deployment), send(deployment, Region=None, OrderId=None)
    assert deployment.outcomes() == {wanted: ("published", ""), other: ("published", "")}
    assert len(invoices(deployment)) == 1
    assert [json.loads(one.body)["Total"] for one in deployment.messages("all")] == [100.1, 100.1]


@rows(
    "values, reason",
    [
        ({"OrderId": None}, "Number: OrderId: found null, expected a text in join()"),
        ({"Total": None}, "Amount: Total: found null, expected a number in multiply()"),
        ({"Total": -1}, "Invoice: Amount: found the number -1.19, expected at least 0"),
        ({"OrderId": "12345"}, "Invoice: Number: found a text of 9 characters, expected at most 8"),
        ({"Lines": [{"Sku": "a"}, {"Quantity": 1}]}, "Invoice: Lines[1].Sku: required, but not set"),
    ],
)
def test_an_object_that_cannot_be_made_fails_its_event_before_any_delivery(
    bench: Bench, values: Any, reason: str
) -> None:
    deployment = deploy(bench, {"object": "*", "destination": "queue://all", "name": "all"}, BILL)
    identity = send(deployment, **values)
    assert deployment.outcomes() == {identity: ("failed", f"bill: map OrderToInvoice: {reason}")}
    assert deployment.messages("all") == deployment.messages("invoices") == []
    assert deployment.properties("error", identity)["connector_kind"] == "malformed"


def test_a_map_without_a_verb_keeps_the_verb_and_defaults_are_used_where_they_are(bench: Bench) -> None:
    objects = OBJECTS.replace("verb: Create\n", "").replace("  Currency: \"'EUR'\"\n", "")
    objects = objects.replace("Currency: {type: String, ", "Currency: {type: String, default: USD, ")
    sent = {**BILL, "mime_type": "text/xml"}
    deployment = deploy(bench, sent, objects=objects, UseDefaults=True)
    identity = send(deployment)
    assert deployment.outcomes() == {identity: ("published", "")}
    assert b"USD" in deployment.messages("invoices")[0].body


def test_the_reason_names_the_record(bench: Bench) -> None:
    objects = f"{OBJECTS}---\ndatahandler_metaobject: MO_DataHandler_Default\n"
    objects += "handlers:\n  application/json: {split: true}\n"
    deployment = deploy(bench, BILL, objects=objects)
    identity = deployment.send("queue://orders", json.dumps([ORDER, {**ORDER, "Total": None}]))
    (reason,) = [reason for _, reason in deployment.outcomes().values()]
    assert reason.startswith("record 2: bill: map OrderToInvoice: Amount: Total: found null"), identity


def test_a_map_reads_and_makes_dynamic_meta_objects(bench: Bench) -> None:
    metaobjects = deploy(bench, BILL).configuration.metaobjects
    values = {**ORDER, "Total": "100.10", "Meta": {"CorrelationID": "C-1"}}
    bo = BusinessObject(metaobjects.definitions, "Order", "Create", values)
    made = metaobjects.maps["OrderToInvoice"].make(bo, use_defaults=False)
    assert made["Head"].as_dict() == {"CorrelationID": "C-1", "Priority": 7}
    assert made.as_dict(body_only=True) == {**INVOICE, "Amount": Decimal("119.12")}
    assert (bo.type, bo.as_dict()["Region"]) == ("Order", "NL")


def test_a_load_gets_the_object_that_the_map_makes(bench: Bench) -> None:
    load = {"object": "Order", "load": "processes:load", "name": "lake", "map": "OrderToInvoice"}
    deployment = deploy(bench, load, provider={})
    deployment.write("processes.py", "def load(dataframe, lot): ...\n")
    identity = send(deployment)
    adapter = deployment.running()
    with adapter:
        adapter.poll()
    (entry,) = deployment.configuration.subscriptions
    assert (entry.object, entry.delivered_object) == ("Order", "Invoice")
    (message,) = deployment.messages(str(load_queue("test", "one", "lake")))
    found = read_object(deployment.configuration.metaobjects.definitions, "Invoice", message)
    assert found["Number"] == "INV-7", identity


def test_a_null_that_the_handler_keeps_stays_a_null(bench: Bench) -> None:
    objects = OBJECTS.replace("Currency: \"'EUR'\"", "Currency: \"'EUR'\"\n  Note: Note").replace(
        "Lines[].{Sku: Sku,", "Lines[].{Sku: Sku, Price: Price, Note: upper(default(Note, 'x')), By: By,"
    )
    objects = objects.replace("  Region: String\n", "  Region: String\n  Note: String\n")
    objects = objects.replace("  Country: String\n", "  Country: String\n  Note: String\n")
    objects = objects.replace("Price: Decimal}", "Price: Decimal, Note: String, By: String}")
    objects = objects.replace(
        "Quantity: Integer}\n---\nmap",
        "Quantity: Integer, Price: Decimal, Note: String, By: String}\n---\nmap",
    )
    objects += (
        "---\ndatahandler_metaobject: MO_DataHandler_Default\nhandlers: {application/json: {null: value}}\n"
    )
    lines = [{"Sku": "a", "Price": None, "Quantity": 1}, {"Sku": "b", "Price": 1, "By": None}]
    deployment = deploy(bench, BILL, objects=objects)
    identity = send(deployment, Note=None, Region=None, Lines=lines)
    assert deployment.outcomes() == {identity: ("published", "")}
    (made,) = invoices(deployment)
    assert made["Note"] is None
    assert "Country" not in made  # lookup() made a null of its own
    assert made["Lines"] == [
        {"Sku": "a", "Quantity": 1, "Price": None, "Note": "X"},
        {"Sku": "b", "Price": 1, "Note": "X", "By": None},
    ]
