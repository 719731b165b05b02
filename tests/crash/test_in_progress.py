"""InProgressDestination and InDoubtEvents: what a killed adapter leaves, and the four ways to go on.

Each time the first event is settled in the journal only, the second is at work, the third was
not begun when the whole group is killed. The journal decides first; the policy about the second alone.
"""

from __future__ import annotations

import signal
import time

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import Deployment, message_id, wait_for


def _killed(deploy: Deploy, policy: str) -> tuple[Deployment, list[str]]:
    """Done, at work, untouched: the ids of these three, in order."""
    deployment = deploy(connector={"InProgressDestination": "queue://in-progress", "InDoubtEvents": policy})
    ids = deployment.send("in", ["", "gate:1", ""])
    run = deployment.start()
    wait_for(lambda: deployment.reached("1"))
    run.kill_everything()
    deployment.open("1")
    assert sorted(map(message_id, deployment.names("in-progress"))) == sorted(ids)
    return deployment, ids


def test_reprocess_runs_what_was_begun_before_any_new_input(deploy: Deploy) -> None:
    deployment, ids = _killed(deploy, "Reprocess")
    urgent = deployment.send("in", [""], priority=9)
    deployment.drain()
    again = [d for d in deployment.deliveries() if d.word == "begin"][2:]
    assert again[0].id == ids[1]
    assert again[0].count == 2
    assert [d.id for d in again[1:]] == [*urgent, ids[2]]
    assert deployment.ids("archive") == dict.fromkeys([*ids, *urgent], 1)
    assert deployment.leftovers() == []


def test_fail_on_startup_ends_with_a_clear_text_and_touches_nothing_that_is_in_doubt(deploy: Deploy) -> None:
    deployment, ids = _killed(deploy, "FailOnStartup")
    before = deployment.ids("in-progress")[ids[1]]
    for _ in range(2):  # the second start finds it without an owner that anybody knows
        run = deployment.start("--drain")
        assert run.wait() == 1
        assert "FailOnStartup" in run.errors
        assert ids[1] in run.errors
        assert "queue://in-progress" in run.errors
        run.await_gone()
        assert deployment.ids("in-progress")[ids[1]] == before == 1
        assert deployment.begun() == {ids[0]: 1, ids[1]: 1}
    assert deployment.ids("archive") == {ids[0]: 1}, "done is done"
    assert deployment.ids("in") == {ids[2]: 1}, "untouched is back"
    # as the text says: moved back by hand, it is processed like any other
    name = deployment.names("in-progress")[0]
    deployment.folder("in-progress").joinpath(name).rename(deployment.folder("in") / name)
    deployment.drain()
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert [d.count for d in deployment.deliveries() if d.word == "begin" and d.id == ids[2]] == [1]
    assert deployment.leftovers() == []


@pytest.mark.parametrize("policy", ["Ignore", "LogError"])
def test_ignore_and_log_error_leave_it_where_it_is_and_go_on(deploy: Deploy, policy: str) -> None:
    deployment, ids = _killed(deploy, policy)
    run = deployment.drain()
    assert (ids[1] in run.errors) == (policy == "LogError")
    assert deployment.ids("archive") == dict.fromkeys([ids[0], ids[2]], 1)
    assert deployment.ids("in-progress") == {ids[1]: 1}
    assert deployment.begun() == dict.fromkeys(ids, 1)


def test_an_event_that_ended_its_worker_stays_in_doubt_unless_reprocessed(deploy: Deploy) -> None:
    """And the good ones around it are published once; one that was not begun is in no doubt."""
    deployment = deploy(
        connector={"InProgressDestination": "queue://in-progress", "InDoubtEvents": "LogError"},
        store={"timeout": "1s"},
    )
    good = deployment.send("in", ["", ""])
    doubtful = deployment.send("in", ["kill", "hang"])
    good += deployment.send("in", ["", ""])
    run = deployment.drain()
    assert run.summary["in_doubt"] == 2
    assert run.summary["published"] == 4
    assert deployment.ids("archive") == dict.fromkeys(good, 1)
    assert deployment.ids("in-progress") == dict.fromkeys(doubtful, 1)
    assert set(deployment.begun().values()) == {1}


def test_a_neighbour_takes_over_what_a_killed_adapter_had_in_progress(deploy: Deploy) -> None:
    """A living neighbour's messages are never leftovers, a dead one's are within ten seconds."""
    deployment = deploy(connector={"InProgressDestination": "queue://in-progress"})
    ids = deployment.send("in", ["gate:1", ""])
    killed = deployment.start()
    wait_for(lambda: deployment.reached("1"))
    neighbour = deployment.start()
    neighbour.await_start()
    others = deployment.send("in", ["", ""])
    wait_for(lambda: len(deployment.names("archive")) == 2)
    assert set(deployment.ids("in-progress")) == set(ids)
    killed.kill_everything()
    deployment.open("1")
    started = time.monotonic()
    wait_for(lambda: len(deployment.names("archive")) == 4, 25)
    assert time.monotonic() - started < 15
    neighbour.signal_driver(signal.SIGTERM)
    assert neighbour.wait(15) == 0
    assert deployment.ids("archive") == dict.fromkeys([*ids, *others], 1)
    assert deployment.begun() == {ids[0]: 2} | dict.fromkeys([ids[1], *others], 1)
    assert deployment.leftovers() == []
