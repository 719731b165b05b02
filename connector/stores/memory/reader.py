"""A reader (see :class:`connector.stores.engine.store.Reader`)."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from connector.messaging.destination import Destination
from connector.stores.engine.channel import Channel, Owner, Part
from connector.stores.engine.claims import LocalClaim
from connector.stores.engine.headers import apply_edit, edit_to_put_aside
from connector.stores.engine.store import Judge, Reader, Verdict
from connector.stores.memory.entries import Box, Entry, Line, by_order
from connector.stores.memory.memory import Memory, locked
from connector.stores.memory.watch import MemoryWatch


@locked
@dataclass(eq=False)
class MemoryReader(Reader):
    """Takes from the line of a box.

    A reader with a selector has a line of its own, which a message leaves when the selector rejects it. Such
    a message can only expire.

    Args:
        channel, judge, into, destination: see :meth:`connector.stores.engine.store.Store.reader`.
    """

    memory: Memory
    watch: MemoryWatch
    channel: Channel
    judge: Judge
    into: Channel | None
    destination: Destination
    owner: str
    expired: int = 0

    def __post_init__(self) -> None:
        self.memory.open(self.channel)
        self._look()
        self._heard = self.channel, self.channel._replace(part=Part.DELAYED)
        for channel in self._heard:
            self.memory.readers.setdefault(channel, {})[self] = self._offer

    def _look(self) -> None:
        """Looks at all messages that wait."""
        self._has_news = True
        box = self.memory.boxes.get(self.channel) or Box(self.channel.part)  # the channel may have ended
        self._line = box.line
        if self.judge.selects:
            self._line = Line(box.waiting, by_order)
            for entry in box.waiting.values():
                self._line.push(entry)

    def _offer(self, entry: Entry | None, giver: str) -> None:
        if entry is None:
            self._look()
        elif not entry.due:
            self._has_news = True
            if self.judge.selects:
                self._line.push(entry)
        self.watch.notify(returned=giver == self.watch.client_id)

    def claim(self, cycle: int, numbers: range) -> list[LocalClaim]:
        claims: list[LocalClaim] = []
        memory, channel, into = self.memory, self.channel, self.into
        memory.check_alive(self.watch.client_id)
        box, now = memory.boxes.get(channel), _now()
        if box is None:  # the channel has ended
            return claims
        memory.move_due(channel, now)
        if not self.judge.is_view:
            while (entry := box.expiring.first()) is not None and entry.headers.expiration <= now:
                self._put_aside(entry, Verdict.EXPIRED)
        while len(claims) < len(numbers) and (entry := self._line.first()) is not None:
            verdict = self.judge(entry.headers, now)
            if verdict is Verdict.TAKE:
                memory.take_out(entry)
                owner = Owner(self.owner, cycle, numbers[len(claims)])
                claim = entry.new_claim(channel, owner, self.destination, in_progress=into is not None)
                claims.append(memory.put_claimed(entry, into or channel, claim))
            elif verdict is Verdict.LEAVE:
                self._line.skip()
            else:
                self._put_aside(entry, verdict)
        self._has_news = len(claims) == len(numbers)
        return claims

    def _put_aside(self, entry: Entry, verdict: Verdict) -> None:
        part = Part.EXPIRED if verdict is Verdict.EXPIRED else Part.ERROR
        if part is Part.EXPIRED:
            self.expired += 1
        else:
            entry.headers = apply_edit(entry.headers, edit_to_put_aside(entry.headers))
        self.memory.take_out(entry)
        self.memory.put_waiting(entry, self.channel._replace(part=part))

    def has_news(self) -> bool:
        return self._has_news or self.due_in() <= 0

    def due_in(self) -> float:
        entry = self.memory.next_delayed(self.channel)
        return math.inf if entry is None else (entry.due - _now()) / 1000

    def close(self) -> None:
        for one in self._heard:
            readers = self.memory.readers.get(one, {})
            readers.pop(self, None)
            if not readers:
                self.memory.readers.pop(one, None)


def _now() -> int:
    return time.time_ns() // 1_000_000
