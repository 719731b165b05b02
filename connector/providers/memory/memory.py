"""What all connections of one memory provider share: its destinations, its clients, one lock."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import tempfile
import threading
import time
import weakref
from typing import Final
from urllib.parse import quote

from connector.core.state import Transition, order_key
from connector.errors import CapabilityError, DestinationError, ProviderError, UnknownDestination
from connector.messaging.destination import Destination
from connector.messaging.message import PERSISTENT, Message
from connector.providers.memory.channel import Queue, Subscription
from connector.providers.memory.clients import Client, Clients
from connector.providers.memory.entries import Body, Entry, copy_message, weigh
from connector.providers.memory.store import MessageStore
from connector.state.directory import StateDirectory

_TEMPORARY: Final = re.compile(r"temporary-m[0-9a-f]{12}-[0-9]+")

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
    ) -> None:
        self.key = next(_keys)
        self.pid = os.getpid()
        # re-entrant: a generator that is collected in the middle of anything ends a take-over
        self.lock = threading.RLock()
        self.store = MessageStore(self.lock, max_bytes, send_timeout)
        self.clients = Clients()
        self.queues: dict[Destination, Queue] = {}
        self.topics: dict[Destination, dict[Subscription, None]] = {}
        self.temporary: dict[Destination, Client] = {}
        self.refused: dict[Destination, str] = {}
        self.accept_persistent = accept_persistent
        self.redelivery_limit = redelivery_limit
        self._numbers = itertools.count(1)
        self._micros = 0
        self._directory: str | None = None
        self._remover: weakref.finalize[[str, int], Memory] | None = None
        _memories[self.key] = self

    def __enter__(self) -> None:
        if self.pid != os.getpid():
            raise _foreign(self.pid)
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def directory(self) -> str:
        """A directory that lives as long as this, for the journals and the duplicate window."""
        if self._directory is None:
            self._directory = tempfile.mkdtemp(prefix="connector-memory-")
            self._remover = weakref.finalize(self, _remove, self._directory, self.pid)
        return self._directory

    def remove_directory(self) -> None:
        """Removes it before its time."""
        if self._remover is not None:
            self._remover()

    def state(self, application: str) -> StateDirectory:
        """Of the instances of one ApplicationName."""
        directory = os.path.join(self.directory(), folder_name(application))
        return StateDirectory(directory, folder=folder_name, keys_of=published_keys)

    def queue(self, destination: Destination) -> Queue:
        """A queue; made where there is none, but a temporary one never.

        Raises:
            UnknownDestination: a temporary one that has ended.
        """
        queue = self.queues.get(destination)
        if queue is None:
            self._check_not_ended(destination)
            queue = self.queues[destination] = Queue(self.store, destination)
        return queue

    def topic(self, destination: Destination) -> dict[Subscription, None]:
        """The subscriptions of a topic.

        Raises:
            UnknownDestination: a temporary one that has ended.
        """
        topic = self.topics.get(destination)
        if topic is None:
            self._check_not_ended(destination)
            topic = self.topics[destination] = {}
        return topic

    def check_target(self, destination: Destination) -> None:
        """Whether messages can be sent there.

        Raises:
            DestinationError: a virtual destination.
            UnknownDestination: a temporary one that has ended.
            ProviderError: it is refused (:meth:`MemoryProvider.refuse`).
        """
        if destination.view:
            raise DestinationError(
                f"cannot send to {destination}: it shows a part of {destination.base}; send to that"
            )
        if self.refused and destination in self.refused:
            raise ProviderError(f"{destination} cannot be written: {self.refused[destination]}")
        if destination not in self.queues and destination not in self.topics:
            self._check_not_ended(destination)

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

    def client(self, client_id: str) -> Client:
        """A client that is not forgotten yet.

        Raises:
            ProviderError: there is none.
        """
        client = self.clients.get(client_id)
        if client is None:
            raise ProviderError(f"the client {client_id} of the memory provider has ended")
        return client

    def wait_for_room(self, size: int, destination: Destination, client: Client) -> None:
        """See :meth:`MessageStore.wait_for_room`; gives up the lock meanwhile."""
        self.store.wait_for_room(
            size,
            destination,
            own_claims=client.claimed_bytes,
            own_prepared=client.prepared_bytes,
            ended=lambda: not client.alive,
        )

    def new_entry(self, message: Message, client: Client) -> Entry:
        """A message of a sender, with its id and time; not in the store yet. Sorts behind all before."""
        message.check()
        self._micros = micros = max(self._micros + 1, time.time_ns() // 1000)
        number = next(self._numbers)
        message.message_id = f"ID:{micros:016d}-{client.client_id}-{number}"
        headers = copy_message(message)
        headers.timestamp = micros // 1000
        headers.delivery_count = 1
        headers.destination = None  # the channel knows
        headers.properties.pop("JMSXDeliveryCount", None)
        headers.property_types.pop("JMSXDeliveryCount", None)
        order = order_key(headers.priority, micros, message.message_id)
        return Entry(number, headers, Body(bytes(message.body)), order, client.origin)

    def another(self, entry: Entry, headers: Message) -> Entry:
        """One more reference to the body of a message, in no state yet; in the store."""
        made = Entry(next(self._numbers), headers, entry.body, entry.order, entry.origin)
        self.store.add(made)
        return made

    def deliver(self, entry: Entry, destination: Destination, transition: Transition) -> None:
        """A message that is in the store becomes NEW in its queue, or in every subscription that wants it.

        All at once, for whoever looks holds the lock.
        """
        if destination.is_queue:
            queue = self.queue(destination)
            entry.move(transition)
            queue.enter(entry)
            return
        for subscription in self.topic(destination):
            if subscription.wants(entry.headers, entry.origin):
                link = self.another(entry, entry.headers)
                link.move(Transition.SEND)
                subscription.enter(link)
        self.store.remove(entry)

    def set_headers(self, entry: Entry, headers: Message) -> None:
        """The headers of a message that is in the store."""
        entry.headers = headers
        self.store.weigh_again(entry, weigh(headers))

    def _check_not_ended(self, destination: Destination) -> None:
        if _TEMPORARY.fullmatch(destination.name):
            raise UnknownDestination(
                f"there is no {destination}: it was temporary, and has ended with its connection"
            )


def folder_name(name: str) -> str:
    """A name of a user's as that of a folder, never one of ours."""
    return f"@{quote(name, safe='')}"


def published_keys(record: bytes) -> list[str]:
    """The duplicate keys in the record of a settlement, in their order."""
    return record.decode("utf-8", "surrogateescape").split("\n")


def _remove(directory: str, pid: int) -> None:
    if pid == os.getpid():  # not in a process that was forked off
        shutil.rmtree(directory, ignore_errors=True)
