"""SIGKILL at every named step of an event's life, one run after the other over the same messages.

Each run first takes over from the one that was killed before, and then is killed itself at the next
step; only the last runs to its end. So what is proved of a step holds also for a recovery.

A driver that is killed while a task runs leaves tasks of Spark that live on. At its own steps it leaves
workers that have nothing to do, and a whole group leaves nothing: these runs have no Spark. A database has
steps of its own. Each database has one of the two tests, to save time. Kills by chance: see tests/crashing.
"""

from __future__ import annotations

import signal

import pytest

from tests.crash.conftest import DATABASES, Deploy
from tests.crash.harness import CrashDeployment, assert_settled_once

IN_THE_DRIVER = {"claim": 20, "settle.record": 1, "settle.committing": 1, "settle.finished": 1}
IN_A_TASK = {"begin": 5, "deliver": 9, "done": 3}
"""Which time a place is reached: somewhere in the middle of a cycle."""
OF_FILES = {"settle.move": 7}
OF_TABLES = {"claim.uncommitted": 2}


@pytest.mark.parametrize("provider_type", ["dropbox", "postgresql"])
def test_a_driver_killed_at_every_step_loses_nothing_and_repeats_nothing_silently(
    deploy: Deploy, provider_type: str
) -> None:
    deployment, ids = _filled(deploy, java=False)
    in_the_driver = _in_the_driver(provider_type)
    for place, nth in in_the_driver.items():
        run = deployment.start("--drain", fault=f"{place}:{nth}=kill")
        assert run.wait() == -signal.SIGKILL, run.errors
        run.await_gone()
        ids += deployment.fill("a", [""] * 20)
    deployment.java = provider_type == "dropbox"
    for place, nth in IN_A_TASK.items():
        run = deployment.start("--drain", fault=f"{place}:{nth}=pause")
        run.await_pause(place)
        run.kill_while_paused(whole_group=False)
        ids += deployment.fill("a", [""] * 20)
    deployment.java = False
    deployment.drain()
    assert_settled_once(deployment, ids, kills=len(in_the_driver) + len(IN_A_TASK))


@pytest.mark.parametrize("provider_type", ["dropbox", "sqlite"])
def test_a_whole_group_killed_at_every_step_loses_nothing_and_repeats_nothing_silently(
    deploy: Deploy, provider_type: str
) -> None:
    deployment, ids = _filled(deploy, java=False)
    places = {**_in_the_driver(provider_type), **IN_A_TASK}
    for place, nth in places.items():
        run = deployment.start("--drain", fault=f"{place}:{nth}=pause")
        run.await_pause(place)
        run.kill_everything()
        ids += deployment.fill("a", [""] * 20)
    deployment.drain()
    assert_settled_once(deployment, ids, kills=len(places))


@pytest.mark.parametrize("provider_type", DATABASES)
def test_a_worker_killed_after_a_delivery_has_written_what_the_event_sends(deploy: Deploy) -> None:
    """The journal names the message of a done event, so the settlement has to find it."""
    copy = {"object": "Customer", "name": "copy", "destination": "queue://copies"}
    deployment = deploy(subscriptions=[copy])
    ids = deployment.fill("in", [""] * 40)
    run = deployment.start("--drain", fault="done:15=kill")
    assert run.wait() == 0, run.errors
    assert deployment.begun() == dict.fromkeys(ids, 1)
    events = [message.properties["connector_event_id"] for message in deployment.messages("copies")]
    assert sorted(map(str, events)) == sorted(ids)
    assert_settled_once(deployment, ids, kills=0)


def _in_the_driver(provider_type: str) -> dict[str, int]:
    return {**(OF_FILES if provider_type == "dropbox" else OF_TABLES), **IN_THE_DRIVER}


def _filled(deploy: Deploy, **settings: bool) -> tuple[CrashDeployment, list[str]]:
    deployment = deploy(inputs=("a", "b"), **settings)
    return deployment, [i for queue in ("a", "b") for i in deployment.fill(queue, ["", "sleep:0.01"] * 30)]
