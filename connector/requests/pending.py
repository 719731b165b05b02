"""The requests in flight. Each completes exactly once, and each reply finds the request."""

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
"""Number of ended requests that stay known, so that their replies are called late or duplicate."""

_MIN_DEADLINES: Final = 1000
"""Smallest number of deadlines at which the deadlines of completed calls are removed."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of a request that has no reply.

    Args:
        status: FAIL or APPRESPONSETIMEOUT. SUCCEED for a request that wants no reply.
        text: the reason. None after success.
        not_sent, refused: see :class:`~connector.requests.result.RequestResult`.
    """

    status: ReturnCode
    text: str | None = None
    not_sent: bool = False
    refused: bool = False


Answer = Message | Failure


class Call:
    """A request in flight, with the answer.

    Args:
        bo: the client's own business object.
        properties: the request's properties from the meta-objects.
        message: the message, complete but for the fields that the client sets.
        selector: the response selector of the verb, or empty.
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
        self.answer.set_running_or_notify_cancel()  # nobody can cancel the future

    def complete(self, answer: Answer) -> bool:
        """Ends the request. Returns False, and changes nothing, if the request had ended before."""
        try:
            self.answer.set_result(answer)
        except InvalidStateError:
            return False
        return True

    @property
    def completed(self) -> bool:
        """Whether the request has an answer."""
        return self.answer.done()


class UnmatchedReply(Enum):
    """The kind of a reply that no request waits for."""

    LATE = "late_reply"
    DUPLICATE = "duplicate_reply"
    UNREADABLE = "unreadable_reply"


class Pending:
    """The calls that wait for a reply, by the value that the reply repeats. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[str, Call] = {}
        self._ended: OrderedDict[str, UnmatchedReply] = OrderedDict()

    def add(self, key: str, call: Call) -> None:
        """Awaits a reply that repeats ``key``, for ``call``."""
        with self._lock:
            self._calls.pop(call.key, None)  # an earlier attempt to send the call had another key
            call.key = key
            self._calls[key] = call

    def destinations(self) -> set[Destination]:
        """Returns the destinations at which replies are awaited."""
        with self._lock:
            return {call.reply_to for call in self._calls.values() if call.reply_to is not None}

    def take(self, key: str) -> Call | UnmatchedReply:
        """Removes and returns the call that a reply answers, or returns the kind of the stray reply."""
        with self._lock:
            call = self._calls.pop(key, None)
            if call is None:
                return self._ended.get(key, UnmatchedReply.LATE)
            self._remember(key, UnmatchedReply.DUPLICATE)
            return call

    def named(self, key: str) -> Call | UnmatchedReply | None:
        """Returns the call of a reply that a response selector has found, or the kind of the stray reply.

        Returns None if the reply names no request of this client.
        """
        with self._lock:
            return self._calls.get(key) or self._ended.get(key)

    def answered(self, call: Call) -> None:
        """Removes an answered call. Another reply with the same key is a duplicate."""
        with self._lock:
            if self._calls.get(call.key) is call:
                del self._calls[call.key]
                self._remember(call.key, UnmatchedReply.DUPLICATE)

    def waiting_at(self, destination: Destination) -> list[Call]:
        """Returns the calls whose replies are awaited at ``destination``."""
        with self._lock:
            return [call for call in self._calls.values() if call.reply_to == destination]

    def give_up(self, call: Call) -> None:
        """Removes a call without a reply. A reply that still comes is late."""
        with self._lock:
            if self._calls.get(call.key) is call:
                del self._calls[call.key]
                self._remember(call.key, UnmatchedReply.LATE)

    def _remember(self, key: str, unmatched: UnmatchedReply) -> None:
        self._ended[key] = unmatched
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)


class Deadlines:
    """The deadlines of calls, the next first. Thread-safe.

    Completed calls are removed from time to time: most complete long before their deadline.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._heap: list[tuple[float, int, Call]] = []
        self._many = _MIN_DEADLINES

    def add(self, call: Call) -> None:
        """Adds a call whose ``deadline`` is set."""
        with self._lock:
            if len(self._heap) >= self._many:
                self._heap = [one for one in self._heap if not one[2].completed]
                heapq.heapify(self._heap)
                self._many = max(_MIN_DEADLINES, 2 * len(self._heap))
            heapq.heappush(self._heap, (call.deadline, next(self._numbers), call))

    def next(self) -> float:
        """Returns the next deadline by the monotonic clock, or infinity if there is none."""
        with self._lock:
            while self._heap and self._heap[0][2].completed:
                heapq.heappop(self._heap)
            return self._heap[0][0] if self._heap else math.inf

    def due(self, now: float) -> list[Call]:
        """Removes and returns the calls whose deadline is not after ``now``."""
        found = []
        with self._lock:
            while self._heap and (self._heap[0][0] <= now or self._heap[0][2].completed):
                call = heapq.heappop(self._heap)[2]
                if not call.completed:
                    found.append(call)
        return found

    def all(self) -> list[Call]:
        """Removes and returns all calls that are not completed."""
        return self.due(math.inf)
