"""An operator moves messages in error at a broker, whose transactions end with the operator's process."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from connector.errors import CapabilityError, SettlementError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.operate.correct import correct
from connector.operate.own_history import OwnHistory
from connector.operate.replay import (
    Discard,
    MessageChoice,
    Move,
    Mover,
    Order,
    Replay,
    ReplayResult,
    carry_out,
)
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import ids, seen, send, stored
from tests.tables import rows
from tests.waiting import now_ms

ARCHIVE = parse_destination("queue://archive")
ERROR = parse_destination("queue://error")
BUSY = parse_destination("queue://busy")
NEWS = parse_destination("topic://news")
LATER = "connector.lent.later"


def do(
    provider: LentProvider, order: Order, choice: MessageChoice | None = None, *, yes: bool = True
) -> ReplayResult:
    mover = Mover(ERROR, choice or MessageChoice(), order)
    return carry_out(provider, "lent", mover, yes=yes, note=lambda _: None)


def put_into_error(provider: LentProvider, *messages: Message) -> list[str]:
    with contextlib.closing(provider.connect()) as connection:
        return connection.send(ERROR, messages)


def copy(identity: str, **properties: Any) -> Message:
    """A copy as an adapter makes it, of a message with this id."""
    message = Message(b"body")
    given = {"origin_destination": "queue://customers", "message_id": identity, "outcome": "failed"}
    for name, value in {**given, **properties}.items():
        message.set_property(f"connector_{name}", value)
    return message


def test_a_replayed_event_runs_as_if_it_were_new(
    provider: LentProvider, deployment: Deployment, adapter: InProcessAdapter
) -> None:
    deployment.write("away", "")
    sent = send(provider, "away", "fail")
    adapter.drain()
    assert sorted(map(str, ids(provider, "error"))) == sorted(sent)
    (deployment.directory / "away").unlink()
    choice = MessageChoice(ids=frozenset(sent[:1]))
    assert do(provider, Replay(ERROR), choice, yes=False).matched == 1
    assert len(ids(provider, "error")) == 2
    moved = {"matched": 1, "moved": 1, "to": {"queue://customers": 1}}
    assert do(provider, Replay(ERROR), choice).document() == moved
    adapter.drain()
    assert stored(deployment) == ["0 1"]
    assert ids(provider, "archive") == sent[:1]
    (archived,) = seen(provider, "archive")
    assert archived.properties["connector_attempts"] == 1
    assert do(provider, Replay(ERROR)).moved == 1
    adapter.drain()
    assert ids(provider, "error") == sent[1:]


def test_a_message_of_a_topic_waits_for_its_input_alone(provider: LentProvider) -> None:
    before = now_ms()
    expiration = before + 3_600_000
    origin = {"origin_destination": "topic://news", "origin_subscription": "first"}
    put_into_error(
        provider, copy("ID:1", **origin, delivered="note", expiration=expiration, retries="store=3")
    )
    assert do(provider, Replay(ERROR)).to == {"topic://news first": 1}
    (one,) = provider.broker.waiting(LATER)
    properties = dict(one.message.properties)
    assert before <= int(properties.pop("connector_due")) <= now_ms()
    assert properties.pop("connector_digest")
    properties.pop("connector_timestamp")
    assert properties == {
        "connector_message_id": "ID:1",
        "connector_held_for": "topic://news first",
        "connector_origin_destination": "topic://news",
        "connector_delivered": "note",
        "connector_expiration": expiration,
    }
    assert ids(provider, "error") == []


def test_only_an_operator_of_an_adapter_sends_to_a_subscription(provider: LentProvider) -> None:
    put_into_error(provider, copy("ID:1"))
    connection = provider.connect()
    (claim,) = connection.picker(ERROR, lambda _: True).claim(1, range(1))
    with pytest.raises(SettlementError, match="'first' of topic://news"):
        connection.settle([Settlement(claim, NEWS, subscription="first")])
    assert ids(provider, "error") == ["ID:1"]
    with pytest.raises(CapabilityError):
        connection.picker(parse_destination("error~EXPIRED"), lambda _: True)
    connection.close()


def test_another_message_of_the_same_id_stays(provider: LentProvider) -> None:
    put_into_error(
        provider,
        copy("ID:1", kind="refused", time="2026-01-01T00:00:00Z"),
        copy("ID:1", kind="timeout", time="2026-01-02T00:00:00Z", reason="slow", attempts=3),
    )
    left = seen(provider, "error")[1].properties
    assert do(provider, Replay(ERROR), MessageChoice(kind="refused")).moved == 1
    assert len(ids(provider, "customers")) == 1
    (other,) = seen(provider, "error")
    assert (other.message_id, other.properties) == ("ID:1", left)


def test_messages_of_other_programs_are_found_by_their_own_ids(provider: LentProvider) -> None:
    own = put_into_error(provider, Message(b"foreign"), Message(b"other"), copy("ID:it's"))
    choice = MessageChoice(ids=frozenset([own[0], "ID:it's"]))
    assert do(provider, Move(parse_destination("queue://aside")), choice).moved == 2
    assert ids(provider, "aside") == [own[0], "ID:it's"]
    assert ids(provider, "error") == [own[1]]


def test_a_message_is_sent_again_with_another_body(provider: LentProvider) -> None:
    put_into_error(provider, copy("ID:1"), copy("ID:2"))
    told: list[Destination] = []

    def note(_: str, *destinations: Destination) -> None:
        told.extend(destinations)

    to = correct(provider, OwnHistory("lent"), ERROR, "ID:1", b"new", lambda _: ARCHIVE, "eva", note)
    assert (str(to), told) == ("queue://customers", [to, ARCHIVE])
    assert (ids(provider, "error"), ids(provider, "archive")) == (["ID:2"], ["ID:1"])
    (new,) = seen(provider, "customers")
    assert (new.body, new.properties["connector_event_id"]) == (b"new", "ID:1")
    (old,) = seen(provider, "archive")
    assert (old.body, old.properties["connector_outcome"]) == (b"body", "discarded")


def test_more_messages_than_a_transaction_holds_are_moved_in_order(root: Path) -> None:
    provider = LentProvider(root / "state", batch=7)
    expected = [f"ID:{number}" for number in range(130)]
    put_into_error(provider, *[copy(identity) for identity in expected])
    assert do(provider, Replay(ERROR), MessageChoice(limit=120)).moved == 120
    assert ids(provider, "customers") == expected[:120]
    assert ids(provider, "error") == expected[120:]


def test_a_queue_that_the_broker_refuses_leaves_the_messages_where_they_are(provider: LentProvider) -> None:
    provider.broker.refused.add("customers")
    put_into_error(provider, copy("ID:1"), copy("ID:2"))
    with pytest.raises(SettlementError, match="customers"):
        do(provider, Replay(ERROR))
    assert ids(provider, "error") == ["ID:1", "ID:2"]


@rows("order", [Replay(BUSY), Move(parse_destination("queue://aside")), Discard(lambda _: None, "me")])
def test_what_an_adapter_has_in_progress_at_a_broker_stays(provider: LentProvider, order: Order) -> None:
    with contextlib.closing(provider.connect("lent", "one")) as adapter:
        (identity,) = send(provider, "")
        poller = adapter.poller(parse_destination("queue://customers"), BUSY)
        (claim,) = poller.claim(1, range(1))
        for yes in (False, True):
            mover = Mover(BUSY, MessageChoice(ids=frozenset([identity])), order)
            result = carry_out(provider, "lent", mover, yes=yes, note=lambda _: None)
            assert (result.matched, result.owned, result.moved) == (0, 1, 0)
            (reason,) = result.left
            assert "the adapter 'lent', instance 'one', process " in reason
            assert " since 20" in reason
        with contextlib.closing(provider.connect()) as program:
            assert program.poller(BUSY).take(1, 0) is None
            session = program.session_connection()
            assert session.poller(BUSY).take(1, 0) is None
        adapter.settle([Settlement(claim, copy_to=parse_destination("queue://archive"))], fenced=True)
    assert identity in ids(provider, "archive")


def test_copies_of_a_lot_stay_in_their_queue(provider: LentProvider) -> None:
    lots = parse_destination("queue://connector.lots")
    with contextlib.closing(provider.connect()) as program:
        program.send(ERROR, [Message(b"1"), Message(b"2")])
        lot = program.lots.claim(ERROR, "nightly", 5)
        assert lot is not None
        mover = Mover(lots, MessageChoice(), Move(parse_destination("queue://aside")))
        result = carry_out(provider, "lent", mover, yes=True, note=lambda _: None)
        assert (result.moved, result.owned) == (0, 3), "two copies, and the mark"
        lot.settle([Settlement(one) for one in lot.claims])


def test_a_published_message_is_processed_once_more(
    deployment: Deployment, adapter: InProcessAdapter, provider: LentProvider
) -> None:
    (identity,) = send(provider, "")
    adapter.drain()
    mover = Mover(ARCHIVE, MessageChoice(), Replay(ARCHIVE))
    carry_out(provider, "lent", mover, yes=True, note=lambda _: None)
    adapter.drain()
    assert len(stored(deployment)) == 1, "a duplicate"
    for times in (2, 3):
        mover = Mover(ARCHIVE, MessageChoice(), Replay(ARCHIVE, again=True))
        assert carry_out(provider, "lent", mover, yes=True, note=lambda _: None).moved == 1
        adapter.drain()
        assert len(stored(deployment)) == times
    assert ids(provider, "archive") == [identity]
