"""URLs of client libraries: what the adapter adds, and what it hides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from connector.declare.masking import MASK, mask

QPID: Final = "org.apache.qpid.jms.JmsConnectionFactory"
_DRAIN_MS: Final = "5000"
_ALWAYS: Final = {
    "jms.sendTimeout=": "30000",
    "jms.requestTimeout=": "30000",
    "jms.validatePropertyNames=": "false",
}
"""Qpid JMS waits without limit by default, for example to send to a full queue. By default it does not show
properties whose names are no identifiers of Java.
"""
_FAILOVER: Final = "failover:"
_ROUNDS: Final = ("failover.startupMaxReconnectAttempts=", "1")
"""How often a new connection tries all hosts. Without a limit Qpid JMS tries for ever, and says nothing."""


def with_options(factory: str, url: str, messages: int) -> str:
    """Returns the URL with the options of Qpid JMS that the adapter relies on. Options of the user stay.

    What a consumer has fetched ahead, no other instance can take, so the number is limited. A consumer only
    looks at what it has fetched. Otherwise it asks the broker to drain its credit. ActiveMQ Artemis sometimes
    does not answer, and the consumer waits for a minute.

    Args:
        factory: class of the connection factory.
        url: of the broker.
        messages: most messages that a poll takes.
    """
    wanted = {**_ALWAYS, "jms.receiveLocalOnly=": "true", "jms.receiveNoWaitLocalOnly=": "true"}
    if "jms.prefetchPolicy." not in url:
        wanted["jms.prefetchPolicy.all="] = str(messages)
    return _with(factory, url, wanted)


def for_browsers(factory: str, url: str) -> str:
    """Returns the URL of the connections of browsers, which give up an unanswered drain soon."""
    return _with(factory, url, {**_ALWAYS, "amqp.drainTimeout=": _DRAIN_MS})


def _with(factory: str, url: str, wanted: Mapping[str, str]) -> str:
    if factory != QPID:
        return url
    if url.startswith(_FAILOVER) and "failover.maxReconnectAttempts=" not in url:
        wanted = {**wanted, **dict([_ROUNDS])}
    for name, value in wanted.items():
        if name not in url:
            _, _, options = url.rpartition(")")  # the options of failover:(...) stand behind the bracket
            url += f"{'&' if '?' in options else '?'}{name}{value}"
    return url


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
    masked: str = mask(text)
    return masked
