"""The messages, clients and records that all connections of a memory provider share under one lock."""

from __future__ import annotations

import itertools
import os
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from connector.errors import CapabilityError, ProviderError
from connector.messaging.destination import Destination
from connector.messaging.message import PERSISTENT, Message
from connector.stores.engine.channel import Channel, Part
from connector.stores.engine.client import SUBSCRIPTION, has_ended
from connector.stores.engine.registry import ClientInfo, Record
from connector.stores.memory.entries import Body, ChannelPart, Entry, MemoryClaim, weigh
from connector.stores.memory.state import MemoryState

_memories: Final[weakref.WeakValueDictionary[int, Memory]] = weakref.WeakValueDictionary()
_keys: Final = itertools.count(1)


@dataclass(eq=False)
class MemoryClient:
    """One connection, with the messages that it has claimed (by number) and prepared (by key)."""

    info: ClientInfo
    alive: bool = True
    since: float = field(default_factory=time.time)
    taken_by: MemoryClient | None = None
    """The client that takes over from this dead client."""
    claims: dict[int, Entry] = field(default_factory=dict)
    prepared: dict[str, Entry] = field(default_factory=dict)

    def check_alive(self, error: type[ProviderError] = ProviderError) -> None:
        """Raises ``error`` if the client has ended."""
        if not self.alive:
            raise error(f"the connection {self.info.client_id} is closed, nothing was done: connect anew")


class Memory:
    """The shared memory of a provider: a context manager that holds the lock.

    Every method needs the lock.

    Only senders wait for room. Messages inside move without waiting, because otherwise no client could make
    room.

    Args:
        max_bytes: limit for all entries and bodies. Senders cannot exceed the limit.
        send_timeout: seconds that a sender waits for room.
        accept_persistent: whether persistent messages are taken.
        state_directory: see :class:`MemoryState`.

    Entering raises:
        CapabilityError: in a process that was forked off.
    """

    def __init__(
        self,
        max_bytes: int,
        send_timeout: float,
        state_directory: str | os.PathLike[str] | None,
        *,
        accept_persistent: bool,
    ) -> None:
        self.key = next(_keys)
        self.pid = os.getpid()
        # Re-entrant: a generator that is garbage-collected at any moment ends a takeover.
        self.lock = threading.RLock()
        self.room = threading.Condition(self.lock)
        """Notified when a change may let a waiting sender continue."""
        self.parts: dict[Channel, ChannelPart] = {}
        self.entries: dict[int, Entry] = {}
        """By number."""
        self.expired: dict[int, Entry] = {}
        """Expired messages, the oldest first. They can be looked at until their room is needed."""
        self.clients: dict[str, MemoryClient] = {}
        self.records: dict[tuple[str, Channel | str], dict[str, Record]] = {}
        """By kind and ``of``, then by key."""
        self.subscriptions: dict[str, Record] = {}
        """By key, which is unique among all topics."""
        self.alive_records: dict[tuple[str, Channel | str], Sequence[Record]] = {}
        """Records whose owner lives, cached until a change."""
        self.refused: dict[Destination, str] = {}
        self.state = MemoryState(state_directory)
        self._max_bytes = max_bytes
        self._send_timeout = send_timeout
        self._accept_persistent = accept_persistent
        self._used = 0
        self._numbers = itertools.count(1)
        _memories[self.key] = self

    def __enter__(self) -> None:
        if self.pid != os.getpid():
            raise _foreign(self.pid)
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    # -- channels ----------------------------------------------------------------------------------

    def part(self, channel: Channel) -> ChannelPart:
        """Returns a part of a channel. Makes a part that is missing."""
        found = self.parts.get(channel)
        if found is None:
            found = self.parts[channel] = ChannelPart(channel)
            if channel.part is not Part.MAIN:
                self.part(channel._replace(part=Part.MAIN))
        return found

    def open(self, channel: Channel) -> ChannelPart | None:
        """Returns the part of a channel for a message. Makes a queue, but no channel that can end."""
        found = self.parts.get(channel)
        if found is None and (not channel.can_end or channel._replace(part=Part.MAIN) in self.parts):
            found = self.part(channel)
        return found

    def first_delayed(self, channel: Channel) -> Entry | None:
        """Returns the delayed message of a channel that is due first."""
        delayed = self.parts.get(channel._replace(part=Part.DELAYED))
        return None if delayed is None else delayed.waiting.first()

    def move_due(self, part: ChannelPart, now: int) -> None:
        """Moves the delayed messages of a channel that are due to its main part."""
        while (entry := self.first_delayed(part.channel)) is not None and entry.due <= now:
            self.take_out(entry)
            entry.due = 0
            part.enter(entry)

    def parts_of(self, channel: Channel) -> list[ChannelPart]:
        """Returns all existing parts of a channel."""
        found = (self.parts.get(channel._replace(part=part)) for part in Part)
        return [part for part in found if part is not None]

    # -- messages ----------------------------------------------------------------------------------

    def new(self, message: Message) -> Entry:
        """Returns the entry of a sender's message, in no channel and not counted yet, apart from its body."""
        number = next(self._numbers)
        return Entry(number, message.copy(), Body(bytes(message.body)), (-message.priority, number))

    def keep(self, entry: Entry) -> Entry:
        """Counts a new message. Its body is counted with the first entry."""
        self.entries[entry.number] = entry
        body = entry.body
        self._used += entry.weight + (0 if body.links else len(body.data))
        body.links += 1
        return entry

    def send(self, entry: Entry, channels: Iterable[Channel]) -> None:
        """Puts a message into channels. All channels but the first get a new entry.

        A channel that is gone gets no message.
        """
        first: Entry | None = entry
        for channel in channels:
            part = self.open(channel._replace(part=Part.DELAYED) if entry.due else channel)
            if part is not None:
                if first is None:
                    first = self.keep(Entry(next(self._numbers), entry.message, entry.body, entry.order))
                    first.due = entry.due
                part.enter(first)
                first = None
        if first is not None:
            self.remove(first)

    def take_out(self, entry: Entry) -> None:
        """Takes a message out of its part."""
        part, claim = entry.part, entry.claim
        assert part is not None
        entry.ticket += 1
        entry.part = entry.claim = None
        if claim is None:
            part.count -= 1
            return
        part.claimed.pop(entry.number, None)
        owner = self.clients.get(claim.owner.client_id) if claim.owner is not None else None
        if owner is not None:
            owner.claims.pop(entry.number, None)

    def put_in_part(self, claim: MemoryClaim, part: ChannelPart) -> MemoryClaim:
        """Puts a message that was taken out into a part, claimed or without an owner."""
        entry = claim.entry
        entry.part, entry.claim = part, claim
        part.claimed[entry.number] = entry
        if claim.owner is not None:
            self.clients[claim.owner.client_id].claims[entry.number] = entry
        return claim

    def remove(self, entry: Entry) -> None:
        """Removes a message from any place, and its body with the last entry."""
        if entry.part is not None:
            self.take_out(entry)
        if self.entries.pop(entry.number, None) is not None:
            self.expired.pop(entry.number, None)
            body = entry.body
            body.links -= 1
            self._used -= entry.weight + (0 if body.links else len(body.data))
            self.room.notify_all()

    def change_headers(self, entry: Entry, message: Message) -> None:
        """Replaces the headers and properties of a message."""
        if message is not entry.message:
            weight = weigh(message)
            self._used += weight - entry.weight
            entry.message, entry.weight = message, weight

    # -- senders -----------------------------------------------------------------------------------

    def check_target(self, channel: Channel) -> None:
        """Checks that messages can be sent to a channel.

        Raises:
            UnknownDestination: the channel is a temporary destination that has ended.
            ProviderError: a test refuses the destination.
        """
        destination = channel.destination
        if self.refused and destination in self.refused:
            raise ProviderError(f"{destination} cannot be written: {self.refused[destination]}")
        if not channel.subscription and channel.can_end and channel not in self.parts:
            raise has_ended(destination)

    def check_delivery_mode(self, message: Message) -> None:
        """Checks that the provider accepts the delivery mode of a message.

        Raises:
            CapabilityError: the message is persistent, and the provider does not accept that.
        """
        if message.delivery_mode == PERSISTENT and not self._accept_persistent:
            raise CapabilityError(
                "the memory provider loses persistent messages with its process; send them non-persistent, "
                "or set accept_persistent: true if they may be lost"
            )

    def wait_for_room(self, entries: Sequence[Entry], channel: Channel, client: MemoryClient) -> None:
        """Waits until there is room for a sender's new messages. Releases the lock while waiting.

        Messages that the sender itself has claimed do not count. Otherwise the sender would wait for itself.
        Only the sender can free the room of its own prepared messages.

        Args:
            entries: new, and not counted yet.
            channel: the target of the messages.
            client: the sender.

        Raises:
            UnknownDestination: the channel is a temporary destination that has ended.
            ProviderError: a test refuses the destination, the messages never fit, there was no room in time,
                or the client has ended.
        """
        self.check_target(channel)
        destination = channel.destination
        size = _bytes(entries)
        if self._used + size <= self._max_bytes:
            return
        limit = f"max_bytes ({self._max_bytes}) of the memory provider"
        if size > self._max_bytes:
            raise ProviderError(
                f"cannot send to {destination}: it takes {size} bytes, more than {limit}; send less at once, "
                "or raise max_bytes. Nothing was sent"
            )
        deadline = time.monotonic() + self._send_timeout
        while self._used + size > self._max_bytes + _bytes(client.claims.values()):
            if self._remove_expired():
                continue
            if _bytes(client.prepared.values()) + size > self._max_bytes:
                raise ProviderError(
                    f"cannot send to {destination}: this transaction alone takes more than {limit}; commit "
                    "earlier, or raise max_bytes"
                )
            left = deadline - time.monotonic()
            if left <= 0:
                raise ProviderError(
                    f"cannot send to {destination}: {len(self.entries)} messages take {self._used} of "
                    f"{limit}, and none was taken for {self._send_timeout:g} s; start a consumer, or raise "
                    "max_bytes. Nothing was sent"
                )
            self.room.wait(left)
            if not client.alive:
                raise ProviderError(f"cannot send to {destination}: the connection was closed")
            self.check_target(channel)

    def _remove_expired(self) -> bool:
        """Removes the oldest expired message that no client has claimed. False if there is none."""
        for entry in self.expired.values():
            if entry.claim is None and entry.part is not None and entry.part.channel.part is Part.EXPIRED:
                self.remove(entry)
                return True
        return False

    # -- clients -----------------------------------------------------------------------------------

    def is_alive(self, client_id: str) -> bool:
        """Whether a client lives."""
        client = self.clients.get(client_id)
        return client is not None and client.alive

    def client(self, client_id: str) -> MemoryClient:
        """Returns a client that is not forgotten yet.

        Raises:
            ProviderError: there is no such client.
        """
        client = self.clients.get(client_id)
        if client is None:
            raise ProviderError(f"the client {client_id} of the memory provider has ended")
        return client

    def remove_prepared(self, client: MemoryClient) -> None:
        """Removes the prepared messages of a client."""
        for entry in client.prepared.values():
            self.remove(entry)
        client.prepared.clear()

    def remove_record(self, kind: str, of: Channel | str, key: str) -> None:
        """Removes a record if it exists."""
        records = self.records.get((kind, of), {})
        records.pop(key, None)
        if not records:
            self.records.pop((kind, of), None)
        if kind == SUBSCRIPTION:
            self.subscriptions.pop(key, None)
        self.alive_records.pop((kind, of), None)


def find_memory(key: int, pid: int) -> Memory:
    """Returns the memory that another part of this process refers to.

    Raises:
        CapabilityError: the memory belongs to another process.
        ProviderError: the memory is gone.
    """
    if pid != os.getpid():
        raise _foreign(pid)
    memory = _memories.get(key)
    if memory is None:
        raise ProviderError(
            "the memory provider does not exist any more: keep a reference to the provider object"
        )
    return memory


def _foreign(pid: int) -> CapabilityError:
    return CapabilityError(
        f"memory cannot be shared between processes: this is process {os.getpid()}, the messages are in "
        f"{pid}; run in one process, or choose another provider (dropbox)"
    )


def _bytes(entries: Iterable[Entry]) -> int:
    return sum(entry.weight + len(entry.body.data) for entry in entries)
