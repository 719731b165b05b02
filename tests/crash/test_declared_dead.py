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

JAVA = False


def takeover(deployment: CrashDeployment, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forked_command.run(["takeover", *arguments], cwd=deployment.directory)


def client_of(deployment: CrashDeployment, run: Run) -> str:
    """The client of an adapter, as the command lists it."""
    lines = takeover(deployment).stdout.splitlines()
    (found,) = [line.split()[0] for line in lines if f" {run.pid} " in line and " crash " in line]
    return found


def stop(run: Run, *, whole_group: bool) -> None:
    if whole_group:
        run.signal_all(signal.SIGSTOP)
    else:
        run.signal_driver(signal.SIGSTOP)


@pytest.mark.parametrize(
    ("provider_type", "whole_group"),
    [("dropbox", True), ("dropbox", False), ("sqlite", False), ("postgresql", True)],
    ids=["dropbox host", "dropbox driver", "sqlite driver", "postgresql host"],
)
def test_what_a_hung_client_has_claimed_is_done_by_others_and_it_does_none_of_it_late(
    deploy: Deploy, whole_group: bool
) -> None:
    deployment = deploy(connector={"stop_timeout": "1s", "DuplicateEventElimination": True})
    ids = deployment.fill("in", ["gate:stop", *[""] * 5])
    hung = deployment.start()
    wait_for(lambda: deployment.reached("stop"), 120, "an event at work")
    stop(hung, whole_group=whole_group)
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
    wait_for(lambda: deployment.ids("archive").keys() == set(ids), 120, "the messages since then")
    hung.stop()
    assert_settled_once(deployment, ids, kills=1)


def test_an_adapter_that_may_not_restart_ends_with_status_1(deploy: Deploy) -> None:
    deployment = deploy(connector={"stop_timeout": "1s", "RestartRetryCount": 0})
    ids = deployment.fill("in", ["gate:stop", *[""] * 5])
    hung = deployment.start()
    wait_for(lambda: deployment.reached("stop"), 120, "an event at work")
    stop(hung, whole_group=True)
    assert takeover(deployment, client_of(deployment, hung), "--it-is-dead").returncode == 0
    deployment.open("stop")
    deployment.drain()
    hung.signal_all(signal.SIGCONT)
    assert hung.wait() == 1
    assert "was declared dead by an operator" in hung.errors
    deployment.drain()
    assert_settled_once(deployment, ids, kills=1)


def test_a_running_instance_takes_over_from_a_client_that_is_declared_dead(deploy: Deploy) -> None:
    deployment = deploy(connector={"stop_timeout": "1s"})
    ids = deployment.fill("in", ["gate:stop", *[""] * 5])
    hung = deployment.start()
    wait_for(lambda: deployment.reached("stop"), 120, "an event at work")
    heir = deployment.start()
    heir.await_start()
    stop(hung, whole_group=True)
    deployment.open("stop")
    assert takeover(deployment, client_of(deployment, hung), "--it-is-dead").returncode == 0
    wait_for(lambda: deployment.ids("archive").keys() == set(ids), 120, "the messages of the hung client")
    hung.signal_all(signal.SIGCONT)
    wait_for(lambda: "connected again" in hung.errors, 120, "a new connection")
    for run in (hung, heir):
        run.stop()
    deployment.drain()
    assert_settled_once(deployment, ids, kills=1)


def test_a_client_whose_lock_is_free_is_left_to_the_ordinary_takeover(deploy: Deploy) -> None:
    deployment = deploy()
    ids = deployment.fill("in", ["gate:stop", *[""] * 3])
    killed = deployment.start()
    wait_for(lambda: deployment.reached("stop"), 120, "an event at work")
    client = client_of(deployment, killed)
    killed.kill_everything()
    refused = takeover(deployment, client, "--it-is-dead")
    assert refused.returncode == 1
    assert "its lock is free" in refused.stderr
    deployment.open("stop")
    deployment.drain()
    assert_settled_once(deployment, ids, kills=1)
    assert takeover(deployment).stderr == "no clients\n"
    unknown = takeover(deployment, client, "--it-is-dead")
    assert unknown.returncode == 2
    assert f"there is no client {client!r}" in unknown.stderr
