"""The adapter as a service: how it stops, and what it leaves behind."""

from __future__ import annotations

import signal
import time
from itertools import pairwise

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment
from tests.runs import Run
from tests.waiting import wait_for


def _idle_service(deployment: CrashDeployment) -> Run:
    """A service that has published one message and waits for the next poll."""
    run = deployment.start()
    archived = len(deployment.names("archive"))
    deployment.fill(deployment.inputs[0])
    wait_for(lambda: len(deployment.names("archive")) > archived)
    return run


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_what_is_in_flight_and_leaves_nothing_behind(deploy: Deploy, number: int) -> None:
    """The event at work is published; those after it in the same cycle as well, within stop_timeout."""
    deployment = deploy(java=number == signal.SIGTERM)
    ids = deployment.fill("in", ["gate:1", "sleep:0.05", ""])
    run = deployment.start()
    wait_for(lambda: deployment.reached("1"))
    deployment.fill("in", ["", ""])
    run.signal_driver(number)
    wait_for(lambda: "stopping" in run.errors)
    deployment.open("1")
    assert run.wait(120) == 0, run.errors
    run.await_gone()
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert set(deployment.begun().values()) == {1}
    assert len(deployment.names("in")) == 2, "messages that came after the signal stay"
    assert deployment.leftovers(but=["in/target/"]) == []


def test_a_process_that_takes_longer_than_stop_timeout_is_ended_and_the_rest_is_given_back(
    deploy: Deploy,
) -> None:
    deployment = deploy(connector={"stop_timeout": "1s"})
    done = deployment.fill("in", [""])
    slow = deployment.fill("in", ["sleep:300"])
    rest = deployment.fill("in", ["", ""])
    run = deployment.start()
    wait_for(lambda: slow[0] in deployment.begun())
    asked = time.monotonic()
    run.stop()
    assert time.monotonic() - asked < 60, "not the 300 s of the process"
    run.await_gone(120)
    assert deployment.ids("archive") == dict.fromkeys(done, 1)
    assert deployment.begun() == {done[0]: 1, slow[0]: 1}
    names = deployment.names("in")
    assert len(names) == 3
    assert [name for name in names if "JMSXDeliveryCountI=2" in name] == [names[0]], (
        "only the one that was begun"
    )
    assert slow[0].removeprefix("ID:") in names[0]
    assert set(deployment.ids("in")) == {*slow, *rest}
    assert deployment.leftovers(but=["in/target/"]) == []


def test_a_second_signal_ends_at_once_and_the_next_run_recovers(deploy: Deploy) -> None:
    deployment = deploy(connector={"stop_timeout": "20s"})
    ids = deployment.fill("in", ["gate:1", ""])
    run = deployment.start()
    wait_for(lambda: deployment.reached("1"))
    run.signal_driver(signal.SIGTERM)
    wait_for(lambda: "stopping" in run.errors)
    asked = time.monotonic()
    run.signal_driver(signal.SIGTERM)
    assert run.wait(120) == 128 + signal.SIGTERM
    assert time.monotonic() - asked < 15
    run.await_gone()
    deployment.open("1")
    deployment.java = False
    deployment.drain()
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert max(deployment.begun().values()) <= 2
    assert deployment.leftovers() == []


def test_a_signal_to_the_whole_busy_group_ends_it_in_order_although_java_dies_first(deploy: Deploy) -> None:
    deployment = deploy()
    run = _idle_service(deployment)
    deployment.fill("in", ["sleep:0.5", "", ""])
    deployment.await_delivery()
    run.signal_all(signal.SIGTERM)
    assert run.wait(120) == 0, run.errors
    run.await_gone()
    repeated = [n for n in deployment.begun().values() if n > 1]
    assert repeated == []
    archived, waiting = len(deployment.names("archive")), len(deployment.names("in"))
    assert archived + waiting == 4
    assert archived == len(deployment.begun()), "what was delivered is archived"
    assert deployment.leftovers(but=["in/target/"]) == []


def test_a_hangup_is_ignored_and_sigterm_to_the_whole_idle_group_ends_it_in_order(deploy: Deploy) -> None:
    """Both where all processes get it. Spark tells its workers to end by a hangup; Java starts others."""
    deployment = deploy()
    run = _idle_service(deployment)
    java = run.java()
    run.signal_all(signal.SIGHUP)
    wait_for(lambda: "SIGHUP is ignored" in run.errors)
    deployment.fill("in", [""])
    wait_for(lambda: len(deployment.names("archive")) == 2, what=lambda: run.errors)
    assert deployment.begun() == dict.fromkeys(deployment.ids("archive"), 1)
    assert run.java() == java
    wait_for(lambda: not deployment.names("in", "processing"), what="that it has nothing to do")
    run.signal_all(signal.SIGTERM)
    assert run.wait(120) == 0, run.errors
    run.await_gone()
    assert deployment.begun() == dict.fromkeys(deployment.ids("archive"), 1)
    assert len(deployment.names("archive")) == 2
    assert deployment.leftovers() == []


def test_poll_frequency_counts_from_the_end_of_a_poll_to_the_start_of_the_next(deploy: Deploy) -> None:
    """One message a poll, each half a second long: 0.5 s of work and 0.7 s of waiting, not 0.7 in all."""
    deployment = deploy(connector={"PollQuantity": 1, "PollFrequency": 700, "wake": False}, java=False)
    deployment.fill("in", ["sleep:0.5"] * 3)
    run = deployment.start()
    begun = []
    for number in range(3):
        wait_for(lambda number=number: len(deployment.begun()) > number)  # type: ignore[misc]
        begun.append(time.monotonic())
    run.stop()
    assert all(1.15 < later - earlier < 2.5 for earlier, later in pairwise(begun))


def test_a_service_with_poll_frequency_no_polls_nothing_but_takes_over_from_the_dead(deploy: Deploy) -> None:
    deployment = deploy(java=False)
    ids = deployment.fill("in", ["gate:1", ""])
    killed = deployment.start()
    wait_for(lambda: deployment.reached("1"))
    killed.kill_everything()
    deployment.configure(PollFrequency="no")
    deployment.open("1")
    run = deployment.start()
    wait_for(lambda: len(deployment.names("in")) == 2, what="the claims of the dead to come back")
    deployment.await_recovery()
    run.stop()
    assert deployment.ids("in") == dict.fromkeys(ids, 1)
    assert deployment.names("archive") == []


def test_outside_of_its_window_a_service_does_not_poll_and_a_drain_does(deploy: Deploy) -> None:
    in_two_hours = time.strftime("%H:%M", time.localtime(time.time() + 7200))
    in_three_hours = time.strftime("%H:%M", time.localtime(time.time() + 10800))
    deployment = deploy(connector={"PollStartTime": in_two_hours, "PollEndTime": in_three_hours}, java=False)
    ids = deployment.fill("in", [""])
    run = deployment.start()
    run.await_start()
    deployment.await_recovery()
    run.stop()
    assert deployment.ids("in") == dict.fromkeys(ids, 1)
    deployment.drain()
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)


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
    deployment.java = False
    run = deployment.drain()
    assert run.summary["published"] + run.summary["failed"] == 20
    assert [d.id for d in deployment.deliveries() if d.word == "begin"] == ids[:101] + ids[100:]


@pytest.mark.parametrize(
    ("seconds", "number"),
    [
        (0, signal.SIGTERM),
        (0, signal.SIGINT),
        (0.3, signal.SIGTERM),
        (0.7, signal.SIGINT),
        (1.3, signal.SIGTERM),
        (2.3, signal.SIGTERM),
    ],
)
def test_a_signal_while_it_starts_ends_it_in_order(deploy: Deploy, number: int, seconds: float) -> None:
    """Counted from the moment at which the program lets signals wait; before, it is Python that starts."""
    deployment = deploy(fresh=True)
    ids = deployment.fill("in", [""] * 3)
    run = deployment.start()
    wait_for(lambda: run.lets_wait(number))
    time.sleep(seconds)
    run.signal_driver(number)
    assert run.wait(120) == 0, run.errors
    run.await_gone()
    assert deployment.ids("in") + deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert deployment.leftovers(but=["in/target/"]) == []
