"""Two adapters with `order: group` on one database keep the order of each group, also after a kill."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment, assert_settled_once
from tests.waiting import wait_for

JAVA = False

GROUPS = "abcdefgh"


@pytest.mark.parametrize("provider_type", ["sqlite", "postgresql"])
def test_two_adapters_share_the_groups_and_publish_each_in_order(deploy: Deploy) -> None:
    deployment = deploy(connector={"PollQuantity": 5, "order": "group"})
    runs = [deployment.start("--json") for _ in range(2)]
    for run in runs:
        run.await_start()
    groups = _send(deployment, 8)
    ids = [one for several in groups.values() for one in several]
    wait_for(lambda: deployment.count("archive") == len(ids), 120)
    for run in runs:
        run.signal_driver(signal.SIGTERM)
    assert [run.wait(120) for run in runs] == [0, 0], [run.errors for run in runs]
    assert assert_settled_once(deployment, ids, kills=0) == 0
    _assert_in_order(deployment, groups, again=0)
    assert min(run.summary["published"] for run in runs) > 0, "both did work"


@pytest.mark.parametrize("in_progress", [None, "queue://in-progress"])
@pytest.mark.parametrize("provider_type", ["sqlite", "postgresql"])
def test_a_killed_adapter_hands_its_groups_over_in_order(deploy: Deploy, in_progress: str | None) -> None:
    """What was at work runs first in its group."""
    deployment = deploy(connector={"PollQuantity": 5, "order": "group", "InProgressDestination": in_progress})
    killed = deployment.start()
    killed.await_start()
    ids = deployment.fill("in", ["", "gate:1", ""], group="z")
    groups = {"z": ids}
    wait_for(lambda: deployment.reached("1"), what="an event at work")
    neighbour = deployment.start()
    neighbour.await_start()
    groups |= _send(deployment, 5)
    groups["z"] += deployment.fill("in", [""] * 3, group="z")
    wait_for(lambda: len(deployment.begun()) > 20, what="much is done beside it")
    killed.kill_everything()
    deployment.open("1")
    ids = [one for several in groups.values() for one in several]
    wait_for(lambda: deployment.count("archive") == len(ids), 120)
    neighbour.stop()
    assert_settled_once(deployment, ids, kills=1)
    assert deployment.begun()[groups["z"][1]] == 2
    _assert_in_order(deployment, groups, again=2)


def _send(deployment: CrashDeployment, number: int) -> dict[str, list[str]]:
    """Sends three messages of each group in turn, ``number`` times. Returns their ids by group."""
    groups: dict[str, list[str]] = {group: [] for group in GROUPS}
    for _ in range(number):
        for group, ids in groups.items():
            ids += deployment.fill("in", ["sleep:0.02"] * 3, group=group)
    return groups


def _assert_in_order(deployment: CrashDeployment, groups: Mapping[str, Sequence[str]], *, again: int) -> None:
    """No event begins before the one ahead of it has ended.

    Args:
        again: how many events may have been at work when an adapter was killed. They begin again.
    """
    group_of = {one: group for group, ids in groups.items() for one in ids}
    at_work: dict[str, str] = {}
    ended: dict[str, list[str]] = {group: [] for group in groups}
    repeated = []
    for delivery in deployment.deliveries():
        group = group_of[delivery.id]
        if delivery.word == "begin":
            if group in at_work:
                assert at_work[group] == delivery.id, f"{delivery.id} begins beside {at_work[group]}"
                repeated.append(delivery.id)
            at_work[group] = delivery.id
        else:
            del at_work[group]
            if ended[group][-1:] == [delivery.id]:
                repeated.append(delivery.id)
            else:
                ended[group].append(delivery.id)
    assert ended == {group: list(ids) for group, ids in groups.items()}
    assert len(repeated) <= again
