"""``retry_later``: which failures of a delivery pass, and how long the event waits before the next try."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from connector.errors import Failed, ObjectRefused, TemporaryFailure

TEMPORARY: Final = "temporary"
ANY: Final = "any"
_OF_NETWORK: Final = frozenset(
    getattr(errno, name)
    for name in (
        *("EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETRESET", "ENETUNREACH", "ENOTCONN"),
        *("ESHUTDOWN", "ETIMEDOUT"),
    )
)


@dataclass(frozen=True, slots=True)
class RetryLater:
    """The tries of a subscription.

    Args:
        attempts: tries after the first delivery, at least 1.
        first: seconds before the first of them.
        factor: each further wait is so many times as long as the last one.
        most: seconds of the longest wait.
        on: :data:`TEMPORARY`, :data:`ANY`, or qualified names of exceptions.
    """

    attempts: int = 10
    first: float = 1.0
    factor: float = 2.0
    most: float = 300.0
    on: tuple[str, ...] = (TEMPORARY,)

    def allows(self, error: BaseException, retries: int) -> bool:
        """Whether an event that has failed by ``error`` gets another try.

        Args:
            retries: tries before, without the first delivery.
        """
        return retries < self.attempts and self.names(error)

    def names(self, error: BaseException) -> bool:
        """Whether an exception is one of ``on``, by its class or a base. Never :class:`.errors.Failed`.

        A refusal also counts as the exception that it puts into words, such as one of a database.
        """
        if isinstance(error, Failed):
            return False
        if ANY in self.on:
            return True
        put_into_words = error.__cause__ if isinstance(error, ObjectRefused) else None
        named = [error] if put_into_words is None else [error, put_into_words]
        return any(
            is_temporary(error) if name == TEMPORARY else any(_is(one, name) for one in named)
            for name in self.on
        )

    def seconds(self, retries: int) -> float:
        """Returns the seconds before the next try, after ``retries`` tries."""
        try:
            return min(self.most, self.first * self.factor**retries)
        except OverflowError:
            return self.most


class RestAfter(NamedTuple):
    """When a subscription rests. What comes first counts.

    Args:
        failures: so many in a row.
        seconds: since the first of a row of failures. None = only their number counts.
    """

    failures: int = 1
    seconds: float | None = None


def is_temporary(error: BaseException) -> bool:
    """Whether an exception says that something is away for a while.

    That is a TemporaryFailure, a time-out, a lost connection (ConnectionError, the OSErrors of sockets), or
    an exception of SQLAlchemy whose connection is invalidated.
    """
    if isinstance(error, TemporaryFailure | TimeoutError | ConnectionError | socket.gaierror | socket.herror):
        return True
    if isinstance(error, OSError) and error.errno in _OF_NETWORK:
        return True
    return getattr(error, "connection_invalidated", False) is True


def _is(error: BaseException, name: str) -> bool:
    """Whether a class of an exception has a qualified name. A built-in exception needs no module."""
    for one in type(error).__mro__:
        if f"{one.__module__}.{one.__qualname__}" == name:
            return True
        if one.__module__ == "builtins" and one.__qualname__ == name:
            return True
    return False


def join_retries(retries: Mapping[str, int]) -> str:
    """Returns the tries of each delivery as a text for ``connector_retries``: ``books=2;crm#3=1``."""
    parts = []
    for label, number in retries.items():
        text = label.replace("%", "%25").replace(";", "%3B").replace("=", "%3D")
        parts.append(f"{text}={number}")
    return ";".join(parts)


def split_retries(text: str) -> dict[str, int]:
    """Undoes :func:`join_retries`. Leaves out parts that another program has written."""
    found = {}
    for part in text.split(";"):
        label, _, number = part.rpartition("=")
        if label and number.isascii() and number.isdigit() and len(number) < 10:
            found[label.replace("%3D", "=").replace("%3B", ";").replace("%25", "%")] = int(number)
    return found
