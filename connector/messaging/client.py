"""The API for Python programs: connections, sessions, consumers, producers (JMS 2.0, chapters 5 to 8).

::

    with connect("dropbox:/var/mq", client_id="billing") as connection:
        with connection.session(AcknowledgeMode.TRANSACTED) as session:
            orders = session.consumer("queue://orders", "region = 'EU'")
            bills = session.producer("queue://bills")
            for order in orders.messages(timeout=5.0):
                bills.send(b"paid", correlation_id=order.message_id)
                session.commit()

The classes are contracts. :func:`connect` finds their implementation, which uses a provider. A destination
may be given as text: ``queue://orders``, ``topic://prices`` or ``orders``.

``connect("adapter.yaml")`` connects to the provider of a deployment, for example a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypedDict, Unpack

from connector.errors import ConnectorError
from connector.messaging.bodies import Value
from connector.messaging.destination import Destination
from connector.messaging.lot import Lot
from connector.messaging.message import Message, PropertyValue
from connector.messaging.provider import Capabilities, Provider
from connector.messaging.provider_kind import PROVIDERS
from connector.plugins import PlugIns

Body = Message | Value
"""A message, which is sent unchanged, or a body, whose Python type chooses the message class."""


class AcknowledgeMode(Enum):
    """The time at which a delivered message leaves the store (JMS Guaranteed Messaging)."""

    AUTO = "auto"
    """As the last step of ``receive``, or after the listener returned. At most the latest comes twice."""
    DUPS_OK = "dups_ok"
    """Later, many messages at a time. After a crash those messages may come again."""
    CLIENT = "client"
    """By ``acknowledge()`` of a message: this message and all messages that the session has delivered so far.
    """
    INDIVIDUAL = "individual"
    """By ``acknowledge()`` of a message: this message only."""
    TRANSACTED = "transacted"
    """By ``commit()``, together with all messages that were sent."""


class ReceivedMessage(Message):
    """A message that a consumer has delivered."""

    __slots__ = ("_acknowledge",)

    _acknowledge: Callable[[], None]

    @classmethod
    def of(cls, message: Message, acknowledge: Callable[[], None]) -> ReceivedMessage:
        """Returns the same message with an :meth:`acknowledge` for the mode of the session."""
        received = cls(
            message.body,
            message.message_class,
            message.message_id,
            message.timestamp,
            message.correlation_id,
            message.reply_to,
            message.type,
            message.delivery_mode,
            message.priority,
            message.expiration,
            message.delivery_count,
            message.destination,
            message.delivery_time,
            message.properties,
            message.property_types,
        )
        received._acknowledge = acknowledge
        return received

    def acknowledge(self) -> None:
        """Acknowledges as the mode of the session says. Does nothing in AUTO, DUPS_OK and TRANSACTED.

        Raises:
            ClaimLost: the message does not belong to this session any more. Any consumer may receive the
                message again. In CLIENT mode nothing was acknowledged, and ``recover()`` delivers the other
                messages again.
            ProviderError: the provider failed. The message comes again.
            SessionStateError: the session is closed. The message comes again.
        """
        self._acknowledge()


class Closeable(Protocol):
    """Ends with :meth:`close`, or with a ``with`` block, which calls :meth:`close`."""

    def close(self) -> None:
        """Closes the object. Repeatable."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Consumer(Closeable, Protocol):
    """Takes messages of one queue or subscription: the highest priority first, then the oldest message."""

    def receive(self, timeout: float | None = None) -> ReceivedMessage | None:
        """Returns the next message. Waits ``timeout`` seconds for a message, or without limit.

        Returns None if no message came in time, or if the consumer was closed meanwhile. No message comes
        while the connection is stopped.

        Raises:
            MalformedData: the message cannot be read, but counts as delivered. In AUTO, DUPS_OK and
                INDIVIDUAL the message stays unacknowledged, and comes again after ``recover()`` or
                ``close()``. In CLIENT and TRANSACTED the next acknowledgement or commit includes the message.
            ProviderError: the provider failed. No message was lost.
            SessionStateError: the consumer was closed before, or has a listener.
        """

    def receive_nowait(self) -> ReceivedMessage | None:
        """Returns the next message if there is one now. Raises as :meth:`receive`."""

    def messages(self, timeout: float | None = None) -> Iterator[ReceivedMessage]:
        """Yields messages until none has come for ``timeout`` seconds, or until the consumer is closed."""

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Yields messages until the consumer is closed."""

    def listen(self, listener: Callable[[ReceivedMessage], object] | None) -> None:
        """Calls ``listener`` for each message from now on. None removes the listener.

        All listeners of a session run in one thread of the session, one after the other. When a listener
        raises, its message comes again with a delivery count raised by 1. In TRANSACTED the transaction is
        rolled back. The connection's ``exception_listener`` gets the exception.

        Raises:
            SessionStateError: the consumer is closed.
        """

    def close(self) -> None:
        """Closes the consumer. A ``receive`` that waits in another thread returns None. Repeatable.

        Messages that the consumer has delivered can still be acknowledged.
        """


class SendOptions(TypedDict, total=False):
    """The keyword arguments of :meth:`Producer.send`, which explains them. None = left out."""

    destination: Destination | str | None
    type: str | None
    correlation_id: str | None
    reply_to: Destination | str | None
    properties: Mapping[str, PropertyValue] | None
    delivery_mode: int | None
    priority: int | None
    time_to_live: int | None
    delivery_delay: int | None


class Producer(Closeable, Protocol):
    """Sends to one destination, or to the destination that is named with each message."""

    def send(self, body: Body, **options: Unpack[SendOptions]) -> str:
        """Sends one message and returns its id. In TRANSACTED the message is invisible before the commit.

        Args:
            body: str = text, bytes = bytes, dict = map, list = stream, None = no body. Or a
                :class:`~connector.messaging.message.Message`, which is not changed. Arguments and the
                settings of the producer win over the headers of that message.
            destination: for a producer without a destination.
            type, correlation_id, reply_to, properties: headers. Properties are added to a message's own. The
                name of a property is an identifier of the selectors, and no name of the provider's own (JMS
                2.0, 3.5.1). A message that was received may be sent with any names of properties.
            delivery_mode, priority, time_to_live, delivery_delay: as of the producer, for this message.

        Raises:
            CapabilityError: the provider cannot do this, such as persistent messages in memory.
            DestinationError: there is no destination, or one too many, or the name is wrong.
            ProviderError: nothing was sent.
            SessionStateError: the session or the producer is closed.
            TypeError, ValueError: a message cannot carry the body, a property, or the name of a property.
        """

    def send_many(self, bodies: Iterable[Body], *, destination: Destination | str | None = None) -> list[str]:
        """Sends all messages or none, in one commit, and returns the ids. Raises as :meth:`send`."""

    def close(self) -> None:
        """Closes the producer. Repeatable."""


class Session(Closeable, Protocol):
    """Sends, receives and acknowledges messages in one order.

    Use a session from one thread at a time. Any thread may call :meth:`close`. If a consumer has a listener,
    calls from other threads wait until the listener has returned.
    """

    mode: AcknowledgeMode

    @property
    def transacted(self) -> bool:
        """Whether the mode is TRANSACTED."""

    def queue(self, name: str) -> Destination:
        """Returns the queue of this name. Raises DestinationError if the name is not valid."""

    def topic(self, name: str) -> Destination:
        """Returns the topic of this name. Raises DestinationError if the name is not valid."""

    def temporary_queue(self) -> Destination:
        """Makes a queue for replies. Every client may send, only sessions of this connection receive.

        The queue ends with the connection. Raises CapabilityError if the provider has no temporary queues.
        """

    def temporary_topic(self) -> Destination:
        """Makes a topic for replies, as :meth:`temporary_queue`."""

    def delete_temporary(self, destination: Destination) -> None:
        """Ends a temporary destination of the connection, with all messages in it.

        Raises:
            DestinationError: the destination is not temporary, or belongs to another connection.
            SubscriptionError: the destination has a consumer.
        """

    def producer(
        self,
        destination: Destination | str | None = None,
        *,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
        delivery_delay: int | None = None,
    ) -> Producer:
        """Returns a producer for ``destination``, or for the destinations that the messages name.

        Args:
            delivery_mode: PERSISTENT or NON_PERSISTENT. None = persistent if the provider is reliable, else
                not.
            priority: 0 to 9. None = 4.
            time_to_live: milliseconds until a message expires. None or 0 = never.
            delivery_delay: milliseconds until a client can get a message. None or 0 = none.

        Raises:
            CapabilityError: the provider cannot delay messages.
        """

    def send(self, destination: Destination | str, body: Body) -> str:
        """Sends one message and returns its id, as :meth:`Producer.send`."""

    def send_many(self, destination: Destination | str, bodies: Iterable[Body]) -> list[str]:
        """Sends all messages or none, in one commit, as :meth:`Producer.send_many`."""

    def consumer(
        self, destination: Destination | str, selector: str = "", *, no_local: bool = False
    ) -> Consumer:
        """Returns a consumer of a queue, or of messages sent to a topic until the consumer closes.

        Args:
            no_local: leave out messages that this connection sends. For topics only.

        Raises:
            CapabilityError: the provider cannot do this.
            SelectorError: the selector is not valid.
            ProviderError: the provider failed.
            SessionStateError: the session is closed.
        """

    def durable_consumer(
        self, topic: Destination | str, name: str, selector: str = "", *, no_local: bool = False
    ) -> Consumer:
        """Returns the only consumer of the durable subscription ``name`` of this client id.

        If the subscription exists with other details and has no consumer, a new subscription replaces it. The
        old messages are lost.

        Raises:
            SubscriptionError: no client id, or another subscription or a consumer is in the way.
            DestinationError: the destination is no topic. Others as :meth:`consumer`.
        """

    def shared_durable_consumer(self, topic: Destination | str, name: str, selector: str = "") -> Consumer:
        """Returns one of several consumers of a durable subscription. Raises as :meth:`durable_consumer`."""

    def shared_consumer(self, topic: Destination | str, name: str, selector: str = "") -> Consumer:
        """Returns one of several consumers of a subscription, which ends with its last consumer."""

    def unsubscribe(self, name: str) -> None:
        """Removes a durable subscription of this client id, shared or not, with all messages.

        Raises:
            SubscriptionError: no such subscription, or one with a consumer or an unacknowledged message.
        """

    def browser(self, queue: Destination | str, selector: str = "") -> Iterator[Message]:
        """Yields the messages of a queue, waiting or delivered, in the order of taking. Takes none.

        Makes a queue that is missing, as a consumer and a producer do.

        Raises:
            UnknownDestination: the destination is a topic that nobody knows, or was temporary and has ended.
        """

    def commit(self) -> None:
        """Acknowledges the received messages and sends the sent ones, all or nothing.

        Begins a new transaction.

        Raises:
            TransactionRolledBack: the commit was not possible, and the whole transaction was rolled back. A
                message to be sent had expired or cannot be made durable, or a received message is lost to
                this session.
            ProviderError: the provider failed. If a ``SettlementError``, the transaction is unchanged.
            SessionStateError: not transacted, or closed.
        """

    def rollback(self) -> None:
        """Drops the sent messages, and gives back the received ones as redelivered. Begins a new transaction.

        Raises:
            ProviderError: the provider failed. The transaction is unchanged.
            SessionStateError: not transacted, or closed.
        """

    def recover(self) -> None:
        """Gives back all unacknowledged messages. They come again as redelivered, the oldest first.

        Raises:
            ProviderError: the provider failed.
            SessionStateError: transacted, or closed.
        """

    def close(self) -> None:
        """Closes the session. Unacknowledged messages come again, and a transaction is rolled back.

        Any thread may call this, repeatedly. A ``receive`` that waits in another thread returns None. The
        call waits until a running listener has returned.

        Raises:
            ProviderError: the provider failed. The client that takes over does the rest.
            SessionStateError: called by a listener of this session.
        """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the session. TRANSACTED is committed first, unless an exception is raised in the block."""


class MessagingConnection(Closeable, Protocol):
    """A client of a provider. Thread-safe, but its sessions are not.

    ``exception_listener``: called with an exception that no call of the program can raise. These are
    exceptions of listeners, and failures of the provider while listeners wait. Without a listener they are
    logged.
    """

    exception_listener: Callable[[Exception], object] | None

    @property
    def client_id(self) -> str:
        """The client id of JMS, which owns durable subscriptions. Empty = none."""

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the provider."""

    def session(self, mode: AcknowledgeMode = AcknowledgeMode.AUTO) -> Session:
        """Opens a new session. Raises ProviderError, or SessionStateError if the connection is closed."""

    def claim_lot(
        self, destination: Destination | str, name: str, limit: int, *, number: int | None = None
    ) -> Lot | None:
        """Returns the lot of a name that is not settled, or makes a new lot of waiting messages.

        A lot is a durable claim of many messages. It outlives this process: the next owner of the name gets
        the same lot. This connection owns the name until it is closed. The delivery need not be started.

        Args:
            destination: a queue.
            limit: the largest number of messages of a new lot, from 1. At a broker a lot also has no more
                messages than a transaction.
            number: return the lot of this number, and make no new one. None = any.

        Returns:
            the lot, for one thread at a time. None = no message waits.

        Raises:
            LotError: another client owns the name. Or the name has a lot of another queue. Or a message of
                the lot is gone. Or the lot ``number`` is settled or does not exist.
            CapabilityError: the provider has no lots, or the destination is no queue that lasts.
            DestinationError: the text is not the name of a destination.
            ValueError: the name is empty, or the limit is less than 1.
            ProviderError: the provider failed.
            SessionStateError: the connection is closed.
        """

    def start(self) -> None:
        """Starts the delivery of messages."""

    def stop(self) -> None:
        """Stops the delivery until :meth:`start`, after running listeners have returned. Sending goes on."""

    def close(self) -> None:
        """Closes all sessions and ends the client. Repeatable. Raises as :meth:`Session.close`."""


_CLIENTS: Final = PlugIns[Callable[..., MessagingConnection]]("connector.clients", "client")
"""What makes a :class:`MessagingConnection`, named ``default``, as a provider, or :data:`_DEPLOYMENT`."""
_DEPLOYMENT: Final = "adapter.yaml"


def make_connection(
    kind: str, provider: Provider, *, client_id: str = "", start: bool = True
) -> MessagingConnection:
    """Connects to a provider.

    Args:
        kind: the name of the provider's entry point.
        client_id, start: as of :func:`connect`.

    Raises:
        ConnectorError: as :func:`connect`.
    """
    make = _CLIENTS.load(kind if kind in _CLIENTS.names else "default")
    return make(provider, client_id=client_id, start=start)


def connect(url: str, *, client_id: str = "", start: bool = True, **options: Any) -> MessagingConnection:
    """Connects to the provider that a URL or a deployment names.

    Args:
        url: ``dropbox:/var/mq``, ``dropbox:./data?create=true`` (made if missing or empty), ``memory:name``
            (within a process, one name is one provider). For any other installed provider its name, a colon,
            and the location. Or the path of an ``adapter.yaml``, which ends with ``.yaml`` or ``.yml``.
        client_id: of JMS. Only one process at a time holds a client id.
        start: whether delivery starts at once, or by :meth:`MessagingConnection.start`.
        options: as the provider's class takes them. None with a deployment.

    Raises:
        ConnectorError: the URL names no provider, or the provider's package cannot be imported.
        ConfigurationError: the ``adapter.yaml`` is missing, or has mistakes.
        ClientIdError: another client has the client id.
        ProviderError: the provider is out of reach.
        TypeError: the provider has no such option.
    """
    scheme, colon, location = url.partition(":")
    found = PROVIDERS.names
    if scheme not in found and url.endswith((".yaml", ".yml")):
        return _CLIENTS.load(_DEPLOYMENT)(url, client_id=client_id, start=start, **options)
    if not colon or scheme not in found:
        known = ", ".join(f"{name}:..." for name in found) or "none is installed"
        hint = ""
        if colon and "sql" in found and scheme.startswith(("postgres", "sqlite")):
            meant = "sqlite:///FILE" if scheme.startswith("sqlite") else "postgresql+psycopg://..."
            hint = f", did you mean 'sql:{meant}'?"
        # The rest of the URL may have a password.
        raise ConnectorError(f"{scheme if colon else url!r} names no provider; there are {known}{hint}")
    kind = PROVIDERS.load(scheme)
    with PROVIDERS.blame(scheme, ImportError):
        provider = kind.open(location, **options)
    return make_connection(scheme, provider, client_id=client_id, start=start)
