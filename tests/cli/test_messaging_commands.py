"""The commands about messages: send, browse, receive, subscribe, unsubscribe, queues."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from connector.cli.app import run as run_in_process
from tests.forked_command import ForkedProcess, PipedProcess
from tests.privileges import without_privileges
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
ALL = ("--subscription", "all", "--client-id", "shop")
SHARED = ("--subscription", "news", "--shared")
WAITING = ("--wait", "30000")
Call = Callable[..., "Answer"]


class Answer:
    """What a command has answered."""

    def __init__(self, status: int, output: str, errors: str) -> None:
        self.status = status
        self.output = output
        self.errors = errors

    @property
    def documents(self) -> list[dict[str, Any]]:
        assert self.status == 0, self.errors
        return [json.loads(line) for line in self.output.splitlines()]

    @property
    def bodies(self) -> list[str]:
        return [document["body"] for document in self.documents]


@pytest.fixture
def call(deployment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs a command in this process, which is quicker; stdin is of no use then, so bodies are files."""
    monkeypatch.chdir(deployment)

    def run(*arguments: str) -> Answer:
        status = run_in_process(list(arguments))
        captured = capsys.readouterr()
        return Answer(status, captured.out, captured.err)

    return run


@pytest.fixture
def send(call: Call, deployment: Path) -> Callable[..., str]:
    def run(destination: str, body: str, *options: str) -> str:
        (deployment / "body").write_text(body)
        answer = call("send", destination, "--body", "body", *options)
        assert answer.status == 0, answer.errors
        return answer.output.strip()

    return run


Send = Callable[..., str]


def numbers(call: Call, destination: str) -> dict[str, Any]:
    """The line of ``queues --json`` about one destination."""
    return next(line for line in call("queues", "--json").documents if line["destination"] == destination)


# --- receive ---------------------------------------------------------------------------------------


def test_a_message_is_received_once_as_browse_shows_it(call: Call, send: Send) -> None:
    identity = send("orders", "one", "--type", "T", "--property", "n:int=1", "--correlation-id", "c")
    (seen,) = call("browse", "orders", "--json").documents
    (received,) = call("receive", "orders", "--json").documents
    assert received.pop("properties") == {"n": 1, "JMSXDeliveryCount": 1}
    assert received.pop("property_types") == {"n": "int", "JMSXDeliveryCount": "int"}
    assert (seen.pop("properties"), seen.pop("property_types")) == ({"n": 1}, {"n": "int"})
    assert received == seen
    assert (received["JMSMessageID"], received["body"]) == (identity, "one")
    assert call("receive", "orders", "--json").documents == []


def test_what_comes_for_people_has_headers_properties_and_body(call: Call, send: Send) -> None:
    identity = send("orders", "two\nlines", "--property", "region=EU")
    answer = call("receive", "orders")
    assert answer.output.startswith(f"{identity}  (TextMessage, 9 bytes)\n")
    assert "  region (string): EU\n" in answer.output
    assert answer.output.endswith("  | two\n  | lines\n")
    assert answer.errors == "1 message from queue://orders\n"


def test_nothing_there_is_no_failure_and_makes_the_queue(call: Call) -> None:
    assert call("receive", "queue://fresh").status == 0
    assert numbers(call, "queue://fresh")["waiting"] == 0


def test_messages_come_by_priority_and_age_at_most_as_many_as_asked_for(call: Call, send: Send) -> None:
    for body, priority in (("a", "4"), ("b", "9"), ("c", "4"), ("d", "4")):
        send("orders", body, "--priority", priority)
    assert call("receive", "orders", "--count", "3", "--json").bodies == ["b", "a", "c"]
    assert call("receive", "orders", "--count", "3", "--json").bodies == ["d"]


def test_a_selector_takes_some_and_leaves_the_others(call: Call, send: Send) -> None:
    for n in range(4):
        send("orders", str(n), "--property", f"n:int={n}")
    assert call("browse", "orders", "--selector", "n > 1", "--json").bodies == ["2", "3"]
    assert call("browse", "orders", "--selector", "n > 1", "--limit", "1", "--json").bodies == ["2"]
    assert call("receive", "orders", "--selector", "n > 1", "--count", "9", "--json").bodies == ["2", "3"]
    assert call("browse", "orders", "--json").bodies == ["0", "1"]


@pytest.mark.parametrize("empty", ["", " ", "\t\n"])
def test_an_empty_selector_is_no_selector(call: Call, send: Send, empty: str) -> None:
    selector = ("--selector", empty)
    assert call("subscribe", "topic://prices", *ALL, *selector).status == 0
    assert call("subscribe", "topic://prices", *SHARED, *selector).status == 0
    send("topic://prices", "one")
    assert call("receive", "topic://prices", *ALL, *selector, "--json").bodies == ["one"]
    assert call("receive", "topic://prices", *SHARED, *selector, "--json").bodies == ["one"]
    assert call("receive", "topic://prices", *selector, "--json").bodies == []
    send("orders", "two")
    assert call("browse", "orders", *selector, "--json").bodies == ["two"]
    assert call("receive", "orders", *selector, "--json").bodies == ["two"]


@pytest.mark.parametrize(
    ("ack", "again"),
    [("auto", []), ("client", []), ("none", ["1", "2"]), ("rollback", ["1", "2"])],
)
def test_what_is_not_acknowledged_comes_again_redelivered(
    call: Call, send: Send, ack: str, again: list[str]
) -> None:
    send("orders", "1")
    send("orders", "2")
    first = call("receive", "orders", "--count", "2", "--ack", ack, "--json")
    assert first.bodies == ["1", "2"]
    second = call("receive", "orders", "--count", "2", "--json")
    assert second.bodies == again
    assert all(document["JMSRedelivered"] for document in second.documents)
    assert [document["properties"]["JMSXDeliveryCount"] for document in second.documents] == [2] * len(again)


def test_a_message_is_waited_for(deployment: Path, send: Send) -> None:
    receiver = PipedProcess("receive", "orders", "--wait", "20000", "--json", cwd=deployment)
    wait_for((deployment / "data/orders/incoming/target").exists, what="the command receives")
    send("orders", "late")
    output, errors = receiver.communicate()
    assert json.loads(output)["body"] == "late", errors


def test_a_reader_that_is_gone_before_a_message_is_written_has_not_received_it(
    call: Call, deployment: Path, send: Send
) -> None:
    with PipedProcess("receive", "orders", "--wait", "20000", cwd=deployment) as receiver:
        receiver.stdout.close()
        identity = send("orders", "x" * 100_000)
        assert receiver.wait(120) == 1
    (waiting,) = call("browse", "orders", "--json").documents
    assert (waiting["JMSMessageID"], waiting["JMSRedelivered"]) == (identity, True)


def test_a_message_that_cannot_be_read_waits_again_and_harms_no_other(
    call: Call, deployment: Path, send: Send
) -> None:
    send("orders", "good")
    target = deployment / "data/orders/incoming/target"
    (target / "9.1.T.never").write_text("bad")
    answer = call("receive", "orders", "--count", "5", "--json")
    assert answer.status == 1
    assert [json.loads(line)["body"] for line in answer.output.splitlines()] == ["good"]
    assert "cannot be read" in answer.errors
    assert numbers(call, "queue://orders")["waiting"] == 1


# --- subscriptions ---------------------------------------------------------------------------------


def test_a_subscription_keeps_what_is_sent_to_its_topic(call: Call, send: Send) -> None:
    send("topic://prices", "before")
    assert call("subscribe", "topic://prices", *ALL).status == 0
    send("topic://prices", "after")
    assert call("receive", "topic://prices", *ALL, "--count", "9", "--json").bodies == ["after"]
    assert call("receive", "topic://prices", *ALL, "--json").bodies == []


def test_to_subscribe_again_changes_nothing_and_with_another_selector_begins_anew(
    call: Call, send: Send
) -> None:
    call("subscribe", "topic://prices", *SHARED)
    send("topic://prices", "1")
    assert call("subscribe", "topic://prices", *SHARED).status == 0
    assert call("receive", "topic://prices", *SHARED, "--ack", "none", "--json").bodies == ["1"]
    assert call("subscribe", "topic://prices", *SHARED, "--selector", "n > 1").status == 0
    send("topic://prices", "2", "--property", "n:int=2")
    send("topic://prices", "3", "--property", "n:int=1")
    wanted = ("--selector", "n > 1", "--count", "9", "--json")
    assert call("receive", "topic://prices", *SHARED, *wanted).bodies == ["2"]


def test_every_subscription_has_the_message_and_each_takes_its_own(call: Call, send: Send) -> None:
    call("subscribe", "topic://prices", *ALL)
    call("subscribe", "topic://prices", *SHARED)
    send("topic://prices", "x")
    assert call("receive", "topic://prices", *ALL, "--json").bodies == ["x"]
    assert call("receive", "topic://prices", *SHARED, "--json").bodies == ["x"]


def test_a_subscription_that_is_removed_keeps_nothing(call: Call, send: Send) -> None:
    call("subscribe", "topic://prices", *ALL)
    send("topic://prices", "x")
    removed = call("unsubscribe", *ALL, "--json")
    (document,) = removed.documents
    assert [document[key] for key in ("subscription", "client_id", "waiting", "error")] == [
        "all",
        "shop",
        1,
        0,
    ]
    assert numbers(call, "topic://prices")["subscriptions"] == []
    again = call("unsubscribe", *ALL)
    assert again.status == 1
    assert "'all'" in again.errors


def test_who_removes_a_subscription_is_told_what_it_kept(call: Call, send: Send, deployment: Path) -> None:
    call("subscribe", "topic://prices", *ALL)
    send("topic://prices", "x")
    _, errors = PipedProcess("unsubscribe", *ALL, cwd=deployment).communicate()
    warning, last = errors.splitlines()
    for part in (
        "the messages of a subscription were removed with the subscription",
        "topic://prices",
        "1 waiting",
        "all",
    ):
        assert part in warning
    assert last == "subscription 'all' is removed"
    call("subscribe", "topic://prices", *ALL)
    _, errors = PipedProcess("unsubscribe", *ALL, cwd=deployment).communicate()
    assert errors == "subscription 'all' is removed\n"


def test_what_a_subscription_has_put_aside_is_counted_until_it_is_moved_back(
    call: Call, send: Send, deployment: Path
) -> None:
    call("subscribe", "topic://prices", *ALL)
    send("topic://prices", "x")
    folders = deployment / "data/topic-root/prices/.subscriptions/all.shop"
    (message,) = (folders / "target").iterdir()
    message.rename(folders / "error" / message.name)
    (folders / "error/.hidden").touch()
    (folders / "expired/directory").mkdir()
    (found,) = numbers(call, "topic://prices")["subscriptions"]
    assert (found["waiting"], found["expired"], found["error"]) == (0, 0, 1)
    *_, line = call("queues").output.splitlines()
    assert line.split()[-4:] == ["0", "0", "0", "1"], "a subscription has no role"
    (folders / "error" / message.name).rename(message)
    assert call("receive", "topic://prices", *ALL, "--json").bodies == ["x"]


def test_a_subscription_that_is_consumed_cannot_be_removed(call: Call, deployment: Path) -> None:
    with PipedProcess("receive", "topic://prices", *SHARED, "--wait", "30000", cwd=deployment):
        wait_for((deployment / "data/topic-root/prices").exists)
        wait_for(
            lambda: [one["consumers"] for one in numbers(call, "topic://prices")["subscriptions"]] == [1]
        )
        refused = call("unsubscribe", "--subscription", "news")
        assert refused.status == 1
        assert "consumer" in refused.errors
    assert call("unsubscribe", "--subscription", "news").status == 0


def test_a_topic_without_subscription_gives_what_is_sent_while_one_waits(
    deployment: Path, call: Call, send: Send
) -> None:
    receiver = PipedProcess("receive", "topic://prices", "--wait", "20000", "--json", cwd=deployment)

    def has_received() -> bool:
        send("topic://prices", "tick")
        return receiver.poll() is not None

    wait_for(has_received)
    output, errors = receiver.communicate()
    assert json.loads(output)["body"] == "tick", errors
    assert numbers(call, "topic://prices")["subscriptions"] == []


def test_a_name_may_have_dots_and_bars(call: Call, send: Send) -> None:
    name = ("--subscription", "a.b|c", "--client-id", "x.y|z")
    assert call("subscribe", "topic://prices", *name, "--no-local").status == 0
    send("topic://prices", "1")
    (found,) = numbers(call, "topic://prices")["subscriptions"]
    assert (found["subscription"], found["client_id"], found["waiting"]) == ("a.b|c", "x.y|z", 1)
    assert found["no_local"] is True


@pytest.mark.parametrize("options", [ALL, SHARED])
def test_to_receive_takes_a_subscription_as_it_is_and_keeps_what_it_has_kept(
    call: Call, send: Send, options: tuple[str, ...]
) -> None:
    only = () if options == SHARED else ("--no-local",)
    call("subscribe", "topic://prices", *options, "--selector", "n > 1", *only)
    for n in (1, 2, 3):
        send("topic://prices", str(n), "--property", f"n:int={n}")
    assert call("receive", "topic://prices", *options, "--json").bodies == ["2"]
    assert call("receive", "topic://prices", *options, "--selector", "n > 1", "--json").bodies == ["3"]
    (found,) = numbers(call, "topic://prices")["subscriptions"]
    assert (found["selector"], found["no_local"]) == ("n > 1", bool(only))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["topic://prices", *ALL, "--selector", "n > 2"], ["'n > 1'", "connector subscribe"]),
        (["topic://news", *ALL], ["topic://prices", "connector unsubscribe"]),
        (["topic://prices", *ALL, "--shared"], ["shared", "unsubscribe"]),
    ],
)
def test_to_receive_never_makes_a_subscription_anew(
    call: Call, send: Send, arguments: list[str], words: list[str]
) -> None:
    call("subscribe", "topic://prices", *ALL, "--selector", "n > 1")
    send("topic://prices", "2", "--property", "n:int=2")
    refused = call("receive", *arguments)
    assert (refused.status, refused.output) == (1, "")
    for word in words:
        assert word in refused.errors
    assert call("receive", "topic://prices", *ALL, "--json").bodies == ["2"]


@pytest.mark.parametrize(
    "command",
    [
        ("unsubscribe", "--subscription", "news"),
        ("subscribe", "topic://prices", *SHARED, "--selector", "n > 1"),
    ],
)
def test_what_a_dead_consumer_has_taken_keeps_no_subscription_from_ending(
    call: Call, deployment: Path, send: Send, command: tuple[str, ...]
) -> None:
    call("subscribe", "topic://prices", *SHARED)
    send("topic://prices", "1")
    receive = ("receive", "topic://prices", *SHARED, "--ack", "none", "--count", "2", *WAITING)
    with PipedProcess(*receive, cwd=deployment) as consumer:
        assert consumer.stdout.readline()
        assert call("unsubscribe", "--subscription", "news").status == 1
    ended = call(*command)
    assert ended.status == 0, ended.errors


# --- delayed ---------------------------------------------------------------------------------------


def test_a_delayed_message_is_shown_and_comes_when_it_is_due(call: Call, send: Send) -> None:
    sent = send("orders", "body", "--delay", "1500")
    before = time.time_ns() // 1_000_000
    seen = call("browse", "orders", "--delayed", "--json")
    assert seen.status == 0, seen.errors
    document = json.loads(seen.output)
    assert (document["JMSMessageID"], document["body"]) == (sent, "body")
    assert document["JMSDeliveryTime"] <= before + 1500
    assert call("browse", "orders", "--json").output == ""
    assert numbers(call, "queue://orders")["delayed"] == 1
    text = call("browse", "orders", "--delayed")
    assert f"JMSDeliveryTime: {document['JMSDeliveryTime']}  (20" in text.output
    assert "1 delayed message in queue://orders" in text.errors
    got = call("receive", "orders", "--wait", "30000", "--json")
    assert json.loads(got.output)["JMSMessageID"] == sent
    assert time.time_ns() // 1_000_000 >= document["JMSDeliveryTime"]
    assert numbers(call, "queue://orders")["delayed"] == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("send", "orders", "--delay", "-1"), "--delay"),
        (("send", "orders", "--delay", str(2**63 - 1)), "JMSDeliveryTime"),
        (("send", "orders", "--delay", "1000", "--expires-in", "1000"), "expire before its delivery"),
        (("browse", "orders~EXPIRED", "--delayed"), "whole queue"),
    ],
)
def test_a_delay_that_cannot_be_is_refused(
    call: Call, deployment: Path, arguments: Sequence[str], problem: str
) -> None:
    (deployment / "body").write_text("body")
    body = ("--body", "body") if arguments[0] == "send" else ()
    refused = call(*arguments, *body)
    assert refused.status == 2
    assert problem in refused.errors


def test_a_sender_is_told_that_nobody_moves_its_delayed_message(call: Call, deployment: Path) -> None:
    (deployment / "body").write_text("body")
    told = call("send", "elsewhere", "--delay", "60000", "--body", "body")
    assert "no adapter runs, and the configuration does not poll queue://elsewhere" in told.errors
    told = call("send", "orders", "--delay", "60000", "--body", "body")
    assert "no adapter runs" not in told.errors


# --- queues ----------------------------------------------------------------------------------------


def test_destinations_are_listed_with_their_numbers(call: Call, send: Send) -> None:
    for body in "abc":
        send("orders", body)
    call("receive", "orders")
    call("subscribe", "topic://prices", *ALL, "--selector", "n = 1")
    assert numbers(call, "queue://orders") == {
        "destination": "queue://orders",
        "kind": "queue",
        "role": "input",
        "waiting": 2,
        "delayed": 0,
        "in_progress": 0,
        "processed": 1,
        "expired": 0,
        "error": 0,
        "subscriptions": [],
        "lots": [],
    }
    topic = numbers(call, "topic://prices")
    assert topic["kind"] == "topic"
    assert topic["subscriptions"] == [
        {
            "subscription": "all",
            "topic": "topic://prices",
            "client_id": "shop",
            "durable": True,
            "shared": False,
            "selector": "n = 1",
            "no_local": False,
            "consumers": 0,
            "waiting": 0,
            "delayed": 0,
            "in_progress": 0,
            "expired": 0,
            "error": 0,
        }
    ]
    lines = call("queues").output.splitlines()
    assert lines[0].split() == [
        "destination",
        *("waiting", "delayed", "in", "progress", "processed", "expired", "error"),
        "role",
    ]
    assert lines[2].split() == ["queue://orders", "2", "0", "0", "1", "0", "0", "input"]
    assert lines[4].startswith("  all of shop (durable, n = 1, 0 consumers)")


def test_destinations_are_listed_with_their_roles(call: Call, send: Send, deployment: Path) -> None:
    (deployment / "metaobjects/rules.yaml").write_text(
        "static_metaobject: MO_Config\n"
        "Default: {OutputDestination: queue://crm, ReplyToDestination: queue://answers}\n"
        "rules: {Customer_Create: {InputDestination: queue://legacy}}\n"
    )
    file = deployment / "adapter.yaml"
    inputs = "  InProgressDestination: queue://working\n  ErrorDestination"
    file.write_text(file.read_text().replace("  ErrorDestination", inputs))
    expected = {
        "answers": "reply",
        "archive": "archive",
        "crm": "request",
        "error": "error",
        "erp-orders": "subscription",
        "legacy": None,
        "orders": "input",
        "unsubscribed": "unsubscribed",
        "working": "in-progress",
    }
    for name in expected:
        send(name, "x")
    found = call("queues", "--json").documents
    assert {one["destination"].removeprefix("queue://"): one["role"] for one in found} == expected
    table = call("queues").output
    assert re.search(r"^queue://legacy .* 0  not polled$", table, re.MULTILINE)
    assert re.search(r"^queue://working .* 0  in-progress$", table, re.MULTILINE)


@pytest.mark.parametrize("command", ["send", "receive"])
def test_a_new_queue_that_is_not_configured_is_made_with_a_warning(
    call: Call, deployment: Path, command: str
) -> None:
    (deployment / "body").write_text("x")
    rest = ["--body", "body"] if command == "send" else []
    answer = call(command, "ordres", *rest)
    assert answer.status == 0
    assert answer.errors.splitlines()[0] == (
        "connector: queue://ordres is new, and the configuration does not name it; did you mean queue://orders?"
    )
    assert (deployment / "data/ordres/incoming/target").is_dir()
    assert "is new" not in call(command, "ordres", *rest).errors, "it is there"
    assert "is new" not in call(command, "archive", *rest).errors, "it is configured"
    answer = call(command, "order", *rest)
    assert "did you mean queue://ord" in answer.errors
    assert call(command, "something-else", *rest).errors.splitlines()[0] == (
        "connector: queue://something-else is new, and the configuration does not name it"
    )
    assert "is new" not in call(command, "topic://news", *rest).errors


# --- browse ----------------------------------------------------------------------------------------


def test_a_message_that_cannot_be_read_is_named_and_the_others_are_shown(
    call: Call, send: Send, deployment: Path
) -> None:
    first, bad, last = (send("orders", body) for body in ("one", "two", "three"))
    (path,) = (deployment / "data/orders/incoming/target").glob(f"*{bad.removeprefix('ID:')}*")
    path.chmod(0)
    with without_privileges():
        done = call("browse", "orders", "--json")
    assert done.status == 1
    assert done.errors == f"connector: {bad} in queue://orders cannot be read: Permission denied: {path}\n"
    assert [json.loads(line)["JMSMessageID"] for line in done.output.splitlines()] == [first, last]


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe", b"garbage text", b"{broken", b"4."])
def test_receive_leaves_a_message_that_has_lost_headers_until_they_are_back(
    call: Call, send: Send, deployment: Path, content: bytes | None
) -> None:
    identity = send("orders", "one", "--property", f"long={'y' * 400}")
    (sidecar,) = (deployment / "data/dropboxmq/headers").iterdir()
    whole = sidecar.read_bytes()
    if content is None:
        sidecar.unlink()
    else:
        sidecar.write_bytes(content)
    answer = call("receive", "orders")
    assert answer.status == 1
    assert str(sidecar) in answer.errors
    answer = call("browse", "orders")
    assert answer.status == 1
    assert f"{identity} in queue://orders cannot be read: the headers of the message are" in answer.errors
    sidecar.write_bytes(whole)
    answer = call("browse", "orders", "--json")
    assert answer.status == 0
    (message,) = answer.documents
    assert (message["JMSMessageID"], message["properties"]["long"]) == (identity, "y" * 400)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("4.x.T.abc", "field 4 (expiration)"),
        ("4.x.T.-1", "field 4 (expiration)"),
        (f"4.x.T.{'9' * 30}", "field 4 (expiration)"),
        ("4.x.T.....badI=xyz", "a property 'bad'"),
        ("4.x.T.....badB=maybe", "a property 'bad'"),
        ("4.x.T.....badY=300", "a property 'bad'"),
        ("4.x.T.....badL=99999999999999999999", "a property 'bad'"),
        ("4.x.T.....badD=", "a property 'bad'"),
        ("4.x.T.....badZ=1", "a property"),
        ("4.x.T.....bad", "a property"),
        ("4.x.T.....goodI=1&badI=xyz", "a property 'bad'"),
        ("4.x.T.....JMSXDeliveryCountI=x", "a property 'JMSXDeliveryCount'"),
        ("4.x.T.....JMS_dropboxmq_modeI=7", "a delivery mode '7'"),
        ("4.x.T.....JMS_dropboxmq_hdrS=gone", "the headers of the message are missing"),
    ],
)
def test_browse_names_a_message_with_an_unreadable_header_as_receive_does(
    call: Call, send: Send, deployment: Path, name: str, reason: str
) -> None:
    good = send("orders", "good")
    target = deployment / "data/orders/incoming/target"
    (target.parent / "working" / "x").write_text("bad")
    os.rename(target.parent / "working" / "x", target / name)
    done = call("browse", "orders", "--json")
    assert done.status == 1
    assert done.errors.startswith("connector: ID:x in queue://orders cannot be read: ")
    assert reason in done.errors
    assert done.errors.count("\n") == 1
    shown = {line["JMSMessageID"]: line["body"] for line in map(json.loads, done.output.splitlines())}
    assert shown == {good: "good", "ID:x": "bad"}
    received = call("receive", "orders", "--count", "2")
    assert received.status == 1
    assert reason in received.errors


@pytest.mark.parametrize("command", [["queues"], ["browse", "orders"]])
@pytest.mark.parametrize("closed", ["orders", "orders/incoming"])
def test_a_queue_that_may_not_be_read_is_not_called_missing(
    call: Call, send: Send, deployment: Path, command: list[str], closed: str
) -> None:
    send("orders", "one")
    directory = deployment / "data" / closed
    directory.chmod(0)
    try:
        with without_privileges():
            done = call(*command)
    finally:
        directory.chmod(0o755)
    assert (done.status, done.output) == (1, "")
    assert re.fullmatch(
        rf"connector: cannot read {directory}\S*: Permission denied; give this user the right to read it\n",
        done.errors,
    )


def test_a_topic_that_may_not_be_read_is_not_left_out_of_a_list(
    call: Call, send: Send, deployment: Path
) -> None:
    send("topic://news", "one")
    directory = deployment / "data/topic-root/news"
    directory.chmod(0)
    try:
        with without_privileges():
            done = call("queues")
    finally:
        directory.chmod(0o755)
    assert done.status == 1
    assert f"cannot read {directory}: Permission denied" in done.errors


def test_what_a_file_system_keeps_for_itself_is_no_queue(call: Call, send: Send, deployment: Path) -> None:
    send("orders", "one")
    (deployment / "data/lost+found").mkdir(mode=0)
    with without_privileges():
        done = call("queues")
    assert (done.status, done.errors) == (0, "")
    assert "queue://orders" in done.output


def test_a_message_that_has_lost_headers_is_named_and_shown(call: Call, send: Send, deployment: Path) -> None:
    identity = send("orders", "one", "--type", "T" * 500)
    (sidecar,) = (deployment / "data/dropboxmq/headers").iterdir()
    sidecar.unlink()
    answer = call("browse", "orders")
    assert answer.status == 1
    assert (
        f"connector: {identity} in queue://orders cannot be read: the headers of the message are missing"
        in answer.errors
    )
    assert "  | one\n" in answer.output


def test_a_look_makes_nothing(call: Call, deployment: Path) -> None:
    assert call("queues").status == 1
    assert call("browse", "orders").status == 1
    assert not (deployment / "data").exists()


# --- wrong calls -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["receive", "orders", "--selector", "a = = 1"], ["--selector", "'='", "character 5"]),
        (["browse", "topic://prices"], ["keeps no messages", "connector queues"]),
        (["receive", "orders", *SHARED], ["is a queue"]),
        (["receive", "topic://prices", "--subscription", "a"], ["--client-id", "--shared"]),
        (["receive", "topic://prices", "--shared"], ["--subscription"]),
        (["receive", "queue://a/b"], ["'/'"]),
        (["receive", "orders", "--ack", "maybe"], ["--ack", "rollback"]),
        (["receive", "orders", "--count", "0"], ["--count"]),
        (["subscribe", "orders", *SHARED], ["is a queue", "topic://"]),
        (["subscribe", "topic://prices"], ["--subscription"]),
        (["subscribe", "topic://prices", "--subscription", "a"], ["--client-id"]),
        (["subscribe", "topic://prices", *SHARED, "--no-local"], ["--no-local"]),
        (["subscribe", "topic://prices", *SHARED, "--selector", "JMSDestination = 'x'"], ["JMSDestination"]),
        (["unsubscribe"], ["--subscription"]),
        (["unsubscribe", "--subscription", ""], ["--subscription"]),
        (["subscribe", "topic://prices", "--subscription", "", "--shared"], ["--subscription"]),
        (["receive", "topic://prices", "--subscription", "", "--shared"], ["--subscription"]),
        (["send", "orders~EXPIRED", "--body", "adapter.yaml"], ["queue://orders"]),
        (["send", "orders", "--body", "adapter.yaml", "--property", "a b=1"], ["--property", "'a b'", "' '"]),
        (["send", "orders", "--body", "adapter.yaml", "--property", "JMSXDeliveryCount:int=7"], ["counts"]),
        *(
            (["send", "orders", "--body", "adapter.yaml", *arguments], words)
            for arguments, words in (
                (["--expires-in", "99999999999999999999"], ["--expires-in", "64 bits"]),
                (["--expires-in", "9223372036854775807"], ["--expires-in", "at most 92", "long"]),
                (["--expires-in", "-1"], ["--expires-in"]),
                (["--expires-in", "1_000"], ["--expires-in", "digits"]),
                (["--priority", "10"], ["--priority", "0 to 9"]),
                (["--priority", "٣"], ["--priority", "digits"]),
                (["--count", "0x10"], ["--count", "digits"]),
                (["--property", "n:int=1_000"], ["--property", "digits"]),
                (["--property", "n:int=1", "--property", "n=2"], ["'n' is set twice"]),
                (["--property", "n:byte=128"], ["--property", "8 bits"]),
                (["--property", "n:long=9223372036854775808"], ["--property", "64 bits"]),
                (["--property", "n:float=1e39"], ["--property", "32 bits"]),
                (["--property", "n:double=inf"], ["--property", "double"]),
                (["--property", "n:double=1e400"], ["--property", "64 bits"]),
                (["--property", "n=\udcff"], ["'n'", "Unicode"]),
                (["--type", "\udcff"], ["JMSType", "Unicode"]),
                (["--correlation-id", "\udcff"], ["JMSCorrelationID", "Unicode"]),
                (["--reply-to", "queue:replies"], ["queue://replies"]),
            )
        ),
        (["receive", "orders", "--count", "1e3"], ["--count", "digits"]),
        (["receive", "orders", "--wait", "99999999999999999999"], ["--wait", "64 bits"]),
        (["browse", "orders", "--limit", "99999999999999999999"], ["--limit", "64 bits"]),
    ],
)
def test_a_wrong_call_has_status_2_and_says_what_to_do(
    call: Call, deployment: Path, arguments: list[str], words: list[str]
) -> None:
    answer = call(*arguments)
    assert (answer.status, answer.output) == (2, "")
    for word in words:
        assert word in answer.errors
    assert not (deployment / "data").exists()


def test_a_client_id_that_another_process_holds_is_named(call: Call, deployment: Path) -> None:
    with PipedProcess("receive", "topic://prices", *ALL, "--wait", "30000", cwd=deployment) as holder:
        wait_for((deployment / "data/topic-root/prices").exists)
        refused = call("subscribe", "topic://prices", "--subscription", "b", "--client-id", "shop")
        assert refused.status == 1
        assert "shop" in refused.errors
        assert str(holder.pid) in refused.errors


def test_only_a_selector_loads_the_grammar_of_selectors(interpret: Callable[[str], list[str]]) -> None:
    program = (
        "import sys\nfrom connector.cli.app import run\n"
        "run(['receive', 'orders']), run(['subscribe', 'topic://t', '--subscription', 's', '--shared'])\n"
        "run(['queues'])\n"
        "print([name for name in ('lark', 'pyspark', 'rich', 'apscheduler') if name in sys.modules])\n"
        "run(['browse', 'orders', '--selector', 'a = 1'])\nprint('lark' in sys.modules)"
    )
    assert interpret(program)[-2:] == ["[]", "True"]


@pytest.mark.parametrize(
    "command", [["receive", "orders"], ["queues"], ["browse", "orders", "--json"], ["schema"]]
)
def test_an_answer_for_which_there_is_no_room_is_an_error_and_loses_no_message(
    call: Call, deployment: Path, send: Send, command: list[str]
) -> None:
    send("orders", "kept")
    with open("/dev/full", "w") as full, tempfile.TemporaryFile() as errors:
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        done = ForkedProcess(command, cwd=deployment, env=env, stdout=full.fileno(), stderr=errors.fileno())
        assert done.wait(120) == 1
        errors.seek(0)
        assert errors.read() == b"connector: cannot write to standard output: No space left on device\n"
    assert call("browse", "orders", "--json").bodies == ["kept"]


def _unread(pipe: IO[bytes]) -> int:
    """The number of bytes that nobody has read from a pipe yet."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_a_queue_called_run_does_not_keep_signals_from_another_verb(tmp_path: Path) -> None:
    (tmp_path / "adapter.yaml").write_text("provider: {type: dropbox, root: ./data, create: true}\n")
    child = subprocess.Popen(
        [sys.executable, "-m", "connector.cli", "send", "run"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )
    try:
        assert child.stdin is not None
        child.stdin.write(b"x")
        child.stdin.flush()
        wait_for(lambda: not _unread(child.stdin), what="the command reads the body")
        child.send_signal(signal.SIGINT)
        assert child.wait(120) != 0
    finally:
        child.kill()
        child.communicate()
