"""The abilities of a broker, tried with temporary destinations (``connector check --connect``)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from connector.brokers.engine.broker import MessageRefused
from connector.brokers.engine.delays import measure_delay
from connector.brokers.engine.silence import ANSWER, BrokerSilent
from connector.brokers.jms.reasons import reason_of
from connector.brokers.jms.sends import Outgoing
from connector.errors import ConnectorError
from connector.messaging.destination import Destination
from connector.messaging.provider_kind import Finding

if TYPE_CHECKING:
    from connector.brokers.jms.client import JmsClient, JmsConnection

_WAIT_MS: Final = int(ANSWER * 1000)
_TRANSACTIONS: Final = "transactions"
_NEEDED: Final = (_TRANSACTIONS,)
"""The abilities that every event needs."""


class _Unable(Exception):
    """The broker accepts an operation and does something else."""


def survey(
    client: JmsClient, commit_queue: Destination | None, destinations: Iterable[Destination]
) -> Sequence[Finding]:
    """Connects, tries each ability, and looks up the destinations that JNDI names.

    Raises:
        ProviderError: the broker cannot be reached.
    """
    connection = client.connect("")
    try:
        return _Survey(client, connection).run(commit_queue, destinations)
    finally:
        connection.close()


class _Survey:
    def __init__(self, client: JmsClient, connection: JmsConnection) -> None:
        self._jpype = client.jpype
        self._jms = client.jms
        self._connection = connection
        self._java = connection.java
        self._session = self._java.createSession(False, self._jms.Session.AUTO_ACKNOWLEDGE)

    def run(self, commit_queue: Destination | None, destinations: Iterable[Destination]) -> list[Finding]:
        data = self._java.getMetaData()
        client = f"{data.getJMSProviderName()} {data.getProviderVersion()}, JMS {data.getJMSVersion()}"
        found = [Finding("connection", True, client)]
        trials: list[tuple[str, Callable[[], str]]] = [
            ("temporary queues", self._temporary_queue),
            ("temporary topics", self._temporary_topic),
            (_TRANSACTIONS, self._transactions),
            ("message selectors", self._selectors),
            ("browsing", self._browse),
            ("shared subscriptions", self._consume_shared),
            ("delivery delay", lambda: measure_delay(self._connection)),
        ]
        if commit_queue is not None:
            trials.append((f"commit queue {commit_queue}", lambda: self._look_at(commit_queue)))
        for name, trial in trials:
            found.append(self._try(name, trial))
            if found[-1].needed and not found[-1].able:
                return found  # no adapter works there, and each further trial may wait for an answer
        if self._connection.destinations.looks_up:
            found += [self._look_up(destination) for destination in destinations]
        return found

    def _look_up(self, destination: Destination) -> Finding:
        name = f"destination {destination}"
        try:
            found = self._connection.find(destination)
        except ConnectorError as error:
            return Finding(name, False, str(error), needed=True)
        text = "the broker gets this name, because JNDI has none" if found is None else "found in JNDI"
        return Finding(name, True, text, needed=True)

    def _try(self, name: str, trial: Callable[[], str]) -> Finding:
        try:
            return Finding(name, True, trial())
        except self._jpype.JException as error:
            reason = reason_of(error)
        except (_Unable, ConnectorError) as error:
            reason = str(error)
        except (AttributeError, TypeError):
            reason = "JMS 1.1 does not have it"
        if name == _TRANSACTIONS:
            reason += " (an event is a transaction over its input and its copies, so an adapter cannot work)"
        return Finding(name, False, reason, needed=name in _NEEDED)

    def _temporary_queue(self) -> str:
        self._session.createTemporaryQueue().delete()
        return ""

    def _temporary_topic(self) -> str:
        self._session.createTemporaryTopic().delete()
        return ""

    def _transactions(self) -> str:
        """Takes from one queue and sends to another in a transaction, as for an event."""
        queue, other = self._session.createTemporaryQueue(), self._session.createTemporaryQueue()
        with contextlib.closing(
            self._java.createSession(True, self._jms.Session.SESSION_TRANSACTED)
        ) as session:
            consumer = session.createConsumer(queue)
            self._send(session, queue, "1")
            session.rollback()
            self._send(session, queue, "2")
            session.commit()
            if self._receive(consumer) != "2":
                raise _Unable("a message that was rolled back is delivered")
            self._send(session, other, "3")
            session.commit()
            consumer.close()
        queue.delete()
        other.delete()
        if not self._connection.sending.answers:
            return "one message after the other, because the client has no listener for sent messages"
        return ""

    @staticmethod
    def _receive(consumer: Any) -> str:
        """Returns the text of the next message."""
        first = consumer.receive(_WAIT_MS)
        if first is None:
            raise BrokerSilent("a message that was sent does not come")
        return str(first.getText())

    def _send(self, session: Any, queue: Any, text: str) -> None:
        """Sends as for an event: the broker confirms each message before the commit."""
        sends = self._connection.sends()
        producer, mode = session.createProducer(queue), int(self._jms.DeliveryMode.PERSISTENT)
        sends.send(Outgoing(producer, session.createTextMessage(text), mode))
        try:
            sends.check()
        except MessageRefused as error:
            raise _Unable(str(error)) from None
        finally:
            producer.close()

    def _selectors(self) -> str:
        queue = self._session.createTemporaryQueue()
        producer = self._session.createProducer(queue)
        for number in (1, 2):
            message = self._session.createTextMessage(str(number))
            message.setIntProperty("n", number)
            producer.send(message)
        with contextlib.closing(self._session.createConsumer(queue, "n = 2")) as consumer:
            if self._receive(consumer) != "2":
                raise _Unable("the broker ignores them")
        queue.delete()
        return ""

    def _browse(self) -> str:
        queue = self._session.createTemporaryQueue()
        with contextlib.closing(self._session.createBrowser(queue)) as browser:
            browser.getEnumeration().hasMoreElements()
        queue.delete()
        return ""

    def _consume_shared(self) -> str:
        topic = self._session.createTemporaryTopic()
        self._session.createSharedConsumer(topic, "connector-check").close()
        topic.delete()
        return ""

    def _look_at(self, queue: Destination) -> str:
        for _ in self._connection.browse(queue, ""):
            pass
        return ""
