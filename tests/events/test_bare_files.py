"""Files whose names have no headers: their ids are made at the claim, and stay."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cli.in_process import Commands
from tests.events.conftest import Bench, EventDeployment, customer
from tests.events.test_retry_later import SOON, drain
from tests.tables import rows

NAME = "orders.json"
IS_MADE = re.compile(r"ID:[0-9]{16}-[0-9a-z]+-file[0-9]+").fullmatch
ONE_DAY = 1_700_000_000
DAYS = ("monday", "tuesday")


def drop(deployment: EventDeployment, body: str, queue: str = "customers") -> Path:
    """Puts a file of the same name and time as every other into a queue, as ``cp -p`` does."""
    deployment.drop(queue, body, NAME)
    path = Path(deployment.folders(queue).target) / NAME
    os.utime(path, (ONE_DAY, ONE_DAY))
    return path


def names_by_id(deployment: EventDeployment, queue: str = "archive") -> dict[str, Any]:
    found = {
        one.message_id or "": one.properties["connector_file_name"] for one in deployment.messages(queue)
    }
    assert len(found) == len(deployment.messages(queue))
    return found


@rows("eliminates", [False, True])
def test_two_files_of_one_name_time_and_size_are_two_events(bench: Bench, eliminates: bool) -> None:
    bench = bench.again()
    deployment = bench.deploy(DuplicateEventElimination=eliminates)
    with deployment.running() as adapter:
        for _ in DAYS:
            drop(deployment, customer())
            adapter.drain()
        assert adapter.summary.total.published == 2
    ids = bench.called()
    assert len(set(ids)) == 2
    assert all(map(IS_MADE, ids))
    assert names_by_id(deployment) == dict.fromkeys(ids, NAME)
    assert {one.timestamp for one in deployment.messages("archive")} == {ONE_DAY * 1000}
    assert [call["values"]["Meta"]["MessageID"] for call in bench.calls()] == ids


def test_an_event_has_the_same_id_at_each_try_and_after_each_repair(bench: Bench) -> None:
    a = {"object": "*", "process": "processes:a", "name": "a", "retry_later": SOON}
    deployment = bench.deploy(subscriptions=[a], InputDestination="queue://customers", order="none")
    drop(deployment, customer("a: temporary-until 2"))
    drain(deployment)
    drop(deployment, customer("a: fail-with broken"))
    deployment.write("broken", "")
    drain(deployment)
    (failed,) = names_by_id(deployment, "error")
    (deployment.directory / "broken").unlink()
    call = Commands(deployment.directory)
    assert call("replay", "--id", NAME, "--yes", "--json").document["moved"] == 1
    drain(deployment)
    assert Counter(bench.called()) == {one: 3 if one != failed else 2 for one in names_by_id(deployment)}
    assert set(names_by_id(deployment).values()) == {NAME}


def test_an_event_that_is_in_progress_has_its_id(bench: Bench) -> None:
    deployment = bench.deploy(InProgressDestination="queue://busy", InputDestination="queue://customers")
    drop(deployment, customer("a: inactive-once"))
    with deployment.running() as adapter:
        adapter.poll()
        while adapter.in_progress:
            adapter.settle_ended()
        (waiting,) = names_by_id(deployment, "busy")
        deployment.write("woken", "")
        adapter.drain()
    assert bench.called() == [waiting] * 2
    assert list(names_by_id(deployment)) == [waiting]


def test_a_copy_of_a_published_file_that_comes_back_is_a_duplicate(bench: Bench) -> None:
    deployment = bench.deploy(DuplicateEventElimination=True)
    drop(deployment, customer())
    with deployment.running() as adapter:
        adapter.drain()
        deployment.move("archive", "customers")
        adapter.drain()
    (identity,) = names_by_id(deployment)
    assert bench.called() == [identity]
    assert deployment.properties("archive", identity)["connector_outcome"] == "duplicate"


@rows("name", [NAME, "é" * 127, "x" * 255, "a b&c=d+e%2E~@f-1-2", "\udcff.csv", "4.T"])
def test_what_is_settled_without_a_copy_has_its_name_again(bench: Bench, name: str) -> None:
    bench = bench.again()
    deployment = bench.deploy(ArchiveDestination=None)
    for _ in DAYS:
        deployment.drop("customers", customer(), name)
        deployment.drain()
    kept = deployment.names("customers", "processed")
    assert name in kept
    assert len(set(bench.called())) == len(kept) == 2
    if len(name) < 100:
        (second,) = set(kept) - {name}
        assert f"ID:{second.split('.')[1]}" == bench.called()[1]
    target = Path(deployment.folders("customers").target)
    (target.parent / "processed" / name).rename(target / name)
    deployment.drain()
    assert len(set(bench.called())) == 3, "who puts it there again means another event"
    assert deployment.names("customers") == deployment.names("customers", "processing") == []


@rows("name", ["..%2Fx", "", "%2E", "%00", "a%2Fb", "x" * 300])
def test_no_name_that_a_sender_has_made_up_is_a_path(bench: Bench, name: str) -> None:
    bench = bench.again()
    deployment = bench.deploy(ArchiveDestination=None)
    made_up = f"4.1700000000000000-a-file1.B.....connector_file_nameS={name}"[:250]
    deployment.drop("customers", customer(), made_up)
    deployment.drain()
    kept = "x" * (250 - len("4.1700000000000000-a-file1.B.....connector_file_nameS="))
    assert deployment.names("customers", "processed") == [kept if name[0:1] == "x" else made_up]


def test_an_operator_moves_a_file_that_waits_by_its_name(bench: Bench) -> None:
    deployment = bench.deploy()
    drop(deployment, customer())
    call = Commands(deployment.directory)
    assert call("explain", NAME, "--json").document["message_id"] == NAME
    moved = call("move", "queue://customers", "queue://archive", "--id", NAME, "--yes", "--json")
    assert moved.document["moved"] == 1
    assert deployment.names("customers") == []
    (identity,) = names_by_id(deployment)
    assert IS_MADE(identity)
    assert call("explain", NAME, "--json").document["message_id"] == identity


def test_the_history_finds_a_file_by_its_id_and_by_its_name(bench: Bench) -> None:
    deployment = bench.deploy(duplicate_key="name")
    bodies = (customer(), customer("again"), "{")
    for body, queue in zip(bodies, ("customers", "customers", "orders"), strict=True):
        drop(deployment, body, queue)
        deployment.drain()
    call = Commands(deployment.directory, "history")
    told = call(NAME, "--json").documents
    ids = [one["id"] for one in told]
    assert [event["what"] for one in told for event in one["events"]] == ["published", "duplicate", "failed"]
    assert {event["file_name"] for one in told for event in one["events"]} == {NAME}
    assert [call(one, "--json").documents for one in ids] == [[one] for one in told]
    assert len(set(ids)) == 3
    assert call("orders.jso").returncode == 1
    assert f"file {NAME}" in call(NAME).stdout


BY_NAME: Mapping[str, Mapping[str, Any]] = {
    "of the connector": {"duplicate_key": "name"},
    "with elimination": {"duplicate_key": "name", "DuplicateEventElimination": True},
    "of the input": {"InputDestination": [{"destination": "queue://customers", "duplicate_key": "name"}]},
}


@rows("where", BY_NAME)
def test_two_uploads_of_one_name_may_be_meant_as_one(bench: Bench, where: str) -> None:
    bench = bench.again()
    settings: dict[str, Any] = {"InputDestination": ["queue://customers"], **BY_NAME[where]}
    deployment = bench.deploy(**settings)
    for day in DAYS:
        drop(deployment, customer(day))
        deployment.drop("customers", customer(), f"4.{day}.T")
        deployment.drain()
    assert [call["values"]["Name"] for call in bench.calls() if IS_MADE(call["id"])] == ["monday"]
    assert len(bench.calls()) == 3, "what came in no file has its id"
    files = [one for one in deployment.messages("archive") if "connector_file_name" in one.properties]
    assert [one.properties["connector_outcome"] for one in files] == ["published", "duplicate"]


def test_an_upload_waits_for_another_of_its_name_that_comes_later(bench: Bench) -> None:
    a = {"object": "*", "process": "processes:a", "name": "a", "retry_later": SOON}
    settings: dict[str, Any] = {"InputDestination": "queue://customers", "order": "none"}
    deployment = bench.deploy(subscriptions=[a], duplicate_key="name", **settings)
    with deployment.running() as adapter:
        drop(deployment, customer("a: temporary-until 1"))
        adapter.drain()
        drop(deployment, customer())
        adapter.drain()
    drain(deployment)
    assert len(set(bench.called())) == 1
    outcomes = Counter(one.properties["connector_outcome"] for one in deployment.messages("archive"))
    assert outcomes == {"published": 1, "duplicate": 1}
