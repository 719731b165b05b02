"""The bytes that messages in memory may take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.providers.memory.entries import Entry


class Room:
    """Counts the bytes of all references and of their bodies.

    Only senders wait for room: what is in here moves freely, or nobody could ever make any.

    Args:
        lock: of the provider; whoever calls holds it.
        max_bytes: more is not accepted from senders.
        send_timeout: seconds that a sender waits for room.
    """

    def __init__(self, lock: threading.RLock, max_bytes: int, send_timeout: float) -> None:
        self.max_bytes = max_bytes
        self.send_timeout = send_timeout
        self.used = 0
        self.expired: dict[int, Entry] = {}
        """Kept to be looked at only as long as nobody needs their room; oldest first."""
        self._numbers = 0
        self._room = threading.Condition(lock)

    def add(self, entry: Entry) -> None:
        """A reference comes, and its body with the first one."""
        self._numbers += 1
        body = entry.body
        self.used += entry.weight + (0 if body.links else len(body.data))
        body.links += 1

    def remove(self, entry: Entry) -> None:
        """A reference goes, and its body with the last one."""
        self._numbers -= 1
        self.expired.pop(entry.number, None)
        body = entry.body
        body.links -= 1
        self.used -= entry.weight + (0 if body.links else len(body.data))
        self._room.notify_all()

    def weigh_again(self, entry: Entry, weight: int) -> None:
        """The headers of a reference have changed."""
        self.used += weight - entry.weight
        entry.weight = weight

    def wait(
        self,
        size: int,
        destination: Destination,
        *,
        own_claims: Callable[[], int],
        own_prepared: Callable[[], int],
        ended: Callable[[], bool],
        make_room: Callable[[], bool],
    ) -> None:
        """Returns when ``size`` bytes more are accepted from a sender.

        Args:
            own_claims: bytes that the sender itself has claimed. They do not count against it: it would
                wait for itself.
            own_prepared: bytes that the sender has prepared; nobody but itself can make that room.
            ended: whether its connection was closed meanwhile.
            make_room: removes a message that nobody needs; False where there is none.

        Raises:
            ProviderError: they never fit, or there was no room in time.
        """
        if size > self.max_bytes:
            raise ProviderError(
                f"cannot send to {destination}: it takes {size} bytes, more than max_bytes "
                f"({self.max_bytes}) of the memory provider; send less at once, or raise max_bytes. "
                "Nothing was sent"
            )
        deadline = time.monotonic() + self.send_timeout
        while self.used + size - own_claims() > self.max_bytes:
            if make_room():
                continue
            if own_prepared() + size > self.max_bytes:
                raise ProviderError(
                    f"cannot send to {destination}: this transaction alone takes more than max_bytes "
                    f"({self.max_bytes}) of the memory provider; commit earlier, or raise max_bytes"
                )
            left = deadline - time.monotonic()
            if left <= 0:
                raise ProviderError(
                    f"cannot send to {destination}: {self._numbers} messages take {self.used} of "
                    f"max_bytes ({self.max_bytes}) of the memory provider, and none was taken for "
                    f"{self.send_timeout:g} s; start a consumer, or raise max_bytes. Nothing was sent"
                )
            self._room.wait(left)
            if ended():
                raise ProviderError(f"cannot send to {destination}: the connection was closed")

    def wake_senders(self) -> None:
        """Something has changed that a waiting sender looks at."""
        self._room.notify_all()
