"""Real providers for the sessions and channels under test: the directory and the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from connector.core.connection import MessagingConnection
from connector.errors import ProviderError
from connector.messaging.provider import Capabilities, Connection, Provider
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.memory.provider import MemoryProvider
from tests.core.channel_world import PROVIDERS, World, a_world

Connect = Callable[..., MessagingConnection]


class Watched:
    """A real provider that remembers its connections, so that a test can let one of them die."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.capabilities: Capabilities = provider.capabilities
        self.connections: list[Connection] = []
        self.killed = False

    def connect(
        self, application: str = "", instance: str = "", *, client_id: str = "", origin: str = ""
    ) -> Connection:
        connection = self._provider.connect(application, instance, client_id=client_id, origin=origin)
        self.connections.append(connection)
        return connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    def kill_latest(self) -> None:
        """The latest connection ends as if its process had died: others may take over what it had."""
        self.kill(self.connections[-1:])

    def kill(self, connections: Sequence[Connection]) -> None:
        """Some connections end as if their process had died."""
        for connection in connections:
            connection.abandon()
        self.killed = True


@pytest.fixture(params=["dropbox", "memory"])
def provider(request: pytest.FixtureRequest, tmp_path: Path) -> Watched:
    if request.param == "dropbox":
        return Watched(DropboxProvider(tmp_path / "root", create=True, durable=False))
    return Watched(MemoryProvider())


@pytest.fixture
def connect(provider: Watched) -> Iterator[Connect]:
    """Connects to the provider of the test; closed after it."""
    made: list[MessagingConnection] = []

    def new(**options: object) -> MessagingConnection:
        connection = MessagingConnection(provider, **options)  # type: ignore[arg-type]
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
def connection(connect: Connect) -> MessagingConnection:
    return connect()


@pytest.fixture(params=PROVIDERS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Channels on one provider, and on the other; closed after the test."""
    with a_world(request.param) as made:
        yield made
