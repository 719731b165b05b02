"""A queue as a table of Spark: real queries, rows counted in real tables."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from connector.errors import UnknownDestination
from connector.lake.source.data_source import EventsDataSource, SourceError, SourceOptions
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.spark.pipeline import SparkPipeline
from connector.stores.dropbox.provider import DropboxProvider
from tests.events.conftest import Bench
from tests.lake.events_query import run_here
from tests.tables import rows

Run = Callable[..., dict[str, Any]]

OBJECTS = """
business_object: Customer
attributes:
  CustomerId: {type: String, key: true}
  Limit: {type: Decimal, digits: 10, scale: 2}
  Since: {type: Date, app_specific_info: spark=date}
  Seen: Date
  Address: {type: Address, cardinality: n}
verbs: [Create]
---
business_object: Address
attributes:
  City: String
---
business_object: Vendor
attributes:
  VendorId: {type: String, key: true}
verbs: [Create]
---
static_metaobject: MO_Config
rules:
  Vendor_Create: {InputFormat: VENDOR}
  Customer_Create: {InputFormat: CUSTOMER}
"""


def make(place: Path) -> Path:
    """Writes a deployment into a directory."""
    Bench(place, place / "data").deploy(
        objects=OBJECTS, subscriptions=(), processes="", InputDestination="queue://in", DefaultVerb=None
    )
    return place


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return make(tmp_path)


@pytest.fixture
def run(local: SparkPipeline) -> Run:
    """Runs the steps of a program in the Spark of this folder."""
    return partial(run_here, local.session())


def fill(place: Path, first: int, count: int, **properties: str) -> None:
    """Sends customers."""
    connection = DropboxProvider(place / "data", create=True, durable=False).connect()
    messages = []
    for number in range(first, first + count):
        body = {
            "CustomerId": f"{number:04d}",
            "Limit": "12.50",
            "Since": "2026-01-31",
            "Seen": "2026-01-31T12:00:00Z",
            "Address": [{"City": "Hamburg"}],
        }
        messages.append(Message(json.dumps(body).encode(), type="CUSTOMER", message_class="T"))
        for name, value in properties.items():
            messages[-1].set_property(name, value)
    connection.send(parse_destination("queue://in"), messages)
    connection.close()


def task(place: Path, *steps: tuple[str, dict[str, Any]], **options: str) -> dict[str, Any]:
    given = {"config": str(place / "adapter.yaml"), "destination": "queue://in", "name": "to-lake"}
    given["object"] = "Customer"
    return {
        "options": {**given, **options},
        "table": str(place / "lake"),
        "checkpoint": str(place / "checkpoint"),
        "steps": steps,
    }


def names(first: int, count: int) -> list[str]:
    return [f"{number:04d}" for number in range(first, first + count)]


def browse(place: Path, queue: str) -> list[Message]:
    with contextlib.closing(DropboxProvider(place / "data").connect()) as connection:
        try:
            return list(connection.browse(parse_destination(f"queue://{queue}")))
        except UnknownDestination:
            return []


def count(place: Path, queue: str) -> int:
    return len(browse(place, queue))


def test_a_queue_becomes_a_table_and_its_messages_are_settled(place: Path, run: Run) -> None:
    fill(place, 0, 25)
    connection = DropboxProvider(place / "data", create=True, durable=False).connect()
    queue = parse_destination("queue://in")
    connection.send(queue, [Message(b"no json", type="CUSTOMER", message_class="T")])
    connection.send(queue, [Message(b'{"VendorId": "1"}', type="VENDOR", message_class="T")])
    connection.close()
    said = run(task(place, ("look", {}), ("query", {}), ("rows", {}), maxMessagesPerTrigger="10"))
    columns, found = said["0 look"]
    assert columns == (
        "struct<CustomerId:string,Limit:decimal(12,2),Since:date,Seen:timestamp,Address:array<struct<City:string>>>"
    )
    assert len(found) == 25
    assert {"Limit": "12.50", "Since": "2026-01-31", "Address": [{"City": "Hamburg"}]}.items() <= found[
        0
    ].items()
    assert [number for _, number in said["1 query"] if number] == [10, 10, 5]
    assert said["2 rows"] == names(0, 25)
    assert [count(place, one) for one in ("in", "archive", "error", "unsubscribed")] == [0, 25, 1, 1]
    (bad,), (other,) = browse(place, "error"), browse(place, "unsubscribed")
    assert (bad.properties["connector_kind"], bad.properties["connector_outcome"]) == ("malformed", "failed")
    assert bad.properties["connector_origin_destination"] == "queue://in"
    assert other.properties["connector_reason"] == "the message is Vendor, and the source wants Customer"


def test_a_query_goes_on_and_other_queries_have_their_own_lots(place: Path, run: Run) -> None:
    fill(place, 0, 10, region="north")
    fill(place, 10, 10, region="south")
    other = {
        "options": {
            "config": str(place / "adapter.yaml"),
            "destination": "queue://in",
            "name": "south",
            "selector": "region = 'south'",
        },
        "checkpoint": str(place / "checkpoint-south"),
        "table": str(place / "south"),
    }
    said = run(
        task(
            place,
            ("look", {"object": "", "selector": "region = 'south'"}),
            ("query", other),
            ("query", {}),
            ("rows", {}),
            (
                "fails",
                {"checkpoint": str(place / "late"), "writing": {"asyncProgressTrackingEnabled": "true"}},
            ),
        )
    )
    columns, found = said["0 look"]
    assert columns == (
        "struct<id:string,destination:string,headers:map<string,string>,properties:map<string,string>,body:binary>"
    )
    assert len(found) == 10
    assert found[0]["properties"] == {"region": "south"}
    assert found[0]["headers"]["JMSType"] == "CUSTOMER"
    assert sum(number for _, number in said["1 query"]) == 10
    assert sum(number for _, number in said["2 query"]) == 10
    assert said["3 rows"] == names(0, 10)
    assert "async" in said["4 fails"].lower()
    fill(place, 20, 5)
    assert run(task(place, ("query", {}), ("rows", {})))["1 rows"] == names(0, 10) + names(20, 5)
    assert count(place, "archive") == 25

    # what was settled is not read again, and a name has one owner
    checkpoint = place / "checkpoint"
    for one in (checkpoint / "commits").iterdir():  # as an older copy of the checkpoint has it
        one.unlink()
    owner = DropboxProvider(place / "data", create=True, durable=False).connect()
    queue = parse_destination("queue://in")
    owner.lots.position(queue, "taken")
    said = run(
        task(
            place,
            ("fails", {"table": str(place / "other")}),
            (
                "fails",
                {"checkpoint": str(place / "c2"), "options": {**task(place)["options"], "name": "taken"}},
            ),
        )
    )
    owner.close()
    assert "asks for the lot 2 of 'to-lake'" in said["0 fails"]
    assert "up to 2 are settled" in said["0 fails"]
    assert f"process {os.getpid()} on " in said["1 fails"]


def test_a_sequence_that_is_made_anew_meets_no_number_of_the_earlier_one(place: Path, run: Run) -> None:
    fill(place, 0, 4)
    run(task(place, ("query", {}), maxMessagesPerTrigger="2"))
    (place / "data").rename(place / "lost")
    (place / ".connector").rename(place / "lost-record")
    fill(place, 4, 2)
    assert run(task(place, ("query", {}), ("rows", {})))["1 rows"] == names(0, 6)


@rows(
    "options, mistake",
    [
        ({}, r"queue://NAME"),
        ({"destination": "topic://prices"}, "found topic://prices, expected a queue"),
        ({"destination": "queue://in", "maxMessagesPerTriger": "5"}, "did you mean"),
        ({"destination": "queue://in", "maxMessagesPerTrigger": "0"}, "found '0', expected a number from 1"),
        ({"destination": "queue://in", "asyncProgressTrackingEnabled": "true"}, "settled too early"),
        ({"destination": "queue://in", "selector": "region ="}, "expected"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], mistake: str) -> None:
    with pytest.raises(ValueError if "selector" in options else SourceError, match=mistake):
        SourceOptions.read(options)


def test_a_stream_needs_a_name() -> None:
    source = EventsDataSource({"destination": "queue://in"})
    with pytest.raises(SourceError, match="the name of this query"):
        source.streamReader(None)
