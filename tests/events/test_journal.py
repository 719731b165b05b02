"""What a task and a client write down: the event at work in a journal, and the messages that come again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from connector.events.outcome import Outcome
from connector.events.run.task import Task
from connector.events.run.task_settings import WorkItem
from connector.events.settle.redeliveries import Redeliveries, Redelivery
from connector.limits.runner_control import RunnerControl
from connector.messaging.destination import parse_destination
from connector.messaging.state_store import ClaimNote, CycleJournal
from connector.service.assembly import make_task_settings
from connector.state.journal import JournalDirectory, JournalFile
from connector.state.redeliveries import RedeliveryFile
from connector.status import OutcomeKind
from tests.events.conftest import Bench
from tests.tables import rows

# -- the journal names the event at work before it is converted, and at no other time ------------------

PROCESS = """\
import pathlib
from connector import NotActive

HERE = pathlib.Path(__file__).parent

def a(bo, event):
    number = len(list(HERE.glob("seen.*")))
    HERE.joinpath(f"seen.{number}").write_bytes(HERE.joinpath("journal").read_bytes())
    if bo["Id"] == "inactive":
        raise NotActive("not now")
"""


def run(bench: Bench, *bodies: str, order_groups: list[list[int]]) -> tuple[list[CycleJournal], CycleJournal]:
    """Runs events as a worker does; returns the journal as each call of the process saw it, and the last."""
    deployment = bench.deploy(processes=PROCESS)
    for number, body in enumerate(bodies):
        deployment.drop("orders", body, f"4.{number}.T")
    connection = deployment.provider.connect("test", "one")
    poller = connection.poller(deployment.configuration.connector.inputs[1].destination)
    claims = [claim for number in range(len(bodies)) if (claim := poller.take(1, number)) is not None]
    task_settings = make_task_settings(deployment.configuration, deployment.provider, connection.access())
    items: list[list[WorkItem]] = [
        [(claims[n].sequence, str(claims[n].destination), claims[n].reference, 0, None) for n in group]
        for group in order_groups
    ]
    path = bench.directory / "journal"
    task = Task(task_settings, str(deployment.directory), RunnerControl())
    try:
        task.run(JournalFile(str(path)), items)
    finally:
        task.close()
        poller.close()
        connection.abandon()
    seen = sorted(bench.directory.glob("seen.*"), key=lambda file: int(file.suffix[1:]))
    return [_read(file) for file in seen], _read(path)


def _read(path: Path) -> CycleJournal:
    found = CycleJournal()
    JournalFile(str(path)).read(found)
    return found


def order(identity: str = "7") -> str:
    return f'{{"BusinessObject": "Order", "Id": "{identity}"}}'


@rows("order_groups", [[[0, 1, 2]], [[0], [], [1, 2]], [[0], [1], [2]]])
def test_each_event_is_at_work_while_it_is_processed(bench: Bench, order_groups: list[list[int]]) -> None:
    seen, end = run(bench, order(), order(), order(), order_groups=order_groups)
    assert [one.at_work for one in seen] == [{0: 1}, {1: 1}, {2: 1}]
    assert (end.at_work, set(end.done)) == ({}, {0, 1, 2})


def test_an_event_without_a_delivery_is_named_too(bench: Bench) -> None:
    seen, end = run(bench, order(), "{broken", order(), order_groups=[[0, 1, 2]])
    assert [one.at_work for one in seen] == [{0: 1}, {2: 1}]
    assert b"D 0" in (data := (bench.directory / "journal").read_bytes())
    assert b"A 1\nA 2\n" in data
    assert end.at_work == {}


def test_what_comes_after_an_event_that_is_given_back_is_not_at_work(bench: Bench) -> None:
    seen, end = run(bench, order("inactive"), order(), order_groups=[[0, 1]])
    assert [one.at_work for one in seen] == [{0: 1}]
    assert end.at_work == {}
    assert b"A 1" not in (bench.directory / "journal").read_bytes()


# -- the record of redelivered messages: each entry settles one message, whoever gets it -----------------

INPUT = "queue://orders"
DONE = Redelivery(INPUT, Outcome(OutcomeKind.PUBLISHED, "Customer", "Create", attempts=1))


@pytest.fixture
def own(tmp_path: Path) -> Redeliveries:
    return Redeliveries(RedeliveryFile(str(tmp_path)), "own")


@pytest.fixture
def other(tmp_path: Path) -> Redeliveries:
    return Redeliveries(RedeliveryFile(str(tmp_path)), "other")


def claims(*identities: str) -> dict[int, ClaimNote]:
    return {number: ClaimNote(INPUT, identity) for number, identity in enumerate(identities)}


def test_an_entry_is_for_one_message(tmp_path: Path, own: Redeliveries, other: Redeliveries) -> None:
    own.put([((1, 0), "a", DONE), ((1, 1), "b", Redelivery(INPUT))])
    assert own.has(parse_destination(INPUT))
    found = other.take([((7, 0), "a"), ((7, 1), "a"), ((7, 2), "b")])
    assert {place: (one.entry, one.client, one.cycle) for place, one in found.items()} == {
        (7, 0): (DONE, "own", 1)
    }
    assert not own.has(parse_destination(INPUT))
    assert own.take([((2, 0), "a")]) == {}
    other.remove_settled([(7, 0)])
    assert RedeliveryFile(str(tmp_path)).read() == []
    equal = [DONE, Redelivery(INPUT, begun=2)]
    own.put([((3, number), "a", entry) for number, entry in enumerate(equal)])
    found = own.take([((4, 0), "a"), ((4, 1), "a"), ((4, 2), "a")])
    assert {place: one.entry for place, one in found.items()} == {(4, 0): equal[0], (4, 1): equal[1]}


def test_a_transaction_that_is_rolled_back_again_replaces_its_entries(own: Redeliveries) -> None:
    own.put([((1, 0), "a", Redelivery(INPUT, begun=1))])
    own.take([((2, 0), "a")])
    own.put([((2, 0), "a", Redelivery(INPUT, begun=2))])
    found = own.take([((3, 0), "a")])
    assert found[3, 0].entry.begun == 2
    assert own.take([((3, 1), "a")]) == {}


def test_the_entries_of_a_dead_client_are_free_with_what_its_journal_says(
    own: Redeliveries, other: Redeliveries
) -> None:
    other.put([((1, 0), "a", Redelivery(INPUT, begun=1)), ((1, 1), "b", DONE), ((1, 2), "c", DONE)])
    other.take([((2, 0), "a"), ((2, 1), "b"), ((3, 0), "c")])
    journals = {
        2: CycleJournal(begun={0: 1}, claims=claims("a", "b", "new")),
        3: CycleJournal(claims=claims("c")),
    }
    assert own.origins("other") == {("other", 1)}
    for _ in range(2):  # a takeover may be tried again
        own.adopt("other", journals, committed={3})
    assert own.origins("other") == set()
    found = own.take([((1, n), name) for n, name in enumerate(["a", "b", "c", "new", "a", "b"])])
    assert {place: (one.entry.begun, one.entry.outcome) for place, one in found.items()} == {
        (1, 0): (2, None),
        (1, 1): (0, DONE.outcome),
    }


def test_a_late_commit_removes_the_entries_of_its_transaction(own: Redeliveries) -> None:
    journals = {cycle: CycleJournal(begun={0: 1}, claims=claims(f"m{cycle}")) for cycle in (1, 2)}
    assert own.adopt("dead", journals, committed=set()) == 2
    own.remove_committed("dead", 1)
    assert set(own.take([((1, 0), "m1"), ((1, 1), "m2")])) == {(1, 1)}


def test_the_entries_of_expired_messages_go_unless_a_claim_holds_them(
    tmp_path: Path, own: Redeliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns() // 1_000_000
    long_ago, just_now, later = (DONE._replace(expiration=now + 1000 * s) for s in (-3600, 90, 3600))
    names = {"held": long_ago, "gone": long_ago, "never": DONE, "soon": just_now, "waits": later}
    own.put([((1, number), name, entry) for number, (name, entry) in enumerate(names.items())])
    own.take([((2, 0), "held")])
    noted = {0: ClaimNote(INPUT, "lost", long_ago.expiration), 1: ClaimNote(INPUT, "kept", later.expiration)}
    own.adopt("dead", {7: CycleJournal(claims=noted)}, committed=set(), pending={7})
    assert own.remove_expired() == set()  # a commit may come late
    monkeypatch.setattr(time, "time", lambda: now / 1000 + 120)
    assert own.remove_expired() == {("own", 1), ("dead", 7)}
    assert own.remove_expired() == set()
    left = {note.identity for note in RedeliveryFile(str(tmp_path)).read()}
    assert left == {"held", "never", "soon", "waits", "kept"}


def test_entries_and_claims_of_earlier_versions_never_expire(tmp_path: Path) -> None:
    assert Redelivery.from_list(DONE.to_list()[:5]) == DONE
    (tmp_path / "3.claims").write_text('[[0,"queue://orders","a"]]')
    (tmp_path / "3.0.0").write_text("")
    assert JournalDirectory(str(tmp_path)).read()[3].claims == {0: ClaimNote(INPUT, "a")}
