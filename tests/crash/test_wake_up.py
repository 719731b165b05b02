"""A message that comes begins a poll. ``PollFrequency`` is so long that no test could wait for it.

When a poll begins, by all that may come: tests/service/test_loop.py.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment
from tests.runs import Run
from tests.waiting import wait_for

NEVER = {"PollFrequency": 600_000}
"""Milliseconds."""


def serve(deployment: CrashDeployment) -> Run:
    """A service that has published what waited, and has nothing to do now."""
    ids = deployment.fill(deployment.inputs[0])
    run = deployment.start()
    deployment.await_archived(ids)
    return run


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_message_is_published_when_it_comes(deploy: Deploy) -> None:
    topic = {"destination": "topic://prices", "subscription": "all"}
    inputs = ["queue://in", "queue://other", topic]
    deployment = deploy(connector={**NEVER, "InputDestination": inputs}, inputs=("in", "other"))
    run = serve(deployment)
    for destination in ("in", "other", "topic://prices", "in", "topic://prices"):
        deployment.await_archived(deployment.fill(destination, [""] * 3))
    bare = deployment.folder("other") / "order"
    bare.write_bytes(b'{"BusinessObject": "Customer", "Verb": "Create", "CustomerId": "1"}')
    deployment.await_archived(["order"])
    run.stop()
    assert set(deployment.begun().values()) == {1}
    assert deployment.leftovers() == []


def test_a_directory_that_is_replaced_wakes_again_after_the_next_poll(deploy: Deploy) -> None:
    deployment = deploy(connector=NEVER, inputs=("in", "other"))
    run = serve(deployment)
    target = deployment.folder("other")
    target.rename(target.parent / "old")
    target.mkdir()
    for queue in ("in", "in", "other"):  # with the second the poll of the first one has begun
        deployment.await_archived(deployment.fill(queue))
    run.stop()


def test_a_service_that_waits_does_nothing(deploy: Deploy) -> None:
    deployment = deploy(connector=NEVER)
    run = serve(deployment)

    def is_at_rest() -> bool:
        before = cpu_seconds(run.pid)
        time.sleep(2)  # the processor time of a service is a matter of seconds, and no state
        return cpu_seconds(run.pid) - before < 0.1

    wait_for(is_at_rest)  # once its poll and its start are over
    run.stop()
