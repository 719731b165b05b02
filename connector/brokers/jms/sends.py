"""The sent messages of a transaction: whether the broker has taken them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from connector.brokers.engine.broker import MessageRefused
from connector.brokers.engine.silence import BrokerSilent, answer_to_send
from connector.brokers.jms.listeners import queue_listener
from connector.brokers.jms.reasons import is_refusal, is_unsupported, reason_of
from connector.errors import ProviderError

_LOOK_MS: Final = 100


class Outgoing(NamedTuple):
    """A Java message that is ready to be sent.

    Args:
        producer: of its destination, in Java.
        delivery_mode, priority, milliseconds: the last is the time to live, 0 = without end, as JMS has them.
        due: JMSDeliveryTime, milliseconds since 1970, for a producer of delayed messages only. 0 = at once.
    """

    producer: Any
    java: Any
    delivery_mode: int
    priority: int = 4
    milliseconds: int = 0
    due: int = 0


@dataclass(slots=True)
class SendingClient:
    """What is known of the client library of a connection.

    Args:
        answers: whether it tells a listener that the broker has taken a message, as JMS 2.0 wants it.
        limit: seconds after which it ends a send itself, as of
            :func:`~connector.brokers.engine.silence.answer_to_send`.
    """

    answers: bool = True
    limit: float | None = None


class Sends:
    """The sent messages of one transaction after the other.

    A client sends messages of a transaction without waiting for the broker. If the broker refuses one, the
    commit of the others may work, and the refused message is lost. So the broker's answers are awaited before
    the commit (JMS 2.0, 7.3).

    The answers are collected in Java. A call of Python for each of them would take as long as the send. A
    client of JMS 1.1 has no such answers, nor has that of ActiveMQ Classic. Then ``send`` itself has to wait.

    Args:
        failure: returns why the connection has failed, or None.
    """

    def __init__(
        self, jpype: Any, jms: Any, failure: Callable[[], str | None], client: SendingClient
    ) -> None:
        self._jpype = jpype
        self._failure = failure
        self._client = client
        self._sent = 0
        self._milliseconds = jpype.JClass("java.util.concurrent.TimeUnit").MILLISECONDS
        self._answers = jpype.JClass("java.util.concurrent.LinkedBlockingQueue")()
        self._list = jpype.JClass("java.util.ArrayList")
        self._listener: Any = None
        if client.answers:
            try:
                self._listener = queue_listener(jpype, jms.CompletionListener, self._answers)
            except AttributeError:  # JMS 1.1
                client.answers = False

    def send(self, message: Outgoing) -> None:
        producer, java, *arguments, _ = message
        if not self._client.answers:
            producer.send(java, *arguments)
            return
        self._sent += 1
        try:
            producer.send(java, *arguments, self._listener)
        except (TypeError, self._jpype.JException) as error:
            if not is_unsupported(error):
                raise
            self._sent -= 1
            producer.send(java, *arguments)
            self._client.answers = False  # not because of an error that any send has

    def check(self) -> None:
        """Waits for all answers.

        Raises:
            MessageRefused: the broker has refused a message.
            BrokerSilent: the broker does not answer.
            ProviderError: a message has failed in another way.
        """
        failures: list[Any] = []
        seconds = answer_to_send(self._client.limit)
        deadline = time.monotonic() + seconds
        found = self._list()
        while self._sent:
            if not self._answers.drainTo(found):
                answer = self._answers.poll(_LOOK_MS, self._milliseconds)
                if answer is None:
                    if (failure := self._failure()) is not None:
                        raise ProviderError(failure)
                    if time.monotonic() >= deadline:
                        raise BrokerSilent("nobody knows whether a message was taken", seconds=seconds)
                    continue
                found.add(answer)
            self._sent -= found.size()
            failures += [answer[1] for answer in found if len(answer) > 1]
            found.clear()
        for error in filter(is_refusal, failures):
            raise MessageRefused(f"the broker refuses a message: {reason_of(error)}")
        if failures:
            raise ProviderError(f"a message was not sent: {reason_of(failures[0])}")
