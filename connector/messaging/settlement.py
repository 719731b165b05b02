"""Settlement: what is to become of claims and of prepared messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.message import PropertyValue


@dataclass(slots=True)
class Prepared:
    """A message made but not sent: NOT_COMMITTED until settlement commits it.

    Args:
        handle: the provider's own, of texts, numbers and sequences; the whole message where a provider works
            by value. It travels to the driver by pickle, or in a journal by JSON, which makes a list of every
            sequence.
        destination: where it will be sent.
    """

    handle: Any
    destination: Destination


HISTORY: Final = (
    "connector_origin_destination",
    "connector_outcome",
    "connector_reason",
    "connector_time",
    "connector_attempts",
    "connector_delivered",
)
"""The properties by which an adapter says in a copy what became of the message.

A copy has those of its settlement alone. It inherits none of them, but all other properties.

A copy has the id, the time and the expiration of its message. A broker gives each message a new id and time.
So a remote provider keeps those of the message in properties, and reads them back.
"""


@dataclass(slots=True)
class Settlement:
    """What is to become of one claim.

    Exactly one of three: a copy (``copy_to``), no copy (``copy_to`` None), or back to where it came
    from (``give_back``, which wins).

    Args:
        claim: the claim.
        copy_to: the destination that gets the message with ``properties`` added.
        properties: of :data:`HISTORY`, for the copy or, with ``give_back``, for the message itself. All are
            strings, but ``int`` for numbers.
        give_back: return it to its queue.
        stay: with ``give_back``, a claim in an in-progress destination waits there, without an owner, until
            somebody adopts it. Means nothing elsewhere.
        delivery_count: with ``give_back``, the deliveries begun so far; less than 0 is 0.
        sends: prepared messages that are sent in the same commit.
        discards: prepared messages that must not be sent.
        published: duplicate key to remember, where the event counts as published. Only an adapter has a
            window that remembers it.
    """

    claim: Claim
    copy_to: Destination | None = None
    properties: Mapping[str, PropertyValue] = field(default_factory=dict)
    give_back: bool = False
    stay: bool = False
    delivery_count: int = 0
    sends: Sequence[Prepared] = ()
    discards: Sequence[Prepared] = ()
    published: str | None = None


@dataclass(slots=True)
class GroupSettlement:
    """What is to become of several claims that are settled alike: a copy, or none.

    It means the same as a :class:`Settlement` of each claim, and a provider may have a quicker way. That
    matters for batches in which all events are published.

    Args:
        claims: of any destinations, in any order.
        copy_to: the destination that gets the messages with ``properties`` added; None = no copy.
        properties: of :data:`HISTORY`, for every copy, as in :class:`Settlement`.
        published: the duplicate keys to remember, one for each claim; empty = none.
    """

    claims: Sequence[Claim]
    copy_to: Destination | None = None
    properties: Mapping[str, PropertyValue] = field(default_factory=dict)
    published: Sequence[str] = ()

    def each(self) -> list[Settlement]:
        """The settlements that mean the same."""
        keys: Sequence[str | None] = self.published or [None] * len(self.claims)
        return [
            Settlement(claim, self.copy_to, self.properties, published=key)
            for claim, key in zip(self.claims, keys, strict=True)
        ]


def one_by_one(settlements: Iterable[Settlement | GroupSettlement]) -> list[Settlement]:
    """A settlement for each claim, for a provider that has no quicker way for groups."""
    found: list[Settlement] = []
    for one in settlements:
        found += one.each() if isinstance(one, GroupSettlement) else (one,)
    return found
