"""``state.directory``: what a memory provider keeps there outlives its messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from connector.errors import ProviderError
from connector.messaging.message import NON_PERSISTENT, Message
from connector.messaging.settlement import Settlement
from connector.stores.memory.provider import MemoryProvider
from connector.testing.deployment import Deployment
from tests.forked_command import PipedProcess
from tests.stores.memory.conftest import ORDERS

ADAPTER = """\
provider: {type: memory}
connector:
  ApplicationName: suite
  InputDestination: queue://orders
  ArchiveDestination: queue://archive
  DuplicateEventElimination: true
  DataHandlerMimeType: application/json
subscriptions: [{object: Order, process: "processes:book"}]
metaobjects: ./metaobjects
state: {directory: ./state}
"""


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


def test_an_adapter_eliminates_what_another_has_published(tmp_path: Path) -> None:
    objects = "business_object: Order\nverbs: {Create: }\nattributes:\n  Id: {type: String, key: true}\n"
    processes = "def book(order, event):\n    pass\n"
    deployment = Deployment(tmp_path, adapter=ADAPTER, metaobjects=objects, processes=processes)
    identity = deployment.send("orders", '{"BusinessObject": "Order", "Verb": "Create", "Id": "1"}')
    before = MemoryProvider(state_directory=tmp_path / "state")
    publish(before, f"queue://orders|{identity}")
    before.close()
    with deployment.running() as adapter:
        adapter.drain()
        total = adapter.summary.total
        assert (total.published, total.as_dict()["duplicates"]) == (0, 1)
        assert [one.name for one in deployment.provider.state("suite").instances() if one.runs]
    (copy,) = deployment.messages("archive")
    assert copy.properties["connector_outcome"] == "duplicate"
