"""Where locks cannot be trusted: a client that does not run for its lease is dead, and finds that out."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from connector.errors import ClaimLost, SubscriptionError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.engine.connection import LocalConnection
from tests.stores.conftest import Children
from tests.stores.dropbox.steps import layout_of, take
from tests.tables import rows
from tests.waiting import wait_for

ORDERS = parse_destination("queue://orders")
NOTES = parse_destination("queue://notes")
LEASE = 1.0
LONG_LEASE = 600.0

HOLD = """
from connector.messaging.subscription import TopicSubscription
provider = DropboxProvider(sys.argv[1], create=True, durable=False, lease=float(sys.argv[3]))
connection = provider.connect(sys.argv[2], client_id="c")
orders = parse_destination("orders")
poller = connection.poller(orders)
connection.poller(TopicSubscription(parse_destination("topic://prices"), "news", "c", durable=True))
claims = [poller.take(1, number) for number in range(2)]
access = connection.access().open()
prepared = access.prepare(parse_destination("notes"), Message(b"sent"), "key")
print(connection.client_id, flush=True)
sys.stdin.readline()
for attempt in (
    lambda: connection.settle([Settlement(claims[0])]),
    lambda: connection.settle([Settlement(claim) for claim in claims], fenced=True),
    lambda: connection.settle([Settlement(claim) for claim in claims]),
    lambda: connection.settle([Settlement(claims[0])], sends=[prepared], fenced=True),
    lambda: poller.take(1, 2),
    lambda: connection.check(),
):
    try:
        attempt()
        print("done")
    except ClaimLost as error:
        print("ClaimLost")
connection.close()
"""


def connect(
    root: Path, application: str = "", lease: float | None = LEASE, client_id: str = ""
) -> LocalConnection:
    provider = DropboxProvider(root, create=True, durable=False, lease=lease)
    return provider.connect(application, client_id=client_id)


@pytest.fixture
def connection(root: Path) -> Iterator[LocalConnection]:
    connection = connect(root)
    yield connection
    connection.abandon()


class Stopped:
    """A process that held two messages of three and does not run."""

    def __init__(
        self,
        root: Path,
        connection: LocalConnection,
        children: Children,
        application: str = "",
        lease: float = LEASE,
    ) -> None:
        connection.send(ORDERS, [Message(str(number).encode()) for number in range(3)])
        self.process = children.start(HOLD, root, application, lease)
        self.client_id = self.process.stdout.readline().strip()
        assert self.client_id, self.process.stderr.read()
        self._file = os.path.join(layout_of(connection).clients, self.client_id)
        os.kill(self.process.pid, signal.SIGSTOP)
        state = Path(f"/proc/{self.process.pid}/stat")
        wait_for(lambda: ") T " in state.read_text(), what="the process has stopped")

    def look_overdue(self) -> None:
        """Its file is as old as after two leases."""
        past = os.stat(self._file).st_mtime - 2 * LEASE
        os.utime(self._file, (past, past))

    def wake(self) -> list[str]:
        """It runs again, and does all that it can: what came of it."""
        os.kill(self.process.pid, signal.SIGCONT)
        out, err = self.process.communicate("go\n", timeout=30)
        assert self.process.returncode == 0, err
        return list(out.split())


@pytest.fixture
def stopped(root: Path, connection: LocalConnection, children: Children) -> Iterator[Stopped]:
    client = Stopped(root, connection, children)
    yield client
    if client.process.poll() is None:
        os.kill(client.process.pid, signal.SIGCONT)


def take_over(connection: LocalConnection) -> None:
    (leftover,) = wait_for(lambda: list(connection.leftovers(None, at_start=False)))
    assert len(leftover.claims) == 2
    connection.settle([Settlement(c, give_back=True, delivery_count=1) for c in leftover.claims])
    leftover.forget()


def test_who_does_not_run_for_its_lease_is_taken_over_and_its_late_acknowledgement_touches_nothing(
    connection: LocalConnection, stopped: Stopped
) -> None:
    take_over(connection)
    poller = connection.poller(ORDERS)
    claims = [poller.take(1, number) for number in range(3)]
    assert [claim.delivery_count for claim in claims if claim is not None] == [1, 1, 0]
    held = sorted(os.listdir(layout_of(connection).queue(ORDERS).processing))
    assert stopped.wake() == ["ClaimLost"] * 6
    assert sorted(os.listdir(layout_of(connection).queue(ORDERS).processing)) == held
    assert os.listdir(layout_of(connection).queue(ORDERS).processed) == []
    assert list(connection.browse(NOTES)) == []
    connection.settle([Settlement(claim) for claim in claims if claim is not None], fenced=True)
    assert len(os.listdir(layout_of(connection).queue(ORDERS).processed)) == 3


def test_the_late_acknowledgement_fails_also_while_the_other_still_takes_over(
    connection: LocalConnection, stopped: Stopped
) -> None:
    (leftover,) = wait_for(lambda: list(connection.leftovers(None, at_start=False)))
    assert stopped.wake() == ["ClaimLost"] * 6
    connection.settle([Settlement(c, give_back=True, delivery_count=1) for c in leftover.claims])
    leftover.forget()
    assert [message.delivery_count for message in connection.browse(ORDERS)] == [2, 2, 1]
    assert os.listdir(layout_of(connection).clients) == [connection.client_id]


@pytest.mark.process
@rows("application, lease", [("", LONG_LEASE), ("shop", LEASE)])
def test_nobody_is_dead_within_its_lease_and_an_adapter_never(
    root: Path, children: Children, application: str, lease: float
) -> None:
    connection = connect(root, application, lease)
    stopped = Stopped(root, connection, children, application, lease)
    if application:
        stopped.look_overdue()
    assert list(connection.leftovers(None, at_start=True)) == []
    if not application:
        with pytest.raises(SubscriptionError):
            connection.unsubscribe("news", "c")
    assert stopped.wake() == ["done", "ClaimLost", "done", "ClaimLost", "done", "done"]
    connection.abandon()


def test_without_a_lease_a_stopped_client_lives_for_ever(
    root: Path, connection: LocalConnection, stopped: Stopped
) -> None:
    trusting = connect(root, lease=None)
    stopped.look_overdue()
    assert list(trusting.leftovers(None, at_start=True)) == []
    trusting.close()


def _is_newer(file: Path, seen: int) -> bool:
    return file.stat().st_mtime_ns > seen


@pytest.mark.process
def test_a_client_that_runs_says_so_in_each_lease(
    root: Path, connection: LocalConnection, children: Children
) -> None:
    connection.send(ORDERS, [Message(b"1"), Message(b"2")])
    child = children.start(HOLD, root, "", LEASE)
    file = Path(layout_of(connection).clients, child.stdout.readline().strip())
    for _ in range(4):
        seen = file.stat().st_mtime_ns
        wait_for(partial(_is_newer, file, seen), what="the client says that it runs")
    assert list(connection.leftovers(None, at_start=False)) == []


def test_what_an_overdue_client_consumed_and_held_is_free(
    root: Path, connection: LocalConnection, stopped: Stopped
) -> None:
    stopped.look_overdue()
    successor = connect(root, client_id="c")
    wanted = TopicSubscription(parse_destination("topic://prices"), "news", "c", durable=True)
    successor.poller(wanted).close()
    take_over(connection)
    successor.unsubscribe("news", "c")
    successor.close()


def test_only_one_takes_over_from_an_overdue_client(
    root: Path, connection: LocalConnection, stopped: Stopped
) -> None:
    stopped.look_overdue()
    others = [connect(root) for _ in range(3)]
    leftovers = [leftover for other in others for leftover in other.leftovers(None, at_start=False)]
    # on a busy machine, another one may have been late, too
    (found,) = [leftover for leftover in leftovers if leftover.client_id == stopped.client_id]
    found.release()
    (again,) = others[2].leftovers(None, at_start=False)
    assert len(again.claims) == 2
    again.release()
    for other in others:
        other.close()


def test_a_claim_that_was_removed_by_hand_is_lost(connection: LocalConnection) -> None:
    connection.send(ORDERS, [Message(b"1"), Message(b"2")])
    first, second = take(connection), take(connection, 1)
    os.unlink(layout_of(connection).absolute(first.path))
    with pytest.raises(ClaimLost, match="is not this client's any more"):
        connection.settle([Settlement(first)])
    with pytest.raises(ClaimLost):
        connection.settle([Settlement(first), Settlement(second)], fenced=True)
    assert os.listdir(layout_of(connection).associated) == []
    connection.settle([Settlement(second)])
