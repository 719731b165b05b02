"""Several processes use one database, and one that is killed loses and doubles nothing."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest

from connector.errors import ProviderError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from tests.forked_command import PipedProcess
from tests.stores.conftest import Children

pytestmark = pytest.mark.process

ORDERS = parse_destination("orders")
ARCHIVE = parse_destination("archive")
PRICES = parse_destination("topic://prices")

PRELUDE = """
from connector.messaging.subscription import TopicSubscription
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
orders, archive = parse_destination("orders"), parse_destination("archive")
connection = SqlProvider(Settings(sys.argv[1])).connect("suite", "child")
"""


@pytest.fixture
def provider(url: str) -> SqlProvider:
    return SqlProvider(Settings(url))


def kill(child: PipedProcess) -> None:
    """Kills a process when it has said that it is ready."""
    line = child.stdout.readline()
    assert line == "ready\n", line + (child.communicate()[1])
    child.send_signal(signal.SIGKILL)
    child.wait(120)


def test_what_a_killed_process_has_claimed_is_taken_over_at_once(
    provider: SqlProvider, url: str, children: Children
) -> None:
    connection = provider.connect("suite", "parent")
    connection.send(ORDERS, [Message(str(n).encode()) for n in range(10)])
    child = children.start(
        PRELUDE
        + """
queue = connection.temporary("queue")
claims = connection.poller(orders).claim(3, range(0, 12, 2))
access = connection.access().open()
prepared = access.prepare(archive, Message(b"prepared"), "key")
access.sync()
connection.settle([Settlement(claims[0], copy_to=archive)])
prices = parse_destination("topic://prices")
subscription = connection.poller(TopicSubscription(prices, "shared", shared=True))
print("ready", flush=True)
sys.stdin.read()
""",
        url,
    )
    kill(child)
    (leftover,) = connection.leftovers(None, at_start=False)
    assert [(claim.cycle, claim.sequence) for claim in leftover.claims] == [(3, n) for n in range(2, 12, 2)]
    late = provider.connect("suite", "late")
    assert list(late.leftovers(None, at_start=False)) == []
    connection.settle([Settlement(leftover.claims[0], copy_to=ARCHIVE)])
    leftover.forget()
    assert [message.body for message in connection.browse(ARCHIVE)] == [b"0", b"1"]
    counts = [claim.delivery_count for claim in late.poller(ORDERS).claim(1, range(20))]
    assert counts == [1, 1, 1, 1, 0, 0, 0, 0]
    assert (list(connection.subscriptions()), connection.names()) == ([], [ARCHIVE, ORDERS, PRICES])


def test_processes_that_are_killed_in_the_middle_lose_and_double_nothing(
    provider: SqlProvider, url: str, children: Children
) -> None:
    number = 300
    with_all = TopicSubscription(PRICES, "all", "suite", durable=True)
    connection = provider.connect("suite", "parent")
    copies = connection.poller(with_all)
    connection.send(ORDERS, [Message(str(n).encode()) for n in range(number)])
    work = """
poller = connection.poller(orders)
for cycle in range(1000):
    claims = poller.claim(cycle, range(5))
    if cycle == 3:
        print("ready", flush=True)
    if not claims:
        break
    connection.settle([Settlement(claim, copy_to=parse_destination("topic://prices")) for claim in claims])
connection.close()
"""
    for _ in range(3):
        kill(children.start(PRELUDE + work, url))
    for leftover in connection.leftovers(None, at_start=False):
        leftover.forget()
    assert children.run(PRELUDE + work, url)[0] == 0
    access = connection.access().open()
    found = Counter(access.load(claim.reference, 100).body for claim in copies.claim(1, range(2 * number)))
    assert found == Counter(str(n).encode() for n in range(number))
    assert list(connection.browse(ORDERS)) == []


def test_the_bodies_of_a_fan_out_are_kept_once(root: Path) -> None:
    provider = SqlProvider(Settings(f"sqlite:///{root}/messages.db"))
    connection = provider.connect("suite", "parent")
    pollers = [connection.poller(TopicSubscription(PRICES)) for _ in range(20)]
    connection.send(PRICES, [Message(b"x" * 1_000_000)])
    assert sum(path.stat().st_size for path in root.glob("messages*")) < 4_000_000
    for poller in pollers:
        (claim,) = poller.claim(1, range(5))
        connection.settle([Settlement(claim)])


def test_who_takes_over_and_is_killed_is_taken_over_from_too(
    provider: SqlProvider, url: str, children: Children
) -> None:
    connection = provider.connect("suite", "parent")
    connection.send(ORDERS, [Message(b"1"), Message(b"2")])
    work = """
claims = connection.poller(orders).claim(1, range(1))
held = list(connection.leftovers(None, at_start=True))
print("ready", flush=True)
sys.stdin.read()
"""
    for _ in range(2):
        kill(children.start(PRELUDE + work, url))
    leftovers = list(connection.leftovers(None, at_start=False))
    assert [len(leftover.claims) for leftover in leftovers] == [1, 1]
    for leftover in leftovers:
        leftover.forget()
    assert [message.delivery_count for message in connection.browse(ORDERS)] == [2, 2]


def test_processes_that_come_to_a_subscription_and_leave_it_at_once_leave_nothing(
    provider: SqlProvider, url: str, children: Children
) -> None:
    work = """
shared = TopicSubscription(parse_destination("topic://prices"), "all", shared=True)
for number in range(40):
    poller = connection.poller(shared)
    connection.send(shared.topic, [Message(b"body")])
    connection.settle([Settlement(claim) for claim in poller.claim(number, range(3))])
    poller.close()
connection.close()
"""
    started = [children.start(PRELUDE + work, url) for _ in range(3)]
    ended = [(child.communicate(timeout=120)[1], child.returncode) for child in started]
    assert ended == [("", 0)] * 3
    connection = provider.connect("suite", "parent")
    assert (list(connection.subscriptions()), connection.names()) == ([], [PRICES])
    assert list(connection.leftovers(None, at_start=True)) == []


@pytest.mark.parametrize("place", ["claim:7", "settle.record:2", "settle.committing:2", "settle.finished:2"])
def test_a_process_that_is_killed_at_a_step_loses_and_doubles_nothing(
    provider: SqlProvider, url: str, children: Children, place: str
) -> None:
    work = """
access = connection.access().open()
for cycle in range(1000):
    claims = connection.poller(orders).claim(cycle, range(5))
    if not claims:
        break
    sends = [access.prepare(parse_destination("notes"), Message(str(claim.message_id).encode()),
                            str(claim.message_id)) for claim in claims]
    access.sync()
    connection.settle([
        Settlement(claim, copy_to=archive, sends=[send]) for claim, send in zip(claims, sends)
    ])
connection.close()
"""
    connection = provider.connect("suite", "parent")
    ids = connection.send(ORDERS, [Message(str(number).encode()) for number in range(20)])
    status, _, errors = children.run(PRELUDE + work, url, fault=f"{place}=kill")
    assert status == -signal.SIGKILL, errors
    for leftover in connection.leftovers(None, at_start=False):
        leftover.forget()
    assert children.run(PRELUDE + work, url) == (0, "", "")
    archived = [message.message_id for message in connection.browse(ARCHIVE)]
    sent = [message.body.decode() for message in connection.browse(parse_destination("notes"))]
    assert (sorted(map(str, archived)), sorted(sent)) == (sorted(ids), sorted(ids))
    assert list(connection.browse(ORDERS)) == []
    assert list(connection.leftovers(None, at_start=True)) == []


def test_a_process_that_forks_leaves_its_connections_behind(
    provider: SqlProvider, url: str, children: Children
) -> None:
    work = """
connection.send(orders, [Message(b"parent")])
for number in range(3):
    child = os.fork()
    if not child:
        access = connection.access().open()
        access.check()
        own = SqlProvider(Settings(sys.argv[1])).connect("suite", "forked")
        own.send(orders, [Message(str(number).encode())])
        own.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    connection.send(orders, [Message(b"parent")])
connection.close()
"""
    assert children.run(PRELUDE + work, url) == (0, "", "")
    found = [message.body for message in provider.connect().browse(ORDERS)]
    assert found == [b"parent", b"0", b"parent", b"1", b"parent", b"2", b"parent"]


def test_a_client_that_somebody_takes_over_from_claims_nothing(provider: SqlProvider) -> None:
    connection, heir = provider.connect("suite", "one"), provider.connect("suite", "other")
    poller = connection.poller(ORDERS)
    connection.send(ORDERS, [Message(b"1")])
    provider.declare_dead(connection.client_id)
    assert poller.take(1, 0) is None
    (leftover,) = heir.leftovers(None, at_start=False)
    assert poller.take(2, 0) is None
    leftover.forget()
    assert poller.take(3, 0) is None
    with pytest.raises(ProviderError, match="has taken over"):
        connection.check()
    assert heir.poller(ORDERS).take(1, 0) is not None
