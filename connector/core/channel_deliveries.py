"""What a channel has delivered and not yet got acknowledged: the DELIVERED state (seed 001, 5.3).

A message is DELIVERED as long as at least one receiver holds it. At the provider each of these is a claim of
this process, made *before* the receiver is asked. So the negative acknowledgement is on record first, and a
positive one, however early, always finds what it cancels (5.3.4).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from enum import Enum
from typing import Final

from connector.core.channel_receiver import Reference
from connector.errors import ClaimLost
from connector.messaging.provider import Claim

_REMEMBERED: Final = 10_000


class Fate(Enum):
    """What has become of a delivery."""

    HELD = "held"
    """A negative acknowledgement is outstanding, or the receiver is being asked."""
    ACKNOWLEDGED = "acknowledged"
    LOST = "lost"
    """Given back, expired, or taken over by another process: an acknowledgement of it means nothing."""


class Delivery:
    """One message at one receiver.

    Args:
        claim: of the provider.
        reference: what the receiver gets.
        receiver_id: who holds it.
    """

    __slots__ = ("claim", "fate", "handling", "logged", "positive", "receiver_id", "reference")

    def __init__(self, claim: Claim, reference: Reference, receiver_id: str) -> None:
        self.claim = claim
        self.reference = reference
        self.receiver_id = receiver_id
        self.fate = Fate.HELD
        self.handling = True
        """The receiver is being asked now."""
        self.positive = False
        """A positive acknowledgement is stored, to be applied when the receiver returns (5.3.4)."""
        self.logged = 0
        """Open transactions in which it is acknowledged (6.2.1)."""

    @property
    def may_come_again(self) -> bool:
        """Whether its receiver can ask for it once more: it has neither acknowledged it nor is at it."""
        return self.fate is Fate.HELD and not (self.handling or self.positive or self.logged)


class Deliveries:
    """The deliveries of one channel. Not thread-safe: the lock of the store is held."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], Delivery] = {}
        self._done: OrderedDict[tuple[str, str], None] = OrderedDict()

    def begin(self, claim: Claim, reference: Reference, receiver_id: str) -> Delivery:
        """Records a claim for a receiver that is about to be asked."""
        key = (reference.message_id, receiver_id)
        self._done.pop(key, None)  # a name may be used again for another message
        delivery = self._held[key] = Delivery(claim, reference, receiver_id)
        return delivery

    def holds(self, message_id: str, receiver_id: str) -> bool:
        """Whether the receiver holds a message of this id already: two of one id come one after the other."""
        return (message_id, receiver_id) in self._held

    def find(self, message_id: str, receiver_id: str) -> Delivery | None:
        """What an acknowledgement is about; None for one that was acknowledged before.

        Duplicates are known for the last 10,000 acknowledgements of the channel.

        Raises:
            ClaimLost: the receiver holds no such message.
        """
        key = (message_id, receiver_id)
        delivery = self._held.get(key)
        if delivery is None and key not in self._done:
            raise ClaimLost(
                f"{receiver_id} cannot acknowledge {message_id or 'a message without id'}: it does not hold "
                "it. It was never delivered to it here, or was given back, has expired, or went to another "
                "process since; unless it has expired, it comes again"
            )
        return delivery

    def end(self, delivery: Delivery, fate: Fate) -> None:
        """The receiver holds the message no more."""
        key = (delivery.reference.message_id, delivery.receiver_id)
        delivery.fate = fate
        self._held.pop(key, None)
        if fate is Fate.ACKNOWLEDGED:
            self._done[key] = None
            if len(self._done) > _REMEMBERED:
                self._done.popitem(last=False)

    def receivers(self, message_id: str) -> frozenset[str]:
        """Who holds the message: the attribute of the DELIVERED state (5.3.1)."""
        return frozenset(receiver for identity, receiver in self._held if identity == message_id)

    def of(self, receiver_id: str) -> list[Delivery]:
        """What one receiver holds, in the order of delivery."""
        return sorted(
            (delivery for delivery in self._held.values() if delivery.receiver_id == receiver_id),
            key=lambda delivery: delivery.reference,
        )

    def __iter__(self) -> Iterator[Delivery]:
        return iter(list(self._held.values()))

    def __len__(self) -> int:
        return len(self._held)
