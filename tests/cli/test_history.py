"""``connector history``: lives for people and for programs, and what cannot be asked."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from connector.operate.history import note_action
from connector.testing.deployment import Deployment
from tests.cli.in_process import Commands
from tests.events.conftest import OBJECTS, PROCESSES
from tests.events.test_history import CUSTOMER
from tests.tables import rows

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


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path, adapter=ADAPTER, metaobjects=OBJECTS, processes=PROCESSES)


@pytest.fixture
def history(deployment: Deployment) -> Commands:
    return Commands(deployment.directory, "history")


def drain(deployment: Deployment) -> None:
    with deployment.running() as adapter:
        adapter.drain()


def test_the_life_of_a_message_is_one_document(deployment: Deployment, history: Commands) -> None:
    identity = deployment.send("customers", CUSTOMER % ("7", "a: fail no"), correlation_id="C-1")
    assert history(identity, "--json").returncode == 1, "nothing has happened yet"
    drain(deployment)
    kept = deployment.provider.state("test").history()
    note_action(kept, "moved", [identity], by="alice", origin="queue://error", to="queue://customers")
    (document,) = history(identity, "--json").documents
    assert document["id"] == identity
    assert document["now"] == [{"id": identity, "destination": "queue://error", "state": "waiting"}]
    failed, moved = document["events"]
    expected = {
        "instance": "one",
        "what": "failed",
        "destination": "queue://customers",
        "object": "Customer",
        "verb": "Create",
        "to": "queue://error",
        "keys": ["7"],
        "correlation_id": "C-1",
    }
    assert failed.items() >= expected.items()
    assert failed["reason"].startswith("a: ValueError: no")
    assert failed["time"].endswith("Z")
    assert (moved["what"], moved["by"]) == ("moved", "alice")
    for found in (["--correlation-id", "C-1"], ["--key", "7"], ["--key", "7", "--since", "1h"]):
        assert history(*found, "--json").documents == [document]


def test_people_read_a_line_for_each_event(deployment: Deployment, history: Commands) -> None:
    identity = deployment.send("customers", CUSTOMER % ("7", ""))
    drain(deployment)
    lines = history(identity).stdout.splitlines()
    assert lines[:2] == [identity, "  now: waiting in queue://archive"]
    assert lines[2].split() == ["time", "instance", "what", "destination", "object", "details"]
    assert lines[3].split()[1:] == [
        *("one", "published", "queue://customers", "Customer.Create", "to", "queue://archive")
    ]


def test_all_that_happened_since_a_time_is_listed(deployment: Deployment, history: Commands) -> None:
    sent = [deployment.send("customers", CUSTOMER % (number, "")) for number in range(3)]
    drain(deployment)
    assert [one["id"] for one in history("--since", "1h", "--json").documents] == sent
    soon = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 3600))
    for asked in (("--since", soon), (sent[0], "--since", soon)):
        assert history(*asked).returncode == 1


@rows(
    "arguments, text",
    [
        ([], "expected an ID, --correlation-id, --key or --since"),
        (["ID:1", "--key", "7"], "give one of them"),
        (["--since", "yesterday"], "'yesterday' is no time; expected 30m, 2h, 7d, or 2026-01-31T17:00"),
    ],
)
def test_what_cannot_be_asked_is_said(history: Commands, arguments: list[str], text: str) -> None:
    assert text in history(*arguments).refusal()
