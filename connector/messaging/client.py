"""What a Python program uses: connections, sessions, consumers, producers (JMS 2.0, chapters 5 to 8).

::

    with connect("dropbox:/var/mq", client_id="billing") as connection:
        with connection.session(AcknowledgeMode.TRANSACTED) as session:
            orders = session.consumer("queue://orders", "region = 'EU'")
            bills = session.producer("queue://bills")
            for order in orders.messages(timeout=5.0):
                bills.send(b"paid", correlation_id=order.message_id)
                session.commit()

These are contracts; what implements them stands on a provider and is found by :func:`connect`.
A destination may be given as text, ``queue://orders``, ``topic://prices`` or ``orders``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from importlib.metadata import entry_points
from types import TracebackType
from typing import Any, Final, Protocol, Self

from connector.errors import ConnectorError
from connector.messaging.bodies import Value
from connector.messaging.destination import Destination
from connector.messaging.message import Message, PropertyValue
from connector.messaging.provider import Capabilities
from connector.messaging.provider_kind import installed_providers

CLIENTS: Final = "connector.clients"
"""Entry points: who makes a :class:`MessagingConnection` of a provider; ``default``, or a provider's name."""


Body = Message | Value
"""What can be sent: a message as it is, or a body whose Python type chooses the message class."""


class AcknowledgeMode(Enum):
    """When a message that a session has delivered leaves the store (JMS Guaranteed Messaging)."""

    AUTO = "auto"
    """As the last step of ``receive``, or after the listener returned: at most the latest comes twice."""
    DUPS_OK = "dups_ok"
    """Lazily, many at a time; after a crash those may come again."""
    CLIENT = "client"
    """By ``acknowledge()`` of a message: that one and all that the session has delivered so far."""
    INDIVIDUAL = "individual"
    """By ``acknowledge()`` of a message: that one only."""
    TRANSACTED = "transacted"
    """By ``commit()``, together with all that was sent."""


class ReceivedMessage(Message):
    """A message that a consumer has delivered."""

    __slots__ = ("_acknowledge",)

    _acknowledge: Callable[[], None]

    @classmethod
    def of(cls, message: Message, acknowledge: Callable[[], None]) -> ReceivedMessage:
        """The same message, whose :meth:`acknowledge` does what the session's mode wants."""
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
            message.properties,
            message.property_types,
        )
        received._acknowledge = acknowledge
        return received

    def acknowledge(self) -> None:
        """Acknowledges as the session's mode says; does nothing in AUTO, DUPS_OK and TRANSACTED.

        Raises:
            ClaimLost: the message is not this session's any more; it comes again, to whomever. In CLIENT
                mode nothing was acknowledged; ``recover()`` brings the others again.
            ProviderError: the provider failed; the message comes again.
            SessionStateError: the session is closed; the message comes again.
        """
        self._acknowledge()


class Consumer(Protocol):
    """Takes messages of one queue or subscription, highest priority first, then oldest."""

    def receive(self, timeout: float | None = None) -> ReceivedMessage | None:
        """The next message; waits for it ``timeout`` seconds, or without end.

        Returns None when none came in time, or when the consumer was closed meanwhile. While the
        connection is stopped, none comes.

        Raises:
            MalformedData: the message cannot be read. It counts as delivered: in AUTO, DUPS_OK and
                INDIVIDUAL it stays unacknowledged and comes again after ``recover()`` or ``close()``;
                in CLIENT and TRANSACTED it goes with the next acknowledgement or commit.
            ProviderError: the provider failed; no message was lost.
            SessionStateError: it was closed before, or has a listener.
        """

    def receive_nowait(self) -> ReceivedMessage | None:
        """The next message if there is one now; raises as :meth:`receive`."""

    def messages(self, timeout: float | None = None) -> Iterator[ReceivedMessage]:
        """Messages until none has come for ``timeout`` seconds, or until the consumer is closed."""

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Messages until the consumer is closed."""

    def listen(self, listener: Callable[[ReceivedMessage], object] | None) -> None:
        """Calls ``listener`` for each message from now on; None ends that.

        All listeners of a session run in one thread of it, one after the other. When a listener
        raises, the message comes again, its delivery count one more (in TRANSACTED the transaction is
        rolled back), and the connection's ``exception_listener`` is told.

        Raises:
            SessionStateError: it is closed.
        """

    def close(self) -> None:
        """Ends it; a ``receive`` that waits in another thread returns None. Repeatable.

        What it has delivered can still be acknowledged.
        """

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Producer(Protocol):
    """Sends to one destination, or to those that are named with each message."""

    def send(
        self,
        body: Body,
        *,
        destination: Destination | str | None = None,
        type: str | None = None,
        correlation_id: str | None = None,
        reply_to: Destination | str | None = None,
        properties: Mapping[str, PropertyValue] | None = None,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
    ) -> str:
        """Sends one message and returns its id; in TRANSACTED nobody sees it before the commit.

        Args:
            body: str = text, bytes = bytes, dict = map, list = stream, None = no body; or a
                :class:`~connector.messaging.message.Message`, whose own headers count where nothing
                else is said here or by the producer. It is not changed.
            destination: where the producer has none.
            type, correlation_id, reply_to, properties: headers; properties are added to a message's own.
                The name of a property is an identifier of the selectors and none of the provider's
                (JMS 2.0, 3.5.1). A message that was received is sent on with whatever names it has.
            delivery_mode, priority, time_to_live: as of the producer, for this message.

        Raises:
            CapabilityError: the provider does not do it, as persistent messages in memory.
            DestinationError: there is no destination, or one too many, or its name is wrong.
            ProviderError: nothing was sent.
            SessionStateError: the session or the producer is closed.
            TypeError, ValueError: the body, a property or its name is nothing that a message can carry.
        """

    def send_many(self, bodies: Iterable[Body], *, destination: Destination | str | None = None) -> list[str]:
        """Sends all or none, in one commit; returns the ids. Raises as :meth:`send`."""

    def close(self) -> None:
        """Ends it. Repeatable."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Session(Protocol):
    """One thread of work: it sends, receives and acknowledges in one order.

    Use it from one thread at a time; :meth:`close` may be called from any. Where a consumer has a
    listener, calls from other threads wait until the listener has returned.
    """

    mode: AcknowledgeMode

    @property
    def transacted(self) -> bool:
        """Whether the mode is TRANSACTED."""

    def queue(self, name: str) -> Destination:
        """The queue of this name; raises DestinationError where it is none."""

    def topic(self, name: str) -> Destination:
        """The topic of this name; raises DestinationError where it is none."""

    def temporary_queue(self) -> Destination:
        """A queue for replies: everybody may send to it, only sessions of this connection receive.

        It ends with the connection. Raises CapabilityError where the provider has none.
        """

    def temporary_topic(self) -> Destination:
        """The same as a topic."""

    def delete_temporary(self, destination: Destination) -> None:
        """Ends a temporary destination of the connection, with its messages.

        Raises:
            DestinationError: it is none, or somebody else's.
            SubscriptionError: it has a consumer.
        """

    def producer(
        self,
        destination: Destination | str | None = None,
        *,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
    ) -> Producer:
        """Sends to ``destination``, or where each message says.

        Args:
            delivery_mode: PERSISTENT or NON_PERSISTENT; None = persistent where the provider is
                reliable, else not.
            priority: 0 to 9; None = 4.
            time_to_live: milliseconds until a message expires; None or 0 = never.
        """

    def send(self, destination: Destination | str, body: Body) -> str:
        """Sends one message and returns its id; see :meth:`Producer.send`."""

    def send_many(self, destination: Destination | str, bodies: Iterable[Body]) -> list[str]:
        """Sends all or none, in one commit; see :meth:`Producer.send_many`."""

    def consumer(
        self, destination: Destination | str, selector: str = "", *, no_local: bool = False
    ) -> Consumer:
        """Takes from a queue, or from a topic what is sent to it from now until the consumer closes.

        Args:
            no_local: not what this connection sends itself; for topics only.

        Raises:
            CapabilityError: the provider cannot do it.
            SelectorError: the selector is not valid.
            ProviderError: the provider failed.
            SessionStateError: the session is closed.
        """

    def durable_consumer(
        self, topic: Destination | str, name: str, selector: str = "", *, no_local: bool = False
    ) -> Consumer:
        """The only consumer of the durable subscription ``name`` of this client id.

        Where that exists and nobody consumes it, other details make it anew; its backlog is lost.

        Raises:
            SubscriptionError: no client id, or another subscription, or a consumer, is in the way.
            DestinationError: it is no topic. Others as :meth:`consumer`.
        """

    def shared_durable_consumer(self, topic: Destination | str, name: str, selector: str = "") -> Consumer:
        """One of the consumers that share a durable subscription; raises as :meth:`durable_consumer`."""

    def shared_consumer(self, topic: Destination | str, name: str, selector: str = "") -> Consumer:
        """One of the consumers that share a subscription, which ends with the last of them."""

    def unsubscribe(self, name: str) -> None:
        """Removes a durable subscription, shared or not, of this client id, with its messages.

        Raises:
            SubscriptionError: there is none, it has a consumer, or a message of it is unacknowledged.
        """

    def browser(self, queue: Destination | str, selector: str = "") -> Iterator[Message]:
        """The messages of a queue, waiting or delivered, in the order of taking; takes none.

        Raises:
            UnknownDestination: there is no such queue.
        """

    def commit(self) -> None:
        """Acknowledges what was received and sends what was sent, both or neither; the next one begins.

        Raises:
            TransactionRolledBack: it was not possible, all of it was undone: a message to be sent had
                expired or cannot be made durable, or one received is not this session's any more.
            ProviderError: the provider failed. If a ``SettlementError``, the transaction is as it was.
            SessionStateError: not transacted, or closed.
        """

    def rollback(self) -> None:
        """Drops what was sent; what was received comes again, redelivered. The next one begins.

        Raises:
            ProviderError: the provider failed; the transaction is as it was.
            SessionStateError: not transacted, or closed.
        """

    def recover(self) -> None:
        """Everything unacknowledged comes again, redelivered, oldest first.

        Raises:
            ProviderError: the provider failed.
            SessionStateError: transacted, or closed.
        """

    def close(self) -> None:
        """Ends it; repeatable, from any thread. What is unacknowledged comes again, a transaction rolls back.

        A ``receive`` that waits in another thread returns None. A listener that runs is waited for.

        Raises:
            ProviderError: the provider failed; whoever takes over does the rest.
            SessionStateError: called by a listener of this session.
        """

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes; TRANSACTED is committed before, unless an exception is on its way."""


class MessagingConnection(Protocol):
    """A client of a provider. Thread-safe; its sessions are not.

    ``exception_listener``: called with what went wrong where no call of the program can raise it: the
    exceptions of listeners, and failures of the provider while listeners wait. Without one they are logged.
    """

    exception_listener: Callable[[Exception], object] | None

    @property
    def client_id(self) -> str:
        """Of JMS: whose durable subscriptions it sees; empty = none."""

    @property
    def capabilities(self) -> Capabilities:
        """What the provider is able to do."""

    def session(self, mode: AcknowledgeMode = AcknowledgeMode.AUTO) -> Session:
        """A session of its own; raises ProviderError, or SessionStateError when closed."""

    def start(self) -> None:
        """Messages are delivered from now on."""

    def stop(self) -> None:
        """None is delivered until :meth:`start`; listeners that run are waited for. Sending goes on."""

    def close(self) -> None:
        """Closes all sessions and ends the client; repeatable, raises as :meth:`Session.close`."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def connect(url: str, *, client_id: str = "", start: bool = True, **options: Any) -> MessagingConnection:
    """Connects to the provider that a URL names.

    Args:
        url: ``dropbox:/var/mq``, ``dropbox:./data?create=true`` (made where it is missing or empty),
            ``memory:name`` (within a process, one name is one provider); of any other installed provider
            its name and what that takes.
        client_id: of JMS; held by one process at a time.
        start: whether messages are delivered at once, or from :meth:`MessagingConnection.start` on.
        options: of the provider, as its class takes them.

    Raises:
        ConnectorError: the URL names no provider, or the package of that cannot be imported.
        ClientIdError: somebody else has the client id.
        ProviderError: the provider is out of reach.
        TypeError: it has no such option.
    """
    scheme, colon, location = url.partition(":")
    found = installed_providers()
    if not colon or scheme not in found:
        known = ", ".join(f"{name}:..." for name in found) or "none is installed"
        raise ConnectorError(f"{url!r} names no provider; there are {known}")
    provider = found[scheme].open(location, **options)
    clients = {entry.name: entry for entry in entry_points(group=CLIENTS)}
    make = clients.get(scheme) or clients["default"]
    connection: MessagingConnection = make.load()(provider, client_id=client_id, start=start)
    return connection
