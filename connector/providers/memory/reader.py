"""Taking from one part of one channel in memory."""

from __future__ import annotations

import heapq
import time

from connector.core.local.channel import Owner, Part
from connector.core.local.claims import LocalClaim
from connector.core.local.headers import counted_anew, edited
from connector.core.local.store import Judge, Verdict
from connector.core.state import MessageState
from connector.messaging.destination import Destination
from connector.providers.memory.entries import ChannelPart, Entry, MemoryClaim, Waiting
from connector.providers.memory.memory import Memory, MemoryClient


class MemoryReader:
    """See :class:`connector.core.local.store.Reader`.

    Args:
        memory: that the part is of.
        client: who takes.
        part: that is taken from.
        judge: asked before a message is taken.
        into: where a claimed message lies; None = in ``part``.
        destination: of the claims.
    """

    def __init__(
        self,
        memory: Memory,
        client: MemoryClient,
        part: ChannelPart,
        judge: Judge,
        into: ChannelPart | None,
        destination: Destination,
    ) -> None:
        self.expired = 0
        self._memory = memory
        self._client = client
        self._part = part
        self._judge = judge
        self._into = into
        self._destination = destination
        self._home = part.channel
        self._has_news = True
        self._selects = judge.selects
        self._waiting = part.waiting
        self._left: list[tuple[int, int, int, Entry]] = []
        """Messages that the selector rejects and that expire, the first to expire first."""
        if self._selects:
            self._waiting = Waiting()
            for entry in part.waiting:
                self.offer(entry)
        part.readers[self] = None

    def offer(self, entry: Entry, returned_by: str = "") -> None:
        """A message waits. One that the selector rejects is looked at again only where it expires."""
        if self._selects:
            if self._judge(entry.message, _now()) is Verdict.LEAVE:
                if entry.message.expiration:
                    self._leave(entry)
                return
            self._waiting.push(entry, self._part.count)
        self._has_news = True
        self._client.watch.come(returned=returned_by == self._client.info.client_id)

    def claim(self, cycle: int, numbers: range) -> list[LocalClaim]:
        """See :meth:`connector.core.local.store.Reader.claim`."""
        claims: list[LocalClaim] = []
        with self._memory:
            self._client.check_alive()
            now = _now()
            self._expire_left(now)
            for number in numbers:
                entry = self._next(now)
                if entry is None:
                    self._has_news = False
                    break
                claims.append(self._take(entry, cycle, number))
        return claims

    def _next(self, now: int) -> Entry | None:
        """The next message for delivery; what is not is put aside on the way."""
        judge = self._judge
        while (entry := self._waiting.pop()) is not None:
            if judge.is_view or (verdict := judge(entry.message, now)) is Verdict.TAKE:
                return entry
            if verdict is not Verdict.LEAVE:
                self._put_aside(entry, verdict)
        return None

    def _take(self, entry: Entry, cycle: int, number: int) -> MemoryClaim:
        self._part.count -= 1
        entry.state = MessageState.DELIVERED
        entry.takes += 1
        entry.home = self._home
        entry.taken_from = self._destination
        entry.owner = Owner(self._client.info.client_id, cycle, number)
        entry.part = self._into or self._part
        entry.in_progress = self._into is not None
        entry.part.claimed[entry.number] = self._client.claims[entry.number] = entry
        return MemoryClaim(entry)

    def _put_aside(self, entry: Entry, verdict: Verdict) -> None:
        self._part.count -= 1
        memory, part = self._memory, Part.EXPIRED if verdict is Verdict.EXPIRED else Part.ERROR
        if verdict is Verdict.EXPIRED:
            self.expired += 1
            memory.room.expired[entry.number] = entry
        else:
            memory.change_headers(entry, edited(entry.message, counted_anew(entry.message)))
        memory.part(self._home._replace(part=part)).enter(entry)

    def _leave(self, entry: Entry) -> None:
        """Looks at a message again when it expires; what has left the channel is forgotten now and then."""
        left = self._left
        if len(left) > 64 and len(left) > 2 * self._part.count:
            left[:] = [item for item in left if _still_waits(item)]
            heapq.heapify(left)
        heapq.heappush(left, (entry.message.expiration, entry.number, entry.ticket, entry))

    def _expire_left(self, now: int) -> None:
        while self._left and self._left[0][0] <= now:
            item = heapq.heappop(self._left)
            if _still_waits(item):
                self._put_aside(item[3], Verdict.EXPIRED)

    def wake(self) -> None:
        """The channel has ended: who waits for it finds that out."""
        self._has_news = True
        self._client.watch.come(returned=True)

    def has_news(self) -> bool:
        """See :meth:`connector.core.local.store.Reader.has_news`."""
        return self._has_news

    def close(self) -> None:
        """See :meth:`connector.core.local.store.Reader.close`."""
        with self._memory:
            self._part.readers.pop(self, None)


def _still_waits(item: tuple[int, int, int, Entry]) -> bool:
    _, _, ticket, entry = item
    return entry.ticket == ticket and entry.state is MessageState.NEW


def _now() -> int:
    return time.time_ns() // 1_000_000
