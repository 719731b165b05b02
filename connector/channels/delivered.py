"""The DELIVERED messages of a channel and their receivers (JBoss Messaging Core, 5.3 and 6)."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable
from enum import Enum
from typing import Final

from connector.channels.transaction import ChannelTransaction
from connector.core.ledger import Delivery, DeliveryState
from connector.core.receiver import NotAccepted, Receiver
from connector.core.session import CoreSession
from connector.errors import ClaimLost

_log = logging.getLogger("connector.channel")

_REMEMBERED: Final = 10_000
"""Number of acknowledgements of a channel that are remembered, to recognise repeated ones."""


class DeliveryResult(Enum):
    """The result of handing one message to one receiver."""

    TAKEN = "taken"
    """The receiver has acknowledged the message, positively or negatively."""
    REFUSED = "refused"
    """The receiver does not accept the message."""
    BROKEN = "broken"
    """The receiver raised, and has not received the message (JBoss Messaging Core, 5.2)."""


class DeliveredMessages:
    """Hands messages to receivers, and knows the messages of each receiver. Thread-safe.

    A message is claimed *before* the receiver is asked. So the negative acknowledgement is on record first.
    Even an early positive acknowledgement finds the delivery (5.3.4).
    """

    def __init__(self, session: CoreSession) -> None:
        self._session: Final = session
        self._ledger: Final = session.inbox.ledger
        self._held: Final[dict[tuple[str, str], Delivery]] = {}
        """By message id and receiver id."""
        self._acknowledged: Final[OrderedDict[tuple[str, str], None]] = OrderedDict()

    def deliver(self, receiver: Receiver, delivery: Delivery) -> DeliveryResult:
        """Hands a message to a receiver. The message is DELIVERED afterwards unless refused.

        Raises:
            ProviderError: an acknowledgement could not be made. The next attempt repeats the call.
        """
        key = (delivery.reference.message_id, receiver.receiver_id)
        with self._session.lock:
            if key in self._held:
                # another message of the same id, delivered when the receiver has acknowledged the first
                return DeliveryResult.BROKEN
            delivery.receiver_id = receiver.receiver_id
            delivery.begun = 1
            self._acknowledged.pop(key, None)  # another message may have the same id
            self._held[key] = delivery
        result = self._call(receiver, delivery)
        if result is not DeliveryResult.TAKEN:
            with self._session.lock:
                del self._held[key]
                delivery.receiver_id = ""
                delivery.begun = 0
        return result

    def redeliver(self, receiver: Receiver) -> bool:
        """Hands a receiver the held messages once more. Returns whether the receiver has no more messages.

        Raises:
            ProviderError: as :meth:`deliver`.
        """
        with self._session.lock:
            self.expire()
        for delivery in self.held_by(receiver.receiver_id):
            with self._session.lock:
                if not delivery.may_come_again:
                    continue  # acknowledged meanwhile
                delivery.reference = delivery.reference.next_delivery()
                delivery.begun += 1
            self._call(receiver, delivery)  # a receiver that refuses or raises keeps the message
        return not self.held_by(receiver.receiver_id)

    def _call(self, receiver: Receiver, delivery: Delivery) -> DeliveryResult:
        result = DeliveryResult.BROKEN
        positive: bool | None = None
        delivery.is_handled = True
        try:
            positive = receiver.handle(delivery.reference)
            result = DeliveryResult.REFUSED if positive is None else DeliveryResult.TAKEN
        except NotAccepted:
            result = DeliveryResult.REFUSED
        except Exception:
            _log.warning(
                "a receiver raised an exception",
                extra={"receiver": receiver.receiver_id, "reference": repr(delivery.reference)},
                exc_info=True,
            )
        finally:  # an interrupted receiver (Ctrl-C) may have seen the message: a negative acknowledgement
            delivery.is_handled = False
        with self._session.lock:
            if positive or delivery.is_acknowledged:
                self._acknowledge_quietly([delivery])
                result = DeliveryResult.TAKEN
            elif delivery.state is not DeliveryState.OPEN:
                result = DeliveryResult.TAKEN  # acknowledged meanwhile, in a transaction
        return result

    def acknowledge(self, message_id: str, receiver_id: str, transaction: ChannelTransaction | None) -> None:
        """Acknowledges as :meth:`connector.channels.channel.MessageChannel.acknowledge`."""
        key = (message_id, receiver_id)
        with self._session.lock:
            delivery = self._held.get(key)
            if delivery is None:
                if key in self._acknowledged:
                    return
                raise ClaimLost(
                    f"{receiver_id} cannot acknowledge {message_id or 'a message without id'}: the receiver "
                    "does not hold this message. The message was never delivered to this receiver, was given "
                    "back, has expired, or went to another process. Unless it has expired, the message is "
                    "redelivered"
                )
            if transaction is not None:
                transaction.acknowledge(delivery)
            else:
                self._acknowledge(delivery)

    def acknowledge_delivery(self, delivery: Delivery) -> None:
        """Acknowledges a delivery for :meth:`connector.core.receiver.Reference.acknowledge`."""
        self.acknowledge(delivery.reference.message_id, delivery.receiver_id, None)

    def _acknowledge(self, delivery: Delivery) -> None:
        """Cancels the negative acknowledgement. The last positive acknowledgement removes the message."""
        delivery.is_acknowledged = True  # if the provider fails, the next attempt acknowledges
        self._ledger.acknowledge([delivery])

    def _acknowledge_quietly(self, deliveries: Iterable[Delivery]) -> None:
        for delivery in deliveries:
            try:
                self._acknowledge(delivery)
            except ClaimLost as error:
                _log.warning(
                    "this client has lost a claim, so the message may be redelivered",
                    extra={"reference": repr(delivery.reference), "reason": str(error)},
                )

    def acknowledge_overdue(self) -> None:
        """Makes the acknowledgements that the provider could not make when they came."""
        self._acknowledge_quietly([delivery for delivery in self._held.values() if delivery.is_acknowledged])

    def expire(self) -> None:
        """Gives back expired DELIVERED messages (5.3.3), which then expire like NEW messages."""
        expired = [
            delivery
            for delivery in self._held.values()
            if delivery.may_come_again and delivery.reference.has_expired()
        ]
        self._ledger.give_back(expired)

    def remove(self, delivery: Delivery) -> None:
        key = (delivery.reference.message_id, delivery.receiver_id)
        if self._held.get(key) is delivery:
            del self._held[key]
            if delivery.state is DeliveryState.ACKNOWLEDGED:
                self._acknowledged[key] = None
                if len(self._acknowledged) > _REMEMBERED:
                    self._acknowledged.popitem(last=False)

    def held_by(self, receiver_id: str) -> list[Delivery]:
        """Returns the deliveries of one receiver, in the order of delivery."""
        with self._session.lock:
            held = [delivery for delivery in self._held.values() if delivery.receiver_id == receiver_id]
        return sorted(held, key=lambda delivery: delivery.reference)

    def receivers_of(self, message_id: str) -> frozenset[str]:
        """Returns the receivers that have a message (5.3.1)."""
        with self._session.lock:
            return frozenset(receiver for identity, receiver in self._held if identity == message_id)

    def all(self) -> list[Delivery]:
        """Returns all deliveries: a message once for each receiver."""
        with self._session.lock:
            return list(self._held.values())
