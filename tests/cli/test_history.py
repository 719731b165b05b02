"""``connector history``: lives for people and for programs, and what cannot be asked."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from connector.cli.app import run
from connector.operate.history import note_action
from connector.testing.deployment import Deployment
from tests.events.conftest import OBJECTS, PROCESSES
from tests.events.test_history import CUSTOMER

ADAPTER = """\
provider: {type: dropbox, root: ./data, create: true, durability: none}
connector:
  ApplicationName: test
  InputDestination: queue://customers
  ArchiveDestination: queue://archive
  ErrorDestination: queue://error
  DataHandlerMimeType: application/json
  instance: one
subscriptions: [{object: '*', process: 'processes:a', name: a}]
metaobjects: ./metaobjects
"""

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    monkeypatch.chdir(tmp_path)
    return Deployment(tmp_path, adapter=ADAPTER, metaobjects=OBJECTS, processes=PROCESSES)


def drain(deployment: Deployment) -> None:
    with deployment.running() as adapter:
        adapter.drain()


def documents(capsys: Capture) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_life_of_a_message_is_one_document(deployment: Deployment, capsys: Capture) -> None:
    identity = deployment.send("customers", CUSTOMER % ("7", "a: fail no"), correlation_id="C-1")
    assert run(["history", identity, "--json"]) == 1  # nothing has happened yet
    drain(deployment)
    history = deployment.provider.state("test").history()
    note_action(history, "moved", [identity], by="alice", origin="queue://error", to="queue://customers")
    capsys.readouterr()
    assert run(["history", identity, "--json"]) == 0
    (document,) = documents(capsys)
    assert document["id"] == identity
    assert document["now"] == [{"id": identity, "destination": "queue://error", "state": "waiting"}]
    failed, moved = document["events"]  # type: ignore[misc]
    assert (
        failed.items()
        >= {  # type: ignore[has-type]
            "instance": "one",
            "what": "failed",
            "destination": "queue://customers",
            "object": "Customer",
            "verb": "Create",
            "to": "queue://error",
            "keys": ["7"],
            "correlation_id": "C-1",
        }.items()
    )
    assert failed["reason"].startswith("a: ValueError: no")  # type: ignore[has-type]
    assert failed["time"].endswith("Z")  # type: ignore[has-type]
    assert (moved["what"], moved["by"]) == ("moved", "alice")  # type: ignore[has-type]
    for found in (["--correlation-id", "C-1"], ["--key", "7"], ["--key", "7", "--since", "1h"]):
        assert run(["history", *found, "--json"]) == 0
        assert documents(capsys) == [document]


def test_people_read_a_line_for_each_event(deployment: Deployment, capsys: Capture) -> None:
    identity = deployment.send("customers", CUSTOMER % ("7", ""))
    drain(deployment)
    assert run(["history", identity]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [identity, "  now: waiting in queue://archive"]
    assert lines[2].split() == ["time", "instance", "what", "destination", "object", "details"]
    assert lines[3].split()[1:] == [
        *("one", "published", "queue://customers", "Customer.Create", "to", "queue://archive")
    ]


def test_all_that_happened_since_a_time_is_listed(deployment: Deployment, capsys: Capture) -> None:
    sent = [deployment.send("customers", CUSTOMER % (number, "")) for number in range(3)]
    drain(deployment)
    assert run(["history", "--since", "1h", "--json"]) == 0
    assert [one["id"] for one in documents(capsys)] == sent
    soon = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 2))
    assert run(["history", "--since", soon]) == 1
    assert run(["history", sent[0], "--since", soon]) == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "expected an ID, --correlation-id, --key or --since"),
        (["ID:1", "--key", "7"], "give one of them"),
        (["--since", "yesterday"], "'yesterday' is no time; expected 30m, 2h, 7d, or 2026-01-31T17:00"),
    ],
)
def test_what_cannot_be_asked_is_said(
    deployment: Deployment, capsys: Capture, arguments: list[str], text: str
) -> None:
    assert run(["history", *arguments]) == 2
    assert text in capsys.readouterr().err
