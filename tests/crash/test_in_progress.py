"""InProgressDestination and InDoubtEvents: what a killed adapter leaves, and the four ways to go on.

The journal decides first: what is done is settled, what is untouched goes back. The policy is about
what was begun, and about messages that nobody owns.
"""

from __future__ import annotations

import signal

import pytest

from tests.crash.conftest import Deploy
from tests.waiting import wait_for

JAVA = False


@pytest.mark.parametrize("provider_type", ["dropbox", "postgresql"])
def test_each_policy_does_with_what_is_in_doubt_what_it_says(deploy: Deploy) -> None:
    """One adapter killed with two events at work; then an operator who changes their mind."""
    deployment = deploy(
        inputs=("a", "b"),
        connector={"InProgressDestination": "queue://in-progress", "InDoubtEvents": "FailOnStartup"},
    )
    done, first, untouched = deployment.fill("a", ["", "gate:1", ""])
    run = deployment.start()
    wait_for(lambda: deployment.reached("1"))
    (second,) = deployment.fill("b", ["gate:1"])
    wait_for(lambda: len(deployment.reached("1")) == 2)
    run.kill_everything()
    deployment.open("1")
    assert deployment.ids("in-progress") == dict.fromkeys([done, first, untouched, second], 1)

    for _ in range(2):  # at the second start it has no owner that anybody knows
        run = deployment.start("--drain", "--json")
        assert run.wait() == 1
        run.await_gone()
        for text in ("FailOnStartup", first, second, "queue://in-progress", "move the others back"):
            assert text in run.errors
        assert deployment.ids("in-progress") == dict.fromkeys([first, second], 1)
        assert deployment.ids("archive") == {done: 1}, "the journal decides first: done is settled"
        assert deployment.ids("a") == {untouched: 1}, "and what is untouched is back"
        (message,) = deployment.messages("a")
        assert (message.delivery_count, message.properties) == (1, {}), "as it was"

    for policy, loud in (("Ignore", False), ("LogError", True)):
        deployment.configure(InDoubtEvents=policy)
        run = deployment.drain()
        assert (first in run.errors) == loud
        assert deployment.ids("in-progress") == dict.fromkeys([first, second], 1)
        assert deployment.ids("archive") == dict.fromkeys([done, untouched], 1)
    assert deployment.begun() == dict.fromkeys([done, first, untouched, second], 1)

    # one moved back by hand, as the texts say; the other reprocessed, before new input
    deployment.move_back("in-progress", "b", second)
    urgent = deployment.fill("a", [""], priority=9)
    deployment.configure(InDoubtEvents="Reprocess")
    deployment.drain()
    again = [d for d in deployment.deliveries() if d.word == "begin"][4:]
    assert again[0].id == first
    assert again[0].count == 2
    assert {d.id for d in again[1:]} == {*urgent, second}
    assert [d.count for d in again if d.id == second] == [2], "it may have been delivered before"
    assert deployment.ids("archive") == dict.fromkeys([done, first, untouched, second, *urgent], 1)
    assert deployment.leftovers() == []


@pytest.mark.parametrize("provider_type", ["dropbox", "sqlite"])
def test_an_event_that_ended_its_worker_stays_in_doubt_unless_reprocessed(deploy: Deploy) -> None:
    """And the good ones around it are published once; one that was not begun is in no doubt."""
    deployment = deploy(
        connector={"InProgressDestination": "queue://in-progress", "InDoubtEvents": "LogError"},
        store={"timeout": "1s"},
    )
    good = deployment.fill("in", ["", ""])
    doubtful = deployment.fill("in", ["kill", "hang"])
    good += deployment.fill("in", ["", ""])
    run = deployment.drain()
    assert run.summary["in_doubt"] == 2
    assert run.summary["published"] == 4
    assert deployment.ids("archive") == dict.fromkeys(good, 1)
    assert deployment.ids("in-progress") == dict.fromkeys(doubtful, 1)
    assert set(deployment.begun().values()) == {1}


def test_a_message_whose_process_is_not_active_waits_there_and_is_never_in_doubt(deploy: Deploy) -> None:
    """It runs again after PollFrequency and after kill -9, and who has confirmed is not called again."""
    deployment = deploy(
        connector={"InProgressDestination": "queue://in-progress", "InDoubtEvents": "FailOnStartup"},
        subscriptions=[{"object": "Customer", "name": "second", "process": "processes:second"}],
    )
    flag = deployment.directory / "asleep"
    flag.touch()
    (asleep,) = deployment.fill("in", [""], second="inactive:asleep")
    behind = deployment.fill("in", ["", ""])

    def asked_again() -> None:
        before = deployment.begun("second")[asleep]
        wait_for(lambda: deployment.begun("second")[asleep] >= before + 2)
        wait_for(lambda: deployment.ids("in-progress") == {asleep: 1}, what="that it waits for the next poll")

    for _ in range(2):
        run = deployment.start()
        asked_again()
        run.kill_everything()
        assert deployment.ids("archive") == {}, "what was claimed behind it waits for it"
    runs = [deployment.start(), deployment.start()]
    for run in runs:
        run.await_start()
    asked_again()
    flag.unlink()
    wait_for(lambda: deployment.count("archive") == 3, 120)
    for run in runs:
        run.signal_driver(signal.SIGTERM)
    assert [run.wait(120) for run in runs] == [0, 0]
    assert deployment.begun("store") == dict.fromkeys([asleep, *behind], 1)
    assert {delivery.count for delivery in deployment.deliveries()} == {1}
    assert deployment.leftovers() == []


@pytest.mark.parametrize("provider_type", ["dropbox", "sqlite"])
def test_a_neighbour_takes_over_what_a_killed_adapter_had_in_progress(deploy: Deploy) -> None:
    """A living neighbour's messages are never leftovers, a dead one's are at the next look."""
    deployment = deploy(connector={"InProgressDestination": "queue://in-progress"})
    ids = deployment.fill("in", ["gate:1", ""])
    killed = deployment.start()
    wait_for(lambda: deployment.reached("1"))
    neighbour = deployment.start()
    neighbour.await_start()
    others = deployment.fill("in", ["", ""])
    wait_for(lambda: deployment.count("archive") == 2)
    assert set(deployment.ids("in-progress")) == set(ids)
    killed.kill_everything()
    deployment.open("1")
    wait_for(lambda: deployment.count("archive") == 4, 120)
    neighbour.stop()
    assert deployment.ids("archive") == dict.fromkeys([*ids, *others], 1)
    assert deployment.begun() == {ids[0]: 2} | dict.fromkeys([ids[1], *others], 1)
    assert deployment.leftovers() == []
