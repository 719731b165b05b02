"""`connector takeover`: a client whose lock never comes free, and that goes on after all."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests import forked_command
from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment, assert_settled_once
from tests.runs import Run
from tests.waiting import wait_for


def takeover(deployment: CrashDeployment, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forked_command.run(["takeover", *arguments], cwd=deployment.directory)


def client_of(deployment: CrashDeployment, run: Run) -> str:
    """The client of an adapter, as the command lists it."""
    lines = takeover(deployment).stdout.splitlines()
    (found,) = [line.split()[0] for line in lines if f" {run.pid} " in line and " crash " in line]
    return found


def hang(deploy: Deploy, **connector: object) -> tuple[CrashDeployment, Run, list[str]]:
    """A service that is at work on the first of six events."""
    deployment = deploy(connector={"stop_timeout": "1s", "DuplicateEventElimination": True, **connector})
    ids = deployment.fill("in", ["gate:stop", *[""] * 5])
    run = deployment.start()
    deployment.await_gate(run, "stop", 1)
    return deployment, run, ids


@pytest.mark.parametrize(("provider_type", "whole_group"), [("dropbox", False), ("postgresql", True)])
def test_what_a_hung_client_has_claimed_is_done_by_others_and_it_does_none_of_it_late(
    deploy: Deploy, whole_group: bool
) -> None:
    deployment, hung, ids = hang(deploy)
    if whole_group:
        hung.signal_all(signal.SIGSTOP)
    else:
        hung.signal_driver(signal.SIGSTOP)
    client = client_of(deployment, hung)

    refused = takeover(deployment, client)
    assert refused.returncode == 2
    assert "may be alive" in refused.stderr
    assert "--it-is-dead" in refused.stderr
    done = takeover(deployment, client, "--it-is-dead")
    assert (done.returncode, done.stderr) == (0, "")
    again = takeover(deployment, client, "--it-is-dead")
    assert again.returncode == 1
    assert "was declared dead before" in again.stderr

    deployment.open("stop")
    other = deployment.drain()
    assert "took over from a dead client" in other.errors
    assert deployment.ids("archive").keys() == set(ids)

    ids += deployment.fill("in", [""] * 3)
    hung.signal_all(signal.SIGCONT)
    wait_for(lambda: "connected again" in hung.errors, 120, "a new connection")
    assert "its messages are redelivered, to this client or another: connect anew" in hung.errors
    deployment.await_archived(ids)
    hung.stop()
    assert_settled_once(deployment, ids, kills=1)
    assert takeover(deployment).stderr == "no clients\n"


def test_an_adapter_that_may_not_restart_ends_with_status_1(deploy: Deploy) -> None:
    deployment, hung, ids = hang(deploy, RestartRetryCount=0)
    hung.signal_all(signal.SIGSTOP)
    assert takeover(deployment, client_of(deployment, hung), "--it-is-dead").returncode == 0
    deployment.open("stop")
    deployment.drain()
    hung.signal_all(signal.SIGCONT)
    assert hung.wait() == 1
    assert "was declared dead by an operator" in hung.errors
    deployment.drain()
    assert_settled_once(deployment, ids, kills=1)


def test_a_running_instance_takes_over_from_a_client_that_is_declared_dead(deploy: Deploy) -> None:
    deployment, hung, ids = hang(deploy)
    heir = deployment.start()
    heir.await_start()
    hung.signal_all(signal.SIGSTOP)
    deployment.open("stop")
    assert takeover(deployment, client_of(deployment, hung), "--it-is-dead").returncode == 0
    deployment.await_archived(ids)
    hung.signal_all(signal.SIGCONT)
    wait_for(lambda: "connected again" in hung.errors, 120, "a new connection")
    for run in (hung, heir):
        run.stop()
    deployment.drain()
    assert_settled_once(deployment, ids, kills=1)
