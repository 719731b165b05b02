"""The commands about messages: send, browse, receive, subscribe, unsubscribe, queues."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import signal
import tempfile
import termios
import time

import pytest

from tests.cli.in_process import REPOSITORY, Commands
from tests.forked_command import ForkedProcess
from tests.privileges import without_privileges
from tests.tables import rows
from tests.waiting import wait_for

ALL = ("--subscription", "all", "--client-id", "shop")
SHARED = ("--subscription", "news", "--shared")


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
    answer = call("receive", "orders", "--selector", " ")
    assert answer.stdout.startswith(f"{identity}  (TextMessage, 9 bytes)\n")
    assert "  region (string): EU\n" in answer.stdout
    assert answer.stdout.endswith("  | two\n  | lines\n")
    assert answer.stderr == "1 message from queue://orders\n"


def test_at_most_as_many_come_as_asked_for_and_none_is_no_failure(call: Commands) -> None:
    for body, priority in (("a", "4"), ("b", "9"), ("c", "4"), ("d", "4")):
        call.send("orders", body, "--priority", priority)
    assert call("receive", "orders", "--count", "3", "--json").bodies == ["b", "a", "c"]
    assert call("receive", "orders", "--count", "3", "--json").bodies == ["d"]
    assert call("receive", "queue://fresh").returncode == 0
    assert call.numbers("queue://fresh")["waiting"] == 0


def test_a_selector_takes_some_and_leaves_the_others(call: Commands) -> None:
    for n in range(4):
        call.send("orders", str(n), "--property", f"n:int={n}")
    chosen = ("orders", "--selector", "n > 1", "--json")
    assert call("browse", *chosen).bodies == ["2", "3"]
    assert call("browse", *chosen, "--limit", "1").bodies == ["2"]
    assert call("receive", *chosen, "--count", "9").bodies == ["2", "3"]
    assert call("browse", "orders", "--json").bodies == ["0", "1"]


@rows("ack, again", [("auto", []), ("client", []), ("none", ["1", "2"]), ("rollback", ["1", "2"])])
def test_what_is_not_acknowledged_comes_again_redelivered(call: Commands, ack: str, again: list[str]) -> None:
    call.send("orders", "1")
    call.send("orders", "2")
    assert call("receive", "orders", "--count", "2", "--ack", ack, "--json").bodies == ["1", "2"]
    second = call("receive", "orders", "--count", "2", "--json")
    assert second.bodies == again
    for document in second.documents:
        assert (document["JMSRedelivered"], document["properties"]["JMSXDeliveryCount"]) == (True, 2)


@pytest.mark.process
def test_a_reader_that_is_gone_before_a_message_is_written_has_not_received_it(call: Commands) -> None:
    with call.start("receive", "orders", "--wait", "20000") as receiver:
        receiver.stdout.close()
        identity = call.send("orders", "x" * 100_000)
        assert receiver.wait(120) == 1
    (waiting,) = call("browse", "orders", "--json").documents
    assert (waiting["JMSMessageID"], waiting["JMSRedelivered"]) == (identity, True)
    assert "  JMSXDeliveryCount: 2\n" in call("browse", "orders").stdout


# --- subscriptions ---------------------------------------------------------------------------------


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
    call.send("topic://prices", "x")
    found = call("unsubscribe", *ALL, "--json").document
    kept = {"subscription": "all", "client_id": "shop", "waiting": 1, "error": 0}
    assert found.items() >= kept.items()
    assert call.numbers("topic://prices")["subscriptions"] == []
    assert "'all'" in call("unsubscribe", *ALL).failure()
    call("subscribe", "topic://prices", *ALL)
    assert call("unsubscribe", *ALL).stderr == "subscription 'all' is removed\n"


@pytest.mark.process
def test_a_topic_without_subscription_gives_what_is_sent_while_one_waits(call: Commands) -> None:
    receiver = call.start("receive", "topic://prices", "--wait", "20000", "--json")

    def has_received() -> bool:
        call.send("topic://prices", "tick")
        return receiver.poll() is not None

    wait_for(has_received)
    output, errors = receiver.communicate()
    assert json.loads(output)["body"] == "tick", errors
    assert call.numbers("topic://prices")["subscriptions"] == []


@rows("options, only", [(ALL, ["--no-local"]), (SHARED, [])])
def test_to_receive_takes_a_subscription_as_it_is_and_keeps_what_it_has_kept(
    call: Commands, options: tuple[str, ...], only: list[str]
) -> None:
    call("subscribe", "topic://prices", *options, "--selector", "n > 1", *only)
    for n in (1, 2, 3):
        call.send("topic://prices", str(n), "--property", f"n:int={n}")
    for selector, body in (((), "2"), (("--selector", "n > 1"), "3")):
        assert call("receive", "topic://prices", *options, *selector, "--json").bodies == [body]
    (found,) = call.numbers("topic://prices")["subscriptions"]
    assert (found["selector"], found["no_local"]) == ("n > 1", bool(only))


def test_to_receive_never_makes_a_subscription_anew(call: Commands) -> None:
    call("subscribe", "topic://prices", "--subscription", "a", "--shared")
    call("subscribe", "topic://prices", *ALL, "--selector", "n > 1")
    call.send("topic://prices", "2", "--property", "n:int=2")
    for arguments, words in (
        (("topic://prices", *ALL, "--selector", "n > 2"), ("'n > 1'", "connector subscribe")),
        (("topic://news", *ALL), ("topic://prices", "connector unsubscribe")),
        (("topic://prices", *ALL, "--shared"), ("shared", "unsubscribe")),
    ):
        refused = call("receive", *arguments).failure()
        assert [word for word in words if word not in refused] == []
    assert call("receive", "topic://prices", *ALL, "--json").bodies == ["2"]


def test_a_delayed_message_is_shown_and_comes_when_it_is_due(call: Commands) -> None:
    sent = call.send("orders", "body", "--delay", "1500")
    before = time.time_ns() // 1_000_000
    (document,) = call("browse", "orders", "--delayed", "--json").documents
    assert (document["JMSMessageID"], document["body"]) == (sent, "body")
    assert document["JMSDeliveryTime"] <= before + 1500
    assert call("browse", "orders", "--json").stdout == ""
    assert call.numbers("queue://orders")["delayed"] == 1
    text = call("browse", "orders", "--delayed")
    assert f"JMSDeliveryTime: {document['JMSDeliveryTime']}  (20" in text.stdout
    assert "1 delayed message in queue://orders" in text.stderr
    assert call("receive", "orders", "--wait", "60000", "--json").document["JMSMessageID"] == sent
    assert time.time_ns() // 1_000_000 >= document["JMSDeliveryTime"]
    assert call.numbers("queue://orders")["delayed"] == 0


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
    queue = {"destination": "queue://orders", "kind": "queue", "role": "input"}
    counted = {**none, "subscriptions": [], "lots": [], "waiting": 2, "processed": 1}
    assert call.numbers("queue://orders") == {**queue, **counted}
    topic = call.numbers("topic://prices")
    assert topic["kind"] == "topic"
    subscription = {"subscription": "all", "topic": "topic://prices", "client_id": "shop"}
    flags = {"durable": True, "shared": False, "no_local": False, "selector": "n = 1"}
    assert topic["subscriptions"] == [{**subscription, **flags, **none, "consumers": 0, "waiting": 0}]
    lines = call("queues").stdout.splitlines()
    assert " ".join(lines[0].split()) == (
        "destination waiting delayed in progress processed expired error role"
    )
    assert lines[2].split() == ["queue://orders", "2", "0", "0", "1", "0", "0", "input"]
    assert lines[4].startswith("  all of shop (durable, n = 1, 0 consumers)")
    assert lines[4].split()[-5:] == ["0"] * 5, "a subscription has no role"


def test_destinations_are_listed_with_their_roles(call: Commands) -> None:
    call.write(
        "metaobjects/rules.yaml",
        "static_metaobject: MO_Config\n"
        "Default: {OutputDestination: queue://crm, ReplyToDestination: queue://answers}\n"
        "rules: {Customer_Create: {InputDestination: queue://legacy}}\n",
    )
    inputs = "  InProgressDestination: queue://working\n  ErrorDestination"
    call.change("adapter.yaml", "  ErrorDestination", inputs)
    roles = (
        "answers=reply archive=archive crm=request error=error erp-orders=subscription legacy= orders=input"
    )
    pairs = (pair.partition("=") for pair in f"{roles} unsubscribed=unsubscribed working=in-progress".split())
    expected = {name: role or None for name, _, role in pairs}
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
    answer = call(command, "ordres", "--new")
    assert answer.returncode == 0
    assert answer.stderr.splitlines()[0] == f"{new.format('ordres')}; did you mean queue://orders?"
    assert (call.directory / "data/ordres/incoming/target").is_dir()
    for there in ("ordres", "archive", "topic://news"):
        assert "is new" not in call(command, there).stderr
    assert "did you mean queue://ord" in call(command, "order").refusal()
    assert call(command, "something-else").stderr.splitlines()[0] == new.format("something-else")


# --- browse ----------------------------------------------------------------------------------------


def test_a_message_that_cannot_be_read_is_named_and_the_others_are_shown(call: Commands) -> None:
    first, bad, last = (call.send("orders", body) for body in ("one", "two", "three"))
    (path,) = (call.directory / "data/orders/incoming/target").glob(f"*{bad.removeprefix('ID:')}*")
    path.chmod(0)
    with without_privileges():
        done = call("browse", "orders", "--json")
    said = f"connector: {bad} in queue://orders cannot be read: Permission denied: {path}\n"
    assert (done.returncode, done.stderr) == (1, said)
    assert [json.loads(line)["JMSMessageID"] for line in done.stdout.splitlines()] == [first, last]


def test_browse_names_a_message_with_an_unreadable_header_as_receive_does(call: Commands) -> None:
    reasons = {
        "abc": "field 4 (expiration)",
        "....badI=xyz": "a property 'bad'",
        "....bad": "a property",
        "....goodI=1&badI=xyz": "a property 'bad'",
        "....JMS_dropboxmq_modeI=7": "a delivery mode '7'",
        "....JMS_dropboxmq_hdrS=gone": "the headers of the message are missing",
    }
    good = call.send("orders", "good")
    target = call.directory / "data/orders/incoming/target"
    for number, fields in enumerate(reasons):
        call.write("aside", "bad").rename(target / f"4.x{number}.T.{fields}")
    done = call("browse", "orders", "--json")
    shown = {line["JMSMessageID"]: line["body"] for line in map(json.loads, done.stdout.splitlines())}
    assert shown == {good: "good", **{f"ID:x{number}": "bad" for number in range(len(reasons))}}
    assert done.returncode == 1
    for number, (line, reason) in enumerate(zip(done.stderr.splitlines(), reasons.values(), strict=True)):
        assert line.startswith(f"connector: ID:x{number} in queue://orders cannot be read: ")
        assert reason in line
    assert call("browse", "orders").stdout.count("  | bad\n") == len(reasons), "their bodies are shown"
    received = call("receive", "orders", "--count", "20", "--json")
    assert (received.returncode, received.document["body"]) == (1, "good")
    assert received.stderr.count("cannot be read and waits again") == len(reasons)
    for reason in reasons.values():
        assert reason in received.stderr
    assert call.numbers("queue://orders")["waiting"] == len(reasons)


@rows(
    "closed, command",
    [("orders", "browse orders"), ("orders/incoming", "queues"), ("topic-root/news", "queues")],
)
def test_what_may_not_be_read_is_neither_called_missing_nor_left_out(
    call: Commands, closed: str, command: str
) -> None:
    call.send("orders", "one")
    call.send("topic://news", "one")
    (call.directory / "data/lost+found").mkdir(mode=0)  # what a file system keeps for itself is no queue
    directory = call.directory / "data" / closed
    directory.chmod(0)
    try:
        with without_privileges():
            failure = call(*command.split()).failure()
    finally:
        directory.chmod(0o755)
    denied = rf"cannot read {directory}\S*: Permission denied; give this user the right to read it"
    assert re.fullmatch(rf"connector: {denied}\n", failure)
    with without_privileges():
        listed = call("queues")
    assert (listed.returncode, listed.stderr, "lost+found" in listed.stdout) == (0, "", False)


@rows(
    "line, words",
    [
        ("receive orders --selector 'a = = 1'", ["--selector", "'='", "character 5"]),
        ("browse topic://prices", ["keeps no messages", "connector queues"]),
        ("receive orders --subscription news --shared", ["is a queue"]),
        ("receive topic://prices --subscription a", ["--client-id", "--shared"]),
        ("receive queue://a/b", ["'/'"]),
        ("receive orders --ack maybe", ["--ack", "rollback"]),
        ("receive orders --count 0", ["--count"]),
        ("subscribe orders --subscription news --shared", ["is a queue", "topic://"]),
        ("subscribe topic://prices", ["--subscription"]),
        ("subscribe topic://prices --subscription news --shared --no-local", ["--no-local"]),
        ("subscribe topic://t --subscription a --shared --selector JMSDestination=1", ["JMSDestination"]),
        ("unsubscribe", ["--subscription"]),
        ("subscribe topic://prices --subscription '' --shared", ["--subscription"]),
        ("browse orders~EXPIRED --delayed", ["whole queue"]),
        ("send orders~EXPIRED", ["queue://orders"]),
        ("send orders --property 'a b=1'", ["--property", "'a b'", "' '"]),
        ("send orders --property JMSXDeliveryCount:int=7", ["counts"]),
        ("send orders --delay -1", ["--delay"]),
        (f"send orders --delay {2**63 - 1}", ["JMSDeliveryTime"]),
        ("send orders --delay 1000 --expires-in 1000", ["expire before its delivery"]),
        ("send orders --expires-in 99999999999999999999", ["--expires-in", "64 bits"]),
        ("send orders --expires-in 9223372036854775807", ["--expires-in", "at most 92", "long"]),
        ("send orders --expires-in -1", ["--expires-in"]),
        ("send orders --priority 10", ["--priority", "0 to 9"]),
        ("send orders --priority ٣", ["--priority", "digits"]),
        ("send orders --property n:int=1_000", ["--property", "digits"]),
        ("send orders --property n:int=1 --property n=2", ["'n' is set twice"]),
        ("send orders --property n:float=1e39", ["--property", "32 bits"]),
        ("send orders --property n:double=inf", ["--property", "double"]),
        ("send orders --property n:double=1e400", ["--property", "64 bits"]),
        ("send orders --property n=\udcff", ["'n'", "Unicode"]),
        ("send orders --type \udcff", ["JMSType", "Unicode"]),
        ("send orders --correlation-id \udcff", ["JMSCorrelationID", "Unicode"]),
        ("send orders --reply-to queue:replies", ["queue://replies"]),
        ("receive orders --wait 99999999999999999999", ["--wait", "64 bits"]),
    ],
)
def test_a_wrong_call_has_status_2_and_says_what_to_do(call: Commands, line: str, words: list[str]) -> None:
    refusal = call(*shlex.split(line)).refusal()
    assert [word for word in words if word not in refusal] == []
    assert not (call.directory / "data").exists()


@pytest.mark.process
@rows("command", [["receive", "orders"], ["queues"], ["browse", "orders", "--json"], ["schema"]])
def test_an_answer_for_which_there_is_no_room_is_an_error_and_loses_no_message(
    call: Commands, command: list[str]
) -> None:
    call.send("orders", "kept")
    with open("/dev/full", "w") as full, tempfile.TemporaryFile() as errors:
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
        done = ForkedProcess(
            command, cwd=call.directory, env=env, stdout=full.fileno(), stderr=errors.fileno()
        )
        assert done.wait(120) == 1
        errors.seek(0)
        assert errors.read() == b"connector: cannot write to standard output: No space left on device\n"
    assert call("browse", "orders", "--json").bodies == ["kept"]


@pytest.mark.process
def test_a_queue_called_run_does_not_keep_signals_from_another_verb(call: Commands) -> None:
    with call.start("send", "run") as child:
        child.stdin.write("x")
        child.stdin.flush()
        wait_for(
            lambda: fcntl.ioctl(child.stdin, termios.FIONREAD, bytes(4)) == bytes(4),
            what="a reader of the body",
        )
        child.send_signal(signal.SIGINT)
        assert child.wait(120) != 0
