"""Several adapters at one root or database: they share the work, and one takes over from another."""

from __future__ import annotations

import signal
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence

import pytest

from connector.operate.lives import read_all
from tests import forked_command
from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment, assert_settled_once
from tests.waiting import wait_for

GROUPS = "abcdefgh"


@pytest.mark.parametrize("provider_type", ["dropbox", "postgresql"])
def test_two_adapters_share_messages_and_publish_none_twice(
    deploy: Deploy, provider_type: str, request: pytest.FixtureRequest
) -> None:
    """The history tells of each event once. The default of the database is the strictest isolation."""
    if provider_type == "postgresql":
        name = request.getfixturevalue("database").rpartition("/")[2]
        with request.getfixturevalue("postgres").connect() as owner:
            owner.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    deployment = deploy(
        inputs=("a", "b"),
        connector={"PollQuantity": 5, "DuplicateEventElimination": True, "order": "none", "instance": None},
    )
    ids = deployment.fill("a", [""] * 60) + deployment.fill("b", [""] * 60)
    runs = [deployment.start("--drain", "--json", fault="claim=pause") for _ in range(2)]
    for run in runs:
        run.await_pause("claim")
    for run in runs:
        run.go_on()
    assert [run.wait() for run in runs] == [0, 0], [run.errors for run in runs]
    assert assert_settled_once(deployment, ids, kills=0) == 0
    published = [run.summary["published"] for run in runs]
    assert sum(published) == len(ids)
    assert min(published) > 0, f"both did work: {published}"
    told = read_all(deployment.provider.existing_state("crash").history(), 0.0)
    assert sorted(one.id for one in told) == sorted(ids)
    assert len({one.row.instance for one in told}) == 2


@pytest.mark.parametrize(("provider_type", "recovery"), [("dropbox", None), ("postgresql", 1.0)])
def test_a_living_adapter_takes_over_from_a_killed_one_without_a_restart(
    deploy: Deploy, recovery: float | None
) -> None:
    """Killed while it has claims of which one is at work; the neighbour finishes them in some ten seconds."""
    deployment = deploy(connector={"PollQuantity": 40}, recovery=recovery)
    killed = deployment.start()
    killed.await_start()
    ids = deployment.fill("in", [""] * 10 + ["gate:1"] + [""] * 20)
    deployment.await_gate(killed, "1", 1)
    neighbour = deployment.start()
    neighbour.await_poll()
    killed.kill_everything()
    deployment.open("1")
    ids += deployment.fill("in", [""] * 5)
    deployment.await_archived(ids)
    neighbour.stop()
    assert_settled_once(deployment, ids, kills=1)
    workers = defaultdict(set)
    for delivery in deployment.deliveries():
        workers[delivery.id].add(delivery.pid)
    assert len(workers[ids[10]]) == 2, "the one that was at work was delivered by both"


@pytest.mark.parametrize(
    ("provider_type", "in_progress"), [("sqlite", "queue://in-progress"), ("postgresql", None)]
)
def test_a_killed_adapter_hands_its_groups_over_in_order(deploy: Deploy, in_progress: str | None) -> None:
    """What was at work runs first in its group."""
    deployment = deploy(connector={"PollQuantity": 5, "order": "group", "InProgressDestination": in_progress})
    killed = deployment.start()
    killed.await_start()
    ids = deployment.fill("in", ["", "gate:1", ""], group="z")
    deployment.await_gate(killed, "1", 1)
    neighbour = deployment.start()
    neighbour.await_start()
    groups = {"z": ids, **_send(deployment, 3)}
    groups["z"] += deployment.fill("in", [""] * 3, group="z")
    wait_for(lambda: len(deployment.begun()) > 20, what="much is done beside it")
    killed.kill_everything()
    deployment.open("1")
    ids = [one for several in groups.values() for one in several]
    deployment.await_archived(ids)
    neighbour.stop()
    assert_settled_once(deployment, ids, kills=1)
    assert deployment.begun()[groups["z"][1]] == 2
    _assert_in_order(deployment, groups, again=2)


def _send(deployment: CrashDeployment, number: int) -> dict[str, list[str]]:
    """Sends three messages of each group in turn, ``number`` times. Returns their ids by group."""
    groups: dict[str, list[str]] = {group: [] for group in GROUPS}
    for _ in range(number):
        for group, ids in groups.items():
            ids += deployment.fill("in", ["sleep:0.02"] * 3, group=group)
    return groups


def _assert_in_order(deployment: CrashDeployment, groups: Mapping[str, Sequence[str]], *, again: int) -> None:
    """No event begins before the one ahead of it has ended.

    Args:
        again: how many events may have been at work when an adapter was killed. They begin again.
    """
    group_of = {one: group for group, ids in groups.items() for one in ids}
    at_work: dict[str, str] = {}
    ended: dict[str, list[str]] = {group: [] for group in groups}
    repeated = []
    for delivery in deployment.deliveries():
        group = group_of[delivery.id]
        if delivery.word == "begin":
            if group in at_work:
                assert at_work[group] == delivery.id, f"{delivery.id} begins beside {at_work[group]}"
                repeated.append(delivery.id)
            at_work[group] = delivery.id
        else:
            del at_work[group]
            if ended[group][-1:] == [delivery.id]:
                repeated.append(delivery.id)
            else:
                ended[group].append(delivery.id)
    assert ended == {group: list(ids) for group, ids in groups.items()}
    assert len(repeated) <= again


# -- a client whose lock never comes free, and that goes on after all ----------------------------------------


def takeover(deployment: CrashDeployment, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forked_command.run(["takeover", *arguments], cwd=deployment.directory)


@pytest.mark.parametrize(("provider_type", "whole_group"), [("dropbox", False), ("postgresql", True)])
def test_what_a_hung_client_has_claimed_is_done_by_others_and_it_does_none_of_it_late(
    deploy: Deploy, whole_group: bool
) -> None:
    deployment = deploy(connector={"stop_timeout": "1s", "DuplicateEventElimination": True})
    ids = deployment.fill("in", ["gate:stop", *[""] * 5])
    hung = deployment.start()
    deployment.await_gate(hung, "stop", 1)
    if whole_group:
        hung.signal_all(signal.SIGSTOP)
    else:
        hung.signal_driver(signal.SIGSTOP)
    lines = takeover(deployment).stdout.splitlines()
    (client,) = [line.split()[0] for line in lines if f" {hung.pid} " in line and " crash " in line]

    refused = takeover(deployment, client)
    assert refused.returncode == 2
    assert "may be alive" in refused.stderr
    assert "--it-is-dead" in refused.stderr
    done = takeover(deployment, client, "--it-is-dead")
    assert (done.returncode, done.stderr) == (0, "")
    again = takeover(deployment, client, "--it-is-dead")
    assert again.returncode == 1
    assert "was declared dead before" in again.stderr

    deployment.open("stop")
    other = deployment.drain()
    assert "took over from a dead client" in other.errors
    assert deployment.ids("archive").keys() == set(ids)

    ids += deployment.fill("in", [""] * 3)
    hung.signal_all(signal.SIGCONT)
    wait_for(lambda: "connected again" in hung.errors, 120, "a new connection")
    assert "its messages are redelivered, to this client or another: connect anew" in hung.errors
    deployment.await_archived(ids)
    hung.stop()
    assert_settled_once(deployment, ids, kills=1)
    assert takeover(deployment).stderr == "no clients\n"
