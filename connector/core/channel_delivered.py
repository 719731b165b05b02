"""The DELIVERED messages of a channel: what its receivers hold (JBoss Messaging Core, 5.3 and 6)."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable
from enum import Enum
from typing import Final

from connector.core.channel_client import ChannelClient, ChannelDelivery, ChannelTransaction
from connector.core.channel_receiver import NotAccepted, Receiver
from connector.core.ledger import DeliveryState
from connector.errors import ClaimLost

_log = logging.getLogger("connector.channel")

_REMEMBERED: Final = 10_000
"""Acknowledgements of a channel that it remembers, to know one that comes again."""


class DeliveryResult(Enum):
    """What came of handing one message to one receiver."""

    TAKEN = "taken"
    """Acknowledged, positively or negatively."""
    REFUSED = "refused"
    """The receiver does not accept it."""
    BROKEN = "broken"
    """The receiver raised; it has not received the message (JBoss Messaging Core, 5.2)."""


class DeliveredMessages:
    """Hands messages to receivers, and knows which of them each receiver holds. Thread-safe.

    A message is claimed *before* its receiver is asked. So the negative acknowledgement is on record first. A
    positive one, however early, finds the delivery that it is about (5.3.4).
    """

    def __init__(self, client: ChannelClient) -> None:
        self._client: Final = client
        self._held: Final[dict[tuple[str, str], ChannelDelivery]] = {}
        """By message id and receiver id."""
        self._acknowledged: Final[OrderedDict[tuple[str, str], None]] = OrderedDict()

    def deliver(self, receiver: Receiver, delivery: ChannelDelivery) -> DeliveryResult:
        """Hands a message to a receiver. It is DELIVERED from now on, unless the receiver does not take it.

        Raises:
            ProviderError: an acknowledgement could not be made; the next attempt makes it.
        """
        key = (delivery.reference.message_id, receiver.receiver_id)
        with self._client.lock:
            if key in self._held:
                # another message of this id: this one is delivered when the receiver is done with that
                return DeliveryResult.BROKEN
            delivery.receiver_id = receiver.receiver_id
            delivery.begun = 1
            self._acknowledged.pop(key, None)  # a name may be used again for another message
            self._held[key] = delivery
        result = self._call(receiver, delivery)
        if result is not DeliveryResult.TAKEN:
            with self._client.lock:
                del self._held[key]
                delivery.receiver_id = ""
                delivery.begun = 0
        return result

    def redeliver(self, receiver: Receiver) -> bool:
        """Hands a receiver once more what it holds; True where it holds nothing any more.

        Raises:
            ProviderError: as :meth:`deliver`.
        """
        with self._client.lock:
            self.expire()
        for delivery in self.held_by(receiver.receiver_id):
            with self._client.lock:
                if not delivery.may_come_again:
                    continue  # acknowledged meanwhile
                delivery.reference = delivery.reference.again()
                delivery.begun += 1
            self._call(receiver, delivery)  # refused or broken: it still holds it
        return not self.held_by(receiver.receiver_id)

    def _call(self, receiver: Receiver, delivery: ChannelDelivery) -> DeliveryResult:
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
                "a receiver is broken",
                extra={"receiver": receiver.receiver_id, "reference": repr(delivery.reference)},
                exc_info=True,
            )
        finally:  # one that is interrupted (Ctrl-C) may have seen it: a negative acknowledgement
            delivery.is_handled = False
        with self._client.lock:
            if positive or delivery.is_acknowledged:
                self._acknowledge_quietly([delivery])
                result = DeliveryResult.TAKEN
            elif delivery.state is not DeliveryState.OPEN:
                result = DeliveryResult.TAKEN  # it was acknowledged meanwhile, in a transaction
        return result

    def acknowledge(self, message_id: str, receiver_id: str, transaction: ChannelTransaction | None) -> None:
        """See :meth:`connector.core.channel.Channel.acknowledge`."""
        key = (message_id, receiver_id)
        with self._client.lock:
            delivery = self._held.get(key)
            if delivery is None:
                if key in self._acknowledged:
                    return
                raise ClaimLost(
                    f"{receiver_id} cannot acknowledge {message_id or 'a message without id'}: it does not "
                    "hold it. It was never delivered to it here, or was given back, has expired, or went to "
                    "another process since; unless it has expired, it comes again"
                )
            if transaction is not None:
                transaction.log(delivery)
            else:
                self._acknowledge(delivery)

    def _acknowledge(self, delivery: ChannelDelivery) -> None:
        """A positive acknowledgement cancels the negative one. The last of them removes the message."""
        delivery.is_acknowledged = True  # should the provider fail, the next attempt makes it
        self._client.ledger.acknowledge([delivery])

    def _acknowledge_quietly(self, deliveries: Iterable[ChannelDelivery]) -> None:
        for delivery in deliveries:
            try:
                self._acknowledge(delivery)
            except ClaimLost as error:
                _log.warning(
                    "a message is not ours any more and may come again",
                    extra={"reference": repr(delivery.reference), "reason": str(error)},
                )

    def acknowledge_overdue(self) -> None:
        """Makes the acknowledgements that the provider could not make when they came."""
        self._acknowledge_quietly([delivery for delivery in self._held.values() if delivery.is_acknowledged])

    def expire(self) -> None:
        """Removes DELIVERED messages that have expired (5.3.3): given back, they expire as NEW ones do."""
        expired = [
            delivery
            for delivery in self._held.values()
            if delivery.may_come_again and delivery.reference.has_expired()
        ]
        self._client.ledger.give_back(expired)

    def forget(self, delivery: ChannelDelivery) -> None:
        """A delivery has ended."""
        key = (delivery.reference.message_id, delivery.receiver_id)
        if self._held.get(key) is delivery:
            del self._held[key]
            if delivery.state is DeliveryState.ACKNOWLEDGED:
                self._acknowledged[key] = None
                if len(self._acknowledged) > _REMEMBERED:
                    self._acknowledged.popitem(last=False)

    def held_by(self, receiver_id: str) -> list[ChannelDelivery]:
        """The deliveries of one receiver, in the order of delivery."""
        with self._client.lock:
            held = [delivery for delivery in self._held.values() if delivery.receiver_id == receiver_id]
        return sorted(held, key=lambda delivery: delivery.reference)

    def receivers_of(self, message_id: str) -> frozenset[str]:
        """Who holds a message (5.3.1)."""
        with self._client.lock:
            return frozenset(receiver for identity, receiver in self._held if identity == message_id)

    def all(self) -> list[ChannelDelivery]:
        """A message once for each receiver that holds it."""
        with self._client.lock:
            return list(self._held.values())
