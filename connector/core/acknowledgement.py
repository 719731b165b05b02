"""When a delivered message is acknowledged: one small policy a mode (JMS Guaranteed Messaging).

A session tells its policy what happens; the policy tells the ledger. TRANSACTED needs none of it: there
everything happens at the commit (:mod:`connector.core.transaction`).
"""

from __future__ import annotations

import time
from typing import Final

from connector.core.ledger import Delivery, DeliveryState, Ledger
from connector.errors import ClaimLost
from connector.messaging.client import AcknowledgeMode

_LAZY_NUMBER: Final = 64
_LAZY_SECONDS: Final = 1.0


class Policy:
    """Acknowledges nothing by itself: the rule of TRANSACTED, and what the others differ from."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def delivered(self, delivery: Delivery) -> None:
        """``receive`` is about to return it, or the listener has returned.

        Raises:
            ClaimLost: it is somebody else's; do not deliver it.
            ProviderError: it could not be acknowledged; the message comes again.
        """

    def acknowledge(self, delivery: Delivery) -> None:
        """The program has called ``acknowledge()`` of the message; raises as that."""

    def idle(self) -> None:
        """Time has passed; raises ProviderError."""

    def closing(self) -> None:
        """The session closes; what is open after this comes again. Raises ProviderError."""


class Auto(Policy):
    """Each message by itself, as the last step of its delivery."""

    def delivered(self, delivery: Delivery) -> None:
        self.ledger.acknowledge([delivery])


class DupsOk(Policy):
    """Some at a time: fewer commits, and after a crash the last ones may come twice."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._pending: list[Delivery] = []
        self._since = 0.0

    def delivered(self, delivery: Delivery) -> None:
        if not self._pending:
            self._since = time.monotonic()
        self._pending.append(delivery)
        if len(self._pending) >= _LAZY_NUMBER:
            self._acknowledge_pending()

    def idle(self) -> None:
        if self._pending and time.monotonic() - self._since >= _LAZY_SECONDS:
            self._acknowledge_pending()

    def closing(self) -> None:
        self._acknowledge_pending()

    def _acknowledge_pending(self) -> None:
        try:
            self.ledger.acknowledge(self._pending)  # those that recover() has given back are left out
        except ClaimLost:
            pass  # a single one that somebody has taken over: it comes twice, as it may
        self._pending = []


class Client(Policy):
    """When the program says so: that message and all that the session has delivered so far."""

    def acknowledge(self, delivery: Delivery) -> None:
        _refuse_returned(delivery)
        if delivery.state is DeliveryState.OPEN:
            self.ledger.acknowledge(self.ledger.open(), fenced=True)


class Individual(Policy):
    """When the program says so: that message and no other."""

    def acknowledge(self, delivery: Delivery) -> None:
        _refuse_returned(delivery)
        self.ledger.acknowledge([delivery], fenced=True)


def _refuse_returned(delivery: Delivery) -> None:
    if delivery.state is DeliveryState.RETURNED:
        raise ClaimLost(
            f"the message {delivery.claim.message_id} of {delivery.claim.destination} was given back and "
            "comes again: acknowledge it then"
        )


POLICIES: Final[dict[AcknowledgeMode, type[Policy]]] = {
    AcknowledgeMode.AUTO: Auto,
    AcknowledgeMode.DUPS_OK: DupsOk,
    AcknowledgeMode.CLIENT: Client,
    AcknowledgeMode.INDIVIDUAL: Individual,
    AcknowledgeMode.TRANSACTED: Policy,
}
