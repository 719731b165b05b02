"""The contract of a registry: the clients of a store, and the small records that they share."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from connector.messaging.destination import Destination
from connector.messaging.subscription import TopicSubscription
from connector.stores.engine.channel import Channel, channel_of


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """A client in the registry.

    Args:
        client_id: unique for every start of every process. Letters and digits.
        application, instance: of an adapter. Empty for a client that is no adapter.
        origin: messages of the same origin are local for no-local.
        is_known: False if only claims of the client are left, because all other traces were removed.
        who: the holder in error texts: ``this process``, or ``process 12 on host``.
        since: time of the connect, in seconds since 1970. 0 = unknown.
    """

    client_id: str
    application: str = ""
    instance: str = ""
    origin: str = ""
    declared_dead: bool = False
    is_known: bool = True
    who: str = "this process"
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Record:
    """A small fact that all clients of a provider share.

    Args:
        kind: ``subscription``, ``consumer`` or ``client id``. With the capability ``lots`` also ``lot`` and
            ``lot owner``.
        of: the topic of a subscription, the channel of a consumer, a client id of JMS, or the name of the
            lots of an owner. Empty for a lot, whose key is its name.
        key: unique within ``kind`` and ``of``.
        data: texts, numbers and booleans.
        owner: the client whose end ends the record. None = no owner.
        durable: the record survives a crash of the machine.
    """

    kind: str
    of: Channel | str
    key: str
    data: Mapping[str, Any] = field(default_factory=dict)
    owner: ClientInfo | None = None
    durable: bool = False


def name_key(client_id: str, name: str, *, durable: bool) -> str:
    """Returns the key of a named subscription, if a store chooses no other form."""
    return json.dumps(["durable" if durable else "shared", client_id, name])


def source_channel(source: Destination | TopicSubscription) -> Channel:
    """Returns the channel of a queue, a virtual destination or a named subscription (:func:`name_key`)."""
    if isinstance(source, TopicSubscription):
        return Channel(source.topic, name_key(source.client_id, source.name, durable=source.durable))
    return channel_of(source)


class DeadClient(Protocol):
    """A dead client that this client takes over from. No other client takes over meanwhile."""

    info: ClientInfo

    @abstractmethod
    def remove(self) -> None:
        """Removes the records and the mark of the dead client.

        Messages that the client has claimed into an in-progress destination stay there. Their owner is not
        known any more.
        """

    @abstractmethod
    def release(self) -> None:
        """Leaves the dead client to the next client. Repeatable. Does nothing after :meth:`remove`."""


class Registry(Protocol):
    """The clients of a store, and the records that they share. Made for one client."""

    info: ClientInfo
    """This client."""

    @abstractmethod
    def check(self) -> None:
        """Checks that the store is there and that others see this client as alive. Cheap.

        Raises:
            ProviderError: the store is out of reach, or another client has taken over from this client.
        """

    @abstractmethod
    def find_alive(self, client_id: str) -> ClientInfo | None:
        """Returns a client that is alive. None if the client is dead or does not exist."""

    @abstractmethod
    def find(self, client_id: str) -> ClientInfo | None:
        """Returns a client that lives, or is dead and not forgotten yet. None = nobody knows the client."""

    @abstractmethod
    def dead(self, *, at_start: bool) -> Iterator[DeadClient]:
        """Yields the dead clients, each held by this client until it is forgotten or released.

        Args:
            at_start: also clients of which only claims or prepared messages are left. They need not be held.
        """

    @abstractmethod
    def lock(self) -> AbstractContextManager[object]:
        """Returns the lock for all decisions about records. One client at a time holds the lock. Re-entrant.

        The store is called under the lock, too. Changes under the lock may become visible only at its
        release. They may be undone if an error ends the block.

        Raises:
            ProviderError: the lock cannot be had.
        """

    @abstractmethod
    def records(self, kind: str, of: Channel | str) -> Sequence[Record]:
        """Returns the records of one kind and one ``of`` with a living owner or without an owner.

        Every message sent to a topic asks for the records of subscriptions. So this call is cheap, and
        returns the same object as before if no record has changed.

        Under :meth:`lock` the answer is exact. Otherwise the answer may be a second late about another
        process that has died.
        """

    @abstractmethod
    def subscription(self, client_id: str, name: str, *, durable: bool) -> Record | None:
        """Returns the record of a named subscription of any topic. None if there is none.

        Called under :meth:`lock` for every new consumer. So the record is found by key, and the other records
        are not read.
        """

    def subscription_key(self, details: TopicSubscription, unique: str) -> str:
        """Returns the key for a new subscription. The key names the channel and is part of duplicate keys.

        Args:
            details: of the subscription. The names of durable subscriptions are one namespace within a client
                id. The names of shared non-durable subscriptions are another.
            unique: a unique text, used for a subscription without a name.
        """
        return name_key(details.client_id, details.name, durable=details.durable) if details.name else unique

    @abstractmethod
    def write(self, record: Record) -> None:
        """Makes or replaces a record, under :meth:`lock`. For a new subscription also makes the channel.

        Raises:
            ProviderError: the record cannot be written.
        """

    @abstractmethod
    def remove(self, record: Record) -> None:
        """Removes a record, under :meth:`lock`. A record that is gone is skipped."""

    @abstractmethod
    def close(self, *, abandoned: bool) -> None:
        """Ends this client. Repeatable.

        Args:
            abandoned: end the client as a crash would. Everything stays for the client that takes over. If
                False, a client without claims is forgotten, with its records and prepared messages. A client
                with claims is left to the client that takes over.
        """
