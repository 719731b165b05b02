"""Messages in error at real brokers: the commands find them, move them, and go on after a kill."""

from __future__ import annotations

import signal
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.forked_command import PipedProcess
from tests.servers.conftest import AT_ARTEMIS
from tests.servers.test_topics import publish, subscribed, unsubscribes
from tests.waiting import wait_for

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment

pytestmark = pytest.mark.process

_COUNT: Final = 130
"""Messages, for three commits."""


def command(deployment: BrokerDeployment, *arguments: str, fault: str = "") -> int:
    """Runs a command in a process of its own. Returns its exit status."""
    with PipedProcess(*arguments, cwd=deployment.directory, CONNECTOR_FAULT=fault) as process:
        process.communicate(timeout=240)
    return process.wait()


def replay(deployment: BrokerDeployment, *arguments: str) -> dict[str, Any]:
    (document,) = deployment.lines("replay", *arguments)
    return document  # type: ignore[no-any-return]


@AT_ARTEMIS
def test_a_killed_command_goes_on(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    error = deployment.error
    deployment.fill(_COUNT, name="raise:no account")
    deployment.work()
    (group,) = deployment.lines("errors")
    assert (group["kind"], group["count"]) == ("refused", _COUNT)
    target = deployment.input
    arguments = ["replay", "--group", group["group"], "--yes"]
    for place in ("claim:60", "settle.committing", "settle.finished"):
        assert command(deployment, *arguments, fault=f"{place}=kill") == -signal.SIGKILL
        wait_for(
            lambda: len(deployment.customers(error) + deployment.customers(target)) == _COUNT,
            what="the broker has rolled back",
        )
    left = len(deployment.customers(error))
    assert left == _COUNT - 100
    (done,) = deployment.lines(*arguments, "--expect", str(left))
    assert done == {"matched": left, "moved": left, "to": {f"queue://{target}": left}}
    assert deployment.customers(error) == []
    assert Counter(deployment.customers(target)) == {str(number): 1 for number in range(_COUNT)}


@AT_ARTEMIS
def test_a_message_of_a_topic_goes_back_to_its_own_subscription(broker: Broker, deploy: Deploy) -> None:
    first, second = subscribed(broker, deploy), subscribed(broker, deploy)
    for one in (first, second):
        one.work()  # makes the subscription
    (first.directory / "broken").touch()
    publish(first, range(4), "away:broken")
    for one in (first, second):
        one.work()
    assert len(first.customers(first.error)) == 4
    assert len(second.customers(second.archive)) == 4
    done = replay(first, "--yes")
    assert (done["moved"], list(done["to"].values())) == (4, [4])
    assert next(iter(done["to"])).endswith(first.name)
    (first.directory / "broken").unlink()
    before = len(second.calls())
    for one in (first, second):
        one.work()
    assert first.archived() == ["0", "1", "2", "3"]
    assert first.leftovers() == []
    assert len(second.calls()) == before == 4
    for one in (first, second):
        wait_for(partial(unsubscribes, one), what="the subscription is removed")
