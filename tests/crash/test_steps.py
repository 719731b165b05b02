"""SIGKILL at every named step of an event's life, one run after the other over the same messages."""

from __future__ import annotations

import signal

from tests.crash.conftest import Deploy
from tests.crash.harness import assert_settled_once, wait_for

IN_THE_DRIVER = ("claim", "settle.record", "settle.committing", "settle.move", "settle.finished")


def test_a_driver_killed_at_every_step_loses_nothing_and_repeats_nothing_silently(deploy: Deploy) -> None:
    """Each run recovers what the one before left, and dies at the next step itself."""
    deployment = deploy(inputs=("a", "b"))
    ids = [i for queue in ("a", "b") for i in deployment.send(queue, ["", "sleep:0.01"] * 30)]
    for place in IN_THE_DRIVER:
        nth = {"claim": 20, "settle.move": 7}.get(place, 1)
        run = deployment.start("--drain", fault=f"{place}:{nth}=kill")
        assert run.wait() == -signal.SIGKILL, run.errors
        run.await_gone()
        ids += deployment.send("a", [""] * 5)
    deployment.drain()
    assert_settled_once(deployment, ids, kills=len(IN_THE_DRIVER))
