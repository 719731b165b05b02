"""The heartbeat of a client: whether others take the client for dead (see :mod:`.clients`)."""

from __future__ import annotations

import threading
import time
from typing import Final

from connector.errors import ClaimLost
from connector.stores.dropbox.clients import ClientLock

_BEATS: Final = 3
_CHECK_SECONDS: Final = 1.0


class Heartbeat:
    """Checks whether a client is alive to others.

    With a lease, a thread touches the file of the client every third of the lease, until :meth:`stop`.

    Args:
        client_lock: of the client.
        lease: seconds after which others take the client for dead. None = never, except by an operator.
    """

    def __init__(self, client_lock: ClientLock, lease: float | None) -> None:
        self._lock = client_lock
        self._lease = lease
        self._fresh = _CHECK_SECONDS if lease is None else lease / 2
        self._stopped = threading.Event()
        self._beaten = time.monotonic()
        if lease is not None:
            name = f"heartbeat-{client_lock.client_id}"
            threading.Thread(target=self._beat, args=(lease / _BEATS,), name=name, daemon=True).start()

    def check(self) -> None:
        """Checks that this client is alive to others. Cheap while the last touch is fresh.

        Raises:
            ClaimLost: another client has taken over.
        """
        if time.monotonic() - self._beaten > self._fresh:
            self.assert_ours()
            self._touch()

    def assert_ours(self) -> None:
        """Checks the same as :meth:`check`, always.

        Raises:
            ClaimLost: another client has taken over.
        """
        if self._lock.is_ours():
            return
        if self._lock.is_declared_dead():
            raise ClaimLost(
                f"client {self._lock.client_id} was declared dead by an operator (connector takeover); "
                "its messages are redelivered, to this client or another: connect anew"
            )
        if self._lease is not None:
            raise ClaimLost(
                f"client {self._lock.client_id} was taken for dead: it has not run for longer than its lease "
                f"of {self._lease:g} s; its messages come again, to us or another: connect anew"
            )

    def stop(self) -> None:
        """Stops touching the file."""
        self._stopped.set()

    def _touch(self) -> None:
        self._beaten = time.monotonic()
        if self._lease is not None:
            self._lock.touch()

    def _beat(self, interval: float) -> None:
        while not self._stopped.wait(interval):
            if self._lock.is_ours():
                self._touch()
