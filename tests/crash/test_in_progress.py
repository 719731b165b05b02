"""InProgressDestination and InDoubtEvents: what a killed adapter leaves, and the four ways to go on.

The journal decides first: what is done is settled, what is untouched goes back. The policy is about
what was begun, and about messages that nobody owns. Each case of it: tests/events/test_recovery.py.
"""

from __future__ import annotations

import pytest

from tests.crash.conftest import Deploy


@pytest.mark.parametrize("provider_type", ["postgresql"])
def test_each_policy_does_with_what_is_in_doubt_what_it_says(deploy: Deploy) -> None:
    """One adapter killed with two events at work; then an operator who changes their mind."""
    deployment = deploy(
        inputs=("a", "b"),
        connector={"InProgressDestination": "queue://in-progress", "InDoubtEvents": "FailOnStartup"},
    )
    done, first, untouched = deployment.fill("a", ["", "gate:1", ""])
    run = deployment.start()
    deployment.await_gate(run, "1", 1)
    (second,) = deployment.fill("b", ["gate:1"])
    deployment.await_gate(run, "1", 2)
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
def test_a_neighbour_takes_over_what_a_killed_adapter_had_in_progress(deploy: Deploy) -> None:
    """A living neighbour's messages are never leftovers, a dead one's are at the next look."""
    deployment = deploy(connector={"InProgressDestination": "queue://in-progress"})
    ids = deployment.fill("in", ["gate:1", ""])
    killed = deployment.start()
    deployment.await_gate(killed, "1", 1)
    neighbour = deployment.start()
    neighbour.await_start()
    others = deployment.fill("in", ["", ""])
    deployment.await_archived(others)
    assert set(deployment.ids("in-progress")) == set(ids)
    killed.kill_everything()
    deployment.open("1")
    deployment.await_archived([*ids, *others])
    neighbour.stop()
    assert deployment.ids("archive") == dict.fromkeys([*ids, *others], 1)
    assert deployment.begun() == {ids[0]: 2} | dict.fromkeys([ids[1], *others], 1)
    assert deployment.leftovers() == []
