"""Lots at a broker: commits without an answer, limits of deliveries, and what a copy keeps."""

from __future__ import annotations

import contextlib
import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from connector.brokers.engine import lots
from connector.brokers.engine.connection import RemoteConnection
from connector.errors import (
    CapabilityError,
    ClaimLost,
    LotError,
    MalformedData,
    ProviderError,
    SettlementError,
)
from connector.lake import loader as loader_module
from connector.lake.lot_load import Tried
from connector.messaging.destination import parse_destination
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message
from connector.messaging.settlement import Settlement
from tests.brokers.engine import lot_owner
from tests.brokers.engine.lot_owner import (
    ARCHIVE,
    NAME,
    ORDERS,
    PLACES,
    archive,
    archive_all,
    check_lots,
    claimed,
    taken,
)
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.server import serving
from tests.brokers.engine.world import deploy, ids, running, seen, send
from tests.stores.conftest import Children
from tests.waiting import wait_for

LOTS = "connector.shop.lots"


@pytest.fixture
def owner(provider: LentProvider) -> RemoteConnection:
    return provider.connect("shop", "one")


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for what does not come."""
    monkeypatch.setattr(lots, "ANSWER", 0.3)


def put(connection: RemoteConnection, *bodies: str, **headers: Any) -> list[str]:
    return connection.send(ORDERS, [Message(body.encode(), **headers) for body in bodies])


# -- commits without an answer ---------------------------------------------------------------------


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("is_late", [True, False])
@pytest.mark.parametrize("step", ["make", "settle"])
def test_the_next_owner_knows_how_a_commit_without_an_answer_has_ended(
    provider: LentProvider, owner: RemoteConnection, step: str, *, is_late: bool, commits: bool
) -> None:
    sent = put(owner, "a", "b", "c", "d")
    first = claimed(owner, 3) if step == "settle" else None
    provider.broker.lost_answers = ["late" if is_late else "done" if commits else "undone"]
    with pytest.raises(ProviderError, match="the connection was lost in a commit"):
        archive(first) if first is not None else claimed(owner, 3)
    owner.abandon()
    heir = provider.connect("shop", "two")
    if is_late:
        with pytest.raises(ProviderError, match=f"a transaction of the last owner of the lots of '{NAME}'"):
            heir.lots.claim(ORDERS, NAME, 3)
        provider.broker.late[0].end_late(commits=commits)
    again = claimed(heir, 3)
    if step == "settle":
        assert (again.number, taken(again)) == ((2, sent[3:]) if commits else (1, sent[:3]))
        assert ids(provider, "archive") == (sent[:3] if commits else [])
    else:
        assert (again.number, taken(again)) == (1 if commits else 2, sent[:3])
    archive(again)
    archive_all(heir)
    assert ids(provider, "archive") == sent
    assert (ids(provider, "orders"), len(ids(provider, LOTS))) == ([], 1)
    heir.close()


def test_a_living_owner_asks_the_broker_again_after_a_commit_that_failed(
    provider: LentProvider, owner: RemoteConnection
) -> None:
    sent = put(owner, "a", "b")
    provider.broker.refused.add(LOTS)
    with pytest.raises(ProviderError, match="no right to send"):
        owner.lots.claim(ORDERS, NAME, 2)
    provider.broker.refused.clear()
    lot = claimed(owner, 1)
    provider.broker.refused.add(LOTS)
    with pytest.raises(ProviderError, match="no right to send"):
        archive(lot)
    provider.broker.refused.clear()
    archive(lot)
    archive_all(owner)
    assert ids(provider, "archive") == sent


# -- kills -----------------------------------------------------------------------------------------

OWNER = lot_owner.owner(
    """
from tests.brokers.engine.server import SocketProvider
state, path, killed_at = sys.argv[1:4]
queue, archive = "orders", "archive"
connection = SocketProvider(state, path).connect("shop", "one")
browse, claim_lot = connection.browse, connection.lots.claim"""
)


@pytest.mark.process
@pytest.mark.parametrize("place", PLACES)
def test_a_killed_owner_leaves_the_same_lot(
    root: Path, provider: LentProvider, children: Children, place: str
) -> None:
    client = provider.connect()
    sent = put(client, *map(str, range(10)))
    client.close()
    given = root / "state", root / "socket"
    with serving(provider.broker, given[1]):
        fault = "" if place == "read" else f"{place}=kill"
        status, before, errors = children.run(OWNER, *given, place, fault=fault)
        assert status == -signal.SIGKILL, errors
        status, after, errors = children.run(OWNER, *given, "")
        assert status == 0, errors
    first, second = ([json.loads(line) for line in out.splitlines()] for out in (before, after))
    check_lots(place, first, second, sent)
    assert Counter(ids(provider, "archive")) == dict.fromkeys(sent, 1)
    assert (ids(provider, "orders"), len(ids(provider, LOTS))) == ([], 1)


# -- limits of deliveries --------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [2, 3, 10])
def test_settlements_that_are_refused_cost_no_message(root: Path, limit: int) -> None:
    provider = LentProvider(root / "state", redelivery_limit=limit)
    provider.broker.limit = limit
    owner = provider.connect("shop", "one")
    sent = put(owner, "a", "b", "c")
    lot = claimed(owner)
    provider.broker.refused.add("archive")
    for _ in range(3 * limit):
        with pytest.raises(SettlementError, match="nothing was settled: archive"):
            archive(lot)
        heir = provider.connect("shop", "two")
        assert [message.message_id for message in lot.read()] == sent
        heir.close()
    assert ids(provider, "DLQ") == []
    owner.abandon()
    provider.broker.refused.clear()
    heir = provider.connect("shop", "two")
    again = claimed(heir)
    assert (again.number, taken(again)) == (lot.number, sent)
    archive(again)
    assert (ids(provider, "archive"), ids(provider, "DLQ")) == (sent, [])


def test_only_the_message_that_nobody_can_read_is_put_aside(root: Path) -> None:
    provider = LentProvider(root / "state")
    provider.broker.limit = 10
    provider.broker.unreadable.add(b"bad")
    owner = provider.connect("shop", "one")
    sent = put(owner, *map(str, range(12)))
    (bad,) = put(owner, "bad")
    behind = put(owner, "behind")
    with pytest.raises(ProviderError, match="cannot read the message"):
        archive_all(owner, 100)
    assert ids(provider, "archive") == sent
    while bad not in ids(provider, "DLQ"):
        with contextlib.suppress(ProviderError):
            archive_all(owner, 100)
    archive_all(owner)
    assert ids(provider, "archive") == sent + behind
    assert ids(provider, "DLQ") == [bad]


# -- messages --------------------------------------------------------------------------------------


def test_a_copy_keeps_everything_and_neither_expires_nor_is_lost(
    provider: LentProvider, owner: RemoteConnection
) -> None:
    far = 1 << 42
    message = Message(
        b"body",
        "B",
        delivery_mode=NON_PERSISTENT,
        priority=7,
        expiration=far,
        correlation_id="c",
        type="t",
        reply_to="queue://answers",
    )
    message.set_property("JMSXGroupID", "g")
    message.set_property("n", 7, "long")
    message.set_property("connector_origin_destination", "queue://elsewhere")
    owner.send(ORDERS, [message])
    made = claimed(owner)
    copies = [one.message for one in provider.broker.waiting(LOTS) if one.message.body]
    assert [(one.delivery_mode, one.expiration, one.priority) for one in copies] == [(PERSISTENT, 0, 7)]
    owner.close()
    heir = provider.connect("shop", "two")
    for lot in (made, claimed(heir)):
        claim = lot.claims[0]
        headers = claim.headers()
        headers.destination = None
        assert headers == made.claims[0].headers()
        assert headers.properties == message.properties
        assert headers.property_types == message.property_types
        assert (headers.message_id, headers.timestamp) == (message.message_id, message.timestamp)
        assert (headers.expiration, headers.delivery_mode) == (far, NON_PERSISTENT)
        assert (headers.reply_to, headers.type) == ("queue://answers", "t")
    lot = claimed(heir)
    lot.settle([Settlement(lot.claims[0], give_back=True, delivery_count=2)])
    (back,) = provider.broker.waiting("orders")
    assert (back.message.expiration, back.message.delivery_mode) == (far, NON_PERSISTENT)
    (again,) = seen(provider, "orders")
    assert again.properties == message.properties
    assert claimed(heir).claims[0].delivery_count == 2


def test_a_body_that_is_too_large_is_settled_unread(root: Path) -> None:
    provider = LentProvider(root / "state", max_body=5)
    owner = provider.connect("shop", "one")
    put(owner, "small", "too large")
    claimed(owner)
    owner.close()
    heir = provider.connect("shop", "two")
    lot = claimed(heir)
    messages = lot.read()
    assert next(messages).body == b"small"
    with pytest.raises(MalformedData, match="the body has 9 bytes"):
        next(messages)
    archive(lot)
    assert [one.body for one in seen(provider, "archive")] == [b"small", b"too large"]


@pytest.mark.parametrize(("options", "sizes"), [({"lot": 4}, [4, 4, 2]), ({"batch_bytes": 3}, [3, 3, 3, 1])])
def test_a_lot_is_no_larger_than_a_transaction(root: Path, options: dict[str, Any], sizes: list[int]) -> None:
    owner = LentProvider(root / "state", **options).connect("shop", "one")
    put(owner, *"0123456789")
    found = []
    while (lot := owner.lots.claim(ORDERS, NAME, 100)) is not None:
        found.append(len(lot.claims))
        archive(lot)
    assert found == sizes


def test_an_outcome_sends_messages_and_comes_again_later(
    provider: LentProvider, owner: RemoteConnection
) -> None:
    sent = put(owner, "a", "b")
    lot = claimed(owner)
    prepared = owner.access().prepare(ARCHIVE, Message(b"made"), "key")
    later = Settlement(lot.claims[1], give_back=True, due=1, delivery_count=1)
    with pytest.raises(CapabilityError, match="duplicate window"):
        lot.settle([Settlement(lot.claims[0], published="key"), later])
    lot.settle([Settlement(lot.claims[0], sends=[prepared]), later])
    assert [one.body for one in seen(provider, "archive")] == [b"made"]
    assert owner.lots.claim(ORDERS, NAME, 1) is None
    claim = owner.poller(ORDERS).take(1, 0)
    assert claim is not None
    assert (claim.message_id, claim.delivery_count) == (sent[1], 1)


# -- what other people do --------------------------------------------------------------------------


@pytest.mark.usefixtures("_short")
def test_a_lot_that_lost_a_message_by_hand_is_an_error_and_can_be_given_back(
    provider: LentProvider, owner: RemoteConnection
) -> None:
    put(owner, "a", "b")
    lot = claimed(owner)
    gone = next(one for one in provider.broker.waiting(LOTS) if one.message.body == b"a")
    provider.broker.queues[LOTS].remove(gone)
    assert len(list(lot.read())) == 2
    with pytest.raises(ClaimLost, match="nothing was settled: 1 of 2 messages of the lot 1"):
        archive(lot)
    with pytest.raises(
        LotError, match=rf"has 1 of 2 messages in queue://{LOTS}: .* --give-back ends the lot"
    ):
        owner.lots.claim(ORDERS, NAME, 2)
    assert owner.lots.give_back(NAME).messages == 1
    assert [one.body for one in seen(provider, "orders")] == [b"b"]
    assert claimed(owner).number == 2


@pytest.mark.usefixtures("_short")
def test_an_emptied_queue_is_an_error_that_names_the_file(
    provider: LentProvider, owner: RemoteConnection, root: Path
) -> None:
    put(owner, "a", "b")
    first = claimed(owner, 1)
    owner.close()
    provider.broker.queues[LOTS].clear()
    heir = provider.connect("shop", "two")
    (file,) = (root / "state" / "lots").iterdir()
    with pytest.raises(ProviderError, match=f"emptied queue://{LOTS}, remove {file}"):
        heir.lots.claim(ORDERS, NAME, 1)
    file.unlink()
    lot = claimed(heir, 1)
    assert (lot.sequence_id != first.sequence_id, [one.body for one in lot.read()]) == (True, [b"b"])


@pytest.mark.parametrize("content", ["{", "[]", '{"number": 1}', '{"name": "a", "what": 1}'])
def test_a_damaged_record_is_an_error_that_names_the_file(
    provider: LentProvider, owner: RemoteConnection, root: Path, content: str
) -> None:
    put(owner, "a")
    claimed(owner)
    owner.close()
    (file,) = (root / "state" / "lots").iterdir()
    file.write_text(content)
    heir = provider.connect("shop", "two")
    calls: list[Callable[[], object]] = [
        lambda: claimed(heir),
        lambda: heir.lots.give_back(NAME),
        heir.destinations,
    ]
    for call in calls:
        with pytest.raises(ProviderError, match=f"{file} is no record of lots"):
            call()


def test_no_number_is_used_twice_after_the_broker_was_restored(
    provider: LentProvider, owner: RemoteConnection
) -> None:
    put(owner, "a", "b")
    assert owner.lots.claim(parse_destination("queue://none"), NAME, 1) is None
    (mark,) = provider.broker.waiting(LOTS)
    first = claimed(owner, 1)
    archive(first)
    owner.close()
    provider.broker.queues[LOTS].clear()
    provider.broker.add(LOTS, mark.message)
    lot = claimed(provider.connect("shop", "two"), 1)
    assert (lot.sequence_id, lot.number) == (first.sequence_id, 2)


def test_an_owner_whose_file_was_removed_settles_nothing(
    provider: LentProvider, owner: RemoteConnection, root: Path
) -> None:
    put(owner, "a")
    lot = claimed(owner)
    (file,) = (root / "state" / "lots").iterdir()
    file.unlink()
    for call in (lambda: archive(lot), lot.read):
        with pytest.raises(LotError, match="does not own the name"):
            call()
    assert ids(provider, "archive") == []


def test_applications_and_programs_share_the_names(provider: LentProvider, owner: RemoteConnection) -> None:
    put(owner, "a", "b")
    lot = claimed(owner, 1)
    owner.close()
    program = provider.connect()
    assert program.lots.claim(ORDERS, "other", 1) is not None
    assert [len(ids(provider, queue)) for queue in (LOTS, "connector.lots")] == [2, 2]
    (info,) = program.destinations()
    assert (info.destination, info.waiting, info.in_progress) == (ORDERS, 0, 2)
    assert {(one.name, one.owner != "") for one in info.lots} == {(NAME, False), ("other", True)}
    assert taken(claimed(program)) == taken(lot)
    assert program.lots.give_back(NAME).number == lot.number


@pytest.mark.parametrize("in_progress", [False, True])
def test_an_adapter_leaves_a_lot_of_its_input_alone(
    tmp_path: Path, provider: LentProvider, *, in_progress: bool
) -> None:
    more = {"InProgressDestination": "queue://progress", "InDoubtEvents": "Reprocess"}
    deployment = deploy(tmp_path, store={}, **(more if in_progress else {}))
    sent = send(provider, *[""] * 8)
    program = provider.connect("lent", "program")
    lot = program.lots.claim(parse_destination("queue://customers"), NAME, 3)
    assert lot is not None
    program.abandon()
    for _ in range(2):
        with running(deployment, provider) as adapter:
            adapter.drain()
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent[3:])
    heir = provider.connect("lent", "heir")
    again = heir.lots.claim(parse_destination("queue://customers"), NAME, 3)
    assert again is not None
    assert (again.number, taken(again)) == (lot.number, sent[:3])
    heir.lots.give_back(NAME)
    with running(deployment, provider) as adapter:
        adapter.drain()
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)


def test_a_load_takes_the_next_lot_at_once_where_a_limit_has_ended_the_last_one(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker does not tell what waits, and its lots are small."""
    provider = LentProvider(root / "state", lot=2)
    put(provider.connect(), *"abcde")
    load: Any = SimpleNamespace(subscription="lake", queue=ORDERS, size=100, every=0.0)
    sizes: list[int] = []

    def run(_connection: Any, lot: Any, _attempt: int, **_options: bool) -> Tried:
        load.every = 3600.0
        sizes.append(len(lot.claims))
        archive(lot)
        return Tried(settled=len(lot.claims))

    monkeypatch.setattr(loader_module, "LotLoad", lambda *_: SimpleNamespace(run=run))
    spark: Any = None
    loader = loader_module.Loader(load, provider, spark, lambda: False)
    loader.start()
    wait_for(lambda: len(sizes) == 3)
    loader.request_stop()
    loader.wait(60)
    assert sizes == [2, 2, 1]
