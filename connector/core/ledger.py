"""The unsettled deliveries of a client's sessions or channels."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Final

from connector.core.receiver import Reference
from connector.errors import ClaimLost
from connector.messaging.claim import Claim
from connector.messaging.polling import Poller
from connector.messaging.roles import Settling
from connector.messaging.settlement import Prepared, Settlement


class DeliveryState(Enum):
    """The state of a delivery."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    RETURNED = "returned"
    """Given back, expired, or taken over by another client. The delivery can no longer be acknowledged."""


_OPEN: Final = DeliveryState.OPEN


class Delivery:
    """A message on the way to the program: a claim that is not settled yet."""

    state = DeliveryState.OPEN
    begun = 1
    """How often the program has, or may have, seen the message since the claim."""

    # the rest is used by channels only
    reference: Reference
    """The reference that a receiver gets."""
    receiver_id = ""
    """The receiver that has the message. Empty = none, so that the message is NEW."""
    is_handled = False
    """Whether the receiver is handling the message now."""
    is_acknowledged = False
    """Whether the receiver has acknowledged the message. The provider may not have done so yet."""
    in_transactions = 0
    """Number of open transactions that acknowledge the delivery."""
    on_end: Callable[[Delivery], None] | None = None
    """Tells the channel that the delivery has ended."""

    def __init__(self, claim: Claim, poller: Poller) -> None:
        self.claim = claim
        self.poller = poller
        self.settlement = Settlement(claim)
        """What an acknowledgement makes of the message: no copy, unless the program sets another outcome."""

    @property
    def may_come_again(self) -> bool:
        """Whether the receiver can ask for the message once more."""
        is_answered = self.is_handled or self.is_acknowledged or self.in_transactions
        return self.state is DeliveryState.OPEN and not is_answered


class Ledger:
    """The open deliveries of one provider connection, in the order of taking.

    For one thread at a time.

    Args:
        apart: each delivery is a cycle, so that a broker can settle it without the others.
    """

    def __init__(self, connection: Settling, *, apart: bool = False) -> None:
        self._connection = connection
        self._apart = apart
        self._open: dict[int, Delivery] = {}
        self._overdue: list[Delivery] = []
        self._number = 0

    def take(self, poller: Poller, most: int = 1) -> list[Delivery]:
        """Takes the next messages of ``poller`` and returns open deliveries. Empty if no message waits.

        Args:
            most: number of messages. A ledger of cycles takes one.

        Raises:
            ProviderError: the destination cannot be read.
        """
        number = self._number
        if self._apart:
            claims = poller.claim(number, range(number, number + 1))
        else:
            claims = poller.claim(1, range(number, number + most))
        taken = []
        for claim in claims:
            delivery = self._open[claim.sequence] = Delivery(claim, poller)
            taken.append(delivery)
        if taken:
            self._number = claims[-1].sequence + 1
        return taken

    def open(self) -> list[Delivery]:
        """Returns the deliveries that are neither acknowledged nor given back."""
        return list(self._open.values())

    def is_held(self, poller: Poller) -> bool:
        """Whether a message of this poller is open."""
        return any(delivery.poller is poller for delivery in self._open.values())

    def remove(self, delivery: Delivery, state: DeliveryState = DeliveryState.RETURNED) -> None:
        """Removes a delivery whose message is gone or belongs to another client."""
        self._open.pop(delivery.claim.sequence, None)
        delivery.state = state
        if delivery.on_end is not None:
            delivery.on_end(delivery)

    def acknowledge(
        self, deliveries: Iterable[Delivery], sends: Sequence[Prepared] = (), *, fenced: bool = False
    ) -> None:
        """Settles messages as acknowledged and makes ``sends`` visible, all or nothing.

        Args:
            fenced: whether a single lost claim stops the whole operation.

        Raises:
            ClaimLost: another client has a message. A delivery that was acknowledged alone is removed.
            ProviderError: the operation failed. The deliveries stay open.
        """
        chosen = [delivery for delivery in deliveries if delivery.state is _OPEN]
        if not chosen and not sends:
            return
        settlements = [delivery.settlement for delivery in chosen]
        try:
            self._connection.settle(settlements, sends, fenced=fenced)
        except ClaimLost:
            if len(chosen) == 1:
                self.remove(chosen[0])
            raise
        for delivery in chosen:
            self.remove(delivery, DeliveryState.ACKNOWLEDGED)

    def give_back(self, deliveries: Iterable[Delivery], discards: Sequence[Prepared] = ()) -> None:
        """Gives messages back with the count of their deliveries. ``discards`` are never sent.

        A message that another client has taken over comes again without this call.

        Raises:
            ProviderError: the operation failed. Nothing has changed.
        """
        self._return([delivery for delivery in deliveries if delivery.state is _OPEN], discards)

    def give_back_later(self, delivery: Delivery) -> None:
        """Removes a delivery, and gives the message back as soon as the provider works again."""
        self.remove(delivery)
        self._overdue.append(delivery)

    def give_back_overdue(self) -> None:
        """Gives back what :meth:`give_back_later` has noted. Raises ProviderError if that fails."""
        if self._overdue:
            self._return(self._overdue, ())
            self._overdue = []

    def _return(self, returned: list[Delivery], discards: Sequence[Prepared]) -> None:
        settlements = [
            Settlement(one.claim, give_back=True, delivery_count=one.claim.delivery_count + one.begun)
            for one in returned
        ]
        if settlements or discards:
            try:
                self._connection.settle(settlements, discards=discards)
            except ClaimLost:  # the only claim was lost: the discards are still to do
                if discards:
                    # Fails again if this client was taken for dead. The other client then discards the
                    # messages.
                    with contextlib.suppress(ClaimLost):
                        self._connection.settle([], discards=discards)
        for delivery in returned:
            self.remove(delivery)
