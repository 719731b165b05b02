"""What dead clients have left comes again: any living client that is no adapter takes it over.

Adapters do it for their own kind, with what their journals know (:mod:`connector.events.recovery`).
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from connector.errors import ClaimLost, ProviderError
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement

_log = logging.getLogger("connector.core")

INTERVAL: Final = 10.0
"""Seconds between two looks of one client."""


def take_over(connection: Connection, *, at_start: bool) -> int:
    """Gives back the claims of dead clients, their delivery counts one more; returns how many.

    Raises:
        ProviderError: it could not be finished; somebody tries again.
    """
    number = 0
    for leftover in connection.leftovers(None, at_start=at_start):
        claims = leftover.claims
        try:
            if claims:
                _log.warning(
                    "messages of a dead client come again",
                    extra={"client": leftover.client_id, "number": len(claims)},
                )
            for claim in claims:  # one by one: one that is gone must keep no other
                try:
                    connection.settle(
                        [Settlement(claim, give_back=True, delivery_count=claim.delivery_count + 1)]
                    )
                    number += 1
                except ClaimLost:  # settled by hand or by its owner, who was not dead after all ...
                    connection.check()  # ... or this client is itself taken for dead: others do it then
        except BaseException:
            leftover.release()
            raise
        leftover.forget()
    return number


def try_take_over(connection: Connection, *, at_start: bool) -> None:
    """As :func:`take_over`, for those with something else to do: what fails is logged, and tried again."""
    try:
        take_over(connection, at_start=at_start)
    except ProviderError as error:
        _log.warning("taking over from dead clients failed, and is tried again", extra={"reason": str(error)})


class Schedule:
    """Says when it is time to look again, to one of all the sessions that ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = time.monotonic() + INTERVAL

    def is_due(self) -> bool:
        """True once an interval, to whoever asks first."""
        now = time.monotonic()
        if now < self._next:
            return False
        with self._lock:
            if now < self._next:
                return False
            self._next = now + INTERVAL
            return True
