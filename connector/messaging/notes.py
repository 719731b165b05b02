"""Information for an operator about a provider at work. Nothing here is a claim or a lock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from connector.messaging.claim import Claim
from connector.text.iso_time import iso_time


class ClientState(Enum):
    """Whether a client lives."""

    ALIVE = "alive"
    DEAD = "dead"
    """The process is gone. Another client takes over."""
    DECLARED_DEAD = "declared dead"
    """An operator has declared the client dead. The process may still run."""


@dataclass(frozen=True, slots=True)
class ClientNote:
    """A client of a provider, as seen by others.

    Args:
        client_id: names the client in claims.
        application, instance: of an adapter. Empty for a client that is no adapter.
        host, pid: the machine and the process of the client.
        since: time of the connect in seconds since 1970. 0 = unknown.
        state: whether the client lives.
    """

    client_id: str
    application: str
    instance: str
    host: str
    pid: int
    since: float
    state: ClientState


@dataclass(frozen=True, slots=True)
class BatchNote:
    """The open claims of one batch of a client.

    Args:
        client_id: the owner of the claims.
        since: time of the first claim in seconds since 1970. 0 = unknown.
        claims: by sequence.
    """

    client_id: str
    number: int
    since: float
    claims: Mapping[int, Claim]


class OwnerNote(NamedTuple):
    """The owner of messages that an operator cannot have. As a text, what follows "the messages are".

    Args:
        who: the owner, in words.
        remedy: what the operator can do, in words.
        since: when it took the messages, in seconds since 1970. 0 = unknown.
    """

    who: str
    remedy: str
    since: float = 0.0

    def __str__(self) -> str:
        since = f" since {iso_time(self.since)}" if self.since else ""
        return f"in use by {self.who}{since}: {self.remedy}"


def owning_client(who: str, application: str = "", instance: str = "", *, lives: bool = True) -> OwnerNote:
    """Returns the note about a client that has claimed messages.

    Args:
        who: the client: ``process 12 on host``.
        application, instance: of an adapter. Empty for another program.
        lives: whether the client lives. Otherwise nobody has taken over from it.
    """
    name = f"the adapter {application!r}, instance {instance!r}, {who}" if application else who
    if lives:
        return OwnerNote(name, "try again when it has settled them")
    return OwnerNote(name, "it has ended; an instance of its adapter takes over and reads its journal")


def owning_lot(name: str, number: object, *holders: str) -> OwnerNote:
    """Returns the note about a lot. ``holders`` are the clients that own its name, at most one."""
    who = ", ".join([f"the lot {number} of {name!r}", *holders])
    return OwnerNote(who, f"connector lot {name} --give-back ends it, when no client owns its name")


def owner_of_lots(client_id: str, who: str, since: float) -> OwnerNote:
    """Returns the note about the client that owns a name of lots. As a text, what follows "the lots are"."""
    return OwnerNote(f"the client {client_id}, {who}", "end that client, or choose another name", since)


def count_owners(notes: Iterable[OwnerNote]) -> list[tuple[OwnerNote, int]]:
    """Returns each owner, with the time of its first message, and the number of its messages."""
    groups = groupby(sorted(notes), key=attrgetter("who"))
    return [(same[0], len(same)) for same in (list(group) for _, group in groups)]


@dataclass(frozen=True, slots=True)
class WaitingNote:
    """The waiting messages of a queue or a subscription.

    Args:
        oldest: time at which the oldest message was sent, in seconds since 1970. None = nothing waits.
        delayed: number of further messages, which wait for their time.
    """

    number: int
    oldest: float | None
    delayed: int = 0
