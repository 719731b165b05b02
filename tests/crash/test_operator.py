"""Kills while an operator pauses, resumes and reloads: nothing is lost or published twice."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment
from tests.forked_command import PipedProcess
from tests.runs import Run
from tests.waiting import wait_for


def call(deployment: CrashDeployment, *arguments: str, fault: str = "") -> tuple[int, str]:
    """Runs a command. Returns its exit status and its output."""
    with PipedProcess(*arguments, cwd=deployment.directory, CONNECTOR_FAULT=fault) as process:
        output, _ = process.communicate()
        return process.wait(), output


def paused(deployment: CrashDeployment) -> list[str]:
    return [one.what for one in deployment.provider.existing_state("crash").control().read().paused]


@pytest.mark.parametrize("provider_type", ["dropbox", "postgresql"])
def test_a_command_that_is_killed_has_done_nothing(deploy: Deploy) -> None:
    deployment = deploy()
    deployment.drain()
    before: list[str] = []
    for arguments, after in ((("pause", "in", "store"), ["queue://in", "store"]), (("resume", "--all"), [])):
        killed, _ = call(deployment, *arguments, fault="control.write:1=kill")
        assert (killed, paused(deployment)) == (-signal.SIGKILL, before)
        assert (call(deployment, *arguments)[0], paused(deployment)) == (0, after)
        before = after


@pytest.mark.parametrize(
    ("provider_type", "what", "faults"),
    [
        ("dropbox", "in", ["control.seen:1", "control.seen:2", "done:1"]),
        ("postgresql", "store", ["control.seen:1"]),
    ],
)
def test_an_instance_that_is_killed_leaves_all_events_of_what_is_paused(
    deploy: Deploy, what: str, faults: Sequence[str]
) -> None:
    """The steps of a settlement beside a pause are those of tests/crashing."""
    second = {"object": "Customer", "name": "second", "process": "processes:second"}
    deployment = deploy(
        connector={"order": "none", "DuplicateEventElimination": True}, subscriptions=[second]
    )
    ids = deployment.fill("in", [""] * 5)

    def kill(run: Run) -> None:
        with suppress(subprocess.TimeoutExpired):
            run.process.wait(1)  # a fault may have been met before, or never
        run.kill_everything()

    for fault in faults:
        run = deployment.start(fault=f"{fault}=kill")
        assert call(deployment, "pause", what, "--reason", "killed")[0] == 0
        ids += deployment.fill("in", [""] * 2)
        kill(run)
        before = deployment.begun("store")
        ids += deployment.fill("in", [""] * 2)
        deployment.drain()
        assert deployment.begun("store") == before, "it stays paused"
        run = deployment.start(fault=f"{fault}=kill")
        assert call(deployment, "resume", what)[0] == 0
        kill(run)
    # what came again last waits for five seconds
    wait_for(lambda: deployment.drain() and deployment.count("archive") == len(ids), 60, "all events")
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert deployment.count("error") == 0
    assert deployment.leftovers() == []
    for name in ("store", "second"):
        ends = [one.id for one in deployment.deliveries() if one.word == "end" and one.subscription == name]
        assert set(ends) == set(ids)
        assert len(ends) - len(ids) <= 2 * len(faults), "an event in delivery at a kill runs again"


# -- reload -------------------------------------------------------------------------------------------


def start(deployment: CrashDeployment, fault: str = "") -> Run:
    """Starts a service, and waits until it listens to requests to reload."""
    run = deployment.start(fault=fault)
    wait_for(lambda: "ready" in run.errors, 120, lambda: run.errors)
    state = deployment.provider.existing_state("crash")
    wait_for(lambda: any(one.runs and "reload" in one.note for one in state.instances()), 60, "the service")
    return run


@pytest.mark.parametrize(
    ("provider_type", "place"),
    [("dropbox", "reload.begin"), ("dropbox", "reload.connected"), ("postgresql", "reload.closed")],
)
def test_a_service_that_is_killed_while_it_reloads_has_the_new_settings_at_its_next_start(
    deploy: Deploy, place: str
) -> None:
    deployment = deploy(connector={"DuplicateEventElimination": True})
    deployment.drain()
    queues, ids = ["in"], list[str]()

    def publish() -> None:
        ids.extend(one for queue in queues for one in deployment.fill(queue, ["", ""]))
        deployment.await_archived(ids)

    def reload() -> tuple[int, str]:
        queues.append(f"more{len(queues)}")
        deployment.configure(InputDestination=[f"queue://{name}" for name in queues])
        status, output = call(deployment, "reload", "--json")
        return status, json.loads(output)["instances"][0]["result"]

    run = start(deployment, f"{place}:1=kill")
    publish()
    assert reload() == (1, "ended")
    assert run.wait() == -signal.SIGKILL
    run = start(deployment)
    publish()
    assert reload() == (0, "reloaded"), run.errors
    publish()
    run.stop()
    assert deployment.ids("archive") == deployment.begun() == dict.fromkeys(ids, 1)
    assert deployment.leftovers() == []


def test_without_a_service_nobody_reloads(deploy: Deploy) -> None:
    deployment = deploy()
    assert call(deployment, "reload")[0] == 1
    deployment.configure(PollQuantity=0)
    assert call(deployment, "reload")[0] == 2
