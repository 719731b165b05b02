"""The ``memory`` provider (see :mod:`connector.messaging.provider`), for tests of users' own code."""

from __future__ import annotations

import os
import secrets
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.messaging.notes import ClientNote, ClientState
from connector.messaging.provider_kind import AdapterProvider
from connector.state.directory import StateDirectory
from connector.stores.engine.connection import CAPABILITIES, LocalConnection
from connector.stores.engine.registry import ClientInfo
from connector.stores.memory.memory import Memory, MemoryClient, find_memory
from connector.stores.memory.registry import MemoryRegistry
from connector.stores.memory.state import MemoryState
from connector.stores.memory.store import MemoryStore
from connector.stores.memory.watch import MemoryWatch

_providers: Final[weakref.WeakValueDictionary[int, MemoryProvider]] = weakref.WeakValueDictionary()

_named: Final[dict[str, tuple[MemoryProvider, dict[str, Any]]]] = {}
_naming: Final = threading.Lock()


class MemoryProvider(AdapterProvider):
    """Queues and topics in the memory of one process, shared by all connections of one provider object.

    Unreliable: all messages end with the process. Settled messages are not kept. Expired messages are kept
    until their room is needed. Messages delivered too often are kept until a client takes them from
    ``~RECOVER-ERROR`` or ``~REJECT-ERROR``. Published ids outlive the process in ``state_directory``.

    Args:
        max_bytes: limit for messages, bodies and headers. A sender waits for room. The messages that the
            sender has claimed do not count, so a client that passes messages on never waits for itself.
            Copies that a settlement makes do not wait.
        send_timeout: seconds that a sender waits. Then the send raises ProviderError.
        accept_persistent: take persistent messages too, though they are lost with the process.
        redelivery_limit: deliveries of one message by all clients, before the message is put aside. None or 0
            = no limit.
        state_directory: for journals, published ids and instance locks. None = a temporary directory.
    """

    capabilities = replace(CAPABILITIES, reliable=False)

    def __init__(
        self,
        *,
        max_bytes: int = 64 << 20,
        send_timeout: float = 30.0,
        accept_persistent: bool = False,
        redelivery_limit: int | None = None,
        state_directory: str | os.PathLike[str] | None = None,
    ) -> None:
        self._memory = Memory(max_bytes, send_timeout, accept_persistent=accept_persistent)
        self._state = self._memory.state = MemoryState(state_directory)
        self._limit = redelivery_limit or None
        self._connections: weakref.WeakSet[LocalConnection] = weakref.WeakSet()
        self.closed = False
        _providers[self._memory.key] = self

    def __reduce__(self) -> tuple[Callable[[int, int], MemoryProvider], tuple[int, int]]:
        """Pickles a reference, valid in this process only, because memory cannot travel."""
        return _find_provider, (self._memory.key, self._memory.pid)

    def state(self, application: str) -> StateDirectory:
        """Returns the state of an application. A temporary directory ends with the provider.

        Raises:
            ProviderError: ``state_directory`` cannot be used.
        """
        with self._memory:
            return self._state.of(application)

    def connect(
        self, application: str = "", instance: str = "", *, client_id: str = "", origin: str = ""
    ) -> LocalConnection:
        memory = self._memory
        with memory:
            if self.closed:
                raise ProviderError("the memory provider is closed, and its messages are gone: make another")
            own = f"m{secrets.token_hex(6)}"
            info = ClientInfo(own, application, instance, origin or client_id or own)
            memory.clients[own] = MemoryClient(info)
            watch = MemoryWatch(own, memory.lock)
            window = self._state.of(application).published if application else ""
            store, registry = MemoryStore(memory, watch, window), MemoryRegistry(memory, info)
            connection = LocalConnection(
                store, registry, watch, limit=self._limit, client_id=client_id, lots=True
            )
            self._connections.add(connection)
            return connection

    def clients(self) -> list[ClientNote]:
        """Returns the connections of this process."""
        with self._memory:
            return [
                ClientNote(
                    one.info.client_id,
                    one.info.application,
                    one.info.instance,
                    one.host,
                    one.pid,
                    one.since,
                    ClientState.ALIVE if one.alive else ClientState.DEAD,
                )
                for one in self._memory.clients.values()
            ]

    def check(self) -> bool:
        """Returns True: nothing needs to be made."""
        return True

    def refuse(self, destination: Destination, reason: str = "refused by a test") -> None:
        """Refuses all messages to a destination, so that a test sees the failure."""
        with self._memory:
            self._memory.refused[destination] = reason

    def accept(self, destination: Destination) -> None:
        """Ends :meth:`refuse`."""
        with self._memory:
            self._memory.refused.pop(destination, None)

    def close(self) -> None:
        """Ends all connections and removes all messages. Repeatable."""
        with self._memory:
            self.closed = True
            for connection in list(self._connections):
                connection.close()
            self._state.close()


def _find_provider(key: int, pid: int) -> MemoryProvider:
    """Returns the provider that another part of this process refers to. Raises as ``find_memory``."""
    find_memory(key, pid)
    return _providers[key]


def open_provider(location: str, **options: Any) -> MemoryProvider:
    """Returns the provider of the URL ``memory:<location>``. Within a process, one name is one provider.

    The messages stay until the provider is closed, or the process ends.

    Args:
        location: the name. May be empty.
        options: of :class:`MemoryProvider`, for the first call with a name. Later calls leave them out, or
            repeat them.

    Raises:
        TypeError: there is no such option.
        ValueError: the provider exists with other options.
    """
    with _naming:
        known = _named.get(location)
        if known is None or known[0].closed:
            known = _named[location] = MemoryProvider(**options), options
        provider, first = known
        if options and options != first:
            raise ValueError(f"the memory {location!r} exists with other options: {first}")
        return provider
