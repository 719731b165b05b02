"""Handing messages to receivers, and what they answer (seed 001, 5.2, 5.3 and 6)."""

from __future__ import annotations

import logging
from enum import Enum

from connector.core.channel_deliveries import Deliveries, Delivery, Fate
from connector.core.channel_receiver import NotAccepted, Receiver, Reference
from connector.core.channel_store import ChannelStore
from connector.core.channel_transaction import ChannelTransaction
from connector.errors import ClaimLost
from connector.messaging.provider import Claim

_log = logging.getLogger("connector.channel")


class Answer(Enum):
    """What came of handing one message to one receiver."""

    TAKEN = "taken"
    """Acknowledged, positively or negatively."""
    REFUSED = "refused"
    """The receiver does not accept it."""
    BROKEN = "broken"
    """The receiver raised; it has not received the message (seed 001, 5.2)."""


class Delivered:
    """The DELIVERED messages of a channel in this process, and every way into that state and out of it.

    Thread-safe; no lock is held while a receiver handles a message.
    """

    def __init__(self, store: ChannelStore) -> None:
        self._store = store
        self._deliveries = Deliveries()

    def hand(self, receiver: Receiver, claim: Claim, reference: Reference) -> Answer:
        """Hands a claimed message to a receiver; it is DELIVERED from now on, or, where not taken, as before.

        Raises:
            ProviderError: an acknowledgement could not be made; :meth:`make_up` makes it.
        """
        with self._store.lock:
            if self._deliveries.holds(reference.message_id, receiver.receiver_id):
                return Answer.BROKEN  # another message of this id: its turn comes when that is done with
            delivery = self._deliveries.begin(claim, reference, receiver.receiver_id)
        answer = self._ask(receiver, delivery)
        if answer is not Answer.TAKEN:
            with self._store.lock:
                self._deliveries.end(delivery, Fate.LOST)
        return answer

    def again(self, receiver: Receiver) -> bool:
        """Hands a receiver once more what it holds; True where it holds nothing any more.

        Raises:
            ProviderError: as of :meth:`hand`.
        """
        self.expire()
        for delivery in self.of(receiver.receiver_id):
            with self._store.lock:
                if not delivery.may_come_again:
                    continue  # acknowledged meanwhile
                delivery.reference = delivery.reference.again()
                delivery.handling = True
            self._ask(receiver, delivery)  # refused or broken: it still holds it
        return not self.of(receiver.receiver_id)

    def _ask(self, receiver: Receiver, delivery: Delivery) -> Answer:
        answer = Answer.BROKEN
        positive: bool | None = None
        try:
            positive = receiver.handle(delivery.reference)
            answer = Answer.REFUSED if positive is None else Answer.TAKEN
        except NotAccepted:
            answer = Answer.REFUSED
        except Exception:
            _log.warning(
                "a receiver is broken",
                extra={"receiver": receiver.receiver_id, "reference": repr(delivery.reference)},
                exc_info=True,
            )
        finally:  # one that is interrupted (Ctrl-C) may have seen it: a negative acknowledgement
            with self._store.lock:
                delivery.handling = False
                delivery.positive = delivery.positive or bool(positive)
        with self._store.lock:
            if delivery.positive and delivery.fate is Fate.HELD:
                answer = Answer.TAKEN
                try:
                    self._settle(delivery)
                except ClaimLost as error:
                    _log.warning(
                        "a message is not ours any more and may come again",
                        extra={"reference": repr(delivery.reference), "reason": str(error)},
                    )
        return answer

    def acknowledge(
        self, message_id: str, receiver_id: str, transaction: ChannelTransaction | None = None
    ) -> None:
        """See :meth:`connector.core.channel.Channel.acknowledge`."""
        with self._store.lock:
            delivery = self._deliveries.find(message_id, receiver_id)
            if delivery is None:
                return
            if transaction is not None:
                transaction.acknowledge(self._deliveries, delivery)
            elif delivery.handling:
                delivery.positive = True
            else:
                self._settle(delivery)

    def _settle(self, delivery: Delivery) -> None:
        """A positive acknowledgement cancels the negative one; with the last of them the message is gone."""
        delivery.positive = True  # should the provider fail, make_up() finds it
        try:
            self._store.acknowledge(delivery.claim)
        except ClaimLost:
            self._deliveries.end(delivery, Fate.LOST)
            raise
        self._deliveries.end(delivery, Fate.ACKNOWLEDGED)

    def make_up(self) -> None:
        """Makes the acknowledgements that the provider could not make when they came.

        Raises:
            ProviderError: it still cannot.
        """
        with self._store.lock:
            for delivery in self._deliveries:
                if delivery.positive and not delivery.handling:
                    try:
                        self._settle(delivery)
                    except ClaimLost as error:
                        _log.warning(
                            "a message is not ours any more and may come again",
                            extra={"reference": repr(delivery.reference), "reason": str(error)},
                        )

    def expire(self) -> None:
        """Removes those that have expired (5.3.3): given back, they expire as NEW ones do.

        Raises:
            ProviderError: they cannot be given back.
        """
        with self._store.lock:
            for delivery in self._deliveries:
                if delivery.may_come_again and delivery.reference.has_expired():
                    self._store.give_back([(delivery.claim, delivery.reference.delivery_count)])
                    self._deliveries.end(delivery, Fate.LOST)

    def drop(self, receiver_id: str) -> None:
        """Acknowledges what a receiver holds for it: nobody is left to want it.

        Raises:
            ProviderError: it cannot.
        """
        with self._store.lock:
            for delivery in self.of(receiver_id):
                try:
                    self._settle(delivery)
                except ClaimLost:
                    pass  # nor is it ours to drop

    def give_back(self) -> None:
        """All of it is NEW again, as messages that were delivered before.

        Raises:
            ProviderError: it cannot be given back.
        """
        with self._store.lock:
            held = list(self._deliveries)
            self._store.give_back((delivery.claim, delivery.reference.delivery_count) for delivery in held)
            for delivery in held:
                self._deliveries.end(delivery, Fate.LOST)

    def of(self, receiver_id: str) -> list[Delivery]:
        """What one receiver holds, in the order of delivery."""
        with self._store.lock:
            return self._deliveries.of(receiver_id)

    def receivers(self, message_id: str) -> frozenset[str]:
        """Who holds a message (5.3.1)."""
        with self._store.lock:
            return self._deliveries.receivers(message_id)

    def references(self) -> list[Reference]:
        """All of them; a message once for each receiver that holds it."""
        with self._store.lock:
            return [delivery.reference for delivery in self._deliveries]
