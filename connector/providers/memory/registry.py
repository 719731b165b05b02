"""The clients of a memory provider, and the records that they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

from connector.core.local.channel import Channel
from connector.core.local.client import SUBSCRIPTION
from connector.core.local.registry import ClientInfo, Record
from connector.messaging.subscription import TopicSubscription
from connector.providers.memory.memory import Memory, MemoryClient


class MemoryDead:
    """See :class:`connector.core.local.registry.DeadClient`."""

    def __init__(self, memory: Memory, client: MemoryClient) -> None:
        self.info = client.info
        self._memory = memory
        self._client = client

    def forget(self) -> None:
        """See :meth:`connector.core.local.registry.DeadClient.forget`."""
        with self._memory:
            forget_client(self._memory, self._client)

    def release(self) -> None:
        """See :meth:`connector.core.local.registry.DeadClient.release`."""
        with self._memory:
            self._client.taken_by = None


class MemoryRegistry:
    """See :class:`connector.core.local.registry.Registry`."""

    def __init__(self, memory: Memory, info: ClientInfo) -> None:
        self.info = info
        self._memory = memory
        self._client = memory.clients[info.client_id] = MemoryClient(memory, info)
        self.watch = self._client.watch

    def check(self) -> None:
        """See :meth:`connector.core.local.registry.Registry.check`."""
        with self._memory:
            self._client.check_alive()

    def living(self, client_id: str) -> ClientInfo | None:
        """See :meth:`connector.core.local.registry.Registry.living`."""
        client = self._memory.clients.get(client_id)
        return client.info if client is not None and client.alive else None

    def knows(self, client_id: str) -> bool:
        """See :meth:`connector.core.local.registry.Registry.knows`."""
        return client_id in self._memory.clients

    def dead(self, *, at_start: bool) -> Iterator[MemoryDead]:
        """See :meth:`connector.core.local.registry.Registry.dead`."""
        with self._memory:
            found = [one for one in self._memory.clients.values() if not one.alive and one.taken_by is None]
            for client in found:
                client.taken_by = self._client
        return iter([MemoryDead(self._memory, client) for client in found])

    def lock(self) -> AbstractContextManager[object]:
        """See :meth:`connector.core.local.registry.Registry.lock`."""
        return self._memory

    def records(self, kind: str, of: Channel | str) -> Sequence[Record]:
        """See :meth:`connector.core.local.registry.Registry.records`."""
        memory = self._memory
        living = memory.living.get((kind, of))
        if living is None:
            with memory:
                records = memory.records.get((kind, of))
                if records is None:
                    return ()
                living = tuple(
                    one
                    for one in records.values()
                    if one.owner is None or memory.is_alive(one.owner.client_id)
                )
                memory.living[kind, of] = living
        return living

    def subscription_key(self, details: TopicSubscription, unique: str) -> str:
        """See :meth:`connector.core.local.registry.Registry.subscription_key`."""
        if not details.name:
            return unique
        return f"{'durable' if details.durable else 'shared'}|{details.client_id}|{details.name}"

    def write(self, record: Record) -> None:
        """See :meth:`connector.core.local.registry.Registry.write`."""
        with self._memory:
            self._client.check_alive()
            if record.kind == SUBSCRIPTION and isinstance(record.of, Channel):
                self._memory.part(Channel(record.of.destination, record.key))
            self._memory.records.setdefault((record.kind, record.of), {})[record.key] = record
            self._memory.living.pop((record.kind, record.of), None)

    def remove(self, record: Record) -> None:
        """See :meth:`connector.core.local.registry.Registry.remove`."""
        with self._memory:
            self._memory.remove_record(record.kind, record.of, record.key)

    def end(self, *, abandoned: bool) -> None:
        """See :meth:`connector.core.local.registry.Registry.end`."""
        memory, client = self._memory, self._client
        with memory:
            client.alive = False
            memory.living.clear()
            for other in memory.clients.values():
                if other.taken_by is client:
                    other.taken_by = None
            if not abandoned and not client.claims:
                forget_client(memory, client)
            memory.room.wake_senders()


def forget_client(memory: Memory, client: MemoryClient) -> None:
    """Nothing of a client is kept. What it has claimed in an in-progress destination has no owner."""
    for entry in list(client.claims.values()):
        entry.owner = None
    client.claims.clear()
    memory.drop_prepared(client)
    memory.clients.pop(client.info.client_id, None)
    for place, records in list(memory.records.items()):
        for record in [one for one in records.values() if one.owner == client.info]:
            del records[record.key]
        if not records:
            del memory.records[place]
    memory.living.clear()
