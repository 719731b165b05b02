"""What memory cannot promise, it refuses; and what it makes beside itself goes with it."""

from __future__ import annotations

import base64
import gc
import os
import pickle
from pathlib import Path

import pytest

from connector.errors import CapabilityError, ProviderError
from connector.messaging.message import PERSISTENT
from connector.messaging.settlement import Settlement
from connector.stores.engine.connection import LocalConnection
from connector.stores.memory.provider import MemoryProvider, open_provider
from tests.forked_command import PipedProcess
from tests.stores.memory.conftest import ORDERS, Text
from tests.tables import rows


def bodies(connection: LocalConnection) -> list[bytes]:
    return [message.body for message in connection.browse(ORDERS)]


def test_a_persistent_message_is_refused_with_what_to_do(connection: LocalConnection, text: Text) -> None:
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
def test_a_fork_is_told_so_too(provider: MemoryProvider, connection: LocalConnection, text: Text) -> None:
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


def test_a_recipe_outlives_the_provider_as_an_error(text: Text) -> None:
    connection = MemoryProvider().connect()
    spec = connection.access()
    del connection
    gc.collect()
    with pytest.raises(ProviderError, match="does not exist any more"):
        spec.open()


def test_the_directory_goes_when_the_provider_is_closed(text: Text) -> None:
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


def test_a_refused_queue_can_be_written_again(
    provider: MemoryProvider, connection: LocalConnection, text: Text
) -> None:
    provider.refuse(ORDERS, "no room on the shelf")
    with pytest.raises(ProviderError, match="queue://orders cannot be written: no room on the shelf"):
        connection.send(ORDERS, [text("1")])
    provider.accept(ORDERS)
    connection.send(ORDERS, [text("1")])
    assert bodies(connection) == [b"1"]


def test_one_name_is_one_provider_until_it_is_closed(text: Text) -> None:
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


def test_who_sends_keeps_the_message_and_may_change_it(connection: LocalConnection, text: Text) -> None:
    message = text("1", type="T")
    message.set_property("p", 1)
    connection.send(ORDERS, [message])
    message.type = "U"
    message.set_property("p", 2)
    (seen,) = connection.browse(ORDERS)
    seen.set_property("p", 3)
    (again,) = connection.browse(ORDERS)
    assert (again.type, again.properties) == ("T", {"p": 1})
