"""The provider fails under a running service, and comes back. Restarts: tests/service/test_restarts.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment
from tests.waiting import wait_for

IMPATIENT = {"RestartRetryCount": 500, "RestartRetryInterval": 0.01}


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


def _assert_done(deployment: CrashDeployment, ids: list[str], again: str = "") -> None:
    """All is archived and was published once. The event that was at work may have run again."""
    deployment.runs[0].stop()
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    begun = deployment.begun()
    assert begun | ({again: 1} if begun[again] == 2 else {}) == dict.fromkeys(ids, 1)
    assert deployment.leftovers() == []


def test_a_root_that_is_moved_away_and_back_costs_no_message(deploy: Deploy) -> None:
    """While it is gone the service tries again with back-off; it makes no new root in its place."""
    deployment = deploy(connector=IMPATIENT)
    ids = deployment.fill("in", ["gate:1", "", ""])
    run = deployment.start()
    deployment.await_gate(run, "1", 1)
    away = deployment.root.with_name("away")
    deployment.root.rename(away)
    deployment.open("1")
    run.await_text("restarting the connection failed", 2)
    assert not deployment.root.exists()
    away.rename(deployment.root)
    ids += deployment.fill("in", [""])
    deployment.await_archived(ids)
    # and once more, with nothing in flight: what is gone is not taken for drained
    deployment.root.rename(away)
    run.await_text("is not the one that this adapter uses any more")
    away.rename(deployment.root)
    ids += deployment.fill("in", [""])
    deployment.await_archived(ids)
    _assert_done(deployment, ids, again=ids[0])


def test_what_is_put_in_the_place_of_a_root_is_not_used(deploy: Deploy) -> None:
    """A mount point without its file system is empty; a wrong one has another deployment's root."""
    deployment = deploy(connector=IMPATIENT)
    other = deploy()
    other.fill("in", [""])
    ids = deployment.fill("in", [""])
    run = deployment.start()
    deployment.await_archived(ids)
    away = deployment.root.with_name("away")
    deployment.root.rename(away)
    deployment.root.mkdir()
    run.await_text("is empty (moved, removed or not mounted)")
    assert list(deployment.root.iterdir()) == []
    deployment.root.rmdir()
    before = sorted(other.root.rglob("*"))
    other.root.rename(deployment.root)
    run.await_text("is another one (moved, removed or not mounted)")
    deployment.root.rename(other.root)
    assert sorted(other.root.rglob("*")) == before
    away.rename(deployment.root)
    ids += deployment.fill("in", [""])
    deployment.await_archived(ids)
    _assert_done(deployment, ids)


@pytest.mark.parametrize("restarts", [0, 2])
def test_a_service_whose_restarts_are_used_up_ends_and_its_last_line_names_what_came_first(
    deploy: Deploy, restarts: int
) -> None:
    """The root is taken away, then another obstacle comes: it is not what has ended the service."""
    deployment = deploy(connector={"RestartRetryCount": restarts, "RestartRetryInterval": 0.02})
    ids = deployment.fill("in", [""])
    run = deployment.start()
    deployment.await_archived(ids)
    wait_for(lambda: not any((deployment.root / "dropboxmq/transaction/committing").iterdir()))
    away = deployment.root.with_name("away")
    deployment.root.rename(away)
    deployment.root.touch()
    assert run.wait(120) == 1
    run.await_gone()
    first, _, rest = run.errors.splitlines()[-1].partition("; ")
    assert first.startswith("connector: APPRESPONSETIMEOUT: ")
    assert "Not a directory" in first
    assert str(deployment.root) in first
    assert "Errno" not in first
    why = "2 restarts of the connection failed (RestartRetryCount), the last one with: "
    assert ("RestartRetryCount is 0" if restarts == 0 else why) in f"{first} {rest}"
    deployment.root.unlink()
    away.rename(deployment.root)
    ids += deployment.fill("in", [""])
    deployment.drain()
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert deployment.leftovers() == []


def test_an_error_destination_that_cannot_be_written_stops_the_poll_and_keeps_the_message(
    deploy: Deploy,
) -> None:
    """The good message of the same cycle waits with it; after mending both are settled, once.

    The recovery of a second drain cannot settle it either.
    """
    deployment = deploy(connector={**IMPATIENT, "DuplicateEventElimination": True})
    _obstruct(deployment, "error")
    good, bad = deployment.fill("in", ["", "raise:bad"])
    malformed = deployment.drop("in", "{", "4.1700000000000000-t-0.T")
    for _ in range(2):
        deployment.drain(status=1).await_gone()
    run = deployment.start()
    run.await_text("queue://error", 2)
    assert "give this user the right to write" in run.errors
    _mend(deployment, "error")
    wait_for(lambda: len(deployment.names("error")) == 2, 120, what=lambda: run.errors)
    (late,) = deployment.fill("in", [""])
    deployment.await_archived([late])
    run.stop()
    assert deployment.ids("archive") == {good: 1, late: 1}
    assert deployment.ids("error") == {bad: 1, f"ID:{malformed.split('.')[1]}": 1}
    assert set(deployment.begun().values()) == {1}, "what was delivered is settled from its journal"
    assert deployment.leftovers() == []


def test_reconnections_leave_no_clients_while_the_archive_cannot_be_written(deploy: Deploy) -> None:
    in_progress = {"InProgressDestination": "queue://progress", "instance": "one"}
    deployment = deploy(connector={**IMPATIENT, "RestartRetryInterval": 0, **in_progress})
    _obstruct(deployment, "archive")
    ids = deployment.fill("in", ["", ""])
    run = deployment.start()
    run.await_text("restarting the connection failed", 2)
    clients = deployment.root / "dropboxmq" / "clients"
    files = Path(f"/proc/{run.pid}/fd")

    def count() -> tuple[int, int]:
        return len([one for one in clients.iterdir() if not one.name.startswith(".")]), len(
            list(files.iterdir())
        )

    few, before = count()
    run.await_text("restarting the connection failed", 6)
    assert {one["instance"] for one in deployment.instances()} == {"one"}
    more, after = count()
    assert more <= few + 1
    assert after <= before + 3
    _mend(deployment, "archive")
    deployment.await_archived(ids)
    wait_for(lambda: [one["state"] for one in deployment.instances()] == ["alive"], 60)
    _assert_done(deployment, ids)
