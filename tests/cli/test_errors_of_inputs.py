"""Commands where inputs have error and archive destinations of their own."""

from __future__ import annotations

from typing import Any

import pytest

from connector.cli.summary import print_next
from tests.cli.in_process import Commands
from tests.events.conftest import ORDER, Bench, EventDeployment, bench
from tests.tables import rows

__all__ = ["bench"]

PRICES = {
    "destination": "queue://prices",
    "ErrorDestination": "queue://price-errors",
    "ArchiveDestination": "queue://price-archive",
    "DataHandlerMimeType": "text/xml",
}
WRONG = "no body"


class World:
    """A deployment with two inputs, each with failed messages in an error destination of its own."""

    def __init__(self, bench: Bench) -> None:
        self.deployment: EventDeployment = bench.deploy(InputDestination=["queue://orders", PRICES])
        self.ids = {queue: self.deployment.send(queue, WRONG) for queue in ("orders", "prices")}
        self.run = Commands(self.deployment.directory)
        self.deployment.drain()

    def do(self, *arguments: str) -> Any:
        """Runs a command with ``--json`` that goes well, and returns its document."""
        (document,) = self.run(*arguments, "--json").documents
        return document

    def places(self) -> dict[str, list[str]]:
        """The ids by queue."""
        names = ("orders", "prices", "error", "price-errors", "archive", "price-archive")
        return {name: ids for name in names if (ids := self.deployment.ids(name))}


@pytest.fixture
def world(bench: Bench) -> World:
    return World(bench)


def test_errors_are_those_of_all_inputs(world: World) -> None:
    groups = world.run("errors", "--json").documents
    assert sorted(one["origins"] for one in groups) == [["queue://orders"], ["queue://prices"]]
    told = world.run("errors").stderr
    assert "2 messages in queue://error, queue://price-errors" in told
    (only,) = world.run("errors", "queue://price-errors", "--json").documents
    assert only["sample"] == world.ids["prices"]


def test_a_replay_takes_the_messages_of_all_inputs(world: World) -> None:
    expected = {"matched": 2, "moved": 0, "to": {"queue://orders": 1, "queue://prices": 1}}
    assert world.do("replay") == expected
    assert world.run("replay", "--yes", "--expect", "1").returncode == 1
    assert world.places().keys() == {"error", "price-errors"}
    assert world.do("replay", "--limit", "1")["matched"] == 1
    assert world.do("replay", "--yes", "--expect", "2") == {**expected, "moved": 2}
    assert world.places() == {queue: [identity] for queue, identity in world.ids.items()}
    preview = world.run("replay")
    assert preview.stdout == "0 messages of queue://error, queue://price-errors would be replayed\n"


def test_a_replay_of_one_message_finds_it_in_any_of_them(world: World) -> None:
    done = world.do("replay", "--id", world.ids["prices"], "--yes")
    assert (done["moved"], done["to"]) == (1, {"queue://prices": 1})
    assert world.places() == {"error": [world.ids["orders"]], "prices": [world.ids["prices"]]}


def test_an_error_destination_that_is_not_there_has_no_messages(bench: Bench) -> None:
    deployment = bench.deploy(InputDestination=["queue://orders", PRICES])
    run = Commands(deployment.directory)
    deployment.send("prices", WRONG)
    assert run("replay", "--json").document == {"matched": 0, "moved": 0, "to": {}}
    deployment.drain()
    assert run("replay", "--json").document["matched"] == 1
    assert len(run("errors", "--json").documents) == 1


def test_what_is_discarded_or_corrected_goes_to_the_archive_of_its_input(world: World) -> None:
    body = world.deployment.write("body", "<Order><Id>1</Id></Order>")
    fixed = world.run("replay", "--id", world.ids["prices"], "--body", str(body), "--yes", "--json")
    assert fixed.document["to"] == {"queue://prices": 1}
    assert world.places()["price-archive"] == [world.ids["prices"]]
    row = world.do("history", world.ids["prices"])["events"][-1]
    assert (row["what"], row["to"]) == ("discarded", "queue://price-archive")
    world.deployment.drain()
    assert len(world.places()["price-archive"]) == 2
    world.deployment.send("prices", WRONG)
    world.deployment.drain()
    for queue in ("error", "price-errors"):
        done = world.do("discard", queue, "--yes")
        assert done["to"] == {f"queue://{queue.replace('error', 'archive').removesuffix('s')}": 1}
    assert world.run("discard", "price-archive").returncode == 2


def test_commands_look_for_a_message_in_the_destinations_of_all_inputs(world: World) -> None:
    identity = world.ids["prices"]
    place = {"id": identity, "destination": "queue://price-errors", "state": "waiting"}
    assert world.do("history", identity)["now"] == [place]
    found = world.run("explain", identity, "--json").document
    assert (found["destination"], found["settled"]) == ("queue://prices", "queue://price-errors")
    assert (found["mime_type"], found["named_by"]) == ("text/xml", "the input")
    (line,) = (one for one in world.run("queues").stdout.splitlines() if "price-errors" in one)
    assert line.endswith("error")
    assert world.do("status")["error_waiting"] == 2


@rows("queue, settled", [("orders", "archive"), ("prices", "price-archive")])
def test_explain_goes_by_the_keys_of_the_input(world: World, queue: str, settled: str) -> None:
    body = ORDER if queue == "orders" else "<Order><Id>1</Id></Order>"
    world.deployment.write("body", body)
    found = world.run("explain", "body", "--destination", f"queue://{queue}", "--json").document
    assert (found["outcome"], found["settled"]) == ("published", f"queue://{settled}")


@rows("queue, next_one", [("orders", "error"), ("prices", "price-errors")])
def test_a_run_says_where_to_look_for_what_has_failed(
    bench: Bench, capsys: pytest.CaptureFixture[str], queue: str, next_one: str
) -> None:
    deployment = bench.deploy(InputDestination=["queue://orders", PRICES])
    deployment.send(queue, WRONG)
    summary = deployment.drain().summary
    print_next(summary, deployment.configuration.connector.copies, "adapter.yaml")
    assert f" browse {next_one}" in capsys.readouterr().err


def test_the_resolved_configuration_is_json(world: World) -> None:
    inputs = world.run("config", "--json").document["connector"]["InputDestination"]
    shown = {one["destination"]: one["ErrorDestination"] for one in inputs}
    assert shown == {"queue://orders": "queue://error", "queue://prices": "queue://price-errors"}
