"""The verbs of an operator where nobody runs: status, takeover, pause, resume, lot, and history."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connector.config.loading import load
from connector.messaging.destination import parse_destination
from connector.messaging.lot import Lot
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.messaging.subscription import TopicSubscription
from connector.operate.history import note_action
from connector.service.assembly import make_provider
from connector.stores.dropbox.provider import DropboxProvider
from connector.testing.deployment import Deployment
from connector.user import operator_name
from tests.cli.in_process import Commands
from tests.events.conftest import OBJECTS, PROCESSES
from tests.events.test_history import CUSTOMER
from tests.tables import rows

# --- status and takeover --------------------------------------------------------------------------


def test_before_the_first_run_there_is_nothing_to_see_and_nothing_is_made(call: Commands) -> None:
    before = sorted(call.directory.rglob("*"))
    document = call("status", "--json").document
    assert (document["instances"], document["batches"], document["workers"]) == ([], [], [])
    assert {one["waiting"] for one in document["inputs"]} == {0}
    assert "none runs" in call("status").stdout
    taken = call("takeover")
    assert (taken.returncode, taken.stderr) == (0, "no clients\n")
    assert sorted(call.directory.rglob("*")) == before


def test_a_subscription_is_counted_as_an_input(call: Commands) -> None:
    topic = "{destination: topic://prices, subscription: all}"
    call.change("adapter.yaml", "InputDestination:\n", f"InputDestination:\n    - {topic}\n")
    configuration = load(call.directory / "adapter.yaml")
    name = configuration.connector.application_name
    prices = parse_destination("topic://prices")
    with contextlib.closing(make_provider(configuration).connect(name, "a", client_id=name)) as connection:
        connection.poller(TopicSubscription(prices, "all", name, durable=True, shared=True)).close()
        connection.send(prices, [Message(b"1"), Message(b"2")])
        inputs = call("status", "--json").document["inputs"]
    assert [one["waiting"] for one in inputs if one["destination"] == "topic://prices"] == [2]


def test_a_client_is_taken_over_by_hand_only_on_the_operators_word(call: Commands) -> None:
    provider = make_provider(load(call.directory / "adapter.yaml"))
    alive, dead = provider.connect("demo", "a"), provider.connect("demo", "b")
    dead.abandon()
    titles, *lines = call("takeover").stdout.splitlines()
    assert titles.split() == ["client", "application", "instance", "host", "pid", "state", "since"]
    found = {(line.split()[0], line.split()[5]) for line in lines}
    assert found == {(alive.client_id, "alive"), (dead.client_id, "dead")}
    for arguments, expected, words in (
        ([alive.client_id], 2, "may be alive"),
        ([f"{alive.client_id[:-1]}_", "--it-is-dead"], 2, f"did you mean {alive.client_id!r}?"),
        ([dead.client_id, "--it-is-dead"], 1, "its lock is free"),
        ([dead.client_id], 1, "its lock is free"),
        ([alive.client_id, "--it-is-dead"], 0, ""),
        ([alive.client_id, "--it-is-dead"], 1, "was declared dead before"),
    ):
        done = call("takeover", *arguments)
        assert (done.returncode, words in done.stderr) == (expected, True), done.stderr
    alive.abandon()


# --- pause and resume -----------------------------------------------------------------------------


def test_a_pause_lasts_and_status_shows_it(call: Commands) -> None:
    def told(*arguments: str) -> str:
        done = call(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    assert told("pause", "orders", "--reason", "the shop is closed") == "queue://orders is paused\n"
    both = "queue://customers is paused\nqueue://orders was paused before\n"
    assert told("pause", "queue://orders", "queue://customers") == both
    paused = call("status", "--json").document["paused"]
    assert [(one["what"], one["kind"], one["by"], one["reason"]) for one in paused] == [
        ("queue://customers", "input", operator_name(), ""),
        ("queue://orders", "input", operator_name(), "the shop is closed"),
    ]
    assert "the shop is closed" in told("status")
    found = call("resume", "orders", "--json").document
    assert (found["changed"], found["unchanged"], found["paused"]) == (["queue://orders"], [], paused[:1])
    assert told("resume", "--all") == "queue://customers is resumed\n"
    assert told("resume", "--all") == "nothing is paused\n"
    assert told("resume", "orders") == "queue://orders was not paused\n"
    assert "paused by operators: nothing" in told("status")
    inputs = [one["destination"] for one in call("status", "--json").document["inputs"]]
    assert call("pause", "--all", "--json").document["changed"] == inputs


@rows("verb", ["pause", "resume"])
@rows(
    "arguments, text",
    [
        ([], "expected WHAT, an input or the name of a subscription, or --all"),
        (["orders", "--all"], "expected WHAT"),
        (["ordres"], "no input and no subscription 'ordres', did you mean 'queue://orders'?"),
        (["orders", "~"], "no input and no subscription '~'; there are queue://orders, "),
    ],
)
def test_a_wrong_call_changes_nothing(call: Commands, verb: str, arguments: list[str], text: str) -> None:
    assert text in " ".join(call(verb, *arguments).refusal().split())
    assert call("status", "--json").document["paused"] == []


# --- lot ------------------------------------------------------------------------------------------


@pytest.fixture
def owner(deployment: Path) -> Iterator[Connection]:
    """A client in the root of the deployment."""
    with contextlib.closing(DropboxProvider(deployment / "data", create=True).connect()) as connection:
        yield connection


@pytest.fixture
def lot(owner: Connection) -> Lot:
    destination = parse_destination("queue://orders")
    owner.send(destination, [Message(b"a"), Message(b"b"), Message(b"c")])
    lot = owner.claim_lot(destination, "to-lake\x1b", 2)
    assert lot is not None
    return lot


def orders(call: Commands) -> dict[str, Any]:
    documents: list[dict[str, Any]] = call("queues", "--json").documents
    return next(one for one in documents if one["destination"] == "queue://orders")


def test_a_lot_is_listed_and_given_back(owner: Connection, lot: Lot, call: Commands) -> None:
    found = orders(call)
    assert (found["waiting"], found["in_progress"]) == (1, 2)
    (one,) = found["lots"]
    assert one.pop("owner").startswith(f"process {os.getpid()} on ")
    assert one == {"name": "to-lake\x1b", "number": lot.number, "messages": 2}
    owner.close()
    assert orders(call)["lots"] == [{**one, "owner": None}]
    line = next(text for text in call("queues").stdout.splitlines() if "lot " in text)
    assert line.split() == ["lot", "1", r"to-lake\x1b", "(without", "an", "owner)", "2"]
    assert "expected --give-back" in call("lot", "to-lake").refusal()
    done = call("lot", lot.name, "--give-back")
    said = rf"the lot {lot.number} of to-lake\x1b is given back: 2 messages to queue://orders"
    assert (done.returncode, done.stdout, done.stderr.strip()) == (0, "", said)
    assert (orders(call)["waiting"], orders(call)["lots"]) == (3, [])
    failure = call("lot", lot.name, "--give-back").failure()
    assert failure.strip() == r"connector: there is no lot of 'to-lake\x1b'"


def test_a_lot_of_a_living_owner_stays(owner: Connection, lot: Lot, call: Commands) -> None:
    failure = call("lot", lot.name, "--give-back").failure()
    assert f"are in use by the client {owner.client_id}, process {os.getpid()} on " in failure
    assert [message.body for message in lot.read()] == [b"a", b"b"]


# --- history --------------------------------------------------------------------------------------

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
def customers(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path, adapter=ADAPTER, metaobjects=OBJECTS, processes=PROCESSES)


@pytest.fixture
def history(customers: Deployment) -> Commands:
    return Commands(customers.directory, "history")


def drain(customers: Deployment) -> None:
    with customers.running() as adapter:
        adapter.drain()


def test_the_life_of_a_message_is_one_document(customers: Deployment, history: Commands) -> None:
    identity = customers.send("customers", CUSTOMER % ("7", "a: fail no"), correlation_id="C-1")
    assert history(identity, "--json").returncode == 1, "nothing has happened yet"
    drain(customers)
    kept = customers.provider.state("test").history()
    note_action(kept, "moved", [identity], by="alice", origin="queue://error", to="queue://customers")
    (document,) = history(identity, "--json").documents
    assert document["id"] == identity
    assert document["now"] == [{"id": identity, "destination": "queue://error", "state": "waiting"}]
    failed, moved = document["events"]
    expected = {
        "instance": "one",
        "what": "failed",
        "destination": "queue://customers",
        "to": "queue://error",
        "object": "Customer",
        "verb": "Create",
        "keys": ["7"],
        "correlation_id": "C-1",
    }
    assert failed.items() >= expected.items()
    assert failed["reason"].startswith("a: ValueError: no")
    assert failed["time"].endswith("Z")
    assert (moved["what"], moved["by"]) == ("moved", "alice")
    for found in (["--correlation-id", "C-1"], ["--key", "7"], ["--key", "7", "--since", "1h"]):
        assert history(*found, "--json").documents == [document]


def test_people_read_a_line_for_each_event_since_a_time(customers: Deployment, history: Commands) -> None:
    sent = [customers.send("customers", CUSTOMER % (number, "")) for number in range(3)]
    drain(customers)
    lines = history(sent[0]).stdout.splitlines()
    assert lines[:2] == [sent[0], "  now: waiting in queue://archive"]
    assert lines[2].split() == ["time", "instance", "what", "destination", "object", "details"]
    told = "one published queue://customers Customer.Create to queue://archive"
    assert " ".join(lines[3].split()[1:]) == told
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
