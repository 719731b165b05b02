"""The part of the memory store that a task needs (see :class:`connector.stores.engine.store.TaskStore`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from connector.errors import BodyTooLarge
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.stores.engine.channel import Channel
from connector.stores.engine.store import TaskStore, TaskStoreSpec
from connector.stores.memory.memory import Memory, find_memory


@dataclass(frozen=True, slots=True)
class MemoryTaskSpec(TaskStoreSpec):
    """The recipe of a memory in a task.

    Args:
        key: of the memory, in the process ``pid``.
        client_id: owner of prepared messages.
    """

    key: int
    pid: int
    client_id: str

    def open(self) -> MemoryTaskStore:
        return MemoryTaskStore(find_memory(self.key, self.pid), self.client_id)


class MemoryTaskStore(TaskStore):
    def __init__(self, memory: Memory, client_id: str) -> None:
        self.client_id = client_id
        self._memory = memory

    def check(self) -> None:
        with self._memory:
            self._memory.client(self.client_id)

    def is_there(self, destination: Destination, owner: str) -> bool:
        with self._memory:
            return Channel(destination) in self._memory.parts and self._memory.is_alive(owner)

    def read(self, reference: tuple[int, int], max_body: int) -> Message:
        number, ticket = reference
        with self._memory:
            entry = self._memory.entries.get(number)
            if entry is None or entry.ticket != ticket:
                raise LookupError(f"message {number} is gone")
            body = entry.body.data
            if len(body) > max_body:
                raise BodyTooLarge(f"the body has {len(body)} bytes, more than max_body ({max_body} bytes)")
            return entry.message.copy(body)

    def identity(self, reference: tuple[int, int], message: Message) -> str:
        return f"{message.message_id}|{reference[0]}"

    def prepare(self, destination: Destination, message: Message, key: str) -> tuple[str, str]:
        """Keeps a message where no client takes it. Waits while there is no room.

        Raises:
            CapabilityError: the message is persistent, and the provider does not accept that.
        """
        memory, handle = self._memory, (self.client_id, key)
        with memory:
            client = memory.client(self.client_id)
            client.check_alive()
            memory.check_delivery_mode(message)
            self.discard(handle)
            entry = memory.new(message)
            memory.wait_for_room([entry], Channel(destination), client)
            client.prepared[key] = memory.keep(entry)
        return handle

    def discard(self, handle: Any) -> None:
        client_id, key = handle
        with self._memory:
            client = self._memory.clients.get(client_id)
            entry = client.prepared.pop(key, None) if client is not None else None
            if entry is not None:
                self._memory.remove(entry)

    def write(self) -> None:
        """Does nothing: memory ends with its process."""

    def sync(self) -> None:
        """Does nothing: memory has nothing to make durable."""
