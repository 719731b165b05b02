"""What a session has delivered and not yet settled."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

from connector.errors import ClaimLost
from connector.messaging.provider import Claim, Connection, Poller, Prepared, Settlement


class DeliveryState(Enum):
    """What has become of a delivery."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    RETURNED = "returned"


_OPEN: Final = DeliveryState.OPEN


class Delivery:
    """A message on its way to the program: a claim that is not settled yet.

    Args:
        claim: of the provider.
        poller: that took it.
    """

    __slots__ = ("claim", "poller", "state")

    def __init__(self, claim: Claim, poller: Poller) -> None:
        self.claim = claim
        self.poller = poller
        self.state = _OPEN


class Ledger:
    """The open deliveries of one session, in the order in which they were taken."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._open: dict[int, Delivery] = {}
        self._overdue: list[tuple[Delivery, int]] = []
        self._number = 0

    def take(self, poller: Poller) -> Delivery | None:
        """The next message of ``poller``, which is open from now on; None where nothing waits.

        Raises:
            ProviderError: the destination cannot be read.
        """
        number = self._number
        claim = poller.take(1, number)
        if claim is None:
            return None
        self._number = number + 1
        delivery = self._open[number] = Delivery(claim, poller)
        return delivery

    def open(self) -> list[Delivery]:
        """What is neither acknowledged nor given back."""
        return list(self._open.values())

    def is_held(self, poller: Poller) -> bool:
        """Whether something that this poller took is open."""
        return any(delivery.poller is poller for delivery in self._open.values())

    def forget(self, delivery: Delivery, state: DeliveryState = DeliveryState.RETURNED) -> None:
        """It is not ours any more: gone, or somebody else's."""
        delivery.state = state
        self._open.pop(delivery.claim.sequence, None)

    def acknowledge(
        self, deliveries: Iterable[Delivery], sends: Sequence[Prepared] = (), *, fenced: bool = False
    ) -> None:
        """Removes messages from the store and makes ``sends`` visible, all of it or nothing.

        Args:
            fenced: nothing is done when a single one is not ours any more.

        Raises:
            ClaimLost: it is not ours any more; one that was acknowledged alone is forgotten.
            ProviderError: it could not be done; they stay open.
        """
        chosen = [delivery for delivery in deliveries if delivery.state is _OPEN]
        if not chosen and not sends:
            return
        settlements = [Settlement(delivery.claim) for delivery in chosen]
        try:
            self._connection.settle(settlements, sends, fenced=fenced)
        except ClaimLost:
            if len(chosen) == 1:
                self.forget(chosen[0])
            raise
        for delivery in chosen:
            self.forget(delivery, DeliveryState.ACKNOWLEDGED)

    def give_back(self, deliveries: Iterable[Delivery], discards: Sequence[Prepared] = ()) -> None:
        """Messages come again, their delivery count one more; ``discards`` are never sent.

        What is not ours any more comes again without our help.

        Raises:
            ProviderError: it was not possible; all is as it was.
        """
        chosen = [delivery for delivery in deliveries if delivery.state is _OPEN]
        self._return([(delivery, delivery.claim.delivery_count + 1) for delivery in chosen], discards)

    def put_off(self, delivery: Delivery, *, delivered: bool) -> None:
        """Gives it back as soon as the provider works again; it is ours no more for the program.

        Args:
            delivered: whether the program has, or may have, seen it: that counts as a delivery.
        """
        delivery.state = DeliveryState.RETURNED
        self._open.pop(delivery.claim.sequence, None)
        self._overdue.append((delivery, delivery.claim.delivery_count + delivered))

    def give_back_overdue(self) -> None:
        """Gives back what :meth:`put_off` has left; raises ProviderError while that is not possible."""
        if self._overdue:
            self._return(self._overdue, ())
            self._overdue = []

    def _return(self, returned: list[tuple[Delivery, int]], discards: Sequence[Prepared]) -> None:
        settlements = [
            Settlement(delivery.claim, give_back=True, delivery_count=count) for delivery, count in returned
        ]
        if settlements or discards:
            try:
                self._connection.settle(settlements, discards=discards)
            except ClaimLost:  # of a single one: nothing has happened, so the rest is still to do
                if discards:
                    # or this client was taken for dead, and whoever did that deals with all it had
                    with contextlib.suppress(ClaimLost):
                        self._connection.settle([], discards=discards)
        for delivery, _ in returned:
            self.forget(delivery)
