"""Information for an operator about a provider at work. Nothing here is a claim or a lock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from connector.messaging.claim import Claim


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
        number: of the batch.
        since: time of the first claim in seconds since 1970. 0 = unknown.
        claims: by sequence.
    """

    client_id: str
    number: int
    since: float
    claims: Mapping[int, Claim]


@dataclass(frozen=True, slots=True)
class WaitingNote:
    """The waiting messages of a queue or a subscription.

    Args:
        number: of the messages.
        oldest: time at which the oldest message was sent, in seconds since 1970. None = nothing waits.
        delayed: number of further messages, which wait for their time.
    """

    number: int
    oldest: float | None
    delayed: int = 0
