"""The same promises on a standalone cluster: a real master and a worker on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.crash.harness import CrashDeployment, assert_settled_once, deployments, on
from tests.runs import Run
from tests.spark.standalone import StandaloneCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]  # six starts of Java, on a busy machine

PROCESS = """
def store_or_fail_elsewhere(customer, event):
    if customer["Name"] == "elsewhere":
        from lib.deep import fail
        fail()
    store(customer, event)
"""


class Settled(NamedTuple):
    """A deployment whose driver was killed, and that was drained after."""

    deployment: CrashDeployment
    ids: list[str]
    failed: str
    last: Run


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settled]:
    """The driver is killed while an executor is at work."""
    cluster = StandaloneCluster(tmp_path_factory.mktemp("cluster"), workers=1, cores=2)
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
    deployment.kill_while_paused_at("begin:5", whole_group=False)
    ids += deployment.fill("a", ["sleep:0.01"] * 20)
    (failed,) = deployment.fill("b", ["elsewhere"])
    deployment.spark["conf"]["spark.cores.max"] = "1"  # one executor is enough for what is left
    return Settled(deployment, ids, failed, deployment.drain(timeout=180))


def test_a_driver_killed_on_a_cluster_loses_nothing_and_repeats_nothing_silently(settled: Settled) -> None:
    assert_settled_once(settled.deployment, settled.ids, kills=1)


def test_the_place_of_a_failure_is_relative_to_the_deployment_on_a_cluster_too(settled: Settled) -> None:
    assert settled.deployment.ids("error") == {settled.failed: 1}
    (event,) = [event for event in settled.last.summary["events"] if event["id"] == settled.failed]
    assert event["outcome"] == "failed"
    assert event["reason"] == "store: KeyError: 'gone' (lib/deep.py:2)"
