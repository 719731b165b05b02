"""The same promises on a standalone cluster: a real master and two workers on this machine."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import Run, assert_settled_once, on
from tests.spark.standalone import StandaloneCluster

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """One for all tests of this file; what a killed run leaves on it must not hinder the next."""
    started = StandaloneCluster(tmp_path_factory.mktemp("cluster"))
    try:
        started.start()
        yield started
    finally:
        started.stop()


def test_a_driver_and_a_whole_group_killed_on_a_cluster_lose_nothing_and_repeat_nothing_silently(
    deploy: Deploy, cluster: StandaloneCluster
) -> None:
    """The driver while an executor is at work, then all of it while the driver settles."""
    deployment = deploy(inputs=("a", "b"), spark=on(cluster))
    ids = [i for queue in ("a", "b") for i in deployment.send(queue, ["", "sleep:0.01"] * 40)]
    for place, nth, kill in (
        ("begin", 5, Run.signal_driver),
        ("settle.committing", 1, Run.kill_everything),
    ):
        run = deployment.start("--drain", fault=f"{place}:{nth}=pause")
        run.await_pause(place)
        kill(run)
        run.go_on()
        assert run.wait() == -signal.SIGKILL
        run.await_gone(30)
        ids += deployment.send("a", ["sleep:0.01"] * 20)
    deployment.drain(timeout=180)
    assert_settled_once(deployment, ids, kills=2)


def test_the_place_of_a_failure_is_relative_to_the_deployment_on_a_cluster_too(
    deploy: Deploy, cluster: StandaloneCluster
) -> None:
    deployment = deploy(spark=on(cluster))
    (directory := deployment.directory / "lib").mkdir()
    (directory / "deep.py").write_text("def fail():\n    raise KeyError('gone')\n")
    with (deployment.directory / "processes.py").open("a") as file:
        file.write("\ndef far(customer, event):\n    from lib.deep import fail\n    fail()\n")
    deployment.spark = {**deployment.spark, "ship": ["processes.py", "lib"]}
    deployment.store = {"process": "processes:far"}
    deployment.configure()
    deployment.send("in", [""])
    (event,) = deployment.drain(timeout=180).summary["events"]
    assert event["outcome"] == "failed"
    assert event["reason"] == "store: KeyError: 'gone' (lib/deep.py:2)"
