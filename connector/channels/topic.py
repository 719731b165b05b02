"""The topic channel: each message goes to every receiver (JBoss Messaging Core, 5.2.4).

Each receiver has a subscription at the provider, which holds a share of every message. A message is
DELIVERED while at least one receiver has a share. The message leaves the channel with the last share.
"""

from __future__ import annotations

from collections.abc import Iterable

from connector.channels.channel import ChannelOwner, MessageChannel
from connector.channels.delivered import DeliveryResult
from connector.channels.state import MessageState
from connector.core.consumer import SessionConsumer
from connector.core.ledger import Delivery
from connector.core.receiver import Receiver, Reference, Registration
from connector.errors import ClaimLost
from connector.messaging.destination import Destination
from connector.messaging.message import Message


class _Share(Registration):
    """One receiver and its messages."""

    def __init__(self, receiver: Receiver, selector: str, consumer: SessionConsumer, durable: bool) -> None:
        super().__init__(receiver, selector)
        self.consumer = consumer
        self.durable = durable
        self.removed = False
        self.waiting: list[Delivery] = []
        """NEW messages that were taken for this receiver, which is broken."""


class TopicChannel(MessageChannel):
    """A topic channel (see :class:`connector.channels.channel.MessageChannel`).

    A message that a receiver does not accept is discarded for this receiver.
    """

    is_storing_undeliverable = False

    def __init__(self, owner: ChannelOwner, destination: Destination) -> None:
        super().__init__(owner, destination)
        self._shares: tuple[_Share, ...] = ()

    def add_receiver(self, receiver: Receiver, selector: str = "", *, durable: bool = False) -> None:
        """Adds a receiver, which gets a share of every message sent from now on.

        Args:
            selector: text of a message selector. The receiver gets matching messages only. Empty = all.
            durable: whether the share is kept while the receiver is away. The share is found by the receiver
                id and the client id of the channels, and ends with :meth:`unsubscribe`.

        Raises:
            ValueError: there is a receiver of this id, or it still has messages that it got with another
                selector.
            SelectorError: the selector is not valid.
            SubscriptionError: there is no client id, or another subscription is in the way.
            SessionStateError: the channel is closed.
            ProviderError: the subscription cannot be made.
        """
        with self._session.lock:
            self._check_open()
            share = self._find(receiver.receiver_id)
            if share is None:
                self._shares = (*self._shares, self._subscribe(receiver, selector, durable))
            elif not share.removed:
                raise ValueError(f"{self.destination} has a receiver {receiver.receiver_id} already")
            elif share.selector != selector:
                raise ValueError(
                    f"{receiver.receiver_id} still holds messages of {self.destination} that it got with the "
                    f"selector {share.selector!r}: acknowledge them before you change the selector"
                )
            else:
                share.receiver, share.removed = receiver, False
        self._deliver_soon()

    def _subscribe(self, receiver: Receiver, selector: str, durable: bool) -> _Share:
        session, topic = self._session, self.destination
        if durable:
            consumer = session.durable_consumer(topic, receiver.receiver_id, selector)
        else:
            consumer = session.consumer(topic, selector)
        return _Share(receiver, selector, consumer, durable)

    def remove_receiver(self, receiver_id: str) -> None:
        with self._session.lock:
            share = self._find(receiver_id)
            if share is None or share.removed:
                raise LookupError(f"{self.destination} has no receiver {receiver_id}")
            share.removed = True
        self._deliver_soon()

    def unsubscribe(self, receiver_id: str) -> None:
        """Ends the subscription of a durable receiver that was removed.

        Raises:
            SubscriptionError: there is no such subscription, or its receiver was not removed, or has
                messages.
        """
        self._session.unsubscribe(receiver_id)

    def _receivers(self, reference: Reference) -> list[Receiver]:
        return [share.receiver for share in self._shares if not share.removed and share.wants(reference)]

    def _find(self, receiver_id: str) -> _Share | None:
        return next((share for share in self._shares if share.receiver.receiver_id == receiver_id), None)

    def _deliver_new(self) -> None:
        for share in self._shares:
            if share.removed:
                self._drain(share)
            else:
                self._deliver_share(share)

    def _has_new(self) -> bool:
        return any(share.waiting for share in self._shares)

    def _deliver_share(self, share: _Share) -> None:
        waiting: list[Delivery] = []
        try:
            while not (self._closed or share.removed) and (delivery := self._next_of(share)) is not None:
                waiting.append(delivery)
                if delivery.reference.has_expired():
                    with self._session.lock:
                        self._ledger.give_back([delivery])  # the provider then handles its expiration
                    waiting.pop()
                    continue
                result = DeliveryResult.REFUSED
                if share.wants(delivery.reference):
                    result = self._delivered.deliver(share.receiver, delivery)
                if result is DeliveryResult.REFUSED:
                    self._discard([delivery])
                if result is not DeliveryResult.BROKEN:
                    waiting.pop()
        finally:
            share.waiting = waiting + share.waiting

    def _next_of(self, share: _Share) -> Delivery | None:
        """Returns the next NEW message of a share. Messages that have waited come first."""
        with self._session.lock:
            return share.waiting.pop(0) if share.waiting else self._take(share.consumer)

    def _discard(self, deliveries: Iterable[Delivery]) -> None:
        with self._session.lock:
            for delivery in deliveries:
                try:
                    self._ledger.acknowledge([delivery])
                except ClaimLost:
                    pass  # another client has the message now

    def _drain(self, share: _Share) -> None:
        """Ends the share of a removed receiver once the receiver has no more messages."""
        with self._session.lock:
            self._drop_waiting(share)
            if share.removed and not self._delivered.held_by(share.receiver.receiver_id):
                share.consumer.close()
                self._shares = tuple(other for other in self._shares if other is not share)

    def _drop_waiting(self, share: _Share) -> None:
        """Discards the waiting messages of a removed receiver. Keeps the messages of a durable receiver."""
        if share.durable:
            self._ledger.give_back(share.waiting)
        else:
            while (delivery := self._next_of(share)) is not None:
                self._discard([delivery])
        share.waiting = []

    def _new(self) -> list[Reference]:
        """Returns the NEW messages. Takes all messages of the receivers to see them."""
        for share in self._shares:
            if not share.removed:
                while (delivery := self._take(share.consumer)) is not None:
                    share.waiting.append(delivery)
        return [delivery.reference for share in self._shares for delivery in share.waiting]

    def _browse(self) -> list[Message]:
        with self._session.lock:
            delivered = [delivery.reference for delivery in self._delivered.all()]
            return _load_each([*self._new(), *delivered])

    def _in_state(self, state: MessageState) -> list[Message]:
        with self._session.lock:
            new = self._new()
            delivered = [delivery.reference for delivery in self._delivered.all()]
            if state is MessageState.DELIVERED:
                return _load_each(delivered)
            held = {reference.message_id for reference in delivered}
            return _load_each([reference for reference in new if reference.message_id not in held])

    def _close(self) -> None:
        for share in self._shares:
            self._drop_waiting(share)
            if not share.durable:
                self._discard(self._delivered.held_by(share.receiver.receiver_id))
        self._ledger.give_back(self._delivered.all())
        for share in self._shares:
            share.consumer.close()
        self._shares = ()


def _load_each(references: list[Reference]) -> list[Message]:
    """Returns each message once, in the order of delivery."""
    found: dict[str, Message] = {}
    for reference in sorted(references):
        if reference.message_id not in found:
            try:
                found[reference.message_id] = reference.load()
            except LookupError:
                continue  # taken away by hand
    return list(found.values())
