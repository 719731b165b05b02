"""An application that is away: its events come again, and none is lost, fails or is published twice."""

from __future__ import annotations

import signal
import time

import pytest

from tests.crash.conftest import EVERY_PROVIDER, Deploy
from tests.crash.harness import CrashDeployment
from tests.waiting import wait_for

IN_THE_DRIVER = {"claim": 5, "settle.record": 1, "settle.committing": 1, "settle.finished": 1}
IN_A_TASK = ("begin", "done")
OF_FILES = {"delayed.move": 1}
RULES = {"attempts": 10_000, "first": "50ms", "most": "200ms"}


def delayed(deployment: CrashDeployment) -> int:
    connection = deployment.provider.existing()
    try:
        return sum(
            one.delayed + one.waiting for one in connection.destinations() if one.destination.name == "in"
        )
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("order", "eliminates"), [("none", True), ("none", False), ("destination", True), ("group", False)]
)
@pytest.mark.parametrize("provider_type", EVERY_PROVIDER)
def test_events_outlast_an_application_that_is_away(
    deploy: Deploy, provider_type: str, order: str, *, eliminates: bool
) -> None:
    deployment = deploy(
        java=False,
        connector={"order": order, "DuplicateEventElimination": eliminates},
        store={"retry_later": RULES},
    )
    away = deployment.directory / "away"
    away.touch()
    groups = ("x", "y") if order == "group" else ("",)
    ids = [one for group in groups for one in deployment.fill("in", ["away:away"] * 10, group=group)]
    places = {**IN_THE_DRIVER, **(OF_FILES if provider_type == "dropbox" else {})}
    kills = 0
    for place, nth in places.items():
        time.sleep(0.3)  # until some are due
        run = deployment.start("--drain", fault=f"{place}:{nth}=kill")
        kills += run.wait() == -signal.SIGKILL
        run.await_gone()
    for place in IN_A_TASK:
        time.sleep(0.3)
        run = deployment.start("--drain", fault=f"{place}:1=pause")
        run.await_pause(place)
        run.kill_everything()
    assert kills >= len(places) - 1, "a poll in order may claim fewer"
    assert deployment.count("error") == deployment.count("archive") == 0
    away.unlink()

    def is_done() -> bool:
        deployment.drain()
        return not delayed(deployment)

    wait_for(is_done, 60)
    assert deployment.count("error") == 0
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert deployment.leftovers() == []
    if order == "destination":
        ends = [one.id for one in deployment.deliveries() if one.word == "end"]
        assert list(dict.fromkeys(ends)) == ids
