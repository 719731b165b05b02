"""The queue channel: each message goes to one receiver (JBoss Messaging Core, 5.2.4).

A message waits for a willing receiver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from connector.channels.channel import ChannelOwner, MessageChannel
from connector.channels.delivered import DeliveryResult
from connector.channels.state import MessageState
from connector.core.consumer import SessionConsumer
from connector.core.ledger import Delivery
from connector.core.receiver import Receiver, Reference, Registration
from connector.errors import UnknownDestination
from connector.messaging.destination import Destination
from connector.messaging.message import Message


class QueueChannel(MessageChannel):
    """A queue channel (see :class:`connector.channels.channel.MessageChannel`). Receivers take turns.

    A message that no receiver wants is taken and given back unchanged. If every receiver has a selector, the
    provider leaves such a message in place.
    """

    is_storing_undeliverable = True

    def __init__(self, owner: ChannelOwner, destination: Destination) -> None:
        super().__init__(owner, destination)
        self._registrations: tuple[Registration, ...] = ()
        self._next = 0
        self._consumers: dict[str, SessionConsumer] = {}
        """By the text of the selector."""
        self._is_some_refused = False

    def add_receiver(self, receiver: Receiver, selector: str = "") -> None:
        """Adds a receiver, and attempts delivery of waiting messages.

        Args:
            selector: text of a message selector. The receiver is asked about matching messages only. Empty =
                all.

        Raises:
            ValueError: there is a receiver of this id.
            SelectorError: the selector is not valid.
            SessionStateError: the channel is closed.
        """
        registration = Registration(receiver, selector)
        with self._session.lock:
            self._check_open()
            if any(other.receiver.receiver_id == receiver.receiver_id for other in self._registrations):
                raise ValueError(f"{self.destination} has a receiver {receiver.receiver_id} already")
            self._registrations = (*self._registrations, registration)
        self._deliver_soon()

    def remove_receiver(self, receiver_id: str) -> None:
        with self._session.lock:
            others = tuple(one for one in self._registrations if one.receiver.receiver_id != receiver_id)
            if len(others) == len(self._registrations):
                raise LookupError(f"{self.destination} has no receiver {receiver_id}")
            self._registrations = others

    def _receivers(self, reference: Reference) -> list[Receiver]:
        return [registration.receiver for registration in self._in_turn() if registration.wants(reference)]

    def _in_turn(self) -> list[Registration]:
        with self._session.lock:
            start = self._next % len(self._registrations) if self._registrations else 0
            return [*self._registrations[start:], *self._registrations[:start]]

    def on_sent(self, messages: Sequence[Message]) -> None:
        # without a receiver for these messages, an attempt would take and give back all others
        for message in messages:
            headers = replace(message, body=b"")
            if self._receivers(Reference(headers, partial(replace, message))):
                self._deliver_soon()
                return

    def _deliver_new(self) -> None:
        refused: list[Delivery] = []
        self._is_some_refused = False
        if not self._registrations:
            return
        consumer = self._consumer_for(self._selector())
        try:
            while not self._closed and (delivery := self._take(consumer)) is not None:
                if not self._offer(delivery):
                    refused.append(delivery)  # given back at the end: each message is offered once
        finally:
            self._is_some_refused = bool(refused)
            self._give_back(refused)

    def _has_new(self) -> bool:
        if self._registrations and not self._selector():
            return self._is_some_refused  # the attempt has seen all messages
        delivery = self._take(self._consumer_for(""))
        if delivery is not None:
            self._give_back([delivery])
        return delivery is not None

    def _give_back(self, deliveries: list[Delivery]) -> None:
        """Gives messages back as NEW. If the provider fails, the next attempt gives them back."""
        with self._session.lock:
            for delivery in deliveries:
                self._ledger.give_back_later(delivery)
            self._ledger.give_back_overdue()

    def _offer(self, delivery: Delivery) -> bool:
        """Hands a message to the first willing receiver. Returns whether a receiver has taken it."""
        for registration in self._in_turn():
            if (
                registration.wants(delivery.reference)
                and self._delivered.deliver(registration.receiver, delivery) is DeliveryResult.TAKEN
            ):
                with self._session.lock:
                    if registration in self._registrations:
                        self._next = self._registrations.index(registration) + 1
                return True
        return False

    def _selector(self) -> str:
        """Returns a selector for every message that a receiver may want. Empty = all messages."""
        selectors = [registration.selector for registration in self._registrations]
        if not (self._session.capabilities.selectors and all(selectors)):
            return ""
        return " OR ".join(f"({selector})" for selector in dict.fromkeys(selectors))

    def _consumer_for(self, selector: str) -> SessionConsumer:
        with self._session.lock:
            consumer = self._consumers.get(selector)
            if consumer is None:
                for other in [text for text in self._consumers if text]:  # of earlier receivers
                    self._consumers.pop(other).close()
                consumer = self._consumers[selector] = self._session.consumer(self.destination, selector)
            return consumer

    def _browse(self) -> list[Message]:
        try:
            return self._all_in(self.destination)
        except UnknownDestination:
            return []  # nothing was ever sent to this queue

    def _all_in(self, destination: Destination) -> list[Message]:
        with self._session.lock:
            return list(self._session.connection.browse(destination))

    def _in_state(self, state: MessageState) -> list[Message]:
        with self._session.lock:
            delivered = {delivery.reference.message_id for delivery in self._delivered.all()}
            found = self._browse()
            if found and self._session.capabilities.virtual_destinations:
                in_process = Destination("queue", f"{self.destination.name}~PROCESSING")
                delivered.update(message.message_id or "" for message in self._all_in(in_process))
        return [
            message
            for message in found
            if (message.message_id in delivered) is (state is MessageState.DELIVERED)
        ]

    def _close(self) -> None:
        self._ledger.give_back(self._delivered.all())
        for consumer in self._consumers.values():
            consumer.close()
