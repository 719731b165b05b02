"""Several batches in flight: none delays another, and none is lost or repeated when processes die."""

from __future__ import annotations

import signal

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import assert_settled_once
from tests.waiting import wait_for

QUEUES = ("a", "b", "c")


def test_what_dies_while_several_batches_run_loses_nothing_and_repeats_what_was_at_work(
    deploy: Deploy,
) -> None:
    """One run after the other over the same messages; each first takes over from the one before.

    Spark runs the task of a worker that has died up to four times. It finds its journal taken, and does
    nothing. The events are slow, because quick destinations share a batch, and then not every gate would be
    reached.
    """
    deployment = deploy(
        inputs=QUEUES,
        spark={"master": "local[3,4]"},
        connector={"PollQuantity": 3, "DuplicateEventElimination": True, "stop_timeout": "3s"},
    )
    slow = "sleep:0.25"
    ids: list[str] = []
    for victim in ("everything", "a worker of Spark", "all runners"):
        for queue in QUEUES:
            ids += deployment.fill(queue, [slow, f"gate:{victim}", slow, slow, slow])
        deployment.java = victim == "a worker of Spark"
        run = deployment.start("--drain", "--json")
        runners = deployment.await_gate(run, victim, len(QUEUES))
        if victim == "everything":
            run.kill_everything()
        elif victim == "a worker of Spark":
            run.signal_parent_of(runners[0])
        else:
            for pid in runners:
                run.signal_one(pid, signal.SIGKILL)
        deployment.open(victim)
        run.wait(120)
        run.await_gone()
    deployment.drain()
    assert_settled_once(deployment, ids, kills=3, tasks=len(QUEUES))


@pytest.mark.parametrize("order", ["destination", "none"])
def test_a_queue_that_stands_still_holds_up_no_other(deploy: Deploy, order: str) -> None:
    """The others are settled while it waits, batch after batch, and it is one poll ahead at most."""
    deployment = deploy(inputs=QUEUES, connector={"PollQuantity": 5, "PollFrequency": 200, "order": order})
    held = deployment.fill("a", ["gate:1"] + [""] * 29)
    run = deployment.start("--json")
    deployment.await_gate(run, "1", 1)
    others = [i for queue in ("b", "c") for i in deployment.fill(queue, [""] * 40)]
    deployment.await_archived(others)
    if order == "destination":
        assert len(deployment.names("a", "processing")) <= 10
        assert not set(held) & set(deployment.ids("archive"))
    deployment.open("1")
    deployment.await_archived(held)
    run.stop()
    assert_settled_once(deployment, [*held, *others], kills=0)


def test_what_is_not_active_in_one_queue_leaves_the_batches_of_others_alone(deploy: Deploy) -> None:
    deployment = deploy(inputs=("a", "b"), connector={"PollFrequency": 300, "PollQuantity": 3})
    (deployment.directory / "up").touch()
    slow = deployment.fill("b", ["gate:1", "", ""])
    run = deployment.start("--json")
    deployment.await_gate(run, "1", 1)
    held = deployment.fill("a", ["inactive:up", "", ""])
    wait_for(lambda: deployment.begun()[held[0]] >= 3, what="asked again after PollFrequency")
    assert deployment.begun()[slow[0]] == 1
    deployment.open("1")
    deployment.await_archived(slow)
    (deployment.directory / "up").unlink()
    deployment.await_archived(held)
    run.stop()
    assert deployment.begun()[held[1]] == deployment.begun()[held[2]] == 1, "they waited behind it"
    assert deployment.leftovers() == []


def test_a_stop_finishes_what_runs_and_gives_back_what_waits(deploy: Deploy) -> None:
    deployment = deploy(inputs=QUEUES, connector={"PollQuantity": 2})
    ids = [i for queue in QUEUES for i in deployment.fill(queue, ["gate:1", "", "", ""])]
    run = deployment.start("--json")
    deployment.await_gate(run, "1", 2)  # as many batches as cores
    run.signal_driver(signal.SIGTERM)
    wait_for(lambda: "stopping" in run.errors)
    deployment.open("1")
    assert run.wait(120) == 0, run.errors
    begun = len(deployment.begun())
    assert begun == 4, "two batches of PollQuantity each"
    assert deployment.count("archive") == begun
    assert sum(map(deployment.count, QUEUES)) == len(ids) - begun
    deployment.drain()
    assert_settled_once(deployment, ids, kills=0)


def test_a_job_that_is_lost_again_and_again_is_no_fault_of_its_events(deploy: Deploy) -> None:
    """Runners that are killed while they are idle: nothing was touched, so nothing counts as delivered."""
    deployment = deploy(inputs=("a", "b"))
    run = deployment.start("--json")
    ids = deployment.fill("a", ["", ""])
    deployment.await_archived(ids)
    for pid in {delivery.pid for delivery in deployment.deliveries()}:
        run.signal_one(pid, signal.SIGKILL)
    ids += deployment.fill("a", ["", ""])
    deployment.await_archived(ids)
    run.stop()
    assert deployment.begun() == dict.fromkeys(ids, 1)
    assert {delivery.count for delivery in deployment.deliveries()} == {1}
