"""Kills while an operator pauses and resumes: nothing is lost or published twice, and the pause is whole."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import suppress
from typing import Any

import pytest

from tests.crash.conftest import EVERY_PROVIDER, Deploy
from tests.crash.harness import CrashDeployment
from tests.forked_command import PipedProcess
from tests.runs import Run
from tests.waiting import wait_for

JAVA = False
PLACES = ("control.seen:1", "control.seen:2", "claim:2", "settle.record:1", "settle.committing:1", "done:1")


def call(deployment: CrashDeployment, *arguments: str, fault: str = "") -> tuple[int, str]:
    """Runs a command. Returns its exit status and its output."""
    with PipedProcess(*arguments, cwd=deployment.directory, CONNECTOR_FAULT=fault) as process:
        output, _ = process.communicate()
        return process.wait(), output


def paused(deployment: CrashDeployment) -> list[str]:
    status, output = call(deployment, "status", "--json")
    assert status == 0
    document: dict[str, Any] = json.loads(output)
    return [one["what"] for one in document["paused"]]


def kill_or_go_on(run: Run) -> None:
    """Waits for the end of a run that a fault kills, or kills it."""
    with suppress(subprocess.TimeoutExpired):
        run.process.wait(3)
    run.kill_everything()


@pytest.mark.parametrize("provider_type", EVERY_PROVIDER)
def test_a_command_that_is_killed_has_done_nothing(deploy: Deploy, provider_type: str) -> None:
    deployment = deploy()
    deployment.drain()
    killed, _ = call(deployment, "pause", "in", "store", fault="control.write:1=kill")
    assert killed == -signal.SIGKILL
    assert paused(deployment) == []
    assert call(deployment, "pause", "in", "store")[0] == 0
    assert paused(deployment) == ["queue://in", "store"]
    killed, _ = call(deployment, "resume", "--all", fault="control.write:1=kill")
    assert killed == -signal.SIGKILL
    assert paused(deployment) == ["queue://in", "store"]
    assert call(deployment, "resume", "--all")[0] == 0
    assert paused(deployment) == []


@pytest.mark.parametrize(
    ("provider_type", "what"), [("dropbox", "in"), ("sqlite", "in"), ("postgresql", "store")]
)
def test_an_instance_that_is_killed_leaves_all_events_of_what_is_paused(deploy: Deploy, what: str) -> None:
    second = {"object": "Customer", "name": "second", "process": "processes:second"}
    deployment = deploy(
        connector={"order": "none", "DuplicateEventElimination": True}, subscriptions=[second]
    )
    ids = deployment.fill("in", [""] * 5)
    for fault in PLACES:
        run = deployment.start(fault=f"{fault}=kill")
        assert call(deployment, "pause", what, "--reason", "killed")[0] == 0
        ids += deployment.fill("in", [""] * 2)
        kill_or_go_on(run)
        before = deployment.begun("store")
        ids += deployment.fill("in", [""] * 2)
        deployment.drain()
        assert deployment.begun("store") == before, "it stays paused"
        run = deployment.start(fault=f"{fault}=kill")
        assert call(deployment, "resume", what)[0] == 0
        kill_or_go_on(run)
    # what came again last waits for five seconds
    wait_for(lambda: deployment.drain() and deployment.count("archive") == len(ids), 60, "all events")
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert deployment.count("error") == 0
    assert deployment.leftovers() == []
    for name in ("store", "second"):
        ends = [one.id for one in deployment.deliveries() if one.word == "end" and one.subscription == name]
        assert set(ends) == set(ids)
        assert len(ends) - len(ids) <= len(PLACES), "an event in delivery at a kill runs again"
