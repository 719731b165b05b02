"""Subscriptions on disk: their names, their details, their consumers, their end (seeds 000 and 003)."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.errors import CapabilityError, ProviderError, SubscriptionError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.dropbox.subscription_files import directory_name
from connector.stores.engine.connection import LocalConnection
from tests.stores.conftest import Mv
from tests.stores.dropbox.steps import (
    ORDERS,
    PRICES,
    closed,
    connect,
    files_limited_to,
    give_back_all,
    layout_of,
    store_of,
    take,
)
from tests.tables import rows
from tests.waiting import wait_for

RATES = parse_destination("topic://rates")


@pytest.fixture
def other(root: Path) -> Iterator[LocalConnection]:
    """A client that is no adapter."""
    connection = DropboxProvider(root, create=True, durable=False).connect()
    yield connection
    connection.abandon()


def durable(name: str = "news", client_id: str = "c", **details: Any) -> TopicSubscription:
    return TopicSubscription(details.pop("topic", PRICES), name, client_id, durable=True, **details)


def directories(connection: LocalConnection) -> list[str]:
    return [os.path.basename(folders.base) for folders in layout_of(connection).subscriptions_of(PRICES)]


@rows(
    "wanted, name",
    [
        (durable("sub1", "connection1"), "sub1.connection1"),
        (durable("a.b", "c.d"), "a%2Eb.c%2Ed"),
        (durable("a|b", "c|d"), "a%7Cb.c%7Cd"),
        (durable("news", "c", no_local=True), "news.c.no-local"),
        (durable("news", "", shared=True), "news."),
        (TopicSubscription(PRICES, "news", "c", shared=True), "news.c.non-durable"),
    ],
)
def test_a_subscription_is_as_the_protocol_says(root: Path, wanted: TopicSubscription, name: str) -> None:
    connection = DropboxProvider(root, create=True, durable=False).connect()
    connection.poller(wanted)
    assert directories(connection) == [name]
    (info,) = connection.subscriptions()
    assert info.subscription == wanted
    connection.close()


_NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=150)


@given(first=st.tuples(_NAMES, _NAMES, st.booleans()), second=st.tuples(_NAMES, _NAMES, st.booleans()))
def test_no_two_subscriptions_have_one_directory_and_every_name_fits(
    first: tuple[str, str, bool], second: tuple[str, str, bool]
) -> None:
    names = [
        directory_name(TopicSubscription(PRICES, name, client_id, is_durable), "unique")
        for name, client_id, is_durable in (first, second)
    ]
    assert all(len(os.fsencode(name)) <= 255 and "/" not in name and name[0] != "." for name in names)
    if first[0] and second[0]:
        assert (names[0] == names[1]) == (first == second)


def test_a_directory_that_a_program_made_is_a_subscription(root: Path, connection: LocalConnection) -> None:
    base = root / "topic-root/prices/.subscriptions/sub1.connection1.no-local"
    for folder in ("working", "target", "processing", "processed", "expired", "error"):
        (base / folder).mkdir(parents=True)
    connection.send(PRICES, [Message(b"1")])
    (info,) = connection.subscriptions()
    assert info.subscription == durable("sub1", "connection1", no_local=True)
    assert (info.consumers, info.waiting, info.in_progress) == (0, 1, 0)
    assert connection.poller(durable("sub1", "connection1", no_local=True)).take(1, 0) is not None


@rows("content", ["", "{", "[]", "null", '{"name": 1}'])
def test_details_that_cannot_be_read_lose_no_message(root: Path, content: str) -> None:
    provider = DropboxProvider(root, create=True, durable=False)
    connection, other = provider.connect(), provider.connect()
    connection.poller(durable()).close()
    (root / "topic-root/prices/.subscriptions/news.c/subscription.json").write_text(content)
    other.send(PRICES, [Message(b"1")])
    assert [info.waiting for info in other.subscriptions()] == [1]
    connection.close()
    other.close()


def test_a_selector_that_became_invalid_lets_every_message_pass(
    root: Path, connection: LocalConnection, caplog: pytest.LogCaptureFixture
) -> None:
    connection.poller(durable(selector="a = 1")).close()
    path = root / "topic-root/prices/.subscriptions/news.c/subscription.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "selector": "a = ="}))
    other = DropboxProvider(root, create=True, durable=False).connect()
    with caplog.at_level(logging.WARNING, "connector.dropbox"):
        other.send(PRICES, [Message(b"1")])
    assert set(caplog.messages) == {"the selector of a subscription is invalid, so it gets all messages"}
    assert [info.waiting for info in other.subscriptions()] == [1]
    other.close()


@rows("wanted", [TopicSubscription(PRICES), TopicSubscription(PRICES, "news", "c", shared=True)])
def test_a_subscription_whose_only_consumer_has_died_is_swept(root: Path, wanted: TopicSubscription) -> None:
    provider = DropboxProvider(root, create=True, durable=False)
    other, dead = provider.connect(), provider.connect()
    poller = dead.poller(wanted)
    other.send(PRICES, [Message(b"1"), Message(b"2")])
    take(poller)
    dead.abandon()
    assert [(i.consumers, i.waiting, i.in_progress) for i in other.subscriptions()] == [(0, 1, 1)]
    (leftover,) = other.leftovers(None, at_start=False)
    assert [claim.destination for claim in leftover.claims] == [PRICES]
    leftover.release()
    assert give_back_all(other) == [1]
    assert other.subscriptions() == []
    assert os.listdir(layout_of(other).subscriptions(PRICES)) == []
    other.close()


def test_with_and_without_no_local_it_is_one_subscription(other: LocalConnection) -> None:
    other.poller(durable()).close()
    other.poller(durable(no_local=True))
    assert directories(other) == ["news.c.no-local"]
    with pytest.raises(SubscriptionError, match="has a consumer already"):
        other.poller(durable())
    with pytest.raises(SubscriptionError, match=f"has 1 consumer \\(process {os.getpid()}"):
        other.unsubscribe("news", "c")


def test_a_subscription_that_ends_keeps_what_is_claimed_until_its_connection_closes(root: Path) -> None:
    connection = connect(root)
    poller = connection.poller(TopicSubscription(PRICES))
    connection.send(PRICES, [Message(b"1")])
    claim = take(poller)
    poller.close()
    assert connection.access().open().load(claim.reference, 100).body == b"1"
    connection.settle([Settlement(claim)])
    connection.close()
    assert os.listdir(root / "topic-root/prices/.subscriptions") == []


def test_what_clients_left_that_died_making_or_removing_is_swept(root: Path, other: LocalConnection) -> None:
    other.poller(durable()).close()
    directory = Path(layout_of(other).subscriptions(PRICES))
    (directory / ".new-dead-1" / "target").mkdir(parents=True)
    (directory / ".deleted-dead-2" / "target").mkdir(parents=True)
    (directory / ".deleted-dead-2" / "target" / "4.1.T").touch()
    living = DropboxProvider(root, create=True, durable=False).connect()
    (directory / f".new-{living.client_id}-1").mkdir()
    assert directories(other) == ["news.c"]
    DropboxProvider(root, create=True, durable=False).connect().abandon()
    assert give_back_all(other, at_start=False) == [0]
    assert sorted(os.listdir(directory)) == [f".new-{living.client_id}-1", "news.c"]
    living.close()


def test_processed_messages_of_subscriptions_are_pruned(root: Path) -> None:
    provider = DropboxProvider(root, create=True, durable=False, keep_processed=0.05)
    connection = provider.connect()
    poller = connection.poller(durable())
    connection.send(PRICES, [Message(b"1"), Message(b"2", expiration=1), Message(b"3")])
    claim = take(poller)
    connection.settle([Settlement(claim)])
    assert wait_for(lambda: connection.prune().settled) == 1
    assert poller.take(1, 1) is not None
    assert (poller.expired, len(os.listdir(claim.folders.expired))) == (1, 1)
    connection.close()


def test_a_rejected_backlog_is_not_looked_at_again(other: LocalConnection, asked: list[Message]) -> None:
    for number in range(20):
        other.send(ORDERS, [Message(type=str(number))])
    poller = other.poller(ORDERS, selector="JMSType = '19'")
    claim = take(poller)
    for _ in range(5):
        store_of(other).refresh()
        assert poller.take(1, 1) is None
    assert [message.type for message in asked] == [str(number) for number in range(20)]
    other.settle([Settlement(claim, give_back=True, delivery_count=1)])
    assert poller.take(2, 0) is not None


def test_a_selector_sees_the_time_of_a_foreign_file(other: LocalConnection, mv: Mv) -> None:
    mv("orders", "report.csv")
    recent = other.poller(ORDERS, selector=f"JMSTimestamp > {int(time.time() * 1000) - 60000}")
    assert take(recent).file_name == "report.csv"


def test_what_cannot_be_written_is_no_subscription_or_consumer(root: Path, other: LocalConnection) -> None:
    folder = root / "topic-root/prices/.subscriptions"
    said = r"the subscription news\.c of topic://prices cannot be made: File too large"
    with files_limited_to(0), pytest.raises(ProviderError, match=said):
        other.poller(durable())
    assert os.listdir(folder) == []
    shared = TopicSubscription(PRICES, "news", "c", shared=True)
    other.poller(shared)
    second = DropboxProvider(root).connect()
    said = "cannot write.*File too large; make room on the disk"
    with files_limited_to(0), pytest.raises(ProviderError, match=said):
        second.poller(shared)
    assert len(os.listdir(folder / "news.c.non-durable/consumers")) == 1
    second.close()
    os.rename(root / "dropboxmq", root / "gone")
    with pytest.raises(ProviderError):
        other.poller(durable(topic=RATES))
    os.rename(root / "gone", root / "dropboxmq")


def test_unsubscribing_says_what_cannot_be_removed(other: LocalConnection) -> None:
    other.poller(durable()).close()
    with (
        closed(layout_of(other).subscriptions(PRICES)),
        pytest.raises(ProviderError, match=r"cannot remove.*Permission denied"),
    ):
        other.unsubscribe("news", "c")
    other.unsubscribe("news", "c")


def test_a_message_that_goes_back_again_and_again_keeps_a_short_name(other: LocalConnection) -> None:
    poller = other.poller(durable())
    other.send(PRICES, [Message(b"1")])
    error = parse_destination("queue://error")
    names = []
    for cycle in range(1, 4):
        (claim,) = poller.claim(cycle, range(1))
        subscription = claim.subscription
        other.settle([Settlement(claim, error)])
        (name,) = os.listdir(DropboxProvider(layout_of(other).root).folders(error).target)
        names.append(name)
        (failed,) = other.picker(error, lambda _: True).claim(cycle, range(1, 2))
        other.settle([Settlement(failed, PRICES, subscription=subscription)])
    assert names == names[:1] * 3


def test_a_topic_that_is_polled_says_what_to_do(root: Path) -> None:
    connection = connect(root)
    said = "the topic topic://prices holds no messages itself: subscribe to the topic"
    with pytest.raises(CapabilityError, match=said):
        connection.poller(PRICES)
    connection.close()
