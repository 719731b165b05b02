"""The requests that are in flight: each completes exactly once, and its reply is told from all others."""

from __future__ import annotations

import heapq
import itertools
import math
import threading
from collections import OrderedDict
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from enum import Enum
from typing import Final

from connector.businessobjects.instance import BusinessObject
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.requests.properties import RequestProperties
from connector.requests.sender import Outgoing
from connector.status import ReturnCode

_REMEMBERED: Final = 10_000
"""Requests that have ended and are still known, so that a reply to one is called late or duplicate."""

_FEW: Final = 1000
"""So many deadlines are kept before anybody asks which of them are of completed calls."""


@dataclass(frozen=True, slots=True)
class Failure:
    """How a request ends that has no reply.

    Args:
        status: FAIL or APPRESPONSETIMEOUT; SUCCEED for one that wants no reply.
        text: why; None where it went well.
        not_sent, refused: see :class:`~connector.requests.result.RequestResult`.
    """

    status: ReturnCode
    text: str | None = None
    not_sent: bool = False
    refused: bool = False


Answer = Message | Failure


class Call:
    """One request, from its making to its one answer.

    Args:
        bo: the business object, its own.
        properties: what the meta-objects say of it.
        message: what is sent, ready but for what only the client knows.
        selector: text that tells the reply, where the verb has a response selector; else empty.
    """

    __slots__ = (
        "answer",
        "bo",
        "deadline",
        "key",
        "message",
        "outgoing",
        "properties",
        "reply_to",
        "selector",
        "sent_as",
    )

    def __init__(
        self,
        bo: BusinessObject,
        properties: RequestProperties,
        message: Message,
        selector: str = "",
    ) -> None:
        self.bo = bo
        self.properties = properties
        self.message = message
        self.selector = selector
        self.key = ""
        self.sent_as = ""
        self.outgoing: Outgoing | None = None
        self.reply_to: Destination | None = None
        self.deadline = math.inf
        self.answer: Future[Answer] = Future()
        self.answer.set_running_or_notify_cancel()  # nobody cancels it

    def complete(self, answer: Answer) -> bool:
        """Ends the request; False where it had ended before, and nothing has changed."""
        try:
            self.answer.set_result(answer)
        except InvalidStateError:
            return False
        return True

    @property
    def completed(self) -> bool:
        """Whether it has its answer."""
        return self.answer.done()


class Stray(Enum):
    """What a reply is that no request waits for."""

    LATE = "late_reply"
    DUPLICATE = "duplicate_reply"
    UNREADABLE = "unreadable_reply"


class Pending:
    """The calls that wait for a reply, by what the reply will repeat. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[str, Call] = {}
        self._ended: OrderedDict[str, Stray] = OrderedDict()

    def add(self, key: str, call: Call) -> None:
        """From now on a reply that repeats ``key`` is this call's."""
        with self._lock:
            self._calls.pop(call.key, None)  # it was prepared before, and could not be sent so
            call.key = key
            self._calls[key] = call

    def destinations(self) -> set[Destination]:
        """Where replies are awaited."""
        with self._lock:
            return {call.reply_to for call in self._calls.values() if call.reply_to is not None}

    def take(self, key: str) -> Call | Stray:
        """The call that a reply is for, which waits no more; or what the reply is instead."""
        with self._lock:
            call = self._calls.pop(key, None)
            if call is None:
                return self._ended.get(key, Stray.LATE)
            self._remember(key, Stray.DUPLICATE)
            return call

    def named(self, key: str) -> Call | Stray | None:
        """What a reply is that somebody's selector has found: for the request that it names; None = it
        names none of this client's."""
        with self._lock:
            return self._calls.get(key) or self._ended.get(key)

    def answered(self, call: Call) -> None:
        """A call has its reply; another one that names it is a duplicate."""
        with self._lock:
            if self._calls.get(call.key) is call:
                del self._calls[call.key]
                self._remember(call.key, Stray.DUPLICATE)

    def waiting_at(self, destination: Destination) -> list[Call]:
        """The calls whose replies are awaited there."""
        with self._lock:
            return [call for call in self._calls.values() if call.reply_to == destination]

    def give_up(self, call: Call) -> None:
        """No reply is awaited any more; one that comes all the same is late."""
        with self._lock:
            if self._calls.get(call.key) is call:
                del self._calls[call.key]
                self._remember(call.key, Stray.LATE)

    def _remember(self, key: str, stray: Stray) -> None:
        self._ended[key] = stray
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)


class Deadlines:
    """The calls whose time will be up, the next first. Thread-safe.

    Those that have completed are forgotten from time to time: most do long before their time is up.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._heap: list[tuple[float, int, Call]] = []
        self._many = _FEW

    def add(self, call: Call) -> None:
        """A call whose ``deadline`` is set."""
        with self._lock:
            if len(self._heap) >= self._many:
                self._heap = [one for one in self._heap if not one[2].completed]
                heapq.heapify(self._heap)
                self._many = max(_FEW, 2 * len(self._heap))
            heapq.heappush(self._heap, (call.deadline, next(self._numbers), call))

    def next(self) -> float:
        """When the next time is up, by the monotonic clock; infinity where none will be."""
        with self._lock:
            while self._heap and self._heap[0][2].completed:
                heapq.heappop(self._heap)
            return self._heap[0][0] if self._heap else math.inf

    def due(self, now: float) -> list[Call]:
        """Those whose time was up at ``now``; they are forgotten here."""
        found = []
        with self._lock:
            while self._heap and (self._heap[0][0] <= now or self._heap[0][2].completed):
                call = heapq.heappop(self._heap)[2]
                if not call.completed:
                    found.append(call)
        return found

    def all(self) -> list[Call]:
        """All that are not completed; they are forgotten here."""
        return self.due(math.inf)
