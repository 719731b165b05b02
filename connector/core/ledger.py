"""What a client has taken and not yet settled: the deliveries of sessions and channels."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, TypeVar

from connector.errors import ClaimLost
from connector.messaging.claim import Claim
from connector.messaging.message import Message
from connector.messaging.provider import Connection, MessageAccess, Poller
from connector.messaging.settlement import Prepared, Settlement

_MAX_BODY: Final = 1 << 40


class DeliveryState(Enum):
    """What has become of a delivery."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    RETURNED = "returned"
    """Given back, expired, or taken over by another client: it cannot be acknowledged any more."""


_OPEN: Final = DeliveryState.OPEN


class Delivery:
    """A message on its way to the program: a claim that is not settled yet.

    Args:
        claim: of the provider.
        poller: that took it.
    """

    __slots__ = ("begun", "claim", "poller", "state")

    def __init__(self, claim: Claim, poller: Poller) -> None:
        self.claim = claim
        self.poller = poller
        self.state = _OPEN
        self.begun = 1
        """How often the program has, or may have, seen the message since it was claimed."""

    def end(self, state: DeliveryState) -> None:
        """The ledger says what has become of it."""
        self.state = state


_Delivery = TypeVar("_Delivery", bound=Delivery)


def load(access: MessageAccess, claim: Claim) -> Message:
    """Reads the message of a claim; raises as :meth:`MessageAccess.load`."""
    message = access.load(claim.reference, _MAX_BODY)
    message.destination = str(claim.destination)
    return message


class Ledger:
    """The open deliveries of one provider connection, in the order in which they were taken.

    For one thread at a time.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._open: dict[int, Delivery] = {}
        self._overdue: list[Delivery] = []
        self._number = 0

    def take(self, poller: Poller, kind: type[_Delivery]) -> _Delivery | None:
        """The next message of ``poller``, which is open from now on; None where nothing waits.

        Args:
            kind: the class of the delivery.

        Raises:
            ProviderError: the destination cannot be read.
        """
        number = self._number
        claim = poller.take(1, number)
        if claim is None:
            return None
        self._number = number + 1
        delivery = self._open[number] = kind(claim, poller)
        return delivery

    def open(self) -> list[Delivery]:
        """What is neither acknowledged nor given back."""
        return list(self._open.values())

    def is_held(self, poller: Poller) -> bool:
        """Whether something that this poller took is open."""
        return any(delivery.poller is poller for delivery in self._open.values())

    def forget(self, delivery: Delivery, state: DeliveryState = DeliveryState.RETURNED) -> None:
        """It is not ours any more: gone, or somebody else's."""
        self._open.pop(delivery.claim.sequence, None)
        delivery.end(state)

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
        """Messages come again, each counted as often as it was delivered; ``discards`` are never sent.

        A message that is not ours any more comes again without our help.

        Raises:
            ProviderError: it was not possible; all is as it was.
        """
        self._return([delivery for delivery in deliveries if delivery.state is _OPEN], discards)

    def put_off(self, delivery: Delivery) -> None:
        """Gives a delivery back as soon as the provider works again; the program has it no more."""
        self.forget(delivery)
        self._overdue.append(delivery)

    def give_back_overdue(self) -> None:
        """Gives back what :meth:`put_off` has left; raises ProviderError while that is not possible."""
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
            except ClaimLost:  # of a single one: nothing has happened, so the rest is still to do
                if discards:
                    # or this client was taken for dead, and whoever did that deals with all it had
                    with contextlib.suppress(ClaimLost):
                        self._connection.settle([], discards=discards)
        for delivery in returned:
            self.forget(delivery)
