"""An application that is away: its events come again, and none is lost, fails or is published twice.

Kills at the steps of such an event, at each store and in each order: tests/crashing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment
from tests.waiting import now_ms, until_past, wait_for

RULES = {"attempts": 10_000, "first": "50ms", "most": "200ms"}
_LONGEST = 200


def away(
    deploy: Deploy, number: int, group: str = "", **connector: object
) -> tuple[CrashDeployment, list[str]]:
    """A deployment whose application is away, and events for it."""
    deployment = deploy(connector=connector, store={"retry_later": RULES})
    (deployment.directory / "away").touch()
    return deployment, deployment.fill("in", ["away:away"] * number, group=group)


def assert_all_published(deployment: CrashDeployment, ids: Sequence[str]) -> None:
    assert deployment.count("error") == 0
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert deployment.leftovers() == []


@pytest.mark.parametrize(
    ("provider_type", "policy", "faults"),
    [
        ("dropbox", "FailOnStartup", ["settle.committing", "delayed.move", "done"]),
        ("sqlite", "Ignore", ["settle.committing", "done"]),
        ("postgresql", "LogError", ["done"]),
    ],
)
def test_no_policy_for_events_in_doubt_keeps_them(deploy: Deploy, policy: str, faults: Sequence[str]) -> None:
    in_progress = {"InProgressDestination": "queue://busy", "InDoubtEvents": policy, "order": "none"}
    deployment, ids = away(deploy, 10, **in_progress)
    for fault in faults:
        until_past(now_ms() + _LONGEST)  # each delay is over that began before
        deployment.kill_while_paused_at(fault)
    assert deployment.count("error") == deployment.count("archive") == 0
    (deployment.directory / "away").unlink()
    wait_for(lambda: deployment.drain() and deployment.count("archive") == len(ids), 60, "the events")
    assert_all_published(deployment, ids)
    assert deployment.count("busy") == 0


@pytest.mark.parametrize(("provider_type", "order"), [("dropbox", "destination"), ("postgresql", "group")])
def test_two_instances_outlast_it_too(deploy: Deploy, order: str) -> None:
    window = {"DuplicateEventElimination": True, "PollQuantity": 5}
    deployment, ids = away(deploy, 20, "x" if order == "group" else "", order=order, **window)
    runs = [deployment.start(), deployment.start()]
    for number in range(4):
        enough = len(deployment.deliveries()) + 4
        wait_for(lambda enough=enough: len(deployment.deliveries()) >= enough, 60, "tries")  # type: ignore[misc]
        runs[number % 2].kill_everything()
        runs[number % 2] = deployment.start()
    assert deployment.count("error") == deployment.count("archive") == 0
    (deployment.directory / "away").unlink()
    deployment.await_archived(ids)
    for run in runs:
        run.stop()
    assert_all_published(deployment, ids)
    ends = [one.id for one in deployment.deliveries() if one.word == "end"]
    assert Counter(ends) == dict.fromkeys(ids, 1), "no run was killed after that"
    assert order == "destination" or ends == ids, "the order of a destination holds within an instance"
