"""Several adapters on one root: they share the work, and one takes over from another."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import assert_settled_once
from tests.waiting import wait_for

JAVA = False


@pytest.mark.parametrize("provider_type", ["dropbox", "postgresql"])
def test_two_adapters_share_thousands_of_messages_and_publish_none_twice(deploy: Deploy) -> None:
    deployment = deploy(
        inputs=("a", "b"),
        connector={"PollQuantity": 50, "DuplicateEventElimination": True, "order": "none"},
    )
    ids = deployment.fill("a", [""] * 1500) + deployment.fill("b", [""] * 1500)
    runs = [deployment.start("--drain", "--json", fault="claim=pause") for _ in range(2)]
    for run in runs:
        run.await_pause("claim")
    for run in runs:
        run.go_on()
    assert [run.wait() for run in runs] == [0, 0], [run.errors for run in runs]
    assert assert_settled_once(deployment, ids, kills=0) == 0
    published = [run.summary["published"] for run in runs]
    assert sum(published) == 3000
    assert min(published) > 0, f"both did work: {published}"


@pytest.mark.parametrize(
    ("provider_type", "recovery"), [("dropbox", None), ("postgresql", 1.0)], ids=["dropbox", "postgresql"]
)
def test_a_living_adapter_takes_over_from_a_killed_one_without_a_restart(
    deploy: Deploy, recovery: float | None
) -> None:
    """Killed while it has claims of which one is at work; the neighbour finishes them in some ten seconds."""
    deployment = deploy(connector={"PollQuantity": 40}, recovery=recovery)
    killed = deployment.start()
    killed.await_start()
    ids = deployment.fill("in", [""] * 10 + ["gate:1"] + [""] * 20)
    wait_for(lambda: deployment.reached("1"))
    neighbour = deployment.start()
    neighbour.await_poll()
    killed.kill_everything()
    deployment.open("1")
    ids += deployment.fill("in", [""] * 5)
    wait_for(lambda: deployment.count("archive") == len(ids), 120)
    neighbour.stop()
    assert_settled_once(deployment, ids, kills=1)
    workers = defaultdict(set)
    for delivery in deployment.deliveries():
        workers[delivery.id].add(delivery.pid)
    assert len(workers[ids[10]]) == 2, "the one that was at work was delivered by both"
