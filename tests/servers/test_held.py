"""What goes back to a real broker, comes again, and never gets into the dead letters of the broker."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from connector.brokers.engine import silence
from connector.brokers.engine.connection import RemoteConnection
from connector.brokers.jms.factory import Factory
from connector.brokers.jms.urls import QPID
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.service.assembly import make_provider
from connector.status import ReturnCode
from connector.testing.deployment import InProcessAdapter
from tests.proxy import proxy_to
from tests.runs import customer
from tests.servers.broker import FEW, PASSWORD, REFUSED, SMALL, USER
from tests.servers.conftest import AT_ARTEMIS, AT_BROKER_J
from tests.waiting import beside, now_ms, until_past, wait_for

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment

_FEW: dict[str, Any] = {"ends": FEW, "provider": {"redelivery_limit": 3}}
_OPTIONS = "jms.sendTimeout=500"
_PATIENT = "jms.sendTimeout=600000"
"""Artemis lets a client wait that sends to a full queue."""


def test_an_inactive_process_gets_every_event_when_it_is_active(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker, **_FEW)
    flag = deployment.raise_flag()
    deployment.fill(5)
    deployment.fill(1, first=5, name="inactive:flag")
    deployment.fill(8, first=6)

    def asked(number: int) -> int:
        return sum(customer == str(number) for customer, _ in deployment.calls())

    with InProcessAdapter(deployment.configuration) as adapter:
        while asked(5) < 7:
            adapter.poll()
    assert deployment.messages("DLQ") == []
    flag.unlink()
    deployment.finish(14, twice=20, inactive=[5])
    assert [number for number in range(14) if asked(number) > 1] == [5]


def test_what_dead_adapters_had_stays_out_of_the_dead_letters(broker: Broker, deploy: Deploy) -> None:
    with proxy_to(broker.port) as proxy:
        deployment = deploy(broker, port=proxy.port, **_FEW)
        deployment.fill(4)
        for cycle in range(7):
            connection = make_provider(deployment.configuration).connect(deployment.name, "one")
            assert isinstance(connection, RemoteConnection)
            poller = connection.poller(parse_destination(f"queue://{deployment.input}"))
            while (claims := poller.claim(cycle, range(10))) and connection.hold(claims):
                pass
            proxy.cut()  # as the end of a process does
            connection.abandon()
        deployment.finish(4)


@AT_BROKER_J
@pytest.mark.process
def test_a_paused_input_leaves_its_messages_to_others(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    deployment.fill(5)
    run = deployment.start()
    deployment.wait_for(lambda: len(deployment.archived()) == 5, "the first events")
    deployment.run("pause", deployment.input, "--reason", "the shop is closed")
    deployment.wait_for_log("paused by an operator")
    deployment.fill(6, first=5)
    (taken,) = deployment.lines("receive", deployment.input)
    assert json.loads(taken["body"])["CustomerId"] == "5", "no consumer has fetched it ahead"
    deployment.run("resume", "--all")
    deployment.wait_for(lambda: len(deployment.archived()) == 10, "the other events")
    run.stop()
    assert "5" not in deployment.archived()


# -- a queue that takes no copy ------------------------------------------------------------------------------


def fill(deployment: BrokerDeployment, queue: str) -> None:
    with deployment.connected() as connection:
        connection.send(parse_destination(f"queue://{queue}"), [Message(b"in the way", "T")])


def free(deployment: BrokerDeployment, queue: str) -> None:
    with deployment.connected() as connection:
        poller = connection.poller(parse_destination(f"queue://{queue}"))
        (claim,) = wait_for(lambda: poller.claim(1, range(1)))
        assert claim.reference.message.body == b"in the way"
        connection.settle([Settlement(claim)])


@pytest.mark.parametrize(("which", "in_progress"), [("archive", False), ("error", True)])
def test_a_message_waits_until_the_queue_of_its_copy_takes_it(
    broker: Broker, deploy: Deploy, which: str, in_progress: bool
) -> None:
    changes = {f"{which.capitalize()}Destination": f"queue://NAME{SMALL}"}
    deployment = deploy(broker, in_progress=in_progress, options=_OPTIONS, connector=changes)
    queue = f"{deployment.name}{SMALL}"
    fill(deployment, queue)
    deployment.fill(1, name="raise:no" if which == "error" else "")
    for _ in range(2):
        reason = deployment.work(ReturnCode.APPRESPONSETIMEOUT)
        assert "nothing was settled" in reason
        assert queue in reason
    assert deployment.bodies(queue) == ["in the way"]
    free(deployment, queue)
    place: dict[str, Any] = {which: queue}
    deployment.finish(1, failed=[0] if which == "error" else [], **place)


@AT_ARTEMIS
def test_a_send_waits_for_room_and_for_an_answer_as_long_as_the_url_says(
    broker: Broker, deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "ANSWER", 0.1)
    deployment = deploy(broker)
    full, other = f"{deployment.name}{SMALL}", deployment.input
    fill(deployment, full)
    with proxy_to(broker.port) as proxy:
        factory = Factory(QPID, f"{broker.url_at(proxy.port)}?{_PATIENT}", USER, PASSWORD)
        with contextlib.closing(broker.provider(factory=factory).connect()) as connection:
            session = connection.broker.session()

            def send(queue: str) -> None:
                session.send(parse_destination(f"queue://{queue}"), Message(b"waits", "T"))
                session.check_sends()

            send(other)
            ends: dict[str, Callable[[], object]] = {full: lambda: free(deployment, full), other: proxy.go_on}
            for queue, end in ends.items():
                if queue == other:
                    proxy.stall()
                sent = beside(send, queue)
                until_past(now_ms() + 1000)  # ten times as long as a broker may be silent here
                assert not sent.done()
                end()
                sent.result(240)
            session.commit()
    assert deployment.bodies(full) == ["waits"]
    assert deployment.bodies(other) == ["waits"] * 2


@AT_ARTEMIS
@pytest.mark.parametrize("in_progress", [True, False])
def test_a_full_destination_delays_no_other_input(broker: Broker, deploy: Deploy, in_progress: bool) -> None:
    changes = {"ErrorDestination": f"queue://NAME{SMALL}"}
    deployment = deploy(broker, in_progress=in_progress, options=_PATIENT, connector=changes)
    queue, urgent = f"{deployment.name}{SMALL}", f"{deployment.name}.urgent"
    deployment.change("connector", InputDestination=[f"queue://{deployment.input}", f"queue://{urgent}"])
    fill(deployment, queue)
    deployment.fill(1, name="raise:no")
    deployment.fill(1, first=1, queue=urgent)
    with deployment.serving():
        for number in range(1, 5):
            deployment.wait_for(lambda: deployment.archived()[-1:] == [str(number)], "another event")  # noqa: B023
            deployment.fill(1, first=number + 1, queue=urgent)
        assert deployment.bodies(queue) == ["in the way"]
        free(deployment, queue)
        deployment.wait_for(lambda: deployment.customers(queue) == ["0"], "the event that waited")
    deployment.finish(6, failed=[0], error=queue)


# -- a queue that is silent ----------------------------------------------------------------------------------


@AT_ARTEMIS
def test_a_settlement_waits_for_its_messages_and_a_restart_calls_nothing_again(
    broker: Broker, deploy: Deploy, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = deploy(broker, in_progress=True, connector={"stop_timeout": "1s"})
    deployment.fill(8, name="sleep:0.5")
    with deployment.serving():
        deployment.wait_for(lambda: bool(deployment.calls()), "the first call")
        broker.pause(deployment.in_progress)
        deployment.wait_for(lambda: "stays open" in caplog.text, "the settlement")
        assert deployment.customers(deployment.archive) == []
        assert len(deployment.customers(deployment.in_progress)) == 8, "a browser sees a paused queue"
    with deployment.serving():  # recovery in the silence
        deployment.wait_for(lambda: "the takeover is tried again" in caplog.text, "the takeover")
        broker.resume(deployment.in_progress)
        deployment.wait_for(lambda: len(deployment.archived()) == 8, "the settlement")
    deployment.finish(8)


@AT_ARTEMIS
def test_a_full_archive_uses_up_no_delivery(broker: Broker, deploy: Deploy) -> None:
    changes = {"ArchiveDestination": f"queue://NAME{SMALL}"}
    deployment = deploy(broker, options=_OPTIONS, connector=changes, **_FEW)
    queue = f"{deployment.name}{SMALL}"
    fill(deployment, queue)
    deployment.fill(1)
    with InProcessAdapter(deployment.configuration) as adapter:
        for _ in range(8):
            assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
    assert deployment.bodies("DLQ") == []
    free(deployment, queue)
    deployment.finish(1, archive=queue)


# -- a message that the broker refuses for good --------------------------------------------------------------


def fill_with(deployment: BrokerDeployment, number: int, **headers: Any) -> None:
    """Sends a customer with headers of its own."""
    body = json.dumps(customer(number)).encode()
    with deployment.connected() as connection:
        connection.send(parse_destination(f"queue://{deployment.input}"), [Message(body, "T", **headers)])


@pytest.mark.parametrize("in_progress", [True, False])
def test_a_reply_that_the_broker_refuses_fails_its_event_alone(
    broker: Broker, deploy: Deploy, in_progress: bool
) -> None:
    deployment = deploy(broker, in_progress=in_progress, store={"reply": True})
    deployment.fill(2)
    fill_with(deployment, 2, reply_to=f"queue://{REFUSED}")
    deployment.fill(2, first=3)
    deployment.work()
    (failed,) = deployment.messages(deployment.error)
    assert "the broker refuses a message of its settlement" in str(failed.properties["connector_reason"])
    deployment.finish(5, failed=[2])


@AT_ARTEMIS
@pytest.mark.parametrize("in_progress", [True, False])
def test_a_message_of_a_subscription_that_the_broker_refuses_fails_its_event_alone(
    broker: Broker, deploy: Deploy, in_progress: bool
) -> None:
    deployment = deploy(broker, in_progress=in_progress)
    deployment.fill(2)
    fill_with(deployment, 2, correlation_id="odd")
    deployment.fill(2, first=3)
    with broker.refusing(deployment.sink, "odd"):
        deployment.work()
    (failed,) = deployment.messages(deployment.error)
    assert "not this one" in str(failed.properties["connector_reason"])
    deployment.finish(5, failed=[2])
