"""A settlement of which a message does not come stays open, and nothing is concluded from silence."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Any

import pytest

from connector.brokers.engine.connection import RemoteConnection
from connector.brokers.engine.progress_claim import ProgressClaim, browse_progress
from connector.errors import ClaimLost, ProviderError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement, SettlementOpen
from connector.status import ReturnCode
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import deploy, ids, leftovers, running, send, stored
from tests.waiting import wait_for

ORDERS, ARCHIVE, PROGRESS = map(parse_destination, ("queue://orders", "queue://archive", "queue://progress"))
COMMITS = "connector.lent.commits"


def deploy_so(directory: Path, **connector: Any) -> Deployment:
    keys: dict[str, Any] = {
        "DuplicateEventElimination": False,
        "InDoubtEvents": "Reprocess",
        "stop_timeout": "100ms",
    }
    return deploy(directory, InProgressDestination=str(PROGRESS), **keys, **connector)


def be_silent(provider: LentProvider, queue: str, *bodies: bytes) -> None:
    """Lets a queue keep its messages back, or those with certain bodies."""
    provider.broker.is_silent = lambda name, message: (
        name == queue and (not bodies or any(body in message.body for body in bodies))
    )


def speak(provider: LentProvider) -> None:
    provider.broker.is_silent = lambda name, message: False
    with provider.broker.changed:
        provider.broker.changed.notify_all()


def finish(adapter: InProcessAdapter) -> None:
    wait_for(lambda: adapter.drain().code is ReturnCode.SUCCEED)


def check(provider: LentProvider, deployment: Deployment, sent: list[str]) -> None:
    """Checks that each event was called and settled once, and that nothing is left."""
    assert sorted(line.split()[0] for line in stored(deployment)) == [str(n) for n in range(len(sent))]
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)
    assert len(ids(provider, "crm")) == len(sent)
    assert ids(provider, "error") == ids(provider, "progress") == ids(provider, "customers") == []
    assert "DLQ" not in provider.broker.queues
    state: Any = provider.existing_state("lent")
    assert leftovers(state) == []
    marks = [one.message.properties for one in provider.broker.waiting(COMMITS)]
    assert [one for one in marks if "connector_directory" not in one] == []


@pytest.mark.parametrize("bodies", [(), (b'"1"',)])
def test_a_settlement_of_which_a_message_does_not_come_settles_nothing_and_is_tried_again(
    tmp_path: Path, provider: LentProvider, caplog: pytest.LogCaptureFixture, bodies: tuple[bytes, ...]
) -> None:
    deployment = deploy_so(tmp_path)
    sent = send(provider, "", "", "")
    be_silent(provider, "progress", *bodies)
    with running(deployment, provider) as adapter:
        report = adapter.poll()
        assert (report.code, report.settled, report.provider_failed) == (
            ReturnCode.APPRESPONSETIMEOUT,
            0,
            False,
        )
        assert "do not come from queue://progress" in report.reason
        for _ in range(12):  # a rollback each time would use up the deliveries
            adapter.poll()
        assert ids(provider, "archive") == ids(provider, "crm") == []
        assert stored(deployment) == ["0 1", "1 1", "2 1"]
        inbound = adapter._connection.inbound
        assert inbound is not None
        assert "do not come" in inbound.closed["queue://customers"]
        said = [one for one in caplog.records if "stays open" in one.getMessage()]
        assert [one.levelno for one in said] == [logging.ERROR]
        speak(provider)
        finish(adapter)
        assert inbound.closed == {}
    check(provider, deployment, sent)


@pytest.mark.parametrize("ends", ["stop", "kill"])
def test_recovery_settles_what_was_done_and_calls_nothing_again(
    tmp_path: Path, provider: LentProvider, ends: str
) -> None:
    deployment = deploy_so(tmp_path)
    sent = send(provider, "", "", "")
    be_silent(provider, "progress")
    with contextlib.suppress(ProviderError), running(deployment, provider) as adapter:
        adapter.poll()
        if ends == "kill":
            for connection in provider.broker.connections:
                connection.close()
    for _ in range(2):  # a start in the silence
        with running(deployment, provider) as adapter:
            adapter.poll()
        assert ids(provider, "archive") == []
    be_silent(provider, "progress", b'"2"')
    with running(deployment, provider) as adapter:
        adapter.poll()
        assert len(ids(provider, "archive")) == 2, "what has come is settled"
        speak(provider)
    with running(deployment, provider) as adapter:
        finish(adapter)
    check(provider, deployment, sent)


def test_what_is_in_doubt_is_looked_for_again(tmp_path: Path, provider: LentProvider) -> None:
    deployment = deploy_so(tmp_path)
    sent = send(provider, "end")
    with running(deployment, provider) as adapter:
        connection = provider.connect("lent", "one")
        (claim,) = connection.poller(parse_destination("queue://customers"), PROGRESS).claim(1, range(1))
        connection.leave_unowned(claim)
        connection.close()
        deployment.write("ended", "")
        adapter.stop()
        be_silent(provider, "progress")
        adapter.start()
        assert stored(deployment) == []
        speak(provider)
        inbound = adapter._connection.inbound
        assert inbound is not None
        inbound.recover(at_start=False)
        finish(adapter)
    assert stored(deployment) == ["0 2"]
    assert ids(provider, "archive") == sent


@pytest.mark.parametrize("in_progress", [True, False])
def test_a_mark_that_does_not_come_stops_nothing_for_ever_and_is_removed(
    tmp_path: Path, provider: LentProvider, in_progress: bool
) -> None:
    deployment = deploy_so(tmp_path) if in_progress else deploy(tmp_path, DuplicateEventElimination=False)
    sent = send(provider, "", "")
    with running(deployment, provider) as adapter:
        be_silent(provider, COMMITS)
        adapter.poll()
        assert bool(ids(provider, "archive")) is not in_progress
        speak(provider)
        finish(adapter)
        for _ in range(2):  # each commit consumes the mark before
            adapter.poll()
    check(provider, deployment, sent)


def test_marks_that_do_not_come_at_the_end_are_removed_by_the_next_client(
    tmp_path: Path, provider: LentProvider
) -> None:
    deployment = deploy_so(tmp_path)
    sent = send(provider, "", "")
    with running(deployment, provider) as adapter:
        adapter.drain()
        be_silent(provider, COMMITS)
    speak(provider)
    with running(deployment, provider) as adapter:
        adapter.drain()
    check(provider, deployment, sent)


def claim_one(provider: LentProvider) -> tuple[RemoteConnection, Any]:
    connection = provider.connect("shop", "one")
    connection.send(ORDERS, [Message(b"body")])
    (claim,) = connection.poller(ORDERS, PROGRESS).claim(1, range(1))
    return connection, claim


def test_a_message_that_another_client_has_taken_over_is_lost(
    provider: LentProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, claim = claim_one(provider)
    other = provider.connect("shop", "two")
    assert other.in_progress is not None
    other.in_progress.begin(PROGRESS)
    ((owner, number, received),) = browse_progress(other.broker, PROGRESS, "")
    assert other.in_progress.adopt(ProgressClaim(owner, number, PROGRESS, received), 5, 0) is not None
    with pytest.raises(SettlementOpen):
        connection.settle([Settlement(claim, ARCHIVE)])
    monkeypatch.setattr("connector.brokers.engine.progress_settler._SILENT_SECONDS", 0.0)
    connection.in_progress.settler._kept.clear()  # type: ignore[union-attr]
    with pytest.raises(ClaimLost, match="has taken"):
        connection.settle([Settlement(claim, ARCHIVE)])


def test_only_the_broker_says_that_a_message_is_gone(provider: LentProvider) -> None:
    connection, claim = claim_one(provider)
    connection.settle([Settlement(claim, give_back=True, stay=True)])
    (waiting,) = connection.find_unowned(PROGRESS)
    be_silent(provider, "progress")
    with pytest.raises(SettlementOpen):
        connection.adopt(waiting, 2, 0)
    with pytest.raises(SettlementOpen):
        connection.leave_unowned(waiting)
    speak(provider)
    adopted = connection.adopt(waiting, 2, 0)
    assert adopted is not None
    be_silent(provider, "progress")
    assert connection.adopt(waiting, 3, 0) is None, "the queue shows its successor"
    with pytest.raises(SettlementOpen):
        connection.settle([Settlement(adopted, ARCHIVE)])
    speak(provider)
    connection.settle([Settlement(adopted, ARCHIVE)])
    assert len(ids(provider, "archive")) == 1
    with pytest.raises((ClaimLost, SettlementOpen)):
        connection.settle([Settlement(adopted, ARCHIVE)])
    connection.close()


# -- a connection that ends is no refusal ------------------------------------------------------------------


@pytest.mark.parametrize("in_progress", [True, False])
@pytest.mark.parametrize("queue", ["archive", "crm"])
def test_a_connection_that_ends_in_a_send_blames_no_message(
    tmp_path: Path, provider: LentProvider, in_progress: bool, queue: str
) -> None:
    deployment = deploy_so(tmp_path) if in_progress else deploy(tmp_path, DuplicateEventElimination=False)
    sent = send(provider, "")
    left = [3]

    def interrupts(name: str, message: Message) -> bool:
        if name != queue or not message.body or not left[0]:
            return False
        left[0] -= 1
        return True

    provider.broker.interrupts = interrupts
    with running(deployment, provider) as adapter:
        finish(adapter)
    assert left == [0]
    check(provider, deployment, sent)


def test_an_event_is_not_blamed_for_the_message_behind_it(tmp_path: Path, provider: LentProvider) -> None:
    deployment = deploy(tmp_path, PollQuantity=2)
    sent = send(provider, "", "fail")
    bad = provider.broker.waiting("customers")[1].message.body
    with running(deployment, provider) as adapter:
        provider.broker.unreadable.add(bad)
        adapter.poll()
        adapter.poll()
    assert ids(provider, "error") == []
    assert ids(provider, "archive") == [sent[0]]
