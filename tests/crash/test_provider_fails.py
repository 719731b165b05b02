"""The provider fails under a running service, and comes back."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment
from tests.crash.test_status import status
from tests.waiting import wait_for

JAVA = False


def _obstruct(deployment: CrashDeployment, queue: str) -> None:
    """A file where a directory has to be: that stops root as well as anybody else."""
    target = deployment.folder(queue)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        target.rename(target.with_name("moved-away"))
    target.touch()


def _mend(deployment: CrashDeployment, queue: str) -> None:
    target = deployment.folder(queue)
    target.unlink()
    moved = target.with_name("moved-away")
    if moved.exists():
        moved.rename(target)


def _wait_for_error(run: object, text: str, times: int = 1) -> None:
    wait_for(lambda: run.errors.count(text) >= times, 120, what=text)  # type: ignore[attr-defined]


def test_a_root_that_is_moved_away_and_back_costs_no_message(deploy: Deploy) -> None:
    """While it is gone the service tries again with back-off; it makes no new root in its place."""
    deployment = deploy(connector={"RestartRetryCount": 50, "RestartRetryInterval": 0.01})
    ids = deployment.fill("in", ["gate:1", "", ""])
    run = deployment.start()
    wait_for(lambda: deployment.reached("1"))
    away = deployment.root.with_name("away")
    deployment.root.rename(away)
    deployment.open("1")
    _wait_for_error(run, "restarting the connection failed", 2)
    assert not deployment.root.exists()
    away.rename(deployment.root)
    ids += deployment.fill("in", [""])
    wait_for(lambda: len(deployment.names("archive")) == 4, 120, what=run.errors)
    # and once more, with nothing in flight: what is gone is not taken for drained
    deployment.root.rename(away)
    _wait_for_error(run, "is not the one that this adapter uses any more")
    away.rename(deployment.root)
    ids += deployment.fill("in", [""])
    wait_for(lambda: len(deployment.names("archive")) == 5, 120, what=run.errors)
    run.stop()
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert {i: n for i, n in deployment.begun().items() if n > 1 and i != ids[0]} == {}
    assert deployment.begun()[ids[0]] <= 2
    assert deployment.leftovers() == []


def test_the_attempts_to_reconnect_are_restart_retry_interval_apart(deploy: Deploy) -> None:
    """The first one comes at once. So three attempts outlast a root that is away for four seconds."""
    deployment = deploy(connector={"RestartRetryCount": 3, "RestartRetryInterval": 0.05})
    ids = deployment.fill("in", [""])
    run = deployment.start()
    wait_for(lambda: deployment.names("archive"), 120)
    away = deployment.root.with_name("away")
    deployment.root.rename(away)
    _wait_for_error(run, "attempts=1 of=3")
    first = time.monotonic()
    _wait_for_error(run, "attempts=2 of=3")
    assert time.monotonic() - first > 2.5
    away.rename(deployment.root)
    ids += deployment.fill("in", [""])
    wait_for(lambda: deployment.ids("archive") == dict.fromkeys(ids, 1), 120, what=run.errors)
    run.stop()


def test_the_last_line_of_a_service_names_what_ended_it_first(deploy: Deploy) -> None:
    """The root is taken away, then another obstacle comes: it is not what has ended the service."""
    deployment = deploy(connector={"RestartRetryCount": 2, "RestartRetryInterval": 0.02})
    deployment.fill("in", [""])
    run = deployment.start()
    wait_for(lambda: deployment.names("archive"), 120)
    wait_for(lambda: not any((deployment.root / "dropboxmq/transaction/committing").iterdir()))
    away = deployment.root.with_name("away")
    deployment.root.rename(away)
    deployment.root.touch()
    assert run.wait(120) == 1
    last = run.errors.splitlines()[-1]
    first, _, rest = last.partition(
        "; 2 restarts of the connection failed (RestartRetryCount), the last one with: "
    )
    assert first.startswith("connector: APPRESPONSETIMEOUT: ")
    assert "Not a directory" in first
    assert str(deployment.root) in first
    assert "Errno" not in first
    assert "root" in rest


def test_what_is_put_in_the_place_of_a_root_is_not_used(deploy: Deploy) -> None:
    """A mount point without its file system is empty; a wrong one has another deployment's root."""
    deployment = deploy(connector={"RestartRetryCount": 500, "RestartRetryInterval": 0.01})
    other = deploy()
    other.fill("in", [""])
    ids = deployment.fill("in", [""])
    run = deployment.start()
    wait_for(lambda: len(deployment.names("archive")) == 1, what=run.errors)
    away = deployment.root.with_name("away")
    deployment.root.rename(away)
    deployment.root.mkdir()
    _wait_for_error(run, "is empty (moved, removed or not mounted)")
    assert list(deployment.root.iterdir()) == []
    deployment.root.rmdir()
    before = sorted(other.root.rglob("*"))
    other.root.rename(deployment.root)
    _wait_for_error(run, "is another one (moved, removed or not mounted)")
    deployment.root.rename(other.root)
    assert sorted(other.root.rglob("*")) == before
    away.rename(deployment.root)
    ids += deployment.fill("in", [""])
    wait_for(lambda: len(deployment.names("archive")) == 2, 120, what=run.errors)
    run.stop()
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert deployment.leftovers() == []


def test_without_restarts_a_failed_provider_ends_the_service_with_status_1(deploy: Deploy) -> None:
    deployment = deploy(connector={"RestartRetryCount": 0})
    run = deployment.start()
    run.await_poll()
    away = deployment.root.with_name("away")
    deployment.root.rename(away)
    assert run.wait(120) == 1
    assert "APPRESPONSETIMEOUT" in run.errors
    assert "RestartRetryCount is 0" in run.errors
    run.await_gone()
    away.rename(deployment.root)
    ids = deployment.fill("in", [""])
    deployment.drain()
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert deployment.leftovers() == []


@pytest.mark.parametrize("elimination", [False, True])
def test_an_error_destination_that_cannot_be_written_stops_the_poll_and_keeps_the_message(
    deploy: Deploy, elimination: bool
) -> None:
    """The good message of the same cycle waits with it; after mending both are settled, once."""
    deployment = deploy(
        connector={
            "RestartRetryCount": 200,
            "RestartRetryInterval": 0.01,
            "DuplicateEventElimination": elimination,
        }
    )
    _obstruct(deployment, "error")
    ids = deployment.fill("in", ["", "raise:bad"])
    malformed = deployment.drop("in", "{", "4.1700000000000000-t-0.T")
    run = deployment.start()
    _wait_for_error(run, "queue://error", 2)
    assert "give this user the right to write" in run.errors
    _mend(deployment, "error")
    wait_for(lambda: len(deployment.names("error")) == 2, 120, what=run.errors)
    late = deployment.fill("in", [""])
    wait_for(lambda: late[0] in deployment.ids("archive"), 120)
    run.stop()
    assert deployment.ids("archive") == dict.fromkeys([ids[0], *late], 1)
    assert deployment.ids("error") == {ids[1]: 1, f"ID:{malformed.split('.')[1]}": 1}
    assert set(deployment.begun().values()) == {1}, "what was delivered is settled from its journal"
    assert deployment.leftovers() == []


def test_a_drain_that_cannot_settle_ends_with_status_1_and_the_next_one_settles(deploy: Deploy) -> None:
    deployment = deploy()
    _obstruct(deployment, "error")
    ids = deployment.fill("in", ["raise:bad"])
    run = deployment.drain(status=1)
    assert "queue://error" in run.errors
    assert run.summary["claimed"] == 0
    run.await_gone()
    again = deployment.start("--drain")
    assert again.wait() == 1, "recovery cannot settle it either"
    _mend(deployment, "error")
    deployment.drain()
    assert deployment.ids("error") == dict.fromkeys(ids, 1)
    assert deployment.begun() == dict.fromkeys(ids, 1)
    assert deployment.leftovers() == []


@pytest.mark.parametrize("place", ["settle.record:1=enospc", "settle.move:2=eacces"])
def test_a_disk_that_fails_while_settling_costs_and_repeats_nothing(deploy: Deploy, place: str) -> None:
    """Before the commit point and after it."""
    deployment = deploy(connector={"RestartRetryCount": 5, "RestartRetryInterval": 0.01})
    ids = deployment.fill("in", [""] * 5)
    run = deployment.start(fault=place)
    wait_for(lambda: len(deployment.names("archive")) == 5, 120, what=run.errors)
    assert "restarting the connection" in run.errors
    run.stop()
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert deployment.begun() == dict.fromkeys(ids, 1)
    assert deployment.leftovers() == []


def test_java_that_dies_under_a_service_is_started_anew(deploy: Deploy) -> None:
    deployment = deploy(java=True, connector={"RestartRetryInterval": 0.01})
    ids = deployment.fill("in", ["gate:1", ""])
    run = deployment.start()
    runner = wait_for(lambda: deployment.reached("1"))[0]
    java = run.java()
    assert java is not None
    run.signal_one(java, signal.SIGKILL)
    deployment.open("1")
    wait_for(lambda: len(deployment.names("archive")) == 2, 120, what=run.errors)
    wait_for(lambda: run.java() not in (None, java))
    run.stop()
    run.await_gone()
    assert runner
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert deployment.begun()[ids[1]] == 1
    assert deployment.leftovers() == []


def _instances(deployment: CrashDeployment) -> list[tuple[str, str]]:
    """The name and the state of each instance that ``connector status`` shows."""
    return [(row["instance"], row["state"]) for row in status(deployment)["instances"]]


@pytest.mark.parametrize("in_progress", [None, "queue://progress"])
def test_reconnections_leave_no_clients_while_the_archive_cannot_be_written(
    deploy: Deploy, in_progress: str | None
) -> None:
    deployment = deploy(
        connector={
            "RestartRetryCount": 200,
            "RestartRetryInterval": 0,
            "InProgressDestination": in_progress,
            "instance": "one",
        }
    )
    _obstruct(deployment, "archive")
    ids = deployment.fill("in", ["", ""])
    run = deployment.start()
    _wait_for_error(run, "restarting the connection failed", 2)
    clients = deployment.root / "dropboxmq" / "clients"
    files = Path(f"/proc/{run.pid}/fd")
    few = len([one for one in clients.iterdir() if not one.name.startswith(".")])
    before = len(list(files.iterdir()))
    _wait_for_error(run, "restarting the connection failed", 6)
    assert [name for name, _ in _instances(deployment)] == ["one"]
    assert len([one for one in clients.iterdir() if not one.name.startswith(".")]) <= few + 1
    assert len(list(files.iterdir())) <= before + 3
    _mend(deployment, "archive")
    wait_for(lambda: deployment.ids("archive") == dict.fromkeys(ids, 1), 60, what=run.errors)
    wait_for(lambda: _instances(deployment) == [("one", "alive")], 60)
    run.stop()
    assert deployment.begun() == dict.fromkeys(ids, 1)
    assert deployment.leftovers() == []
