"""`connector explain`: what would be sent, what has been confirmed, and where a message is looked for."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.in_process import call
from tests.cli.plugged import deploy

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return deploy(tmp_path)


@pytest.fixture
def run(directory: Path) -> Run:
    def run_command(*arguments: str, data: str = "") -> subprocess.CompletedProcess[str]:
        return call(directory, *arguments, data=data)

    return run_command


def write(directory: Path, body: str) -> str:
    (directory / "body").write_text(body)
    return "body"


def test_the_message_that_a_subscription_sends_is_shown(run: Run, directory: Path) -> None:
    done = run("explain", write(directory, "7\n8\n"), "--type", "LINES")
    assert done.returncode == 0
    assert "  split: true" in done.stdout
    assert "record 2: Order.Create" in done.stdout
    assert "  subscription crm: sends it to queue://crm\n    | 8\n" in done.stdout
    assert "aloud" not in done.stdout
    found = json.loads(run("explain", "body", "--type", "LINES", "--json").stdout)
    first = found["objects"][0]["subscriptions"][1]
    assert (first["sends_to"], first["sent"]["body"]) == ("queue://crm", "7\r\n")
    assert not (directory / "data").exists()


def test_a_message_that_cannot_be_made_is_a_failure(run: Run, directory: Path) -> None:
    done = run("explain", write(directory, '{"BusinessObject": "Order", "OrderId": "13"}'))
    assert done.returncode == 1
    assert "  subscription crm: cannot send it: MalformedData: 13 brings bad luck" in done.stdout
    assert "reason: crm: MalformedData: 13 brings bad luck" in done.stdout
    assert "failed, a copy goes to queue://error" in done.stdout


def test_a_bug_of_a_data_handler_is_told_with_its_place(run: Run, directory: Path) -> None:
    done = run("explain", write(directory, "7"), "--type", "BROKEN")
    assert done.returncode == 1
    assert "reason: the data handler Broken raised KeyError: 'nothing' (handlers/lines.py:" in done.stdout


def test_a_ciphertext_is_nowhere_to_be_seen(run: Run, directory: Path) -> None:
    lines = directory / "handlers/lines.py"
    lines.write_text(lines.read_text().replace("{bo['OrderId']}", "{bo['Pin']}"))
    write(directory, '{"BusinessObject": "Order", "OrderId": "7", "Pin": "s3cret"}')
    done = run("explain", "body")
    assert "its body is not shown, because the object has a Ciphertext" in done.stdout
    assert "s3cret" not in done.stdout + done.stderr
    document = run("explain", "body", "--json").stdout
    assert "s3cret" not in document
    assert json.loads(document)["objects"][0]["subscriptions"][1]["sent"]["body"] is None


def test_stderr_says_why_the_adapter_would_not_take_the_message(run: Run, directory: Path) -> None:
    write(directory, '{"BusinessObject": "Order", "OrderId": "7"}')
    first = run("explain", "body")
    assert "queue://orders is the first of 2 inputs; --destination names another" in first.stderr
    web = "the message does not fit the selector of queue://web: region = 'EU'"
    assert web in run("explain", "body", "--destination", "web").stderr
    assert web not in run("explain", "body", "--destination", "web", "--property", "region=EU").stderr
    other = run("explain", "body", "--destination", "other")
    assert "queue://other is no InputDestination: the adapter takes no message from there" in other.stderr


def test_a_copy_is_explained_as_the_message_that_it_was(run: Run, directory: Path) -> None:
    identity = run(
        *("send", "error", "--correlation-id", "C7", "--type", "LINES"),
        *("--property", "connector_origin_destination=queue://orders"),
        *("--property", "connector_outcome=failed"),
        *("--property", "connector_delivered=book#1"),
        data="7\n8\n",
    ).stdout.strip()
    done = run("explain", identity)
    assert f"{identity} from queue://orders, format LINES" in done.stdout
    assert done.stdout.count("  subscription book: has confirmed already\n") == 1
    assert done.stdout.count("  subscription book: gets it\n") == 1
    found = json.loads(run("explain", identity, "--json").stdout)
    assert found["objects"][0]["values"]["Meta"] == {"CorrelationID": "C7", "Destination": "queue://orders"}
    assert [one["confirmed"] for one in found["objects"][0]["subscriptions"]] == [True, False]


@pytest.mark.parametrize("arguments", [["--type", "LINES"], ["--property", "a=b"]])
def test_headers_are_for_a_file(run: Run, arguments: list[str]) -> None:
    done = run("explain", "ID:1", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "ID:1: no such file, and --type and --property are for a file" in done.stderr


def test_a_message_is_found_by_its_bare_name_in_the_named_queue_only(run: Run, directory: Path) -> None:
    target = directory / "data/orders/incoming/target"
    run("send", "orders", data="x")
    (target / "order-7.json").write_text('{"BusinessObject": "Order", "OrderId": "7"}')
    assert run("explain", "order-7.json").returncode == 0
    missing = run("explain", "order-7.json", "--destination", "web")
    assert missing.returncode == 2
    assert "no message of this id in queue://web" in missing.stderr
