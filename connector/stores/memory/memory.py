"""What all connections of a memory provider share: messages, clients and records, under one lock."""

from __future__ import annotations

import functools
import itertools
import math
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from connector import own_files
from connector.errors import CapabilityError, ProviderError, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.message import PERSISTENT, Message
from connector.state.duplicates import write_keys
from connector.stores.engine.channel import Channel, Part
from connector.stores.engine.claims import LocalClaim
from connector.stores.engine.client import SUBSCRIPTION
from connector.stores.engine.registry import ClientInfo, Record
from connector.stores.memory.entries import Body, Box, Entry
from connector.stores.memory.sent_keys import SentKeys

_memories: Final[weakref.WeakValueDictionary[int, Memory]] = weakref.WeakValueDictionary()
_keys: Final = itertools.count(1)

Offer = Callable[[Entry | None, str], None]
"""Offers a waiting message to a reader, and names the client that has given the message back.

None = look at the whole channel again, which may have ended.
"""

_User = TypeVar("_User")


def locked(user: type[_User]) -> type[_User]:
    """Lets each call of a class hold the lock of the memory, which is its attribute ``memory``."""
    for name, method in list(vars(user).items()):
        if callable(method) and not name.startswith("_"):
            setattr(user, name, _lock(method))
    return user


def _lock(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        with self.memory:
            return method(self, *arguments, **options)

    return call


@dataclass(slots=True, eq=False)
class MemoryClient:
    """A connection. ``taken_by`` is the client that takes over from it, once it is dead."""

    info: ClientInfo
    alive: bool = True
    since: float = field(default_factory=time.time)
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    taken_by: str = ""


class Memory:
    """What all clients of a provider share: a context manager that holds the lock.

    Every method needs the lock.

    The arguments are those of :class:`connector.stores.memory.provider.MemoryProvider`.

    Entering raises:
        CapabilityError: in a process that was forked off.
    """

    def __init__(
        self, max_bytes: float = math.inf, send_timeout: float = 0.0, *, accept_persistent: bool = True
    ) -> None:
        self.max_bytes, self.send_timeout = max_bytes, send_timeout
        self.accept_persistent = accept_persistent
        self.key, self.pid = next(_keys), os.getpid()
        # Re-entrant: a generator that is garbage-collected at any moment ends a takeover.
        self.lock = threading.RLock()
        self.used = 0
        """Approximate bytes of all messages."""
        self.freed = threading.Condition(self.lock)
        """Notified when messages use fewer bytes, and when a client ends."""
        self.boxes: dict[Channel, Box] = {}
        self.entries: dict[int, Entry] = {}
        """All messages, by number."""
        self.last_number = 0
        self.expired: dict[int, Entry] = {}
        """Messages that wait as expired, the oldest first. They stay until their room is needed."""
        self.claims: dict[str, dict[int, Entry]] = {}
        """Claimed messages by owner, then by number."""
        self.prepared: dict[str, dict[str, Entry]] = {}
        """Prepared messages by client, then by key."""
        self.readers: dict[Channel, dict[object, Offer]] = {}
        self.clients: dict[str, MemoryClient] = {}
        self.records: dict[tuple[str, Channel | str], dict[str, Record]] = {}
        """By kind and ``of``, then by key."""
        self.living: dict[tuple[str, Channel | str], Sequence[Record]] = {}
        """The records whose owner lives, until one of them changes or a client ends."""
        self.subscriptions: dict[str, Record] = {}
        """By key, which is unique among all topics."""
        self.sent = SentKeys()
        self.refused: dict[Destination, str] = {}
        """Why nothing can be sent to a destination."""
        self.state: object = None
        """The state store of the memory, whose directory is removed with the memory."""
        _memories[self.key] = self

    def __enter__(self) -> None:
        _check_process(self.pid)
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    # -- channels ----------------------------------------------------------------------------------

    def create(self, channel: Channel) -> Box:
        """Returns the box of a channel. Makes a box that is missing."""
        box = self.boxes.get(channel)
        if box is None:
            box = self.boxes[channel] = Box(channel.part)
            if channel.part is not Part.MAIN:
                self.create(channel._replace(part=Part.MAIN))
        return box

    def open(self, channel: Channel) -> Box | None:
        """Returns the box of a channel for a message. Makes a queue, but no channel that can end."""
        box = self.boxes.get(channel)
        if box is None and (not channel.can_end or channel._replace(part=Part.MAIN) in self.boxes):
            return self.create(channel)
        return box

    def parts(self, channel: Channel) -> dict[Part, Box]:
        """Returns the boxes of all parts of a channel, empty ones for those that are missing."""
        return {part: self.boxes.get(channel._replace(part=part)) or Box(part) for part in Part}

    # -- messages ----------------------------------------------------------------------------------

    def next_number(self) -> int:
        """Returns a number that is higher than all before."""
        self.last_number += 1
        return self.last_number

    def new(self, message: Message) -> Entry:
        """Returns the entry of a sender's message, in no box and not counted yet.

        Raises:
            CapabilityError: the message is persistent, and the provider does not accept that.
        """
        if message.delivery_mode == PERSISTENT and not self.accept_persistent:
            raise CapabilityError(
                "the memory provider loses persistent messages with its process; send them non-persistent, "
                "or set accept_persistent: true if they may be lost"
            )
        number, body = self.next_number(), Body(bytes(message.body))
        return Entry(number, message.copy(), body, (-message.priority, number), message.delivery_time)

    def keep(self, entry: Entry) -> Entry:
        """Counts a new message. The body is counted with its first entry."""
        self.entries[entry.number] = entry
        self.used += entry.weight + (0 if entry.body.links else len(entry.body.data))
        entry.body.links += 1
        return entry

    def remove(self, entry: Entry) -> None:
        """Removes a message from any place. The body goes with its last entry."""
        self.take_out(entry)
        if self.entries.pop(entry.number, None) is not None:
            entry.body.links -= 1
            self.used -= entry.weight + (0 if entry.body.links else len(entry.body.data))
            self.freed.notify_all()

    def send(self, entry: Entry, channels: Sequence[Channel]) -> None:
        """Puts a message into channels, one copy each. A channel that is gone gets no copy."""
        copies = [entry]
        for _ in channels[1:]:
            copy = Entry(self.next_number(), entry.headers, entry.body, entry.order, entry.due)
            copies.append(self.keep(copy))
        for copy, channel in zip(copies, channels, strict=False):
            self.put_waiting(copy, channel)
        if not channels:
            self.remove(entry)

    def put_waiting(self, entry: Entry, channel: Channel, giver: str = "") -> None:
        """Lets a message that was taken out wait in a channel, or until it is due.

        A message whose channel is gone is removed. ``giver`` is the client that gives the message back.
        """
        if entry.due:
            channel = channel._replace(part=Part.DELAYED)
        box = self.open(channel)
        if box is None:
            self.remove(entry)
            return
        entry.channel = channel
        box.add(entry)
        if channel.part is Part.EXPIRED:
            self.expired[entry.number] = entry
        for offer in self.readers.get(channel, {}).values():
            offer(entry, giver)

    def put_claimed(self, entry: Entry, channel: Channel, claim: LocalClaim) -> LocalClaim:
        """Lets a message that was taken out lie in a channel, claimed. Returns the claim.

        A message whose channel is gone is removed.
        """
        box = self.open(channel)
        if box is None:
            self.remove(entry)
            return claim
        entry.channel, entry.claim, entry.taken_at = channel, claim, time.time()
        box.claimed[entry.number] = entry
        if claim.owner is not None:
            self.claims.setdefault(claim.owner.client_id, {})[entry.number] = entry
        return claim

    def next_delayed(self, channel: Channel) -> Entry | None:
        """Returns the delayed message of a channel that is due first."""
        box = self.boxes.get(channel._replace(part=Part.DELAYED))
        return box.line.first() if box is not None else None

    def move_due(self, channel: Channel, now: int) -> None:
        """Moves the delayed messages of a channel that are due to its main part."""
        while (entry := self.next_delayed(channel)) is not None and entry.due <= now:
            self.take_out(entry)
            entry.due = 0
            self.put_waiting(entry, channel)

    def find(self, reference: tuple[int, int]) -> Entry | None:
        """Returns the message of a claim. None = the claim is lost."""
        entry = self.entries.get(reference[0])
        return entry if entry is not None and entry.changes == reference[1] else None

    def take_out(self, entry: Entry) -> None:
        """Takes a message out of its box. The claim of the message is lost."""
        channel, claim = entry.channel, entry.claim
        entry.changes += 1
        entry.channel = entry.claim = None
        if channel is not None and (box := self.boxes.get(channel)) is not None:
            (box.waiting if claim is None else box.claimed).pop(entry.number, None)
        if claim is None:
            self.expired.pop(entry.number, None)
        elif claim.owner is not None:
            self.claims.get(claim.owner.client_id, {}).pop(entry.number, None)

    def remember(self, path: str, keys: Sequence[str]) -> None:
        """Writes a record of published keys, which the duplicate window reads.

        Raises:
            SettlementError: the record cannot be written.
        """
        directory, name = os.path.split(path)
        hidden = os.path.join(directory, f".{name}")
        try:
            own_files.make_directories(directory)
            with open(hidden, "wb", opener=own_files.opener) as record:
                record.write(write_keys(keys))
            os.rename(hidden, path)
        except OSError as error:
            raise SettlementError(
                f"cannot write the published ids: {error.strerror}: {error.filename!r}; make room there. "
                "The messages stay claimed until then, none is lost"
            ) from error

    # -- clients -----------------------------------------------------------------------------------

    def is_alive(self, client_id: str) -> bool:
        client = self.clients.get(client_id)
        return client is not None and client.alive

    def check_alive(self, client_id: str, error: type[ProviderError] = ProviderError) -> None:
        """Raises ``error`` if a client has ended."""
        if not self.is_alive(client_id):
            raise error(f"the connection {client_id} is closed, nothing was done: connect anew")

    def forget(self, client_id: str) -> None:
        """Removes a client with its prepared messages and its records."""
        self.discard_prepared(client_id)
        self.claims.pop(client_id, None)
        self.clients.pop(client_id, None)
        records = [one for same in self.records.values() for one in same.values()]
        for record in records:
            if record.owner is not None and record.owner.client_id == client_id:
                self.remove_record(record.kind, record.of, record.key)

    def discard_prepared(self, client_id: str) -> None:
        """Removes the prepared messages of a client."""
        for entry in self.prepared.pop(client_id, {}).values():
            self.remove(entry)

    def remove_record(self, kind: str, of: Channel | str, key: str) -> None:
        """Removes a record if it exists."""
        same = self.records.get((kind, of), {})
        same.pop(key, None)
        if not same:
            self.records.pop((kind, of), None)
        if kind == SUBSCRIPTION:
            self.subscriptions.pop(key, None)
        self.living.pop((kind, of), None)


def find_memory(key: int, pid: int) -> Memory:
    """Returns the memory that another part of this process refers to.

    Raises:
        CapabilityError: the memory belongs to another process.
        ProviderError: the memory is gone.
    """
    _check_process(pid)
    memory = _memories.get(key)
    if memory is None:
        raise ProviderError(
            "the memory provider does not exist any more: keep a reference to the provider object"
        )
    return memory


def _check_process(pid: int) -> None:
    if pid != os.getpid():
        raise CapabilityError(
            f"memory cannot be shared between processes: this is process {os.getpid()}, the messages are in "
            f"{pid}; run in one process, or choose another provider (dropbox)"
        )
