"""An application that is away: its events come again, and none is lost, fails or is published twice."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.crash.conftest import EVERY_PROVIDER, Deploy
from tests.crash.harness import CrashDeployment
from tests.waiting import wait_for

IN_THE_DRIVER = {"claim": 5, "settle.record": 1, "settle.committing": 1, "settle.finished": 1}
IN_A_TASK = ("begin", "done")
OF_FILES = {"delayed.move": 1}
RULES = {"attempts": 10_000, "first": "50ms", "most": "200ms"}


def delayed(deployment: CrashDeployment) -> int:
    connection = deployment.provider.existing()
    try:
        return sum(
            one.delayed + one.waiting for one in connection.destinations() if one.destination.name == "in"
        )
    finally:
        connection.close()


def outlast(
    deployment: CrashDeployment, provider_type: str, ids: Sequence[str], in_a_task: Sequence[str]
) -> None:
    """Kills runs at each place while the application is away. Then lets the application come back."""
    places = {**IN_THE_DRIVER, **(OF_FILES if provider_type == "dropbox" else {})}
    kills = 0
    for place, nth in places.items():
        time.sleep(0.3)  # until some are due
        run = deployment.start("--drain", fault=f"{place}:{nth}=kill")
        kills += run.wait() == -signal.SIGKILL
        run.await_gone()
    for place in in_a_task:
        time.sleep(0.3)
        run = deployment.start("--drain", fault=f"{place}:1=pause")
        run.await_pause(place)
        run.kill_everything()
    assert kills >= len(places) - 1, "a poll in order may claim fewer"
    assert deployment.count("error") == deployment.count("archive") == 0
    come_back(deployment)
    assert_all_published(deployment, ids)


def come_back(deployment: CrashDeployment) -> None:
    """Drains until nothing waits, now that the application is there."""
    (deployment.directory / "away").unlink()

    def is_done() -> bool:
        deployment.drain()
        return not delayed(deployment)

    wait_for(is_done, 60)


def assert_all_published(deployment: CrashDeployment, ids: Sequence[str]) -> None:
    assert deployment.count("error") == 0
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert deployment.leftovers() == []


@pytest.mark.parametrize(
    ("order", "eliminates"), [("none", True), ("none", False), ("destination", True), ("group", False)]
)
@pytest.mark.parametrize("provider_type", EVERY_PROVIDER)
def test_events_outlast_an_application_that_is_away(
    deploy: Deploy, provider_type: str, order: str, *, eliminates: bool
) -> None:
    deployment = deploy(
        java=False,
        connector={"order": order, "DuplicateEventElimination": eliminates},
        store={"retry_later": RULES},
    )
    (deployment.directory / "away").touch()
    groups = ("x", "y") if order == "group" else ("",)
    ids = [one for group in groups for one in deployment.fill("in", ["away:away"] * 10, group=group)]
    outlast(deployment, provider_type, ids, IN_A_TASK)
    if order == "destination":
        ends = [one.id for one in deployment.deliveries() if one.word == "end"]
        assert list(dict.fromkeys(ends)) == ids


@pytest.mark.parametrize("policy", ["Reprocess", "FailOnStartup", "Ignore", "LogError"])
@pytest.mark.parametrize("provider_type", EVERY_PROVIDER)
def test_no_policy_for_events_in_doubt_keeps_them(deploy: Deploy, provider_type: str, policy: str) -> None:
    deployment = deploy(
        java=False,
        connector={"InProgressDestination": "queue://busy", "InDoubtEvents": policy, "order": "none"},
        store={"retry_later": RULES},
    )
    (deployment.directory / "away").touch()
    ids = deployment.fill("in", ["away:away"] * 10)
    is_repeated = policy == "Reprocess"  # otherwise an event whose delivery was begun stays in doubt
    outlast(deployment, provider_type, ids, IN_A_TASK if is_repeated else IN_A_TASK[1:])
    assert deployment.count("busy") == 0


@pytest.mark.parametrize(("order", "eliminates"), [("none", True), ("destination", False), ("group", True)])
@pytest.mark.parametrize("provider_type", EVERY_PROVIDER)
def test_two_instances_outlast_it_too(
    deploy: Deploy, provider_type: str, order: str, *, eliminates: bool
) -> None:
    deployment = deploy(
        java=False,
        connector={"order": order, "DuplicateEventElimination": eliminates, "PollQuantity": 5},
        store={"retry_later": RULES},
    )
    (deployment.directory / "away").touch()
    ids = deployment.fill("in", ["away:away"] * 20, group="x" if order == "group" else "")
    runs = [deployment.start(), deployment.start()]
    for number in range(4):
        tried = len(deployment.deliveries())
        wait_for(lambda tried=tried: len(deployment.deliveries()) > tried + 3, 60, "tries")
        runs[number % 2].kill_everything()
        runs[number % 2] = deployment.start()
    assert deployment.count("error") == deployment.count("archive") == 0
    (deployment.directory / "away").unlink()
    wait_for(lambda: deployment.count("archive") == len(ids), 60, "the events")
    for run in runs:
        run.stop()
    assert_all_published(deployment, ids)
    ends = Counter(one.id for one in deployment.deliveries() if one.word == "end")
    assert ends == dict.fromkeys(ids, 1), "no run was killed after that"
