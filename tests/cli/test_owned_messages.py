"""What an operator types beside a client that has messages at work, and about what it left in doubt."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any

import pytest

from connector.core.takeover import take_over
from connector.errors import ProviderError
from connector.messaging.destination import parse_destination
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from connector.operate.correct import CannotCorrect
from connector.service.orders import correct_message
from tests.cli.in_process import Commands
from tests.events.conftest import Bench, EventDeployment, bench
from tests.tables import rows

__all__ = ["bench"]

ORDERS, BUSY = parse_destination("queue://orders"), parse_destination("queue://busy")
SINCE = re.compile(r" since 20\d\d-\d\d-\d\dT[\d:.]+Z")
ADAPTER = "the adapter 'test', instance 'one', "
BODY = '{"BusinessObject": "Order", "Verb": "Create", "Id": "1"}'
VERBS = (
    *("replay {}", "replay {} --yes", "replay {} --to later --yes", "move {} later", "move {} later --yes"),
    *("discard {} --yes", "receive {}", "receive {} --ack rollback --count 5"),
)


class Beside:
    """A deployment, its commands, and an instance of its adapter that has one message of two at work."""

    def __init__(self, bench: Bench, section: dict[str, str]) -> None:
        self.bench = bench
        self.deployment: EventDeployment = bench.deploy(
            provider=section, InProgressDestination=str(BUSY), InDoubtEvents="LogError"
        )
        self.run = Commands(self.deployment.directory)

    def connect(self, application: str = "test", instance: str = "one") -> Connection:
        return self.deployment.provider.connect(application, instance)

    def claim(self, adapter: Connection, into: Any = BUSY) -> str:
        identity = self.deployment.send("orders", BODY)
        assert adapter.poller(ORDERS, into).take(1, 0) is not None
        return identity

    def leave_in_doubt(self) -> str:
        """An adapter dies at work, and another one finds its message in doubt."""
        adapter = self.connect()
        identity = self.claim(adapter)
        adapter.abandon()
        with closing(self.connect("test", "two")) as heir:
            (leftover,) = heir.leftovers(BUSY, at_start=True)
            heir.leave_unowned(leftover.claims[0])
            leftover.forget()
        return identity


@pytest.fixture(params=["dropbox", "sqlite"])
def beside(bench: Bench, request: pytest.FixtureRequest) -> Beside:
    sqlite = {"type": "sql", "url": f"sqlite:///{bench.root}.db"}
    return Beside(bench, sqlite if request.param == "sqlite" else {})


def refused(beside: Beside, line: str, *words: str) -> None:
    """A command moves nothing, and says whose the message is and since when."""
    answer = beside.run(*line.split())
    said = answer.stdout + answer.stderr
    assert answer.returncode == (1 if "--yes" in line else 0), (line, said)
    for word in words:
        assert word in said, (line, said)
    assert SINCE.search(said), (line, said)
    if not line.startswith("receive"):
        assert answer.stdout.startswith("0 messages of queue://"), said


def test_what_an_adapter_has_in_progress_is_refused_by_each_verb(beside: Beside) -> None:
    with closing(beside.connect()) as adapter:
        identity = beside.claim(adapter)
        for line in VERBS:
            refused(beside, line.format("busy"), ADAPTER, " process ")
        for line in (f"replay busy --id {identity} --yes", "move busy later --selector JMSPriority=4 --yes"):
            refused(beside, line, ADAPTER)
        document = beside.run("replay", "busy", "--yes", "--json").document
        assert (document["matched"], document["moved"]) == (0, 0)
        assert ADAPTER in next(iter(document["left"]))
        with pytest.raises(CannotCorrect, match=f"{ADAPTER}.* since 20"):
            correct_message(beside.deployment.configuration, BUSY, identity, b"{}", by="me")
        assert beside.deployment.ids("busy") == [identity]
        assert beside.deployment.deliveries("busy") == [(identity, 1)]


def test_what_is_claimed_is_refused_with_its_owner(beside: Beside) -> None:
    with closing(beside.connect()) as adapter, closing(beside.connect("", "")) as program:
        beside.claim(adapter, None)
        beside.deployment.send("orders", BODY)
        for line in ("move orders later", "move orders later --limit 9"):
            answer = beside.run(*line.split())
            assert answer.stdout.startswith("1 message of queue://orders would be moved")
            assert ADAPTER in answer.stdout
        assert program.poller(ORDERS).take(1, 0) is not None
        refused(beside, "move orders later --yes", ADAPTER, "1 not: in use by ")
        assert len(beside.deployment.ids("orders")) == 2


def test_what_a_lot_owns_is_refused(beside: Beside) -> None:
    with closing(beside.connect("", "")) as program:
        for _ in range(2):
            beside.deployment.send("orders", BODY)
        assert program.lots.claim(ORDERS, "nightly", 5) is not None
        refused(beside, "move orders later --yes", "2 not: in use by the lot 1 of 'nightly'")
        refusal = beside.run("lot", "nightly", "--give-back").failure()
        assert f"the client {program.client_id}, " in refusal
        assert SINCE.search(refusal)


def test_what_a_dead_adapter_had_waits_for_its_journal(beside: Beside) -> None:
    adapter = beside.connect()
    beside.claim(adapter)
    adapter.abandon()
    for line in VERBS:
        refused(beside, line.format("busy"), ADAPTER, ": it has ended; an instance of its adapter")


@rows("verb, where", [("replay", "orders"), ("move", "later"), ("discard", "archive")])
def test_what_is_in_doubt_goes_and_counts_on(beside: Beside, verb: str, where: str) -> None:
    identity = beside.leave_in_doubt()
    words = [verb, "busy", *(["later"] if verb == "move" else [])]
    assert beside.run(*words).stdout.startswith("1 message of queue://busy would be ")
    done = beside.run(*words, "--yes", "--expect", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (identity, 2) in beside.deployment.deliveries(where)
    assert beside.deployment.ids("busy") == []
    if verb == "replay":
        beside.deployment.drain()
        assert beside.bench.deliveries() == [(identity, 2)]
        assert "connector_token" not in beside.deployment.properties("archive", identity)


def test_what_has_failed_counts_anew(beside: Beside) -> None:
    with closing(beside.connect("", "")) as program:
        properties = {"connector_origin_destination": str(ORDERS), "connector_outcome": "failed"}
        identity = beside.deployment.send("error", BODY, properties=properties)
        for _ in range(2):
            claim = program.poller(parse_destination("queue://error")).take(1, 0)
            assert claim is not None
            program.settle([Settlement(claim, give_back=True, delivery_count=claim.delivery_count + 1)])
    assert beside.deployment.deliveries("error") == [(identity, 3)]
    assert beside.run("replay", "--yes").returncode == 0
    assert beside.deployment.deliveries("orders") == [(identity, 1)]


def test_in_doubt_events_are_received_and_corrected(beside: Beside) -> None:
    identity = beside.leave_in_doubt()
    answer = beside.run("receive", "busy", "--ack", "rollback", "--json")
    assert [one["JMSMessageID"] for one in answer.documents] == [identity]
    archive = correct_message(beside.deployment.configuration, BUSY, identity, BODY.encode(), by="me")
    assert str(archive) == "queue://orders"
    assert beside.deployment.ids("busy") == []


def test_a_root_that_is_gone_is_an_error_of_the_provider(bench: Bench) -> None:
    with closing(Beside(bench, {}).connect("", "")) as program:
        aside = bench.root.rename(bench.root.with_name("aside"))
        try:
            for at_start in (True, False):
                with pytest.raises(ProviderError, match="cannot take over from dead clients"):
                    take_over(program, at_start=at_start)
        finally:
            aside.rename(bench.root)
