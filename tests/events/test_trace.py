"""The trace: how much of what happens to a business object is in the log, by AgentTraceLevel."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from typing import Any

import pytest

from connector.businessobjects.definition import Attribute, Definition, Definitions
from connector.businessobjects.dump import dump
from connector.businessobjects.instance import BusinessObject
from connector.service.adapter import Adapter
from tests.events.conftest import Bench, with_rules
from tests.tables import rows

EACH: dict[int, set[str]] = {
    1: {"message detected", "event settled"},
    2: {"business object passed to a sink"},
    3: {"message converted", "message sent"},
    4: {"step begins", "step ends"},
    5: {"message taken", "message put", "business object", "properties"},
}


def traced(caplog: pytest.LogCaptureFixture) -> dict[int, list[dict[str, Any]]]:
    """The lines of the trace by the level from which on they are written."""
    found = defaultdict(list)
    for record in caplog.records:
        if record.name == "connector.trace":
            assert record.levelno == logging.INFO
            fields = vars(record)
            found[fields["trace_level"]].append({**fields, "event": record.getMessage()})
    return found


@rows("level", range(6))
def test_a_level_has_its_own_lines_and_all_below(
    bench: Bench, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    deployment = bench.deploy(
        subscriptions=[
            {"object": "Order", "process": "processes:a", "name": "a"},
            {"object": "Order", "destination": "queue://crm", "name": "crm"},
        ],
        AgentTraceLevel=level,
    )
    deployment.drop("orders", '{"BusinessObject": "Order", "Id": "1"}', "4.1.T")
    caplog.clear()
    caplog.set_level(logging.INFO)
    assert deployment.outcomes()["ID:1"] == ("published", "")
    lines = traced(caplog)
    assert {number: {line["event"] for line in found} for number, found in lines.items()} == {
        number: texts for number, texts in EACH.items() if number <= level
    }
    for line in lines[1] + lines[2] + lines[3]:
        assert line["message_id"] == "ID:1"
    if level >= 1:
        (settled,) = [line for line in lines[1] if line["event"] == "event settled"]
        known = {"destination": "queue://orders", "object": "Order", "verb": "Create", "outcome": "published"}
        assert {key: settled[key] for key in known} == known
    if level >= 2:
        assert [line["subscription"] for line in lines[2]] == ["crm", "a"]
    if level >= 3:
        converted, sent = lines[3]
        assert (converted["data_handler"], converted["bytes"], converted["rule"]) == ("JsonHandler", 38, None)
        assert sent["destination"] == "queue://crm"
    if level >= 4:
        ended = {line["step"] for line in lines[4] if line["event"] == "step ends" and line["seconds"] >= 0}
        assert ended == {"claim", "convert", "publish", "settle", "recover"}


def test_the_properties_at_the_start_have_no_secrets(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    secret = {"spark": {"conf": {"spark.ssl.keyPassword": "hunter2"}}}
    deployment = bench.deploy(AgentTraceLevel=5, more=secret)
    caplog.set_level(logging.INFO)
    deployment.outcomes()
    sections = {
        line["section"]: line["values"] for line in traced(caplog)[5] if line["event"] == "properties"
    }
    assert sections["connector"]["AgentTraceLevel"] == 5
    assert "hunter2" not in str(sections)
    assert "keyPassword" in str(sections["spark"])


def test_requests_are_traced(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    objects = with_rules("  Customer_Create: {OutputDestination: queue://crm}\n")
    deployment = bench.deploy(objects=objects, AgentTraceLevel=5)
    caplog.set_level(logging.INFO)
    with Adapter(deployment.configuration) as adapter:
        assert adapter.request("Customer.Create", {"CustomerId": "7"}).good
    lines = traced(caplog)
    assert [line["event"] for line in lines[2]] == ["request sent", "request answered"]
    assert [line["event"] for line in lines[3]] == ["object converted"]
    assert {line["event"] for line in lines[5]} >= {"message put", "business object"}


def test_a_dump_is_bounded_and_shows_no_ciphertext() -> None:
    attributes = [
        Attribute("Card", "String"),
        Attribute("Name", "String"),
        Attribute("Child", "Child", cardinality="n"),
        Attribute("Tag", "String", cardinality="n"),
        Attribute("Code", "Ciphertext", cardinality="n"),
    ]
    child = Definition("Child", attributes={"Pin": Attribute("Pin", "String")})
    definition = Definition("Order", attributes={one.name: one for one in attributes})
    definitions = Definitions({"Order": definition, "Child": child})
    bo = BusinessObject(
        definitions,
        "Order",
        "Create",
        {"Card": "4711", "Name": "x", "Child": [{"Pin": "0815"}], "Tag": ["a", "b"], "Code": ["1234"]},
    )
    for one, name in ((definition, "Card"), (child, "Pin")):  # whichever types there are
        one.attributes[name] = Attribute(name, "Ciphertext")
    assert json.loads(dump(bo)) == {
        "Card": "********",
        "Name": "x",
        "Child": [{"Pin": "********"}],
        "Tag": ["a", "b"],
        "Code": "********",
    }
    bo["Name"] = "x" * 100_000
    assert len(dump(bo)) < 17_000
