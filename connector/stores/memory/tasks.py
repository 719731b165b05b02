"""The memory as a task sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from connector.errors import BodyTooLarge, ProviderError
from connector.messaging.access import AccessSpec
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.stores.engine.channel import Channel
from connector.stores.engine.task_store import TaskStore
from connector.stores.memory.memory import Memory, find_memory, locked
from connector.stores.memory.room import wait_for_room


@dataclass(frozen=True, slots=True)
class MemoryTaskSpec(AccessSpec):
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


@locked
@dataclass(eq=False)
class MemoryTaskStore(TaskStore):
    memory: Memory
    client_id: str

    def check(self) -> None:
        if self.client_id not in self.memory.clients:
            raise ProviderError(f"the client {self.client_id} of the memory provider has ended")

    def is_there(self, destination: Destination, owner: str) -> bool:
        return Channel(destination) in self.memory.boxes and self.memory.is_alive(owner)

    def load(self, reference: tuple[int, int], max_body: int) -> Message:
        entry = self.memory.find(reference)
        if entry is None:
            raise LookupError(f"message {reference[0]} is gone")
        body = entry.body.data
        if len(body) > max_body:
            raise BodyTooLarge(f"the body has {len(body)} bytes, more than max_body ({max_body} bytes)")
        return entry.headers.copy(body)

    def identity(self, reference: tuple[int, int], message: Message) -> str:
        return f"{message.message_id}|{reference[0]}"

    def keep(self, destination: Destination, message: Message, key: str) -> tuple[str, str]:
        memory, handle = self.memory, (self.client_id, key)
        memory.check_alive(self.client_id)
        self.remove(handle)
        entry = memory.new(message)
        wait_for_room(memory, [entry], Channel(destination), self.client_id)
        memory.prepared.setdefault(self.client_id, {})[key] = memory.keep(entry)
        return handle

    def remove(self, handle: Any) -> None:
        entry = self.memory.prepared.get(handle[0], {}).pop(handle[1], None)
        if entry is not None:
            self.memory.remove(entry)

    def write(self) -> None:
        """Does nothing: memory ends with its process."""

    def sync(self) -> None:
        """Does nothing: memory ends with its process."""
