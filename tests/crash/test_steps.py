"""SIGKILL at every named step of an event's life, one run after the other over the same messages.

Each run first takes over from the one that was killed before, and then is killed itself at the next
step; only the last runs to its end. So what is proved of a step holds also for a recovery.

A driver that is killed alone leaves workers, a whole group leaves nothing. A database has steps of its own.
Spark's workers outlive their driver in tests/servers/spark. Kills by chance, at every store: tests/crashing.
"""

from __future__ import annotations

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import assert_settled_once

IN_THE_DRIVER = {"claim": 20, "settle.record": 1, "settle.committing": 1, "settle.finished": 1}
IN_A_TASK = {"begin": 5, "deliver": 9, "done": 3}
"""Which time a place is reached: somewhere in the middle of a cycle."""
OF_FILES = {"settle.move": 7}
OF_TABLES = {"claim.uncommitted": 2}


@pytest.mark.parametrize(
    ("provider_type", "whole_group"), [("dropbox", False), ("postgresql", False), ("sqlite", True)]
)
def test_what_is_killed_at_every_step_loses_nothing_and_repeats_nothing_silently(
    deploy: Deploy, provider_type: str, whole_group: bool
) -> None:
    deployment = deploy(inputs=("a", "b"))
    ids = [i for queue in ("a", "b") for i in deployment.fill(queue, ["", "sleep:0.01"] * 20)]
    places = {**(OF_FILES if provider_type == "dropbox" else OF_TABLES), **IN_THE_DRIVER, **IN_A_TASK}
    for place, nth in places.items():
        deployment.kill_while_paused_at(f"{place}:{nth}", whole_group=whole_group)
        ids += deployment.fill("a", [""] * 10)
    deployment.drain()
    assert_settled_once(deployment, ids, kills=len(places))


@pytest.mark.parametrize("provider_type", ["sqlite", "postgresql"])
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
