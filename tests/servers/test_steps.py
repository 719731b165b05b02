"""The whole tree of an adapter is killed with SIGKILL at each step, on a real broker.

The same steps, with other settings, are those of tests/brokers/engine/test_kills.py.
"""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.brokers.engine.steps import STEPS, STEPS_BEFORE_A_ROLLBACK, STEPS_IN_PROGRESS, runs_again
from tests.servers.conftest import in_turn

pytestmark = pytest.mark.process

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment

_COUNT = 12
"""Messages, more than a transaction holds."""


def kill_at(deployment: BrokerDeployment, step: str) -> None:
    status = deployment.start(fault=f"{step}=killgroup").wait(120)
    assert status == -signal.SIGKILL, deployment.log()[-3000:]


@in_turn("step", *STEPS)
def test_nothing_is_lost_and_nothing_runs_twice_without_need(
    broker: Broker, deploy: Deploy, step: str
) -> None:
    deployment = deploy(broker)
    deployment.fill(_COUNT)
    kill_at(deployment, step)
    deployment.finish(_COUNT, twice=runs_again(step))


@in_turn("step", *STEPS_BEFORE_A_ROLLBACK)
def test_a_done_event_of_a_transaction_that_was_rolled_back_does_not_run_again(
    broker: Broker, deploy: Deploy, step: str
) -> None:
    deployment = deploy(broker)
    (deployment.directory / "flag").touch()
    deployment.fill(2)
    deployment.fill(1, first=2, name="inactive:flag")
    deployment.fill(1, first=3)
    kill_at(deployment, step)
    (deployment.directory / "flag").unlink()
    before = _counted(deployment)
    deployment.finish(4, twice=before["2"], inactive=[2])
    assert [customer for customer, number in _counted(deployment).items() if number > 1] in ([], ["2"])


@in_turn("step", *STEPS_IN_PROGRESS)
def test_messages_in_progress_are_taken_over(broker: Broker, deploy: Deploy, step: str) -> None:
    deployment = deploy(broker, in_progress=True)
    deployment.fill(_COUNT)
    kill_at(deployment, step)
    deployment.finish(_COUNT, twice=runs_again(step))


def _counted(deployment: BrokerDeployment) -> Counter[str]:
    return Counter(customer for customer, _ in deployment.calls())
