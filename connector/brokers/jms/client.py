"""The :class:`~connector.brokers.engine.broker.BrokerClient` of ``jms``: a JMS client library, through JPype.

Only interfaces of JMS are used, so any client library fits. :class:`~connector.brokers.jms.factory.Factory`
makes its connection factory.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

from connector.brokers.engine.broker import (
    NO_LIMIT,
    BrokerClient,
    BrokerConnection,
    BrokerReceiver,
    BrokerSession,
    CommitUnknown,
    Received,
    UnreadableMessage,
)
from connector.brokers.jms.arrivals import Arrivals
from connector.brokers.jms.browsing import Browsing
from connector.brokers.jms.factory import Factory
from connector.brokers.jms.listeners import queue_listener
from connector.brokers.jms.messages import MessageReader, MessageWriter
from connector.brokers.jms.naming import Destinations
from connector.brokers.jms.reasons import advice_for_closed, is_mistake, is_unsupported, reason_of
from connector.brokers.jms.sends import SendingClient, Sends
from connector.brokers.jms.subscriptions import SubscriptionRecords
from connector.brokers.jms.temporaries import Temporaries
from connector.errors import (
    CapabilityError,
    ClientIdError,
    DestinationError,
    ProviderError,
    ProviderMisconfigured,
    SelectorError,
    SubscriptionError,
    TransactionRolledBack,
    UnknownDestination,
)
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.subscription import TopicSubscription

_log: Final = logging.getLogger("connector.jms")
_NOT_MADE_ANEW: Final = "OPS"
_FETCH_SECONDS: Final = 0.1
_NEXT_SECONDS: Final = 0.002
"""A library that has given a message may be fetching the next one."""
_MAKING_SECONDS: Final = 5.0
_INDIVIDUAL_MODES: Final = {
    "org.apache.qpid.jms.": 101,
    "org.apache.activemq.artemis.": 101,
    "org.apache.activemq.": 4,
}
"""The acknowledge modes of client libraries for single messages, by the beginning of their class names."""
_MOST_PRODUCERS: Final = 64
"""Most producers of a session that are kept for its next transaction."""
_MOST_MS: Final = 1 << 60
"""The longest time to live. A client library adds the present time to it."""


class JmsClient(BrokerClient):
    """A JMS client library as a client of a broker.

    Args:
        jpype: the module, with a started machine.
        factory: of connections.
        subscriptions: the durable subscriptions of the deployment.
    """

    def __init__(self, jpype: Any, factory: Factory, subscriptions: SubscriptionRecords) -> None:
        self.jpype = jpype
        self._subscriptions = subscriptions
        self._settings = factory
        self._factory = factory.make(jpype)
        self.jms = self._package_of(self._factory)
        self._destinations = Destinations(jpype, self.jms, factory.naming)
        self._browsing_factory: Any = None
        atexit.unregister(_close_all)
        atexit.register(_close_all)  # runs before the end of the machine, which was registered earlier

    def _package_of(self, factory: Any) -> Any:
        """Returns the package of JMS that a connection factory implements."""
        for root in ("jakarta", "javax"):
            with contextlib.suppress(AttributeError, TypeError):
                jms = self.jpype.JPackage(root).jms
                if isinstance(factory, jms.ConnectionFactory):
                    return jms
        key = "factory" if self._settings.naming is None else "ConnectionFactoryName"
        name = str(factory.getClass().getName())
        raise ProviderMisconfigured(f"{key}: {name} is no jakarta.jms or javax.jms ConnectionFactory")

    def connect(self, client_id: str) -> JmsConnection:
        return self._connect(self._factory, client_id)

    def _connect_browsing(self) -> JmsConnection:
        if self._browsing_factory is None:
            self._browsing_factory = self._settings.make(self.jpype, browses=True)
        return self._connect(self._browsing_factory, "")

    def _connect(self, factory: Any, client_id: str) -> JmsConnection:
        java = None
        try:
            if self._settings.user is None:
                java = factory.createConnection()
            else:
                java = factory.createConnection(self._settings.user, self._settings.password)
            if client_id:
                java.setClientID(client_id)
            connection = JmsConnection(
                self.jpype,
                self.jms,
                java,
                Browsing(self._connect_browsing),
                client_id,
                self._subscriptions,
                self._destinations,
            )
            java.start()
        except self.jpype.JException as error:
            if java is not None:
                _close(java)
            reason = self._settings.safe(reason_of(error))
            if isinstance(error, self.jms.InvalidClientIDException):
                raise ClientIdError(f"the client id {client_id!r} is in use or not valid: {reason}") from None
            if isinstance(error, self.jms.JMSSecurityException):
                who = f"user {self._settings.user!r}" if self._settings.user else "a client without a user"
                raise ProviderMisconfigured(f"the broker refuses the login of {who}: {reason}") from None
            failure = ProviderMisconfigured if is_mistake(error) else ProviderError
            advice = advice_for_closed(error, self._settings.url or "")
            raise failure(f"the broker cannot be reached: {reason}{advice}") from None
        return connection


class JmsConnection(BrokerConnection):
    def __init__(
        self,
        jpype: Any,
        jms: Any,
        java: Any,
        browsing: Browsing,
        client_id: str,
        subscriptions: SubscriptionRecords,
        destinations: Destinations,
    ) -> None:
        self._browsing = browsing
        self.destinations = destinations
        self._client_id = client_id
        self._subscriptions = subscriptions
        self.jpype = jpype
        self.jms = jms
        self.java = java
        self._failure: str | None = None
        self._exceptions = jpype.JClass("java.util.concurrent.LinkedBlockingQueue")()
        self.making = threading.Lock()
        """Held while a session or consumer is made. Qpid JMS forgets such a request when it closes."""
        self._closed = False
        self.temporaries = Temporaries(jms)
        self.reader = MessageReader(jpype, jms, self._tell)
        self.sending = SendingClient()
        java.setExceptionListener(queue_listener(jpype, jms.ExceptionListener, self._exceptions))
        _open.add(self)

    @property
    def failure(self) -> str | None:
        if self._closed:
            return "the connection is closed"
        arguments = self._exceptions.poll()
        if arguments is not None:
            self._failure = reason_of(arguments[0])
            _log.error("the connection to the broker has failed", extra={"reason": self._failure})
        return self._failure

    def session(self, *, individual: bool = False) -> JmsSession:
        mode = self._individual_mode() if individual else int(self.jms.Session.SESSION_TRANSACTED)
        with self.making, self.errors("a session cannot be made"):
            java = self.java.createSession(not individual, mode)
        return JmsSession(self, java, individual=individual)

    def _individual_mode(self) -> int:
        """Returns the acknowledge mode of the library for single messages, which JMS does not have."""
        library = str(self.java.getClass().getName())
        for prefix, mode in _INDIVIDUAL_MODES.items():
            if library.startswith(prefix):
                return mode
        raise CapabilityError(
            f"the client library ({library}) is not known to acknowledge single messages: use "
            "AcknowledgeMode.CLIENT or TRANSACTED"
        )

    def sends(self) -> Sends:
        """Returns a record of what transactions of a session send."""
        return Sends(self.jpype, self.jms, lambda: self.failure, self.sending)

    def browse(
        self,
        queue: Destination,
        selector: str,
        unreadable: Callable[[Message, str], object] | None = None,
    ) -> Iterator[Message]:
        self.temporaries.get(queue)  # raises an error if it has ended
        return self._browsing.browse(queue, selector, unreadable)

    def unsubscribe(self, name: str) -> None:
        session = self.plain_session()
        try:
            session.unsubscribe(name)
            self._subscriptions.remove(self._client_id, name)
        except self.jpype.JException as error:
            if isinstance(error, self.jms.InvalidDestinationException):  # it does not exist
                self._subscriptions.remove(self._client_id, name)
            raise SubscriptionError(
                f"the subscription {name!r} cannot be removed: {reason_of(error)}"
            ) from None
        finally:
            _close(session)

    def temporary(self, kind: str) -> Destination:
        session = self.plain_session()
        try:
            with self.making, self.errors(f"a temporary {kind} cannot be made"):
                java = session.createTemporaryQueue() if kind == "queue" else session.createTemporaryTopic()
                name = str(java.getQueueName() if kind == "queue" else java.getTopicName())
        finally:
            _close(session)
        made = Destination(kind, name)
        self.temporaries.own[made] = java
        return made

    def delete_temporary(self, destination: Destination) -> None:
        java = self.temporaries.own.get(destination)
        if java is None:
            raise DestinationError(f"{destination} is no temporary destination of this connection")
        try:
            java.delete()
        except self.jpype.JException as error:
            if self.failure is not None:
                raise ProviderError(self.failure) from None
            raise SubscriptionError(f"{destination} cannot be ended: {reason_of(error)}") from None
        self.temporaries.end(destination)

    def find(self, destination: Destination) -> Any:
        """Returns the Java object of a destination that a session need not make, or None.

        Raises:
            UnknownDestination: JNDI has no such destination, or a temporary one has ended.
            ProviderError: JNDI is out of reach.
        """
        return self.temporaries.get(destination) or self.destinations.find(destination)

    def _tell(self, destination: Destination, java: Any) -> None:
        self.temporaries.note(destination, java)
        self.destinations.tell(str(destination), java)

    def record_subscription(self, subscription: TopicSubscription) -> contextlib.AbstractContextManager[None]:
        """Records a subscription that the block makes, if it is durable.

        Raises:
            SubscriptionError: a shared and an unshared subscription would have one name.
        """
        if not (subscription.durable and subscription.name):
            return contextlib.nullcontext()
        return self._subscriptions.record(self._client_id, subscription.name, shared=subscription.shared)

    def plain_session(self) -> Any:
        """Returns a Java session that is not transacted."""
        with self.making, self.errors("a session cannot be made"):
            return self.java.createSession(False, self.jms.Session.AUTO_ACKNOWLEDGE)

    def close(self) -> None:
        self._closed = True
        self._browsing.close()
        has_lock = self.making.acquire(timeout=_MAKING_SECONDS)
        try:
            _close(self.java)
        finally:
            if has_lock:
                self.making.release()

    @contextlib.contextmanager
    def errors(self, what: str, *, sends: bool = False) -> Iterator[None]:
        """Turns Java's exceptions into errors of the connector.

        Args:
            what: begins the text.
            sends: an unknown destination is one of many reasons why a message cannot be sent.
        """
        try:
            yield
        except UnknownDestination as error:  # of JNDI
            if not sends:
                raise
            raise ProviderError(f"{what}: {error}") from None
        except self.jpype.JException as error:
            text = f"{what}: {reason_of(error)}"
            if isinstance(error, self.jms.InvalidSelectorException):
                raise SelectorError(f"{what}: the selector is refused: {reason_of(error)}", 1) from None
            if isinstance(error, self.jms.InvalidDestinationException) and not sends:
                raise UnknownDestination(text) from None
            if isinstance(error, self.jms.JMSSecurityException):
                raise ProviderMisconfigured(text) from None
            raise ProviderError(text) from None


_open: Final[weakref.WeakSet[JmsConnection]] = weakref.WeakSet()


def _close_all() -> None:
    """Closes all connections at the end of the process, which otherwise waits for their threads."""
    for connection in list(_open):
        connection.close()


class JmsSession(BrokerSession):
    def __init__(self, connection: JmsConnection, java: Any, *, individual: bool = False) -> None:
        self._connection = connection
        self._java = java
        self._individual = individual
        self._writer = MessageWriter(connection.jpype, java, connection.find)
        self._producers: dict[Destination, Any] = {}
        self._sends: Sends | None = None
        """The messages that the open transaction has sent. None = none since the last rollback."""
        self._receivers: weakref.WeakSet[JmsReceiver] = weakref.WeakSet()
        self._received: dict[int, tuple[Message, Any]] = {}
        """Messages of the open transaction whose bodies cannot be made anew, with their Java messages. Or all
        messages, if they are acknowledged one by one."""

    def receiver(self, source: Destination | TopicSubscription, selector: str, limit: int) -> JmsReceiver:
        with self._connection.making, self._connection.errors(f"{_name_of(source)} cannot be received from"):
            java = self._consumer(source, selector)
        receiver = JmsReceiver(self._connection, java, _name_of(source), limit, self._keep)
        self._receivers.add(receiver)
        return receiver

    def _consumer(self, source: Destination | TopicSubscription, selector: str) -> Any:
        session = self._java
        if isinstance(source, Destination):
            if not source.is_queue:
                raise CapabilityError(f"{source} is a topic: receive from a subscription")
            queue = self._writer.destination(source)  # None for the selector is ambiguous for some clients
            return session.createConsumer(queue, selector) if selector else session.createConsumer(queue)
        if source.topic.is_queue:
            raise DestinationError(f"{source.topic} is no topic: only a topic has subscriptions")
        topic, wanted = self._writer.destination(source.topic), source.selector or None
        if not source.name:
            return session.createConsumer(topic, wanted, source.no_local)
        with self._connection.record_subscription(source):
            if not source.shared:  # JMS 1.1 has only this name for a durable consumer
                return session.createDurableSubscriber(topic, source.name, wanted, source.no_local)
            try:
                make = session.createSharedDurableConsumer if source.durable else session.createSharedConsumer
                return make(topic, source.name, wanted)
            except (AttributeError, TypeError, self._connection.jpype.JException) as error:
                if not (isinstance(error, AttributeError) or is_unsupported(error)):
                    raise
            raise CapabilityError(
                f"{_name_of(source)} cannot be shared: the client library has no shared subscriptions (JMS "
                "2.0); use one that has, or no_local: true and a single instance"
            )

    def arrivals(self, limit: int) -> Arrivals:
        connection = self._connection

        def make(queue: Destination, selector: str) -> Any:
            with connection.making, connection.errors(f"{queue} cannot be received from"):
                return self._consumer(queue, selector)

        def read(java: Any) -> Received:
            received = connection.reader.read(java, limit)
            self._keep(received, java)
            return received

        return Arrivals(connection.jpype, connection.jms, make, read, lambda: connection.failure)

    def send(self, destination: Destination, message: Message, *, copied: Message | None = None) -> None:
        with self._connection.errors(f"{destination} does not take a message", sends=True):
            producer = self._producers.get(destination)
            if producer is None:
                producer = self._java.createProducer(self._writer.destination(destination))
                self._producers[destination] = producer
            _, received = self._received.get(id(copied), (None, None))
            java = self._writer.write(message, received)
            left = 0
            if message.expiration:
                left = min(max(1, message.expiration - self._now()), _MOST_MS)
            sends = self._sends = self._sends or self._connection.sends()
            sends.send(producer, java, message.delivery_mode, min(9, max(0, message.priority)), left)
            message.message_id = str(java.getJMSMessageID())
            message.timestamp = int(java.getJMSTimestamp())
            message.expiration = int(java.getJMSExpiration())

    def _now(self) -> int:
        return int(self._connection.jpype.JPackage("java").lang.System.currentTimeMillis())

    def _keep(self, received: Received, java: Any) -> None:
        """Keeps a received message until the end of the transaction, if its copy needs the body."""
        message = received.message
        is_whole = received.size == len(message.body) and not received.unreadable
        if is_whole and message.reply_to is None:
            is_whole = java.getJMSReplyTo() is None  # otherwise a destination of another kind
        if self._individual or message.message_class in _NOT_MADE_ANEW or not is_whole:
            self._received[id(message)] = message, java

    def check_sends(self) -> None:
        refusal = "" if self._sends is None else self._sends.refusal()
        if refusal:
            raise ProviderError(f"the broker refuses a message: {refusal}")

    def acknowledge(self, message: Message) -> None:
        _, java = self._received.pop(id(message))
        with self._connection.errors("a message cannot be acknowledged"):
            java.acknowledge()

    def commit(self) -> None:
        refusal = "" if self._sends is None else self._sends.refusal()
        if refusal:
            self.rollback()
            raise TransactionRolledBack(f"the broker refuses a message: {refusal}")
        self._received.clear()
        self._close_producers()
        try:
            self._java.commit()
        except self._connection.jpype.JException as error:
            if isinstance(error, self._connection.jms.TransactionRolledBackException):
                raise TransactionRolledBack(f"the broker has rolled back: {reason_of(error)}") from None
            raise CommitUnknown(
                f"the connection was lost in a commit, which may have happened: {reason_of(error)}"
            ) from None

    def _close_producers(self) -> None:
        """Closes the oldest producers, if there are many: each reply may have a destination of its own."""
        while len(self._producers) > _MOST_PRODUCERS:
            _close(self._producers.pop(next(iter(self._producers))))

    def rollback(self) -> None:
        self._sends = None
        self._received.clear()
        with self._connection.errors("received messages cannot be given back"):
            if self._individual:
                self._java.recover()
            else:
                self._java.rollback()
        for receiver in self._receivers:
            receiver.expect()

    def close(self) -> None:
        _close(self._java)


class JmsReceiver(BrokerReceiver):
    def __init__(
        self,
        connection: JmsConnection,
        java: Any,
        name: str,
        limit: int,
        keep: Callable[[Received, Any], None],
    ) -> None:
        self._name = name
        self._connection = connection
        self._keep = keep
        self._java = java
        self._limit = limit
        self._fetched_at = 0.0
        self.expect()

    def expect(self) -> None:
        """Allows the broker a moment to send: the receiver is new, or its session was rolled back."""
        self._fetched_at = time.monotonic() + _FETCH_SECONDS

    def receive(self, seconds: float, most: int = 1, most_bytes: int = NO_LIMIT) -> list[Received]:
        wait = seconds if seconds < 0 else max(seconds, self._fetched_at - time.monotonic())
        found: list[Received] = []
        size = 0
        with self._connection.errors(f"no message can be received from {self._name}"):
            while len(found) < most and size < most_bytes and (java := self._next(wait)) is not None:
                received = self._connection.reader.read(java, self._limit)
                self._keep(received, java)
                found.append(received)
                size += len(received.message.body)
                wait = _NEXT_SECONDS
        if found:
            self._fetched_at = 0.0
        elif self._connection.failure is not None:  # a closed consumer returns no message either
            raise ProviderError(self._connection.failure)
        return found

    def _next(self, seconds: float) -> Any:
        """Returns what has been fetched, or is fetched within a time. None = nothing."""
        try:
            if seconds <= 0:
                return self._java.receiveNoWait()
            return self._java.receive(max(1, int(seconds * 1000)))
        except self._connection.jpype.JException as error:
            if self._connection.failure is not None:
                raise
            raise UnreadableMessage(
                f"the next message of {self._name} cannot be read by the client library: {reason_of(error)}. "
                f"Correct its sender, and move it to another queue"
            ) from None

    def close(self) -> None:
        _close(self._java)


def _name_of(source: Destination | TopicSubscription) -> str:
    if isinstance(source, Destination):
        return str(source)
    return f"the subscription {source.name!r} of {source.topic}" if source.name else str(source.topic)


def _close(java: Any) -> None:
    """Closes a Java object, which may have ended before."""
    try:
        java.close()
    except Exception as error:
        _log.debug("closing failed", extra={"reason": reason_of(error)})
