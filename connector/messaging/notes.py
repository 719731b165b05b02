"""What an operator is told about a provider while others work: nothing here is a claim, or binds anybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from connector.messaging.claim import Claim


class ClientState(Enum):
    """Whether a client lives."""

    ALIVE = "alive"
    DEAD = "dead"
    """Its process is gone; somebody takes over from it."""
    DECLARED_DEAD = "declared dead"
    """An operator has said so. Its process may be there all the same."""


@dataclass(frozen=True, slots=True)
class ClientNote:
    """A client of a provider, as others see it.

    Args:
        client_id: names it in claims.
        application, instance: of an adapter; empty for a client that is none.
        host, pid: where it runs.
        since: when it connected, in seconds since 1970; 0 where that is not known.
        state: whether it lives.
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
        client_id: whose they are.
        number: of the batch.
        since: when its first message was claimed, in seconds since 1970; 0 where that is not known.
        claims: by sequence.
    """

    client_id: str
    number: int
    since: float
    claims: Mapping[int, Claim]


@dataclass(frozen=True, slots=True)
class WaitingNote:
    """What waits in a queue or a subscription.

    Args:
        number: of the messages.
        oldest: when the oldest of them was sent, in seconds since 1970; None where nothing waits.
    """

    number: int
    oldest: float | None
