"""The channel: takes messages from senders, hands them to receivers (JBoss Messaging Core, 2 and 5 to 7).

This is what queue and topic have in common. They decide which receiver gets which message.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from connector.core.channel_client import ChannelClient, ChannelDelivery, ChannelTransaction
from connector.core.channel_delivered import DeliveredMessages
from connector.core.channel_receiver import Filter, NotAccepted, Receiver, Reference
from connector.core.fair_lock import FairLock
from connector.core.state import MessageState
from connector.errors import CapabilityError, ProviderError, SessionStateError
from connector.messaging.destination import Destination
from connector.messaging.message import PERSISTENT, Message
from connector.messaging.provider import Poller

_log = logging.getLogger("connector.channel")


class Channel(ABC):
    """Forwards messages to receivers, and is one itself: channels may be chained. Thread-safe.

    An *asynchronous* channel, the normal one, stores a message first and then attempts delivery; its
    sender is told that it was stored. A *synchronous* one stores nothing: it hands the message to its
    receivers while the sender waits and returns their acknowledgement, and what to do with a rejected
    message is the sender's decision (JBoss Messaging Core, 2).

    The channel attempts delivery of a NEW message whenever one is sent to it in this process, a receiver is
    added, or :meth:`deliver` is called; the last also finds what other processes have sent, since channels of
    one name on one provider are one distributed channel (2.3). It never delivers a DELIVERED message again by
    itself (5.3.3). Delivery runs in the caller's thread. Where one thread is delivering, another that sends
    leaves its message to it and goes on; so does a receiver that sends.

    Made by :class:`connector.core.channels.Channels`.
    """

    is_storing_undeliverable: bool
    """Whether a message that no receiver accepts is kept (5.2.4, 7.3): a queue does; a topic discards it, and
    acknowledges it all the same."""

    def __init__(self, client: ChannelClient, destination: Destination) -> None:
        self.destination: Final = destination
        self.is_synchronous = False
        self._client: Final = client
        self._delivered: Final = DeliveredMessages(client)
        self._delivering: Final = FairLock()
        """Held by the thread that delivers, so that the order holds (9)."""
        self._is_asked = False
        """Whether somebody has asked for an attempt that has not begun."""
        self._closed = False
        self._ended = False
        client.listeners[destination] = self._sent

    # -- what it is able to do -------------------------------------------------------------------------

    @property
    def receiver_id(self) -> str:
        """Its name where it is the receiver of another channel."""
        return str(self.destination)

    @property
    def is_reliable(self) -> bool:
        """Whether persistent messages survive a crash in it (2.1, 7.1)."""
        return self._client.capabilities.reliable

    @property
    def is_transactional(self) -> bool:
        """Whether it takes messages and acknowledgements in a transaction (2.2, 7.2)."""
        return not self.is_synchronous

    @property
    def is_closed(self) -> bool:
        return self._closed

    def refusal(self, message: Message) -> str:
        """Why it would not take responsibility for a message, and what to do; empty where it would."""
        if message.delivery_mode == PERSISTENT and not (self.is_reliable or self.is_synchronous):
            return (
                f"{self.destination} is not reliable and takes no persistent message: "
                "send it non-persistent, or use a provider that is reliable"
            )
        return ""

    def accepts(self, reference: Reference) -> bool:
        """As a receiver of another channel."""
        return not self._closed and not self.refusal(reference.headers)

    # -- receivers -------------------------------------------------------------------------------------

    @abstractmethod
    def remove_receiver(self, receiver_id: str) -> None:
        """Hands it nothing more. What it holds it may still acknowledge, or ask for again.

        Raises:
            LookupError: there is no such receiver.
        """

    @abstractmethod
    def _receivers(self, reference: Reference) -> list[Receiver]:
        """Whom a synchronous channel hands a message to."""

    # -- sending ---------------------------------------------------------------------------------------

    def handle(
        self, routable: Message | Reference, transaction: ChannelTransaction | None = None
    ) -> bool | None:
        """Takes a message from a sender.

        Args:
            routable: a message, which gets its id; or a reference of another channel, which is loaded and
                sent on as a new message.
            transaction: the message is NOT_COMMITTED until it ends.

        Returns:
            True: the channel is responsible for it now; from a synchronous one: its receivers are. False,
            from a synchronous channel only: it was rejected, or not delivered. None: the channel takes no
            responsibility, it stays the sender's; :meth:`refusal` says why.

        Raises:
            CapabilityError: a synchronous channel, in a transaction.
            TransactionRolledBack: another message of the transaction has expired.
            SessionStateError: the channel is closed, or the transaction has ended.
            ProviderError: nothing was sent.
        """
        self._check_open()
        message = routable
        if isinstance(message, Reference):
            message = replace(message.load(), message_id=None, delivery_count=1)
        if reason := self.refusal(message):
            _log.warning("a message is not taken", extra={"reason": reason})
            return None
        if self.is_synchronous:
            if transaction is not None:
                raise CapabilityError(
                    f"{self.destination} is synchronous and stores nothing, not even until a commit: "
                    "send without a transaction, or make it asynchronous"
                )
            return self._handle_synchronously(message)
        if transaction is None:
            self._client.send(self.destination, message)
        else:
            transaction.send(self.destination, [message])
        return True

    def _handle_synchronously(self, message: Message) -> bool:
        reference = Reference(replace(message, body=b""), partial(replace, message))
        with self._turn():
            positive = []
            for receiver in self._receivers(reference):
                try:
                    answer = receiver.handle(reference)
                except NotAccepted:
                    answer = None
                except Exception:
                    _log.warning(
                        "a receiver is broken", extra={"receiver": receiver.receiver_id}, exc_info=True
                    )
                    answer = None
                positive.append(answer)
                if answer is not None and self.is_storing_undeliverable:
                    break  # a queue has one receiver for a message
        if self.is_storing_undeliverable:
            return positive[-1:] == [True]
        return all(positive)

    # -- delivery --------------------------------------------------------------------------------------

    def deliver(self) -> bool:
        """Attempts delivery of every NEW message (7.4), those that come meanwhile included.

        Returns:
            True exactly where no NEW message remains. NOT_COMMITTED and DELIVERED ones do not matter. Called
            by a receiver while it handles a message: False, the delivery goes on after it has returned.

        Raises:
            SessionStateError: it is closed.
            ProviderError: the provider failed; what is left undone is made up for at the next delivery.
        """
        self._check_open()
        if self._delivering.is_mine:
            self._is_asked = True
            return False
        self._client.take_over_if_due()
        with self._turn():
            self._attempt()
            return not (self._closed or self._has_new())

    def redeliver(self, receiver: Receiver) -> bool:
        """Delivers again what the receiver holds, in order, flagged as redelivered (7.5).

        It may be a receiver that was removed. Only what it held when this began; NEW ones are not touched.

        Returns:
            Whether it holds nothing any more.

        Raises:
            SessionStateError: the channel is closed.
            ProviderError: an acknowledgement could not be made; it is made at the next delivery.
        """
        self._check_open()
        with self._turn():
            return self._delivered.redeliver(receiver)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """This thread delivers. Then it does what others have asked for meanwhile."""
        try:
            with self._delivering:
                yield
        finally:
            self._deliver_as_asked()

    def _deliver_soon(self) -> None:
        """Attempts delivery, or leaves it to the thread that is at it."""
        self._is_asked = True
        self._deliver_as_asked()

    def _deliver_as_asked(self) -> None:
        while self._is_asked and not self._delivering.is_mine and self._delivering.try_acquire():
            try:
                self._is_asked = False
                if not self._closed:
                    self._attempt()
            except (ProviderError, SessionStateError) as error:  # not the affair of whoever has sent
                _log.warning(
                    "delivery failed, and is attempted again later",
                    extra={"destination": str(self.destination), "reason": str(error)},
                )
            finally:
                self._delivering.release()

    def _sent(self, messages: Sequence[Message]) -> None:
        """This process has sent messages to the channel."""
        self._deliver_soon()

    def _attempt(self) -> None:
        """Attempts delivery of NEW messages, in the turn of this thread."""
        with self._client.lock:
            self._client.ledger.give_back_overdue()
            self._delivered.acknowledge_overdue()
            self._delivered.expire()
        self._deliver_new()

    @abstractmethod
    def _deliver_new(self) -> None: ...

    @abstractmethod
    def _has_new(self) -> bool:
        """Whether a NEW message remains, after :meth:`_deliver_new`."""

    def _take(self, poller: Poller) -> ChannelDelivery | None:
        """The next message of a poller, which no receiver has yet; None where none waits."""
        with self._client.lock:
            delivery = self._client.take(poller)
            if delivery is not None:
                claim = delivery.claim
                load = partial(self._client.load, claim)
                delivery.reference = Reference(claim.headers(), load, claim.delivery_count + 1)
                delivery.on_end = self._delivered.forget
            return delivery

    # -- acknowledgement -------------------------------------------------------------------------------

    def acknowledge(
        self, message_id: str, receiver_id: str, transaction: ChannelTransaction | None = None
    ) -> None:
        """Acknowledges positively what a receiver holds (6.2). The same again is ignored.

        Args:
            message_id, receiver_id: of the delivery. While it is under way, what the receiver returns
                changes nothing (5.3.4).
            transaction: it is only logged until that commits (6.2.1).

        Raises:
            ClaimLost: the receiver does not hold the message, or it went to another process.
            TransactionRolledBack: a message sent in the transaction has expired.
            SessionStateError: the channel is closed, or the transaction has ended.
            ProviderError: the provider failed; it may be tried again.
        """
        with self._client.lock:
            self._check_open()
            self._delivered.acknowledge(message_id, receiver_id, transaction)

    # -- looking ---------------------------------------------------------------------------------------

    def browse(self, wanted: Filter | None = None) -> list[Message]:
        """The messages that are NEW or DELIVERED, in the order of delivery; never NOT_COMMITTED ones (7.6).

        Args:
            wanted: only those that it accepts.

        Raises:
            SessionStateError: it is closed.
            ProviderError: the provider cannot be read.
        """
        self._check_open()
        found = self._browse()
        if wanted is None:
            return found
        return [message for message in found if wanted.accepts(Reference(message, partial(replace, message)))]

    def messages(self, state: MessageState) -> list[Message]:
        """The messages in one state (7.7): NOT_COMMITTED ones of this process; NEW and DELIVERED ones of all.

        Raises:
            SessionStateError: it is closed.
            ProviderError: the provider cannot be read.
        """
        self._check_open()
        if state is MessageState.NOT_COMMITTED:
            with self._client.lock:
                sent = [one for transaction in self._client.transactions for one in transaction.sent]
            return [message for destination, message in sent if destination == self.destination]
        if state is MessageState.REMOVED:
            return []
        return self._in_state(state)

    def has_messages(self, state: MessageState) -> bool:
        """Whether there is a message in that state (7.7)."""
        return bool(self.messages(state))

    def receivers_of(self, message_id: str) -> frozenset[str]:
        """The receivers in this process whose negative acknowledgement of it is outstanding (5.3.1)."""
        return self._delivered.receivers_of(message_id)

    @abstractmethod
    def _browse(self) -> list[Message]: ...

    @abstractmethod
    def _in_state(self, state: MessageState) -> list[Message]: ...

    # -- the end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the channel in this process. What is DELIVERED here becomes NEW, flagged as redelivered, for
        whoever opens it next; what is NEW stays. Repeatable.

        Waits for a receiver that is handling a message.

        Raises:
            SessionStateError: that receiver calls it.
            ProviderError: it cannot be given back; it is taken over when this process has ended.
        """
        if self._delivering.is_mine:
            raise SessionStateError(
                f"a receiver of {self.destination} cannot close it while it handles a message: "
                "it would wait for itself; close it from another thread, or afterwards"
            )
        self._closed = True  # a delivery under way ends with the message that is being handled
        with self._delivering, self._client.lock:
            if not (self._ended or self._client.is_closed):
                self._ended = True
                self._client.listeners.pop(self.destination, None)
                self._client.ledger.give_back_overdue()
                self._delivered.acknowledge_overdue()
                self._close()

    @abstractmethod
    def _close(self) -> None: ...

    def _check_open(self) -> None:
        if self._closed:
            raise SessionStateError(f"{self.destination} is closed; open it again")
        self._client.check_open()
