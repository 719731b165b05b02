"""What is sent to a topic reaches all of its subscriptions or none.

``tests/crash_states`` lets senders and consumers die at each operation.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.errors import ProviderError, SettlementError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox.headers import keys_of
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.engine.connection import LocalConnection
from tests.privileges import without_privileges
from tests.stores.dropbox.steps import ORDERS, Died, at, die, fault, layout_of, recover, store_of, take
from tests.tables import rows

PRICES = parse_destination("topic://prices.eu")
BLOCKED = parse_destination("queue://blocked")
NAMES = ("a", "b", "c")


def subscription(name: str) -> TopicSubscription:
    return TopicSubscription(PRICES, name, durable=True, shared=True)


def subscribe(root: Path) -> DropboxProvider:
    """Makes a topic with three durable subscriptions without a consumer."""
    provider = DropboxProvider(root, create=True, durable=False)
    connection = provider.connect()
    for name in NAMES:
        connection.poller(subscription(name))
    connection.close()
    return provider


@pytest.fixture
def subscribed(root: Path) -> DropboxProvider:
    return subscribe(root)


@pytest.fixture
def connection(subscribed: DropboxProvider) -> Iterator[LocalConnection]:
    connection = subscribed.connect("suite", "a")
    yield connection
    connection.abandon()


def received(connection: LocalConnection, name: str) -> list[str]:
    """The bodies of all that a subscription gets."""
    poller, access = connection.poller(subscription(name)), connection.access().open()
    claims = poller.claim(99, range(99))
    bodies = sorted(access.load(claim.reference, 1000).body.decode() for claim in claims)
    connection.settle([Settlement(claim) for claim in claims])
    poller.close()
    return bodies


def received_by_all(connection: LocalConnection) -> list[list[str]]:
    return [received(connection, name) for name in NAMES]


def drop(provider: DropboxProvider, name: str) -> None:
    """Sends to the topic as a foreign program does."""
    folders = provider.layout.ensure(PRICES)
    Path(folders.working, "x").write_bytes(b"foreign")
    os.rename(f"{folders.working}/x", f"{folders.target}/{name}")


@rows("name", ["report.csv", "9.1140429201295000-1.T", "é" * 127, "x" * 250])
def test_a_foreign_file_is_one_message_with_its_name_for_all(
    subscribed: DropboxProvider, connection: LocalConnection, name: str
) -> None:
    drop(subscribed, name)
    ids = set()
    for number, subscribed_as in enumerate(NAMES):
        claim = take(connection, number, source=subscription(subscribed_as))
        ids.add(claim.message_id)
        assert claim.file_name == ("" if name.startswith("9.") else name)
        assert connection.access().open().load(claim.reference, 100).body == b"foreign"
        connection.settle([Settlement(claim)])
    assert len(ids) == 1
    assert ids == {"ID:1140429201295000-1"} or not name.startswith("9.")
    assert name in os.listdir(subscribed.layout.queue(PRICES).processed)


@rows("names", [("early", "now"), ("report.csv", "report.csv")])
def test_a_foreign_file_is_for_those_that_subscribed_before(root: Path, names: tuple[str, str]) -> None:
    provider = subscribe(root)
    connection = provider.connect()
    drop(provider, names[0])
    late = connection.poller(subscription("late"))
    drop(provider, names[1])
    assert take(late).file_name == names[1]
    assert late.take(1, 1) is None
    assert received_by_all(connection) == [["foreign", "foreign"]] * 3
    connection.abandon()


@rows(
    "place",
    [
        *("fanout.claim", "fanout.link:1", "fanout.link:3", "settle.record", "settle.committing"),
        *(*(f"settle.move:{number}" for number in range(1, 5)), "settle.finished"),
    ],
)
def test_a_foreign_file_is_distributed_once_to_all_whoever_dies_at_it(root: Path, place: str) -> None:
    provider = subscribe(root)
    drop(provider, "report.csv")
    dead = provider.connect("suite", "dead")
    with pytest.raises(Died), at(place, die):
        dead.poller(subscription("a"))
    dead.abandon()
    connection = recover(root)
    assert received_by_all(connection) == [["foreign"]] * 3
    assert os.listdir(layout_of(connection).queue(PRICES).processed) == ["report.csv"]
    connection.close()


@rows("number", [errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.EXDEV])
def test_where_the_file_system_has_no_links_the_message_is_copied(
    connection: LocalConnection, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    connection.send(PRICES, [Message(b"body")])
    assert received_by_all(connection) == [["body"]] * 3


def test_subscriptions_share_the_body_and_each_has_its_own_headers(connection: LocalConnection) -> None:
    connection.send(PRICES, [Message(b"body", type="t" * 500)])
    folders = [folders.target for folders in layout_of(connection).subscriptions_of(PRICES)]
    files = [os.stat(f"{folder}/{name}") for folder in folders for name in os.listdir(folder)]
    assert [(status.st_ino, status.st_nlink) for status in files] == [(files[0].st_ino, 3)] * 3
    for number, name in enumerate(NAMES):
        claim = take(connection, number, source=subscription(name))
        assert connection.access().open().load(claim.reference, 100).type == "t" * 500
        store_of(connection).headers.remove(keys_of(claim.name))  # as whoever removes the file
    assert os.listdir(layout_of(connection).headers) == []


@pytest.mark.parametrize("way", ["foreign file", "copy", "long copy"])
def test_a_message_whose_headers_are_damaged_gets_them_back_in_every_subscription(
    subscribed: DropboxProvider, connection: LocalConnection, way: str
) -> None:
    connection.send(ORDERS, [Message(b"body", type="t" * 500)])
    (key,) = os.listdir(layout_of(connection).headers)
    sidecar = Path(layout_of(connection).headers, key)
    whole = sidecar.read_bytes()
    sidecar.write_bytes(b"")
    if way == "foreign file":
        (name,) = os.listdir(layout_of(connection).queue(ORDERS).target)
        drop(subscribed, name)
    else:
        properties = {"connector_reason": "r" * (500 if way == "long copy" else 1)}
        claim = take(connection)
        connection.settle([Settlement(claim, copy_to=PRICES, properties=properties)])
    claims = [connection.poller(subscription(name)).take(2, n) for n, name in enumerate(NAMES)]
    assert sidecar.exists()
    sidecar.write_bytes(whole)
    access = connection.access().open()
    loaded = [access.load(claim.reference, 100) for claim in claims if claim]
    assert [message.type for message in loaded] == ["t" * 500] * 3
    if way == "long copy":
        assert [message.properties for message in loaded] == [properties] * 3


def test_nothing_is_written_for_a_topic_without_subscriptions(root: Path) -> None:
    connection = DropboxProvider(root, create=True, durable=False).connect()
    before = {path for path in root.rglob("*") if path.is_file()}
    topic = parse_destination("topic://nobody")
    assert len(connection.send(topic, [Message(b"1", type="t" * 500)])) == 1
    prepared = connection.access().open().prepare(topic, Message(b"1", type="t" * 500), "key")
    connection.settle([], sends=[prepared])
    assert {path for path in root.rglob("*") if path.is_file()} == before
    connection.close()


@rows("name", NAMES[1:])
def test_a_subscription_that_is_removed_while_a_commit_is_finished_is_not_made_again(
    root: Path, name: str
) -> None:
    """The last one gets the file itself, the others get links."""
    provider = subscribe(root)
    dead = provider.connect("suite", "dead")
    with pytest.raises(Died), at("settle.committing", die):
        dead.send(PRICES, [Message(b"1"), Message(b"2")])
    dead.abandon()
    other = provider.connect("another")
    other.unsubscribe(name)
    connection = recover(root)
    for folders in layout_of(connection).everywhere():
        assert os.listdir(folders.working) == os.listdir(folders.processing) == []
    left = [one for one in NAMES if one != name]
    assert [received(connection, one) for one in left] == [["1", "2"]] * 2
    assert [info.subscription.name for info in connection.subscriptions()] == left
    connection.close()
    other.close()


@rows("place", ["fanout.link:2", "settle.record"])
def test_a_full_disk_sends_to_nobody_and_leaves_nothing(root: Path, place: str) -> None:
    connection = subscribe(root).connect("suite", "a")
    layout = layout_of(connection)
    with fault(f"{place}=enospc"), pytest.raises(ProviderError) as refused:
        connection.send(PRICES, [Message(b"1", type="t" * 500), Message(b"2")])
    assert "cannot send to topic://prices.eu: No space left on device" in str(refused.value)
    for folders in layout.everywhere():
        assert os.listdir(folders.working) == os.listdir(folders.target) == [], folders
    assert os.listdir(layout.headers) == []
    connection.send(PRICES, [Message(b"later")])
    assert received_by_all(connection) == [["later"]] * 3
    connection.close()


def test_what_cannot_be_linked_is_an_error_and_sent_to_nobody(connection: LocalConnection) -> None:
    folders = layout_of(connection).subscriptions_of(PRICES)[1]
    os.rmdir(folders.working)
    os.symlink("/proc", folders.working)
    with (
        without_privileges(),
        pytest.raises(ProviderError, match=r"cannot send to topic://prices\.eu: .*nothing was sent"),
    ):
        connection.send(PRICES, [Message(b"1"), Message(b"2")])
    os.unlink(folders.working)
    os.mkdir(folders.working)
    assert received_by_all(connection) == [[], [], []]


def test_a_refused_copy_leaves_no_link_in_the_subscriptions_of_another(connection: LocalConnection) -> None:
    (Path(layout_of(connection).root) / "blocked").write_text("a file where the queue should be")
    connection.send(ORDERS, [Message(b"1"), Message(b"2")])
    first, second = connection.poller(ORDERS).claim(1, range(2))
    with pytest.raises(SettlementError, match="queue://blocked cannot be written"):
        connection.settle([Settlement(first, copy_to=PRICES), Settlement(second, copy_to=BLOCKED)])
    assert received_by_all(connection) == [[], [], []]
    with pytest.raises(ProviderError):
        connection.send(BLOCKED, [Message()])


@rows("prepares", [False, True])
def test_a_subscription_made_meanwhile_has_all_of_a_commit_or_nothing(root: Path, prepares: bool) -> None:
    provider = subscribe(root)
    sender, other = provider.connect(), provider.connect()
    messages = [Message(str(number).encode()) for number in range(10)]
    with at("fanout.link:5", lambda: other.poller(subscription("late")).close()):
        if prepares:
            access = sender.access().open()
            prepared = [access.prepare(PRICES, one, one.body.decode()) for one in messages]
            sender.settle([], prepared)
        else:
            sender.send(PRICES, messages)
    waiting = {info.subscription.name: info.waiting for info in other.subscriptions()}
    assert waiting.pop("late") in (0, 10)
    assert waiting == dict.fromkeys(NAMES, 10)
    sender.close()
    other.close()


@rows("names, place", [(["a"], "settle.move"), (["a", "b"], "settle.committing")])
def test_a_subscription_made_anew_meanwhile_gets_nothing_of_the_one_before(
    root: Path, names: list[str], place: str
) -> None:
    provider = DropboxProvider(root, create=True, durable=False)
    sender, other = provider.connect(), provider.connect()
    for name in names:
        other.poller(subscription(name)).close()
    anew = TopicSubscription(PRICES, "a", durable=True, shared=True, selector="region = 'EU'")
    with at(place, lambda: other.poller(anew).close()):
        sender.send(PRICES, [Message(b"no region")])
    waiting = {info.subscription.name: info.waiting for info in other.subscriptions()}
    assert waiting == {"a": 0} | ({"b": 1} if "b" in names else {})
    sender.close()
    other.close()
