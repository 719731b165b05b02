"""Real providers for the sessions under test: the directory and the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connector.core.connection import CoreConnection
from connector.errors import ProviderError
from connector.messaging import Consumer, ReceivedMessage
from connector.messaging.provider import Capabilities, Connection, Provider
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.memory.provider import MemoryProvider

Connect = Callable[..., CoreConnection]


class Watched:
    """A real provider that remembers its latest connection, so that a test can let it die."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.capabilities: Capabilities = provider.capabilities
        self.killed = False

    def connect(
        self, application: str = "", instance: str = "", *, client_id: str = "", origin: str = ""
    ) -> Connection:
        self._latest = self._provider.connect(application, instance, client_id=client_id, origin=origin)
        return self._latest

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    def kill_latest(self) -> None:
        """The latest connection ends as if its process had died: others may take over what it had."""
        self._latest.abandon()
        self.killed = True


class Obstacle:
    """A file in the place of a folder while it is put there. Nothing is moved into it, not even by root."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._away = folder.with_name(f"{folder.name}-away")

    def put(self) -> None:
        self._folder.rename(self._away)
        self._folder.touch()

    def remove(self) -> None:
        self._folder.unlink()
        self._away.rename(self._folder)


@pytest.fixture(params=["dropbox", "memory"])
def provider(request: pytest.FixtureRequest, tmp_path: Path) -> Watched:
    if request.param == "dropbox":
        return Watched(DropboxProvider(tmp_path / "root", create=True, durable=False))
    return Watched(MemoryProvider())


@pytest.fixture
def connect(provider: Watched) -> Iterator[Connect]:
    """Connects to the provider of the test; closed after it."""
    made: list[CoreConnection] = []

    def new(**options: object) -> CoreConnection:
        connection = CoreConnection(provider, **options)  # type: ignore[arg-type]
        made.append(connection)
        return connection

    yield new
    for connection in made:
        try:
            connection.close()
        except ProviderError:
            if not provider.killed:
                raise


@pytest.fixture
def connection(connect: Connect) -> CoreConnection:
    return connect()


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[CoreConnection]:
    """A connection to a directory, whose root is ``tmp_path``."""
    with CoreConnection(DropboxProvider(tmp_path, create=True, durable=False)) as connection:
        yield connection


def fill(connection: CoreConnection, *bodies: str, to: str = "orders") -> None:
    """Sends messages to a queue."""
    with connection.session() as session:
        session.send_many(to, list(bodies))


def rest(connection: CoreConnection) -> list[tuple[str, int]]:
    """Takes what is left of queue://orders. Returns bodies and delivery counts."""
    with connection.session() as session:
        return [(m.value, m.delivery_count) for m in session.consumer("orders").messages(0)]


def shown(connection: CoreConnection, queue: str = "orders") -> list[str]:
    """Returns what another session sees in a queue. A queue that nobody has made has nothing."""
    with connection.session() as session:
        session.consumer(queue).close()
        return [message.value for message in session.browser(queue)]


def values(consumer: Consumer) -> list[str]:
    """Takes what waits for a consumer. Returns the bodies."""
    return [message.value for message in consumer.messages(0)]


def next_of(consumer: Consumer) -> ReceivedMessage:
    """Returns the next message of a consumer, which comes in time."""
    message = consumer.receive(120)
    assert message is not None
    return message
