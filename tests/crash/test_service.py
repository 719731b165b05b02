"""The adapter as a service: how it stops, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import assert_settled_once
from tests.waiting import wait_for


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_what_is_in_flight_and_leaves_nothing_behind(deploy: Deploy, number: int) -> None:
    """The event at work is published; those after it in the same cycle as well, within stop_timeout."""
    deployment = deploy()
    ids = deployment.fill("in", ["gate:1", "sleep:0.05", ""])
    run = deployment.start()
    (runner,) = deployment.await_gate(run, "1", 1)
    assert {run.pid, runner} <= set(run.members()), "the tests find all processes of a run"
    assert {os.getsid(pid) for pid in run.members()} == {run.pid}
    assert Path(f"/proc/{run.pid}/cwd").readlink() == deployment.directory
    deployment.fill("in", ["", ""])
    run.signal_driver(number)
    wait_for(lambda: "stopping" in run.errors)
    deployment.open("1")
    assert run.wait(120) == 0, run.errors
    run.await_gone()
    assert deployment.ids("archive") == deployment.begun() == dict.fromkeys(ids, 1)
    assert len(deployment.names("in")) == 2, "messages that came after the signal stay"
    assert deployment.leftovers(but=["in/target/"]) == []


def test_a_process_that_takes_longer_than_stop_timeout_is_ended_and_the_rest_is_given_back(
    deploy: Deploy,
) -> None:
    deployment = deploy(connector={"stop_timeout": "1s"})
    done, slow, *rest = deployment.fill("in", ["", "sleep:300", "", ""])
    run = deployment.start()
    wait_for(lambda: slow in deployment.begun())
    asked = time.monotonic()
    run.stop()
    assert time.monotonic() - asked < 60, "not the 300 s of the process"
    run.await_gone(120)
    assert deployment.ids("archive") == {done: 1}
    assert deployment.begun() == {done: 1, slow: 1}
    assert deployment.ids("in") == dict.fromkeys([slow, *rest], 1)
    counted = [name for name in deployment.names("in") if "JMSXDeliveryCountI=2" in name]
    assert [name.split(".")[1] for name in counted] == [slow.removeprefix("ID:")], "it alone was begun"
    assert deployment.leftovers(but=["in/target/"]) == []


def test_a_second_signal_ends_at_once_and_the_next_run_recovers(deploy: Deploy) -> None:
    deployment = deploy(connector={"stop_timeout": "60s"})
    ids = deployment.fill("in", ["gate:1", ""])
    run = deployment.start()
    deployment.await_gate(run, "1", 1)
    run.signal_driver(signal.SIGTERM)
    wait_for(lambda: "stopping" in run.errors)
    run.signal_driver(signal.SIGTERM)
    assert run.wait(50) == 128 + signal.SIGTERM
    deployment.open("1")
    run.await_gone()
    deployment.drain()
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert max(deployment.begun().values()) <= 2
    assert deployment.leftovers() == []


def test_a_hangup_to_the_whole_group_is_ignored_and_sigterm_ends_it_in_order_although_java_dies_first(
    deploy: Deploy,
) -> None:
    """All processes get both. Spark tells its workers to end by a hangup; Java starts others.

    It starts as a user starts it.
    """
    deployment = deploy(fresh=True, java=True)
    run = deployment.start()
    deployment.await_archived(deployment.fill("in"))
    java = run.java()
    run.signal_all(signal.SIGHUP)
    wait_for(lambda: "SIGHUP is ignored" in run.errors)
    deployment.await_archived(deployment.fill("in"))
    assert deployment.begun() == dict.fromkeys(deployment.ids("archive"), 1)
    assert run.java() == java
    deployment.fill("in", ["sleep:0.5", "", ""])
    deployment.await_delivery()
    run.signal_all(signal.SIGTERM)
    assert run.wait(120) == 0, run.errors
    run.await_gone()
    assert deployment.begun() == dict.fromkeys(deployment.ids("archive"), 1), "what was delivered is archived"
    assert deployment.count("archive") + deployment.count("in") == 5
    assert deployment.leftovers(but=["in/target/"]) == []


@pytest.mark.parametrize("moment", ["signals wait", "java is there"])
def test_a_signal_while_it_starts_ends_it_in_order(deploy: Deploy, moment: str) -> None:
    """Until the program lets signals wait, it is Python that starts."""
    deployment = deploy(fresh=True, java=True)
    ids = deployment.fill("in", [""] * 3)
    run = deployment.start()
    if moment == "signals wait":
        wait_for(lambda: run.lets_wait(signal.SIGTERM))
        run.signal_driver(signal.SIGTERM)
    else:
        wait_for(run.java)
        run.signal_driver(signal.SIGINT)
    assert run.wait(120) == 0, run.errors
    run.await_gone()
    assert deployment.ids("in") + deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert deployment.leftovers(but=["in/target/"]) == []


def test_events_keep_their_order_over_jobs_that_are_sent_ahead_also_when_one_is_given_back(
    deploy: Deploy,
) -> None:
    """Failed and malformed events among them; each message once, in the order of its queue.

    A process that is not active ends the poll, also where the next job was sent ahead already.
    """
    deployment = deploy(connector={"PollQuantity": 7})
    (deployment.directory / "up").touch()
    names = ["raise:x" if number % 19 == 3 else "" for number in range(120)]
    names[100] = "inactive:up"
    ids = deployment.fill("in", names[:60])
    deployment.drop("in", "{not json", f"4.{ids[-1][3:]}z.T")
    ids += deployment.fill("in", names[60:])
    run = deployment.start("--drain", "--json")
    assert run.wait(120) != 0
    assert run.summary["published"] + run.summary["failed"] == 101
    assert [d.id for d in deployment.deliveries() if d.word == "begin"] == ids[:101]
    assert deployment.ids("in") == dict.fromkeys(ids[100:], 1)
    (deployment.directory / "up").unlink()
    run = deployment.drain()
    assert run.summary["published"] + run.summary["failed"] == 20
    assert [d.id for d in deployment.deliveries() if d.word == "begin"] == ids[:101] + ids[100:]


@pytest.mark.parametrize("order", ["destination", "none"])
def test_a_runner_is_replaced_after_worker_events_between_two_events(deploy: Deploy, order: str) -> None:
    deployment = deploy(connector={"worker_events": 10, "order": order}, spark={"master": "local[1]"})
    ids = deployment.fill("in", [""] * 95)
    run = deployment.drain()
    events = Counter(one.pid for one in deployment.deliveries() if one.word == "begin")
    assert sorted(events.values()) == [5, *[10] * 9]
    assert run.errors.count("a worker is replaced after many events") == 9
    assert_settled_once(deployment, ids, kills=0)
