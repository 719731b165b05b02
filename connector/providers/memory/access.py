"""The part of the provider that a task needs: read a claimed message, prepare one. In this process only."""

from __future__ import annotations

from dataclasses import dataclass

from connector.core.state import Transition
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Prepared
from connector.providers.memory.claims import read_claimed
from connector.providers.memory.entries import weigh
from connector.providers.memory.memory import Memory, find_memory
from connector.providers.memory.settlement import discard


@dataclass(frozen=True, slots=True)
class MemoryAccessSpec:
    """See :class:`connector.messaging.provider.AccessSpec`.

    Args:
        key: of the memory, in the process ``pid``.
        client_id: owner of what is prepared.
    """

    key: int
    pid: int
    client_id: str

    def open(self) -> MemoryAccess:
        """What it is the recipe of.

        Raises:
            CapabilityError: in another process.
            ProviderError: the provider is gone.
        """
        return MemoryAccess(find_memory(self.key, self.pid), self.client_id)


class MemoryAccess:
    """See :class:`connector.messaging.provider.MessageAccess`."""

    def __init__(self, memory: Memory, client_id: str) -> None:
        self._memory = memory
        self._client_id = client_id

    def check(self) -> None:
        """See :meth:`connector.messaging.provider.MessageAccess.check`."""
        with self._memory:
            self._memory.client(self._client_id)

    def load(self, reference: str, max_body: int) -> Message:
        """See :meth:`connector.messaging.provider.MessageAccess.load`."""
        with self._memory:
            return read_claimed(self._memory, reference, max_body)

    def prepare(self, destination: Destination, message: Message, key: str) -> Prepared:
        """See :meth:`connector.messaging.provider.MessageAccess.prepare`.

        Raises:
            CapabilityError: it is persistent, and that is not accepted.
            DestinationError, UnknownDestination: nothing can be sent there.
            ProviderError: there was no room in time, or nothing can be written there now.
        """
        name = f"{destination} {key}"
        prepared = Prepared((self._client_id, name), destination)
        memory = self._memory
        with memory:
            client = memory.client(self._client_id)
            memory.check_delivery_mode(message)
            memory.check_target(destination)
            discard(memory, prepared)
            memory.wait_for_room(weigh(message) + len(message.body), destination, client)
            entry = memory.new_entry(message, client)
            entry.move(Transition.PREPARE)
            memory.store.add(entry)
            client.prepared[name] = entry
        return prepared

    def discard(self, prepared: Prepared) -> None:
        """Drops a prepared message that will not be sent."""
        with self._memory:
            discard(self._memory, prepared)

    def sync(self) -> None:
        """Nothing: there is nothing durable here."""
