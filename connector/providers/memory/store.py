"""The store of the ``memory`` provider (see :class:`connector.core.local.store.Store`)."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from connector.core.local.changes import Change, Discarded, Edit, GivenBack, GroupMoved, Moved, Removed, Sent
from connector.core.local.channel import Channel, Owner, Part
from connector.core.local.claims import LocalClaim
from connector.core.local.headers import ORIGIN, edited, origin_queue
from connector.core.local.store import Counts, Judge, Unreadable
from connector.core.state import MessageState
from connector.errors import ClaimLost, MalformedData, ProviderError, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.retention import Pruned, Retention
from connector.providers.memory.entries import ChannelPart, Entry, MemoryClaim
from connector.providers.memory.memory import Memory, MemoryClient, find_memory
from connector.providers.memory.reader import MemoryReader

_records: Final = itertools.count(1)


class MemoryStore:
    """See :class:`connector.core.local.store.Store`.

    Args:
        memory: that all clients share.
        client: whose store this is.
        window: directory of the records that name published ids; empty = nobody needs them.
    """

    title = "memory"
    has_foreign = False

    def __init__(self, memory: Memory, client: MemoryClient, window: str) -> None:
        self._memory = memory
        self._client = client
        self._window = window

    def destinations(self) -> list[Destination]:
        """See :meth:`connector.core.local.store.Store.destinations`."""
        with self._memory:
            return self._memory.destinations()

    def has(self, channel: Channel) -> bool:
        """See :meth:`connector.core.local.store.Store.has`."""
        with self._memory:
            return self._memory.has(channel)

    def create(self, channel: Channel) -> None:
        """See :meth:`connector.core.local.store.Store.create`."""
        with self._memory:
            self._client.check_alive()
            self._memory.part(channel)

    def drop(self, channel: Channel, *, claimed: bool) -> None:
        """See :meth:`connector.core.local.store.Store.drop`."""
        with self._memory:
            self._memory.drop(channel, claimed=claimed)

    def empty(self, channel: Channel) -> None:
        """See :meth:`connector.core.local.store.Store.empty`."""
        with self._memory:
            part = self._memory.known(channel)
            for entry in list(part.waiting) if part is not None else ():
                self._memory.remove(entry)

    def count(self, channel: Channel) -> Counts:
        """See :meth:`connector.core.local.store.Store.count`."""
        with self._memory:
            counts = {part.channel.part: part for part in self._memory.parts_of(channel)}
            waiting = {part: counts[part].count if part in counts else 0 for part in Part}
            claimed = sum(len(part.claimed) for part in counts.values())
        return Counts(waiting[Part.MAIN], claimed, waiting[Part.EXPIRED], waiting[Part.ERROR])

    def scan(
        self, channel: Channel, *, waiting: bool, claimed: bool, unreadable: Unreadable | None
    ) -> Iterator[Message]:
        """See :meth:`connector.core.local.store.Store.scan`."""
        with self._memory:
            part = self._memory.known(channel)
            entries = list(part.waiting) if part is not None and waiting else []
            if claimed:
                entries += [entry for one in self._memory.parts_of(channel) for entry in one.claimed.values()]
            entries.sort(key=lambda entry: entry.order)
            found = []
            for entry in entries:
                message = entry.message.copy(entry.body.data)
                if entry.in_progress and entry.taken_from != channel.destination:
                    message.set_property(ORIGIN, str(entry.taken_from))
                found.append(message)
        return iter(found)

    def lying(self, channel: Channel) -> list[LocalClaim]:
        """See :meth:`connector.core.local.store.Store.lying`."""
        with self._memory:
            part = self._memory.known(channel)
            entries = [] if part is None else [*part.waiting, *part.claimed.values()]
            entries.sort(key=lambda entry: entry.order)
            found: list[LocalClaim] = []
            for entry in entries:
                claim = MemoryClaim(entry)
                if not claim.in_progress:
                    claim.in_progress = True
                    origin = origin_queue(entry.message) if claim.owner is None else None
                    if origin is not None:
                        claim.home, claim.destination = Channel(origin), origin
                found.append(claim)
        return found

    def reader(
        self, channel: Channel, judge: Judge, into: Channel | None, destination: Destination
    ) -> MemoryReader:
        """See :meth:`connector.core.local.store.Store.reader`."""
        memory = self._memory
        with memory:
            self._client.check_alive()
            place = memory.part(into) if into is not None else None
            part = memory.part(channel) if memory.has(channel) else ChannelPart(channel)
            return MemoryReader(memory, self._client, part, judge, place, destination)

    def put(self, messages: Sequence[tuple[Message, Sequence[Channel]]]) -> None:
        """See :meth:`connector.core.local.store.Store.put`. Waits while there is no room.

        Raises:
            CapabilityError: one is persistent, and that is not accepted.
        """
        memory = self._memory
        with memory:
            self._client.check_alive()
            targets = {
                channels[0].destination for _, channels in messages if channels
            }  # one for each message
            for destination in targets:
                memory.check_target(destination)
            for message, _ in messages:
                memory.check_delivery_mode(message)
            made = [(memory.new(message), channels) for message, channels in messages if channels]
            for destination in targets:
                memory.wait_for_room([entry for entry, _ in made], destination, self._client)
                memory.check_target(destination)  # it may have ended meanwhile
            for entry, channels in made:
                memory.send(memory.keep(entry), channels)

    def prepared(self, handle: tuple[str, str]) -> Message | None:
        """See :meth:`connector.core.local.store.Store.prepared`."""
        with self._memory:
            entry = self._find(handle)
            return None if entry is None else entry.message

    def check_writable(self, destination: Destination) -> None:
        """See :meth:`connector.core.local.store.Store.check_writable`."""
        with self._memory:
            self._memory.check_target(destination)
            self._memory.part(Channel(destination))

    def apply(self, changes: Sequence[Change], *, fenced: bool) -> None:
        """See :meth:`connector.core.local.store.Store.apply`.

        First everything that can fail, then what cannot: nobody sees the one without the other.
        """
        memory = self._memory
        with memory:
            if not self._client.alive:
                raise SettlementError(
                    f"the connection {self._client.info.client_id} is closed, nothing was done"
                )
            for change in changes:
                self._check(change, fenced=fenced)
            published = [key for change in changes for key in _keys(change)]
            if published and self._window:
                self._remember(published)
            for change in changes:
                if isinstance(change, GroupMoved):
                    for claim in change.claims:
                        self._move(claim, (change.channel,), change.edit)
                elif isinstance(change, Sent | Discarded):
                    self._send(change)
                elif isinstance(change, Moved):
                    self._move(change.claim, change.channels, change.edit)
                elif isinstance(change, GivenBack):
                    self._give_back(change)
                elif (entry := self._let_go(change.claim)) is not None:
                    memory.remove(entry)

    def _check(self, change: Change, *, fenced: bool) -> None:
        """Raises ClaimLost where a change cannot be made."""
        if isinstance(change, Sent):
            if self._find(change.handle) is None:
                raise ClaimLost(
                    f"the message prepared as {change.handle[1]!r} is not there any more: it was sent or "
                    "discarded before, or its client has ended; nothing was settled"
                )
        elif fenced and not isinstance(change, Discarded):
            for claim in change.claims if isinstance(change, GroupMoved) else (change.claim,):
                assert isinstance(claim, MemoryClaim)
                if not claim.is_held:
                    raise ClaimLost(
                        f"{claim.message_id} of {claim.destination} is not claimed by this client any more; "
                        "nothing was settled, it comes again to whoever takes it"
                    )

    def _send(self, change: Sent | Discarded) -> None:
        entry = self._find(change.handle)
        if entry is not None:
            del self._memory.clients[change.handle[0]].prepared[change.handle[1]]
            self._memory.send(entry, change.channels if isinstance(change, Sent) else ())

    def _let_go(self, claim: LocalClaim) -> Entry | None:
        """Ends a claim; None where somebody else has taken it over, who settles it."""
        assert isinstance(claim, MemoryClaim)
        if not claim.is_held:
            return None
        self._memory.let_go(claim.entry)
        return claim.entry

    def _move(self, claim: LocalClaim, channels: Sequence[Channel], edit: Edit) -> None:
        entry = self._let_go(claim)
        if entry is not None:
            self._memory.change_headers(entry, edited(entry.message, edit))
            self._memory.send(entry, channels)

    def _give_back(self, change: GivenBack) -> None:
        claim, memory = change.claim, self._memory
        entry = self._let_go(claim)
        if entry is None:
            return
        memory.change_headers(entry, edited(entry.message, change.edit))
        if change.stays:
            self._lie(entry, claim, None, waits=True)
        elif (home := memory.open(claim.home)) is not None:
            home.enter(entry, self._client.info.client_id)
        else:  # it has ended
            memory.remove(entry)

    def _lie(self, entry: Entry, claim: LocalClaim, owner: Owner | None, *, waits: bool) -> None:
        """A message lies in its in-progress destination, claimed or of nobody."""
        assert entry.part is not None
        entry.state = MessageState.DELIVERED
        entry.home, entry.taken_from = claim.home, claim.destination
        entry.owner, entry.in_progress, entry.waits = owner, True, waits
        entry.part.claimed[entry.number] = entry
        if owner is not None:
            self._client.claims[entry.number] = entry

    def _find(self, handle: tuple[str, str]) -> Entry | None:
        client_id, key = handle
        owner = self._memory.clients.get(client_id)
        return owner.prepared.get(key) if owner is not None else None

    def _remember(self, keys: Sequence[str]) -> None:
        """Writes the record that the duplicate window reads."""
        name = f"{self._client.info.client_id}-{next(_records)}"
        hidden = os.path.join(self._window, f".{name}")
        try:
            os.makedirs(self._window, exist_ok=True)
            with open(hidden, "wb") as record:
                record.write("\n".join(keys).encode("utf-8", "surrogateescape"))
            os.rename(hidden, os.path.join(self._window, name))
        except OSError as error:
            raise SettlementError(
                f"cannot write the published ids: {error.strerror}: {error.filename!r}; make room there. "
                "The messages stay claimed until then, none is lost"
            ) from error

    def own(self, claim: LocalClaim, owner: Owner | None, edit: Edit) -> MemoryClaim | None:
        """See :meth:`connector.core.local.store.Store.own`."""
        memory = self._memory
        with memory:
            self._client.check_alive()
            entry = self._let_go(claim)
            if entry is None:
                return None
            memory.change_headers(entry, edited(entry.message, edit))
            self._lie(entry, claim, owner, waits=False)
            return MemoryClaim(entry)

    def claims(self, client_ids: Collection[str], in_progress: Channel | None) -> dict[str, list[LocalClaim]]:
        """See :meth:`connector.core.local.store.Store.claims`."""
        found: dict[str, list[LocalClaim]] = {}
        with self._memory:
            for client_id in client_ids:
                client = self._memory.clients.get(client_id)
                claims: list[LocalClaim] = [
                    MemoryClaim(one)
                    for one in (client.claims.values() if client is not None else ())
                    if not one.in_progress or (one.part is not None and one.part.channel == in_progress)
                ]
                found[client_id] = sorted(claims, key=lambda claim: (claim.cycle, claim.sequence))
        return found

    def finish(self, client_id: str) -> None:
        """See :meth:`connector.core.local.store.Store.finish`. What is committed here is done already."""
        with self._memory:
            client = self._memory.clients.get(client_id)
            for entry in client.claims.values() if client is not None else ():
                entry.takes += 1

    def forget(self, client_id: str) -> None:
        """See :meth:`connector.core.local.store.Store.forget`."""
        with self._memory:
            client = self._memory.clients.get(client_id)
            if client is not None:
                self._memory.drop_prepared(client)

    def prune(self, retentions: Sequence[Retention], seconds: float) -> Pruned:
        """See :meth:`connector.core.local.store.Store.prune`. What is settled is not kept itself."""
        copies: dict[Destination, int] = {}
        now = time.time()
        with self._memory:
            for retention in retentions:
                part = self._memory.known(Channel(retention.destination))
                waiting = list(part.waiting) if part is not None else []
                old = [one for one in waiting if retention.is_over(one.message, now, now)]
                for entry in old:
                    self._memory.remove(entry)
                if old:
                    copies[retention.destination] = len(old)
        return Pruned(copies=copies)

    def tasks(self) -> MemoryTaskSpec:
        """See :meth:`connector.core.local.store.Store.tasks`."""
        return MemoryTaskSpec(self._memory.key, self._memory.pid, self._client.info.client_id)


def _keys(change: Change) -> Sequence[str]:
    """The keys that the duplicate window remembers with a change."""
    if isinstance(change, GroupMoved):
        return change.published
    if isinstance(change, Moved | Removed) and change.published is not None:
        return (change.published,)
    return ()


@dataclass(frozen=True, slots=True)
class MemoryTaskSpec:
    """See :class:`connector.core.local.store.TaskStoreSpec`.

    Args:
        key: of the memory, in the process ``pid``.
        client_id: owner of what is prepared.
    """

    key: int
    pid: int
    client_id: str

    def open(self) -> MemoryTaskStore:
        """See :meth:`connector.core.local.store.TaskStoreSpec.open`."""
        return MemoryTaskStore(find_memory(self.key, self.pid), self.client_id)


class MemoryTaskStore:
    """See :class:`connector.core.local.store.TaskStore`."""

    def __init__(self, memory: Memory, client_id: str) -> None:
        self.client_id = client_id
        self._memory = memory

    def check(self) -> None:
        """See :meth:`connector.core.local.store.TaskStore.check`."""
        with self._memory:
            self._memory.client(self.client_id)

    def check_target(self, destination: Destination) -> None:
        """See :meth:`connector.core.local.store.TaskStore.check_target`."""
        with self._memory:
            self._memory.check_target(destination)

    def read(self, reference: tuple[int, int], max_body: int) -> Message:
        """See :meth:`connector.core.local.store.TaskStore.read`."""
        number, takes = reference
        with self._memory:
            entry = self._memory.entries.get(number)
            if entry is None or entry.takes != takes:
                raise LookupError(f"message {number} is gone")
            body = entry.body.data
            if len(body) > max_body:
                raise MalformedData(f"the body has {len(body)} bytes, more than max_body ({max_body} bytes)")
            return entry.message.copy(body)

    def prepare(self, destination: Destination, message: Message, key: str) -> tuple[str, str]:
        """See :meth:`connector.core.local.store.TaskStore.prepare`. Waits while there is no room.

        Raises:
            CapabilityError: it is persistent, and that is not accepted.
        """
        memory, handle = self._memory, (self.client_id, key)
        with memory:
            client = memory.client(self.client_id)
            if not client.alive:
                raise ProviderError(f"the client {self.client_id} of the memory provider has ended")
            memory.check_delivery_mode(message)
            self.discard(handle)
            entry = memory.new(message)
            memory.wait_for_room([entry], destination, client)
            client.prepared[key] = memory.keep(entry)
        return handle

    def discard(self, handle: Any) -> None:
        """See :meth:`connector.core.local.store.TaskStore.discard`."""
        client_id, key = handle
        with self._memory:
            client = self._memory.clients.get(client_id)
            entry = client.prepared.pop(key, None) if client is not None else None
            if entry is not None:
                self._memory.remove(entry)

    def sync(self) -> None:
        """See :meth:`connector.core.local.store.TaskStore.sync`: there is nothing durable here."""
