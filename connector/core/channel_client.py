"""The client of a provider that the channels of one process share (JBoss Messaging Core, 2 to 4).

The specification calls its connection a *channel state*, and its access to bodies the *message store*. The
provider decides whether they are reliable. In an unreliable provider a sender may wait for room (3.1).
Meanwhile other threads can acknowledge, because acknowledgements make room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from connector.core.channel_receiver import Reference
from connector.core.fair_lock import FairLock
from connector.core.ledger import Delivery, DeliveryState, Ledger, load
from connector.core.takeover import TakeoverTimer, take_over
from connector.core.transaction import Transaction
from connector.errors import SessionStateError
from connector.messaging.access import MessageAccess
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.polling import Poller
from connector.messaging.provider import Provider
from connector.messaging.subscription import TopicSubscription


class ChannelDelivery(Delivery):
    """A message that a channel has taken, and the receiver that has the message."""

    __slots__ = ("in_transactions", "is_acknowledged", "is_handled", "on_end", "receiver_id", "reference")

    reference: Reference
    """The reference that the receiver gets."""
    on_end: Callable[[ChannelDelivery], None]
    """Tells the channel that the delivery has ended."""

    def __init__(self, claim: Claim, poller: Poller) -> None:
        super().__init__(claim, poller)
        self.begun = 0
        self.receiver_id = ""
        """Empty while no receiver has the message, so that the message is NEW."""
        self.is_handled = False
        """Whether the receiver is handling the message now."""
        self.is_acknowledged = False
        """Whether the receiver has acknowledged the message. The provider may not have done so yet."""
        self.in_transactions = 0
        """Number of open transactions that acknowledge the delivery (6.2.1)."""

    @property
    def may_come_again(self) -> bool:
        """Whether the receiver can ask for the message once more."""
        is_answered = self.is_handled or self.is_acknowledged or self.in_transactions
        return self.state is DeliveryState.OPEN and not is_answered

    def set_state(self, state: DeliveryState) -> None:
        """See :meth:`connector.core.ledger.Delivery.set_state`."""
        super().set_state(state)
        self.on_end(self)


class ChannelClient:
    """Takes, sends and settles for the channels of one process. Thread-safe.

    Args:
        provider: of the messages.
        client_id: of durable topic receivers. Empty = there are none.

    Raises:
        ClientIdError: another connection holds the client id.
        ProviderError: the provider is out of reach.
    """

    def __init__(self, provider: Provider, client_id: str = "") -> None:
        self.capabilities: Final = provider.capabilities
        self.client_id: Final = client_id
        self.lock: Final = FairLock()
        """Guards the connection, the ledger and the deliveries of the channels.

        No thread holds this lock while a receiver handles a message or a sender waits for room.
        """
        self.is_closed = False
        self.transactions: Final[list[ChannelTransaction]] = []
        """The open transactions."""
        self.listeners: Final[dict[Destination, Callable[[Sequence[Message]], None]]] = {}
        """The open channels by destination, called after this process has sent messages to them."""
        self._sending: Final = FairLock()
        self._connection = provider.connect(client_id=client_id)
        self._sender = provider.connect()
        self._access = self._connection.access().open()
        self._transactions = 0
        self._schedule = TakeoverTimer()
        self.ledger: Final = Ledger(self._connection)

    def check_open(self) -> None:
        """Raises SessionStateError if the channels of this process are closed."""
        if self.is_closed:
            raise SessionStateError("the channels of this process are closed; open them anew")

    # -- sending -------------------------------------------------------------------------------------

    def send(self, destination: Destination, message: Message) -> None:
        """Sends a message and attempts delivery.

        Raises:
            ProviderError: nothing was sent.
        """
        if not self.capabilities.reliable:
            # in a transaction, the claims of this process take up no room while the message waits for room
            with ChannelTransaction(self) as transaction:
                transaction.send(destination, [message])
            return
        with self._sending:
            self.check_open()
            self._sender.send(destination, [message])
        self.attempt_delivery([(destination, message)])

    def begin(self) -> tuple[MessageAccess, str]:
        """Returns the access of a new transaction, and the key of its messages."""
        with self.lock:
            self.check_open()
            self._transactions += 1
            return self._connection.access().open(), f"channel|{self._transactions}|"

    def attempt_delivery(self, sent: Sequence[tuple[Destination, Message]]) -> None:
        """Attempts delivery in the channels of this process that got a message."""
        for destination in {destination: None for destination, _ in sent}:
            listener = self.listeners.get(destination)
            if listener is not None:
                listener([message for where, message in sent if where == destination])

    # -- taking --------------------------------------------------------------------------------------

    def poller(self, source: Destination | TopicSubscription, selector: str = "") -> Poller:
        """See :meth:`connector.messaging.provider.Connection.poller`."""
        with self.lock:
            self.check_open()
            return self._connection.poller(source, selector=selector)

    def take(self, poller: Poller) -> ChannelDelivery | None:
        """Takes the next message for this process. Returns None if no message waits.

        Raises:
            ProviderError: the provider cannot be read.
        """
        with self.lock:
            taken = self.ledger.take(poller, ChannelDelivery)
            return taken[0] if taken else None

    def load(self, claim: Claim) -> Message:
        """See :meth:`connector.core.channel_receiver.Reference.load`."""
        with self.lock:
            return load(self._access, claim)

    # -- looking, recovery, the end ------------------------------------------------------------------

    def unsubscribe(self, name: str) -> None:
        """See :meth:`connector.messaging.provider.Connection.unsubscribe`."""
        with self.lock:
            self.check_open()
            self._connection.unsubscribe(name, self.client_id)

    def browse(self, destination: Destination) -> list[Message]:
        """See :meth:`connector.messaging.provider.Connection.browse`."""
        with self.lock:
            self.check_open()
            return list(self._connection.browse(destination))

    def take_over(self, *, at_start: bool = False) -> int:
        """See :func:`connector.core.takeover.take_over`."""
        with self.lock:
            self.check_open()
            return take_over(self._connection, at_start=at_start)

    def take_over_if_due(self) -> None:
        """Calls :meth:`take_over`, every 10 seconds at most."""
        if self._schedule.is_due():
            self.take_over()

    def close(self) -> None:
        """Closes both connections. Repeatable."""
        with self.lock:
            if not self.is_closed:
                self.is_closed = True
                self._connection.close()
                self._sender.close()

    def abandon(self) -> None:
        """Ends both connections as a crash does, for tests of recovery."""
        with self.lock:
            self.is_closed = True
            self._connection.abandon()
            self._sender.abandon()


class ChannelTransaction(Transaction):
    """A transaction over any channels of one process, for one thread (JBoss Messaging Core, 2.2 and 6.2.1).

    Messages sent in the transaction are NOT_COMMITTED: stored, but invisible. Acknowledgements are logged.
    Their messages stay DELIVERED, and are not delivered again meanwhile. A message belongs to one transaction
    only. A context manager, which commits at its end, or rolls back after an exception.
    """

    def __init__(self, client: ChannelClient) -> None:
        access, key = client.begin()
        super().__init__(access, client.ledger, key, gives_back=False)
        self._client = client
        self._logged: list[ChannelDelivery] = []
        self.sent: list[tuple[Destination, Message]] = []
        """The NOT_COMMITTED messages, oldest first."""
        client.transactions.append(self)

    def send(self, destination: Destination, messages: list[Message]) -> list[str]:
        """Adds messages, all or none. Called by a channel.

        Raises:
            TransactionRolledBack: a message of the transaction has expired meanwhile (5.1.3).
            SessionStateError: the transaction has ended.
            ProviderError: the messages cannot be written.
        """
        self._check_open()
        with self._client.lock:
            self.check_expiry()
        ids = super().send(destination, messages)
        with self._client.lock:
            self.sent += [(destination, message) for message in messages]
        return ids

    def log(self, delivery: ChannelDelivery) -> None:
        """Adds an acknowledgement. Called by a channel that holds the lock of the client.

        Raises:
            TransactionRolledBack: a message of the transaction has expired meanwhile (5.1.3).
            SessionStateError: the transaction has ended.
        """
        self._check_open()
        self.check_expiry()
        if delivery not in self._logged:
            delivery.in_transactions += 1
            self._logged.append(delivery)
            self.acknowledge(delivery)

    def commit(self, *, sends_expired: bool = False) -> None:
        """Commits, and attempts delivery of the new messages.

        See :meth:`connector.core.transaction.Transaction.commit`.

        Raises:
            SessionStateError: the transaction has ended.
        """
        self._check_open()
        sent = self.sent
        with self._client.lock:
            for delivery in self._logged:
                if delivery.state is DeliveryState.RETURNED:
                    self._undo(f"{delivery.reference.message_id}, acknowledged in it, came again meanwhile")
            super().commit(sends_expired=sends_expired)
        self._client.attempt_delivery(sent)

    def rollback(self) -> None:
        """See :meth:`connector.core.transaction.Transaction.rollback`.

        Raises:
            SessionStateError: the transaction has ended.
        """
        self._check_open()
        with self._client.lock:
            super().rollback()

    def __enter__(self) -> ChannelTransaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.is_open:
            return
        if kind is not None:
            self.rollback()
            return
        try:
            self.commit()
        except BaseException:
            if self.is_open:
                self.rollback()
            raise

    def _check_open(self) -> None:
        if not self.is_open:
            raise SessionStateError("the transaction has ended; begin another")

    def _end(self) -> None:
        super()._end()
        for delivery in self._logged:
            delivery.in_transactions -= 1
        self._logged = []
        self.sent = []
        self._client.transactions.remove(self)
