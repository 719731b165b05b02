"""The history: what happened to each event, over sent messages, failures, later tries and repairs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from connector.messaging.history import History, HistoryRow
from connector.operate.lives import LifeEvent, find_ids, find_now, note_action, read_all, read_life
from tests.events.conftest import Bench, EventDeployment
from tests.events.test_retry_later import SOON, drain
from tests.tables import rows

Deploy = Callable[..., EventDeployment]
CUSTOMER = '{"BusinessObject": "Customer", "CustomerId": "%s", "Name": "%s"}'


@pytest.fixture
def deploy(section: Mapping[str, str], bench: Bench) -> Deploy:
    """Makes deployments with one of the providers."""

    def make(directory: str = "", **settings: Any) -> EventDeployment:
        return Bench(bench.directory / directory, bench.root).deploy(provider=section, **settings)

    return make


def history_of(deployment: EventDeployment) -> History:
    return deployment.provider.existing_state("test").history()


def told(events: Sequence[LifeEvent]) -> list[tuple[str, str]]:
    return [(one.row.what, one.row.destination) for one in events]


def test_the_life_of_an_event_goes_on_in_the_messages_that_it_has_sent(deploy: Deploy) -> None:
    copy = {"object": "Customer", "name": "copy", "destination": "queue://copies"}
    first = deploy(subscriptions=[copy], InputDestination="queue://customers")
    second = deploy("two", InputDestination="queue://copies", instance="two", ConfigurationMetaObject=None)
    if first.provider.capabilities.reliable is False:
        second._provider = first.provider  # the same memory
    identity = first.send("customers", CUSTOMER % ("7", ""), correlation_id="C-1")
    other = first.send("customers", CUSTOMER % ("8", ""))
    first.drain()
    history = history_of(first)
    life = read_life(history, identity)
    assert told(life.events) == [("published", "queue://customers")]
    assert places(first, identity) == {("queue://archive", "waiting"), ("queue://copies", "waiting")}
    second.drain()
    life = read_life(history, identity)
    assert told(life.events) == [("published", "queue://customers"), ("published", "queue://copies")]
    own, sent = life.events
    assert (own.row.sent, own.keys, own.correlation_id) == (["queue://copies"], ("7",), "C-1")
    assert (own.row.instance, sent.row.instance, sent.origins) == ("one", "two", (identity,))
    assert other not in life.ids
    assert places(first, identity) == {("queue://archive", "waiting")}
    assert find_ids(history, correlation_id="C-1")[0] == identity
    assert find_ids(history, key="8")[0] == other
    assert find_ids(history, key="9") == []


def places(deployment: EventDeployment, identity: str) -> set[tuple[str, str]]:
    connection = deployment.provider.existing()
    life = read_life(history_of(deployment), identity)
    found = find_now(connection, life.ids, life.destinations(), shows_all=True)
    connection.close()
    return {(one["destination"], one["state"]) for one in found}


def test_each_outcome_a_later_try_and_a_repair_are_told_with_their_reasons(deploy: Deploy) -> None:
    name = {"object": "*", "process": "processes:a", "name": "a", "retry_later": SOON}
    deployment = deploy(subscriptions=[name], DuplicateEventElimination=True)
    begun = time.time()
    names = ("", "a: fail no 17", "a: unsubscribed gone", "a: temporary-once away")
    bodies = [*(CUSTOMER % (number, name) for number, name in enumerate(names)), "{"]
    published, failed, unwanted, later, malformed = (deployment.send("customers", body) for body in bodies)
    drain(deployment)
    history = deployment.provider.state("test").history()
    found = {one.id: one for one in read_all(history, 0.0)}
    wanted = {published: "published", failed: "failed", unwanted: "unsubscribed", malformed: "failed"}
    assert {identity: one.row.what for identity, one in found.items()} == {**wanted, later: "published"}
    assert "no 17" in found[failed].row.reason
    assert found[malformed].row.reason
    assert {one.row.to for one in found.values()} == {
        f"queue://{name}" for name in ("archive", "error", "unsubscribed")
    }
    assert read_all(history, time.time() + 1) == []
    events = read_life(history, later).events
    assert [one.row.what for one in events] == ["later", "published"]
    assert begun * 1000 < events[0].row.due < events[1].row.time * 1000
    assert "away" in events[0].row.reason
    move = {"origin": "queue://error", "to": "queue://customers"}
    note_action(history, "replayed", [failed], by="alice", why="fixed", **move)
    events = read_life(history, failed).events
    assert [(one.row.what, one.row.by) for one in events] == [("failed", ""), ("replayed", "alice")]
    expected = {"by": "alice", "reason": "fixed", "to": "queue://customers"}
    assert events[1].as_dict().items() >= expected.items()


@rows("settings, found", [({"keys": False}, [((), "C-1")]), ({"keep": 0}, [])])
def test_the_keys_or_all_can_be_left_out(
    bench: Bench, settings: dict[str, Any], found: list[tuple[tuple[str, ...], str]]
) -> None:
    deployment = bench.deploy(more={"history": settings})
    deployment.send("customers", CUSTOMER % ("4711", ""), correlation_id="C-1")
    deployment.drain()
    assert len(deployment.messages("archive")) == 1
    assert [(one.keys, one.correlation_id) for one in read_all(history_of(deployment), 0.0)] == found


def test_old_days_are_removed(deploy: Deploy) -> None:
    deployment = deploy(more={"history": {"keep": "2d"}})
    history = deployment.provider.state("test").history("one")
    now, day = time.time(), 86400
    history.append([HistoryRow(time=now - 4 * day, what="published", ids=["old"])])
    history.append([HistoryRow(time=now - day, what="published", ids=["young"])])
    deployment.drain()
    assert [one.id for one in read_all(history_of(deployment), 0.0)] == ["young"]


STOLEN = """\
import glob, os

def a(bo, event):
    for path in glob.glob("{root}/busy/incoming/target/*"):
        os.unlink(path)
"""


@rows("into", ["queue://busy", None])
def test_a_commit_that_is_refused_has_published_nothing(bench: Bench, into: str | None) -> None:
    """Somebody takes a message while its process is at work."""
    folder = "busy/incoming/target" if into else "customers/incoming/processing"
    processes = STOLEN.replace("busy/incoming/target", folder).format(root=bench.root)
    deployment = bench.deploy(InProgressDestination=into, processes=processes)
    identity = deployment.send("customers", CUSTOMER % ("1", ""))
    with deployment.running() as adapter:
        assert adapter.poll().provider_failed
        (event,) = read_life(history_of(deployment), identity).events
    assert event.row.what == "in_doubt"
    assert "the commit was refused: " in event.row.reason
    assert "not this client's any more" in event.row.reason
