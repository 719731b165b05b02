"""SIGKILL at every named step of an event's life, one run after the other over the same messages.

Each run first takes over from the one that was killed before, and then is killed itself at the next
step; only the last runs to its end. So what is proved of a step holds also for a recovery.

A driver that is killed alone leaves workers, a whole group leaves nothing. A database has steps of its own.
Spark's workers outlive their driver in tests/servers/spark. Kills by chance, at every store: tests/crashing.
"""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from connector.operate.lives import Life, read_life
from connector.stores.dropbox import codec
from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment, assert_settled_once

IN_THE_DRIVER = {"claim": 20, "settle.record": 1, "settle.committing": 1, "settle.finished": 1}
IN_A_TASK = {"begin": 5, "deliver": 9, "done": 3}
"""Which time a place is reached: somewhere in the middle of a cycle."""
OF_FILES = {"settle.move": 7}
OF_TABLES = {"claim.uncommitted": 2}


@pytest.mark.parametrize(
    ("provider_type", "whole_group"), [("dropbox", False), ("postgresql", False), ("sqlite", True)]
)
def test_what_is_killed_at_every_step_loses_nothing_and_repeats_nothing_silently(
    deploy: Deploy, provider_type: str, whole_group: bool
) -> None:
    deployment = deploy(inputs=("a", "b"))
    ids = [i for queue in ("a", "b") for i in deployment.fill(queue, ["", "sleep:0.01"] * 20)]
    places = {**(OF_FILES if provider_type == "dropbox" else OF_TABLES), **IN_THE_DRIVER, **IN_A_TASK}
    for place, nth in places.items():
        deployment.kill_while_paused_at(f"{place}:{nth}", whole_group=whole_group)
        ids += deployment.fill("a", [""] * 10)
    deployment.drain()
    assert_settled_once(deployment, ids, kills=len(places))


@pytest.mark.parametrize("provider_type", ["sqlite", "postgresql"])
def test_a_worker_killed_after_a_delivery_has_written_what_the_event_sends(deploy: Deploy) -> None:
    """The journal names the message of a done event, so the settlement has to find it."""
    copy = {"object": "Customer", "name": "copy", "destination": "queue://copies"}
    deployment = deploy(subscriptions=[copy])
    ids = deployment.fill("in", [""] * 40)
    run = deployment.start("--drain", fault="done:15=kill")
    assert run.wait() == 0, run.errors
    assert deployment.begun() == dict.fromkeys(ids, 1)
    events = [message.properties["connector_event_id"] for message in deployment.messages("copies")]
    assert sorted(map(str, events)) == sorted(ids)
    assert_settled_once(deployment, ids, kills=0)


def test_what_dies_while_several_batches_run_loses_nothing_and_repeats_what_was_at_work(
    deploy: Deploy,
) -> None:
    """One run after the other over the same messages; each first takes over from the one before.

    Spark runs the task of a worker that has died up to four times. It finds its journal taken, and does
    nothing. The events are slow, because quick destinations share a batch, and then not every gate would be
    reached.
    """
    queues = ("a", "b", "c")
    deployment = deploy(
        inputs=queues,
        spark={"master": "local[3,4]"},
        connector={"PollQuantity": 3, "DuplicateEventElimination": True, "stop_timeout": "3s"},
    )
    slow = "sleep:0.25"
    ids: list[str] = []
    for victim in ("everything", "a worker of Spark", "all runners"):
        for queue in queues:
            ids += deployment.fill(queue, [slow, f"gate:{victim}", slow, slow, slow])
        deployment.java = victim == "a worker of Spark"
        run = deployment.start("--drain", "--json")
        runners = deployment.await_gate(run, victim, len(queues))
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
    assert_settled_once(deployment, ids, kills=3, tasks=len(queues))


def test_workers_that_are_killed_again_and_again_answer_each_request_once(deploy: Deploy) -> None:
    """Requests that are answered so or so, and that another subscriber takes or refuses."""
    other = {"object": "Customer", "name": "second", "process": "processes:second"}
    deployment = deploy(store={"reply": True}, subscriptions=[other], connector={"max_attempts": 50})
    sent: dict[str, str] = {}
    for name, status in (("", "SUCCESS"), ("raise:no stock", "FAIL")):
        for second in ("", "raise:of another subscriber"):
            ids = deployment.fill("in", [name] * 8, second=second, reply_to="replies")
            sent.update(dict.fromkeys(ids, status))
    run = deployment.start("--drain", fault="deliver:7=kill,done:5=kill")
    assert run.wait() == 0, run.errors
    replies = [codec.decode(name)[0] for name in deployment.names("replies")]
    told = [(str(one.correlation_id), str(one.properties["ResponseResult"])) for one in replies]
    assert Counter(told) == Counter(sent.items())
    assert deployment.ids("archive") + deployment.ids("error") == Counter(list(sent))
    assert deployment.leftovers() == deployment.names("replies", "working") == []
    assert len({delivery.pid for delivery in deployment.deliveries()}) > 4


# -- the history ---------------------------------------------------------------------------------------------


AROUND_THE_HISTORY = {
    "dropbox": ("history", "settle.record", "settle.committing", "settle.finished"),
    "postgresql": ("history",),
}


def lives(deployment: CrashDeployment, ids: list[str]) -> list[Life]:
    history = deployment.provider.existing_state("crash").history()
    return [read_life(history, identity) for identity in ids]


@pytest.mark.parametrize("provider_type", AROUND_THE_HISTORY)
def test_a_driver_killed_around_its_rows_leaves_each_life_true(deploy: Deploy, provider_type: str) -> None:
    deployment = deploy(inputs=("a",), connector={"PollQuantity": 20})
    ids = deployment.fill("a", [""] * 40 + ["raise:no"] * 3)
    for place in AROUND_THE_HISTORY[provider_type]:
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


@pytest.mark.parametrize("provider_type", ["dropbox", "sqlite", "postgresql"])
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
