"""The clients of a memory provider, the records that they share, and the watch of a client."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from connector.stores.engine.channel import Channel
from connector.stores.engine.client import SUBSCRIPTION
from connector.stores.engine.registry import ClientInfo, DeadClient, Record, Registry, name_key
from connector.stores.engine.store import Watch
from connector.stores.memory.memory import Memory, MemoryClient


class MemoryDead(DeadClient):
    def __init__(self, memory: Memory, client: MemoryClient, by: MemoryClient) -> None:
        self.info = client.info
        self._memory = memory
        self._client = client
        self._by = client.taken_by = by

    def remove(self) -> None:
        with self._memory:
            _remove(self._memory, self._client)

    def release(self) -> None:
        with self._memory:
            if self._client.taken_by is self._by:
                self._client.taken_by = None


class MemoryRegistry(Registry):
    def __init__(self, memory: Memory, client: MemoryClient) -> None:
        self.info = client.info
        self._memory = memory
        self._client = client

    def check(self) -> None:
        with self._memory:
            self._client.check_alive()

    def find_alive(self, client_id: str) -> ClientInfo | None:
        client = self._memory.clients.get(client_id)
        return client.info if client is not None and client.alive else None

    def knows(self, client_id: str) -> bool:
        return client_id in self._memory.clients

    def dead(self, *, at_start: bool) -> Iterator[MemoryDead]:
        with self._memory:
            clients = self._memory.clients.values()
            found = [one for one in clients if not one.alive and one.taken_by is None]
            return iter([MemoryDead(self._memory, client, self._client) for client in found])

    def lock(self) -> AbstractContextManager[object]:
        return self._memory

    def records(self, kind: str, of: Channel | str) -> Sequence[Record]:
        memory = self._memory
        alive = memory.alive_records.get((kind, of))
        if alive is None:
            with memory:
                records = memory.records.get((kind, of))
                if records is None:
                    return ()
                alive = memory.alive_records[kind, of] = tuple(
                    one
                    for one in records.values()
                    if one.owner is None or memory.is_alive(one.owner.client_id)
                )
        return alive

    def subscription(self, client_id: str, name: str, *, durable: bool) -> Record | None:
        with self._memory:
            return self._memory.subscriptions.get(name_key(client_id, name, durable=durable))

    def write(self, record: Record) -> None:
        memory = self._memory
        with memory:
            self._client.check_alive()
            if record.kind == SUBSCRIPTION and isinstance(record.of, Channel):
                memory.part(Channel(record.of.destination, record.key))
                memory.subscriptions[record.key] = record
            memory.records.setdefault((record.kind, record.of), {})[record.key] = record
            memory.alive_records.pop((record.kind, record.of), None)

    def remove(self, record: Record) -> None:
        with self._memory:
            self._memory.remove_record(record.kind, record.of, record.key)

    def close(self, *, abandoned: bool) -> None:
        memory, client = self._memory, self._client
        with memory:
            client.alive = False
            memory.alive_records.clear()
            for other in memory.clients.values():
                if other.taken_by is client:
                    other.taken_by = None
            if not abandoned and not client.claims:
                _remove(memory, client)
            memory.room.notify_all()


def _remove(memory: Memory, client: MemoryClient) -> None:
    """Removes a client.

    The messages that the client leaves in an in-progress destination lose their owner.
    """
    for entry in client.claims.values():
        entry.replace_claim(None)
    client.claims.clear()
    memory.remove_prepared(client)
    memory.clients.pop(client.info.client_id, None)
    for kind, of in list(memory.records):
        for record in list(memory.records[kind, of].values()):
            if record.owner == client.info:
                memory.remove_record(kind, of, record.key)


class MemoryWatch(Watch):
    """Waits for messages. The readers of a channel are told of its messages."""

    can_tell = True

    def __init__(self, lock: threading.RLock) -> None:
        self._changed = threading.Condition(lock)
        self._has_come = self._woken = self._ended = False

    def message_arrived(self, *, returned: bool) -> None:
        """Notes that a message waits for a reader. ``returned`` = this client has given the message back."""
        with self._changed:
            self._has_come = self._has_come or not returned
            self._changed.notify_all()

    def begin(self) -> bool:
        with self._changed:
            self._has_come = False
            return not self._ended

    def wait(self, seconds: float) -> bool:
        with self._changed:
            self.pause(lambda: self._has_come, seconds)
            return self._has_come or self._ended

    def pause(self, has_news: Callable[[], bool], seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._woken or self._ended or has_news(), seconds)
            self._woken = False

    def wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
