"""A delivery delay at real brokers: Artemis and Broker-J keep it, Classic without a scheduler does not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.servers.conftest import in_turn
from tests.waiting import wait_for

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment

DELAY = 5.0
"""Seconds."""


def delay_by_a_rule(deployment: BrokerDeployment) -> None:
    """Delays what is sent for customers."""
    rule = f"static_metaobject: MO\nrules:\n  Customer_Create: {{DeliveryDelay: {DELAY * 1000:.0f}}}\n"
    deployment.write("metaobjects/rules.yaml", rule)
    deployment.change("connector", ConfigurationMetaObject="MO")


def test_a_message_comes_in_its_time(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    (line,) = (
        one for one in deployment.run("check", "--connect").stdout.splitlines() if "delivery delay" in one
    )
    assert line.startswith("yes delivery delay: kept: "), line
    deployment.run("send", deployment.input, body="at once")
    began = time.monotonic()
    deployment.run("send", deployment.input, "--delay", f"{DELAY * 1000:.0f}", "--count", "2", body="late")
    there = deployment.bodies(deployment.input)
    assert there == ["at once"] or time.monotonic() - began >= DELAY
    got = deployment.lines("receive", deployment.input, "--count", "3", "--wait", "60000")
    assert sorted(one["body"] for one in got) == ["at once", "late", "late"]
    assert time.monotonic() - began >= DELAY


@pytest.mark.process
@in_turn("in_progress", False, True)
def test_a_rule_delays_what_the_adapter_sends(broker: Broker, deploy: Deploy, in_progress: bool) -> None:
    deployment = deploy(broker, in_progress=in_progress)
    delay_by_a_rule(deployment)
    deployment.fill(5)
    began = time.monotonic()
    service = deployment.start()
    wait_for(lambda: len(deployment.bodies(deployment.archive)) == 5, what="the copies")
    wait_for(lambda: len(deployment.bodies(deployment.sink)) == 5, what="what was sent")
    assert time.monotonic() - began > DELAY
    service.stop()
    deployment.finish(5)


def test_a_broker_that_delivers_at_once_is_found_out(classic: Broker, deploy: Deploy) -> None:
    deployment = deploy(classic)
    deployment.fill(1)
    reason = "the broker delivers at once: "
    assert f"-   delivery delay: {reason}" in deployment.run("check", "--connect").stdout
    answer = deployment.run("send", deployment.input, "--delay", "5000", body="late", status=1)
    assert reason in answer.stderr
    assert "connector check --connect" in answer.stderr
    delay_by_a_rule(deployment)
    deployment.run("check")
    assert f"no  delivery delay: {reason}" in deployment.run("check", "--connect", status=1).stdout
    assert deployment.start("--drain").wait() == 1
    assert reason in deployment.log()
    assert deployment.customers(deployment.input) == ["0"]
    assert deployment.calls() == []
