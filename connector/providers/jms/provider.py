"""The provider ``jms`` (see :mod:`connector.messaging.provider`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from connector.core.remote.connection import RemoteConnection
from connector.core.remote.state import PublishedRecords, RemoteState
from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.messaging.notes import BatchNote, ClientNote, ClientState, WaitingNote
from connector.messaging.provider import Capabilities
from connector.messaging.subscription import TopicSubscription

if TYPE_CHECKING:
    from connector.providers.jms.client import Factory, JmsClient


@dataclass(frozen=True, slots=True)
class JavaSettings:
    """The Java of the client library.

    Args:
        classpath: the jars.
        options: of the virtual machine.
    """

    classpath: tuple[Path, ...]
    options: tuple[str, ...] = ()


class JmsProvider:
    """Queues and topics of a broker, through its own JMS client library.

    Args:
        factory: of connections.
        java: runs the client library.
        state_directory: for journals, published ids and instance locks.
        batch_bytes: bytes of bodies after which a transaction gets no more messages.
        max_body: bytes of a body. A larger body is not read.
    """

    capabilities = Capabilities(
        topics=True,
        selectors=True,
        temporary_destinations=True,
        takeover=False,
        by_value=True,
        transactions=True,
        in_progress=False,
        shows_all=False,
    )

    def __init__(
        self,
        factory: Factory,
        java: JavaSettings,
        state_directory: str | os.PathLike[str],
        *,
        batch_bytes: int = 16 << 20,
        max_body: int = 64 << 20,
    ) -> None:
        self._factory = factory
        self._java = java
        self._state_directory = os.path.abspath(state_directory)
        self._batch_bytes = batch_bytes
        self._max_body = max_body

    def state(self, application: str) -> RemoteState:
        return RemoteState(self._state_directory, application)

    def existing_state(self, application: str) -> RemoteState:
        return self.state(application)

    def connect(
        self, application: str = "", instance: str = "", *, client_id: str = "", origin: str = ""
    ) -> RemoteConnection:
        broker = self._client().connect(client_id)
        connection = RemoteConnection(broker, limit=self._max_body, batch_bytes=self._batch_bytes)
        if application:
            connection.remember = PublishedRecords(self.state(application).published, connection.client_id)
        return connection

    def _client(self) -> JmsClient:
        from connector.providers.jms import jvm
        from connector.providers.jms.client import JmsClient
        from connector.spark.java import find_java

        jpype = jvm.start(find_java().home, self._java.classpath, self._java.options)
        return JmsClient(jpype, self._factory)

    def check(self) -> bool:
        missing = [str(jar) for jar in self._java.classpath if not jar.is_file()]
        if missing:
            raise ProviderError(f"a jar of the class path is missing: {missing[0]}")
        return True

    def clients(self) -> Sequence[ClientNote]:
        """Returns no clients: a broker does not tell."""
        return []

    def declare_dead(self, client_id: str) -> ClientState | None:
        """Returns None: the broker itself finds out that a client is dead."""
        return None

    def batches(self, in_progress: Destination | None) -> Sequence[BatchNote]:
        """Returns no batches: a broker does not show claimed messages."""
        return []

    def waiting(self, source: Destination | TopicSubscription) -> WaitingNote:
        """Returns 0: a broker does not count messages for its clients."""
        return WaitingNote(0, None)

    def existing(self) -> RemoteConnection:
        return self.connect()
