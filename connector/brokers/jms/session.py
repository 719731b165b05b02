"""A session of a JMS client library, and its receivers."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from math import ceil
from typing import Any, Final, Protocol

from connector.brokers.engine.broker import (
    NO_LIMIT,
    BrokerReceiver,
    BrokerSession,
    CommitUnknown,
    EndedDestination,
    MessageRefused,
    Received,
    UnreadableMessage,
)
from connector.brokers.jms.arrivals import JmsArrivals
from connector.brokers.jms.credit import Credit, make_consumer
from connector.brokers.jms.jvm import leave_at_end
from connector.brokers.jms.loops import receive_loop
from connector.brokers.jms.messages import MessageReader, MessageWriter
from connector.brokers.jms.names import is_named
from connector.brokers.jms.reasons import HEAP, is_refusal, is_unanswered, is_unsupported, reason_of
from connector.brokers.jms.sends import Outgoing, Sends
from connector.brokers.jms.temporaries import Temporaries
from connector.errors import (
    CapabilityError,
    DestinationError,
    ProviderError,
    TransactionRolledBack,
    UnknownDestination,
)
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.subscription import TopicSubscription

_log: Final = logging.getLogger("connector.jms")
_NOT_MADE_ANEW: Final = "OPS"
_FETCH_SECONDS: Final = 0.1
_NEXT_MS: Final = 2
"""A library that has given a message may be fetching the next one."""
_MORE_SECONDS: Final = 0.02
"""The same of a consumer that has just asked the broker for more."""
_LARGE: Final = 1 << 20
"""Bytes of a body from which on messages leave one by one, so that the heap has one of them at a time."""
_MOST_PRODUCERS: Final = 64
"""Most producers of a session that are kept for its next transaction."""
_MOST_MS: Final = 1 << 60
"""The longest time to live, and the longest delay. A client library adds the present time to it."""
_FOREIGN_MS: Final = 300_000
"""The longest time to live of a message to a temporary destination of another client. A broker may make a
queue of that name although the client has gone."""


class JmsSessionOwner(Protocol):
    """The part of a connection that a session needs."""

    jpype: Any
    jms: Any
    reader: MessageReader
    temporaries: Temporaries
    making: threading.Lock
    asks: bool
    """Whether ``receiveNoWait`` of the client library asks the broker."""
    bytes_ahead: int
    """Bytes of the bodies that a consumer has fetched ahead, about."""

    @property
    def failure(self) -> str | None:
        """The reason why the connection has ended, or None."""

    def available_listener(self, interface: Any, tag: int) -> Any:
        """Returns the listener of a consumer, which is told of each message that has come."""

    def sends(self) -> Sends:
        """Returns a record of what transactions of a session send."""

    def find(self, destination: Destination) -> Any:
        """Returns the Java object of a destination that a session need not make, or None."""

    def record_subscription(self, wanted: TopicSubscription) -> AbstractContextManager[TopicSubscription]:
        """Returns a context that makes a subscription. Its value has the name at the broker."""

    def errors(
        self,
        what: str,
        *,
        unknown: type[ProviderError | UnknownDestination] = UnknownDestination,
        refused: type[ProviderError] = ProviderError,
    ) -> AbstractContextManager[None]:
        """Turns Java's exceptions into errors of the connector."""


class JmsSession(BrokerSession):
    def __init__(self, connection: JmsSessionOwner, java: Any, *, individual: bool = False) -> None:
        self._connection = connection
        self._java = java
        self._individual = individual
        self._writer = MessageWriter(connection.jpype, java, connection.find)
        self._producers: dict[tuple[Destination, bool], Any] = {}
        """By destination, and whether the messages are delayed."""
        self._sends: Sends | None = None
        """The messages that the open transaction has sent. None = none since the last rollback."""
        self._posts: list[tuple[Destination, Outgoing]] = []
        self._receivers: weakref.WeakSet[JmsReceiver] = weakref.WeakSet()
        self._received: dict[int, tuple[Message, Any]] = {}
        """Messages of the open transaction whose bodies cannot be made anew, with their Java messages. Or all
        messages, if they are acknowledged one by one."""

    def receiver(self, source: Destination | TopicSubscription, selector: str, limit: int) -> JmsReceiver:
        with self._connection.making, self._connection.errors(f"{_name_of(source)} cannot be received from"):
            java, credit = make_consumer(
                self._connection.jpype,
                self._java,
                lambda: self._consumer(source, selector),
                self._connection.bytes_ahead,
                limit,
            )
        turn = None
        if isinstance(source, Destination) and not self._connection.asks:
            turn = partial(self._turn, source, selector)
        receiver = JmsReceiver(self._connection, java, _name_of(source), limit, self._keep, turn, credit)
        self._receivers.add(receiver)
        return receiver

    def _turn(self, queue: Destination, selector: str) -> None:
        """Waits for an answer of the broker, which comes behind all that it has sent."""
        with contextlib.suppress(
            self._connection.jms.JMSSecurityException
        ):  # who receives may perhaps not look
            browser = self._java.createBrowser(self._writer.destination(queue), selector or None)
            browser.getEnumeration().hasMoreElements()
            close(browser)

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
        with self._connection.record_subscription(source) as made:
            if not source.shared:  # JMS 1.1 has only this name for a durable consumer
                return session.createDurableSubscriber(topic, made.name, wanted, source.no_local)
            try:
                make = session.createSharedDurableConsumer if source.durable else session.createSharedConsumer
                return make(topic, made.name, wanted)
            except (AttributeError, TypeError, self._connection.jpype.JException) as error:
                if not (isinstance(error, AttributeError) or is_unsupported(error)):
                    raise
            raise CapabilityError(
                f"{_name_of(source)} cannot be shared: the client library has no shared subscriptions (JMS "
                "2.0); use one that has, or no_local: true and a single instance"
            )

    def arrivals(self, limit: int) -> JmsArrivals:
        connection = self._connection

        def make(queue: Destination, selector: str, listener: Any) -> Any:
            with connection.errors(f"{queue} cannot be received from"):
                with connection.making:
                    consumer = self._consumer(queue, selector)
                consumer.setMessageListener(listener)
                return consumer

        def read(java: Any) -> Received:
            received = connection.reader.read(java, limit)
            self._keep(received, java)
            return received

        return JmsArrivals(connection.jpype, connection.jms, make, read, lambda: connection.failure)

    def send(self, destination: Destination, message: Message, *, copied: Message | None = None) -> None:
        self._send_posts()
        made = self._make(destination, message, copied)
        self._send(destination, made)
        with self._errors(destination):
            message.message_id = str(made.java.getJMSMessageID())
            message.timestamp = int(made.java.getJMSTimestamp())
            message.expiration = int(made.java.getJMSExpiration())

    def post(self, destination: Destination, message: Message, *, copied: Message | None = None) -> None:
        if self._connection.temporaries.is_foreign(destination):
            self.send(destination, message, copied=copied)  # the caller wants to know that it has ended
        else:
            self._posts.append((destination, self._make(destination, message, copied)))
            if len(message.body) >= _LARGE:
                self.check_sends()

    def _make(self, destination: Destination, message: Message, copied: Message | None) -> Outgoing:
        """Makes the Java message of a message to send."""
        with self._errors(destination):
            kind = destination, message.delivery_time > 0
            producer = self._producers.get(kind)
            if producer is None:
                producer = self._java.createProducer(self._writer.destination(destination))
                self._producers[kind] = producer
            _, received = self._received.get(id(copied), (None, None))
            java = self._writer.write(message, received)
            left = 0
            if message.expiration:
                left = min(max(1, message.expiration - self._now()), _MOST_MS)
            elif self._connection.temporaries.is_foreign(destination):
                left = _FOREIGN_MS
        priority = min(9, max(0, message.priority))
        return Outgoing(producer, java, message.delivery_mode, priority, left, message.delivery_time)

    def _send_posts(self) -> None:
        """Sends what :meth:`post` has kept."""
        posts, self._posts = self._posts, []
        for destination, made in posts:
            self._send(destination, made)

    def _send(self, destination: Destination, made: Outgoing) -> None:
        self._sends = self._sends or self._connection.sends()
        try:
            if made.due:
                self._delay(made)
            self._sends.send(made)
        except self._connection.jpype.JException:
            with self._errors(destination):
                raise

    def _delay(self, made: Outgoing) -> None:
        """Sets the delivery delay of a producer for its next message."""
        try:
            made.producer.setDeliveryDelay(min(max(0, made.due - self._now()), _MOST_MS))
        except (AttributeError, TypeError, self._connection.jpype.JException) as error:
            if not (isinstance(error, AttributeError) or is_unsupported(error)):
                raise
            raise CapabilityError("the client library has no delivery delay (JMS 2.0, 7.9)") from None

    def _errors(self, destination: Destination) -> AbstractContextManager[None]:
        is_foreign = self._connection.temporaries.is_foreign(destination)
        unknown = EndedDestination if is_foreign else MessageRefused
        return self._connection.errors(
            f"{destination} does not take a message", unknown=unknown, refused=MessageRefused
        )

    def _now(self) -> int:
        return int(self._connection.jpype.JPackage("java").lang.System.currentTimeMillis())

    def _keep(self, received: Received, java: Any) -> None:
        """Keeps a received message until the end of the transaction, if its copy needs the body."""
        message = received.message
        is_whole = received.size == len(message.body) and not received.unreadable
        has_reply_to = message.reply_to is None or is_named(message.reply_to)
        if self._individual or message.message_class in _NOT_MADE_ANEW or not (is_whole and has_reply_to):
            self._received[id(message)] = message, java

    def check_sends(self) -> None:
        self._send_posts()
        if self._sends is not None:
            self._sends.check()

    def acknowledge(self, message: Message) -> None:
        _, java = self._received.pop(id(message))
        with self._connection.errors("a message cannot be acknowledged"):
            java.acknowledge()

    def commit(self) -> None:
        try:
            self.check_sends()
        except ProviderError as error:
            self.rollback()
            raise TransactionRolledBack(str(error)) from error
        self._received.clear()
        self._close_producers()
        leave_at_end()
        try:
            self._java.commit()
        except self._connection.jpype.JException as error:
            is_rolled_back = isinstance(error, self._connection.jms.TransactionRolledBackException)
            if is_rolled_back and not is_unanswered(error):
                cause = MessageRefused(reason_of(error)) if is_refusal(error) else None
                raise TransactionRolledBack(f"the broker has rolled back: {reason_of(error)}") from cause
            raise CommitUnknown(
                f"the connection was lost in a commit, which may have happened: {reason_of(error)}"
            ) from None

    def _close_producers(self) -> None:
        """Closes the oldest producers, if there are many: each reply may have a destination of its own."""
        while len(self._producers) > _MOST_PRODUCERS:
            close(self._producers.pop(next(iter(self._producers))))

    def rollback(self) -> None:
        self._sends = None
        self._posts = []
        self._received.clear()
        with self._connection.errors("received messages cannot be given back"):
            if self._individual:
                self._java.recover()
            else:
                self._java.rollback()
        for receiver in self._receivers:
            receiver.expect()

    def close(self) -> None:
        close(self._java)


class JmsReceiver(BrokerReceiver):
    def __init__(
        self,
        connection: JmsSessionOwner,
        java: Any,
        name: str,
        limit: int,
        keep: Callable[[Received, Any], None],
        turn: Callable[[], None] | None,
        credit: Credit | None = None,
    ) -> None:
        self._name = name
        self._turn = turn
        self._credit = credit
        self._connection = connection
        self._keep = keep
        self._java = java
        self._limit = limit
        self._receive_more: Callable[[int], Sequence[Any]] | None = None
        self._fetched_at = 0.0
        self.expect()

    def expect(self) -> None:
        """Allows the broker a moment to send: the receiver is new, or its session was rolled back."""
        self._fetched_at = time.monotonic() + _FETCH_SECONDS

    def notify(self, tag: int) -> bool:
        """See :meth:`BrokerReceiver.notify`. Qpid JMS and the client of ActiveMQ Classic can."""
        methods = self._java.getClass().getMethods()
        setter = next((one for one in methods if str(one.getName()) == "setAvailableListener"), None)
        if setter is None:
            return False
        interface = self._connection.jpype.JClass(setter.getParameterTypes()[0])
        self._java.setAvailableListener(self._connection.available_listener(interface, tag))
        return True

    def receive(self, seconds: float, most: int = 1, most_bytes: int = NO_LIMIT) -> list[Received]:
        grows = self._credit is not None and self._credit.grows
        least = _MORE_SECONDS if grows else 0.0
        wait = seconds if seconds < 0 else max(seconds, least, self._fetched_at - time.monotonic())
        found: list[Received] = []
        size = largest = 0
        with self._connection.errors(f"no message can be received from {self._name}"):
            javas = self._next(wait)
            if not javas and wait and not seconds:
                javas = self._next(0)
            if not javas and not seconds and self._turn is not None:
                self._turn()
                javas = self._next(_NEXT_MS / 1000)
            while javas:
                for java in javas:
                    received = self._connection.reader.read(java, self._limit)
                    if HEAP in received.unreadable:  # for now
                        raise UnreadableMessage(f"a message of {self._name}: {received.unreadable}")
                    self._keep(received, java)
                    found.append(received)
                    size += len(received.message.body)
                    largest = max(largest, len(received.message.body), 1)
                room = min(most - len(found), ceil((most_bytes - size) / largest), len(found) * 4)
                javas = self._more(room, found[-len(javas) :])
        if found:
            self._fetched_at = 0.0
        elif self._connection.failure is not None:  # a closed consumer returns no message either
            raise ProviderError(self._connection.failure)
        return found

    def _next(self, seconds: float) -> Sequence[Any]:
        """Returns the first message. 0 seconds = asks the broker, if the library can."""
        with self._reading():
            found = self._java.receive(max(1, int(seconds * 1000))) if seconds else self._java.receiveNoWait()
        return [] if found is None else [found]

    def _more(self, most: int, came: Sequence[Received]) -> Sequence[Any]:
        """Returns messages that have been fetched, after others that have come."""
        asks = self._credit is not None and self._credit.note(len(came), max(one.size for one in came))
        if most <= 0:
            return []
        if asks:
            return self._next(_MORE_SECONDS)
        if self._receive_more is None:
            self._receive_more = receive_loop(
                self._connection.jpype, self._connection.jms, self._java, _NEXT_MS
            )
        with self._reading():
            return self._receive_more(most)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Says which message the client library cannot read."""
        try:
            yield
        except self._connection.jpype.JException as error:
            of_java = isinstance(error, self._connection.jpype.JClass("java.lang.Error"))  # of the message
            if (is_unanswered(error) and not of_java) or self._connection.failure is not None:
                raise
            raise UnreadableMessage(
                f"the next message of {self._name} cannot be read by the client library: {reason_of(error)}. "
                f"Correct its sender, and move it to another queue"
            ) from None

    def close(self) -> None:
        close(self._java)


def _name_of(source: Destination | TopicSubscription) -> str:
    if isinstance(source, Destination):
        return str(source)
    return f"the subscription {source.name!r} of {source.topic}" if source.name else str(source.topic)


def close(java: Any) -> None:
    """Closes a Java object, which may have ended before."""
    leave_at_end()
    try:
        java.close()
    except Exception as error:
        _log.debug("closing failed", extra={"reason": reason_of(error)})
