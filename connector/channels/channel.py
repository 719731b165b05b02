"""The channel: takes messages from senders, hands them to receivers (JBoss Messaging Core, 2 and 5 to 7).

The base of queue and topic, which decide which receiver gets which message.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from connector.channels.delivered import DeliveredMessages
from connector.channels.state import MessageState
from connector.channels.transaction import ChannelTransaction
from connector.core.consumer import SessionConsumer
from connector.core.fair_lock import FairLock
from connector.core.ledger import Delivery
from connector.core.receiver import Filter, NotAccepted, Receiver, Reference
from connector.core.session import CoreSession
from connector.errors import CapabilityError, ProviderError, SessionStateError
from connector.messaging.destination import Destination
from connector.messaging.message import PERSISTENT, Message

_log = logging.getLogger("connector.channel")


class ChannelOwner(Protocol):
    """The channels of one process: what a channel shares with the others."""

    session: CoreSession
    """Takes and settles. No thread holds its lock while a receiver handles a message."""
    transactions: list[ChannelTransaction]
    """The open transactions."""

    def send(self, destination: Destination, message: Message) -> None:
        """Sends a message and attempts delivery. Raises ProviderError if nothing was sent."""


class MessageChannel(ABC):
    """Forwards messages to receivers. A channel is also a receiver, so channels can be chained. Thread-safe.

    An *asynchronous* channel, the normal case, first stores a message and tells the sender so. Then it
    attempts delivery. A *synchronous* channel stores nothing. It hands the message to its receivers while the
    sender waits, and returns their acknowledgement. The sender decides about a rejected message (JBoss
    Messaging Core, 2).

    The channel attempts delivery of a NEW message in three cases: this process sends a message to the
    channel, a receiver is added, or :meth:`deliver` is called. Only :meth:`deliver` also finds messages of
    other processes. Channels of the same name on one provider are one distributed channel (2.3). A channel
    never delivers a DELIVERED message again by itself (5.3.3). Delivery runs in the caller's thread. While
    one thread delivers, other senders leave the delivery of their messages to that thread. So does a receiver
    that sends.

    Made by :class:`connector.channels.channels.Channels`.
    """

    is_storing_undeliverable: bool
    """Whether a message that no receiver accepts is kept (5.2.4, 7.3).

    A queue keeps such a message. A topic discards the message, but still acknowledges the message.
    """

    def __init__(self, owner: ChannelOwner, destination: Destination) -> None:
        self.destination: Final = destination
        self.is_synchronous = False
        self._owner: Final = owner
        self._session: Final = owner.session
        self._ledger: Final = owner.session.inbox.ledger
        self._delivered: Final = DeliveredMessages(owner.session)
        self._delivering: Final = FairLock()
        """Held by the thread that delivers, so that the order holds (9)."""
        self._is_asked = False
        """Whether an attempt was asked for that has not begun."""
        self._closed = False
        self._ended = False

    # -- what it is able to do -------------------------------------------------------------------------

    @property
    def receiver_id(self) -> str:
        """Name of the channel as the receiver of another channel."""
        return str(self.destination)

    @property
    def is_reliable(self) -> bool:
        """Whether persistent messages in the channel survive a crash (2.1, 7.1)."""
        return self._session.capabilities.reliable

    @property
    def is_closed(self) -> bool:
        return self._closed

    def refusal(self, message: Message) -> str:
        """Returns why the channel refuses a message, and the remedy. Empty if not refused."""
        if message.delivery_mode == PERSISTENT and not (self.is_reliable or self.is_synchronous):
            return (
                f"{self.destination} is not reliable and takes no persistent message: "
                "send it non-persistent, or use a provider that is reliable"
            )
        return ""

    def accepts(self, reference: Reference) -> bool:
        """Whether the channel accepts a message as a receiver of another channel."""
        return not self._closed and not self.refusal(reference.headers)

    # -- receivers -------------------------------------------------------------------------------------

    @abstractmethod
    def remove_receiver(self, receiver_id: str) -> None:
        """Hands no more messages to a receiver.

        The receiver may still acknowledge its messages, or ask for them again.

        Raises:
            LookupError: there is no such receiver.
        """

    @abstractmethod
    def _receivers(self, reference: Reference) -> list[Receiver]:
        """Returns the receivers to which a synchronous channel hands a message."""

    # -- sending ---------------------------------------------------------------------------------------

    def handle(
        self, routable: Message | Reference, transaction: ChannelTransaction | None = None
    ) -> bool | None:
        """Takes a message from a sender.

        Args:
            routable: a message, which gets its id. Or a reference of another channel, which is loaded and
                sent on as a new message.
            transaction: the message is NOT_COMMITTED until the end of this transaction.

        Returns:
            True if the channel is responsible for the message now. From a synchronous channel, its receivers
                are responsible. False, from a synchronous channel only, if the message was rejected or not
                delivered. None if the sender stays responsible, and :meth:`refusal` says why.

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
            _log.warning("a channel refused a message", extra={"reason": reason})
            return None
        if self.is_synchronous:
            if transaction is not None:
                raise CapabilityError(
                    f"the channel {self.destination} is synchronous and has no transactions: "
                    "send without a transaction, or make the channel asynchronous"
                )
            return self._handle_synchronously(message)
        if transaction is None:
            self._owner.send(self.destination, message)
        else:
            transaction.send(self.destination, [message])
        return True

    def _handle_synchronously(self, message: Message) -> bool:
        reference = Reference(replace(message, body=b""), partial(replace, message))
        with self._delivery_lock():
            positive = []
            for receiver in self._receivers(reference):
                try:
                    answer = receiver.handle(reference)
                except NotAccepted:
                    answer = None
                except Exception:
                    _log.warning(
                        "a receiver raised an exception",
                        extra={"receiver": receiver.receiver_id},
                        exc_info=True,
                    )
                    answer = None
                positive.append(answer)
                if answer is not None and self.is_storing_undeliverable:
                    break  # a queue hands a message to one receiver only
        if self.is_storing_undeliverable:
            return positive[-1:] == [True]
        return all(positive)

    # -- delivery --------------------------------------------------------------------------------------

    def deliver(self) -> bool:
        """Attempts delivery of every NEW message (7.4), also of messages that come meanwhile.

        Returns:
            True if and only if no NEW message remains. NOT_COMMITTED and DELIVERED messages do not matter.
                False for a receiver that calls while it handles a message: the delivery goes on afterwards.

        Raises:
            SessionStateError: the channel is closed.
            ProviderError: the provider failed. The next delivery does the rest.
        """
        self._check_open()
        if self._delivering.is_mine:
            self._is_asked = True
            return False
        with self._delivery_lock():
            self._attempt()
            return not (self._closed or self._has_new())

    def redeliver(self, receiver: Receiver) -> bool:
        """Delivers the messages of a receiver again, in order, flagged as redelivered (7.5).

        The receiver may have been removed. NEW messages, and messages that the receiver gets meanwhile, are
        not delivered.

        Returns:
            Whether the receiver has no more messages.

        Raises:
            SessionStateError: the channel is closed.
            ProviderError: an acknowledgement could not be made. The next delivery repeats the attempt.
        """
        self._check_open()
        with self._delivery_lock():
            return self._delivered.redeliver(receiver)

    @contextmanager
    def _delivery_lock(self) -> Iterator[None]:
        """Lets this thread deliver. At the end also makes the attempts that other threads have asked for."""
        try:
            with self._delivering:
                yield
        finally:
            self._deliver_as_asked()

    def _deliver_soon(self) -> None:
        """Attempts delivery, or leaves the attempt to the thread that delivers now."""
        self._is_asked = True
        self._deliver_as_asked()

    def _deliver_as_asked(self) -> None:
        while self._is_asked and not self._delivering.is_mine and self._delivering.try_acquire():
            try:
                self._is_asked = False
                if not self._closed:
                    self._attempt()
            except (ProviderError, SessionStateError) as error:  # the sender is not to blame
                _log.warning(
                    "delivering messages failed and is tried again later",
                    extra={"destination": str(self.destination), "reason": str(error)},
                )
            finally:
                self._delivering.release()

    def on_sent(self, messages: Sequence[Message]) -> None:
        """Called after this process has sent messages to the channel."""
        self._deliver_soon()

    def _attempt(self) -> None:
        """Attempts delivery of NEW messages. The caller holds the lock of delivery."""
        with self._session.lock:
            self._ledger.give_back_overdue()
            self._delivered.acknowledge_overdue()
            self._delivered.expire()
        self._deliver_new()

    @abstractmethod
    def _deliver_new(self) -> None: ...

    @abstractmethod
    def _has_new(self) -> bool:
        """Whether a NEW message remains after :meth:`_deliver_new`."""

    def _take(self, consumer: SessionConsumer) -> Delivery | None:
        """Takes the next message of a consumer, which no receiver has yet. Returns None if none waits."""
        with self._session.lock:
            taken = self._session.inbox.claim(consumer, 1)
            if not taken:
                return None
            delivery = taken[0]
            delivery.begun = 0
            delivery.reference = Reference(
                delivery.claim.headers(),
                partial(self._load, delivery),
                delivery.claim.delivery_count + 1,
                partial(self._delivered.acknowledge_delivery, delivery),
            )
            delivery.on_end = self._delivered.remove
            return delivery

    def _load(self, delivery: Delivery) -> Message:
        with self._session.lock:
            return self._session.inbox.load(delivery)

    # -- acknowledgement -------------------------------------------------------------------------------

    def acknowledge(
        self, message_id: str, receiver_id: str, transaction: ChannelTransaction | None = None
    ) -> None:
        """Acknowledges a message of a receiver positively (6.2). A repeated acknowledgement is ignored.

        Args:
            message_id, receiver_id: of the delivery. If the receiver is still handling the message, its
                return value no longer counts (5.3.4).
            transaction: the acknowledgement is only logged until this transaction commits (6.2.1).

        Raises:
            ClaimLost: the receiver does not have the message, or another process has taken over the message.
            TransactionRolledBack: a message sent in the transaction has expired.
            SessionStateError: the channel is closed, or the transaction has ended.
            ProviderError: the provider failed. The call may be repeated.
        """
        with self._session.lock:
            self._check_open()
            self._delivered.acknowledge(message_id, receiver_id, transaction)

    # -- looking ---------------------------------------------------------------------------------------

    def browse(self, wanted: Filter | None = None) -> list[Message]:
        """Returns the NEW and DELIVERED messages in the order of delivery (7.6).

        Args:
            wanted: returns only messages that this filter accepts.

        Raises:
            SessionStateError: the channel is closed.
            ProviderError: the provider cannot be read.
        """
        self._check_open()
        found = self._browse()
        if wanted is None:
            return found
        return [message for message in found if wanted.accepts(Reference(message, partial(replace, message)))]

    def messages(self, state: MessageState) -> list[Message]:
        """Returns the messages in one state (7.7).

        NOT_COMMITTED messages are those of this process. NEW and DELIVERED messages are those of all
        processes.

        Raises:
            SessionStateError: the channel is closed.
            ProviderError: the provider cannot be read.
        """
        self._check_open()
        if state is MessageState.NOT_COMMITTED:
            with self._session.lock:
                sent = [one for transaction in self._owner.transactions for one in transaction.sent]
            return [message for destination, message in sent if destination == self.destination]
        if state is MessageState.REMOVED:
            return []
        return self._in_state(state)

    def receivers_of(self, message_id: str) -> frozenset[str]:
        """Returns the receivers in this process that have not acknowledged a message positively (5.3.1)."""
        return self._delivered.receivers_of(message_id)

    @abstractmethod
    def _browse(self) -> list[Message]: ...

    @abstractmethod
    def _in_state(self, state: MessageState) -> list[Message]: ...

    # -- the end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the channel in this process. Repeatable.

        DELIVERED messages of this process become NEW, flagged as redelivered. NEW messages stay. Waits for a
        receiver that is handling a message.

        Raises:
            SessionStateError: the receiver that is handling a message calls this method.
            ProviderError: a message cannot be given back. The end of this process lets others take over.
        """
        if self._delivering.is_mine:
            raise SessionStateError(
                f"a receiver cannot close the channel {self.destination} while it handles a message: "
                "close the channel from another thread, or after the receiver has returned"
            )
        self._closed = True  # a running delivery ends after the current message
        with self._delivering, self._session.lock:
            if not (self._ended or self._session.closing):
                self._ended = True
                self._ledger.give_back_overdue()
                self._delivered.acknowledge_overdue()
                self._close()

    @abstractmethod
    def _close(self) -> None: ...

    def _check_open(self) -> None:
        if self._closed:
            raise SessionStateError(f"{self.destination} is closed; open it again")
        if self._session.closing:
            raise SessionStateError("the channels of this process are closed; open them anew")
