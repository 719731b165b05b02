"""Settlement: the outcome of claims and of prepared messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final

from connector.errors import SettlementError
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.message import PropertyValue


class TransactionRefused(SettlementError):
    """A transaction of a broker was rolled back, and the connection works.

    Args:
        blames: whether the broker has refused a message of the transaction. Otherwise no message is to blame,
            for example because the connection was lost and is there again.
    """

    def __init__(self, text: str, *, blames: bool = True) -> None:
        super().__init__(text)
        self.blames = blames
        self.destinations: Set[Destination] = frozenset()
        """Destinations of the settlements that take no message now. Without that of a reply to a sender."""


class SettlementOpen(SettlementError):
    """Nothing went back, and the caller still has all claims. The caller settles them again, all together.

    A message of the settlement has not come from the broker, or a destination takes nothing now. A broker
    that is silent has not said that a message is gone.

    Args:
        claims: those whose messages have not come. Empty = that is not known.
        refused: claims with a message that the broker refuses for good, each with the reason. Their
            destinations take other messages. Only another settlement ends such a claim.
    """

    def __init__(
        self, text: str, claims: Sequence[Claim] = (), refused: Sequence[tuple[Claim, str]] = ()
    ) -> None:
        super().__init__(text)
        self.claims = claims
        self.refused = refused


@dataclass(slots=True)
class Prepared:
    """A message made but not sent: NOT_COMMITTED until a settlement commits the message.

    Args:
        handle: the provider's own handle, of texts, numbers and sequences. By value the handle contains the
            whole message. Travels to the driver by pickle, or in a journal by JSON. JSON makes a list of
            every sequence.
    """

    handle: Any
    destination: Destination


HISTORY: Final = (
    "connector_origin_destination",
    "connector_origin_subscription",
    "connector_outcome",
    "connector_reason",
    "connector_time",
    "connector_attempts",
    "connector_delivered",
    "connector_retries",
    "connector_duplicate_keys",
    "connector_kind",
    "connector_object",
    "connector_verb",
    "connector_subscription",
    "connector_place",
    "connector_discarded_by",
    "connector_discarded_reason",
    "connector_application",
)
"""The properties by which an adapter notes the outcome of a message in a copy.

A copy has those of its own settlement only, and all other properties of the message.

A copy has the id, the time and the expiration of its message. A broker gives each message a new id and time.
So a remote provider keeps the original id and time in properties, and reads them back.
"""


@dataclass(slots=True)
class Settlement:
    """The outcome of one claim.

    There are three outcomes: a copy (``copy_to``), no copy (``copy_to`` None), or a return to the origin
    (``give_back``, which wins).

    Args:
        copy_to: the destination that gets the message with ``properties`` added.
        properties: of :data:`HISTORY`, for the copy or, with ``give_back``, for the message itself. All are
            strings, but ``int`` for numbers.
        give_back: return the message to the queue.
        stay: with ``give_back``, leave a claim in an in-progress destination to wait there, without an owner,
            until a client adopts the message. Without effect elsewhere.
        delivery_count: the deliveries begun so far, of the message that is given back or of the copy. Less
            than 0 means 0.
        due: with ``give_back`` and without ``stay``, no client gets the message before this time, in
            milliseconds since 1970. 0 = at once. Only with the capability ``retries_later``.
        sends: prepared messages that are sent in the same commit.
        discards: prepared messages that must not be sent.
        published: the duplicate key to remember, if the event counts as published. An event with several
            keys has one on each line. Only an adapter has a window that remembers keys.
        bare: the copy has the body and ``properties`` only, because a broker has refused the whole copy.
        subscription: with a topic as ``copy_to``, the copy is only for this subscription of the topic
            (:attr:`.Claim.subscription`), and for no other. At a broker, an adapter that has the subscription
            as an input takes the copy. That needs the connection of
            :meth:`.provider_kind.AdapterProvider.connect_operator`. Empty = the copy is for all subscriptions
            of the topic.
    """

    claim: Claim
    copy_to: Destination | None = None
    properties: Mapping[str, PropertyValue] = field(default_factory=dict)
    give_back: bool = False
    stay: bool = False
    delivery_count: int = 0
    due: int = 0
    sends: Sequence[Prepared] = ()
    discards: Sequence[Prepared] = ()
    published: str | None = None
    bare: bool = False
    subscription: str = ""


@dataclass(slots=True)
class GroupSettlement:
    """The common outcome of several claims: a copy, or none.

    A group means the same as a :class:`Settlement` of each claim. A provider may settle a group faster. That
    matters for batches in which all events are published.

    Args:
        claims: of any destinations, in any order.
        copy_to: the destination that gets the messages with ``properties`` added. None = no copy.
        properties: of :data:`HISTORY`, for every copy, as in :class:`Settlement`.
        published: the duplicate keys to remember, one for each claim. Empty = none.
    """

    claims: Sequence[Claim]
    copy_to: Destination | None = None
    properties: Mapping[str, PropertyValue] = field(default_factory=dict)
    published: Sequence[str] = ()

    def check(self) -> None:
        """Checks the number of keys.

        Raises:
            ValueError: there are keys, but not one for each claim.
        """
        if self.published and len(self.published) != len(self.claims):
            raise ValueError("a group has as many published keys as claims, or none")

    def each(self) -> list[Settlement]:
        """Returns a settlement of each claim. Raises the error of :meth:`check`."""
        self.check()
        keys: Sequence[str | None] = self.published or [None] * len(self.claims)
        return [
            Settlement(claim, self.copy_to, self.properties, published=key)
            for claim, key in zip(self.claims, keys, strict=True)
        ]


def one_by_one(settlements: Iterable[Settlement | GroupSettlement]) -> list[Settlement]:
    """Returns a settlement of each claim, for a provider without a faster way for groups."""
    found: list[Settlement] = []
    for one in settlements:
        found += one.each() if isinstance(one, GroupSettlement) else (one,)
    return found
