"""The verbs of an operator where nobody runs: status, takeover, pause, resume, lot, history, and errors."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from connector.config.loading import load
from connector.messaging.destination import parse_destination
from connector.messaging.lot import Lot
from connector.messaging.message import Message, PropertyValue
from connector.messaging.provider import Connection
from connector.messaging.state_store import TimerNote
from connector.messaging.subscription import TopicSubscription
from connector.operate.errors import error_groups, group_of
from connector.operate.lives import note_action
from connector.service.assembly import make_provider
from connector.stores.dropbox.provider import DropboxProvider
from connector.user import operator_name
from tests.cli.in_process import Commands
from tests.events.conftest import Bench, EventDeployment, bench, with_rules
from tests.events.test_history import CUSTOMER
from tests.tables import rows

__all__ = ["bench"]

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


def test_timers_are_shown_with_their_times_and_their_error(call: Commands) -> None:
    timers = "timers:\n  - {name: nightly, cron: '0 2 * * *', to: jobs, body: x}\n"
    call.write("adapter.yaml", f"{call.read('adapter.yaml')}\n{timers}")
    (row,) = call("status", "--json").document["timers"]
    assert {key: row[key] for key in ("name", "to", "times", "last_fired", "last_error")} == {
        "name": "nightly",
        "to": "queue://jobs",
        "times": "cron 0 2 * * *",
        "last_fired": None,
        "last_error": None,
    }
    assert datetime.fromisoformat(row["next_due"]) > datetime.now(UTC)
    provider = make_provider(load(call.directory / "adapter.yaml"))
    with contextlib.closing(provider.connect()), provider.state("demo").control().change() as control:
        control.timers["nightly"] = TimerNote("cron 0 2 * * *", 60_000, 60_000, "ID:1", "the disk is full")
    (row,) = call("status", "--json").document["timers"]
    assert (row["last_fired"], row["last_error"]) == ("1970-01-01T00:01:00.000Z", "the disk is full")
    late = datetime.fromisoformat(row["next_due"])
    assert (late.year, late.astimezone().hour) == (1970, 2)
    (line,) = [one for one in call("status").stdout.splitlines() if "nightly" in one]
    assert line.split("  ")[-3:] == [row[key] for key in ("next_due", "last_fired", "last_error")]


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
        ([alive.client_id], 2, f" process {os.getpid()} "),
        ([alive.client_id], 2, " since 20"),
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
    lot = owner.lots.claim(destination, "to-lake\x1b", 2)
    assert lot is not None
    return lot


def test_a_lot_is_listed_and_given_back(owner: Connection, lot: Lot, call: Commands) -> None:
    found = call.numbers("queue://orders")
    assert (found["waiting"], found["in_progress"]) == (1, 2)
    (one,) = found["lots"]
    assert one.pop("owner").startswith(f"process {os.getpid()} on ")
    assert one == {"name": "to-lake\x1b", "number": lot.number, "messages": 2}
    owner.close()
    assert call.numbers("queue://orders")["lots"] == [{**one, "owner": None}]
    line = next(text for text in call("queues").stdout.splitlines() if "lot " in text)
    assert line.split() == ["lot", "1", r"to-lake\x1b", "(without", "an", "owner)", "2"]
    assert "expected --give-back" in call("lot", "to-lake").refusal()
    done = call("lot", lot.name, "--give-back")
    said = rf"the lot {lot.number} of to-lake\x1b is given back: 2 messages to queue://orders"
    assert (done.returncode, done.stdout, done.stderr.strip()) == (0, "", said)
    assert (call.numbers("queue://orders")["waiting"], call.numbers("queue://orders")["lots"]) == (3, [])
    failure = call("lot", lot.name, "--give-back").failure()
    assert failure.strip() == r"connector: there is no lot of 'to-lake\x1b'"


def test_a_lot_of_a_living_owner_stays(owner: Connection, lot: Lot, call: Commands) -> None:
    failure = call("lot", lot.name, "--give-back").failure()
    assert f"are in use by the client {owner.client_id}, process {os.getpid()} on " in failure
    assert [message.body for message in lot.read()] == [b"a", b"b"]


# --- history --------------------------------------------------------------------------------------


@pytest.fixture
def customers(bench: Bench) -> EventDeployment:
    return bench.deploy()


@pytest.fixture
def history(customers: EventDeployment) -> Commands:
    return Commands(customers.directory, "history")


def test_the_life_of_a_message_is_one_document(customers: EventDeployment, history: Commands) -> None:
    identity = customers.send("customers", CUSTOMER % ("7", "a: fail no"), correlation_id="C-1")
    assert history(identity, "--json").returncode == 1, "nothing has happened yet"
    customers.drain()
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


def test_the_history_leads_from_what_was_sent_to_what_it_was_sent_for(bench: Bench) -> None:
    """Also a message that the history does not know, because it waits for somebody else."""
    inputs = ["queue://customers", "queue://copies"]
    steps = [
        {"object": "Customer", "verbs": ["Create"], "destination": "queue://copies", "name": "copy"},
        {"object": "Customer", "verbs": ["Update"], "destination": "queue://partner", "name": "partner"},
    ]
    rules = "  Customer_Create: {InputDestination: queue://customers}\n"
    rules += "  Customer_Update: {InputDestination: queue://copies}\n"
    deployment = bench.deploy(subscriptions=steps, objects=with_rules(rules), InputDestination=inputs)
    first = deployment.send("customers", CUSTOMER % ("7", ""))
    deployment.drain()
    history = Commands(deployment.directory, "history")
    (life,) = history(first, "--json").documents
    assert "came_from" not in life
    (second,) = [one for one in deployment.ids("archive") if one != first]
    (life,) = history(second, "--json").documents
    assert life["came_from"] == [first]
    assert f"  came from {first}" in history(second).stdout
    (sent,) = deployment.ids("partner")
    assert history(sent, "--json").documents == [life]
    assert life["now"][-1] == {"id": sent, "destination": "queue://partner", "state": "waiting"}


def test_people_read_a_line_for_each_event_since_a_time(
    customers: EventDeployment, history: Commands
) -> None:
    sent = [customers.send("customers", CUSTOMER % (number, "")) for number in range(3)]
    customers.drain()
    lines = history(sent[0]).stdout.splitlines()
    assert lines[:2] == [sent[0], "  now: waiting in queue://archive"]
    assert lines[2].split() == ["time", "instance", "what", "destination", "object", "details"]
    told = "one published queue://customers Customer.Create to queue://archive"
    assert " ".join(lines[3].split()[1:]) == told
    assert [one["id"] for one in history("--since", "1h", "--json").documents] == sent
    soon = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 3600))
    for asked in (("--since", soon), (sent[0], "--since", soon)):
        assert history(*asked).returncode == 1


FAR_OFF = (
    *("999999999d", "99999d", "999999999h", "1969-12-31", "0001-01-01T00:00+14:00", "0001-01-01"),
    *("9999-12-31T23:59:59.999999", "9999-12-31T23:59-14:00"),
)


@rows(
    "arguments, text",
    [
        ([], "expected an ID, --correlation-id, --key or --since"),
        (["ID:1", "--key", "7"], "give one of them"),
        (["--since", "yesterday"], "'yesterday' is no time; expected 30m, 2h, 7d, or 2026-01-31T17:00"),
        *(
            (
                ["ID:1", "--since", far],
                f"'{far}' is not in the years 1970 to 9999; expected 30m, 2h, 7d, or 2",
            )
            for far in FAR_OFF
        ),
    ],
)
def test_what_cannot_be_asked_is_said(history: Commands, arguments: list[str], text: str) -> None:
    assert text in history(*arguments).refusal()


# --- errors --------------------------------------------------------------------------------------


ERROR = "queue://error"


def copy(reason: str, properties: Mapping[str, PropertyValue] = {}, day: int = 1) -> Message:
    """A copy as an adapter makes it, with more properties."""
    message = Message(b"body")
    given = {"origin_destination": "queue://orders", "outcome": "failed", "reason": reason, **properties}
    for name, value in {**given, "time": f"2026-11-{day:02}T10:00:00Z"}.items():
        message.set_property(f"connector_{name}", value)
    return message


REFUSED: dict[str, PropertyValue] = {
    "kind": "refused",
    "object": "Order",
    "verb": "Create",
    "subscription": "store",
    "place": "processes.py:7",
}


def fill(call: Commands, *messages: Message, queue: str = ERROR) -> list[str]:
    with contextlib.closing(DropboxProvider(call.directory / "data", create=True).connect()) as connection:
        return connection.send(parse_destination(queue), messages)


def groups(call: Commands) -> list[dict[str, Any]]:
    return call("errors", "--json").documents


def test_alike_reasons_are_one_group(call: Commands) -> None:
    ids = fill(
        call,
        copy("store: no account for 'S-1'", REFUSED, 3),
        copy("store: no account for 'S-2'", {**REFUSED, "origin_destination": "queue://more"}, 2),
        copy("Order: Total: found 'x', expected a number", {"kind": "malformed", "object": "Order"}),
    )
    many, one = groups(call)
    assert len(many.pop("group")) == 10
    assert many == {
        "kind": "refused",
        "text": "store: no account for '...'",
        "place": "processes.py:7",
        "subscription": "store",
        "objects": ["Order"],
        "origins": ["queue://more", "queue://orders"],
        "count": 2,
        "first": "2026-11-02T10:00:00Z",
        "last": "2026-11-03T10:00:00Z",
        "sample": ids[0],
    }
    assert (one["kind"], one["count"], one["place"], one["sample"]) == ("malformed", 1, None, ids[2])


def test_one_text_of_two_kinds_places_or_subscriptions_is_two_groups() -> None:
    for name in ("kind", "place", "subscription"):
        assert group_of(copy("text", REFUSED)) != group_of(copy("text", {**REFUSED, name: "other"})), name
    assert group_of(copy("text 1", REFUSED)) == group_of(copy("text 2", REFUSED))


def test_copies_without_a_kind_are_grouped_by_their_text(call: Commands) -> None:
    strange = Message(b"")
    for name in ("connector_kind", "connector_time", "connector_reason"):
        strange.set_property(name, 7)
    earlier = (copy("failed at 1"), copy("failed at 2"), copy("no process"))
    fill(call, *earlier, Message(b""), strange)
    found = {one["text"]: (one["kind"], one["count"], one["first"]) for one in groups(call)}
    time = "2026-11-01T10:00:00Z"
    assert found == {"failed at #": (None, 2, time), "no process": (None, 1, time), "": (None, 2, None)}


def test_a_queue_is_named_and_the_table_says_the_same(call: Commands) -> None:
    fill(call, copy("wrong \x1b[1m", REFUSED), queue="queue://other")
    done = call("errors", "other")
    titles, line = done.stdout.splitlines()
    assert titles.split() == ["group", "count", "kind", "last", "objects", "reason"]
    assert line.split()[1:5] == ["1", "refused", "2026-11-01T10:00:00Z", "Order"]
    assert line.endswith(r"wrong \x1b[#")
    assert done.stderr == "1 message in queue://other\n"


def test_an_error_queue_that_is_not_there_yet_is_empty_and_another_queue_is_a_mistake(call: Commands) -> None:
    fill(call, Message(b""), queue="queue://orders")
    assert groups(call) == []
    assert "no-such-queue" in call("errors", "no-such-queue").failure()
    assert "topic://prices" in call("errors", "topic://prices").refusal()


def test_a_message_that_cannot_be_read_is_named(call: Commands) -> None:
    fill(call, copy("wrong", REFUSED))
    (file,) = (call.directory / "data/error/incoming/target").iterdir()
    file.rename(f"{file}&badI=xyz")
    done = call("errors", "--json")
    assert (done.returncode, done.document["count"]) == (1, 1)
    assert "cannot be read" in done.stderr


def test_a_sender_decides_neither_the_number_of_groups_nor_their_size() -> None:
    def hostile() -> Iterator[Message]:
        for number in range(10_050):
            letters = "".join(chr(97 + int(digit)) for digit in str(number))
            yield copy(f"{letters}{'x' * 600}", {"object": letters * 200, "kind": "refused"})
            yield copy("same", {"object": letters, "origin_destination": letters})

    found = error_groups(hostile())
    assert len(found) == 10_001
    assert sum(one.count for one in found) == 20_100
    by_text = {one.text: one for one in found}
    assert by_text["further reasons"].count == 51
    same = by_text["same"]
    assert (same.count, len(same.objects), len(same.origins)) == (10_050, 20, 20)
    assert max(len(one.text) for one in found) == 500
    assert max(len(name) for one in found for name in one.objects) == 200
