"""What an adapter gives back never gets into the dead letters of a real broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.servers.broker import FEW

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment

pytestmark = pytest.mark.process

_FEW: dict[str, Any] = {"ends": FEW, "provider": {"redelivery_limit": 3}}


def asked(deployment: BrokerDeployment, number: int) -> int:
    """How often the process was called for a customer."""
    return sum(customer == str(number) for customer, _ in deployment.calls())


def test_an_inactive_process_of_a_service_gets_every_event_when_it_is_active(
    broker: Broker, deploy: Deploy
) -> None:
    deployment = deploy(broker, connector={"PollFrequency": 100}, **_FEW)
    (deployment.directory / "flag").touch()
    deployment.fill(20)
    deployment.fill(1, first=20, name="inactive:flag")
    deployment.fill(29, first=21)
    service = deployment.start()
    deployment.wait_for(lambda: asked(deployment, 20) >= 7, "seven calls")
    assert deployment.messages("DLQ") == []
    assert "messages are held, because the broker would soon put them aside" in deployment.log()
    ended = [line for line in deployment.log().splitlines() if "a poll ended early" in line]
    assert len(ended) == 1, "one line a minute"
    (deployment.directory / "flag").unlink()
    deployment.wait_for_calls(50)
    service.stop()
    deployment.finish(50, twice=20, inactive=[20])
    assert [name for name in map(str, range(50)) if asked(deployment, int(name)) > 1] == ["20"]


def test_kills_cost_no_event(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker, **_FEW)
    deployment.fill(4)
    for _ in range(7):
        deployment.start("--drain", fault="claim.noted=killgroup").wait()
    deployment.finish(4)
