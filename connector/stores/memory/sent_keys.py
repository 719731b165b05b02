"""The keys of messages that were sent once by key, in memory."""

from __future__ import annotations

import heapq
import time

from connector.messaging.once import OnceKey, SentOnce


class SentKeys:
    """Remembers keys, each until its time is over. They end with the messages: with the process."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[float, SentOnce]] = {}
        """By application and key: until when it is remembered, in seconds since 1970, and the answer."""
        self._ends: list[tuple[float, tuple[str, str]]] = []
        """A heap. May have earlier times of a key that was used again."""

    def find(self, application: str, key: str) -> SentOnce | None:
        """Returns the answer of a remembered key. None = it is not remembered."""
        until, found = self._known.get((application, key), (0.0, None))
        return found if until > time.time() else None

    def add(self, once: OnceKey, message_id: str) -> SentOnce:
        """Remembers a key, and removes keys whose time is over. Returns the answer of the first send."""
        now = time.time()
        place, until = (once.application, once.key), now + once.keep
        self._known[place] = until, SentOnce(message_id, is_new=False, fingerprint=once.fingerprint)
        heapq.heappush(self._ends, (until, place))
        while self._ends and self._ends[0][0] <= now:
            end, old = heapq.heappop(self._ends)
            if self._known[old][0] == end:
                del self._known[old]
        return SentOnce(message_id, is_new=True, fingerprint=once.fingerprint)
