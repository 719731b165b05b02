"""The living are told from the dead by a lock that the kernel keeps, and share the work.

A client that is taken over from while it lives finds that out, and does nothing late. An operator has
declared it dead, or it does not run for its lease where locks cannot be trusted.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from connector.errors import ClaimLost, ProviderError, SubscriptionError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.notes import ClientState
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox.clients import (
    ClientDetails,
    dead_clients,
    new_client_id,
    remove_dead,
)
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.dropbox.root import Root
from connector.stores.engine.connection import LocalConnection
from tests.stores.conftest import Children
from tests.stores.dropbox.steps import (
    ARCHIVE,
    NOTES,
    ORDERS,
    at,
    connect,
    files_limited_to,
    give_back_all,
    layout_of,
    recover,
    store_of,
)
from tests.tables import rows
from tests.waiting import beside, wait_for


@pytest.mark.process
def test_the_killed_are_found_dead_at_once(
    root: Path, connection: LocalConnection, children: Children
) -> None:
    """The program that it has started, and that nobody waits for, does not keep it alive."""
    connection.send(ORDERS, [Message(str(n).encode()) for n in range(3)])
    code = """
import subprocess
connection = DropboxProvider(sys.argv[1], create=True, durable=False).connect("suite", "child")
poller = connection.poller(parse_destination("orders"))
claims = [poller.take(1, number) for number in range(2)]
sleeper = subprocess.Popen(["sleep", "30"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(connection.client_id, sleeper.pid, flush=True)
sys.stdin.read()
"""
    child = children.start(code, root)
    client_id, sleeper = child.stdout.readline().split()
    try:
        assert list(connection.leftovers(None, at_start=True)) == []
        child.kill()
        child.wait()
        (leftover,) = connection.leftovers(None, at_start=False)
        found = (leftover.client_id, leftover.application, leftover.instance)
        assert found == (client_id, "suite", "child")
        assert [claim.sequence for claim in leftover.claims] == [0, 1]
        leftover.release()
    finally:
        os.kill(int(sleeper), signal.SIGKILL)


def test_claims_without_a_mark_are_found_at_start_only(root: Path, connection: LocalConnection) -> None:
    first = DropboxProvider(root, create=True, durable=False).connect("suite", "b")
    first.send(ORDERS, [Message(b"1")])
    assert first.poller(ORDERS).take(1, 0) is not None
    (root / "dropboxmq/clients" / first.client_id).unlink()
    assert list(connection.leftovers(None, at_start=False)) == []
    (leftover,) = connection.leftovers(None, at_start=True)
    assert (leftover.client_id, leftover.application) == (first.client_id, "")
    connection.settle([Settlement(claim, give_back=True, delivery_count=1) for claim in leftover.claims])
    assert [message.delivery_count for message in connection.browse(ORDERS)] == [2]
    first.abandon()


def test_client_ids_are_unique_sort_by_time_and_need_no_escape() -> None:
    ids = []
    for _ in range(50):
        ids.append(new_client_id())
        made = time.time_ns() // 1000
        while time.time_ns() // 1000 == made:
            pass
    assert len(set(ids)) == 50
    assert [identity[:-3] for identity in ids] == sorted(identity[:-3] for identity in ids)
    assert all(identity.isalnum() and identity.islower() for identity in ids)


LATER_VERSION = '{"application": "a", "instance": "i", "pid": 7, "colour": "red"}'


@rows("content", ["", "{", "[]", "null", '"x"', "{}", '{"application": ', "\x00\xff", LATER_VERSION])
def test_a_mark_that_cannot_be_read_is_of_a_client_that_was_no_adapter_yet(root: Path, content: str) -> None:
    """What else lies among the marks is left alone."""
    (root / "directory").mkdir()
    (root / ".hidden").touch()
    (root / "link").symlink_to("/etc/passwd")
    (root / "unknown").write_text(content)
    (client,) = dead_clients(str(root), "own")
    details = ClientDetails("a", "i", pid=7) if content == LATER_VERSION else ClientDetails()
    assert (Path(client.path).name, ClientDetails.parse(client.read())) == ("unknown", details)
    remove_dead(client)
    assert sorted(path.name for path in root.iterdir()) == [".hidden", "directory", "link"]


def test_a_full_disk_leaves_no_mark(root: Path) -> None:
    provider = DropboxProvider(root, create=True)
    provider.connect().close()
    said = "File too large; make room on the disk"
    with files_limited_to(0), pytest.raises(ProviderError, match=said):
        provider.connect("suite", "a")
    assert os.listdir(root / "dropboxmq/clients") == []


@rows("name", ["published", "in-flight", "window.lock", "a/b", "..", "host-a"])
def test_any_name_is_a_good_name_of_an_instance(root: Path, name: str) -> None:
    provider = DropboxProvider(root, create=True, durable=False)
    state = provider.state("suite")
    held = state.instance(name)
    assert held.name == name
    connection = provider.connect("suite", name)
    folder = Path(state.journals(connection.client_id, name).path).parent
    assert (folder / "lock").exists()
    assert folder.parent == root / "dropboxmq" / "adapter" / "suite"
    assert folder not in (folder.parent / "published", folder.parent / "in-flight")
    connection.close()
    held.close()


def test_a_root_that_went_away_is_not_made_anew(root: Path) -> None:
    provider = DropboxProvider(root / "data", create=True, durable=False)
    provider.state("suite").instance("a").close()
    connection = provider.connect("suite", "a")
    access = connection.access().open()
    connection.check()
    access.check()
    os.rename(root / "data", root / "elsewhere")
    for use, said in (
        (connection.check, "move it back"),
        (access.check, "does not see the root .* mount it there under the same path"),
    ):
        with pytest.raises(ProviderError, match=said):
            use()
    with pytest.raises(ProviderError, match=r"is missing .* move it back"):
        provider.connect("suite", "a")
    os.rename(root / "elsewhere", root / "data")
    connection.check()
    connection.close()


@rows("recorded", [False, True])
@rows("shared", [False, True])
def test_a_root_that_another_makes_during_the_look_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: bool, shared: bool
) -> None:
    def provider() -> DropboxProvider:
        record = tmp_path / "state" / "roots" if recorded else None
        return DropboxProvider(Root(tmp_path / "root", create=True, record=record))

    first = provider()
    other = first if shared else provider()
    look, looks = os.scandir, []

    def look_and_be_overtaken(path: Any) -> Any:
        looks.append(path)
        try:
            return look(path)
        except FileNotFoundError:
            if len(looks) == 1:
                other.connect().close()
            raise

    monkeypatch.setattr(os, "scandir", look_and_be_overtaken)
    first.connect().close()
    assert len(looks) > 1


@rows("source", ["queue", "subscription"])
def test_two_threads_that_end_a_connection_close_each_descriptor_once(
    root: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second close of one descriptor would close somebody else's file."""
    connection = DropboxProvider(root, create=True, durable=False).connect()
    poller = connection.poller(
        connection.temporary("queue")
        if source == "queue"
        else TopicSubscription(Destination("topic", "prices"))
    )
    close = os.close
    is_closing = threading.Event()

    def close_slowly(descriptor: int) -> None:
        close(descriptor)
        is_closing.set()
        time.sleep(0.05)  # meanwhile the other thread comes here, or waits, which nothing shows

    monkeypatch.setattr(os, "close", close_slowly)
    thread = beside(connection.close)
    is_closing.wait()
    connection.abandon()
    poller.close()
    thread.result(120)


# -- prepared messages ------------------------------------------------------------------------------


def prepared_files(root: Path) -> list[str]:
    return [path.name for path in root.glob("*/incoming/working/*")]


def prepare(connection: LocalConnection, *keys: str) -> None:
    access = connection.access().open()
    for key in keys:
        access.prepare(parse_destination("queue://out"), Message(b"body"), key)
    access.sync()


def test_only_the_end_of_a_client_removes_what_it_has_prepared(root: Path) -> None:
    """What a dead client has prepared is left to its recovery."""
    first, second = connect(root), connect(root, "b")
    prepare(first, "1", "2")
    prepare(second, "3")
    first.close()
    second.abandon()
    assert len(prepared_files(root)) == 1
    recover(root).close()
    assert prepared_files(root) == []


@rows("keep", [None, 0.0, 3600.0])
@rows("way", ["start", "prune"])
def test_prepared_messages_of_an_unknown_client_are_removed(root: Path, way: str, keep: float | None) -> None:
    provider = DropboxProvider(root, create=True, durable=False, keep_processed=keep)
    gone, living = provider.connect("suite", "a"), provider.connect("suite", "b")
    prepare(gone, "1", "2")
    prepare(living, "3")
    (root / "out/incoming/working/upload").write_bytes(b"of another program")
    os.unlink(os.path.join(layout_of(gone).clients, gone.client_id))
    last = provider.connect("suite", "c")
    if way == "start":
        assert list(last.leftovers(None, at_start=True)) == []
    else:
        last.prune()
    (kept, other) = sorted(prepared_files(root))
    assert (living.client_id in kept, other) == (True, "upload")
    for connection in (living, last):
        connection.close()
    gone.abandon()


# -- taken over from while they live ---------------------------------------------------------------

NEWS = TopicSubscription(parse_destination("topic://prices"), "news", "c", durable=True)
LEASE = 1.0
LONG_LEASE = 600.0


@pytest.fixture
def late(provider: DropboxProvider) -> Iterator[LocalConnection]:
    """A client of the same application that goes on after it was declared dead."""
    connection = provider.connect("suite", "late")
    yield connection
    connection.abandon()


def take_over(connection: LocalConnection) -> list[int]:
    return give_back_all(connection, at_start=False)


def bodies(connection: LocalConnection, destination: Destination) -> list[bytes]:
    return sorted(message.body for message in connection.browse(destination))


def test_only_the_living_can_be_declared_dead(
    provider: DropboxProvider, connection: LocalConnection, late: LocalConnection
) -> None:
    assert [provider.declare_dead(name) for name in ("nobody", "", "../root-id", ".lock")] == [None] * 4
    assert provider.declare_dead(late.client_id) is ClientState.ALIVE
    assert provider.declare_dead(late.client_id) is ClientState.DECLARED_DEAD
    gone = provider.connect("suite", "gone")
    gone.abandon()
    assert provider.declare_dead(gone.client_id) is ClientState.DEAD
    assert {(one.instance, one.state) for one in provider.clients()} == {
        ("a", ClientState.ALIVE),
        ("late", ClientState.DECLARED_DEAD),
        ("gone", ClientState.DEAD),
    }


def test_what_it_claimed_goes_to_others_and_nothing_that_it_does_late_touches_it(
    provider: DropboxProvider, connection: LocalConnection, late: LocalConnection
) -> None:
    connection.send(ORDERS, [Message(b"1"), Message(b"2")])
    poller = late.poller(ORDERS)
    claims = [claim for n in range(2) if (claim := poller.take(1, n)) is not None]
    prepared = late.access().open().prepare(NOTES, Message(b"sent"), "key")
    provider.declare_dead(late.client_id)
    for sends in ([], [prepared]):
        with pytest.raises(ClaimLost, match="was declared dead by an operator"):
            late.settle([Settlement(claim) for claim in claims], sends)
    (leftover,) = connection.leftovers(None, at_start=False)
    assert leftover.declared_dead
    leftover.release()
    assert take_over(connection) == [2]
    with pytest.raises(ClaimLost):
        late.settle([Settlement(claims[0])])
    with pytest.raises(ClaimLost, match="was declared dead by an operator"):
        late.check()
    assert bodies(connection, ORDERS) == [b"1", b"2"]
    assert list(connection.browse(NOTES)) == []


def test_what_it_claims_before_it_finds_out_is_given_back_until_its_process_has_gone(
    provider: DropboxProvider,
    connection: LocalConnection,
    late: LocalConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection.send(ORDERS, [Message(b"1")])
    poller = late.poller(ORDERS)
    provider.declare_dead(late.client_id)
    assert take_over(connection) == [0]
    own = store_of(late).context.client
    assert own is not None
    checked = own._checked
    monkeypatch.setattr(time, "monotonic", lambda: checked)  # no time passes for it
    assert poller.take(1, 0) is not None
    monkeypatch.undo()
    assert take_over(connection) == [1]
    assert bodies(connection, ORDERS) == [b"1"]
    late.abandon()
    assert take_over(connection) == [0]
    assert os.listdir(layout_of(connection).clients) == [connection.client_id]


@pytest.mark.parametrize("place", ["settle.record", "settle.committing"])
def test_a_settlement_that_was_under_way_happens_wholly_or_not_at_all(
    provider: DropboxProvider, connection: LocalConnection, late: LocalConnection, place: str
) -> None:
    connection.send(ORDERS, [Message(b"1"), Message(b"2")])
    claims = late.poller(ORDERS).claim(1, range(2))
    prepared = late.access().open().prepare(NOTES, Message(b"sent"), "key")
    committed = place == "settle.committing"

    def declare_dead() -> None:
        assert provider.declare_dead(late.client_id) is ClientState.ALIVE
        assert take_over(connection) == [0 if committed else 2]

    refused = nullcontext() if committed else pytest.raises(ClaimLost, match="declared dead by an operator")
    with at(place, declare_dead), refused:
        late.settle(
            [
                Settlement(claims[0], copy_to=ARCHIVE, sends=[prepared], published="k0"),
                Settlement(claims[1], copy_to=ARCHIVE, published="k1"),
            ]
        )
    late.abandon()
    found = [bodies(connection, one) for one in (ORDERS, ARCHIVE, NOTES)]
    assert found == ([[], [b"1", b"2"], [b"sent"]] if committed else [[b"1", b"2"], [], []])
    window = provider.state("suite").window(connection.client_id, 10)
    assert ("k0" in window, "k1" in window) == (committed, committed)
    assert take_over(connection) == [0]
    for folder in (layout_of(connection).associated, layout_of(connection).committing):
        assert os.listdir(folder) == []


def test_what_it_held_is_free(provider: DropboxProvider) -> None:
    late = provider.connect("", client_id="c")
    late.poller(NEWS)
    provider.declare_dead(late.client_id)
    heir = provider.connect("", client_id="c")
    heir.poller(NEWS).close()
    heir.unsubscribe("news", "c")
    heir.close()
    late.abandon()


# -- a lease ------------------------------------------------------------------------------------------

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


def leased(
    root: Path, application: str = "", lease: float | None = LEASE, client_id: str = ""
) -> LocalConnection:
    provider = DropboxProvider(root, create=True, durable=False, lease=lease)
    return provider.connect(application, client_id=client_id)


@pytest.fixture
def leasing(root: Path) -> Iterator[LocalConnection]:
    connection = leased(root)
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
        out, err = self.process.communicate("go\n", timeout=240)
        assert self.process.returncode == 0, err
        return list(out.split())


@pytest.fixture
def stopped(root: Path, leasing: LocalConnection, children: Children) -> Iterator[Stopped]:
    client = Stopped(root, leasing, children)
    yield client
    if client.process.poll() is None:
        os.kill(client.process.pid, signal.SIGCONT)


def test_who_does_not_run_for_its_lease_is_taken_over_and_its_late_acknowledgement_touches_nothing(
    leasing: LocalConnection, stopped: Stopped
) -> None:
    assert wait_for(lambda: take_over(leasing)) == [2]
    claims = leasing.poller(ORDERS).claim(1, range(3))
    assert [claim.delivery_count for claim in claims] == [1, 1, 0]
    folders = layout_of(leasing).queue(ORDERS)
    held = sorted(os.listdir(folders.processing))
    assert stopped.wake() == ["ClaimLost"] * 6
    assert (sorted(os.listdir(folders.processing)), os.listdir(folders.processed)) == (held, [])
    assert list(leasing.browse(NOTES)) == []
    leasing.settle([Settlement(claim) for claim in claims], fenced=True)
    assert len(os.listdir(folders.processed)) == 3


def test_a_late_settlement_fails_also_during_the_takeover(leasing: LocalConnection, stopped: Stopped) -> None:
    (leftover,) = wait_for(lambda: list(leasing.leftovers(None, at_start=False)))
    assert stopped.wake() == ["ClaimLost"] * 6
    leasing.settle([Settlement(c, give_back=True, delivery_count=1) for c in leftover.claims])
    leftover.forget()
    assert [message.delivery_count for message in leasing.browse(ORDERS)] == [2, 2, 1]
    assert os.listdir(layout_of(leasing).clients) == [leasing.client_id]


@pytest.mark.process
@rows("application, lease", [("", LONG_LEASE), ("shop", LEASE)])
def test_nobody_is_dead_within_its_lease_and_an_adapter_never(
    root: Path, children: Children, application: str, lease: float
) -> None:
    connection = leased(root, application, lease)
    stopped = Stopped(root, connection, children, application, lease)
    if application:
        stopped.look_overdue()
    assert list(connection.leftovers(None, at_start=True)) == []
    if not application:
        with pytest.raises(SubscriptionError):
            connection.unsubscribe("news", "c")
    assert stopped.wake() == ["done", "ClaimLost", "done", "ClaimLost", "done", "done"]
    connection.abandon()


@pytest.mark.process
def test_who_runs_says_so_in_each_lease(root: Path, leasing: LocalConnection, children: Children) -> None:
    leasing.send(ORDERS, [Message(b"1"), Message(b"2")])
    child = children.start(HOLD, root, "", LEASE)
    file = Path(layout_of(leasing).clients, child.stdout.readline().strip())
    seen: set[int] = set()

    def has_beaten() -> bool:
        seen.add(file.stat().st_mtime_ns)
        return len(seen) > 4

    wait_for(has_beaten, what="the client says again and again that it runs")
    assert list(leasing.leftovers(None, at_start=False)) == []


def test_one_takes_over_from_the_overdue(root: Path, leasing: LocalConnection, stopped: Stopped) -> None:
    """What it held is free at once. Who has no lease takes it for alive."""
    stopped.look_overdue()
    trusting, successor = leased(root, lease=None), leased(root, client_id="c")
    assert list(trusting.leftovers(None, at_start=True)) == []
    successor.poller(NEWS).close()
    others = [leased(root) for _ in range(3)]
    leftovers = [leftover for other in others for leftover in other.leftovers(None, at_start=False)]
    # on a busy machine, another one may have been late, too
    (found,) = [leftover for leftover in leftovers if leftover.client_id == stopped.client_id]
    found.release()
    assert take_over(others[2]) == [2]
    successor.unsubscribe("news", "c")
    for other in (trusting, successor, *others):
        other.close()
