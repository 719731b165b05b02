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
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

from tests.cli.in_process import Commands
from tests.forked_command import ForkedProcess
from tests.privileges import without_privileges
from tests.tables import rows
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
ALL = ("--subscription", "all", "--client-id", "shop")
SHARED = ("--subscription", "news", "--shared")


def numbers(call: Commands, destination: str) -> dict[str, Any]:
    """The line of ``queues --json`` about one destination."""
    return next(line for line in call("queues", "--json").documents if line["destination"] == destination)


# --- receive ---------------------------------------------------------------------------------------


def test_a_message_is_received_once_as_browse_shows_it(call: Commands) -> None:
    identity = call.send("orders", "one", "--type", "T", "--property", "n:int=1", "--correlation-id", "c")
    (seen,) = call("browse", "orders", "--json").documents
    (received,) = call("receive", "orders", "--json").documents
    assert received.pop("properties") == {"n": 1, "JMSXDeliveryCount": 1}
    assert received.pop("property_types") == {"n": "int", "JMSXDeliveryCount": "int"}
    assert (seen.pop("properties"), seen.pop("property_types")) == ({"n": 1}, {"n": "int"})
    assert received == seen
    assert (received["JMSMessageID"], received["body"]) == (identity, "one")
    assert call("receive", "orders", "--json").documents == []


def test_what_comes_for_people_has_headers_properties_and_body(call: Commands) -> None:
    identity = call.send("orders", "two\nlines", "--property", "region=EU")
    answer = call("receive", "orders")
    assert answer.stdout.startswith(f"{identity}  (TextMessage, 9 bytes)\n")
    assert "  region (string): EU\n" in answer.stdout
    assert answer.stdout.endswith("  | two\n  | lines\n")
    assert answer.stderr == "1 message from queue://orders\n"


def test_nothing_there_is_no_failure_and_makes_the_queue(call: Commands) -> None:
    assert call("receive", "queue://fresh").returncode == 0
    assert numbers(call, "queue://fresh")["waiting"] == 0


def test_messages_come_by_priority_and_age_at_most_as_many_as_asked_for(call: Commands) -> None:
    for body, priority in (("a", "4"), ("b", "9"), ("c", "4"), ("d", "4")):
        call.send("orders", body, "--priority", priority)
    assert call("receive", "orders", "--count", "3", "--json").bodies == ["b", "a", "c"]
    assert call("receive", "orders", "--count", "3", "--json").bodies == ["d"]


def test_a_selector_takes_some_and_leaves_the_others(call: Commands) -> None:
    for n in range(4):
        call.send("orders", str(n), "--property", f"n:int={n}")
    assert call("browse", "orders", "--selector", "n > 1", "--json").bodies == ["2", "3"]
    assert call("browse", "orders", "--selector", "n > 1", "--limit", "1", "--json").bodies == ["2"]
    assert call("receive", "orders", "--selector", "n > 1", "--count", "9", "--json").bodies == ["2", "3"]
    assert call("browse", "orders", "--json").bodies == ["0", "1"]


@rows("empty", ["", " ", "\t\n"])
def test_an_empty_selector_is_no_selector(call: Commands, empty: str) -> None:
    selector = ("--selector", empty)
    assert call("subscribe", "topic://prices", *ALL, *selector).returncode == 0
    assert call("subscribe", "topic://prices", *SHARED, *selector).returncode == 0
    call.send("topic://prices", "one")
    assert call("receive", "topic://prices", *ALL, *selector, "--json").bodies == ["one"]
    assert call("receive", "topic://prices", *SHARED, *selector, "--json").bodies == ["one"]
    assert call("receive", "topic://prices", *selector, "--json").bodies == []
    call.send("orders", "two")
    assert call("browse", "orders", *selector, "--json").bodies == ["two"]
    assert call("receive", "orders", *selector, "--json").bodies == ["two"]


@rows("ack, again", [("auto", []), ("client", []), ("none", ["1", "2"]), ("rollback", ["1", "2"])])
def test_what_is_not_acknowledged_comes_again_redelivered(call: Commands, ack: str, again: list[str]) -> None:
    call.send("orders", "1")
    call.send("orders", "2")
    first = call("receive", "orders", "--count", "2", "--ack", ack, "--json")
    assert first.bodies == ["1", "2"]
    second = call("receive", "orders", "--count", "2", "--json")
    assert second.bodies == again
    assert all(document["JMSRedelivered"] for document in second.documents)
    assert [document["properties"]["JMSXDeliveryCount"] for document in second.documents] == [2] * len(again)


@pytest.mark.process
def test_a_message_is_waited_for(call: Commands) -> None:
    receiver = call.start("receive", "orders", "--wait", "20000", "--json")
    wait_for((call.directory / "data/orders/incoming/target").exists, what="the command receives")
    call.send("orders", "late")
    output, errors = receiver.communicate()
    assert json.loads(output)["body"] == "late", errors


@pytest.mark.process
def test_a_reader_that_is_gone_before_a_message_is_written_has_not_received_it(call: Commands) -> None:
    with call.start("receive", "orders", "--wait", "20000") as receiver:
        receiver.stdout.close()
        identity = call.send("orders", "x" * 100_000)
        assert receiver.wait(120) == 1
    (waiting,) = call("browse", "orders", "--json").documents
    assert (waiting["JMSMessageID"], waiting["JMSRedelivered"]) == (identity, True)


def test_a_message_that_cannot_be_read_waits_again_and_harms_no_other(call: Commands) -> None:
    call.send("orders", "good")
    target = call.directory / "data/orders/incoming/target"
    (target / "9.1.T.never").write_text("bad")
    answer = call("receive", "orders", "--count", "5", "--json")
    assert answer.returncode == 1
    assert [json.loads(line)["body"] for line in answer.stdout.splitlines()] == ["good"]
    assert "cannot be read" in answer.stderr
    assert numbers(call, "queue://orders")["waiting"] == 1


# --- subscriptions ---------------------------------------------------------------------------------


def test_a_subscription_keeps_what_is_sent_to_its_topic(call: Commands) -> None:
    call.send("topic://prices", "before")
    assert call("subscribe", "topic://prices", *ALL).returncode == 0
    call.send("topic://prices", "after")
    assert call("receive", "topic://prices", *ALL, "--count", "9", "--json").bodies == ["after"]
    assert call("receive", "topic://prices", *ALL, "--json").bodies == []


def test_every_subscription_has_the_message_and_each_takes_its_own(call: Commands) -> None:
    call("subscribe", "topic://prices", *ALL)
    call("subscribe", "topic://prices", *SHARED)
    call.send("topic://prices", "x")
    assert call("receive", "topic://prices", *ALL, "--json").bodies == ["x"]
    assert call("receive", "topic://prices", *SHARED, "--json").bodies == ["x"]


def test_a_subscription_that_is_removed_keeps_nothing(call: Commands) -> None:
    call("subscribe", "topic://prices", *ALL)
    call.send("topic://prices", "x")
    (found,) = call("unsubscribe", *ALL, "--json").documents
    assert (found["subscription"], found["client_id"], found["waiting"], found["error"]) == (
        "all",
        "shop",
        1,
        0,
    )
    assert numbers(call, "topic://prices")["subscriptions"] == []
    assert "'all'" in call("unsubscribe", *ALL).failure()


@pytest.mark.process
def test_who_removes_a_subscription_is_told_what_it_kept(call: Commands) -> None:
    call("subscribe", "topic://prices", *ALL)
    call.send("topic://prices", "x")
    _, errors = call.start("unsubscribe", *ALL).communicate()
    warning, last = errors.splitlines()
    for part in ("a subscription were removed with the subscription", "topic://prices", "1 waiting", "all"):
        assert part in warning
    assert last == "subscription 'all' is removed"
    call("subscribe", "topic://prices", *ALL)
    _, errors = call.start("unsubscribe", *ALL).communicate()
    assert errors == "subscription 'all' is removed\n"


def test_what_a_subscription_has_put_aside_is_counted_until_it_is_moved_back(call: Commands) -> None:
    call("subscribe", "topic://prices", *ALL)
    call.send("topic://prices", "x")
    folders = call.directory / "data/topic-root/prices/.subscriptions/all.shop"
    (message,) = (folders / "target").iterdir()
    message.rename(folders / "error" / message.name)
    (folders / "error/.hidden").touch()
    (folders / "expired/directory").mkdir()
    (found,) = numbers(call, "topic://prices")["subscriptions"]
    assert (found["waiting"], found["expired"], found["error"]) == (0, 0, 1)
    *_, line = call("queues").stdout.splitlines()
    assert line.split()[-4:] == ["0", "0", "0", "1"], "a subscription has no role"
    (folders / "error" / message.name).rename(message)
    assert call("receive", "topic://prices", *ALL, "--json").bodies == ["x"]


@pytest.mark.process
def test_a_subscription_that_is_consumed_cannot_be_removed(call: Commands) -> None:
    with call.start("receive", "topic://prices", *SHARED, "--wait", "30000"):
        wait_for((call.directory / "data/topic-root/prices").exists)
        wait_for(
            lambda: [one["consumers"] for one in numbers(call, "topic://prices")["subscriptions"]] == [1]
        )
        assert "consumer" in call("unsubscribe", "--subscription", "news").failure()
    assert call("unsubscribe", "--subscription", "news").returncode == 0


@pytest.mark.process
def test_a_topic_without_subscription_gives_what_is_sent_while_one_waits(call: Commands) -> None:
    receiver = call.start("receive", "topic://prices", "--wait", "20000", "--json")

    def has_received() -> bool:
        call.send("topic://prices", "tick")
        return receiver.poll() is not None

    wait_for(has_received)
    output, errors = receiver.communicate()
    assert json.loads(output)["body"] == "tick", errors
    assert numbers(call, "topic://prices")["subscriptions"] == []


@rows("options", [ALL, SHARED])
def test_to_receive_takes_a_subscription_as_it_is_and_keeps_what_it_has_kept(
    call: Commands, options: tuple[str, ...]
) -> None:
    only = () if options == SHARED else ("--no-local",)
    call("subscribe", "topic://prices", *options, "--selector", "n > 1", *only)
    for n in (1, 2, 3):
        call.send("topic://prices", str(n), "--property", f"n:int={n}")
    assert call("receive", "topic://prices", *options, "--json").bodies == ["2"]
    assert call("receive", "topic://prices", *options, "--selector", "n > 1", "--json").bodies == ["3"]
    (found,) = numbers(call, "topic://prices")["subscriptions"]
    assert (found["selector"], found["no_local"]) == ("n > 1", bool(only))


@rows(
    "arguments, words",
    [
        (["topic://prices", *ALL, "--selector", "n > 2"], ["'n > 1'", "connector subscribe"]),
        (["topic://news", *ALL], ["topic://prices", "connector unsubscribe"]),
        (["topic://prices", *ALL, "--shared"], ["shared", "unsubscribe"]),
    ],
)
def test_to_receive_never_makes_a_subscription_anew(
    call: Commands, arguments: list[str], words: list[str]
) -> None:
    call("subscribe", "topic://prices", *ALL, "--selector", "n > 1")
    call.send("topic://prices", "2", "--property", "n:int=2")
    refused = call("receive", *arguments).failure()
    for word in words:
        assert word in refused
    assert call("receive", "topic://prices", *ALL, "--json").bodies == ["2"]


# --- delayed ---------------------------------------------------------------------------------------


def test_a_delayed_message_is_shown_and_comes_when_it_is_due(call: Commands) -> None:
    sent = call.send("orders", "body", "--delay", "1500")
    before = time.time_ns() // 1_000_000
    (document,) = call("browse", "orders", "--delayed", "--json").documents
    assert (document["JMSMessageID"], document["body"]) == (sent, "body")
    assert document["JMSDeliveryTime"] <= before + 1500
    assert call("browse", "orders", "--json").stdout == ""
    assert numbers(call, "queue://orders")["delayed"] == 1
    text = call("browse", "orders", "--delayed")
    assert f"JMSDeliveryTime: {document['JMSDeliveryTime']}  (20" in text.stdout
    assert "1 delayed message in queue://orders" in text.stderr
    assert call("receive", "orders", "--wait", "60000", "--json").document["JMSMessageID"] == sent
    assert time.time_ns() // 1_000_000 >= document["JMSDeliveryTime"]
    assert numbers(call, "queue://orders")["delayed"] == 0


def test_a_sender_is_told_that_nobody_moves_its_delayed_message(call: Commands) -> None:
    told = call("send", "elsewhere", "--delay", "60000").stderr
    assert "no adapter runs, and the configuration does not poll queue://elsewhere" in told
    assert "no adapter runs" not in call("send", "orders", "--delay", "60000").stderr


# --- queues ----------------------------------------------------------------------------------------


def test_destinations_are_listed_with_their_numbers(call: Commands) -> None:
    for body in "abc":
        call.send("orders", body)
    call("receive", "orders")
    call("subscribe", "topic://prices", *ALL, "--selector", "n = 1")
    none = dict.fromkeys(("delayed", "in_progress", "expired", "error"), 0)
    queue = {
        "destination": "queue://orders",
        "kind": "queue",
        "role": "input",
        "subscriptions": [],
        "lots": [],
    }
    assert numbers(call, "queue://orders") == {**queue, **none, "waiting": 2, "processed": 1}
    topic = numbers(call, "topic://prices")
    assert topic["kind"] == "topic"
    subscription = {
        "subscription": "all",
        "topic": "topic://prices",
        "client_id": "shop",
        "selector": "n = 1",
    }
    flags = {"durable": True, "shared": False, "no_local": False}
    assert topic["subscriptions"] == [{**subscription, **flags, **none, "consumers": 0, "waiting": 0}]
    lines = call("queues").stdout.splitlines()
    assert lines[0].split() == [
        "destination",
        *("waiting", "delayed", "in", "progress", "processed", "expired", "error"),
        "role",
    ]
    assert lines[2].split() == ["queue://orders", "2", "0", "0", "1", "0", "0", "input"]
    assert lines[4].startswith("  all of shop (durable, n = 1, 0 consumers)")


def test_destinations_are_listed_with_their_roles(call: Commands) -> None:
    call.write(
        "metaobjects/rules.yaml",
        "static_metaobject: MO_Config\n"
        "Default: {OutputDestination: queue://crm, ReplyToDestination: queue://answers}\n"
        "rules: {Customer_Create: {InputDestination: queue://legacy}}\n",
    )
    file = call.directory / "adapter.yaml"
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
        call.send(name, "x")
    found = call("queues", "--json").documents
    assert {one["destination"].removeprefix("queue://"): one["role"] for one in found} == expected
    table = call("queues").stdout
    assert re.search(r"^queue://legacy .* 0  not polled$", table, re.MULTILINE)
    assert re.search(r"^queue://working .* 0  in-progress$", table, re.MULTILINE)


@rows("command", ["send", "receive"])
def test_a_new_queue_that_is_not_configured_is_made_with_a_warning(call: Commands, command: str) -> None:
    new = "connector: queue://{} is new, and the configuration does not name it"
    answer = call(command, "ordres")
    assert answer.returncode == 0
    assert answer.stderr.splitlines()[0] == f"{new.format('ordres')}; did you mean queue://orders?"
    assert (call.directory / "data/ordres/incoming/target").is_dir()
    for there in ("ordres", "archive", "topic://news"):
        assert "is new" not in call(command, there).stderr
    assert "did you mean queue://ord" in call(command, "order").stderr
    assert call(command, "something-else").stderr.splitlines()[0] == new.format("something-else")


# --- browse ----------------------------------------------------------------------------------------


def test_a_message_that_cannot_be_read_is_named_and_the_others_are_shown(call: Commands) -> None:
    first, bad, last = (call.send("orders", body) for body in ("one", "two", "three"))
    (path,) = (call.directory / "data/orders/incoming/target").glob(f"*{bad.removeprefix('ID:')}*")
    path.chmod(0)
    with without_privileges():
        done = call("browse", "orders", "--json")
    assert done.returncode == 1
    assert done.stderr == f"connector: {bad} in queue://orders cannot be read: Permission denied: {path}\n"
    assert [json.loads(line)["JMSMessageID"] for line in done.stdout.splitlines()] == [first, last]


@rows("content", [None, b"", b"\xff\xfe", b"garbage text", b"{broken", b"4."])
def test_receive_leaves_a_message_that_has_lost_headers_until_they_are_back(
    call: Commands, content: bytes | None
) -> None:
    identity = call.send("orders", "one", "--property", f"long={'y' * 400}")
    (sidecar,) = (call.directory / "data/dropboxmq/headers").iterdir()
    whole = sidecar.read_bytes()
    if content is None:
        sidecar.unlink()
    else:
        sidecar.write_bytes(content)
    assert str(sidecar) in call("receive", "orders").failure()
    answer = call("browse", "orders")
    assert (answer.returncode, "  | one\n" in answer.stdout) == (1, True), "its body is shown"
    assert f"{identity} in queue://orders cannot be read: the headers of the message are" in answer.stderr
    sidecar.write_bytes(whole)
    (message,) = call("browse", "orders", "--json").documents
    assert (message["JMSMessageID"], message["properties"]["long"]) == (identity, "y" * 400)


def test_browse_names_a_message_with_an_unreadable_header_as_receive_does(call: Commands) -> None:
    reasons = {
        "abc": "field 4 (expiration)",
        "-1": "field 4 (expiration)",
        "9" * 30: "field 4 (expiration)",
        "....badI=xyz": "a property 'bad'",
        "....badB=maybe": "a property 'bad'",
        "....badY=300": "a property 'bad'",
        "....badL=99999999999999999999": "a property 'bad'",
        "....badD=": "a property 'bad'",
        "....badZ=1": "a property",
        "....bad": "a property",
        "....goodI=1&badI=xyz": "a property 'bad'",
        "....JMSXDeliveryCountI=x": "a property 'JMSXDeliveryCount'",
        "....JMS_dropboxmq_modeI=7": "a delivery mode '7'",
        "....JMS_dropboxmq_hdrS=gone": "the headers of the message are missing",
    }
    good = call.send("orders", "good")
    target = call.directory / "data/orders/incoming/target"
    for number, fields in enumerate(reasons):
        (target.parent / "working" / "x").write_text("bad")
        os.rename(target.parent / "working" / "x", target / f"4.x{number}.T.{fields}")
    done = call("browse", "orders", "--json")
    shown = {line["JMSMessageID"]: line["body"] for line in map(json.loads, done.stdout.splitlines())}
    assert shown == {good: "good", **{f"ID:x{number}": "bad" for number in range(len(reasons))}}
    assert done.returncode == 1
    for number, (line, reason) in enumerate(zip(done.stderr.splitlines(), reasons.values(), strict=True)):
        assert line.startswith(f"connector: ID:x{number} in queue://orders cannot be read: ")
        assert reason in line
    received = call("receive", "orders", "--count", "20")
    assert received.returncode == 1
    assert received.stderr.count("cannot be read and waits again") == len(reasons)
    for reason in reasons.values():
        assert reason in received.stderr


@rows(
    "closed, command",
    [
        *(
            (closed, command)
            for closed in ("orders", "orders/incoming")
            for command in (["queues"], ["browse", "orders"])
        ),
        ("topic-root/news", ["queues"]),
    ],
)
def test_what_may_not_be_read_is_neither_called_missing_nor_left_out(
    call: Commands, closed: str, command: list[str]
) -> None:
    call.send("orders", "one")
    call.send("topic://news", "one")
    directory = call.directory / "data" / closed
    directory.chmod(0)
    try:
        with without_privileges():
            failure = call(*command).failure()
    finally:
        directory.chmod(0o755)
    denied = (
        rf"connector: cannot read {directory}\S*: Permission denied; give this user the right to read it\n"
    )
    assert re.fullmatch(denied, failure)


def test_what_a_file_system_keeps_for_itself_is_no_queue(call: Commands) -> None:
    call.send("orders", "one")
    (call.directory / "data/lost+found").mkdir(mode=0)
    with without_privileges():
        done = call("queues")
    assert (done.returncode, done.stderr) == (0, "")
    assert "queue://orders" in done.stdout


def test_a_look_makes_nothing(call: Commands) -> None:
    assert call("queues").returncode == 1
    assert call("browse", "orders").returncode == 1
    assert not (call.directory / "data").exists()


# --- wrong calls -----------------------------------------------------------------------------------


@rows(
    "arguments, words",
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
        (["browse", "orders~EXPIRED", "--delayed"], ["whole queue"]),
        (["send", "orders~EXPIRED"], ["queue://orders"]),
        *(
            (["send", "orders", *arguments], words)
            for arguments, words in (
                (["--property", "a b=1"], ["--property", "'a b'", "' '"]),
                (["--property", "JMSXDeliveryCount:int=7"], ["counts"]),
                (["--delay", "-1"], ["--delay"]),
                (["--delay", str(2**63 - 1)], ["JMSDeliveryTime"]),
                (["--delay", "1000", "--expires-in", "1000"], ["expire before its delivery"]),
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
    call: Commands, arguments: list[str], words: list[str]
) -> None:
    refusal = call(*arguments).refusal()
    for word in words:
        assert word in refusal
    assert not (call.directory / "data").exists()


@pytest.mark.process
def test_a_client_id_that_another_process_holds_is_named(call: Commands) -> None:
    with call.start("receive", "topic://prices", *ALL, "--wait", "30000") as holder:
        wait_for((call.directory / "data/topic-root/prices").exists)
        refused = call("subscribe", "topic://prices", "--subscription", "b", "--client-id", "shop").failure()
        assert "shop" in refused
        assert str(holder.pid) in refused


@pytest.mark.process
def test_only_a_selector_loads_the_grammar_of_selectors(interpret: Callable[[str], list[str]]) -> None:
    program = (
        "import sys\nfrom connector.cli.app import run\n"
        "run(['receive', 'orders']), run(['subscribe', 'topic://t', '--subscription', 's', '--shared'])\n"
        "run(['queues'])\n"
        "print([name for name in ('lark', 'pyspark', 'rich', 'apscheduler') if name in sys.modules])\n"
        "run(['browse', 'orders', '--selector', 'a = 1'])\nprint('lark' in sys.modules)"
    )
    assert interpret(program)[-2:] == ["[]", "True"]


@pytest.mark.process
@rows("command", [["receive", "orders"], ["queues"], ["browse", "orders", "--json"], ["schema"]])
def test_an_answer_for_which_there_is_no_room_is_an_error_and_loses_no_message(
    call: Commands, command: list[str]
) -> None:
    call.send("orders", "kept")
    with open("/dev/full", "w") as full, tempfile.TemporaryFile() as errors:
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        done = ForkedProcess(
            command, cwd=call.directory, env=env, stdout=full.fileno(), stderr=errors.fileno()
        )
        assert done.wait(120) == 1
        errors.seek(0)
        assert errors.read() == b"connector: cannot write to standard output: No space left on device\n"
    assert call("browse", "orders", "--json").bodies == ["kept"]


def _unread(pipe: IO[bytes] | None) -> int:
    """The number of bytes that nobody has read from a pipe yet."""
    assert pipe is not None
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.process
def test_a_queue_called_run_does_not_keep_signals_from_another_verb(tmp_path: Path) -> None:
    (tmp_path / "adapter.yaml").write_text("provider: {type: dropbox, root: ./data, create: true}\n")
    child = subprocess.Popen(
        [sys.executable, "-m", "connector.cli", "send", "run"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
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
