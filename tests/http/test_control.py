"""What operators do over HTTP is what the commands do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from connector.cli.app import run
from connector.http.actions import ACTIONS
from connector.testing.deployment import Deployment
from tests.http.shop import CALLER, OPERATOR, READER, TOKENS, send, service, with_archive
from tests.http.world import client
from tests.tables import Table
from tests.waiting import wait_for

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
        (group,) = call(http, "GET", "/control/errors", READER)
        assert [group] == command(deployment, capsys, "errors")
        assert (group["count"], group["kind"], group["objects"]) == (3, "refused", ["Order"])
        assert "secret" not in group["text"]
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


def test_inputs_and_subscriptions_are_paused_and_resumed(tmp_path: Path) -> None:
    with service(tmp_path, WITH_ARCHIVE, tokens=TOKENS) as (deployment, _, server), client(server) as http:
        changes = call(http, "POST", "/control/pause", what=["orders"], reason="the shop is closed")
        (note,) = changes["paused"]
        assert (note["what"], note["by"], note["reason"]) == ("queue://orders", "bob", "the shop is closed")
        assert call(http, "POST", "/control/pause", what="orders")["unchanged"] == ["queue://orders"]
        assert call(http, "POST", "/control/resume", all=True)["changed"] == ["queue://orders"]
        send(deployment, "good")
        wait_for(lambda: len(deployment.names("archive")) == 1, what="the event")


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


def test_each_action_asks_for_its_role(tmp_path: Path) -> None:
    with service(tmp_path, tokens=TOKENS) as (_, _, server), client(server) as http:
        for action in ACTIONS:
            path = action.path.replace("{id:path}", "ID:7")
            for token in (READER, OPERATOR, CALLER):
                answer = http.request(action.method, path, headers={"Authorization": f"Bearer {token}"})
                allowed = token == {"read": READER, "operate": OPERATOR}[action.role]
                if not allowed and token != OPERATOR:
                    assert answer.status_code == 403, (path, token)
            assert http.request(action.method, path).status_code == 401


def test_without_tokens_everybody_reads_and_does_nothing_else(tmp_path: Path) -> None:
    with service(tmp_path, tokens=()) as (_, _, server), client(server, None) as http:
        assert http.get("/control/errors").json() == []
        assert http.get("/metrics").status_code == 200
        for path, role in (("/control/pause", "operate"), ("/requests/Order/Create", "request")):
            answer = http.post(path, json={"all": True})
            assert answer.status_code == 403
            assert answer.json()["detail"].endswith(f"http.tokens gives a token the role {role}")
