"""What memory promises and refuses, whose a claim is, and what that costs where many messages wait."""

from __future__ import annotations

import base64
import gc
import os
import pickle
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from connector.errors import CapabilityError, ClaimLost, ProviderError
from connector.messaging.claim import Claim
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message, delivery_time_after
from connector.messaging.polling import Poller
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.engine.connection import LocalConnection
from connector.stores.engine.store import Reader
from connector.stores.memory.provider import MemoryProvider, open_provider
from connector.stores.memory.store import MemoryStore
from tests.events.conftest import IN_MEMORY, ORDER, Bench, bench
from tests.forked_command import PipedProcess
from tests.stores.memory.conftest import BILLS, ORDERS, PRICES, bodies, text
from tests.tables import Table, rows

__all__ = ["bench"]

FEW, MANY = 10, 2_000


def take(poller: Poller, sequence: int = 0) -> Claim:
    claim = poller.take(1, sequence)
    assert claim is not None
    return claim


def test_a_claim_that_another_found_is_lost_to_whoever_had_it(provider: MemoryProvider) -> None:
    first, second, third = (provider.connect() for _ in range(3))
    first.send(ORDERS, [text("1")])
    take(first.poller(ORDERS))
    first.abandon()
    (leftover,) = second.leftovers(None, at_start=False)
    (found,) = leftover.claims
    leftover.release()
    (leftover,) = third.leftovers(None, at_start=False)
    with pytest.raises(ClaimLost, match="nothing was settled"):
        second.settle([Settlement(found)])
    third.settle([Settlement(leftover.claims[0], give_back=True, delivery_count=1)])
    leftover.forget()
    assert bodies(third) == [b"1"]


def test_rejected_ones_are_read_once(connection: LocalConnection, asked: list[Message]) -> None:
    connection.send(ORDERS, [text(str(n)) for n in range(50)])
    poller = connection.poller(ORDERS, selector="FALSE")
    for _ in range(10):
        assert poller.take(1, 0) is None
    connection.send(ORDERS, [text("late")])
    assert poller.take(1, 0) is None
    assert len(asked) == 51


def growth(use: Callable[[int], None]) -> float:
    """Returns how many bytes more the process keeps for each time of 300 that something is used again."""

    def kept() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    use(100)
    tracemalloc.start()
    try:
        before = kept()
        use(300)
        return (kept() - before) / 300
    finally:
        tracemalloc.stop()


def test_what_selecting_consumers_take_leaves_nothing_behind(connection: LocalConnection) -> None:
    selecting = connection.poller(ORDERS, selector="JMSType = 'T'")
    other = connection.poller(ORDERS, selector="JMSType = 'T'")

    def pass_on(count: int) -> None:
        for number in range(count):
            connection.send(ORDERS, [text(str(number), type="T")])
            connection.settle([Settlement(take(selecting, number))])

    assert growth(pass_on) < 50  # less than a small object for each
    assert other.take(1, 0) is None


def test_nothing_is_kept_of_ended_temporary_destinations(connection: LocalConnection) -> None:
    def use(count: int) -> None:
        for _ in range(count):
            queue, topic = connection.temporary("queue"), connection.temporary("topic")
            for poller in (connection.poller(queue), connection.poller(TopicSubscription(topic))):
                connection.send(poller.destination, [text()])
                connection.settle([Settlement(take(poller))])
                poller.close()
            connection.delete_temporary(queue)
            connection.delete_temporary(topic)

    assert growth(use) < 200  # what a single small object for each would take, and more


def test_a_temporary_queue_that_ends_while_somebody_comes_to_it_is_not_made_anew(
    provider: MemoryProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, other = provider.connect(origin="same"), provider.connect(origin="same")
    queue = owner.temporary("queue")
    make = MemoryStore.reader

    def late(store: MemoryStore, *arguments: Any) -> Reader:
        owner.close()
        return make(store, *arguments)

    monkeypatch.setattr(MemoryStore, "reader", late)
    poller = other.poller(queue)
    with pytest.raises(ProviderError, match=queue.name):
        poller.claim(1, range(1))
    assert other.names() == []


def test_a_redelivery_limit_of_nothing_is_no_limit() -> None:
    connection = MemoryProvider(redelivery_limit=0).connect()
    connection.send(ORDERS, [text("1")])
    assert take(connection.poller(ORDERS)).delivery_count == 0


def test_claims_of_a_subscription_that_ended_can_be_settled(connection: LocalConnection) -> None:
    poller = connection.poller(TopicSubscription(PRICES))
    connection.send(PRICES, [text("1"), text("2"), text("3")])
    copied, returned = take(poller, 0), take(poller, 1)
    poller.close()
    connection.settle([Settlement(copied, copy_to=BILLS), Settlement(returned, give_back=True)])
    assert bodies(connection, BILLS) == [b"1"]
    assert connection.subscriptions() == []


def test_a_persistent_message_is_refused_with_what_to_do(connection: LocalConnection) -> None:
    connection.send(ORDERS, [text("kept")])
    messages = [text("1"), text("2", delivery_mode=PERSISTENT)]
    with pytest.raises(CapabilityError, match="send them non-persistent, or set accept_persistent: true"):
        connection.send(ORDERS, messages)
    with pytest.raises(CapabilityError, match="accept_persistent"):
        connection.access().open().prepare(ORDERS, messages[1], "key")
    assert bodies(connection) == [b"kept"]


@pytest.mark.process
def test_another_process_is_told_that_memory_cannot_be_shared(connection: LocalConnection) -> None:
    code = "import base64, pickle, sys; pickle.loads(base64.b64decode(sys.argv[1])).open()"
    with PipedProcess(base64.b64encode(pickle.dumps(connection.access())).decode(), script=code) as process:
        _, errors = process.communicate()
    assert process.returncode == 1
    assert "CapabilityError: memory cannot be shared between processes" in errors
    assert f"in {os.getpid()}" in errors


@pytest.mark.process
def test_a_fork_is_told_so_too(provider: MemoryProvider, connection: LocalConnection) -> None:
    connection.send(ORDERS, [text("1")])
    directory = Path(provider.state("suite").published).parent.parent
    assert directory.is_dir()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        told = b"nothing"
        try:
            connection.send(ORDERS, [text("2")])
        except CapabilityError as error:
            told = str(error).encode()
        except BaseException as error:
            told = repr(error).encode()
        os.write(write, told)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        assert answer.read().startswith(b"memory cannot be shared between processes")
    os.waitpid(child, 0)
    assert directory.is_dir()
    assert bodies(connection) == [b"1"]


def test_a_recipe_outlives_the_provider_as_an_error() -> None:
    connection = MemoryProvider().connect()
    spec = connection.access()
    del connection
    gc.collect()
    with pytest.raises(ProviderError, match="does not exist any more"):
        spec.open()


def test_the_directory_goes_when_the_provider_is_closed() -> None:
    provider = MemoryProvider()
    connection = provider.connect("suite", "a")
    connection.send(ORDERS, [text("1")])
    claim = connection.poller(ORDERS).take(1, 0)
    assert claim is not None
    connection.settle([Settlement(claim, published=claim.duplicate_key)])
    window = Path(provider.state("suite").published)
    assert [record.read_text() for record in window.iterdir()] == [claim.duplicate_key]
    provider.close()
    provider.close()
    assert not window.parents[1].exists()
    with pytest.raises(ProviderError, match="closed"):
        provider.connect()


def test_the_directory_goes_with_the_last_who_holds_the_provider() -> None:
    provider = MemoryProvider()
    connection = provider.connect("suite", "a")
    directory = Path(provider.state("suite").path).parent
    del provider
    gc.collect()
    assert directory.is_dir(), "a connection holds it"
    del connection
    gc.collect()
    assert not directory.exists()


@rows("name", ["..", "a/b", "published", "Zoë", "a b"])
def test_names_of_adapters_and_instances_stay_within_the_directory(name: str) -> None:
    provider = MemoryProvider()
    connection = provider.connect(name, name)
    state = provider.state(name)
    root = Path(state.path).parent
    journals = Path(state.journals(connection.client_id, name).path)
    assert journals.resolve().parents[2] == root.resolve()
    assert journals.parents[1] == Path(state.path)
    assert journals.parent != Path(state.published)


def test_a_refused_queue_can_be_written_again(provider: MemoryProvider, connection: LocalConnection) -> None:
    provider.refuse(ORDERS, "no room on the shelf")
    with pytest.raises(ProviderError, match="queue://orders cannot be written: no room on the shelf"):
        connection.send(ORDERS, [text("1")])
    provider.accept(ORDERS)
    connection.send(ORDERS, [text("1")])
    assert bodies(connection) == [b"1"]


def test_one_name_is_one_provider_until_it_is_closed() -> None:
    first = open_provider("honesty", max_bytes=1 << 20)
    try:
        assert open_provider("honesty") is first
        assert open_provider("honesty", max_bytes=1 << 20) is first
        assert open_provider("dishonesty") is not first
        with pytest.raises(ValueError, match="other options"):
            open_provider("honesty", max_bytes=1 << 21)
    finally:
        first.close()
        open_provider("dishonesty").close()
    again = open_provider("honesty")
    assert again is not first
    again.close()


def test_who_sends_keeps_the_message_and_may_change_it(connection: LocalConnection) -> None:
    message = text("1", type="T")
    message.set_property("p", 1)
    connection.send(ORDERS, [message])
    message.type = "U"
    message.set_property("p", 2)
    (seen,) = connection.browse(ORDERS)
    seen.set_property("p", 3)
    (again,) = connection.browse(ORDERS)
    assert (again.type, again.properties) == ("T", {"p": 1})


# -- many messages -------------------------------------------------------------------------------------


def steps(action: Callable[[], object]) -> int:
    """Does something, and returns the number of lines that ran. Coverage adds instructions, but no lines."""
    number = 0

    def count(_: FrameType, event: str, argument: object) -> Any:
        nonlocal number
        number += event == "line"
        return count

    tracing = sys.gettrace()
    gc.collect()
    gc.disable()  # what is collected may call Python
    sys.settrace(count)
    try:
        action()
    finally:
        sys.settrace(tracing)
        gc.enable()
    return number


def next_claim(connection: LocalConnection, selector: str = "") -> Callable[[], object]:
    """Returns a claim of a message, after a first claim that has seen what waits."""
    poller = connection.poller(ORDERS, selector=selector)
    poller.claim(1, range(1))
    return lambda: poller.claim(2, range(1))


def end_the_dead(connection: LocalConnection) -> None:
    for one in connection.leftovers(None, at_start=False):
        one.forget()


def test_a_claim_takes_as_many_steps_however_many_messages_wait() -> None:
    cases: dict[str, tuple[str, dict[str, object]]] = {
        "waiting": ("", {}),
        "expiring": ("", {"expiration": delivery_time_after(3_600_000)}),
        "delayed": ("", {"delivery_time": delivery_time_after(3_600_000)}),
        "rejected": ("JMSType = 'T'", {}),
        "selected": ("JMSType = 'T'", {"type": "T"}),
    }
    with Table() as table:
        for name, (selector, headers) in cases.items():
            with table.row(name):
                found = []
                for number in (FEW, MANY):
                    connection = MemoryProvider(max_bytes=1 << 30).connect()
                    connection.send(ORDERS, [text("1", **headers) for _ in range(number)])
                    found.append(steps(next_claim(connection, selector)))
                assert found[0] == found[1]


def test_a_takeover_takes_as_many_steps_however_many_messages_wait() -> None:
    found = []
    for number in (FEW, MANY):
        provider = MemoryProvider(max_bytes=1 << 30)
        dead, other = provider.connect(), provider.connect()
        other.send(ORDERS, [text("1") for _ in range(number)])
        next_claim(dead)()
        dead.abandon()
        found.append(steps(partial(end_the_dead, other)))
    assert found[0] == found[1]


# -- what a state directory keeps ----------------------------------------------------------------------


def publish(provider: MemoryProvider, key: str) -> None:
    """Lets an instance of the application publish an event with this key."""
    connection = provider.connect("suite", "first")
    connection.send(ORDERS, [Message(b"1", delivery_mode=NON_PERSISTENT)])
    claim = connection.poller(ORDERS).take(1, 0)
    assert claim is not None
    connection.settle([Settlement(claim, published=key)])
    connection.close()


def test_providers_of_one_process_share_it_at_the_same_time(tmp_path: Path) -> None:
    first, second = (MemoryProvider(state_directory=tmp_path) for _ in range(2))
    windows = [one.state("suite").window(one.connect("suite", "a").client_id, 100) for one in (first, second)]
    assert windows[0].reserve(["one", "two"]) == set()
    assert windows[1].reserve(["two", "three"]) == {"two"}
    publish(first, "one")
    windows[0].release()
    assert windows[1].reserve(["two"]) == set()
    assert "one" in windows[1]


KILLED = """\
import os, sys
from connector.stores.memory.provider import MemoryProvider

provider = MemoryProvider(state_directory=sys.argv[1])
connection = provider.connect("suite", "a")
state = provider.state("suite")
instance = state.instance("a")
journals = state.journals(connection.client_id, "a")
journals.make()
journals.file(1, 0, 1).open().begin(0)
state.window(connection.client_id, 100).reserve(["one"])
print(journals.path, flush=True)
sys.stdin.read()
"""


@pytest.mark.process
def test_what_a_killed_process_had_in_flight_keeps_nobody(tmp_path: Path) -> None:
    """Its messages are gone, and so is everything that was about them."""
    with PipedProcess(tmp_path, script=KILLED) as process:
        journals = Path(process.stdout.readline().strip())
        early = MemoryProvider(state_directory=tmp_path)
        window = early.state("suite").window("early", 100)
        assert window.reserve(["one"]) == {"one"}, "it lives"
        assert journals.is_dir()
        early.close()
        process.kill()
        process.wait()
    later = MemoryProvider(state_directory=tmp_path)
    assert later.state("suite").window("later", 100).reserve(["one"]) == set()
    assert not journals.exists()
    later.state("suite").instance("a").close()


def test_a_directory_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    provider = MemoryProvider(state_directory=tmp_path / "file" / "state")
    with pytest.raises(ProviderError, match=r"cannot use .*/file/state/.*state\.directory"):
        provider.state("suite")


def test_an_adapter_eliminates_what_another_has_published(bench: Bench) -> None:
    state = {"state": {"directory": "./state"}}
    deployment = bench.deploy(
        provider=IN_MEMORY, more=state, ApplicationName="suite", DuplicateEventElimination=True
    )
    identity = deployment.send("orders", ORDER)
    before = MemoryProvider(state_directory=bench.directory / "state")
    publish(before, f"queue://orders|{identity}")
    before.close()
    with deployment.running() as adapter:
        adapter.drain()
        total = adapter.summary.total
        assert (total.published, total.as_dict()["duplicates"]) == (0, 1)
        assert [one.name for one in deployment.provider.state("suite").instances() if one.runs]
    assert deployment.properties("archive", identity)["connector_outcome"] == "duplicate"
