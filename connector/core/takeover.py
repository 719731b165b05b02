"""Takes over the messages of dead clients, for any living client but adapters.

Adapters take over from dead adapters with the help of journals (:mod:`connector.events.settle.recovery`).
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from connector.errors import ClaimLost, ProviderError
from connector.messaging.roles import Recovering
from connector.messaging.settlement import Settlement

_log = logging.getLogger("connector.core")

INTERVAL: Final = 10.0
"""Default seconds between two looks of one client."""


def take_over(connection: Recovering, *, at_start: bool) -> int:
    """Gives back the claims of dead clients, their delivery counts one higher. Returns the number of claims.

    Raises:
        ProviderError: the provider failed. Another client tries again.
    """
    try:
        return _take_over(connection, at_start=at_start)
    except OSError as error:  # a directory is gone, with the root or alone
        raise ProviderError(
            f"cannot take over from dead clients: {error.strerror}: {error.filename!r}"
        ) from error


def _take_over(connection: Recovering, *, at_start: bool) -> int:
    number = 0
    for leftover in connection.leftovers(None, at_start=at_start):
        claims = leftover.claims
        try:
            if claims:
                _log.warning(
                    "messages of a dead client are redelivered",
                    extra={"client": leftover.client_id, "number": len(claims)},
                )
            for claim in claims:  # one by one, so that a lost claim keeps no other claim
                try:
                    connection.settle(
                        [Settlement(claim, give_back=True, delivery_count=claim.delivery_count + 1)]
                    )
                    number += 1
                except ClaimLost:  # settled by hand, or by an owner that was not dead ...
                    connection.check()  # ... or this client itself was taken for dead, and check() raises
        except BaseException:
            leftover.release()
            raise
        leftover.forget()
    return number


def try_take_over(connection: Recovering, *, at_start: bool) -> None:
    """Does the same as :func:`take_over`, but logs an error and tries again later."""
    try:
        take_over(connection, at_start=at_start)
    except ProviderError as error:
        _log.warning("taking over from dead clients failed and is tried again", extra={"reason": str(error)})


class TakeoverTimer:
    """The time of the next look for dead clients, shared by all sessions of a connection.

    Args:
        interval: seconds between two looks.
    """

    def __init__(self, interval: float = INTERVAL) -> None:
        self._lock = threading.Lock()
        self._interval = interval
        self._next = time.monotonic() + interval

    def is_due(self) -> bool:
        """Returns True to the first caller after each interval, and otherwise False."""
        now = time.monotonic()
        if now < self._next:
            return False
        with self._lock:
            if now < self._next:
                return False
            self._next = now + self._interval
            return True
