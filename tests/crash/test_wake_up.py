"""A message that comes begins a poll. ``PollFrequency`` is so long that no test could wait for it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment
from tests.runs import Run
from tests.waiting import wait_for

JAVA = False

NEVER = 600_000
"""Milliseconds."""


def serve(deployment: CrashDeployment) -> Run:
    """A service that has published what waited, and has nothing to do now."""
    ids = deployment.fill(deployment.inputs[0])
    run = deployment.start()
    await_archived(deployment, run, ids)
    return run


def await_archived(deployment: CrashDeployment, run: Run, ids: list[str]) -> None:
    wait_for(lambda: set(ids) <= set(deployment.ids("archive")), 120, lambda: run.errors)


def end(run: Run) -> None:
    """SIGTERM ends an idle service, whatever it waits for."""
    run.stop()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_message_is_published_when_it_comes(deploy: Deploy) -> None:
    deployment = deploy(connector={"PollFrequency": NEVER}, inputs=("in", "other"))
    run = serve(deployment)
    for queue in ("in", "other", "in"):
        await_archived(deployment, run, deployment.fill(queue, [""] * 3))
    bare = deployment.folder("other") / "order"
    bare.write_bytes(b'{"BusinessObject": "Customer", "Verb": "Create", "CustomerId": "1"}')
    await_archived(deployment, run, ["order"])
    end(run)
    assert set(deployment.begun().values()) == {1}
    assert deployment.leftovers() == []


def test_more_than_a_poll_takes_is_published_without_a_wait(deploy: Deploy) -> None:
    deployment = deploy(connector={"PollFrequency": NEVER, "PollQuantity": 1})
    ids = deployment.fill("in", [""] * 4)
    run = deployment.start()
    await_archived(deployment, run, ids)
    await_archived(deployment, run, deployment.fill("in", [""] * 4))
    end(run)


def test_a_topic_wakes_too(deploy: Deploy) -> None:
    topic = {"destination": "topic://prices", "subscription": "all"}
    deployment = deploy(connector={"PollFrequency": NEVER, "InputDestination": ["queue://in", topic]})
    run = serve(deployment)
    for _ in range(2):
        await_archived(deployment, run, deployment.fill("topic://prices"))
    end(run)


def test_a_directory_that_is_replaced_wakes_again_after_the_next_poll(deploy: Deploy) -> None:
    deployment = deploy(connector={"PollFrequency": NEVER}, inputs=("in", "other"))
    run = serve(deployment)
    target = deployment.folder("other")
    target.rename(target.parent / "old")
    target.mkdir()
    await_archived(deployment, run, deployment.fill("in"))
    await_archived(deployment, run, deployment.fill("in"))  # so the poll of the first one has begun
    await_archived(deployment, run, deployment.fill("other"))
    end(run)


def test_with_wake_false_a_message_waits_for_its_poll(deploy: Deploy) -> None:
    deployment = deploy(connector={"PollFrequency": NEVER, "wake": False, "PollQuantity": 1})
    ids = deployment.fill("in", ["", ""])
    run = deployment.start()
    await_archived(deployment, run, ids[:1])
    deployment.fill("in")
    deployment.await_recovery()
    end(run)
    assert len(deployment.names("in")) == 2


def test_a_service_that_waits_does_nothing(deploy: Deploy) -> None:
    deployment = deploy(connector={"PollFrequency": NEVER})
    run = serve(deployment)

    def is_at_rest() -> bool:
        before = cpu_seconds(run.pid)
        time.sleep(2)  # the processor time of a service is a matter of seconds, and no state
        return cpu_seconds(run.pid) - before < 0.1

    wait_for(is_at_rest)  # once its poll and its start are over
    end(run)


@pytest.mark.parametrize("in_progress", [None, "queue://in-progress"], ids=["queue", "in progress"])
def test_a_process_that_is_not_active_is_asked_once_a_poll_whatever_comes(
    deploy: Deploy, in_progress: str | None
) -> None:
    deployment = deploy(connector={"PollFrequency": 500, "InProgressDestination": in_progress})
    flag = deployment.directory / "flag"
    flag.touch()
    ids = deployment.fill("in", [f"inactive:{flag}"])
    run = deployment.start()
    wait_for(lambda: sum(deployment.begun().values()), 120, lambda: run.errors)
    began, before = time.monotonic(), sum(deployment.begun().values())

    def asked_while_messages_come() -> int:
        ids.extend(deployment.fill("in", [f"inactive:{flag}"]))
        return sum(deployment.begun().values()) - before

    wait_for(lambda: asked_while_messages_come() >= 3, 120, lambda: run.errors)
    asked = sum(deployment.begun().values()) - before
    assert asked <= (time.monotonic() - began) / 0.5 + 1
    flag.unlink()
    await_archived(deployment, run, ids)
    end(run)
    assert deployment.leftovers() == []
