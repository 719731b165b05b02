"""The contract of a broker client: the operations of a broker's client library that the adapter needs.

:mod:`connector.brokers.engine` makes a provider of every implementation. A broker lends a message to a
transacted session until the session commits or rolls back. The broker knows nothing of claims, outcomes and
journals.

Every method may raise :class:`~connector.errors.ProviderError` with the text of the client library. Then the
broker is out of reach or refuses the operation, or the object is closed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from connector.errors import ProviderError, UnknownDestination
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.subscription import TopicSubscription

NO_LIMIT: Final = 1 << 40
ASSUMED_DELIVERIES: Final = 10
"""Deliveries of a message after which a broker is assumed to put the message aside."""


class UnreadableMessage(ProviderError):
    """The client library has taken a message that it cannot read, and hands it to nobody."""


class MessageRefused(ProviderError):
    """The broker, or its client library, has refused a message to send.

    Only an answer is a refusal. A connection that ends, or a broker that is silent, has refused nothing.
    """


class CommitUnknown(ProviderError):
    """The connection was lost during a commit. The commit may have happened."""


class EndedDestination(UnknownDestination):
    """A temporary destination has ended. The transaction goes on without the message."""


@dataclass(slots=True)
class Received:
    """A message that a session has received in its open transaction.

    Args:
        message: with the body, and without a delivery time, which has passed. ``delivery_count`` is the
            number of the broker, which also counts deliveries that no client has begun.
        size: bytes of the body. More than in ``message`` if the body was too large to be read.
        unreadable: why the message cannot be read, as a sentence. Empty = it can.
    """

    message: Message
    size: int
    unreadable: str = ""


class BrokerReceiver(Protocol):
    """Receives the messages of one source, as a part of its session."""

    @abstractmethod
    def receive(self, seconds: float, most: int = 1, most_bytes: int = NO_LIMIT) -> list[Received]:
        """Returns the next messages, in the order of the broker. Waits only for the first message.

        A client library may look only at what it has fetched, and more messages may be on their way. So fewer
        messages than ``most`` do not mean that no other message waits.

        Args:
            seconds: until the first message has to come. 0 = asks the broker, and waits for it, if the client
                library can. Negative = looks only at what the client library has fetched.
            most: messages, at most.
            most_bytes: a message is the last one if all bodies together have this number of bytes. A body
                that was not read does not count.

        Raises:
            UnreadableMessage: the transaction contains a message that nobody can read.
            BrokerSilent: the broker was asked, and has not answered.
            ProviderError: also after the first message. The transaction may contain messages that nobody has
                got, so the caller rolls the transaction back.
        """

    def notify(self, tag: int) -> bool:
        """Lets :meth:`BrokerConnection.take_news` return the tag of each message that is fetched from now on.

        Args:
            tag: names the receiver, from 1 on.

        Returns:
            whether the client library can do that.
        """
        return False

    @abstractmethod
    def close(self) -> None:
        """Ends the receiver. A subscription that is not durable ends, too. Repeatable."""


class BrokerArrivals(Protocol):
    """The messages that a broker pushes to one transacted session, in the order of arrival.

    A pushed message belongs to the transaction that is open at its arrival, also if nobody has taken it yet.
    For one thread, except :meth:`wake`.
    """

    @abstractmethod
    def add(self, queue: Destination, selector: str) -> int:
        """Makes a receiver of a queue, and returns the number that names this receiver.

        Args:
            selector: text, handed to the broker. Empty = all messages.

        Raises:
            SelectorError: the broker refuses the selector.
            DestinationError: there is no such queue, and the broker makes none.
        """

    @abstractmethod
    def remove(self, number: int) -> None:
        """Ends a receiver. Repeatable, never raises."""

    @abstractmethod
    def take(self, seconds: float, most: int) -> list[tuple[int, Received]] | None:
        """Returns the next messages, each with the number of its receiver. Waits only for the first message.

        Returns None if a call of :meth:`wake` has ended the wait.

        Args:
            seconds: until the first message has to come.
            most: messages, at most.

        Raises:
            ProviderError: the connection has failed.
        """

    @abstractmethod
    def wake(self) -> None:
        """Ends the present wait of :meth:`take`, or else the next one. For any thread, never raises."""


class BrokerSession(Protocol):
    """A transacted session. One thread at a time uses the session and its receivers.

    The transaction contains everything that was received and sent since the last :meth:`commit` or
    :meth:`rollback`.
    """

    @abstractmethod
    def receiver(self, source: Destination | TopicSubscription, selector: str, limit: int) -> BrokerReceiver:
        """Returns a receiver of a queue or a subscription.

        Args:
            source: a queue or a subscription. A subscription has its own selector.
            selector: text, handed to the broker. Empty = all messages.
            limit: bytes of a body. A larger body is not read.

        Raises:
            SelectorError: the broker refuses the selector.
            SubscriptionError: another consumer uses the subscription.
            DestinationError: there is no such destination, and the broker makes none.
        """

    @abstractmethod
    def arrivals(self, limit: int) -> BrokerArrivals:
        """Returns what the broker pushes to receivers of this session. The session has no other receivers.

        Args:
            limit: bytes of a body. A larger body is not read.
        """

    @abstractmethod
    def send(self, destination: Destination, message: Message, *, copied: Message | None = None) -> None:
        """Sends a message in the transaction, and sets its ``message_id``, ``timestamp`` and ``expiration``.

        JMS has no way to send an expiration, only a time to live (JMS 2.0, 3.4.9). So the expiration becomes
        later by the milliseconds that the client library needs to count from its own clock. The same holds
        for a delivery time, which JMS sends as a delay (JMS 2.0, 7.9).

        Args:
            destination: a queue or a topic.
            message: with the headers and properties to send.
            copied: the message whose copy this is, as the session has received it in this transaction. If its
                body was not read, or cannot be made anew, the copy gets that body.

        Raises:
            EndedDestination: nothing was sent, and the transaction goes on. Only if the broker tells.
            CapabilityError: the client library has no delivery delay.
            MessageRefused: the broker or its client refuses the message. The transaction can only be rolled
                back.
            ProviderError: the connection has ended. Nobody knows what the broker would say of the message.
        """

    def post(self, destination: Destination, message: Message, *, copied: Message | None = None) -> None:
        """Sends a message as :meth:`send`, but sets no header of the message.

        The message leaves with later ones, in :meth:`check_sends` or :meth:`commit` at the latest. Messages
        that leave together cost a broker half as much as messages that come one by one.
        """
        self.send(destination, message, copied=copied)

    @abstractmethod
    def check_sends(self) -> None:
        """Waits until the broker has taken all messages that the transaction has sent.

        Raises:
            MessageRefused: the broker refuses a message. The transaction can only be rolled back.
            ProviderError: the connection has ended, or the broker does not answer.
        """

    def acknowledge(self, message: Message) -> None:
        """Acknowledges one message of a session with individual acknowledgement."""
        raise NotImplementedError

    @abstractmethod
    def commit(self) -> None:
        """Commits the transaction.

        Raises:
            TransactionRolledBack: the transaction was rolled back. Its cause is a MessageRefused if there was
                a refusal.
            CommitUnknown: the connection was lost, and the commit may have happened.
        """

    @abstractmethod
    def rollback(self) -> None:
        """Rolls the transaction back: received messages come again, sent messages are never delivered."""

    @abstractmethod
    def close(self) -> None:
        """Ends the session. An open transaction is rolled back. Repeatable, never raises."""


class BrokerConnection(Protocol):
    """A connection to a broker. Thread-safe, as the sessions are not."""

    keeps_delays: bool = False
    """Whether the broker has kept a delivery delay, as :func:`.delays.measure_delay` has seen."""
    application: str = ""
    """ApplicationName of the adapter whose inputs have subscriptions here. Empty = a program's connection."""
    shortage: str = ""
    """Why the memory of the client library was used up, with what to do. Empty = it was not."""

    @property
    @abstractmethod
    def failure(self) -> str | None:
        """The reason why the connection has ended. None = the connection works, as far as is known."""

    @abstractmethod
    def session(self, *, individual: bool = False) -> BrokerSession:
        """Returns a new transacted session.

        Args:
            individual: the session is not transacted. :meth:`BrokerSession.acknowledge` acknowledges each
                message, and a rollback gives back the others. Such a session sends nothing.

        Raises:
            CapabilityError: the client library has no such sessions.
        """

    def take_news(self, seconds: float) -> set[int] | None:
        """Returns the tags of receivers for which messages were fetched. Ends when the connection is closed.

        Args:
            seconds: until the first message has to come.

        Returns:
            None = many messages have come, and nobody knows for which receivers.
        """
        return set()

    @abstractmethod
    def browse(
        self,
        queue: Destination,
        selector: str,
        unreadable: Callable[[Message, str], object] | None = None,
    ) -> Iterator[Message]:
        """Yields the waiting messages of a queue, in the order of the broker, and takes none.

        Args:
            queue: to look at.
            selector: as of a receiver. Empty = all messages.
            unreadable: called with each message that cannot be read, as far as it can be read, and with the
                reason.

        Raises:
            UnknownDestination: the broker has no such queue.
            BrokerSilent: the broker does not say whether there are more messages. Also from the iterator.
        """

    @abstractmethod
    def unsubscribe(self, name: str) -> None:
        """Removes a durable subscription of the connection's client id.

        Raises:
            SubscriptionError: there is no such subscription, or it is in use.
        """

    @abstractmethod
    def temporary(self, kind: str) -> Destination:
        """Makes a temporary ``queue`` or ``topic`` that ends with the connection."""

    @abstractmethod
    def delete_temporary(self, destination: Destination) -> None:
        """Ends a temporary destination of this connection.

        Raises:
            DestinationError: the destination is not temporary, belongs to another connection, or has ended.
            SubscriptionError: the destination has a receiver.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends the connection and its sessions. Repeatable, never raises."""


class BrokerClient(Protocol):
    """Makes connections to one broker."""

    @abstractmethod
    def connect(self, client_id: str) -> BrokerConnection:
        """Opens a connection.

        Args:
            client_id: of JMS. Empty = none.

        Raises:
            ClientIdError: another connection has the client id.
        """
