"""Kills around the rows of the history: after the last run each life ends with what really happened."""

from __future__ import annotations

import pytest

from connector.operate.history import Life, read_all, read_life
from tests.crash.conftest import EVERY_PROVIDER, Deploy
from tests.crash.harness import CrashDeployment, assert_settled_once

PLACES = {
    "dropbox": ("history", "settle.record", "settle.committing", "settle.finished"),
    "postgresql": ("history",),
}


def lives(deployment: CrashDeployment, ids: list[str]) -> list[Life]:
    history = deployment.provider.existing_state("crash").history()
    return [read_life(history, identity) for identity in ids]


@pytest.mark.parametrize("provider_type", PLACES)
def test_a_driver_killed_around_its_rows_leaves_each_life_true(deploy: Deploy, provider_type: str) -> None:
    deployment = deploy(inputs=("a",), connector={"PollQuantity": 20})
    ids = deployment.fill("a", [""] * 40 + ["raise:no"] * 3)
    for place in PLACES[provider_type]:
        deployment.kill_driver_at(place)
        ids += deployment.fill("a", [""] * 10)
    deployment.drain()
    good = [identity for identity in ids if identity in deployment.ids("archive")]
    assert len(ids) - len(good) == 3
    for life in lives(deployment, ids):
        kinds = [one.row.what for one in life.events]
        final = [kind for kind in kinds if kind in ("published", "failed")]
        assert final == ["published" if life.id in good else "failed"], (life.id, kinds)
        assert kinds[-1] == final[0]
        assert {one.keys for one in life.events if one.row.what == "published"} <= {life.events[-1].keys}
        assert life.events[-1].keys


@pytest.mark.parametrize("provider_type", EVERY_PROVIDER)
def test_an_event_that_runs_again_is_told_to_have_been_given_back(deploy: Deploy) -> None:
    """The row says published, the kill comes before the commit, and no journal knows the event."""
    copy = {"object": "Customer", "name": "copy", "destination": "queue://copies"}
    deployment = deploy(inputs=("a",), only=[copy])
    (identity,) = deployment.fill("a", [""])
    deployment.kill_driver_at("history")
    (life,) = lives(deployment, [identity])
    assert [one.row.what for one in life.events] == ["published"]
    deployment.drain()
    (life,) = lives(deployment, [identity])
    assert [(one.row.what, one.row.by) for one in life.events if one.id == identity] == [
        ("given_back", "recovery"),
        ("published", ""),
    ]


@pytest.mark.parametrize("provider_type", ["dropbox", "postgresql"])
def test_two_instances_tell_of_each_event_once(deploy: Deploy) -> None:
    deployment = deploy(inputs=("a",), connector={"PollQuantity": 5, "instance": None, "order": "none"})
    ids = deployment.fill("a", ["sleep:0.01"] * 100)
    runs = [deployment.start("--drain"), deployment.start("--drain")]
    for run in runs:
        assert run.wait() == 0, run.errors
    assert_settled_once(deployment, ids, kills=0)
    history = deployment.provider.existing_state("crash").history()
    events = read_all(history, 0.0)
    assert sorted(one.id for one in events) == sorted(ids)
    assert len({one.row.instance for one in events}) == 2
