"""`connector explain`: what would be sent, what has been confirmed, and where a message is looked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.in_process import Commands
from tests.tables import rows


@pytest.fixture
def run(plugged: Path) -> Commands:
    return Commands(plugged)


def test_the_message_that_a_subscription_sends_is_shown(run: Commands) -> None:
    run.write("body", "7\n8\n")
    done = run("explain", "body", "--type", "LINES")
    assert done.returncode == 0
    assert "  split: true" in done.stdout
    assert "record 2: Order.Create" in done.stdout
    assert "  subscription crm: sends it to queue://crm\n    | 8\n" in done.stdout
    assert "aloud" not in done.stdout
    found = run("explain", "body", "--type", "LINES", "--json").document
    first = found["objects"][0]["subscriptions"][1]
    assert (first["sends_to"], first["sent"]["body"]) == ("queue://crm", "7\r\n")
    assert not (run.directory / "data").exists()


def test_a_message_that_cannot_be_made_is_a_failure(run: Commands) -> None:
    run.write("body", '{"BusinessObject": "Order", "OrderId": "13"}')
    done = run("explain", "body")
    assert done.returncode == 1
    assert "  subscription crm: cannot send it: MalformedData: 13 brings bad luck" in done.stdout
    assert "reason: crm: MalformedData: 13 brings bad luck" in done.stdout
    assert "failed, a copy goes to queue://error" in done.stdout


def test_a_bug_of_a_data_handler_is_told_with_its_place(run: Commands) -> None:
    run.write("body", "7")
    done = run("explain", "body", "--type", "BROKEN")
    assert done.returncode == 1
    assert "reason: the data handler Broken raised KeyError: 'nothing' (handlers/lines.py:" in done.stdout


def test_a_ciphertext_is_nowhere_to_be_seen(run: Commands) -> None:
    run.change("handlers/lines.py", "{bo['OrderId']}", "{bo['Pin']}")
    run.write("body", '{"BusinessObject": "Order", "OrderId": "7", "Pin": "s3cret"}')
    done = run("explain", "body")
    assert "its body is not shown, because the object has a Ciphertext" in done.stdout
    assert "s3cret" not in done.stdout + done.stderr
    document = run("explain", "body", "--json").stdout
    assert "s3cret" not in document
    assert json.loads(document)["objects"][0]["subscriptions"][1]["sent"]["body"] is None


def test_stderr_says_why_the_adapter_would_not_take_the_message(run: Commands) -> None:
    run.write("body", '{"BusinessObject": "Order", "OrderId": "7"}')
    first = run("explain", "body")
    assert "queue://orders is the first of 2 inputs; --destination names another" in first.stderr
    web = "the message does not fit the selector of queue://web: region = 'EU'"
    assert web in run("explain", "body", "--destination", "web").stderr
    assert web not in run("explain", "body", "--destination", "web", "--property", "region=EU").stderr
    other = run("explain", "body", "--destination", "other")
    assert "queue://other is no InputDestination: the adapter takes no message from there" in other.stderr


def test_a_copy_is_explained_as_the_message_that_it_was(run: Commands) -> None:
    identity = run.send(
        *("error", "7\n8\n", "--correlation-id", "C7", "--type", "LINES"),
        *("--property", "connector_origin_destination=queue://orders"),
        *("--property", "connector_outcome=failed"),
        *("--property", "connector_delivered=book#1"),
    )
    done = run("explain", identity)
    assert f"{identity} from queue://orders, format LINES" in done.stdout
    assert done.stdout.count("  subscription book: has confirmed already\n") == 1
    assert done.stdout.count("  subscription book: gets it\n") == 1
    found = run("explain", identity, "--json").document
    assert found["objects"][0]["values"]["Meta"] == {"CorrelationID": "C7", "Destination": "queue://orders"}
    assert [one["confirmed"] for one in found["objects"][0]["subscriptions"]] == [True, False]


@rows("arguments", [["--type", "LINES"], ["--property", "a=b"]])
def test_headers_are_for_a_file(run: Commands, arguments: list[str]) -> None:
    assert (
        "ID:1: no such file, and --type and --property are for a file"
        in run("explain", "ID:1", *arguments).refusal()
    )


def test_a_message_is_found_by_its_bare_name_in_the_named_queue_only(run: Commands) -> None:
    run.send("orders", "x")
    run.write("data/orders/incoming/target/order-7.json", '{"BusinessObject": "Order", "OrderId": "7"}')
    assert run("explain", "order-7.json").returncode == 0
    assert (
        "no message of this id in queue://web"
        in run("explain", "order-7.json", "--destination", "web").refusal()
    )
