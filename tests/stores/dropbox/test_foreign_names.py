"""Names of files that another program has chosen: whatever they say, at worst that message fails."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector.errors import MalformedData
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.history import plain_text
from connector.messaging.message import Message
from connector.messaging.retention import Retention
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.engine.connection import LocalConnection
from tests.stores.conftest import new_root
from tests.stores.dropbox.steps import layout_of
from tests.tables import rows

ORDERS, ERROR, IN_PROGRESS = map(parse_destination, ("orders", "error", "in-progress"))
TOPIC = parse_destination("topic://prices")
REASONS = {"connector_reason": "a reason", "connector_outcome": "failed", "connector_attempts": 1}

fields = st.sampled_from(
    [
        *("", "4", "-1", "99", "2147483648", "x", "id", "1795576510507065-a-1", "%00", "%2E%2E", "%ff", "%"),
        *("T", "B", "M", "S", "P", "O", "Q", "0", "1", "²", "9" * 20, "soon", "%E2%98%83", "\udcff"),
        *("queue%3A%2F%2Fother", "topic%3A%2F%2F..", "file%3A%2F%2Fx", "a b", "a\nb", "~@c-1-0", "~@x-0-0-e"),
    ]
)
letters = st.sampled_from([*"BYHILFDSZ", ""])
names = st.sampled_from(
    [
        *("region", "JMSXGroupID", "JMSXDeliveryCount", "connector_attempts", "connector_reason", "a%00b"),
        *("connector_origin_destination", "connector_time", "JMS_dropboxmq_hdr", "JMS_dropboxmq_owner"),
        *("JMS_dropboxmq_mode", "JMS_dropboxmq_bare", "JMS_dropboxmq_copy", "", "%ED%A0%80", "JMSPriority"),
    ]
)
values = st.one_of(
    fields,
    st.sampled_from(["true", "NaN", "-Infinity", "1e999", "waits", "c-1-0", "..%2Fx", "9" * 30, "x" * 60]),
)
pairs = st.one_of(
    fields, st.builds(lambda name, letter, value: f"{name}{letter}={value}", names, letters, values)
)
properties = st.lists(pairs, max_size=3).map("&".join)
structured = st.builds(
    lambda first, rest, end: ".".join([*first, *rest, end]).replace("/", "_"),
    st.lists(fields, min_size=2, max_size=3),
    st.lists(fields, max_size=4),
    properties,
)
raw = st.binary(min_size=1, max_size=60).map(lambda name: os.fsdecode(name.replace(b"/", b"_")))
file_names = (
    st.one_of(structured, structured, raw)
    .map(lambda name: name.replace("\0", "_"))
    .filter(
        lambda name: (
            name not in ("", ".", "..") and not name.startswith(".") and len(os.fsencode(name)) <= 255
        )
    )
)


def put(folder: str, name: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    with open(f"{folder}/{name}", "wb") as file:
        file.write(b"bad")


def settle(connection: LocalConnection, claims: Sequence[Claim], **how: object) -> None:
    connection.settle([Settlement(claim, **how) for claim in claims])  # type: ignore[arg-type]


def read(connection: LocalConnection, claims: Sequence[Claim]) -> list[bytes]:
    access, found = connection.access().open(), []
    for claim in claims:
        assert isinstance(claim.message_id, str)
        assert isinstance(claim.duplicate_key, str)
        assert claim.group_id is None or isinstance(claim.group_id, str)
        assert claim.delivery_count >= 0
        claim.headers()
        try:
            found.append(access.load(claim.reference, 1000).body)
        except MalformedData:
            found.append(b"bad")
    return found


def look(connection: LocalConnection, destination: Destination) -> list[bytes]:
    return sorted(message.body for message in connection.browse(destination, lambda message, reason: None))


def go_round(connection: LocalConnection, other: LocalConnection, name: str) -> None:
    """Takes, gives back, copies, moves back by hand, takes over: the good message is there each time."""
    target = layout_of(connection).queue(ORDERS).target
    poller = connection.poller(ORDERS)
    put(target, name)
    connection.send(ORDERS, [Message(b"good")])
    assert look(connection, ORDERS) == [b"bad", b"good"]
    for seen in connection.browse(ORDERS, lambda message, reason: None):
        if (shown := plain_text(seen.message_id or "")).removeprefix("ID:"):
            assert seen.body in [one.body for one in connection.browse(ORDERS, ids=[shown])]
    claims = poller.claim(1, range(9))
    expired = poller.expired  # a name may say that it has expired
    assert len(claims) + expired == 2
    assert b"good" in read(connection, claims)
    look(connection, ORDERS)
    settle(connection, claims, give_back=True, delivery_count=1)
    claims = poller.claim(2, range(9))
    assert b"good" in read(connection, claims)
    settle(connection, claims, copy_to=ERROR, properties=REASONS)
    assert len(look(connection, ERROR)) == 2 - expired
    connection.prune([Retention(ERROR, 3600.0)])
    errors = layout_of(connection).queue(ERROR).target
    for copy in os.listdir(errors):
        os.rename(f"{errors}/{copy}", f"{target}/{copy}")
    claims = connection.poller(ORDERS, selector="JMSPriority > -5 OR region IS NULL").claim(3, range(9))
    assert b"good" in read(connection, claims)
    settle(connection, claims, give_back=True)
    claims = connection.poller(ORDERS, IN_PROGRESS).claim(4, range(9))
    assert b"good" in read(connection, claims)
    look(connection, IN_PROGRESS)
    connection.abandon()
    for leftover in other.leftovers(IN_PROGRESS, at_start=True):
        adopted = [other.adopt(claim, 5, number) for number, claim in enumerate(leftover.claims)]
        leftover.forget()
        mine = [claim for claim in adopted if claim is not None]
        read(other, mine)
        settle(other, mine, give_back=True)
    for claim in other.find_unowned(IN_PROGRESS):
        taken = other.adopt(claim, 6, 0)
        if taken is not None:
            settle(other, [taken], give_back=True)
    claims = other.poller(ORDERS).claim(7, range(9))
    assert b"good" in read(other, claims)
    settle(other, claims)
    assert other.poller(ORDERS).claim(8, range(9)) == []


@settings(max_examples=150)
@given(name=file_names)
def test_whatever_a_name_says_the_message_behind_it_goes_on(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    with new_root(tmp_path_factory.getbasetemp()) as root:
        provider = DropboxProvider(root, create=True, durable=False)
        connection, other = provider.connect("suite", "a"), provider.connect("suite", "b")
        go_round(connection, other, name)
        other.close()


@settings(max_examples=60)
@given(name=file_names)
def test_whatever_a_name_in_a_topic_says_the_message_behind_it_is_distributed(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    with new_root(tmp_path_factory.getbasetemp()) as root:
        connection = DropboxProvider(root, create=True, durable=False).connect("suite", "a")
        poller = connection.poller(TopicSubscription(TOPIC, name="all", client_id="c", durable=True))
        some = TopicSubscription(TOPIC, name="some", client_id="c", durable=True, selector="region IS NULL")
        connection.poller(some)
        put(layout_of(connection).queue(TOPIC).target, name)
        put(layout_of(connection).queue(TOPIC).target, "9.good.T")
        claims = poller.claim(1, range(9))
        assert len(claims) + poller.expired == 2
        read(connection, claims)
        settle(connection, claims, copy_to=ERROR, properties=REASONS)
        assert len(look(connection, ERROR)) == len(claims)
        connection.close()


contents = st.one_of(
    st.binary(max_size=80),
    file_names.map(os.fsencode),
    st.builds("4.id.T.{}.{}.{}.{}.{}".format, fields, fields, fields, fields, properties).map(os.fsencode),
    st.just(b"4.id.T.....JMS_dropboxmq_hdrS=k"),
    st.just(b"4.id.T.....JMS_dropboxmq_hdrS=l"),
)


@settings(max_examples=80)
@given(first=contents, second=contents)
def test_whatever_headers_in_a_file_say_the_message_behind_them_goes_on(
    tmp_path_factory: pytest.TempPathFactory, first: bytes, second: bytes
) -> None:
    with new_root(tmp_path_factory.getbasetemp()) as root:
        provider = DropboxProvider(root, create=True, durable=False)
        connection, other = provider.connect("suite", "a"), provider.connect("suite", "b")
        for key, content in (("k", first), ("l", second)):
            Path(layout_of(connection).headers, key).write_bytes(content)
        go_round(connection, other, "4.id.T.....JMS_dropboxmq_hdrS=k")
        other.close()


OF_PROVIDERS = (
    "JMSXUserIDS=root&JMSXAppIDS=a&JMSXProducerTXIDS=1&JMSXConsumerTXIDS=1&JMSXRcvTimestampL=1&JMSXStateI=2"
    "&JMSXDeliveryCountS=9&JMSXOtherS=x&JMSXUserIDI=5"
)


@rows("place", ["name", "sidecar"])
def test_what_only_a_provider_sets_is_taken_from_no_name(root: Path, place: str) -> None:
    connection = DropboxProvider(root, create=True, durable=False).connect("suite", "a")
    full = name = f"4.id.T.....{OF_PROVIDERS}&JMSXGroupIDS=g"
    if place == "sidecar":
        Path(layout_of(connection).headers, "k").write_text(full)
        name = "4.id.T.....JMS_dropboxmq_hdrS=k"
    put(layout_of(connection).queue(ORDERS).target, name)
    (seen,) = connection.browse(ORDERS)
    assert connection.poller(ORDERS, selector="JMSXUserID = 'root'").claim(1, range(1)) == []
    (claim,) = connection.poller(ORDERS, selector="JMSXUserID IS NULL").claim(2, range(1))
    for one in (seen, claim.headers(), connection.access().open().load(claim.reference, 1000)):
        assert (one.properties, one.delivery_count) == ({"JMSXGroupID": "g"}, 1)
    settle(connection, [claim], copy_to=ERROR, properties=REASONS)
    (copy,) = connection.browse(ERROR)
    assert copy.properties == {"JMSXGroupID": "g", **REASONS}
    connection.close()
