"""The same promises on a standalone cluster: a real master and two workers on this machine."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.crash.harness import CrashDeployment, assert_settled_once, deployments, on
from tests.runs import Run
from tests.spark.standalone import StandaloneCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]  # eleven starts of Java, on a busy machine

PROCESS = """
def store_or_fail_elsewhere(customer, event):
    if customer["Name"] == "elsewhere":
        from lib.deep import fail
        fail()
    store(customer, event)
"""


class Settled(NamedTuple):
    """A deployment whose driver and whose whole group were killed, and that was drained after."""

    deployment: CrashDeployment
    ids: list[str]
    failed: str
    last: Run


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settled]:
    """The driver is killed while an executor is at work, then all of it while the driver settles."""
    cluster = StandaloneCluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        with deployments(tmp_path_factory.mktemp("killed")) as deploy:
            yield _settle(deploy(inputs=("a", "b"), spark=on(cluster)))
    finally:
        cluster.stop()


def _settle(deployment: CrashDeployment) -> Settled:
    (directory := deployment.directory / "lib").mkdir()
    (directory / "deep.py").write_text("def fail():\n    raise KeyError('gone')\n")
    with (deployment.directory / "processes.py").open("a") as file:
        file.write(PROCESS)
    deployment.spark = {**deployment.spark, "ship": ["processes.py", "lib"]}
    deployment.store = {"process": "processes:store_or_fail_elsewhere"}
    deployment.configure()
    ids = [i for queue in ("a", "b") for i in deployment.fill(queue, ["", "sleep:0.01"] * 40)]
    for place, nth, kill in (
        ("begin", 5, Run.signal_driver),
        ("settle.committing", 1, Run.kill_everything),
    ):
        run = deployment.start("--drain", fault=f"{place}:{nth}=pause")
        run.await_pause(place)
        kill(run)
        run.go_on()
        assert run.wait() == -signal.SIGKILL
        run.await_gone(120)
        ids += deployment.fill("a", ["sleep:0.01"] * 20)
    (failed,) = deployment.fill("b", ["elsewhere"])
    deployment.spark["conf"]["spark.cores.max"] = "1"  # one executor is enough for what is left
    return Settled(deployment, ids, failed, deployment.drain(timeout=180))


def test_a_driver_and_a_whole_group_killed_on_a_cluster_lose_nothing_and_repeat_nothing_silently(
    settled: Settled,
) -> None:
    assert_settled_once(settled.deployment, settled.ids, kills=2)


def test_the_place_of_a_failure_is_relative_to_the_deployment_on_a_cluster_too(settled: Settled) -> None:
    assert settled.deployment.ids("error") == {settled.failed: 1}
    (event,) = [event for event in settled.last.summary["events"] if event["id"] == settled.failed]
    assert event["outcome"] == "failed"
    assert event["reason"] == "store: KeyError: 'gone' (lib/deep.py:2)"
