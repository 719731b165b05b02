"""The contract of a registry: the clients of a store, and the small records that they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from connector.core.local.channel import Channel
from connector.messaging.subscription import TopicSubscription


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """A client, as its registry knows it.

    Args:
        client_id: unique for every start of every process; of letters and digits.
        application, instance: of an adapter; empty for a client that is none.
        origin: whose messages are local for no-local.
        declared_dead: whether an operator says that it is dead.
        is_known: False where only its claims are left, because somebody has removed all else.
        who: the holder in error texts: ``this process``, or ``process 12 on host``.
    """

    client_id: str
    application: str = ""
    instance: str = ""
    origin: str = ""
    declared_dead: bool = False
    is_known: bool = True
    who: str = "this process"


@dataclass(frozen=True, slots=True)
class Record:
    """A small fact that all clients of a provider share.

    Args:
        kind: ``subscription``, ``consumer`` or ``client id``.
        of: the topic of a subscription, the channel of a consumer, or a client id of JMS.
        key: unique within ``kind`` and ``of``.
        data: texts, numbers and booleans.
        owner: the client whose end ends it; None = nobody's.
        durable: it survives a crash of the machine.
    """

    kind: str
    of: Channel | str
    key: str
    data: Mapping[str, Any] = field(default_factory=dict)
    owner: ClientInfo | None = None
    durable: bool = False


class DeadClient(Protocol):
    """A dead client that this one takes over from; nobody else does meanwhile."""

    info: ClientInfo

    def forget(self) -> None:
        """Nothing is left of it: its records go, and its mark.

        What it has claimed in an in-progress destination lies there. Its owner is not known any more.
        """

    def release(self) -> None:
        """Leaves it to the next client. Repeatable, nothing after :meth:`forget`."""


class Registry(Protocol):
    """The clients of a store, and the records that they share. Made for one client."""

    info: ClientInfo
    """This client."""

    def check(self) -> None:
        """Whether the store is there and this client is alive for the others. Cheap.

        Raises:
            ProviderError: the store is out of reach, or somebody has taken over from this client.
        """

    def living(self, client_id: str) -> ClientInfo | None:
        """A client that lives; None where it is dead, or there is none."""

    def knows(self, client_id: str) -> bool:
        """Whether a client lives, or is dead and not forgotten yet."""

    def dead(self, *, at_start: bool) -> Iterator[DeadClient]:
        """The dead clients, each held by this one until it is forgotten or released.

        Args:
            at_start: also those of which only claims are left. Nobody needs to hold them.
        """

    def lock(self) -> AbstractContextManager[object]:
        """All decisions about records are made under it, by one client at a time. Re-entrant.

        The store is called under it, too. What is done under it may become visible at its end only, and may
        be undone where an error ends it.

        Raises:
            ProviderError: it cannot be had.
        """

    def records(self, kind: str, of: Channel | str) -> Sequence[Record]:
        """The records of one kind and one ``of`` whose owner lives, or has none.

        Those of subscriptions are asked for with every message that is sent to a topic. So that is cheap, and
        gives the same object as before where nothing has changed.

        Under :meth:`lock` the answer is exact. Else it may be late by a second about another process that
        has died.
        """

    def subscription(self, client_id: str, name: str, *, durable: bool) -> Record | None:
        """The record of a named subscription, whatever its topic; None where there is none.

        Asked under :meth:`lock`, with every consumer that comes. So it is found by its key, and the records
        of the others are not read.
        """

    def subscription_key(self, details: TopicSubscription, unique: str) -> str:
        """The key for a new subscription. It names the channel and stands in duplicate keys.

        Args:
            details: of the subscription. The names of durable ones are one space within a client id, those of
                shared non-durable ones are another.
            unique: tells it from all others, where it has no name.
        """

    def write(self, record: Record) -> None:
        """Makes or replaces a record; under :meth:`lock`. That of a new subscription makes its channel, too.

        Raises:
            ProviderError: it cannot be written.
        """

    def remove(self, record: Record) -> None:
        """Removes a record; one that is gone is passed over. Under :meth:`lock`."""

    def end(self, *, abandoned: bool) -> None:
        """This client ends. Repeatable.

        Args:
            abandoned: as the death of its process would end it. What it has stays for whoever takes over.
                Else it is forgotten where it has no claims, with its records and what it has prepared.
                Where it has claims, they are left to whoever takes over.
        """
