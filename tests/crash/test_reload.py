"""Kills at each step of a reload: nothing is lost or published twice, and the next start has new settings."""

from __future__ import annotations

import json
import signal

import pytest

from tests.crash.conftest import EVERY_PROVIDER, Deploy
from tests.crash.harness import CrashDeployment
from tests.crash.test_pause import call
from tests.runs import Run
from tests.waiting import wait_for

JAVA = False


def await_service(deployment: CrashDeployment) -> None:
    """Waits until a running service listens to requests to reload."""
    state = deployment.provider.existing_state("crash")

    def listens() -> bool:
        return any(one.runs and "reload" in one.note for one in state.instances())

    wait_for(listens, 60, "the service")


def start(deployment: CrashDeployment, fault: str = "") -> Run:
    run = deployment.start(fault=fault)
    wait_for(lambda: "ready" in run.errors, 60, "the service")
    await_service(deployment)
    return run


@pytest.mark.parametrize("place", ["reload.begin", "reload.closed", "reload.connected"])
@pytest.mark.parametrize("provider_type", EVERY_PROVIDER)
def test_a_service_that_is_killed_while_it_reloads(deploy: Deploy, provider_type: str, place: str) -> None:
    deployment = deploy(connector={"DuplicateEventElimination": True})
    deployment.drain()
    run = start(deployment, f"{place}:1=kill")
    ids = deployment.fill("in", [""] * 3)
    wait_for(lambda: deployment.count("archive") == 3, 60, "the first events")
    deployment.configure(InputDestination=["queue://in", "queue://more"])
    status, output = call(deployment, "reload", "--json")
    assert (status, json.loads(output)["instances"][0]["result"]) == (1, "ended")
    assert run.wait() == -signal.SIGKILL
    ids += deployment.fill("in", [""] * 3)
    run = start(deployment)
    deployment.configure(InputDestination=["queue://in", "queue://more", "queue://third"])
    status, output = call(deployment, "reload", "--json")
    assert (status, json.loads(output)["instances"][0]["result"]) == (0, "reloaded"), run.errors
    ids += deployment.fill("in", [""]) + deployment.fill("third", [""])
    wait_for(lambda: deployment.count("archive") == len(ids), 60, "all events")
    run.stop()
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert deployment.begun() == dict.fromkeys(ids, 1)
    assert deployment.leftovers() == []


def test_a_reload_in_spark_loads_the_processes_anew(deploy: Deploy) -> None:
    deployment = deploy(java=True)
    run = start(deployment)
    (first,) = deployment.fill("in", [""])
    wait_for(lambda: deployment.count("archive") == 1, 120, "an event")
    processes = deployment.directory / "processes.py"
    processes.write_text(processes.read_text().replace('"store")', '"new")'))
    status, output = call(deployment, "reload")
    assert (status, output.endswith(" has the new configuration\n")) == (0, True), output + run.errors
    (second,) = deployment.fill("in", [""])
    wait_for(lambda: deployment.count("archive") == 2, 120, "an event")
    processes.write_text(f"{processes.read_text()}\nraise RuntimeError('half written')")
    status, output = call(deployment, "reload")
    assert (status, "half written" in output) == (2, True), output
    (third,) = deployment.fill("in", [""])
    wait_for(lambda: deployment.count("archive") == 3, 60, "an event that earlier workers run")
    run.stop()
    assert (deployment.begun("store"), deployment.begun("new")) == ({first: 1}, {second: 1, third: 1})


def test_without_a_service_nobody_reloads(deploy: Deploy) -> None:
    deployment = deploy()
    assert call(deployment, "reload")[0] == 1
    deployment.configure(PollQuantity=0)
    assert call(deployment, "reload")[0] == 2
