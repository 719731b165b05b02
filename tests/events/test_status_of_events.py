"""`connector status` while events fail, wait and rest: why the application is not well, and when it is."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from connector.cli.app import run
from connector.operate.activity import Activity
from connector.service import instance_notes, status_document
from connector.service.instance_notes import InstanceNotes
from connector.testing.deployment import Deployment
from tests.events.conftest import Bench, serving
from tests.waiting import now_ms, until_past, wait_for

Status = Callable[..., dict[str, Any]]


@pytest.fixture
def status(bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Status:
    """Runs `connector status --check --json`, and expects an exit status. Each poll publishes a note."""
    bench.directory.mkdir(exist_ok=True)
    monkeypatch.chdir(bench.directory)
    monkeypatch.setattr(instance_notes, "_INTERVAL", 0.0)

    def call(expected: int) -> dict[str, Any]:
        capsys.readouterr()
        assert run(["status", "--check", "--json"]) == expected
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert document["well"] is (expected == 0)
        assert bool(document["reasons"]) is (expected == 1)
        return document

    return call


def fill(deployment: Deployment, number: int, name: str = "") -> None:
    for count in range(number):
        body = {"CustomerId": str(count), "Name": name}
        deployment.send("queue://customers", json.dumps(body), type="CUST_IN")


@pytest.mark.parametrize("kind", ["dropbox", "sql"])
def test_failures_make_it_unwell_and_successes_well_again(bench: Bench, status: Status, kind: str) -> None:
    provider = {"type": "sql", "url": f"sqlite:///{bench.directory}/m.db"} if kind == "sql" else None
    deployment = bench.deploy(provider=provider)
    with deployment.running() as adapter:
        fill(deployment, 6, "a: fail no shelf")
        adapter.drain()
        document = status(1)
        assert (document["failed_5m"], document["published_5m"], document["error_waiting"]) == (6, 0, 6)
        assert document["last_failure"]["destination"] == "queue://customers"
        assert "no shelf" in document["last_failure"]["reason"]
        assert document["reasons"][0]["text"].startswith(
            "queue://customers: 6 of 6 events failed in 5 minutes"
        )
        fill(deployment, 7)
        adapter.drain()
        document = status(0)
        assert (document["failed_5m"], document["published_5m"]) == (6, 7)
        fill(deployment, 8, "a: fail no shelf")
        adapter.drain()
    document = status(1)  # with the last counts of the drain
    assert document["reasons"][0]["text"] == "no instance runs, expected 1 (health.instances)"
    assert (document["failed_5m"], document["instances"], len(document["reasons"])) == (14, [], 2)


def test_times_without_a_poll_or_for_what_waits_and_the_growth_of_errors_have_limits(
    bench: Bench, status: Status
) -> None:
    limits = {"oldest_waiting": "100ms", "error_growth": 1, "error_waiting": 2, "failed_share": 1}
    limits["last_good_poll"] = "1ms"
    deployment = bench.deploy(more={"health": limits}, PollFrequency=50)
    with deployment.running() as adapter:
        adapter.poll()
        fill(deployment, 3, "a: fail no shelf")
        adapter.drain()
        fill(deployment, 1)
        until_past(now_ms() + 100)
        document = status(1)
    assert (document["error_growth_5m"], document["error_waiting"]) == (3, 3)
    reasons = [reason["text"].partition(" (health.")[2] for reason in document["reasons"]]
    assert reasons == ["last_good_poll)", "oldest_waiting)", "error_waiting)", "error_growth)"]


@pytest.mark.parametrize(("cron", "number"), [("0 0 29 2 *", 0), ("* * * * *", 2)])
def test_between_the_times_of_a_cron_nothing_is_late(
    bench: Bench, status: Status, monkeypatch: pytest.MonkeyPatch, cron: str, number: int
) -> None:
    limits = {"oldest_waiting": "1ms", "last_good_poll": "1ms"}
    deployment = bench.deploy(more={"health": limits}, PollFrequency=f"cron {cron}")
    with deployment.running():
        fill(deployment, 1)
        in_two_hours = time.time() + 7200
        monkeypatch.setattr(status_document, "time", SimpleNamespace(time=lambda: in_two_hours))
        assert len(status(min(number, 1))["reasons"]) == number


def test_a_subscription_that_rests_is_a_reason(bench: Bench, status: Status) -> None:
    rests = {"retry_later": {"first": "1m", "on": "any"}, "rest_after": 2}
    subscription = {"object": "*", "process": "processes:a", "name": "shelf", **rests}
    deployment = bench.deploy(subscriptions=[subscription], order="none")
    with deployment.running() as adapter:
        fill(deployment, 3, "a: fail no shelf")
        adapter.drain()
        document = status(1)
    (reason,) = document["reasons"]
    assert (reason["text"], reason["since"]) == (
        "shelf rests: ValueError: no shelf",
        document["resting"][0]["since"],
    )
    assert document["delayed"] == 3


def test_an_application_that_is_away_is_a_reason_at_its_first_failure(bench: Bench, status: Status) -> None:
    later = {"retry_later": {"first": "1m", "on": "any"}}
    subscription = {"object": "*", "process": "processes:a", "name": "shelf", **later}
    deployment = bench.deploy(subscriptions=[subscription])
    with deployment.running() as adapter:
        fill(deployment, 2, "a: fail no shelf")
        adapter.drain()
        (reason,) = status(1)["reasons"]
        assert (reason["kind"], reason["subject"], reason["count"]) == ("failing", "shelf", 1)
        assert reason["text"] == "shelf fails, and its events come again later: ValueError: no shelf"
        assert reason["since"] == status(1)["failing"][0]["since"]


def test_a_subscription_tells_its_last_success_and_its_last_error(bench: Bench, status: Status) -> None:
    deployment = bench.deploy()
    with deployment.running() as adapter:
        fill(deployment, 1, "a: fail no shelf")
        fill(deployment, 3)
        adapter.drain()
        (row,) = status(0)["subscriptions"]
    assert (row["subscription"], row["calls_5m"], row["failed_5m"]) == ("a", 4, 1)
    assert row["last_error"] == "ValueError: no shelf"
    assert row["last_success"]
    assert row["last_failure"]


def test_a_provider_that_is_away_is_a_reason_and_ends_with_status_1(bench: Bench, status: Status) -> None:
    deployment = bench.deploy()
    with deployment.running() as adapter:
        adapter.poll()
    aside = bench.root.with_name("aside")
    os.rename(bench.root, aside)
    (reason,) = status(1)["reasons"]
    assert reason["text"].startswith("the provider cannot be used: ")
    assert run(["status"]) == 1
    shutil.move(aside, bench.root)
    assert run(["status"]) == 0


def test_a_database_that_is_away_is_a_reason_and_no_file_is_made(bench: Bench, status: Status) -> None:
    shop = bench.directory / "shop.db"
    more = {"databases": {"shop": {"url": f"sqlite:///{shop}"}}, "health": {"instances": 0}}
    bench.deploy(more=more)
    assert status(0)["databases"] == [{"database": "shop", "problem": None}]
    assert not shop.exists()
    sqlite3.connect(shop).close()
    assert status(0)["databases"] == [{"database": "shop", "problem": None}]
    shop.unlink()
    shop.mkdir()
    document = status(1)
    (reason,) = document["reasons"]
    assert reason["text"].startswith("the database shop ")
    assert document["databases"][0]["problem"] == reason["text"]


def test_a_service_notes_what_has_changed_without_a_poll(bench: Bench, status: Status) -> None:
    deployment = bench.deploy(PollFrequency=3_600_000)
    fill(deployment, 1)
    with deployment.running() as adapter:
        with serving(adapter):
            wait_for(lambda: len(bench.calls()) == 1)
            fill(deployment, 5, "a: fail no shelf")
            wait_for(lambda: len(bench.calls()) == 6)
            wait_for(lambda: run(["status", "--check"]) == 1, what="a note, long before a poll is due")
            assert (adapter.obstacle, adapter.step_seconds < 50) == ("", True)
        assert adapter.obstacle == "the adapter is stopping"


def test_notes_are_a_second_apart_but_for_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    published: list[Mapping[str, Any]] = []
    clock = SimpleNamespace(monotonic=lambda: now, time=lambda: now)
    monkeypatch.setattr(instance_notes, "time", clock)
    notes = InstanceNotes(published.append, Activity(), list, list, lambda: 0, list, str)
    found = []
    for now, at_once in ((100.0, False), (100.9, False), (101.0, False), (101.5, True)):  # noqa: B007
        notes.look(is_good=True, at_once=at_once)
        found.append(len(published))
    assert found == [1, 1, 2, 3]
    assert [one["last_good_poll"] for one in published] == [100.0, 101.0, 101.5]


def test_a_pause_answers_when_the_service_obeys_or_says_that_it_does_not(
    bench: Bench, status: Status, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.deploy()
    deployment = bench.deploy()
    with deployment.running() as adapter:
        knows = adapter._connection.working.control
        with serving(adapter):
            for _ in range(3):
                assert run(["pause", "customers"]) == 0
                assert knows.is_paused("queue://customers")
                assert run(["resume", "customers"]) == 0
                assert not knows.is_paused("queue://customers")
        capsys.readouterr()
        monkeypatch.setattr("connector.operate.control._OBEY_SECONDS", 0.1)
        assert run(["pause", "customers"]) == 0  # nobody looks any more
        assert "one has not answered yet" in capsys.readouterr().err
    assert run(["pause", "orders"]) == 0
    assert "not answered" not in capsys.readouterr().err
