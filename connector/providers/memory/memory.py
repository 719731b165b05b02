"""What all connections of one memory provider share: channels, clients, records, room, one lock."""

from __future__ import annotations

import itertools
import os
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from typing import Final

from connector.core.local.channel import Channel, Part
from connector.core.local.client import SUBSCRIPTION, has_ended, temporary_owner
from connector.core.local.registry import ClientInfo, Record
from connector.core.state import MessageState
from connector.errors import CapabilityError, ProviderError
from connector.messaging.destination import Destination
from connector.messaging.message import PERSISTENT, Message
from connector.providers.memory.entries import Body, ChannelPart, Entry, weigh
from connector.providers.memory.room import Room
from connector.providers.memory.state import MemoryState
from connector.providers.memory.watch import MemoryWatch
from connector.state.directory import StateDirectory

_memories: Final[weakref.WeakValueDictionary[int, Memory]] = weakref.WeakValueDictionary()
_keys: Final = itertools.count(1)


def find_memory(key: int, pid: int) -> Memory:
    """The memory that another part of this process speaks of.

    Raises:
        CapabilityError: it is the memory of another process.
        ProviderError: it is gone.
    """
    if pid != os.getpid():
        raise _foreign(pid)
    memory = _memories.get(key)
    if memory is None:
        raise ProviderError("the memory provider is gone: nobody in this process holds it any more")
    return memory


def _foreign(pid: int) -> CapabilityError:
    return CapabilityError(
        f"memory cannot be shared between processes: this is process {os.getpid()}, the messages are in "
        f"{pid}; run in one process, or choose another provider (dropbox)"
    )


class MemoryClient:
    """One connection, and what it has taken and prepared."""

    def __init__(self, memory: Memory, info: ClientInfo) -> None:
        self.info = info
        self.alive = True
        self.since = time.time()
        self.taken_by: MemoryClient | None = None
        """Who takes over from it, when it is dead."""
        self.claims: dict[int, Entry] = {}
        """By number."""
        self.prepared: dict[str, Entry] = {}
        """By key."""
        self.watch = MemoryWatch(memory.lock)

    def check_alive(self) -> None:
        """Raises ProviderError where the client has ended."""
        if not self.alive:
            raise ProviderError(
                f"the connection {self.info.client_id} is closed, nothing was done: connect anew"
            )


class Memory:
    """Used as a context manager, it holds its lock; every method but those of a context manager needs that.

    Entering raises:
        CapabilityError: in a process that was forked off.
    """

    def __init__(
        self,
        *,
        max_bytes: int,
        send_timeout: float,
        accept_persistent: bool,
        redelivery_limit: int | None,
        state_directory: str | os.PathLike[str] | None,
    ) -> None:
        self.key = next(_keys)
        self.pid = os.getpid()
        # re-entrant: a generator that is collected in the middle of anything ends a take-over
        self.lock = threading.RLock()
        self.room = Room(self.lock, max_bytes, send_timeout)
        self.clients: dict[str, MemoryClient] = {}
        self.records: dict[tuple[str, Channel | str], dict[str, Record]] = {}
        """By kind and ``of``, then by key."""
        self.living: dict[tuple[str, Channel | str], Sequence[Record]] = {}
        """Those whose owner lives, until something changes."""
        self.refused: dict[Destination, str] = {}
        self.accept_persistent = accept_persistent
        self.redelivery_limit = redelivery_limit
        self.entries: dict[int, Entry] = {}
        self._parts: dict[Channel, ChannelPart] = {}
        self._numbers = itertools.count(1)
        self._state = MemoryState(state_directory)
        _memories[self.key] = self

    def __enter__(self) -> None:
        if self.pid != os.getpid():
            raise _foreign(self.pid)
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    # -- channels ----------------------------------------------------------------------------------

    def has(self, channel: Channel) -> bool:
        return channel._replace(part=Part.MAIN) in self._parts

    def part(self, channel: Channel) -> ChannelPart:
        """A part of a channel; made where it is not there."""
        found = self._parts.get(channel)
        if found is None:
            found = self._parts[channel] = ChannelPart(channel)
            if channel.part is not Part.MAIN:
                self.part(channel._replace(part=Part.MAIN))
        return found

    def known(self, channel: Channel) -> ChannelPart | None:
        """A part of a channel, where it is there."""
        return self._parts.get(channel)

    def open(self, channel: Channel) -> ChannelPart | None:
        """A part of a channel that gets a message. A queue is made, a channel that can end is not."""
        found = self._parts.get(channel)
        if found is None and not channel.subscription and temporary_owner(channel.destination) is None:
            found = self.part(channel)
        return found

    def parts_of(self, channel: Channel) -> list[ChannelPart]:
        """All parts of a channel that are there."""
        found = (self._parts.get(channel._replace(part=part)) for part in Part)
        return [part for part in found if part is not None]

    def destinations(self) -> list[Destination]:
        return [
            channel.destination
            for channel in self._parts
            if not channel.subscription and channel.part is Part.MAIN
        ]

    def drop(self, channel: Channel, *, claimed: bool) -> None:
        """See :meth:`connector.core.local.store.Store.drop`."""
        self.remove_record(SUBSCRIPTION, Channel(channel.destination), channel.subscription)
        for part in self.parts_of(channel):
            del self._parts[part.channel]
            part.ended = True
            for entry in list(part.waiting):
                self.remove(entry)
            for entry in list(part.claimed.values()) if claimed else ():
                self.let_go(entry)
                self.remove(entry)
            for reader in part.readers:
                reader.wake()

    # -- messages ----------------------------------------------------------------------------------

    def new(self, message: Message) -> Entry:
        """A message of a sender, in no channel yet and not counted; headers and body are parted."""
        number = next(self._numbers)
        return Entry(number, message.copy(), Body(bytes(message.body)), (-message.priority, number))

    def keep(self, entry: Entry) -> Entry:
        """Counts a message that is new."""
        self.entries[entry.number] = entry
        self.room.add(entry)
        return entry

    def another(self, entry: Entry) -> Entry:
        """One more reference to the body of a message, in no channel yet."""
        return self.keep(Entry(next(self._numbers), entry.message, entry.body, entry.order))

    def remove(self, entry: Entry) -> None:
        """A message goes, in whatever state it is but claimed."""
        if entry.state is MessageState.NEW and entry.part is not None:
            entry.part.count -= 1
        entry.state = MessageState.REMOVED
        if self.entries.pop(entry.number, None) is not None:
            self.room.remove(entry)

    def let_go(self, entry: Entry) -> None:
        """A message is claimed, or left without an owner, no longer; it lies nowhere now."""
        part = entry.part
        assert part is not None
        if entry.state is MessageState.NEW:  # it only waits in an in-progress destination
            part.count -= 1
            entry.state = MessageState.DELIVERED
        part.claimed.pop(entry.number, None)
        owner = self.clients.get(entry.owner.client_id) if entry.owner is not None else None
        if owner is not None:
            owner.claims.pop(entry.number, None)
        entry.takes += 1

    def change_headers(self, entry: Entry, message: Message) -> None:
        """Headers and properties of a message change."""
        if message is not entry.message:
            entry.message = message
            self.room.weigh_again(entry, weigh(message))

    def send(self, entry: Entry, channels: Iterable[Channel]) -> None:
        """A message waits in channels from now on; all but the first get a reference of their own.

        A channel that is gone gets nothing.
        """
        first: Entry | None = entry
        for channel in channels:
            part = self.open(channel)
            if part is not None:
                part.enter(first or self.another(entry))
                first = None
        if first is not None:
            self.remove(first)

    # -- senders -----------------------------------------------------------------------------------

    def check_target(self, destination: Destination) -> None:
        """See :meth:`connector.core.local.store.TaskStore.check_target`."""
        if self.refused and destination in self.refused:
            raise ProviderError(f"{destination} cannot be written: {self.refused[destination]}")
        owner = temporary_owner(destination)
        if owner is not None and (Channel(destination) not in self._parts or not self.is_alive(owner)):
            raise has_ended(destination)

    def check_delivery_mode(self, message: Message) -> None:
        """Whether a message may be entrusted to this.

        Raises:
            CapabilityError: it is persistent, and that is not accepted.
        """
        if message.delivery_mode == PERSISTENT and not self.accept_persistent:
            raise CapabilityError(
                "the memory provider loses persistent messages with its process; send them non-persistent, "
                "or set accept_persistent: true where that is meant"
            )

    def wait_for_room(self, entries: Sequence[Entry], destination: Destination, client: MemoryClient) -> None:
        """Returns when new messages have room; gives up the lock meanwhile.

        Raises:
            ProviderError: they never fit, there was no room in time, or the client has ended.
        """
        size = _bytes(entries)
        if self.room.used + size > self.room.max_bytes:
            self.room.wait(
                size,
                destination,
                own_claims=lambda: _bytes(client.claims.values()),
                own_prepared=lambda: _bytes(client.prepared.values()),
                ended=lambda: not client.alive,
                make_room=self._forget_expired,
            )

    def _forget_expired(self) -> bool:
        """Makes room from the oldest expired message that is only kept to be looked at."""
        for entry in self.room.expired.values():
            if entry.state is MessageState.NEW:
                self.remove(entry)
                return True
        return False

    # -- clients -----------------------------------------------------------------------------------

    def is_alive(self, client_id: str) -> bool:
        """Whether a client lives."""
        client = self.clients.get(client_id)
        return client is not None and client.alive

    def client(self, client_id: str) -> MemoryClient:
        """A client that is not forgotten yet.

        Raises:
            ProviderError: there is none.
        """
        client = self.clients.get(client_id)
        if client is None:
            raise ProviderError(f"the client {client_id} of the memory provider has ended")
        return client

    def drop_prepared(self, client: MemoryClient) -> None:
        """What a client has not committed is never sent."""
        for entry in client.prepared.values():
            self.remove(entry)
        client.prepared.clear()

    def remove_record(self, kind: str, of: Channel | str, key: str) -> None:
        """Removes a record, where it is there."""
        records = self.records.get((kind, of), {})
        records.pop(key, None)
        if not records:
            self.records.pop((kind, of), None)
        self.living.pop((kind, of), None)

    # -- state -------------------------------------------------------------------------------------

    def state(self, application: str) -> StateDirectory:
        """Of the instances of one ApplicationName."""
        return self._state.of(application)

    def end_state(self) -> None:
        """See :meth:`MemoryState.end`."""
        self._state.end()


def _bytes(entries: Iterable[Entry]) -> int:
    return sum(entry.weight + len(entry.body.data) for entry in entries)
