"""The registry of a client (see :class:`connector.stores.engine.registry.Registry`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from connector.stores.engine.channel import Channel
from connector.stores.engine.client import SUBSCRIPTION
from connector.stores.engine.registry import ClientInfo, DeadClient, Record, Registry, name_key
from connector.stores.memory.memory import Memory, locked


@locked
@dataclass(eq=False)
class MemoryDead(DeadClient):
    """A dead client that the client ``by`` takes over from."""

    memory: Memory
    info: ClientInfo
    by: str

    def __post_init__(self) -> None:
        self.memory.clients[self.info.client_id].taken_by = self.by

    def remove(self) -> None:
        self.memory.forget(self.info.client_id)

    def release(self) -> None:
        client = self.memory.clients.get(self.info.client_id)
        if client is not None and client.taken_by == self.by:
            client.taken_by = ""


@locked
@dataclass(eq=False)
class MemoryRegistry(Registry):
    memory: Memory
    info: ClientInfo

    def check(self) -> None:
        self.memory.check_alive(self.info.client_id)

    def find_alive(self, client_id: str) -> ClientInfo | None:
        return self.memory.clients[client_id].info if self.memory.is_alive(client_id) else None

    def find(self, client_id: str) -> ClientInfo | None:
        client = self.memory.clients.get(client_id)
        return None if client is None else client.info

    def dead(self, *, at_start: bool) -> Iterator[MemoryDead]:
        memory = self.memory
        dead = [one for one in memory.clients.values() if not memory.is_alive(one.info.client_id)]
        free = [one.info for one in dead if not memory.is_alive(one.taken_by)]
        return iter([MemoryDead(memory, info, self.info.client_id) for info in free])

    def lock(self) -> AbstractContextManager[object]:
        return self.memory

    def records(self, kind: str, of: Channel | str) -> Sequence[Record]:
        memory, key = self.memory, (kind, of)
        if key in memory.records and key not in memory.living:
            memory.living[key] = tuple(
                one
                for one in memory.records[key].values()
                if one.owner is None or memory.is_alive(one.owner.client_id)
            )
        return memory.living.get(key, ())

    def subscription(self, client_id: str, name: str, *, durable: bool) -> Record | None:
        return self.memory.subscriptions.get(name_key(client_id, name, durable=durable))

    def write(self, record: Record) -> None:
        memory = self.memory
        memory.check_alive(self.info.client_id)
        if record.kind == SUBSCRIPTION and isinstance(record.of, Channel):
            memory.create(record.of._replace(subscription=record.key))
            memory.subscriptions[record.key] = record
        memory.records.setdefault((record.kind, record.of), {})[record.key] = record
        memory.living.pop((record.kind, record.of), None)

    def remove(self, record: Record) -> None:
        self.memory.remove_record(record.kind, record.of, record.key)

    def close(self, *, abandoned: bool) -> None:
        memory, own = self.memory, self.info.client_id
        if own in memory.clients:
            memory.clients[own].alive = False
        memory.living.clear()
        if not abandoned and not memory.claims.get(own):
            memory.forget(own)
        memory.freed.notify_all()
