"""DuplicateEventElimination across cycles, restarts and neighbours, in whatever order copies come."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.crash.conftest import EVERY_PROVIDER, Deploy
from tests.crash.harness import CrashDeployment
from tests.waiting import wait_for

JAVA = False


every_provider = pytest.mark.parametrize("provider_type", EVERY_PROVIDER)


def _copies(
    deployment: CrashDeployment, numbers: Sequence[int], *, priority: int = 4, name: str = ""
) -> list[str]:
    """A copy of each of these messages: same id, other file or row."""
    return deployment.send_copies("in", numbers, priority=priority, name=name)


@every_provider
def test_copies_are_published_once_across_restarts_and_reordering(deploy: Deploy) -> None:
    """Two copies in one cycle and more in later ones, by other instances, oldest last."""
    deployment = deploy(connector={"DuplicateEventElimination": True, "PollQuantity": 30})
    numbers = range(60)
    ids = _copies(deployment, numbers)
    _copies(deployment, numbers[::-1], priority=7)
    first = deployment.drain()
    assert (first.summary["published"], first.summary["duplicates"]) == (60, 60)
    _copies(deployment, numbers[::2], priority=9)
    second = deployment.drain()
    assert (second.summary["published"], second.summary["duplicates"]) == (0, 30)
    deployment.configure(instance="another")
    _copies(deployment, numbers[::3], priority=1)
    third = deployment.drain()
    assert (third.summary["published"], third.summary["duplicates"]) == (0, 20)
    assert deployment.begun() == dict.fromkeys(ids, 1)
    assert deployment.count("archive") == 60 + 60 + 30 + 20
    assert deployment.leftovers() == []


def test_a_second_copy_is_tried_when_the_first_fails(deploy: Deploy) -> None:
    """It waits for the first, in the same cycle and in the next."""
    deployment = deploy(connector={"DuplicateEventElimination": True, "PollQuantity": 3})
    _copies(deployment, [1], priority=9, name="raise:bad")
    ids = _copies(deployment, [1], priority=5)
    ids += _copies(deployment, [2])
    _copies(deployment, [3], priority=3, name="raise:bad")  # the last of the first three, so to say
    ids += _copies(deployment, [3], priority=2)
    run = deployment.drain()
    assert run.summary["published"] == 3
    assert run.summary["failed"] == 2
    assert run.summary["duplicates"] == 0
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert deployment.begun() == {ids[0]: 2, ids[1]: 1, ids[2]: 2}
    assert deployment.leftovers() == []


def test_two_adapters_publish_no_copy_that_the_other_has_in_flight(deploy: Deploy) -> None:
    """The first copy is at work in one adapter while the other sees the second."""
    deployment = deploy(connector={"DuplicateEventElimination": True, "order": "none"})
    one = deployment.start("--json")
    one.await_start()
    ids = _copies(deployment, [1], name="gate:1")
    wait_for(lambda: deployment.reached("1"))
    other = deployment.start("--json")
    other.await_start()
    _copies(deployment, [1], priority=5)
    marks = _copies(deployment, [2, 3])
    wait_for(lambda: set(marks) <= set(deployment.ids("archive")))
    assert deployment.begun()[ids[0]] == 1, "it waits"
    deployment.open("1")
    wait_for(lambda: deployment.count("archive") == 4)
    for run in (one, other):
        run.stop()
    assert deployment.begun() == dict.fromkeys([*ids, *marks], 1)
    assert sum(run.summary["duplicates"] for run in (one, other)) == 1
    assert deployment.leftovers() == []


@pytest.mark.parametrize("provider_type", ["dropbox", "postgresql"])
def test_two_draining_adapters_share_many_copies_and_both_end_well(deploy: Deploy) -> None:
    """A cycle in which all wait for the neighbour settles nothing, and is no failure."""
    deployment = deploy(connector={"DuplicateEventElimination": True, "PollQuantity": 20})
    ids = _copies(deployment, range(300))
    for priority in (5, 6):
        _copies(deployment, range(300), priority=priority)
    runs = [deployment.start("--drain", "--json") for _ in range(2)]
    assert [run.wait() for run in runs] == [0, 0], [run.errors for run in runs]
    assert deployment.count("in") == 0
    assert deployment.begun() == dict.fromkeys(ids, 1)
    assert sum(run.summary["published"] for run in runs) == 300
    assert sum(run.summary["duplicates"] for run in runs) == 600
    assert deployment.leftovers() == []
