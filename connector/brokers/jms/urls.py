"""URLs of client libraries: what the adapter adds, and what it hides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from connector.brokers.engine.silence import ANSWER, CLOSE
from connector.declare.echoes import Secrets
from connector.declare.masking import MASK, mask

QPID: Final = "org.apache.qpid.jms.JmsConnectionFactory"
CLASSIC: Final = "org.apache.activemq.ActiveMQConnectionFactory"
CORE: Final = "org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory"
"""The client of ActiveMQ Artemis for its own protocol, with jakarta.jms or javax.jms."""
_CLASSIC_TLS: Final = "org.apache.activemq.ActiveMQSslConnectionFactory"
URL_PROPERTIES: Final = {QPID: "RemoteURI", CLASSIC: "BrokerURL", _CLASSIC_TLS: "BrokerURL"}
"""Factories whose URL can be set again, with further options, and the property that it is."""
_ANSWER_MS: Final = str(int(ANSWER * 1000))
_BROWSED: Final = "4"
"""Messages that a patient browser of Qpid JMS has fetched ahead. They may be large."""
_OF_QPID: Final = {
    "jms.sendTimeout=": _ANSWER_MS,
    "jms.requestTimeout=": _ANSWER_MS,
    "jms.closeTimeout=": str(int(CLOSE * 1000)),
    "jms.validatePropertyNames=": "false",
}
"""Qpid JMS waits without limit by default, for example to send to a full queue. Each session of a silent
connection takes a minute to close by default. Properties whose names are no identifiers of Java are hidden.
"""
_OF_CLASSIC: Final = {
    "jms.alwaysSyncSend=": "true",
    "jms.sendTimeout=": _ANSWER_MS,
    "jms.redeliveryPolicy.maximumRedeliveries=": "-1",
    "jms.redeliveryPolicy.initialRedeliveryDelay=": "0",
    "jms.redeliveryPolicy.redeliveryDelay=": "0",
}
"""The client of ActiveMQ Classic has no listener for sent messages. Without the first option, a refused
message of a transaction would be lost unseen. By default, this client itself puts a message aside that was
rolled back six times, and keeps a message for a second after each rollback. The adapter has its own limit.
"""
_ALWAYS: Final = {QPID: _OF_QPID, CLASSIC: _OF_CLASSIC, _CLASSIC_TLS: _OF_CLASSIC}
_PREFETCH: Final = "jms.prefetchPolicy."
_FAILOVER: Final = "failover:"
_ROUNDS: Final = {QPID: "failover.", CLASSIC: "", _CLASSIC_TLS: ""}
"""Beginnings of the options of ``failover:``. Without a limit a new connection tries all hosts for ever, and
says nothing. A library that makes a lost connection again keeps sessions whose transactions never end, with
messages that nobody else gets. So a connection that is lost has failed, and the adapter makes a new one.
"""


def with_options(factory: str, url: str, messages: int) -> str:
    """Returns the URL with the options of known clients that the adapter relies on. Options of the user stay.

    What a consumer has fetched ahead, no other instance can take, so the number is limited. The client of
    Artemis counts bytes. With Qpid JMS, ``receive`` only looks at what the consumer has fetched, and
    ``receiveNoWait`` asks the broker to drain the credit of the consumer.

    Args:
        messages: most messages that a poll takes.
    """
    wanted = {}
    if factory == QPID:
        wanted = {"jms.receiveLocalOnly=": "true", **_drain_timeout(url)}
    if factory in _ALWAYS and _PREFETCH not in url:
        wanted[f"{_PREFETCH}all="] = str(messages)
    if factory == CORE:
        wanted["consumerWindowSize="] = str(messages << 10)
    return _with(factory, url, wanted)


def for_browsers(factory: str, url: str, seconds: float) -> str:
    """Returns the URL of the connections of browsers.

    A browser of Qpid JMS does not tell of a time-out. So the time-out of the URL does not count.

    Args:
        factory, url: as of :func:`with_options`.
        seconds: until the broker has to answer. All messages that are fetched ahead come before the answer.
    """
    if factory != QPID:
        return _with(factory, url, {})
    milliseconds = str(int(seconds * 1000))
    url = re.sub(r"(amqp\.drainTimeout=)\d+", rf"\g<1>{milliseconds}", url)
    wanted = _drain_timeout(url, milliseconds)
    if seconds >= ANSWER and _PREFETCH not in url:
        wanted[f"{_PREFETCH}queueBrowserPrefetch="] = _BROWSED
    return _with(factory, url, wanted)


def _drain_timeout(url: str, milliseconds: str = _ANSWER_MS) -> dict[str, str]:
    """Returns the option of Qpid JMS for an unanswered question whether a queue has more messages."""
    nested = "failover.nested." if url.startswith(_FAILOVER) else ""
    return {f"{nested}amqp.drainTimeout=": milliseconds}


def _with(factory: str, url: str, wanted: Mapping[str, str]) -> str:
    wanted = {**_ALWAYS.get(factory, {}), **wanted}
    if url.startswith(_FAILOVER) and factory in _ROUNDS:
        lost = f"{_ROUNDS[factory]}maxReconnectAttempts="
        new = f"{_ROUNDS[factory]}startupMaxReconnectAttempts="
        limit = re.search(rf"[?&]{re.escape(lost)}([^&]*)", url)
        if limit is not None:  # of the user: it counts for new connections
            url = f"{url[: limit.start(1)]}0{url[limit.end(1) :]}"
        wanted |= {lost: "0", new: "1" if limit is None else limit[1]}
    for name, value in wanted.items():
        if name not in url:
            _, _, options = url.rpartition(")")  # the options of failover:(...) stand behind the bracket
            url += f"{'&' if '?' in options else '?'}{name}{value}"
    return url


def counts_messages(factory: str) -> bool:
    """Whether a client counts what a consumer has fetched ahead, and not its bytes."""
    return factory in _ALWAYS


def shares_subscriptions(factory: str) -> bool:
    """Whether a client may have shared subscriptions, as far as its factory tells."""
    return factory not in (CLASSIC, _CLASSIC_TLS)


def without_additions(text: str, given: str, made: str) -> str:
    """Returns a text of a client library without the options that the adapter has added to a URL.

    Args:
        given: the URL of the user.
        made: that URL with the options of the adapter.
    """
    text = text.replace(made, given)
    for option in filter(None, re.split("[?&]", made.removeprefix(given))):
        text = re.sub(f"[?&]{re.escape(option)}(?![^&)\\s,])", "", text)
    return text


def without_secrets(text: str, *secrets: str | None) -> str:
    """Returns a text of a client library without the passwords that it may repeat.

    Args:
        secrets: passwords.
    """
    for secret in secrets:
        if secret:
            text = text.replace(secret, MASK)
    masked: str = mask(Secrets(filter(None, secrets)).hide(text))
    return masked
