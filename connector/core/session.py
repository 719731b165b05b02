"""Sessions: one order of sends, receives and acknowledgements (JMS 2.0, 6.2, and JMS Guaranteed Messaging).

A session needs only the contract in :mod:`connector.messaging.provider`, so every provider has
sessions. :mod:`connector.core.inbox` receives, :mod:`connector.core.acknowledgement` decides when to
acknowledge, and :mod:`connector.core.transaction` holds the transactions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import Any, Final

from connector.core.consumer import Listener, SessionConsumer
from connector.core.dispatch import Dispatcher
from connector.core.fair_lock import FairLock
from connector.core.inbox import Inbox
from connector.core.ledger import Delivery
from connector.core.producer import SessionProducer, as_destination
from connector.core.receiver import MessageListener
from connector.core.session_owner import SessionOwner
from connector.core.subscriptions import check_names
from connector.core.transaction import SessionTransaction
from connector.errors import CapabilityError, SessionStateError, UnknownDestination
from connector.messaging.client import AcknowledgeMode, Body, ReceivedMessage, Session
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.polling import Poller
from connector.messaging.provider import Capabilities, SessionClient
from connector.messaging.roles import Recovering
from connector.messaging.selector import compile_selector, selector_text
from connector.messaging.subscription import TopicSubscription

_SLICE: Final = 0.05
"""Longest wait in seconds, after which a ``close`` in another thread can go on."""


class CoreSession(Session):
    """A session on a connection of a provider.

    Args:
        connection: of the provider, for this session only.
        recovering: ``connection``, if the session is to take over from dead clients.

    Requests and channels also use ``connection``, ``inbox`` and ``lock``. They settle in ways that JMS
    does not have.
    """

    def __init__(
        self,
        connection: SessionClient,
        mode: AcknowledgeMode,
        owner: SessionOwner,
        recovering: Recovering | None = None,
    ) -> None:
        self.mode = mode
        self.connection = connection
        self._owner = owner
        self.inbox = Inbox(connection, connection.access().open(), mode, owner, recovering)
        self.lock = FairLock()
        """Held while the session is used, and while a listener runs."""
        self._dispatcher: Dispatcher | None = None
        self._closing = False
        self._closed = False

    @property
    def transacted(self) -> bool:
        return self.mode is AcknowledgeMode.TRANSACTED

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the provider."""
        return self._owner.capabilities

    # -- destinations ------------------------------------------------------------------------------

    def queue(self, name: str) -> Destination:
        return as_destination(f"queue://{name}", self.capabilities)

    def topic(self, name: str) -> Destination:
        return as_destination(f"topic://{name}", self.capabilities)

    def temporary_queue(self) -> Destination:
        return self._temporary("queue")

    def temporary_topic(self) -> Destination:
        return self._temporary("topic")

    def delete_temporary(self, destination: Destination) -> None:
        self._check_open()
        self._owner.delete_temporary(destination)

    def _temporary(self, kind: str) -> Destination:
        self._require(self._owner.capabilities.temporary_destinations, f"temporary {kind}s")
        self._check_open()
        return self._owner.temporary(kind)

    # -- sending -----------------------------------------------------------------------------------

    def producer(
        self,
        destination: Destination | str | None = None,
        *,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
        delivery_delay: int | None = None,
    ) -> SessionProducer:
        self._check_open()
        return SessionProducer(
            self,
            destination,
            delivery_mode=delivery_mode,
            priority=priority,
            time_to_live=time_to_live,
            delivery_delay=delivery_delay,
        )

    def send(self, destination: Destination | str, body: Body) -> str:
        return SessionProducer(self, destination).send(body)

    def send_many(self, destination: Destination | str, bodies: Iterable[Body]) -> list[str]:
        return SessionProducer(self, destination).send_many(bodies)

    def dispatch(self, destination: Destination, messages: list[Message]) -> list[str]:
        """Sends the messages of a producer: in the transaction, or at once and all together."""
        with self.lock:
            self._check_open()
            if self.inbox.transaction is not None:
                return self.inbox.transaction.send(destination, messages)
            return list(self.connection.send(destination, messages))

    # -- consumers ---------------------------------------------------------------------------------

    def consumer(
        self, destination: Destination | str, selector: str = "", *, no_local: bool = False
    ) -> SessionConsumer:
        source = as_destination(destination, self.capabilities)
        if not source.is_queue:
            return self._subscribe(source, "", selector, no_local=no_local)
        if no_local:
            raise CapabilityError(
                f"no_local: {source} is a queue, expected a topic: only a topic can leave out messages that "
                "the same connection has sent"
            )
        selector = self._selector(selector)
        return self._consume(lambda: self.connection.poller(source, selector=selector))

    def durable_consumer(
        self, topic: Destination | str, name: str, selector: str = "", *, no_local: bool = False
    ) -> SessionConsumer:
        return self._subscribe(topic, name, selector, durable=True, no_local=no_local)

    def shared_durable_consumer(
        self, topic: Destination | str, name: str, selector: str = ""
    ) -> SessionConsumer:
        return self._subscribe(topic, name, selector, durable=True, shared=True)

    def shared_consumer(self, topic: Destination | str, name: str, selector: str = "") -> SessionConsumer:
        return self._subscribe(topic, name, selector, shared=True)

    def unsubscribe(self, name: str) -> None:
        self._require(self._owner.capabilities.topics, "topics")
        with self.lock:
            self._check_open()
            self.connection.unsubscribe(name, self._owner.client_id)

    def browser(self, queue: Destination | str, selector: str = "") -> Iterator[Message]:
        self._check_open()
        selector = self._selector(selector)
        wanted = compile_selector(selector) if selector else None
        found = self._browse(as_destination(queue, self.capabilities))
        return found if wanted is None else filter(wanted.matches, found)

    def _browse(self, queue: Destination) -> Iterator[Message]:
        """Yields the messages of a queue. Makes a queue that is missing, as a consumer does."""
        try:
            return self.connection.browse(queue)
        except UnknownDestination:
            if not queue.is_queue:
                raise
        self.connection.poller(queue.base).close()
        try:
            return self.connection.browse(queue)
        except UnknownDestination:
            return iter(())  # a broker makes the queue with its first message

    def _subscribe(
        self, topic: Destination | str, name: str, selector: str, **details: bool
    ) -> SessionConsumer:
        """Returns a consumer of a subscription.

        Args:
            details: durable, shared and no_local, as :class:`TopicSubscription` has them.
        """
        wanted = TopicSubscription(
            as_destination(topic, self.capabilities),
            name,
            self._owner.client_id,
            selector=selector,
            **details,
        )
        self._require(self._owner.capabilities.topics, "topics")
        check_names(wanted)
        return self._consume(lambda: self.connection.poller(wanted), ends_with_it=not wanted.durable)

    def _consume(self, make: Callable[[], Poller], *, ends_with_it: bool = False) -> SessionConsumer:
        with self.lock:
            self._check_open()
            consumer = SessionConsumer(self, make(), ends_with_it=ends_with_it)
            self.inbox.add(consumer)
            return consumer

    def _selector(self, selector: str) -> str:
        text = selector_text(selector)
        self._require(self._owner.capabilities.selectors or not text, "selectors")
        return text

    # -- receiving ---------------------------------------------------------------------------------

    def receive(self, consumer: SessionConsumer, timeout: float | None) -> ReceivedMessage | None:
        """Returns the next message of a consumer, as :meth:`connector.messaging.client.Consumer.receive`."""
        self._check_open()
        if consumer.closed or consumer.receiver is not None:
            state = "has a listener, which gets its messages" if consumer.receiver else "is closed"
            raise SessionStateError(f"the consumer of {consumer.poller.destination} {state}")
        deadline = None if timeout is None else time.monotonic() + timeout
        consumer.poller.asks = timeout is not None and timeout <= 0
        while True:
            with self.lock:
                if self._closing or consumer.closed:
                    return None
                taken = self.inbox.receive(consumer)
                if taken is not None:
                    delivery, message = taken
                    return ReceivedMessage.of(message, partial(self._acknowledge, delivery))
                left = _SLICE if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    return None
                self.inbox.wait(min(left, _SLICE))

    def listen(self, consumer: SessionConsumer, listener: Listener | None) -> None:
        """Sets a listener, as :meth:`connector.messaging.client.Consumer.listen`."""
        with self.lock:
            self._check_open()
            if consumer.closed:
                raise SessionStateError(f"the consumer of {consumer.poller.destination} is closed")
            consumer.poller.asks = False
            consumer.receiver = None if listener is None else MessageListener(listener)
            if self._dispatcher is None and listener is not None:
                self._dispatcher = Dispatcher(self.inbox, self.lock, self._acknowledge, self._owner.report)

    def remove(self, consumer: SessionConsumer) -> None:
        """Removes a closed consumer."""
        with self.lock:
            self.inbox.remove(consumer)

    def _acknowledge(self, delivery: Delivery) -> None:
        with self.lock:
            if self._closed:
                raise SessionStateError(
                    "the session is closed: messages without acknowledgement are redelivered"
                )
            self.inbox.acknowledge(delivery)

    # -- acknowledging -----------------------------------------------------------------------------

    def commit(self, may_begin: Callable[[], bool] | None = None) -> None:
        """Commits, as :meth:`connector.messaging.client.Session.commit`.

        Args:
            may_begin: asked when the provider has taken all messages. False rolls the transaction back.
                None = a message that has expired meanwhile rolls the transaction back.
        """
        with self.lock:
            self.inbox.commit(self._transaction("commit"), may_begin)

    def rollback(self) -> None:
        with self.lock:
            self._transaction("rollback")
            self.inbox.give_back()

    def recover(self) -> None:
        with self.lock:
            self._check_open()
            if self.transacted:
                raise SessionStateError("a transacted session has no recover(): call rollback()")
            self.inbox.give_back()

    def _transaction(self, what: str) -> SessionTransaction:
        self._check_open()
        if self.inbox.transaction is None:
            raise SessionStateError(
                f"{what}() is for transacted sessions, and this one is {self.mode.name}: make it with "
                "AcknowledgeMode.TRANSACTED"
            )
        return self.inbox.transaction

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        self.refuse_own_listener()
        self._closing = True  # first, because this ends a receive in another thread
        if self._dispatcher is not None:
            self._dispatcher.stop()
        with self.lock:
            if self._closed:
                return
            self._closed = True
            broken = True
            try:
                self.inbox.close()
                broken = False
            finally:
                self._owner.remove_session(self, self.connection, broken=broken)
        if self._dispatcher is not None:
            self._dispatcher.join()

    def abandon(self) -> None:
        """Ends the session as a crash would. Its messages wait for a client that takes over. Repeatable."""
        self._closing = True
        if self._dispatcher is not None:
            self._dispatcher.stop()
        if not self._closed:
            self._closed = True
            self._owner.remove_session(self, self.connection, broken=True)

    def refuse_own_listener(self) -> None:
        """Raises SessionStateError if a listener of this session calls."""
        if self._dispatcher is not None and self._dispatcher.is_current():
            raise SessionStateError(
                "a listener cannot close or stop its own session or connection: do that from another thread"
            )

    def wait_for_listener(self) -> None:
        """Waits until no listener of this session runs. Returns at once in a listener of this session."""
        with self.lock:
            pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self.transacted and not self._closing:
                self.commit()
        finally:
            self.close()

    @property
    def closing(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closing

    def _check_open(self) -> None:
        # a listener that runs when its session is closed may still finish its work
        is_listener = self._dispatcher is not None and self._dispatcher.is_current()
        if self._closed or (self._closing and not is_listener):
            raise SessionStateError("the session is closed: make another one")

    def _require(self, able: bool, what: str) -> None:
        if not able:
            raise CapabilityError(f"this provider has no {what}: choose another provider, or use no {what}")


def sole_session(
    connection: SessionClient,
    mode: AcknowledgeMode,
    capabilities: Capabilities,
    recovering: Recovering | None = None,
    **options: Any,
) -> CoreSession:
    """Returns the only session of a connection of a provider. The connection ends with the session.

    Args:
        connection: abandoned if the session cannot be made.
        recovering: as of :class:`CoreSession`.
        options: of :class:`~connector.core.session_owner.SessionOwner`.

    Raises:
        ProviderError: the connection has failed.
    """
    try:
        return CoreSession(connection, mode, SessionOwner(connection, capabilities, **options), recovering)
    except BaseException:
        connection.abandon()
        raise
