"""Health, metrics and control over HTTP, of an adapter that runs in this process."""

from __future__ import annotations

import json
import logging
import shutil
import threading
import time
from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import psycopg
import pytest
from prometheus_client import parser
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics

from connector.cli.app import run
from connector.config.http_model import OPERATE, READ, REQUEST
from connector.http.server import Server
from connector.service.observer import Observer
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.http.shop import (
    ADAPTER,
    BOSS,
    CALLER,
    CONSOLE,
    OPERATOR,
    READER,
    TOKENS,
    counts,
    deploy,
    named,
    on_database,
    send,
    service,
    with_archive,
)
from tests.http.world import TOKEN, client
from tests.tables import Table
from tests.waiting import beside, wait_for


def health(server: Server, page: str) -> tuple[int, str, list[Any]]:
    with client(server) as http:
        answer = http.get(f"/health/{page}")
        document = answer.json()
        assert sorted(document) == (["notices"] * (page == "well") + ["reasons", "status"])
        return answer.status_code, document["status"], document["reasons"]


def becomes(server: Server, page: str, status: int, what: str) -> list[Any]:
    """Waits until a page of health has a status, and returns its reasons."""
    wait_for(lambda: health(server, page)[0] == status, what=what)
    _, word, reasons = health(server, page)
    assert (word, reasons == []) == (("ok", True) if status == HTTPStatus.OK else ("failed", False))
    return reasons


def test_looks_leave_no_connection_behind(tmp_path: Path, database: str) -> None:
    url = database.replace("postgresql+psycopg", "postgresql")
    text = on_database(database) + f"databases: {{shop: {{url: '{database}'}}}}\n"
    deployment = deploy(tmp_path, text)
    counted = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    with deployment.running() as adapter, psycopg.connect(url, autocommit=True) as connection:
        observer = Observer(adapter)
        numbers = []
        for _ in range(20):
            observer._looked_at = float("-inf")
            assert observer.status()["databases"] == [{"database": "shop", "problem": None}]
            ((number,),) = connection.execute(counted).fetchall()
            numbers.append(number)
    assert max(numbers[5:]) <= numbers[4] + 1


def test_a_full_disk_makes_it_unwell_and_unready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 1 << 30
    with service(tmp_path) as (_, _, server):
        becomes(server, "well", 200, "the adapter is well")
        monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(total=1 << 30, free=free))
        free = 0
        (reason,) = becomes(server, "well", 503, "the disk is seen")
        assert (reason["kind"], reason["subject"]) == ("disk", str(tmp_path / "data"))
        assert reason["text"].startswith("nothing is claimed: 0.0 MiB are free")
        assert metrics(server)[f"connector_unwell{{kind=disk,subject={tmp_path / 'data'}}}"] == 1
        status, _, (why,) = health(server, "ready")
        assert status == 503
        assert why.startswith("nothing can be claimed: 0.0 MiB are free")
        assert health(server, "live")[0] == 200
        assert metrics(server)["connector_disk_free_bytes"] == 0
        free = 1 << 30
        becomes(server, "well", 200, "the adapter is well again")


def test_a_provider_that_is_away_makes_it_unready_and_not_dead(tmp_path: Path) -> None:
    retries = "  RestartRetryCount: 1000\n  RestartRetryInterval: 0\n  PollQuantity"
    with service(tmp_path, ADAPTER.replace("  PollQuantity", retries)) as (_, _, server):
        becomes(server, "ready", 200, "the adapter is ready")
        (tmp_path / "data").rename(tmp_path / "aside")
        becomes(server, "ready", 503, "the root is missed")
        reasons = becomes(server, "well", 503, "the status is read again")
        assert reasons[0]["text"].startswith("the provider cannot be used: ")
        assert reasons[0]["since"]
        assert health(server, "live") == (200, "ok", [])
        assert metrics(server)["connector_provider_up"] == 0
        with client(server) as http:
            assert http.get("/control/errors").status_code == HTTPStatus.SERVICE_UNAVAILABLE
        (tmp_path / "aside").rename(tmp_path / "data")
        becomes(server, "ready", 200, "the adapter is ready again")


def test_an_adapter_that_starts_or_stops_is_not_ready(tmp_path: Path) -> None:
    deployment = deploy(tmp_path)
    adapter = InProcessAdapter(deployment.configuration)
    observer = Observer(adapter)
    assert observer.not_ready() == "the adapter starts"
    assert observer.not_live() == ""
    with adapter:
        assert observer.not_ready() == ""
        adapter.request_stop()
        assert observer.not_ready() == "the adapter is stopping"


def test_a_loop_that_hangs_in_a_step_is_not_live(tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    deployment = deploy(tmp_path, ADAPTER + "health: {longest_step: 300ms}\n")
    with deployment.running() as adapter:
        observer = Observer(adapter)
        inbound = adapter._connection.inbound
        assert inbound is not None
        hangs, goes_on = threading.Event(), threading.Event()
        poll = inbound.poll

        def hang(**how: Any) -> Any:
            hangs.set()
            goes_on.wait()
            return poll(**how)

        inbound.poll = hang  # type: ignore[method-assign]
        thread = beside(adapter.serve)
        try:
            hangs.wait()
            wait_for(lambda: observer.not_live() != "", what="the hang is seen")
            assert "health.longest_step" in observer.not_live()
        finally:
            goes_on.set()
            thread.result(120)
        assert observer.not_live() == ""


def test_a_provider_that_does_not_answer_is_a_reason_and_no_call_waits_for_it(tmp_path: Path) -> None:
    deployment = deploy(tmp_path)
    with deployment.running() as adapter:
        observer = Observer(adapter)
        assert observer.status()["well"] is True
        hangs, read = threading.Event(), observer._reader.read

        def hang(failure: str = "") -> dict[str, Any]:
            hangs.wait()
            return read(failure)

        observer._reader.read = hang  # type: ignore[method-assign]
        observer._looked_at = float("-inf")
        document = observer.status()
        assert document["well"] is False
        assert [one.text for one in document["reasons"]] == ["the provider has not answered for 5 s"]
        assert "the provider has not answered" in observer.not_ready()
        hangs.set()
        wait_for(lambda: observer.not_ready() == "", what="the provider answers")


def test_changed_limits_count_from_the_next_look(tmp_path: Path) -> None:
    deployment = deploy(tmp_path)
    with deployment.running() as adapter:
        observer = Observer(adapter)
        assert observer.status()["reasons"] == []
        deployment.write("adapter.yaml", ADAPTER + "health: {instances: 2}\n")
        adapter.configuration = deployment.configuration
        observer._looked_at = float("-inf")
        assert "health.instances" in observer.status()["reasons"][0].text


def metrics(server: Server) -> dict[str, float]:
    """The values by name and labels, as a client of Prometheus reads them."""
    with client(server) as http:
        answer = http.get("/metrics")
    assert answer.status_code == HTTPStatus.OK
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {}
    families: Iterable[Metric] = parser.text_string_to_metric_families(answer.text)
    for sample in (sample for family in families for sample in family.samples):
        labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
        name = f"{sample.name}{{{labels}}}" if labels else sample.name
        assert name not in found, name
        found[name] = sample.value
    return found


def test_the_metrics_count_each_event_and_each_request_once(tmp_path: Path) -> None:
    with service(tmp_path) as (deployment, adapter, server):
        send(deployment, *map(str, range(7)), "bad1", "bad2", "bad3")
        wait_for(lambda: adapter.summary.total.claimed == 10, what="all are settled")
        with client(server) as http:
            assert http.post("/requests/Order/Create", json={"Id": "7"}).is_success
        wait_for(lambda: metrics(server)["connector_error_waiting"] == 3, what="the copies are seen")
        found = metrics(server)
    events = {name: value for name, value in found.items() if name.startswith("connector_events_total")}
    assert sum(events.values()) == 10
    assert events["connector_events_total{destination=queue://orders,kind=,outcome=published}"] == 7
    assert sum(value for name, value in events.items() if "outcome=failed" in name) == 3
    expected = {
        "event_seconds_count": 10,
        "conversion_seconds_count{object=Order}": 10,
        "delivery_seconds_count{subscription=store}": 10,
        "request_seconds_count": 1,
        "requests_total{object=Order,status=SUCCEED}": 1,
        "waiting{destination=queue://orders}": 0,
        "oldest_waiting_seconds{destination=queue://orders}": 0,
        "in_progress": 0,
        "delayed": 0,
        "well": 1,
        "ready": 1,
        "provider_up": 1,
    }
    assert {name: found[f"connector_{name}"] for name in expected} == expected
    assert found["connector_batches_total"] >= 1
    assert found["connector_job_seconds_total"] >= found["connector_spark_seconds_total"] >= 0
    assert abs(found["connector_last_good_poll_timestamp_seconds"] - time.time()) < 60


def test_the_metrics_can_be_read_as_open_metrics(tmp_path: Path) -> None:
    with service(tmp_path) as (_, _, server), client(server) as http:
        answer = http.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        families = openmetrics.text_string_to_metric_families(answer.text)  # type: ignore[no-untyped-call]
        names = {one.name for one in families}
    assert {"connector_events", "connector_batches", "connector_event_seconds", "connector_info"} <= names


def test_health_needs_no_token_and_all_else_a_token_with_the_role(tmp_path: Path) -> None:
    calls = (
        (READ, "GET", "/metrics"),
        (READ, "GET", "/control/status"),
        (REQUEST, "POST", "/requests/Order/Create"),
    )
    roles = {READER: READ, OPERATOR: OPERATE, CALLER: REQUEST, TOKEN: "", "wrong-0123456789abc": ""}
    with service(tmp_path, tokens=TOKENS) as (_, _, server), client(server, None) as http:
        assert health(server, "live")[0] == 200
        for role, method, path in calls:
            for token, has in roles.items():
                json = {"Id": "7"} if method == "POST" else None
                answer = http.request(method, path, json=json, headers={"Authorization": f"Bearer {token}"})
                assert answer.status_code == (200 if has == role else 403 if has else 401)
                if answer.status_code == 403:
                    assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
                    assert token not in answer.text


def test_a_role_may_name_the_objects_that_a_caller_may_request(tmp_path: Path) -> None:
    roles = {"all": "request:Order.*", "one": "request:Order.Create", "no": "request:Line.*"}
    tokens = tuple(named(f"{name}-0123456789abcdef", name, role) for name, role in roles.items())
    with service(tmp_path, tokens=tokens) as (_, _, server), client(server, None) as http:
        for name, path, status in (
            ("all", "Order/Create", 200),
            ("one", "Order/Create", 200),
            ("one", "Order/Update", 403),
            ("no", "Order/Create", 403),
            ("no", "Unknown/Create", 403),
            ("all", "Order/Unknown", 404),
        ):
            headers = {"Authorization": f"Bearer {name}-0123456789abcdef"}
            answer = http.post(f"/requests/{path}", json={"Id": "7"}, headers=headers)
            assert answer.status_code == status, (name, path, answer.text)
        assert http.get("/control/status", headers=headers).status_code == 403


def test_the_status_is_the_document_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with service(tmp_path) as (_, _, server), client(server) as http:
        wait_for(lambda: health(server, "well")[0] == 200, what="the adapter is well")
        answer = http.get("/control/status").json()
        monkeypatch.chdir(tmp_path)
        assert run(["status", "--json"]) == 0
        command = json.loads(capsys.readouterr().out)
        assert answer.keys() == command.keys()
        assert [one["instance"] for one in answer["instances"]] == ["host-a"]
        assert answer["instances"][0]["since"] == command["instances"][0]["since"]
        assert http.post("/control/status", json={}).status_code == HTTPStatus.METHOD_NOT_ALLOWED
        assert http.get("/control/nothing").status_code == HTTPStatus.NOT_FOUND


# -- control: what operators do is what the commands do ------------------------------------------------

WITH_ARCHIVE = with_archive()


def call(http: httpx.Client, method: str, path: str, token: str = OPERATOR, **values: Any) -> Any:
    answer = http.request(
        method, path, headers={"Authorization": f"Bearer {token}"}, json=values if method == "POST" else None
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def command(deployment: Deployment, capsys: pytest.CaptureFixture[str], *words: str) -> list[Any]:
    """Returns what a command prints with ``--json``."""
    capsys.readouterr()
    run([*words, "--json", "-c", str(deployment.directory / "adapter.yaml")])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_messages_in_error_are_grouped_replayed_and_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with service(tmp_path, WITH_ARCHIVE, tokens=TOKENS) as (deployment, _, server), client(server) as http:
        send(deployment, "bad1", "bad2", "bad3")
        wait_for(lambda: len(deployment.names("error")) == 3, what="three failures")
        assert call(http, "GET", "/control/errors?destination=queue://orders", READER) == []
        (group,) = call(http, "GET", "/control/errors", READER)
        assert [group] == command(deployment, capsys, "errors")
        assert (group["count"], group["kind"], group["objects"]) == (3, "refused", ["Order"])
        assert group["text"] == "store: ValueError: no shelf for 'secret-7' (processes.py:3)"
        preview = call(http, "POST", "/control/replay", group=group["group"], limit=1)
        assert preview == {"matched": 1, "moved": 0, "to": {"queue://orders": 1}}
        assert len(deployment.names("error")) == 3
        call(http, "POST", "/control/pause", what="queue://orders", reason="until it is repaired")
        wait_for(lambda: "paused by an operator" in caplog.text, what="the pause")
        done = call(http, "POST", "/control/replay", group=group["group"], limit=1, yes=True, expect=1)
        assert (done["moved"], len(deployment.names("error"))) == (1, 2)
        discarded = call(http, "POST", "/control/discard", why="nobody wants it", yes=True)
        assert discarded == {"matched": 2, "moved": 2, "to": {"queue://archive": 2}}
        copies = deployment.messages("queue://archive")
        assert {copy.properties["connector_discarded_by"] for copy in copies} == {"bob"}
        life = call(http, "GET", f"/control/history/{copies[0].message_id}", READER)
        assert [one["what"] for one in life["events"]] == ["failed", "discarded"]
        assert life["events"][1]["by"] == "bob"
        place = {"id": copies[0].message_id, "destination": "queue://archive", "state": "waiting"}
        assert life["now"] == [place]
        assert [life] == command(deployment, capsys, "history", str(copies[0].message_id))


def test_messages_in_error_are_those_of_all_inputs(tmp_path: Path) -> None:
    own = "{destination: queue://prices, ErrorDestination: queue://price-errors}"
    adapter = WITH_ARCHIVE.replace("[queue://orders]", f"[queue://orders, {own}]")
    with service(tmp_path, adapter, **CONSOLE) as (deployment, adapter_, server), client(server) as http:
        deployment.send("queue://orders", "{")
        deployment.send("queue://prices", "no body")
        wait_for(lambda: counts(adapter_) == (2, 0), what="two failures")
        found = call(http, "GET", "/control/errors", BOSS)
        assert sorted(one["origins"] for one in found) == [["queue://orders"], ["queue://prices"]]
        with client(server, None, follow_redirects=True) as console:
            console.post("/console/sign-in", data={"token": BOSS, "next": "/console"})
            page = console.get("/console/errors").text
        for queue in ("error", "price-errors"):
            assert f"<dd>queue://{queue}</dd>" in page
            assert f"/console/errors?destination=queue%3A%2F%2F{queue}" in page
        preview = call(http, "POST", "/control/replay", BOSS)
        assert preview == {"matched": 2, "moved": 0, "to": {"queue://orders": 1, "queue://prices": 1}}
        corrected = call(http, "POST", "/control/correct", BOSS, id=found[0]["sample"], body="{}")
        assert corrected["to"] == found[0]["origins"][0]


def test_inputs_and_subscriptions_are_paused_and_resumed_and_the_log_says_by_whom(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "connector.http")
    with service(tmp_path, WITH_ARCHIVE, tokens=TOKENS) as (deployment, _, server), client(server) as http:
        changes = call(http, "POST", "/control/pause", what=["orders"], reason="the shop is closed")
        (note,) = changes["paused"]
        assert (note["what"], note["by"], note["reason"]) == ("queue://orders", "bob", "the shop is closed")
        assert call(http, "POST", "/control/pause", what="orders")["unchanged"] == ["queue://orders"]
        assert call(http, "POST", "/control/resume", all=True)["changed"] == ["queue://orders"]
        send(deployment, "good")
        wait_for(lambda: len(deployment.names("archive")) == 1, what="the event")
        http.post("/control/pause", headers={"Authorization": f"Bearer {READER}"})
    lines = [vars(one) for one in caplog.records if one.getMessage() == "an operator has called"]
    refused = "refused: ann does not have the role operate (http.tokens)"
    assert [(one["token"], one["action"], one["result"]) for one in lines] == [
        *[("bob", "POST /control/pause", "done")] * 2,
        ("bob", "POST /control/resume", "done"),
        ("ann", "POST /control/pause", refused),
    ]


def test_a_reload_answers_with_what_each_instance_has_done(tmp_path: Path) -> None:
    made = service(tmp_path, WITH_ARCHIVE, tokens=TOKENS)
    with made as (deployment, adapter, server), client(server) as http:
        deployment.write("adapter.yaml", WITH_ARCHIVE.replace("PollQuantity: 100", "PollQuantity: 7"))
        (answer,) = call(http, "POST", "/control/reload")["instances"]
        assert (answer["instance"], answer["result"]) == ("host-a", "reloaded")
        assert adapter.configuration.connector.poll_quantity == 7
        deployment.write("adapter.yaml", WITH_ARCHIVE.replace("PollQuantity: 100", "PollQuantity: many"))
        refused = http.post("/control/reload", headers={"Authorization": f"Bearer {OPERATOR}"})
        assert refused.status_code == 422
        assert "PollQuantity" in refused.json()["detail"]
        assert adapter.configuration.connector.poll_quantity == 7


def test_a_wrong_call_is_refused_with_its_mistake(tmp_path: Path) -> None:
    calls: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("replay", {"kind": "malfomed"}, "did you mean malformed"),
        ("replay", {"destination": "topic://prices"}, "expected a queue"),
        ("replay", {"selector": "a = = b"}, "selector"),
        ("replay", {"limit": "many"}, "limit: expected a number"),
        ("replay", {"yes": "yes"}, "yes: expected true or false"),
        ("replay", {"ids": [7]}, "ids: expected a text, or a list of texts"),
        ("replay", {"groups": "x"}, "there is no 'groups'"),
        ("replay", {"destination": "orders", "expect": 5}, "expected 5, found 0"),
        ("move", {"destination": "error"}, "destination"),
        ("pause", {}, "what: expected a text"),
        ("discard", {"destination": "archive"}, "is the archive itself"),
    )
    headers = {"Authorization": f"Bearer {OPERATOR}"}
    made = service(tmp_path, WITH_ARCHIVE, tokens=TOKENS)
    with made as (_, _, server), client(server) as http, Table() as table:
        for path, values, detail in calls:
            with table.row(path, values):
                answer = http.post(f"/control/{path}", json=values, headers=headers)
                assert answer.status_code == 422, answer.text
                assert detail in answer.json()["detail"]
        plain = {**headers, "Content-Type": "text/plain"}
        assert http.post("/control/pause", content=b"{}", headers=plain).status_code == 415


def test_without_tokens_everybody_reads_and_does_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service(tmp_path, tokens=()) as (_, adapter, server), client(server, None) as http:
        monkeypatch.setattr(adapter, "_tell_failure", lambda _: None)  # the next poll is good
        adapter._failure = "NotActive: Johanna is away"
        assert http.get("/health/ready").json()["reasons"] == ["the provider or Spark cannot be used"]
        assert http.get("/control/errors").json() == []
        assert http.get("/metrics").status_code == 200
        for path, role in (("/control/pause", "operate"), ("/requests/Order/Create", "request")):
            answer = http.post(path, json={"all": True})
            assert answer.status_code == 403
            assert answer.json()["detail"].endswith(f"http.tokens gives a token the role {role}")
