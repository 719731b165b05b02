"""Headers too long for a file name lie in a sidecar that goes with its file, and are never cut off."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector.errors import ClaimLost, MalformedData, ProviderError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import GroupSettlement, Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox import codec
from connector.stores.dropbox.claims import split_tag
from connector.stores.dropbox.headers import HeaderStore, key_of
from connector.stores.engine.channel import Channel
from connector.stores.engine.claims import LocalClaim
from connector.stores.engine.connection import LocalConnection
from tests.privileges import without_privileges
from tests.stores.conftest import Mv
from tests.stores.dropbox.steps import (
    ARCHIVE,
    NOTES,
    ORDERS,
    connect,
    give_back_all,
    layout_of,
    store_of,
    take,
)
from tests.tables import rows

LONG = "L" * 300


def sidecars(root: Path) -> list[str]:
    return sorted(os.listdir(root / "dropboxmq" / "headers"))


def names(root: Path, queue: str, folder: str = "target") -> list[str]:
    return sorted(os.listdir(root / queue / "incoming" / folder))


def long_message(**values: str) -> Message:
    message = Message(b"body", type=LONG)
    for name, value in values.items():
        message.set_property(name, value)
    return message


def test_around_255_bytes_no_header_is_ever_cut_off(connection: LocalConnection) -> None:
    expected = [{"p": "x" * length} for length in range(180, 260)]
    messages = [Message(b"body") for _ in expected]
    for message, properties in zip(messages, expected, strict=True):
        message.set_property("p", properties["p"])
    connection.send(ORDERS, messages)
    claims = connection.poller(ORDERS).claim(1, range(len(messages)))
    load = connection.access().open().load
    assert [load(claim.reference, 100).properties for claim in claims] == expected
    added = {"connector_outcome": "published"}
    for claim in claims:
        connection.settle([Settlement(claim, copy_to=ARCHIVE, properties=added)])
    copies = [copy.properties for copy in connection.browse(ARCHIVE)]
    assert copies == [properties | added for properties in expected]


def test_only_a_name_above_255_bytes_needs_a_sidecar(root: Path, connection: LocalConnection) -> None:
    store = HeaderStore(layout_of(connection).headers, "client", sync=False)
    name = "4.id.T....." + "aS="
    fits = name + "x" * (255 - len(name))
    assert store.fit(fits, "") == fits
    assert sidecars(root) == []
    short = store.fit(fits + "x", "")
    assert len(short) <= 255
    assert store.expand(short) == fits + "x"
    assert sidecars(root) == [key_of(short)]


@settings(max_examples=60)
@given(
    name=st.one_of(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=300),
        st.binary(min_size=1, max_size=400).map(
            lambda raw: os.fsdecode(raw.replace(b"/", b"_").replace(b"\0", b"_"))
        ),
    ),
    fields=st.sampled_from(
        ["", "4.id.T.", "-2147483648.id.B.123.", "4.id.T.....aS=", "4.id.T..c.r.t.aI=1&bS="]
    ),
    room=st.integers(200, 255),
)
def test_any_name_fits_into_the_room_there_is_and_expands_to_all_it_was(
    tmp_path_factory: pytest.TempPathFactory, name: str, fields: str, room: int
) -> None:
    store = HeaderStore(str(tmp_path_factory.mktemp("headers")), "client", sync=False)
    whole, file = fields + name, str(tmp_path_factory.getbasetemp())
    short = store.fit(whole, file, room)
    assert len(os.fsencode(short)) <= room
    expanded = store.expand(short)
    assert codec.message_id(expanded) == codec.message_id(whole)
    if codec.split(whole) is not None:
        assert expanded.rstrip(".") == whole.rstrip("."), "dots at the end mean nothing"
    before, after = codec.split(whole), codec.split(short)
    assert after is not None or before is None
    if before is not None and after is not None:
        assert (after.priority, after.message_class) == (before.priority, before.message_class)


def test_a_sidecar_goes_with_its_file(root: Path) -> None:
    connection = connect(root, keep_processed=0)
    expired = long_message()
    expired.expiration = 1
    connection.send(ORDERS, [long_message(), expired])
    assert len(sidecars(root)) == 2
    poller = connection.poller(ORDERS)
    claim = take(poller)
    assert poller.take(1, 1) is None
    connection.settle([Settlement(claim)])
    assert sidecars(root) == []
    connection.close()


_SETTLED: list[Callable[[list[LocalClaim]], list[Settlement | GroupSettlement]]] = [
    lambda claims: [],
    lambda claims: [Settlement(one, give_back=True) for one in claims],
    lambda claims: [Settlement(one, give_back=True, delivery_count=1) for one in claims],
    lambda claims: [Settlement(claims[0], give_back=True), Settlement(claims[1])],
    lambda claims: [Settlement(one) for one in claims],
    lambda claims: [Settlement(one, copy_to=ARCHIVE) for one in claims],
    lambda claims: [Settlement(one, copy_to=ARCHIVE, properties={"connector_reason": "r"}) for one in claims],
    lambda claims: [GroupSettlement(claims, ARCHIVE)],
]


@rows("settled", range(len(_SETTLED)))
def test_the_end_of_a_dead_client_takes_no_headers_of_what_is_settled(root: Path, settled: int) -> None:
    """It gives back what is left. What was settled has a new name, or waits under the old one."""
    connection, dead = connect(root), connect(root, "b")
    dead.send(ORDERS, [long_message(region=region) for region in ("EU", "US")])
    assert len(list(dead.poller(ORDERS).claim(1, range(2)))) == 2
    dead.abandon()
    (leftover,) = connection.leftovers(None, at_start=True)
    connection.settle(_SETTLED[settled](list(leftover.claims)))
    leftover.forget()
    _keep_their_headers(root, connection)


@rows("late", range(len(_SETTLED)))
@rows("settled", range(len(_SETTLED)))
def test_a_late_client_takes_no_headers_of_what_is_settled(root: Path, settled: int, late: int) -> None:
    """A claim is lost once it is settled. A later settlement of it passes it over, with its headers."""
    connection = connect(root)
    connection.send(ORDERS, [long_message(region=region) for region in ("EU", "US")])
    claims = list(connection.poller(ORDERS).claim(1, range(2)))
    connection.settle(_SETTLED[settled](claims))
    with contextlib.suppress(ClaimLost):
        connection.settle(_SETTLED[late](claims))
    _keep_their_headers(root, connection)


def _keep_their_headers(root: Path, connection: LocalConnection) -> None:
    """Two messages are there, with all of their headers, and no sidecar is left over."""
    store = HeaderStore(layout_of(connection).headers, "client", sync=False)
    places = (("orders", "target"), ("orders", "processing"), ("orders", "processed"), ("archive", "target"))
    found = [
        name
        for queue, folder in places
        if (root / queue / "incoming" / folder).is_dir()
        for name in names(root, queue, folder)
    ]
    found = [split_tag(name)[0] for name in found]
    messages = [codec.decode(store.expand(name))[0] for name in found]
    assert sorted(str(one.properties["region"]) for one in messages) == ["EU", "US"]
    assert {one.type for one in messages} == {LONG}
    assert sidecars(root) == sorted(str(key_of(name)) for name in found)
    connection.abandon()


PARKED = parse_destination("queue://parked")
_Ends = Callable[[LocalConnection, Path], object]


def _settled(**settled: Any) -> _Ends:
    return lambda connection, _: connection.settle([Settlement(take(connection), **settled)])


def _twice(connection: LocalConnection, _: Path) -> None:
    connection.settle([Settlement(take(connection), give_back=True, delivery_count=2)])
    connection.settle([Settlement(take(connection))])


def _too_often(connection: LocalConnection, file: Path) -> None:
    strict = connect(file.parents[3], "strict", redelivery_limit=1)
    connection.settle([Settlement(take(connection), give_back=True, delivery_count=2)])
    assert strict.poller(ORDERS).take(2, 0) is None
    strict.close()


def _of_the_same_queue(connection: LocalConnection, file: Path) -> None:
    claim = take(connection, source=PARKED)
    file.rename(file.parents[3] / "parked/incoming/target" / file.name)
    connection.settle([Settlement(take(connection, 1, source=PARKED))])
    connection.settle([Settlement(claim, give_back=True)])


def _of_a_topic(connection: LocalConnection, file: Path) -> None:
    topic = parse_destination("topic://news")
    subscription = TopicSubscription(topic, "all", "suite", durable=True, shared=True)
    connection.poller(subscription).close()
    file.rename(file.parents[3] / "topic-root/news/.incoming/target" / file.name)
    connection.settle([Settlement(take(connection, source=subscription))])


def _of_a_dead_client(connection: LocalConnection, file: Path) -> None:
    dead = connect(file.parents[3], "dead")
    take(dead)
    dead.abandon()
    give_back_all(connection)
    _settled()(connection, file)


_ENDS: dict[str, _Ends] = {
    "acknowledged": _settled(),
    "copied": _settled(copy_to=ARCHIVE),
    "copied, with a reason": _settled(copy_to=ARCHIVE, properties={"connector_reason": "r" * 300}),
    "in a group": lambda one, _: one.settle([GroupSettlement([take(one)], ARCHIVE)]),
    "given back": _settled(give_back=True),
    "given back and settled": _twice,
    "in progress": lambda one, _: one.settle([Settlement(take(one.poller(ORDERS, NOTES)))]),
    "delivered too often": _too_often,
    "in the same queue": _of_the_same_queue,
    "distributed": _of_a_topic,
    "of a dead client": _of_a_dead_client,
    "expired": lambda connection, _: connection.poller(ORDERS).take(1, 0),
    "emptied": lambda connection, _: store_of(connection).empty(Channel(ORDERS)),
    "removed with its queue": lambda one, _: store_of(one).remove(Channel(ORDERS), claimed=True),
}


@rows("end", _ENDS)
def test_the_end_of_a_file_takes_no_headers_of_a_message_with_the_same_name(root: Path, end: str) -> None:
    connection = connect(root, keep_processed=0)
    layout_of(connection).ensure(ORDERS)
    sent = long_message(region="EU")
    sent.expiration = int(end == "expired")
    connection.send(PARKED, [sent])
    (name,) = names(root, "parked")
    copy = root / "orders/incoming/target" / name
    copy.write_bytes(b"another body")
    _ENDS[end](connection, copy)
    (message,) = connection.browse(PARKED)
    assert (message.type, message.properties["region"], message.body) == (LONG, "EU", b"body")
    if end == "expired":
        assert names(root, "orders") == []
        return
    connection.settle([Settlement(take(connection, 9, source=PARKED))])
    if end not in ("given back", "copied", "copied, with a reason", "in a group", "delivered too often"):
        assert sidecars(root) == [], "the headers go with their own file"
    connection.close()


def test_sidecars_of_earlier_versions_go_on_to_work(root: Path) -> None:
    connection = connect(root, keep_processed=0)
    content = f"4.id.T....{LONG}.regionS=EU".encode()
    key = f"client-1_{hashlib.blake2b(content, digest_size=5).hexdigest()}"
    (root / "dropboxmq/headers" / key).write_bytes(content)
    layout_of(connection).ensure(ORDERS)
    (root / "orders/incoming/target" / f"4.id.T.....{codec.HEADER_KEY}S={key}").write_bytes(b"body")
    claim = take(connection)
    assert claim.headers().properties == {"region": "EU"}
    connection.settle([Settlement(claim, give_back=True, delivery_count=1)])
    (message,) = connection.browse(ORDERS)
    assert (message.type, message.properties) == (LONG, {"region": "EU"})
    connection.settle([Settlement(take(connection, 1))])
    assert sidecars(root) == []
    connection.close()


def test_a_discarded_message_leaves_no_sidecar(root: Path, connection: LocalConnection) -> None:
    access = connection.access().open()
    access.discard(access.prepare(NOTES, long_message(), "key-1"))
    connection.settle([], discards=[access.prepare(NOTES, long_message(), "key-2")])
    connection.send(ORDERS, [Message()])
    prepared = access.prepare(NOTES, long_message(), "key-3")
    connection.settle([Settlement(take(connection), discards=[prepared])])
    assert sidecars(root) == []
    assert names(root, "notes", "working") == []


def test_messages_that_were_not_sent_leave_no_sidecar(root: Path, connection: LocalConnection) -> None:
    layout_of(connection).ensure(ORDERS)
    associated = Path(layout_of(connection).associated)
    associated.rmdir()
    associated.write_text("a file where records should be written")
    with pytest.raises(ProviderError, match=r"cannot send to queue://orders: .*; nothing was sent"):
        connection.send(ORDERS, [long_message(), long_message()])

    def broken() -> Iterator[Message]:
        yield long_message()
        raise KeyError("the source of the messages broke")

    with pytest.raises(KeyError):
        connection.send(ORDERS, broken())
    assert sidecars(root) == []
    assert names(root, "orders", "working") == names(root, "orders") == []


@rows("reason", ["", "r" * 500])
@rows("way", ["back", "archive", "error", "processed", "in progress"])
def test_no_headers_are_lost_of_a_file_while_its_sidecar_is_gone(root: Path, way: str, reason: str) -> None:
    connection = connect(root)
    properties = {"connector_reason": reason} if reason else {}
    (identity,) = connection.send(ORDERS, [long_message(region="EU")])
    (key,) = sidecars(root)
    kept = (root / "dropboxmq/headers" / key).rename(root / f"{key}.kept")
    found = ORDERS
    if way == "in progress":
        found = NOTES
        connection.leave_unowned(take(connection.poller(ORDERS, NOTES)))
        (left,) = connection.find_unowned(NOTES)
        assert connection.adopt(left, 1, 0) is not None
    else:
        back = Settlement(take(connection), give_back=True, delivery_count=3, properties=properties)
        connection.settle([back])
    if way == "archive":
        found = ARCHIVE
        connection.settle([Settlement(take(connection), copy_to=ARCHIVE, properties=properties)])
    elif way == "error":
        found = parse_destination("orders~REJECT-ERROR")
        strict = connect(root, "strict", redelivery_limit=2)
        assert strict.poller(ORDERS).take(2, 0) is None
        strict.close()
    elif way == "processed":
        connection.settle([Settlement(take(connection))])
        (name,) = names(root, "orders", "processed")
        os.rename(root / "orders/incoming/processed" / name, root / "orders/incoming/target" / name)
    (message,) = connection.browse(found, lambda _, reason: None)
    assert (message.message_id, message.body) == (identity, b"body")
    kept.rename(root / "dropboxmq/headers" / key)
    (message,) = connection.browse(found)
    assert (message.type, message.properties["region"]) == (LONG, "EU")
    if reason and way != "in progress":
        assert message.properties["connector_reason"] == reason
    if way == "back":
        assert message.delivery_count == 4
        connection.settle([Settlement(take(connection), copy_to=ARCHIVE)])
        assert len(sidecars(root)) == 1
    connection.abandon()


def _replace(make: Callable[[Path], object]) -> Callable[[Path], object]:
    def replace(sidecar: Path) -> None:
        sidecar.unlink()
        make(sidecar)

    return replace


_DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda sidecar: sidecar.write_bytes(b""),
    "no UTF-8": lambda sidecar: sidecar.write_bytes(b"\xff\xfe\x80"),
    "garbage": lambda sidecar: sidecar.write_bytes(b"garbage text"),
    "another format": lambda sidecar: sidecar.write_bytes(b"{broken"),
    "cut short": lambda sidecar: os.truncate(sidecar, sidecar.stat().st_size // 2),
    "without its last byte": lambda sidecar: os.truncate(sidecar, sidecar.stat().st_size - 1),
    "another priority": lambda sidecar: sidecar.write_bytes(b"5" + sidecar.read_bytes()[1:]),
    "another value": lambda sidecar: sidecar.write_bytes(sidecar.read_bytes().replace(b"EU", b"US")),
    "huge": lambda sidecar: os.truncate(sidecar, 1 << 40),
    "unreadable": lambda sidecar: sidecar.chmod(0),
    "gone": Path.unlink,
    "directory": _replace(Path.mkdir),
    "pipe": _replace(os.mkfifo),
    "link": _replace(lambda sidecar: sidecar.symlink_to("/etc/passwd")),
}


@rows("selector", ["", "a IS NULL"])
@rows("damage", _DAMAGE)
def test_a_message_without_its_headers_fails_alone_and_has_them_again_with_the_sidecar(
    root: Path, damage: str, selector: str
) -> None:
    connection = connect(root)
    (identity,) = connection.send(ORDERS, [long_message(region="EU")])
    connection.send(ORDERS, [Message(b"good")])
    (key,) = sidecars(root)
    sidecar = root / "dropboxmq/headers" / key
    kept = root / "kept"
    kept.write_bytes(sidecar.read_bytes())
    _DAMAGE[damage](sidecar)
    said = f"the headers of the message .*{key}"
    reasons: list[str] = []
    with without_privileges():
        seen, good = connection.browse(ORDERS, lambda _, reason: reasons.append(reason))
        assert (seen.message_id, seen.body, seen.properties, good.body) == (identity, b"body", {}, b"good")
        assert [bool(re.match(said, reason)) for reason in reasons] == [True]
        claim, good_claim = connection.poller(ORDERS, selector=selector).claim(1, range(9))
        load = connection.access().open().load
        with pytest.raises(MalformedData, match=said):
            load(claim.reference, 100)
        assert load(good_claim.reference, 100).body == b"good"
        connection.settle([Settlement(claim, give_back=True, delivery_count=1), Settlement(good_claim)])
    sidecar.rmdir() if sidecar.is_dir() else sidecar.unlink(missing_ok=True)
    kept.rename(sidecar)
    again = connection.access().open().load(take(connection).reference, 100)
    assert (again.message_id, again.properties, again.delivery_count) == (identity, {"region": "EU"}, 2)
    connection.abandon()


def test_a_sidecar_without_a_digest_has_to_agree_with_the_name(
    root: Path, connection: LocalConnection, mv: Mv
) -> None:
    mv("orders", f"4.id.T.....{codec.HEADER_KEY}S=client-1")
    sidecar = root / "dropboxmq/headers/client-1"
    sidecar.write_bytes(b"4.id.T...reply..pS=" + b"x" * 300)
    claim = take(connection)
    load = connection.access().open().load
    assert load(claim.reference, 100).properties == {"p": "x" * 300}
    for content in (b"", b"garbage", b"5.id.T.....pS=x", b"4.other.T.....pS=x", b"\xff"):
        sidecar.write_bytes(content)
        with pytest.raises(MalformedData, match="the headers of the message are damaged"):
            load(claim.reference, 100)


def test_a_foreign_name_cannot_make_a_sidecar_of_any_file(connection: LocalConnection, mv: Mv) -> None:
    for number, key in enumerate(("%2E%2E", "%2E%2E%2F%2E%2E%2Forders", "a%2Fb", "%2Ex", "", "a%00b")):
        name = f"4.{number}.T.....{codec.HEADER_KEY}S={key}"
        mv("orders", name)
        assert key_of(name) is None
        claim = take(connection, number)
        assert claim.message_id == f"ID:{number}"
        assert connection.access().open().load(claim.reference, 100).body == b"body"


def test_foreign_names_too_long_for_a_claim_keep_their_headers(connection: LocalConnection, mv: Mv) -> None:
    found = {
        "b" * 255: "b" * 255,
        "4.id1.T.....aS=" + "x" * 240: "ID:id1",
        "4.id2.T." + "1" * 240: "ID:id2",
        "4." + "i" * 250 + ".T": "ID:" + "i" * 250,
        "é" * 127: "é" * 127,
    }
    for name in found:
        mv("orders", name)
    poller = connection.poller(ORDERS)
    claims = [poller.take(1, number) for number in range(len(found))]
    assert {claim.file_name or claim.message_id for claim in claims if claim} == set(found.values())
    assert poller.take(1, 9) is None
    connection.settle([Settlement(c, give_back=True, delivery_count=1) for c in claims if c])
    again = connection.poller(ORDERS)
    returned = [again.take(2, number) for number in range(len(found))]
    assert {claim.file_name or claim.message_id for claim in returned if claim} == set(found.values())
    ids = [{claim.message_id for claim in some if claim} for some in (claims, returned)]
    assert ids[0] == ids[1]
    assert {
        claim.headers().delivery_count for claim in returned if claim and claim.message_id != "ID:id2"
    } == {2}


def test_a_claim_that_fails_ends_the_list_and_is_told(
    root: Path, connection: LocalConnection, mv: Mv
) -> None:
    for name in ("9.first.T", f"8.long{'x' * 240}.T", "7.last.T"):
        mv("orders", name)
    headers = root / "dropboxmq" / "headers"
    headers.rmdir()
    headers.write_text("a file stands where the directory was")
    poller = connection.poller(ORDERS)
    claims = list(poller.claim(1, range(3)))
    assert [claim.message_id for claim in claims] == ["ID:first"]
    with pytest.raises(ProviderError, match="cannot take a message of queue://orders"):
        poller.claim(1, range(1, 3))
    assert len(names(root, "orders")) == 2
    headers.unlink()
    headers.mkdir()
    store_of(connection).refresh()
    claims += poller.claim(1, range(1, 9))
    assert [claim.sequence for claim in claims] == [0, 1, 2]
    assert claims[2].message_id == "ID:last"


def test_one_long_name_twice_keeps_both_whole(root: Path, connection: LocalConnection, mv: Mv) -> None:
    name = "r" * 220
    for body in (b"1", b"2", b"3"):
        mv("orders", name, body)
        connection.settle([Settlement(take(connection))])
    kept = names(root, "orders", "processed")
    store = HeaderStore(layout_of(connection).headers, "client", sync=False)
    assert [codec.message_id(store.expand(n)) for n in kept] == [name] * 3
    assert {(root / "orders/incoming/processed" / n).read_bytes() for n in kept} == {b"1", b"2", b"3"}


def test_tasks_of_one_client_prepare_long_headers_without_meeting(connection: LocalConnection) -> None:
    """Two tasks may even be one process, as two of one number may be on two machines."""
    first, second = connection.access().open(), connection.access().open()
    sends = [access.prepare(NOTES, long_message(p=key), key) for key, access in (("a", first), ("b", second))]
    connection.settle([], sends=sends)
    assert sorted(str(seen.properties["p"]) for seen in connection.browse(NOTES)) == ["a", "b"]


def test_a_message_is_found_by_what_only_its_sidecar_says(connection: LocalConnection) -> None:
    (identity,) = connection.send(ORDERS, [long_message(connector_event_id="ID:first")])
    connection.send(ORDERS, [Message(b"other")])
    for one in ("ID:first", identity):
        assert [seen.message_id for seen in connection.browse(ORDERS, ids=[one])] == [identity]
