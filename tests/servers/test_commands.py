"""The commands on real brokers. Those that another command shows run at one."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from typing import TYPE_CHECKING

import pytest

from connector.brokers.jars.locked import LOCK
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from tests.runs import customer
from tests.servers.broker import TOPIC
from tests.servers.conftest import AT_BROKER_J, resolved
from tests.waiting import wait_for

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy


def test_what_was_sent_is_browsed_and_received_with_all_headers(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    (sent,) = deployment.lines(
        "send", "notes" + deployment.name, "--type", "NOTE", "--correlation-id", "c-1", "--priority", "7",
        "--reply-to", "queue://answers", "--property", "flag:boolean=true", "--property", "b:byte=-3",
        "--property", "s:short=300", "--property", "i:int=70000", "--property", "l:long=5000000000",
        "--property", "f:float=1.5", "--property", "d:double=2.25", "--property", "t:string=ä",
        body="text ü",
    )  # fmt: skip
    (seen,) = deployment.lines("browse", "notes" + deployment.name)
    (got,) = deployment.lines("receive", "notes" + deployment.name, "--wait", "60000")
    for found in (seen, got):
        assert found["JMSMessageID"] == sent["JMSMessageID"]
        assert (found["JMSType"], found["JMSCorrelationID"], found["JMSPriority"]) == ("NOTE", "c-1", 7)
        assert (found["JMSReplyTo"], found["class"], found["body"]) == ("queue://answers", "T", "text ü")
        assert {name: found["properties"][name] for name in "bsilfdt"} == {
            "b": -3, "s": 300, "i": 70000, "l": 5000000000, "f": 1.5, "d": 2.25, "t": "ä",
        }  # fmt: skip
        assert found["property_types"]["s"] == "short"
        assert found["properties"]["flag"] is True
    assert deployment.lines("browse", "notes" + deployment.name) == []


def test_receive_acknowledges_as_asked(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    deployment.fill(2)
    for ack, left in (("none", 2), ("rollback", 2), ("auto", 0)):
        got = deployment.lines("receive", deployment.input, "--ack", ack, "--count", "5", "--wait", "2000")
        assert [json.loads(one["body"])["CustomerId"] for one in got] == ["0", "1"], ack
        assert len(deployment.customers(deployment.input)) == left, ack
    deployment.fill(2)
    assert len(deployment.lines("receive", deployment.input, "--ack", "client", "--count", "2")) == 2
    assert deployment.customers(deployment.input) == []


def test_a_selector_is_the_brokers_and_so_is_its_error(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    queue = deployment.input
    deployment.run("send", queue, "--property", "n:int=1", body="one")
    deployment.run("send", queue, "--property", "n:int=2", body="two")
    got = deployment.lines("receive", queue, "--selector", "n = 2", "--wait", "60000")
    assert [one["body"] for one in got] == ["two"]
    assert deployment.bodies(queue) == ["one"]
    answer = deployment.run("receive", queue, "--selector", "n = = 2", status=None)
    assert answer.returncode in (1, 2)
    assert "selector" in answer.stderr.lower()
    assert "Traceback" not in answer.stderr


def test_a_durable_subscription_keeps_messages(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    name = ["--subscription", f"sub-{deployment.name}"]
    for client, how in ((["--client-id", deployment.name], []), ([], ["--shared"])):
        deployment.run("subscribe", "topic://prices", *client, *name, *how)
        deployment.run("send", "topic://prices", body="7")
        got = deployment.lines("receive", "topic://prices", *client, *name, *how, "--wait", "60000")
        assert [one["body"] for one in got] == ["7"]
        deployment.run("unsubscribe", *name, *client)


@pytest.mark.parametrize("shared", [False, True])
def test_a_shared_and_an_unshared_subscription_exclude_each_other(
    broker: Broker, deploy: Deploy, shared: bool
) -> None:
    """JMS 2.0, 8.3.4."""
    deployment = deploy(broker)
    name = ["--subscription", "daily", "--client-id", deployment.name]
    kinds = [["--shared"], []] if shared else [[], ["--shared"]]
    deployment.run("subscribe", f"topic://{TOPIC}", *name, *kinds[0])
    for command in (["subscribe"], ["receive"]):
        answer = deployment.run(*command, f"topic://{TOPIC}", *name, *kinds[1], status=1)
        assert "the subscription 'daily' is " in answer.stderr
        assert f"connector unsubscribe --subscription daily --client-id {deployment.name}" in answer.stderr
    deployment.run("subscribe", f"topic://{TOPIC}", *name, *kinds[0])
    deployment.run("unsubscribe", *name)
    deployment.run("subscribe", f"topic://{TOPIC}", *name, *kinds[1])
    deployment.run("unsubscribe", *name)


def test_check_connect_sends_as_the_adapter_does(artemis: Broker, deploy: Deploy) -> None:
    """The client of ActiveMQ Classic, with a broker in Java, has no listener for sent messages."""
    deployment = deploy(artemis)
    classic = [
        "org.apache.activemq:activemq-client:6.1.7",
        "org.apache.activemq:activemq-broker:6.1.7",
        "org.slf4j:slf4j-nop:2.0.17",
    ]
    lock = resolved("classic", classic).file
    (deployment.directory / LOCK).write_text(lock.read_text())
    deployment.change(
        "provider",
        factory="org.apache.activemq.ActiveMQConnectionFactory",
        url="vm://classic?broker.persistent=false&broker.useJmx=false",
        packages=classic,
    )
    answer = deployment.run("check", "--connect")
    lines = answer.stdout.splitlines()
    (line,) = (one for one in lines if " transactions" in one)
    assert line.startswith("yes transactions: one message after the other"), answer.stdout
    assert [line for line in lines if line.startswith("-   shared subscriptions: ")], answer.stdout


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


def test_a_process_answers_a_request_of_another_program(broker: Broker, deploy: Deploy) -> None:
    """The reply is in the transaction of its event. A reply queue that is gone does not keep the event."""
    deployment = deploy(broker)
    (deployment.directory / "processes.py").write_text(
        "def store(customer, event):\n    return {**customer.as_dict(), 'Name': 'Ada'}\n"
    )
    deployment.subscribe({"object": "Customer", "process": "processes:store", "reply": True})
    with deployment.connected() as client:
        temporary = client.temporary("queue")
    asked = Message(json.dumps(customer(1)).encode(), "T", correlation_id="c-1")
    gone = Message(json.dumps(customer(2)).encode(), "T", reply_to=str(temporary))
    with deployment.connected() as client:
        answers = client.temporary("queue")
        asked.reply_to = str(answers)
        client.send(parse_destination(deployment.input), [asked, gone])
        deployment.work()
        poller = client.poller(answers)
        claim = wait_for(lambda: poller.take(1, 0), 120, "the reply")
        reply = client.access().open().load(claim.reference, 1 << 20)
    assert json.loads(reply.body)["Name"] == "Ada"
    assert reply.correlation_id == asked.message_id
    assert deployment.archived() == ["1", "2"], deployment.log()[-3000:]


@AT_BROKER_J
@pytest.mark.process
def test_the_refusal_of_another_state_names_the_command_that_ends_it(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    deployment.fill(1)
    deployment.work()
    shutil.rmtree(deployment.directory / ".connector")  # made anew, without the state
    deployment.fill(1, first=1)
    assert deployment.start("--drain").wait() == 1
    assert "another instance uses another state directory" in deployment.log()
    (command,) = set(re.findall(r"remove its mark: connector (receive .*)", deployment.log()))
    deployment.run(*shlex.split(command.strip().strip("\"'") if command.endswith('"') else command))
    deployment.work()
    assert deployment.archived() == ["0", "1"]
