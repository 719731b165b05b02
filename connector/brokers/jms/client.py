"""The :class:`~connector.brokers.engine.broker.BrokerClient` of ``jms``: a JMS client library, through JPype.

Only interfaces of JMS are used, so any client library fits. :class:`~connector.brokers.jms.factory.Factory`
makes its connection factory.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

from connector.brokers.engine.broker import BrokerClient, BrokerConnection, EndedDestination
from connector.brokers.engine.silence import CLOSE, BrokerSilent
from connector.brokers.jms.browsing import JmsBrowsers
from connector.brokers.jms.factory import Factory
from connector.brokers.jms.jvm import leave_at_end
from connector.brokers.jms.listeners import queue_listener
from connector.brokers.jms.messages import MessageReader
from connector.brokers.jms.names import name_of
from connector.brokers.jms.naming import Destinations
from connector.brokers.jms.reasons import (
    HEAP,
    advice_for_closed,
    is_mistake,
    is_refusal,
    is_silence,
    is_unanswered,
    reason_of,
)
from connector.brokers.jms.sends import SendingClient, Sends
from connector.brokers.jms.session import JmsSession, close
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
    UnknownDestination,
)
from connector.messaging.destination import Destination, known_destination
from connector.messaging.message import Message
from connector.messaging.subscription import TopicSubscription

_log: Final = logging.getLogger("connector.jms")
_MOST_NEWS: Final = 256
"""Messages of which nobody has taken note yet, at most."""
_INDIVIDUAL_MODES: Final = {
    "org.apache.qpid.jms.": 101,
    "org.apache.activemq.artemis.": 101,
    "org.apache.activemq.": 4,
}
"""The acknowledge modes of client libraries for single messages, by the beginning of their class names."""
_ASKING: Final = ("org.apache.qpid.jms.", "org.apache.activemq.artemis.", "com.ibm.")
"""Client libraries whose ``receiveNoWait`` asks the broker. Others look at what they have fetched."""


class JmsClient(BrokerClient):
    """A JMS client library as a client of a broker.

    Args:
        jpype: the module, with a started machine.
    """

    def __init__(self, jpype: Any, factory: Factory, subscriptions: SubscriptionRecords) -> None:
        self.jpype = jpype
        self._subscriptions = subscriptions
        self._settings = factory
        self._factory = factory.make(jpype)
        self.jms = self._package_of(self._factory)
        self._destinations = Destinations(jpype, self.jms, factory.naming)
        self._browsing_factories: dict[float, Any] = {}
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

    def _connect_browsing(self, seconds: float) -> JmsConnection:
        if seconds not in self._browsing_factories:
            self._browsing_factories[seconds] = self._settings.make(self.jpype, browses=seconds)
        return self._connect(self._browsing_factories[seconds], "")

    def _connect(self, factory: Any, client_id: str) -> JmsConnection:
        java = None
        leave_at_end()
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
                JmsBrowsers(self._connect_browsing),
                client_id,
                self._subscriptions,
                self._destinations,
                self._settings.bytes_ahead,
            )
            java.start()
            _reached.add(self._settings.url)
        except self.jpype.JException as error:
            if java is not None:
                close(java)
            reason = self._settings.safe(reason_of(error))
            if isinstance(error, self.jms.InvalidClientIDException):
                raise ClientIdError(f"the client id {client_id!r} is in use or not valid: {reason}") from None
            if isinstance(error, self.jms.JMSSecurityException):
                who = f"user {self._settings.user!r}" if self._settings.user else "a client without a user"
                raise ProviderMisconfigured(f"the broker refuses the login of {who}: {reason}") from None
            failure = ProviderMisconfigured if is_mistake(error) else ProviderError
            is_known = self._settings.url in _reached  # then its protocol is not the cause
            advice = "" if is_known else advice_for_closed(error, self._settings.url or "")
            raise failure(f"the broker cannot be reached: {reason}{advice}") from None
        return connection


class JmsConnection(BrokerConnection):
    def __init__(
        self,
        jpype: Any,
        jms: Any,
        java: Any,
        browsing: JmsBrowsers,
        client_id: str,
        subscriptions: SubscriptionRecords,
        destinations: Destinations,
        bytes_ahead: int,
    ) -> None:
        self.bytes_ahead = bytes_ahead
        self._browsing = browsing
        self.destinations = destinations
        self._client_id = client_id
        self._subscriptions = subscriptions
        self.jpype = jpype
        self.jms = jms
        self.java = java
        self._failure: str | None = None
        self._news = jpype.JClass("java.util.concurrent.ArrayBlockingQueue")(_MOST_NEWS)
        self._exceptions = jpype.JClass("java.util.concurrent.LinkedBlockingQueue")()
        self.making = threading.Lock()
        """Held while a session or consumer is made. Qpid JMS forgets such a request when it closes."""
        self._closed = False
        self.temporaries = Temporaries(jms)
        self.reader = MessageReader(jpype, jms, self._tell)
        self.sending = SendingClient(limit=_send_limit(java))
        self.asks = str(java.getClass().getName()).startswith(_ASKING)
        java.setExceptionListener(queue_listener(jpype, jms.ExceptionListener, self._exceptions))
        _open.add(self)

    @property
    def failure(self) -> str | None:
        if self._closed:
            return "the connection is closed"
        leave_at_end()
        arguments = self._exceptions.poll()
        if arguments is not None:
            self._note_failure(arguments[0])
        return self._failure

    def _note_failure(self, error: Any) -> None:
        reason = self._reason_of(error)
        if self._failure is None:
            self._failure = reason
            _log.error("the connection to the broker has failed", extra={"reason": reason})

    def _look_for_failure(self) -> None:
        """Notes that the connection has ended, if it has. The client library tells its listener later."""
        try:
            self.java.getClientID()
        except self.jpype.JException as error:
            self._note_failure(error)

    def _reason_of(self, error: Any) -> str:
        """Returns the reason of a failure, and notes whether the heap of Java was used up."""
        reason = reason_of(error)
        if HEAP in reason:
            self.shortage = reason
        return reason

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

    def available_listener(self, interface: Any, tag: int) -> Any:
        """Returns the listener of a consumer, which is told of each message that has come."""
        return queue_listener(self.jpype, interface, self._news, tag)

    def take_news(self, seconds: float) -> set[int] | None:
        leave_at_end()
        found = self.jpype.JClass("java.util.ArrayList")()
        if seconds > 0:
            unit = self.jpype.JClass("java.util.concurrent.TimeUnit").MILLISECONDS
            if (first := self._news.poll(int(seconds * 1000), unit)) is not None:
                found.add(first)
        self._news.drainTo(found)
        if found.size() >= _MOST_NEWS:  # further ones may have been refused
            return None
        return {tag for one in found if (tag := int(one.getKey()))}

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
        if self.application:
            name = self._subscriptions.name_of(self.application, name)
        session = self.plain_session()
        try:
            session.unsubscribe(name)
            self._subscriptions.remove(self._client_id, name)
        except self.jpype.JException as error:
            if isinstance(error, self.jms.InvalidDestinationException):  # it does not exist
                self._subscriptions.remove(self._client_id, name)
            raise SubscriptionError(
                f"the subscription {name!r} cannot be removed: {reason_of(error)}"
                f"{self._subscriptions.hint(name)}"
            ) from None
        finally:
            close(session)

    def temporary(self, kind: str) -> Destination:
        session = self.plain_session()
        try:
            with self.making, self.errors(f"a temporary {kind} cannot be made"):
                java = session.createTemporaryQueue() if kind == "queue" else session.createTemporaryTopic()
        finally:
            close(session)
        made = known_destination(name_of(java, self.jms))
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

    @contextlib.contextmanager
    def record_subscription(self, wanted: TopicSubscription) -> Iterator[TopicSubscription]:
        """Yields a subscription that the block makes, with its name at the broker. Records a durable one.

        Raises:
            SubscriptionError: the subscription is there with other details, and belongs to an input. Or a
                shared and an unshared subscription would have one name.
            ProviderError: the record cannot be used.
        """
        if not (wanted.durable and wanted.name):
            yield wanted
            return
        made, records = wanted, self._subscriptions
        if self.application:
            made = records.of_input(self.application, self._client_id, wanted)
        its_input = wanted.name if self.application else ""
        with records.record(self._client_id, made, self.application, its_input):
            yield made

    def plain_session(self) -> Any:
        """Returns a Java session that is not transacted."""
        with self.making, self.errors("a session cannot be made"):
            return self.java.createSession(False, self.jms.Session.AUTO_ACKNOWLEDGE)

    def close(self) -> None:
        self._closed = True
        self._news.offer(self.jpype.JClass("java.util.AbstractMap$SimpleEntry")(0, None))  # ends a wait
        self._browsing.close()
        has_lock = self.making.acquire(timeout=CLOSE)
        try:
            close(self.java)
        finally:
            if has_lock:
                self.making.release()

    @contextlib.contextmanager
    def errors(
        self,
        what: str,
        *,
        unknown: type[ProviderError | UnknownDestination] = UnknownDestination,
        refused: type[ProviderError] = ProviderError,
    ) -> Iterator[None]:
        """Turns Java's exceptions into errors of the connector.

        Args:
            what: begins the text.
            unknown: the error for a destination that does not exist.
            refused: the error for an answer about a message to send.
        """
        leave_at_end()
        try:
            yield
        except EndedDestination:
            raise
        except UnknownDestination as error:  # of JNDI
            if unknown is UnknownDestination:
                raise
            raise unknown(f"{what}: {error}") from None
        except self.jpype.JException as error:
            if is_unanswered(error) and not self._closed:
                self._look_for_failure()
            text = f"{what}: {self._reason_of(error)}"
            if isinstance(error, self.jms.InvalidSelectorException):
                raise SelectorError(f"{what}: the selector is refused: {reason_of(error)}", 1) from None
            if isinstance(error, self.jms.InvalidDestinationException):
                raise unknown(text) from None
            if isinstance(error, self.jms.JMSSecurityException):
                raise ProviderMisconfigured(text) from None
            if is_silence(error):
                raise BrokerSilent(what, reason_of(error)) from None
            raise (refused if is_refusal(error) else ProviderError)(text) from None


def _send_limit(java: Any) -> float | None:
    """Returns the seconds after which a client library ends a send. Qpid JMS tells, others have no limit."""
    milliseconds = getattr(java, "getSendTimeout", None)
    return None if milliseconds is None else int(milliseconds()) / 1000


_open: Final[weakref.WeakSet[JmsConnection]] = weakref.WeakSet()
_reached: Final[set[str | None]] = set()
"""The URLs to which this process has had a connection."""


def _close_all() -> None:
    """Closes all connections at the end of the process, which otherwise waits for their threads."""
    for connection in list(_open):
        connection.close()
