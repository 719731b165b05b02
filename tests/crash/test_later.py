"""An application that is away: its events come again, and none is lost, fails or is published twice."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence
from functools import partial

import pytest

from tests.crash.conftest import EVERY_PROVIDER, Deploy
from tests.crash.harness import CrashDeployment
from tests.waiting import now_ms, until_past, wait_for

IN_THE_DRIVER = {"claim": 5, "settle.record": 1, "settle.committing": 1, "settle.finished": 1}
IN_A_TASK = ("begin", "done")
OF_FILES = {"delayed.move": 1}
RULES = {"attempts": 10_000, "first": "50ms", "most": "200ms"}
_LONGEST = 200


def delayed(deployment: CrashDeployment) -> int:
    connection = deployment.provider.existing()
    try:
        return sum(
            one.delayed + one.waiting for one in connection.destinations() if one.destination.name == "in"
        )
    finally:
        connection.close()


def await_due() -> None:
    """Waits until each delay is over that began before."""
    until_past(now_ms() + _LONGEST)


def outlast(
    deployment: CrashDeployment, provider_type: str, ids: Sequence[str], in_a_task: Sequence[str]
) -> None:
    """Kills runs at each place while the application is away. Then lets the application come back."""
    places = {**IN_THE_DRIVER, **(OF_FILES if provider_type == "dropbox" else {})}
    kills = 0
    for place, nth in places.items():
        await_due()
        run = deployment.start("--drain", fault=f"{place}:{nth}=kill")
        kills += run.wait() == -signal.SIGKILL
        run.await_gone()
    for place in in_a_task:
        await_due()
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


@pytest.mark.parametrize("provider_type", EVERY_PROVIDER)
def test_events_outlast_an_application_that_is_away(deploy: Deploy, provider_type: str) -> None:
    """Orders, duplicates and in-progress destinations with it are those of tests/crashing."""
    deployment = deploy(
        java=False, connector={"DuplicateEventElimination": True}, store={"retry_later": RULES}
    )
    (deployment.directory / "away").touch()
    ids = deployment.fill("in", ["away:away"] * 10)
    outlast(deployment, provider_type, ids, IN_A_TASK)
    ends = [one.id for one in deployment.deliveries() if one.word == "end"]
    assert list(dict.fromkeys(ends)) == ids, "in the order of the destination"


@pytest.mark.parametrize(
    ("provider_type", "policy"),
    [("dropbox", "FailOnStartup"), ("sqlite", "Ignore"), ("postgresql", "LogError")],
)
def test_no_policy_for_events_in_doubt_keeps_them(deploy: Deploy, provider_type: str, policy: str) -> None:
    deployment = deploy(
        java=False,
        connector={"InProgressDestination": "queue://busy", "InDoubtEvents": policy, "order": "none"},
        store={"retry_later": RULES},
    )
    (deployment.directory / "away").touch()
    ids = deployment.fill("in", ["away:away"] * 10)
    outlast(deployment, provider_type, ids, IN_A_TASK[1:])  # a delivery that was begun stays in doubt
    assert deployment.count("busy") == 0


@pytest.mark.parametrize(("provider_type", "order"), [("dropbox", "destination"), ("postgresql", "group")])
def test_two_instances_outlast_it_too(deploy: Deploy, order: str) -> None:
    deployment = deploy(
        java=False,
        connector={"order": order, "DuplicateEventElimination": True, "PollQuantity": 5},
        store={"retry_later": RULES},
    )
    (deployment.directory / "away").touch()
    ids = deployment.fill("in", ["away:away"] * 20, group="x" if order == "group" else "")
    runs = [deployment.start(), deployment.start()]
    for number in range(4):
        enough = len(deployment.deliveries()) + 4
        wait_for(partial(_has_tried, deployment, enough), 60, "tries")
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


def _has_tried(deployment: CrashDeployment, number: int) -> bool:
    return len(deployment.deliveries()) >= number
