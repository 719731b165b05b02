"""Several batches in flight: none delays another, and none is lost or repeated when processes die."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment, assert_settled_once
from tests.runs import Run
from tests.waiting import wait_for

QUEUES = ("a", "b", "c")


def _kill_driver(run: Run, runners: list[int]) -> None:
    run.signal_driver()


def _kill_group(run: Run, runners: list[int]) -> None:
    run.kill_everything()


def _kill_java(run: Run, runners: list[int]) -> None:
    java = run.java()
    assert java is not None
    run.signal_one(java, signal.SIGKILL)


def _kill_one_worker(run: Run, runners: list[int]) -> None:
    run.signal_parent_of(runners[0])


def _kill_all_runners(run: Run, runners: list[int]) -> None:
    for pid in runners:
        run.signal_one(pid, signal.SIGKILL)


def test_what_dies_while_several_batches_run_loses_nothing_and_repeats_what_was_at_work(
    deploy: Deploy,
) -> None:
    """One run after the other over the same messages; each first takes over from the one before.

    A whole group that is killed leaves nothing of Spark, so that it runs without. The events are slow,
    because quick destinations share a batch, and then not every gate would be reached.
    """
    deployment = deploy(
        inputs=QUEUES,
        spark={"master": "local[3]"},
        connector={"PollQuantity": 3, "DuplicateEventElimination": True, "stop_timeout": "3s"},
    )
    slow = "sleep:0.25"
    kills: list[Callable[[Run, list[int]], None]] = [
        _kill_driver,
        _kill_group,
        _kill_java,
        _kill_one_worker,
        _kill_all_runners,
    ]
    ids: list[str] = []
    for number, kill in enumerate(kills):
        gate = str(number)
        for queue in QUEUES:
            ids += deployment.fill(queue, [slow, f"gate:{gate}", slow, slow, slow])
        deployment.java = kill is not _kill_group
        run = deployment.start("--drain", "--json")
        kill(run, deployment.await_gate(run, gate, len(QUEUES)))
        deployment.open(gate)
        run.wait(120)
        run.await_gone()
    deployment.java = False
    deployment.drain()
    assert_settled_once(deployment, ids, kills=len(kills), tasks=len(QUEUES))


@pytest.mark.parametrize("order", ["destination", "none"])
def test_a_queue_that_stands_still_holds_up_no_other(deploy: Deploy, order: str) -> None:
    """The others are settled while it waits, batch after batch, and it is one poll ahead at most."""
    deployment = deploy(
        inputs=QUEUES, connector={"PollQuantity": 5, "PollFrequency": 200, "order": order}, java=False
    )
    held = deployment.fill("a", ["gate:1"] + [""] * 29)
    run = deployment.start("--json")
    wait_for(lambda: deployment.reached("1"))
    others = [i for queue in ("b", "c") for i in deployment.fill(queue, [""] * 40)]
    wait_for(lambda: set(others) <= set(deployment.ids("archive")))
    if order == "destination":
        assert len(deployment.names("a", "processing")) <= 10
        assert not set(held) & set(deployment.ids("archive"))
    deployment.open("1")
    wait_for(lambda: set(held) <= set(deployment.ids("archive")))
    _stop(run)
    assert_settled_once(deployment, [*held, *others], kills=0)


def test_what_is_not_active_in_one_queue_leaves_the_batches_of_others_alone(deploy: Deploy) -> None:
    deployment = deploy(inputs=("a", "b"), connector={"PollFrequency": 300, "PollQuantity": 3}, java=False)
    (deployment.directory / "up").touch()
    slow = deployment.fill("b", ["gate:1", "", ""])
    run = deployment.start("--json")
    wait_for(lambda: deployment.reached("1"))
    held = deployment.fill("a", ["inactive:up", "", ""])
    wait_for(lambda: deployment.begun()[held[0]] >= 3, what="asked again after PollFrequency")
    assert deployment.begun()[slow[0]] == 1
    deployment.open("1")
    wait_for(lambda: set(slow) <= set(deployment.ids("archive")))
    (deployment.directory / "up").unlink()
    wait_for(lambda: set(held) <= set(deployment.ids("archive")))
    _stop(run)
    assert deployment.begun()[held[1]] == deployment.begun()[held[2]] == 1, "they waited behind it"
    assert deployment.leftovers() == []


def test_a_stop_finishes_what_runs_and_gives_back_what_waits(deploy: Deploy) -> None:
    deployment = deploy(inputs=QUEUES, connector={"PollQuantity": 2}, java=False)
    ids = [i for queue in QUEUES for i in deployment.fill(queue, ["gate:1", "", "", ""])]
    run = deployment.start("--json")
    wait_for(lambda: len(deployment.reached("1")) == 2, what="as many batches as cores")
    run.signal_driver(signal.SIGTERM)
    wait_for(lambda: "stopping" in run.errors)
    deployment.open("1")
    assert run.wait(120) == 0, run.errors
    begun = len(deployment.begun())
    assert begun == 4, "two batches of PollQuantity each"
    assert len(deployment.names("archive")) == begun
    assert sum(len(deployment.names(queue)) for queue in QUEUES) == len(ids) - begun
    deployment.drain()
    assert_settled_once(deployment, ids, kills=0)


def test_a_worker_that_is_stopped_for_a_while_delays_its_own_batch_alone(deploy: Deploy) -> None:
    deployment = deploy(inputs=("a", "b"), connector={"PollFrequency": 200, "PollQuantity": 3}, java=False)
    ids = deployment.fill("a", ["gate:1", "", "", ""])
    run = deployment.start("--json")
    (runner,) = wait_for(lambda: deployment.reached("1"))
    run.signal_one(runner, signal.SIGSTOP)
    deployment.open("1")
    others = deployment.fill("b", [""] * 10)
    wait_for(lambda: set(others) <= set(deployment.ids("archive")))
    assert deployment.begun() == dict.fromkeys([ids[0], *others], 1)
    run.signal_one(runner, signal.SIGCONT)
    wait_for(lambda: set(ids) <= set(deployment.ids("archive")))
    _stop(run)
    assert_settled_once(deployment, [*ids, *others], kills=0)


def _stop(run: Run) -> None:
    run.stop()


def test_a_job_that_is_lost_again_and_again_is_no_fault_of_its_events(deploy: Deploy) -> None:
    """Runners that are killed while they are idle: nothing was touched, so nothing counts as delivered."""
    deployment = _idle(deploy)
    ids = deployment.fill("a", ["", ""])
    wait_for(lambda: set(ids) <= set(deployment.ids("archive")))
    for pid in {delivery.pid for delivery in deployment.deliveries()}:
        deployment.runs[0].signal_one(pid, signal.SIGKILL)
    more = deployment.fill("a", ["", ""])
    wait_for(lambda: set(more) <= set(deployment.ids("archive")))
    _stop(deployment.runs[0])
    assert deployment.begun() == dict.fromkeys([*ids, *more], 1)
    assert {delivery.count for delivery in deployment.deliveries()} == {1}


def _idle(deploy: Deploy) -> CrashDeployment:
    deployment = deploy(inputs=("a", "b"), java=False)
    deployment.start("--json").await_start()
    return deployment
