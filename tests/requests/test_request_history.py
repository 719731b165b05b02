"""The history of requests: made, replied, timed out, failed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from connector.messaging.history import History
from connector.operate.history import LifeEvent, find_ids, read_all, read_life
from connector.testing.deployment import Deployment
from tests.requests.test_ways_in import INPUT, OBJECTS, PROCESSES, directory
from tests.requests.world import Application

__all__ = ["directory"]


@pytest.fixture
def asking(directory: Path) -> Deployment:
    """A deployment with history. The suite of state stores shows that each provider keeps the rows."""
    document = yaml.safe_load(INPUT)
    document["connector"]["instance"] = "one"
    return Deployment(directory, adapter=yaml.safe_dump(document), metaobjects=OBJECTS, processes=PROCESSES)


@pytest.fixture
def application(asking: Deployment) -> Iterator[Application]:
    made = Application(asking.provider)
    yield made
    made.end()


def history_of(deployment: Deployment) -> History:
    return deployment.provider.existing_state("asking").history()


def told(events: list[LifeEvent]) -> list[str]:
    return [one.row.what for one in events]


def test_a_request_and_its_reply_are_told(asking: Deployment, application: Application) -> None:
    with asking.running() as adapter:
        assert adapter.request("Customer.Retrieve", {"CustomerId": "7"}).good
        assert adapter.request("Customer.Create", {"CustomerId": "8"}).good
    (identity,) = find_ids(history_of(asking), key="7")
    life = read_life(history_of(asking), identity)
    assert told(list(life.events)) == ["requested", "replied"]
    row = life.events[0].row
    assert (row.object, row.verb, row.destination, row.instance) == (
        *("Customer", "Retrieve", "queue://requests", "one"),
    )
    assert application.requests[0].message_id == identity
    (other,) = find_ids(history_of(asking), key="8")
    assert told(list(read_life(history_of(asking), other).events)) == ["requested"]


def test_a_request_without_a_reply_has_timed_out(asking: Deployment) -> None:
    with asking.running() as adapter:
        result = adapter.request("Customer.Retrieve", {"CustomerId": "7"}, timeout=1)
    events = read_all(history_of(asking), 0.0)
    assert told(events) == ["requested", "timed_out"]
    assert events[1].row.reason == result.message


@pytest.mark.process
def test_a_request_of_a_process_is_told_beside_the_event(
    asking: Deployment, application: Application
) -> None:
    identity = asking.send("in", '{"BusinessObject": "Customer", "CustomerId": "7"}')
    with asking.running(isolated=True) as adapter:
        adapter.drain()
    events = read_all(history_of(asking), 0.0)
    assert sorted(told(events)) == ["published", "replied", "requested"]
    assert {one.id for one in events} == {identity, str(application.requests[0].message_id)}
    assert find_ids(history_of(asking), key="7") == list(dict.fromkeys(one.id for one in events))


def test_requests_are_not_told_without_a_history(asking: Deployment, application: Application) -> None:
    document = yaml.safe_load((asking.directory / "adapter.yaml").read_text())
    asking.write("adapter.yaml", yaml.safe_dump({**document, "history": {"keep": 0}}))
    with asking.running() as adapter:
        assert adapter.request("Customer.Retrieve", {"CustomerId": "7"}).good
    assert read_all(history_of(asking), 0.0) == []
