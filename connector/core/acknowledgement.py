"""The acknowledge modes: a small policy for each mode (JMS Guaranteed Messaging).

A session reports deliveries to its policy, and the policy acknowledges them in the ledger. TRANSACTED needs
no policy, because the commit acknowledges (:mod:`connector.core.transaction`).
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
    """The policy of TRANSACTED, which acknowledges nothing by itself, and the base of all policies."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def on_delivery(self, delivery: Delivery) -> None:
        """Called before ``receive`` returns the message, or after the listener has returned.

        Raises:
            ClaimLost: another client has the message. Do not deliver the message.
            ProviderError: the message could not be acknowledged, and comes again.
        """

    def acknowledge(self, delivery: Delivery) -> None:
        """Called for ``acknowledge()`` of a message, and raises the same errors."""

    def on_idle(self) -> None:
        """Called from time to time. Raises ProviderError."""

    def on_close(self) -> None:
        """Called before the session closes.

        Deliveries that are open afterwards come again. Raises ProviderError.
        """


class AutoPolicy(Policy):
    """Acknowledges each message alone, as the last step of its delivery."""

    def on_delivery(self, delivery: Delivery) -> None:
        self.ledger.acknowledge([delivery])


class DupsOkPolicy(Policy):
    """Acknowledges several messages at a time: fewer commits, but after a crash some may come twice."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._pending: list[Delivery] = []
        self._since = 0.0

    def on_delivery(self, delivery: Delivery) -> None:
        if not self._pending:
            self._since = time.monotonic()
        self._pending.append(delivery)
        if len(self._pending) >= _LAZY_NUMBER:
            self._acknowledge_pending()

    def on_idle(self) -> None:
        if self._pending and time.monotonic() - self._since >= _LAZY_SECONDS:
            self._acknowledge_pending()

    def on_close(self) -> None:
        self._acknowledge_pending()

    def _acknowledge_pending(self) -> None:
        try:
            self.ledger.acknowledge(self._pending)  # without messages that recover() has given back
        except ClaimLost:
            pass  # another client has taken over a message, so that it comes twice, as allowed
        self._pending = []


class ClientPolicy(Policy):
    """When the program acknowledges a message, acknowledges all messages that the session has delivered."""

    def acknowledge(self, delivery: Delivery) -> None:
        _refuse_returned(delivery)
        if delivery.state is DeliveryState.OPEN:
            self.ledger.acknowledge(self.ledger.open(), fenced=True)


class IndividualPolicy(Policy):
    """When the program acknowledges a message, acknowledges that message only."""

    def acknowledge(self, delivery: Delivery) -> None:
        _refuse_returned(delivery)
        self.ledger.acknowledge([delivery], fenced=True)


def _refuse_returned(delivery: Delivery) -> None:
    if delivery.state is DeliveryState.RETURNED:
        raise ClaimLost(
            f"the message {delivery.claim.message_id} of {delivery.claim.destination} was given back: "
            "acknowledge the message when it is redelivered"
        )


POLICIES: Final[dict[AcknowledgeMode, type[Policy]]] = {
    AcknowledgeMode.AUTO: AutoPolicy,
    AcknowledgeMode.DUPS_OK: DupsOkPolicy,
    AcknowledgeMode.CLIENT: ClientPolicy,
    AcknowledgeMode.INDIVIDUAL: IndividualPolicy,
    AcknowledgeMode.TRANSACTED: Policy,
}
