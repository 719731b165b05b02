"""What is sent to a topic reaches all of its subscriptions or none, whoever dies in the middle of it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connector.errors import ProviderError, SettlementError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.engine.connection import LocalConnection

PRICES = parse_destination("topic://prices.eu")
ORDERS = parse_destination("queue://orders")
BLOCKED = parse_destination("queue://blocked")
NAMES = ("a", "b", "c")

SEND = """
connection = DropboxProvider(sys.argv[1], create=True, durable=False).connect("suite", "dead")
connection.send(parse_destination("topic://prices.eu"), [Message(b"1"), Message(b"2")])
print("sent", flush=True)
"""
RELAY = """
connection = DropboxProvider(sys.argv[1], create=True, durable=False).connect("suite", "dead")
claim = connection.poller(parse_destination("orders")).take(1, 0)
access = connection.access().open()
prepared = access.prepare(parse_destination("topic://prices.eu"), Message(b"1"), "key")
access.sync()
connection.settle([Settlement(claim, sends=[prepared])])
print("sent", flush=True)
"""
DISTRIBUTE = """
from connector.messaging.subscription import TopicSubscription
connection = DropboxProvider(sys.argv[1], create=True, durable=False).connect("suite", "dead")
topic = parse_destination("topic://prices.eu")
poller = connection.poller(TopicSubscription(topic, "a", durable=True, shared=True))
print("sent", flush=True)
"""


def subscription(name: str) -> TopicSubscription:
    return TopicSubscription(PRICES, name, durable=True, shared=True)


@pytest.fixture
def subscribed(root: Path) -> DropboxProvider:
    """A topic with three durable subscriptions without a consumer."""
    provider = DropboxProvider(root, create=True, durable=False)
    connection = provider.connect()
    for name in NAMES:
        connection.poller(subscription(name))
    connection.close()
    return provider


@pytest.fixture
def connection(subscribed: DropboxProvider) -> Iterator[LocalConnection]:
    connection = subscribed.connect("suite", "a")
    yield connection
    connection.abandon()


def received(connection: LocalConnection, name: str) -> list[str]:
    """The bodies of all that a subscription gets."""
    poller, access, bodies = connection.poller(subscription(name)), connection.access().open(), []
    while (claim := poller.take(1, len(bodies))) is not None:
        bodies.append(access.load(claim.reference, 1000).body.decode())
        connection.settle([Settlement(claim)])
    poller.close()
    return sorted(bodies)


def recover(provider: DropboxProvider) -> LocalConnection:
    """A living neighbour that has taken over."""
    connection = provider.connect("suite", "living")
    for leftover in connection.leftovers(None, at_start=True):
        connection.settle([Settlement(c, give_back=True, delivery_count=1) for c in leftover.claims])
        leftover.forget()
    for folder in (connection.store.layout.associated, connection.store.layout.committing):
        assert os.listdir(folder) == []
    for folders in connection.store.layout.everywhere():
        assert os.listdir(folders.working) == os.listdir(folders.processing) == []
    return connection


BEFORE = ["fanout.link:1", "fanout.link:2", "settle.record"]
AFTER = ["settle.committing", *(f"settle.move:{n}" for n in range(1, 4)), "settle.finished"]


@pytest.mark.parametrize("fault", [*BEFORE, "fanout.link:3", "fanout.link:6"])
def test_a_sender_that_dies_before_its_commit_has_sent_nothing(
    subscribed: DropboxProvider, children: Any, fault: str
) -> None:
    status, out, err = children.run(SEND, subscribed.layout.root, fault=f"{fault}=kill")
    assert (status, out) == (-9, ""), err
    connection = recover(subscribed)
    assert [received(connection, name) for name in NAMES] == [[], [], []]
    connection.close()


@pytest.mark.parametrize("fault", [*AFTER, *(f"settle.move:{n}" for n in range(4, 7))])
def test_a_sender_that_dies_after_its_commit_has_sent_all_to_everybody(
    subscribed: DropboxProvider, children: Any, fault: str
) -> None:
    status, out, err = children.run(SEND, subscribed.layout.root, fault=f"{fault}=kill")
    assert (status, out) == (-9, ""), err
    connection = recover(subscribed)
    assert [received(connection, name) for name in NAMES] == [["1", "2"]] * 3
    connection.close()


def test_there_are_as_many_steps_as_the_tests_die_at(subscribed: DropboxProvider, children: Any) -> None:
    for fault in ("settle.move:7=kill", "fanout.link:7=kill"):
        status, out, err = children.run(SEND, subscribed.layout.root, fault=fault)
        assert (status, out) == (0, "sent\n"), err


@pytest.mark.parametrize("fault", [*BEFORE, *AFTER, "settle.move:4"])
def test_a_message_taken_and_one_sent_to_a_topic_are_one_commit(
    subscribed: DropboxProvider, children: Any, fault: str
) -> None:
    sender = subscribed.connect()
    sender.send(ORDERS, [Message(b"order")])
    sender.close()
    status, out, err = children.run(RELAY, subscribed.layout.root, fault=f"{fault}=kill")
    assert (status, out) == (-9, ""), err
    connection = recover(subscribed)
    waiting = [message.delivery_count for message in connection.browse(ORDERS)]
    got = [received(connection, name) for name in NAMES]
    assert (waiting, got) == (([2], [[]] * 3) if fault in BEFORE else ([], [["1"]] * 3))
    connection.close()


@pytest.mark.parametrize("fault", ["fanout.claim", *BEFORE, "fanout.link:3", *AFTER, "settle.move:4"])
def test_a_foreign_file_is_distributed_once_to_all_whoever_dies_at_it(
    subscribed: DropboxProvider, children: Any, fault: str
) -> None:
    drop(subscribed, "report.csv")
    status, out, err = children.run(DISTRIBUTE, subscribed.layout.root, fault=f"{fault}=kill")
    assert (status, out) == (-9, ""), err
    connection = recover(subscribed)
    assert [received(connection, name) for name in NAMES] == [["foreign"]] * 3
    assert os.listdir(connection.store.layout.queue(PRICES).processed) == ["report.csv"]
    connection.close()


def drop(provider: DropboxProvider, name: str) -> None:
    """Sends to the topic as a foreign program does."""
    folders = provider.layout.ensure(PRICES)
    Path(folders.working, "x").write_bytes(b"foreign")
    os.rename(f"{folders.working}/x", f"{folders.target}/{name}")


@pytest.mark.parametrize("name", ["report.csv", "9.1140429201295000-1.T", "é" * 127, "x" * 250])
def test_a_foreign_file_keeps_its_name_in_every_subscription(
    subscribed: DropboxProvider, connection: LocalConnection, name: str
) -> None:
    drop(subscribed, name)
    for number, subscribed_as in enumerate(NAMES):
        claim = connection.poller(subscription(subscribed_as)).take(1, number)
        assert claim is not None
        expected = name if not name.startswith("9.") else "ID:1140429201295000-1"
        assert claim.message_id == expected
        assert connection.access().open().load(claim.reference, 100).body == b"foreign"


def test_a_foreign_file_that_came_before_a_subscription_is_not_for_it(
    subscribed: DropboxProvider, connection: LocalConnection
) -> None:
    drop(subscribed, "early")
    late = connection.poller(subscription("late"))
    drop(subscribed, "now")
    first = late.take(1, 0)
    assert first is not None
    assert first.message_id == "now"
    assert late.take(1, 1) is None
    assert received(connection, "a") == ["foreign", "foreign"]


def test_two_foreign_files_of_one_name_are_two_messages(
    subscribed: DropboxProvider, connection: LocalConnection
) -> None:
    for _ in range(2):
        drop(subscribed, "report.csv")
        poller = connection.poller(subscription("a"))
        poller.close()
    assert received(connection, "b") == ["foreign", "foreign"]


def test_the_body_is_stored_once_for_all_subscriptions(connection: LocalConnection) -> None:
    connection.send(PRICES, [Message(b"body")])
    folders = [folders.target for folders in connection.store.layout.subscriptions_of(PRICES)]
    files = [os.stat(f"{folder}/{name}") for folder in folders for name in os.listdir(folder)]
    assert len(files) == 3
    assert {(status.st_ino, status.st_nlink) for status in files} == {(files[0].st_ino, 3)}


@pytest.mark.parametrize("number", [errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.EXDEV])
def test_where_the_file_system_has_no_links_the_message_is_copied(
    connection: LocalConnection, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    connection.send(PRICES, [Message(b"body")])
    assert [received(connection, name) for name in NAMES] == [["body"]] * 3


def test_headers_of_any_length_belong_to_each_subscription_by_itself(connection: LocalConnection) -> None:
    message = Message(b"body", type="t" * 500)
    connection.send(PRICES, [message])
    for number, name in enumerate(NAMES):
        claim = connection.poller(subscription(name)).take(1, number)
        assert claim is not None
        assert connection.access().open().load(claim.reference, 100).type == "t" * 500
        connection.store.headers.remove(claim.name)  # as whoever removes the file
    assert os.listdir(connection.store.layout.headers) == []


@pytest.mark.parametrize("way", ["foreign file", "copy", "long copy"])
def test_a_message_whose_headers_are_damaged_gets_them_back_in_every_subscription(
    subscribed: DropboxProvider, connection: LocalConnection, way: str
) -> None:
    connection.send(ORDERS, [Message(b"body", type="t" * 500)])
    (key,) = os.listdir(connection.store.layout.headers)
    sidecar = Path(connection.store.layout.headers, key)
    whole = sidecar.read_bytes()
    sidecar.write_bytes(b"")
    if way == "foreign file":
        (name,) = os.listdir(connection.store.layout.queue(ORDERS).target)
        drop(subscribed, name)
    else:
        properties = {"connector_reason": "r" * (500 if way == "long copy" else 1)}
        claim = connection.poller(ORDERS).take(1, 0)
        assert claim is not None
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


def test_a_subscription_that_is_removed_while_a_commit_is_finished_is_not_made_again(
    subscribed: DropboxProvider, children: Any
) -> None:
    status, _, err = children.run(SEND, subscribed.layout.root, fault="settle.committing=kill")
    assert status == -9, err
    other = subscribed.connect("another")
    other.unsubscribe("b")
    connection = recover(subscribed)
    assert [received(connection, name) for name in ("a", "c")] == [["1", "2"]] * 2
    assert [info.subscription.name for info in connection.subscriptions()] == ["a", "c"]
    connection.close()
    other.close()


def test_the_subscription_that_gets_the_file_itself_may_be_the_one_that_is_removed(
    subscribed: DropboxProvider, children: Any
) -> None:
    status, _, err = children.run(SEND, subscribed.layout.root, fault="settle.committing=kill")
    assert status == -9, err
    other = subscribed.connect("another")
    other.unsubscribe("c")
    connection = recover(subscribed)
    assert [received(connection, name) for name in ("a", "b")] == [["1", "2"]] * 2
    assert [info.subscription.name for info in connection.subscriptions()] == ["a", "b"]
    connection.close()
    other.close()


@pytest.mark.parametrize("fault", ["fanout.link:2=enospc", "settle.record=enospc"])
def test_a_full_disk_sends_to_nobody_and_leaves_nothing(
    subscribed: DropboxProvider, children: Any, fault: str
) -> None:
    code = f"""
from connector import faults
try:
    {SEND.strip().splitlines()[0]}
    connection.send(parse_destination("topic://prices.eu"), [Message(b"1", type="t" * 500), Message(b"2")])
except ProviderError as error:
    print(error)
for folders in connection.store.layout.everywhere():
    assert os.listdir(folders.working) == os.listdir(folders.target) == [], folders
assert os.listdir(connection.store.layout.headers) == []
connection.send(parse_destination("topic://prices.eu"), [Message(b"later")])
connection.close()
"""
    status, out, err = children.run(code, subscribed.layout.root, fault=fault)
    assert status == 0, err
    assert "cannot send to topic://prices.eu: No space left on device" in out
    connection = recover(subscribed)
    assert [received(connection, name) for name in NAMES] == [["later"]] * 3
    connection.close()


def test_a_settlement_that_fails_sends_to_no_subscription_and_can_be_repeated(
    subscribed: DropboxProvider, children: Any
) -> None:
    code = RELAY.replace(
        "connection.settle(",
        """
batch = [Settlement(claim, sends=[prepared])]
try:
    connection.settle(batch)
except SettlementError as error:
    print(type(error).__name__)
for folders in connection.store.layout.subscriptions_of(parse_destination("topic://prices.eu")):
    assert os.listdir(folders.working) == []
connection.settle(batch or """,
    )
    sender = subscribed.connect()
    sender.send(ORDERS, [Message(b"order")])
    sender.close()
    status, out, err = children.run(code, subscribed.layout.root, fault="settle.record=enospc")
    assert (status, out) == (0, "SettlementError\nsent\n"), err
    connection = recover(subscribed)
    assert [received(connection, name) for name in NAMES] == [["1"]] * 3
    connection.close()


def test_two_subscriptions_that_are_archived_into_one_queue_keep_a_copy_each(
    connection: LocalConnection,
) -> None:
    archive = parse_destination("archive")
    connection.send(PRICES, [Message(b"1")])
    claims = [connection.poller(subscription(name)).take(1, n) for n, name in enumerate(NAMES)]
    connection.settle([Settlement(claim, copy_to=archive) for claim in claims if claim is not None])
    copies = list(connection.browse(archive))
    assert [copy.body for copy in copies] == [b"1"] * 3
    assert {copy.message_id for copy in copies} == {claims[0].message_id if claims[0] else None}
    assert [copy.properties for copy in copies] == [{}] * 3


def test_a_copy_may_go_to_a_topic(connection: LocalConnection) -> None:
    connection.send(ORDERS, [Message(b"1", type="t" * 300), Message(b"2")])
    poller = connection.poller(ORDERS)
    for number in range(2):
        claim = poller.take(1, number)
        assert claim is not None
        connection.settle([Settlement(claim, copy_to=PRICES, properties={"connector_outcome": "failed"})])
    assert list(connection.browse(ORDERS)) == []
    poller = connection.poller(subscription("a"))
    first = poller.take(2, 0)
    assert first is not None
    assert first.headers().properties == {"connector_outcome": "failed"}
    assert first.headers().type == "t" * 300
    assert [received(connection, name) for name in ("b", "c")] == [["1", "2"]] * 2


def test_duplicate_keys_of_two_subscriptions_differ(connection: LocalConnection) -> None:
    connection.send(PRICES, [Message(b"1")])
    claims = [connection.poller(subscription(name)).take(1, n) for n, name in enumerate(NAMES)]
    assert len({claim.duplicate_key for claim in claims if claim is not None}) == 3


def test_a_message_delivered_too_often_goes_to_the_error_folder_of_its_subscription(
    subscribed: DropboxProvider,
) -> None:
    limited = DropboxProvider(subscribed.layout.root, create=True, durable=False, redelivery_limit=1)
    connection = limited.connect()
    connection.send(PRICES, [Message(b"1")])
    poller = connection.poller(subscription("a"))
    claim = poller.take(1, 0)
    assert claim is not None
    connection.settle([Settlement(claim, give_back=True, delivery_count=1)])
    assert poller.take(1, 1) is None
    assert len(os.listdir(claim.folders.error)) == 1
    assert received(connection, "b") == ["1"]
    connection.send(PRICES, [Message(b"2", expiration=1)])
    assert poller.take(1, 1) is None
    connection.close()
    looking = limited.existing()
    found = {
        info.subscription.name: (info.waiting, info.expired, info.error) for info in looking.subscriptions()
    }
    assert found == {"a": (0, 1, 1), "b": (1, 0, 0), "c": (2, 0, 0)}
    again = limited.connect()
    (path,) = Path(claim.folders.error).iterdir()
    path.rename(Path(claim.folders.target) / path.name)
    poller = again.poller(subscription("a"))
    moved = poller.take(1, 0)
    assert moved is not None
    again.settle([Settlement(moved, give_back=True, delivery_count=1)])
    assert poller.take(1, 0) is None
    poller.close()
    assert again.unsubscribe("a").kept() == "1 expired, 1 in error"
    again.close()


def test_what_cannot_be_linked_is_an_error_of_the_provider_and_sent_to_nobody(
    subscribed: DropboxProvider, children: Any
) -> None:
    Path(subscribed.layout.root).chmod(0o777)
    for path in Path(subscribed.layout.root).rglob("*"):
        if path.is_dir():
            path.chmod(0o777)
    code = SEND.replace(
        "connection.send(",
        """
folders = connection.store.layout.subscriptions_of(parse_destination("topic://prices.eu"))[1]
os.rmdir(folders.working)
os.symlink("/proc", folders.working)
connection.send(""",
    )
    status, _, err = children.run(code, subscribed.layout.root, ordinary_user=True)
    assert status == 1
    assert "ProviderError: cannot send to topic://prices.eu:" in err
    assert "nothing was sent" in err
    os.unlink(subscribed.layout.subscriptions_of(PRICES)[1].working)
    connection = subscribed.connect()
    assert [received(connection, name) for name in NAMES] == [[], [], []]
    connection.close()


def test_an_unwritable_error_is_no_commit(connection: LocalConnection) -> None:
    """A copy that is refused leaves no link behind in the subscriptions of another copy."""
    (Path(connection.store.layout.root) / "blocked").write_text("a file where the queue should be")
    connection.send(ORDERS, [Message(b"1"), Message(b"2")])
    poller = connection.poller(ORDERS)
    claims = [poller.take(1, number) for number in range(2)]
    assert claims[0] is not None
    assert claims[1] is not None
    with pytest.raises(SettlementError, match="queue://blocked cannot be written"):
        connection.settle(
            [
                Settlement(claims[0], copy_to=PRICES),
                Settlement(claims[1], copy_to=parse_destination("blocked")),
            ]
        )
    assert [received(connection, name) for name in NAMES] == [[], [], []]
    with pytest.raises(ProviderError):
        connection.send(parse_destination("blocked"), [Message()])
