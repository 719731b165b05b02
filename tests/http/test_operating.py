"""Health, metrics and control over HTTP, of an adapter that runs in this process."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psycopg
import pytest
from prometheus_client import parser
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics

from connector.cli.app import run
from connector.config.http_model import OPERATE, READ, REQUEST, TokenEntry
from connector.errors import CapabilityError, ProviderError
from connector.http.application import make_application
from connector.http.calls import Calls, ServerLimits
from connector.http.control import Action, Control, ControlCall
from connector.http.openapi import describe_requests
from connector.http.problems import HttpProblem
from connector.http.server import Server
from connector.http.tokens import Tokens
from connector.service.observer import Observer
from connector.testing.deployment import InProcessAdapter
from tests.http.shop import ADAPTER, CALLER, OPERATOR, READER, TOKENS, deploy, on_database, send, service
from tests.http.world import DEFINITIONS, TOKEN, Script, client, settings
from tests.tables import Table
from tests.waiting import wait_for


class Usage(NamedTuple):
    """What ``shutil.disk_usage`` returns."""

    total: int
    used: int
    free: int


def health(server: Server, page: str) -> tuple[int, str, list[str]]:
    with client(server) as http:
        answer = http.get(f"/health/{page}")
        document = answer.json()
        assert sorted(document) == ["reasons", "status"]
        return answer.status_code, document["status"], document["reasons"]


def becomes(server: Server, page: str, status: int, what: str) -> list[str]:
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


def test_a_full_disk_makes_it_unwell_and_not_unready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 1 << 30
    with service(tmp_path) as (_, _, server):
        becomes(server, "well", 200, "the adapter is well")
        monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1 << 30, (1 << 30) - free, free))
        free = 0
        (reason,) = becomes(server, "well", 503, "the disk is seen")
        assert reason.startswith("nothing is claimed: 0.0 MiB are free")
        assert health(server, "ready")[0] == health(server, "live")[0] == 200
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
        assert reasons[0].startswith("the provider cannot be used: ")
        assert health(server, "live") == (200, "ok", [])
        assert metrics(server)["connector_provider_up"] == 0
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
        thread = threading.Thread(target=adapter.serve)
        thread.start()
        try:
            hangs.wait()
            wait_for(lambda: observer.not_live() != "", what="the hang is seen")
            assert "health.longest_step" in observer.not_live()
        finally:
            goes_on.set()
            thread.join()
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
        assert (document["well"], document["reasons"]) == (False, ["the provider has not answered for 5 s"])
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
        assert "health.instances" in observer.status()["reasons"][0]


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


# -- the table of actions ------------------------------------------------------------------------------


def _echo(call: ControlCall) -> Any:
    parts = {"path": dict(call.path), "query": dict(call.query), "body": dict(call.body)}
    return {"caller": call.caller, **parts}


def _raise(call: ControlCall) -> Any:
    raise {
        "problem": HttpProblem(HTTPStatus.NOT_FOUND, "no such thing"),
        "provider": ProviderError("the provider is away"),
        "other": CapabilityError("that cannot be done"),
    }[call.path["what"]]


ACTIONS = (
    Action("GET", "/control/thing/{id}", READ, _echo),
    Action("POST", "/control/thing/{id}", OPERATE, _echo),
    Action("POST", "/control/raise/{what}", OPERATE, _raise),
)


@contextmanager
def controlled(
    directory: Path, tokens: tuple[TokenEntry, ...] = TOKENS
) -> Iterator[Callable[..., httpx.Response]]:
    """Calls of a server with actions of its own."""
    deployment = deploy(directory)
    section, checked, script = settings(), Tokens(tokens), Script()
    calls = Calls(section, checked, script, DEFINITIONS, ServerLimits())
    observer = Observer(InProcessAdapter(deployment.configuration))
    routes = Control(observer, checked, ACTIONS).routes()
    description = describe_requests(DEFINITIONS, checked.needed)
    transport = httpx.ASGITransport(make_application(section, calls, description, routes))

    def call(method: str, path: str, token: str | None = None, **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers.update(options.pop("headers", {}))

        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
                return await http.request(method, path, headers=headers, **options)

        return asyncio.run(ask())

    try:
        yield call
    finally:
        calls.close()


def test_an_action_gets_the_parts_of_the_call_and_its_answer_is_a_document(tmp_path: Path) -> None:
    with controlled(tmp_path) as call:
        found = call("GET", "/control/thing/7?since=1h", READER).json()
        assert found == {"caller": "ann", "path": {"id": "7"}, "query": {"since": "1h"}, "body": {}}
        found = call("POST", "/control/thing/7", OPERATOR, json={"what": "queue://orders"}).json()
        body = {"what": "queue://orders"}
        assert found == {"caller": "bob", "path": {"id": "7"}, "query": {}, "body": body}
        assert call("POST", "/control/thing/7", OPERATOR).json()["body"] == {}


def test_each_action_of_an_operator_is_logged_with_the_name_of_the_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with controlled(tmp_path) as call, caplog.at_level(logging.INFO, "connector.http"):
        call("GET", "/control/thing/7", READER)
        call("POST", "/control/thing/7", OPERATOR)
        call("POST", "/control/raise/problem", OPERATOR)
        call("POST", "/control/thing/7", READER)
    lines = [record for record in caplog.records if record.getMessage() == "an operator has called"]
    assert [(vars(one)["token"], vars(one)["action"], vars(one)["result"]) for one in lines] == [
        ("bob", "POST /control/thing/7", "done"),
        ("bob", "POST /control/raise/problem", "refused: no such thing"),
        ("ann", "POST /control/thing/7", "refused: ann does not have the role operate (http.tokens)"),
    ]


def test_an_action_that_cannot_be_done_or_comes_from_another_page_is_a_problem(tmp_path: Path) -> None:
    thing: dict[str, Any] = {"path": "/control/thing/7", "content": b"{}"}
    calls: tuple[tuple[dict[str, Any], int], ...] = (
        ({"path": "/control/raise/problem"}, 404),
        ({"path": "/control/raise/provider"}, 503),
        ({"path": "/control/raise/other"}, 422),
        ({**thing, "headers": {"Origin": "http://evil.example"}}, 403),
        ({**thing, "headers": {"Host": "evil.example"}}, 421),
        ({**thing, "headers": {"Content-Type": "text/plain"}}, 415),
    )
    with controlled(tmp_path) as call, Table() as table:
        for asked, status in calls:
            with table.row(asked, status):
                answer = call("POST", asked.pop("path"), OPERATOR, **asked)
                found = (answer.status_code, answer.headers["content-type"])
                assert found == (status, "application/problem+json")
