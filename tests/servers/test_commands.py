"""Commands, topics and delays on real brokers. Those that another command shows run at one."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from connector.errors import CapabilityError, SubscriptionError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.testing.deployment import InProcessAdapter
from tests.forked_command import PipedProcess
from tests.runs import customer
from tests.servers.broker import TOPIC
from tests.servers.conftest import AT_ARTEMIS, AT_BROKER_J
from tests.waiting import wait_for

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment


def test_what_was_sent_is_browsed_and_received_with_all_headers(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    properties = {
        "flag:boolean": "true", "b:byte": "-3", "s:short": "300", "i:int": "70000", "l:long": "5000000000",
        "f:float": "1.5", "d:double": "2.25", "t:string": "ä",
    }  # fmt: skip
    options = [one for name, value in properties.items() for one in ("--property", f"{name}={value}")]
    options += ["--type", "NOTE", "--correlation-id", "c-1"]
    options += ["--priority", "7", "--reply-to", "queue://answers"]
    (sent,) = deployment.lines("send", deployment.input, *options, body="text ü")
    (seen,) = deployment.lines("browse", deployment.input)
    (got,) = deployment.lines("receive", deployment.input, "--wait", "60000")
    for found in (seen, got):
        assert found["JMSMessageID"] == sent["JMSMessageID"]
        assert (found["JMSType"], found["JMSCorrelationID"], found["JMSPriority"]) == ("NOTE", "c-1", 7)
        assert (found["JMSReplyTo"], found["class"], found["body"]) == ("queue://answers", "T", "text ü")
        assert {name: found["properties"][name] for name in "bsilfdt"} == {
            "b": -3, "s": 300, "i": 70000, "l": 5000000000, "f": 1.5, "d": 2.25, "t": "ä",
        }  # fmt: skip
        assert found["property_types"]["s"] == "short"
        assert found["properties"]["flag"] is True
    assert deployment.lines("browse", deployment.input) == []


def test_receive_acknowledges_as_asked_and_takes_what_is_selected(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    queue = deployment.input
    deployment.fill(2)
    for ack, left in (("none", 2), ("rollback", 2), ("client", 0)):
        got = deployment.lines("receive", queue, "--ack", ack, "--count", "2", "--wait", "60000")
        assert [json.loads(one["body"])["CustomerId"] for one in got] == ["0", "1"], ack
        assert len(deployment.customers(queue)) == left, ack
    for number in ("1", "2"):
        deployment.run("send", queue, "--property", f"n:int={number}", body=number)
    got = deployment.lines("receive", queue, "--selector", "n = 2", "--wait", "60000")
    assert ([one["body"] for one in got], deployment.bodies(queue)) == (["2"], ["1"])
    answer = deployment.run("receive", queue, "--selector", "n = = 2", status=None)
    assert answer.returncode in (1, 2)
    assert "selector" in answer.stderr.lower()
    assert "Traceback" not in answer.stderr


def test_check_connect_says_what_the_broker_can_do(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    lines = deployment.run("check", "--connect").stdout.splitlines()
    assert not [line for line in lines if line.startswith("no ")], "no normal limit is shown as a fault"
    assert any(line.startswith("-   taking over from dead clients: ") for line in lines), lines
    found = {one["ability"]: one for one in deployment.lines("check", "--connect")}
    assert "QpidJMS" in found["connection"]["text"]
    for name in ("transactions", "message selectors", "temporary queues", "browsing", "shared subscriptions"):
        assert found[name]["able"], found[name]
    assert found["InProgressDestination"]["able"]


def test_a_reply_queue_that_is_gone_does_not_keep_the_event(broker: Broker, deploy: Deploy) -> None:
    """The reply is in the transaction of its event."""
    deployment = deploy(broker)
    deployment.subscribe({"object": "Customer", "process": "processes:store", "reply": True})
    with deployment.connected() as client:
        gone = client.temporary("queue")
    with deployment.connected() as client:
        answers = client.temporary("queue")
        asked, ignored = (
            Message(json.dumps(customer(number)).encode(), "T", reply_to=str(queue))
            for number, queue in enumerate((answers, gone))
        )
        client.send(parse_destination(deployment.input), [asked, ignored])
        deployment.work()
        claim = wait_for(lambda: client.poller(answers).take(1, 0), what="the reply")
        reply = client.access().open().load(claim.reference, 1 << 20)
    assert reply.correlation_id == asked.message_id
    assert deployment.archived() == ["0", "1"]


@AT_BROKER_J
def test_the_refusal_of_another_state_names_the_command_that_ends_it(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    deployment.fill(1)
    deployment.work()
    shutil.rmtree(deployment.directory / ".connector")  # made anew, without the state
    deployment.fill(1, first=1)
    with (
        pytest.raises(CapabilityError, match="another instance uses another state directory") as refused,
        InProcessAdapter(deployment.configuration),
    ):
        pass
    command = re.search(r"remove its mark: connector (receive .*)", str(refused.value))
    assert command is not None
    deployment.run(*shlex.split(command[1]))
    deployment.work()
    assert deployment.archived() == ["0", "1"]


@AT_ARTEMIS
@pytest.mark.parametrize("commit_queue", [None, "none"])
def test_a_copy_with_another_state_takes_nothing_that_is_in_progress(
    broker: Broker, deploy: Deploy, commit_queue: str | None
) -> None:
    deployment = deploy(broker, in_progress=True, provider={"commit_queue": commit_queue})
    other = deploy(broker)
    other.write("adapter.yaml", (deployment.directory / "adapter.yaml").read_text())
    other.write("open.all", "")
    deployment.fill(6, name="gate:all")
    with deployment.serving():
        wait_for((deployment.directory / "reached.all").exists, what="the process has a customer")
        try:
            with (
                pytest.raises(CapabilityError, match="with another state directory, has messages in "),
                InProcessAdapter(other.configuration) as robber,
            ):
                robber.drain()
        finally:
            deployment.write("open.all", "")
        wait_for(lambda: len(deployment.archived()) == 6, what="all customers are settled")
        if commit_queue is None:
            with pytest.raises(CapabilityError, match="another instance uses another state directory"):
                InProcessAdapter(other.configuration).start()
    assert other.calls() == []
    deployment.finish(6)


# -- delays --------------------------------------------------------------------------------------------------

DELAY = 4.0
"""Seconds."""


def delay_by_a_rule(deployment: BrokerDeployment) -> None:
    """Delays what is sent for customers."""
    rule = f"static_metaobject: MO\nrules:\n  Customer_Create: {{DeliveryDelay: {DELAY * 1000:.0f}}}\n"
    deployment.write("metaobjects/rules.yaml", rule)
    deployment.change("connector", ConfigurationMetaObject="MO")


def test_a_message_comes_in_its_time(broker: Broker, deploy: Deploy) -> None:
    """That of a command, and those that the adapter sends by a rule."""
    deployment = deploy(broker)
    delay_by_a_rule(deployment)
    lines = deployment.run("check", "--connect").stdout.splitlines()
    assert any(line.startswith("yes delivery delay: kept: ") for line in lines), lines
    deployment.fill(5)
    began = time.monotonic()
    deployment.work()
    deployment.run("send", deployment.input, "--delay", f"{DELAY * 1000:.0f}", body="late")
    there = deployment.bodies(deployment.input), deployment.bodies(deployment.sink)
    assert there == ([], []) or time.monotonic() - began >= DELAY
    (got,) = deployment.lines("receive", deployment.input, "--wait", "60000")
    assert got["body"] == "late"
    wait_for(lambda: len(deployment.bodies(deployment.sink)) == 5, what="what was sent")
    assert time.monotonic() - began >= DELAY
    deployment.finish(5)


def test_a_broker_that_delivers_at_once_is_found_out(classic: Broker, deploy: Deploy) -> None:
    deployment = deploy(classic)
    deployment.fill(1)
    reason = "the broker delivers at once: "
    answer = deployment.run("send", deployment.input, "--delay", "5000", body="late", status=1)
    assert reason in answer.stderr
    assert "connector check --connect" in answer.stderr
    delay_by_a_rule(deployment)
    deployment.run("check")
    assert f"no  delivery delay: {reason}" in deployment.run("check", "--connect", status=1).stdout
    with pytest.raises(CapabilityError, match=reason):
        deployment.work()
    assert (deployment.customers(deployment.input), deployment.calls()) == (["0"], [])


# -- topics --------------------------------------------------------------------------------------------------


def subscribed(broker: Broker, deploy: Deploy) -> BrokerDeployment:
    """A deployment whose input is a subscription of a topic, with a name of its own."""
    deployment = deploy(broker)
    entry = {"destination": f"topic://{TOPIC}", "subscription": deployment.name}
    deployment.change("connector", InputDestination=[entry])
    return deployment


def publish(deployment: BrokerDeployment, numbers: range, name: str = "") -> None:
    messages = [Message(json.dumps(customer(number, name)).encode(), "T") for number in numbers]
    with deployment.connected() as connection:
        connection.send(parse_destination(f"topic://{TOPIC}"), messages)


def unsubscribe(deployment: BrokerDeployment, name: str = "") -> None:
    """Removes the subscription. A busy broker may end the consumers of a stopped instance a moment later."""
    name = name or f"{deployment.name}.{TOPIC}.{deployment.name}"

    def is_done() -> bool:
        answer = deployment.run("unsubscribe", "--subscription", name, status=None)
        assert answer.returncode == 0 or "active consumers" in answer.stderr, answer.stderr
        return answer.returncode == 0

    wait_for(is_done, what="the subscription is removed")


def test_two_instances_share_a_topic(broker: Broker, deploy: Deploy) -> None:
    deployment = subscribed(broker, deploy)
    with deployment.serving():
        with deployment.serving():
            publish(deployment, range(60), "sleep:0.02")
            deployment.wait_for_calls(60)
        publish(deployment, range(60, 70))
        deployment.wait_for_calls(70)
    publish(deployment, range(70, 75))
    deployment.work()
    calls = [customer for customer, _ in deployment.calls()]
    assert sorted(calls, key=int) == [str(number) for number in range(75)]
    assert sorted(map(int, deployment.customers(deployment.archive))) == list(range(75))
    unsubscribe(deployment)


def test_an_earlier_subscription_keeps_its_name_and_the_commands_know_it(
    broker: Broker, deploy: Deploy
) -> None:
    deployment = subscribed(broker, deploy)
    deployment.run("subscribe", f"topic://{TOPIC}", "--subscription", deployment.name, "--shared")
    (record,) = (deployment.directory / ".connector/state/subscriptions").iterdir()
    known = json.loads(record.read_text())
    of_version_0_3_0 = {key: known[key] for key in ("client_id", "subscription", "shared")}
    record.write_text(json.dumps(of_version_0_3_0))
    publish(deployment, range(3))
    deployment.work()
    assert deployment.archived() == ["0", "1", "2"]
    found = {one["destination"]: one for one in deployment.lines("queues")}
    topic = found[f"topic://{TOPIC}"]
    assert (topic["role"], topic["waiting"]) == ("input", None)
    (one,) = topic["subscriptions"]
    assert (one["subscription"], one["shared"], one["client_id"]) == (deployment.name, True, "")
    abilities = {one["ability"]: one for one in deployment.lines("check", "--connect")}
    assert abilities["shared subscriptions"]["needed"]
    assert abilities[f"subscription {deployment.name} of topic://{TOPIC}"]["able"]
    unsubscribe(deployment, deployment.name)


def test_a_changed_selector_does_not_drop_what_waits(broker: Broker, deploy: Deploy) -> None:
    deployment = subscribed(broker, deploy)

    def select(selector: str) -> None:
        entry = {"destination": f"topic://{TOPIC}", "subscription": deployment.name, "selector": selector}
        deployment.change("connector", InputDestination=[entry])

    select("n IS NULL")
    deployment.work()
    publish(deployment, range(5))
    select("n IS NULL OR n = 1")
    deployment.run("check")
    lines = deployment.run("check", "--connect", status=1).stdout.splitlines()
    (said,) = [line for line in lines if line.startswith("no ")]
    with pytest.raises(SubscriptionError, match="'n IS NULL', not 'n IS NULL OR n = 1'") as refused:
        deployment.work()
    assert str(refused.value) in said
    select("n IS NULL")
    deployment.work()
    assert deployment.archived() == ["0", "1", "2", "3", "4"]
    select("n IS NULL OR n = 1")
    unsubscribe(deployment, str(refused.value).rpartition(" --subscription ")[2])
    deployment.work()
    publish(deployment, range(5, 7))
    deployment.work()
    assert deployment.archived() == ["0", "1", "2", "3", "4", "5", "6"]
    answer = deployment.run("unsubscribe", "--subscription", deployment.name, status=1)
    assert (
        f"connector unsubscribe --subscription {deployment.name}.{TOPIC}.{deployment.name}" in answer.stderr
    )
    unsubscribe(deployment)


def test_applications_do_not_share_a_subscription_of_one_name(broker: Broker, deploy: Deploy) -> None:
    deployments = [subscribed(broker, deploy) for _ in range(2)]
    for deployment in deployments:
        entry = {"destination": f"topic://{TOPIC}", "subscription": "all"}
        deployment.change("connector", InputDestination=[entry])
        deployment.work()
    publish(deployments[0], range(5))
    for deployment in deployments:
        deployment.work()
        assert deployment.archived() == ["0", "1", "2", "3", "4"]
        unsubscribe(deployment, f"{deployment.name}.{TOPIC}.all")


def test_a_program_makes_its_subscription_anew(broker: Broker, deploy: Deploy) -> None:
    """JMS 2.0, 8.3.3: another selector under the name."""
    deployment = deploy(broker)
    name = ["--subscription", "daily", "--client-id", deployment.name]
    prices = f"topic://{TOPIC}"
    deployment.run("subscribe", prices, *name, "--selector", "n IS NULL")
    deployment.run("send", prices, body="lost")
    deployment.run("subscribe", prices, *name)
    deployment.run("send", prices, body="kept")
    (got,) = deployment.lines("receive", prices, *name, "--wait", "60000")
    assert got["body"] == "kept"
    deployment.run("unsubscribe", *name)


def test_a_shared_and_an_unshared_subscription_exclude_each_other(broker: Broker, deploy: Deploy) -> None:
    """JMS 2.0, 8.3.4."""
    deployment = deploy(broker)
    name = ["--subscription", "daily", "--client-id", deployment.name]
    prices = f"topic://{TOPIC}"
    for own, other in ([], ["--shared"]), (["--shared"], []):
        deployment.run("subscribe", prices, *name, *own)
        for command in ("subscribe", "receive"):
            answer = deployment.run(command, prices, *name, *other, status=1)
            assert "the subscription 'daily' is " in answer.stderr
            remedy = f"connector unsubscribe --subscription daily --client-id {deployment.name}"
            assert remedy in answer.stderr
        deployment.run("send", prices, body="7")
        (got,) = deployment.lines("receive", prices, *name, *own, "--wait", "60000")
        assert got["body"] == "7"
        deployment.run("unsubscribe", *name)


@AT_ARTEMIS
@pytest.mark.process
def test_a_killed_replay_goes_on(broker: Broker, deploy: Deploy) -> None:
    """The second of two commits is killed."""
    deployment, count = deploy(broker), 70
    error, target = deployment.error, deployment.input
    deployment.fill(count, name="raise:no account")
    deployment.work()
    (group,) = deployment.lines("errors")
    assert (group["kind"], group["count"]) == ("refused", count)
    given = ["--group", group["group"], "--yes"]
    fault = "settle.committing:2=kill"
    with PipedProcess("replay", *given, cwd=deployment.directory, CONNECTOR_FAULT=fault) as process:
        process.communicate(timeout=240)
    assert process.wait() == -signal.SIGKILL
    wait_for(
        lambda: len(deployment.customers(error) + deployment.customers(target)) == count,
        what="the broker has rolled back",
    )
    left = len(deployment.customers(error))
    assert left == count - 50
    done = {"matched": left, "moved": left, "to": {f"queue://{target}": left}}
    assert deployment.lines("replay", *given, "--expect", str(left)) == [done]
    assert deployment.customers(error) == []
    assert Counter(deployment.customers(target)) == {str(number): 1 for number in range(count)}


def test_a_body_in_error_is_corrected(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    deployment.fill(2, name="raise:no account")
    deployment.work()
    (bad,) = (one for one in deployment.lines("browse", deployment.error) if '"0"' in one["body"])
    given = ("replay", "--id", bad["JMSMessageID"], "--body", "-")
    expected = {"matched": 1, "moved": 0, "to": {f"queue://{deployment.input}": 1}}
    body = json.dumps(customer(7))
    assert deployment.lines(*given, body=body) == [expected]
    assert deployment.lines(*given, "--yes", body=body) == [{**expected, "moved": 1}]
    assert deployment.customers(deployment.error) == ["1"]
    (old,) = deployment.messages(deployment.archive)
    assert (old.message_id, old.properties["connector_outcome"]) == (bad["JMSMessageID"], "discarded")
    deployment.work()
    assert sorted(deployment.customers(deployment.archive)) == ["0", "7"]
    assert deployment.customers(deployment.sink) == ["7"]
    assert deployment.run(*given, "--yes", body=body, status=1).stdout == ""
