"""Recovery: what a dead adapter left, decided by its journals first.

The journals are written here by hand, as a task would have left them when everything ended.
"""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from connector.events.hooks.activity import OutcomeCounts
from connector.events.settle.recovery import InDoubtAtStartup, Recovery
from connector.events.settle.settling import SettlementRules
from connector.events.summary import Summary
from connector.messaging.claim import Claim
from connector.messaging.copy_destinations import CopyDestinations
from connector.messaging.destination import parse_destination
from connector.operate.lives import read_life
from connector.service.assembly import make_provider
from connector.service.status_document import StatusReader
from connector.state.journal import JournalDirectory
from connector.status import ReturnCode
from connector.testing.deployment import InProcessAdapter
from tests.events.conftest import (
    A_AND_B,
    Bench,
    EventDeployment,
    connection_state,
    customer,
    logged,
    outcomes_of,
)
from tests.tables import rows

IN_PROGRESS = parse_destination("queue://busy")


def done(sequence: int, *values: object) -> str:
    """The lines of a delivery, as they were when an outcome still named its event."""
    return f"B {sequence}\nD {sequence} {json.dumps([sequence, *values])}\n"


class Victim:
    """An adapter that claims, writes journals and dies."""

    def __init__(self, deployment: EventDeployment, *, in_progress: bool = False) -> None:
        provider = make_provider(deployment.configuration)
        self.connection = provider.connect("test", "victim")
        self.journals = provider.state("test").journals(self.connection.client_id, "victim")
        self.journals.make()
        self._poller = self.connection.poller(
            parse_destination("queue://customers"), IN_PROGRESS if in_progress else None
        )

    def claim(self, number: int, cycle: int = 1) -> list[Claim]:
        taken = [self._poller.take(cycle, sequence) for sequence in range(number)]
        claims = [claim for claim in taken if claim is not None]
        assert len(claims) == number
        return claims

    @property
    def directory(self) -> Path:
        """Where its journals are."""
        assert isinstance(self.journals, JournalDirectory)
        return Path(self.journals.path)

    def journal(self, *lines: str, name: str = "1.0.0") -> None:
        """Writes the lines of a journal, whose name is of a cycle, a task and a try."""
        (self.directory / name).write_text("P 1 nowhere\n" + "".join(lines))

    def die(self) -> None:
        self.connection.abandon()


def leave(deployment: EventDeployment, claims: int, *lines: str, in_progress: bool = False) -> None:
    """An adapter claims so many customers, writes these lines of a journal, if any, and dies."""
    victim = Victim(deployment, in_progress=in_progress)
    victim.claim(claims)
    if lines:
        victim.journal(*lines)
    victim.die()


def start(deployment: EventDeployment) -> None:
    """Starts an adapter, which takes over, and stops it."""
    with deployment.running():
        pass


def drop(deployment: EventDeployment, *identities: str, name: str = "") -> None:
    for identity in identities:
        deployment.drop("customers", customer(name), f"4.{identity}.T")


def told(adapter: InProcessAdapter) -> dict[str, str]:
    return {identity: outcome for identity, (outcome, _) in outcomes_of(adapter).items()}


PUBLISHED = ("published", "Customer", "Create", None, 1, ["a"])
FAILED = ("failed", "Customer", "Create", "a: ValueError: x", 1)


def test_done_is_settled_begun_runs_again_untouched_runs(bench: Bench) -> None:
    deployment = bench.deploy(DuplicateEventElimination=True)
    drop(deployment, "pub", "fail", "begun", "torn", "twice", "confirmed", "at-work", "untouched")
    victim = Victim(deployment)
    victim.claim(8)
    journal = [done(0, *PUBLISHED), done(1, *FAILED), "B 2\n", "B 4\n", "B 3\n"]
    journal.append(done(5, "given_back", "Customer", "Create", "b: NotActive", 0, ["a"]))
    victim.journal(*journal, 'D 3 [3,"publ')
    victim.journal("B 4\nA 6\n", name="1.1.0")
    victim.die()
    with deployment.running() as adapter:
        assert told(adapter) == {"ID:pub": "published", "ID:fail": "failed"}
        begun = {"ID:begun": 2, "ID:torn": 2, "ID:twice": 3, "ID:at-work": 2}
        waiting = dict(deployment.deliveries("customers"))
        assert waiting == {**begun, "ID:confirmed": 1, "ID:untouched": 1}
        assert deployment.properties("customers", "ID:confirmed")["connector_delivered"] == "a"
        deployment.drop("customers", customer(), "4.pub.T....again")
        adapter.drain()
    assert bench.counts() == {**begun, "ID:untouched": 1}, "the only subscriber has confirmed one already"
    archived = {
        (one.message_id, one.properties["connector_outcome"]): one.properties["connector_attempts"]
        for one in deployment.messages("archive")
    }
    published = {"ID:pub": 1, **begun, "ID:confirmed": 0, "ID:untouched": 1}
    expected = {(identity, "published"): attempts for identity, attempts in published.items()}
    assert archived == {("ID:pub", "duplicate"): 0, **expected}
    assert deployment.ids("error") == ["ID:fail"]
    assert deployment.names("customers", "processing") == []


@rows("in_progress", [False, True])
def test_an_event_whose_prepared_message_is_gone_is_in_doubt(bench: Bench, in_progress: bool) -> None:
    """A provider that has lost its last commits may have lost that message. The journal is written again."""
    busy = "queue://busy" if in_progress else None
    deployment = bench.deploy(DuplicateEventElimination=in_progress, InProgressDestination=busy)
    drop(deployment, "gone", "done")
    victim = Victim(deployment, in_progress=in_progress)
    victim.claim(2)
    handle = [f"copies/processing/{victim.connection.client_id}.x", "copies/target/x"]
    lost = ("published", "Customer", "Create", None, 1, ["a"], [[handle, "queue://copies"]])
    victim.journal(done(0, *lost), done(1, *PUBLISHED))
    victim.die()
    with deployment.running() as adapter:
        if not in_progress:
            assert told(adapter) == {"ID:done": "published"}
        adapter.drain()
        assert told(adapter) == {"ID:done": "published", "ID:gone": "published"}
    assert bench.counts() == {"ID:gone": 2}
    events = read_life(deployment.provider.existing_state("test").history(), "ID:gone").events
    refused = [one.row.what for one in events if one.row.client == victim.connection.client_id]
    assert refused == ["in_doubt" if in_progress else "given_back"], "the journal says published"


@rows("mark", ["A 0\n", "B 0\n"])
def test_what_was_begun_max_attempts_times_over_several_lives_has_failed(bench: Bench, mark: str) -> None:
    """Whether its conversion or its delivery has ended everything."""
    deployment = bench.deploy(max_attempts=3)
    drop(deployment, "x")
    for _ in range(3):
        leave(deployment, 1, mark)
        start(deployment)
    ((outcome, reason),) = deployment.outcomes().values()
    assert (outcome, "begun 3 times" in reason, bench.calls()) == ("failed", True, [])
    assert deployment.properties("error", "ID:x")["connector_attempts"] == 3


def test_claims_without_any_mark_of_their_owner_go_back_as_begun(bench: Bench) -> None:
    deployment = bench.deploy()
    drop(deployment, "x")
    victim = Victim(deployment)
    victim.claim(1)
    victim.die()
    (bench.root / "dropboxmq" / "clients" / victim.connection.client_id).unlink()
    with deployment.running():
        # nobody knows whether it was delivered, so whoever gets it is told that it may be a repetition
        assert [m.delivery_count for m in deployment.messages("customers")] == [2]


def recovery(deployment: EventDeployment, connection: Any, summary: Summary) -> Recovery:
    rules = SettlementRules(CopyDestinations(parse_destination("archive")))
    whole = connection_state(connection, hooks=[OutcomeCounts(summary)])
    return Recovery(whole, deployment.provider.state("test"), rules)


def test_nothing_is_taken_over_while_a_task_of_the_dead_still_writes(bench: Bench) -> None:
    deployment = bench.deploy()
    drop(deployment, "x", "y")
    victim = Victim(deployment)
    victim.claim(2)
    task = victim.journals.file(1, 0, 0).open()
    task.begin(0)
    victim.die()
    connection = make_provider(deployment.configuration).connect("test", "heir")
    summary = Summary()
    heir = recovery(deployment, connection, summary)
    first = heir.run(at_start=False, timeout=0.0)
    assert (first.busy, first.settled, first.returned) == (True, 0, 0)
    assert len(deployment.names("customers", "processing")) == 2
    with pytest.raises(FileNotFoundError):  # a task that has not begun yet never will
        victim.journals.file(1, 1, 0).open()
    task.done(0, json.dumps([0, *PUBLISHED]).encode())
    task.close()
    second = heir.run(at_start=False, timeout=0.0)
    assert (second.busy, second.settled, second.returned) == (False, 1, 1)
    assert summary.total.published == 1
    assert deployment.ids("customers") == ["ID:y"]
    assert not victim.directory.exists()
    with closing(make_provider(deployment.configuration).connect("test", "late")) as late:
        third = recovery(deployment, late, summary).run(at_start=True, timeout=0.0)
    assert (third.settled, summary.total.published, len(deployment.names("archive"))) == (0, 1, 1)
    connection.close()


# -- with an in-progress destination ------------------------------------------------------------------


def left_in_progress(bench: Bench, policy: str) -> EventDeployment:
    """Three messages in progress, of a dead adapter: done, begun, untouched; and a new one that waits."""
    deployment = bench.deploy(InProgressDestination="queue://busy", InDoubtEvents=policy, PollQuantity=1)
    drop(deployment, "done", "begun", "untouched")
    leave(deployment, 3, done(0, *PUBLISHED), "B 1\n", in_progress=True)
    drop(deployment, "new")
    assert len(deployment.names("busy")) == 3
    return deployment


def ids(deployment: EventDeployment, queue: str) -> list[str]:
    return [identity.removeprefix("ID:") for identity in deployment.ids(queue)]


def test_reprocess_runs_what_was_begun_before_any_new_input(bench: Bench) -> None:
    deployment = left_in_progress(bench, "Reprocess")
    with deployment.running() as adapter:
        assert [call["id"] for call in bench.calls()] == ["ID:begun"]
        assert ids(deployment, "busy") == []
        assert sorted(ids(deployment, "customers")) == ["new", "untouched"]
        adapter.drain()
    assert bench.counts() == {"ID:begun": 2, "ID:untouched": 1, "ID:new": 1}
    assert {call["from"] for call in bench.calls()} == {"queue://customers"}
    assert sorted(ids(deployment, "archive")) == ["begun", "done", "new", "untouched"]
    origins = {m.properties["connector_origin_destination"] for m in deployment.messages("archive")}
    assert origins == {"queue://customers"}


@rows("policy, speaks", [("Ignore", False), ("LogError", True)])
def test_ignore_and_log_error_leave_what_was_begun_where_it_is(
    bench: Bench, policy: str, speaks: bool, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = left_in_progress(bench, policy)
    for _ in range(2):  # the second start finds it again, though its owner is forgotten
        caplog.clear()
        deployment.drain()
        said = [line["reason"] for line in logged(caplog, "messages are in doubt")]
        assert ["ID:begun" in reason for reason in said] == [True] * speaks
        assert ids(deployment, "busy") == ["begun"]
    assert sorted(ids(deployment, "archive")) == ["done", "new", "untouched"]
    assert sorted(bench.called()) == ["ID:new", "ID:untouched"]
    with deployment.running() as adapter:
        adapter.drain()
        reader = StatusReader(deployment.configuration, deployment.provider)
        (reason,) = reader.read()["reasons"]
        assert (reason.kind, reason.subject, reason.count) == ("in_doubt", "queue://busy", 1)
        assert "ID:begun" in reason.text
        deployment.move("busy", "customers")
        inbound = adapter._connection.inbound
        assert inbound is not None
        inbound.recover(at_start=False)
        adapter.poll()
        adapter.notes.look(is_good=True, at_once=True)
        assert reader.read()["reasons"] == []


def test_fail_on_startup_ends_the_start_until_somebody_has_looked(bench: Bench) -> None:
    deployment = left_in_progress(bench, "FailOnStartup")
    for _ in range(2):
        with pytest.raises(InDoubtAtStartup) as raised:
            start(deployment)
        for words in (
            "1 message in queue://busy",
            "ID:begun",
            "FailOnStartup",
            "connector replay queue://busy",
        ):
            assert words in str(raised.value)
        assert raised.value.exit_status == 2
    # the journal decided about the others all the same
    assert ids(deployment, "archive") == ["done"]
    assert sorted(ids(deployment, "customers")) == ["new", "untouched"]
    assert bench.calls() == []
    deployment.move("busy", "customers")
    deployment.drain()
    assert sorted(bench.called()) == ["ID:begun", "ID:new", "ID:untouched"]
    assert sorted(ids(deployment, "archive")) == ["begun", "done", "new", "untouched"]


def test_messages_in_progress_that_nobody_owns_are_in_doubt(bench: Bench) -> None:
    deployment = bench.deploy(InProgressDestination="queue://busy")
    deployment.drop("busy", '{"BusinessObject": "Order"}', "4.foreign.T")
    with deployment.running():
        assert bench.deliveries() == [("ID:foreign", 2)]
    assert ids(deployment, "archive") == ["foreign"]


# -- a process that is not active, and an in-progress destination ---------------------------------------


BUSY: dict[str, Any] = {"InProgressDestination": "queue://busy", "PollQuantity": 1, "subscriptions": A_AND_B}


def sleeping(bench: Bench, **connector: Any) -> EventDeployment:
    """A deployment where the process b of the first message is not active until it is woken."""
    deployment = bench.deploy(**BUSY, **connector)
    drop(deployment, "1", name="b: inactive-once")
    drop(deployment, "2", "3")
    return deployment


@rows("provider", ["dropbox", "memory"])
def test_what_its_process_cannot_take_yet_waits_in_progress_and_runs_first(
    bench: Bench, provider: str
) -> None:
    settings: dict[str, Any] = {"InProgressDestination": "queue://busy", "PollQuantity": 2}
    deployment = bench.deploy(provider={"type": provider}, subscriptions=A_AND_B, **settings)
    asleep, *others = [deployment.send("customers", customer(name)) for name in ("b: inactive-once", "", "")]
    urgent = ""
    with deployment.running() as adapter:
        for number in range(3):
            report = adapter.poll()
            assert report.code is ReturnCode.APPRESPONSETIMEOUT
            assert not report.provider_failed
            assert deployment.ids("busy") == [asleep]
            waiting = deployment.ids("customers")
            assert waiting == [urgent] * bool(urgent) + others, "what was claimed behind it is back"
            if number == 1:
                urgent = deployment.send("customers", customer(), priority=9)
        deployment.write("woken", "")
        assert adapter.poll().code is ReturnCode.SUCCEED
        assert deployment.messages("busy") == []
        adapter.drain()
    # the one that has confirmed is not called again, and nothing overtakes in order: destination
    calls = [(call["who"], call["id"], call["count"]) for call in bench.calls()]
    assert calls[:5] == [("a", asleep, 1), *[("b", asleep, 1)] * 4]
    assert [call[1] for call in calls[5::2]] == [urgent, *others]
    assert set(deployment.ids("archive")) == {asleep, urgent, *others}
    assert bench.inputs() == {"queue://customers"}
    expected = {"attempts": 1, "outcome": "published", "delivered": "a;b"}
    expected["origin_destination"] = "queue://customers"
    properties = deployment.properties("archive", asleep)
    assert {name: properties[f"connector_{name}"] for name in expected} == expected


@rows("policy", ["FailOnStartup", "LogError", "Ignore", "Reprocess"])
def test_what_waits_is_not_in_doubt_and_left_to_its_application(bench: Bench, policy: str) -> None:
    """Messages of another queue go on meanwhile, and any instance of the application may run it."""
    deployment = sleeping(bench, InDoubtEvents=policy)
    deployment.drop("orders", '{"BusinessObject": "Order"}', "4.other.T")
    with deployment.running(parallelism=2) as adapter:
        adapter.poll()
    own: dict[str, Any] = {"InputDestination": "queue://elsewhere", "ConfigurationMetaObject": None}
    bench.deploy(**BUSY, ApplicationName="stranger", InDoubtEvents="LogError", **own).drain()
    assert (ids(deployment, "customers"), ids(deployment, "archive")) == (["2", "3"], ["other"])
    deployment = bench.deploy(**BUSY, InDoubtEvents=policy)
    with deployment.running() as adapter:
        assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
        assert ids(deployment, "busy") == ["1"]
        deployment.write("woken", "")
        bench.deploy(**BUSY, InDoubtEvents=policy, instance="two").drain()
        assert adapter.drain().code is ReturnCode.SUCCEED
    called = [f"{call['who']} {call['id'][3:]}" for call in bench.calls() if call["object"] == "Customer"]
    assert called[:4] == ["a 1", *["b 1"] * 3]
    assert sorted(ids(deployment, "archive")) == ["1", "2", "3", "other"]
    assert {call["count"] for call in bench.calls()} == {1}


def test_a_message_that_expires_while_it_waits_is_no_event_any_more(bench: Bench) -> None:
    deployment = sleeping(bench)
    soon = int(time.time() * 1000) + 60_000
    (name,) = (name for name in deployment.names("customers") if name.startswith("4.1."))
    target = Path(deployment.folders("customers").target)
    (target / name).rename(target / f"4.1.T.{soon}")
    with deployment.running() as adapter:
        adapter.poll()
        (waiting,) = deployment.names("busy")
        busy = Path(deployment.folders("busy").target)
        (busy / waiting).rename(busy / waiting.replace(str(soon), "1"))
        assert adapter.poll().code is ReturnCode.SUCCEED
        assert adapter.summary.total.expired == 1
        adapter.drain()
    assert deployment.names("busy") == []
    assert ids(deployment, "customers~EXPIRED") == ["1"]
    assert sorted(ids(deployment, "archive")) == ["2", "3"]
    assert bench.called("b") == ["ID:1", "ID:2", "ID:3"]


def test_a_waiting_message_whose_delivery_was_begun_again_is_in_doubt(bench: Bench) -> None:
    """The run after the wait is an attempt like any other: when it dies, nobody knows how far it came."""
    deployment = sleeping(bench, InDoubtEvents="FailOnStartup")
    with deployment.running() as adapter:
        adapter.poll()
    victim = Victim(deployment, in_progress=True)
    (waiting,) = victim.connection.find_unowned(IN_PROGRESS)
    assert victim.connection.adopt(waiting, 1, 0) is not None
    victim.journal("B 0\n")
    victim.die()
    for _ in range(2):
        with pytest.raises(InDoubtAtStartup, match="ID:1"):
            start(deployment)
    assert ids(deployment, "busy") == ["1"]


@rows("journalled", [True, False])
def test_a_journal_leaves_a_message_waiting_or_gives_it_back(bench: Bench, journalled: bool) -> None:
    deployment = bench.deploy(
        subscriptions=A_AND_B, InProgressDestination="queue://busy", InDoubtEvents="FailOnStartup"
    )
    drop(deployment, "1")
    victim = Victim(deployment, in_progress=True)
    victim.claim(1)
    if journalled:
        victim.journal(done(0, "given_back", "Customer", "Create", "b: NotActive", 0, ["a"]))
    victim.die()
    with deployment.running() as adapter:
        assert ids(deployment, "busy") == ["1"] * journalled
        assert ids(deployment, "customers") == ["1"] * (not journalled)
        adapter.drain()
    assert bench.called("a") == ["ID:1"] * (not journalled)
    assert bench.called("b") == ["ID:1"]


def test_a_message_whose_headers_cannot_be_read_finds_its_way_back_from_in_progress(bench: Bench) -> None:
    deployment = bench.deploy(InProgressDestination="queue://busy", InDoubtEvents="FailOnStartup")
    deployment.drop("customers", customer(), "4.odd.T.....nI=many")
    leave(deployment, 1, in_progress=True)
    with deployment.running() as adapter:
        assert ids(deployment, "customers") == ["odd"]
        assert adapter.drain().code is ReturnCode.SUCCEED
    properties = deployment.properties("error", "ID:odd")
    assert properties["connector_origin_destination"] == "queue://customers"
    assert "many" in properties["connector_reason"]
