"""The adapter finds its loads by an entry point, and asks for them only if a subscription has one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from connector.lake.registration import KIND
from connector.messaging.destination import parse_destination
from connector.plugins import PlugInError
from connector.service.load_kind import LOADS
from connector.testing.deployment import Deployment
from tests.tables import rows

ADAPTER = """
provider: {type: dropbox, root: ./data, create: true, durability: none}
connector: {ApplicationName: shop, InputDestination: queue://in, DataHandlerMimeType: application/json}
subscriptions: [{object: Order, SINK}]
metaobjects: ./metaobjects
"""
OBJECTS = "{business_object: Order, verbs: {Create: }, attributes: {Id: {type: Integer, key: true}}}"


def deployment(directory: Path, sink: str) -> Deployment:
    return Deployment(
        directory,
        adapter=ADAPTER.replace("SINK", sink),
        metaobjects=OBJECTS,
        processes="def book(order, event): ...",
    )


def test_the_loads_are_announced_like_any_plug_in() -> None:
    assert LOADS.all() == [("lots", KIND)]


def test_an_adapter_whose_loads_are_missing_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its objects would wait in a queue that nobody empties."""
    monkeypatch.setitem(sys.modules, "connector.lake.registration", None)
    made = deployment(tmp_path, "load: 'fnmatch:fnmatch'")
    words = r"the loads 'lots' needs the file connector/lake/registration\.py, which is not there"
    with pytest.raises(PlugInError, match=words), made.running():
        pass


def test_an_adapter_without_a_load_needs_no_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "connector.lake.registration", None)
    made = deployment(tmp_path, "process: 'processes:book'")
    made.drop("in", '{"BusinessObject": "Order", "Verb": "Create", "Id": 1}')
    with made.running() as adapter:
        assert adapter.drain().settled == 1


@rows(
    "queue, is_one",
    [
        ("queue://connector.shop.load.host-a.orders", True),
        ("queue://connector.shop.load.-.orders", True),
        ("queue://connector.shop.held", False),
        ("queue://connector.shop.loads", False),
        ("queue://connector.shops.load.host-a.orders", False),
        ("topic://connector.shop.load.host-a.orders", False),
    ],
)
def test_a_queue_of_loads_is_known_by_its_application(queue: str, is_one: bool) -> None:
    assert KIND.is_queue(parse_destination(queue), "shop") is is_one
