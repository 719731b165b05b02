"""URLs of client libraries: what the adapter adds, and what it hides."""

from __future__ import annotations

from typing import Final

from connector.config.masking import MASK, mask

QPID: Final = "org.apache.qpid.jms.JmsConnectionFactory"
_POLICY: Final = "jms.prefetchPolicy."


def with_prefetch(factory: str, url: str, messages: int) -> str:
    """Returns the URL with a limit of the messages that a consumer fetches ahead.

    What a consumer has fetched, no other instance can take. Only Qpid JMS reads the limit from the URL, and a
    limit that the URL has already stays.

    Args:
        factory: class of the connection factory.
        url: of the broker.
        messages: most messages that a poll takes.
    """
    if factory != QPID or _POLICY in url:
        return url
    _, _, options = url.rpartition(")")  # the options of failover:(...) stand behind the bracket
    return f"{url}{'&' if '?' in options else '?'}{_POLICY}all={messages}"


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
