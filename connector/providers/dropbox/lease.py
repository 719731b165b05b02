"""The pulse of a client, for those who go by a lease (see :mod:`connector.providers.dropbox.clients`)."""

from __future__ import annotations

import threading
import time
from typing import Final

from connector.errors import ClaimLost
from connector.providers.dropbox.clients import ClientLock

_BEATS: Final = 3


class Pulse:
    """Touches the mark of one client every third of a lease, in a thread, until :meth:`stop`.

    Args:
        mark: of the client.
        lease: seconds after which others take it for dead.
    """

    def __init__(self, mark: ClientLock, lease: float) -> None:
        self._mark = mark
        self._lease = lease
        self._stopped = threading.Event()
        self._beaten = time.monotonic()
        self._thread = threading.Thread(target=self._beat, name=f"pulse-{mark.client_id}", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Whether this client is alive to the others; cheap while its last beat is fresh.

        Raises:
            ClaimLost: it was stopped for too long, and somebody has taken over from it.
        """
        if time.monotonic() - self._beaten > self._lease / 2:
            self.assert_ours()
            self._touch()

    def assert_ours(self) -> None:
        """As :meth:`check`, whatever the time.

        Raises:
            ClaimLost: as there.
        """
        if not self._mark.is_ours():
            raise ClaimLost(
                f"client {self._mark.client_id} was taken for dead: it has not run for longer than its lease "
                f"of {self._lease:g} s; its messages come again, to us or another: connect anew"
            )

    def stop(self) -> None:
        """Beats no more."""
        self._stopped.set()

    def _touch(self) -> None:
        self._beaten = time.monotonic()
        self._mark.touch()

    def _beat(self) -> None:
        while not self._stopped.wait(self._lease / _BEATS):
            if self._mark.is_ours():
                self._touch()
