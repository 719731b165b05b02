"""The calls of a request client. Each completes exactly once, and each reply finds its call."""

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
from connector.requests.sender import OutgoingRequest
from connector.status import ReturnCode

_REMEMBERED: Final = 10_000
"""Number of ended calls that stay known, so that their replies are called late or duplicate."""

_FEW: Final = 1000
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
        message: the message, complete but for the fields that the client sets.
        selector: the selector that alone finds the reply. Empty = the reply repeats the key of the call.
    """

    __slots__ = (
        "answer",
        "bo",
        "deadline",
        "key",
        "lasting",
        "message",
        "outgoing",
        "properties",
        "reply_to",
        "selector",
        "slot",
    )

    def __init__(
        self, bo: BusinessObject, properties: RequestProperties, message: Message, selector: str = ""
    ) -> None:
        self.bo = bo
        self.properties = properties
        self.message = message
        self.selector = selector
        self.key = ""
        self.lasting = False
        """Whether another connection to a broker can take the reply, whose queue is not temporary."""
        self.slot: Future[None] | None = None
        self.outgoing: OutgoingRequest | None = None
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


def key_of(text: str) -> str:
    """Returns an id without a leading ``ID:``, which one side may lack, for comparing."""
    return text.removeprefix("ID:")


class UnmatchedReply(Enum):
    """The kind of a reply that no request awaits."""

    LATE = "late_reply"
    DUPLICATE = "duplicate_reply"
    UNREADABLE = "unreadable_reply"


class PendingCalls:
    """The calls that await replies: by the key that a reply repeats, and by deadline. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[str, Call] = {}
        self._ended: OrderedDict[str, UnmatchedReply] = OrderedDict()
        self._numbers = itertools.count()
        self._deadlines: list[tuple[float, int, Call]] = []
        self._many = _FEW

    # -- by key --------------------------------------------------------------------------------------

    def expect(self, key: str, call: Call) -> None:
        """Expects a reply that repeats ``key``, for ``call``."""
        with self._lock:
            self._calls.pop(call.key, None)  # an earlier attempt to send the call had another key
            call.key = key
            self._calls[key] = call

    def find(self, key: str) -> Call | UnmatchedReply | None:
        """Returns the call that a reply names, or the kind of the unmatched reply.

        Returns None if the reply names no request of this client that is still known.
        """
        with self._lock:
            return self._calls.get(key) or self._ended.get(key)

    def remove(self, call: Call, later: UnmatchedReply) -> None:
        """Removes a call, unless the call was removed before.

        Args:
            later: the kind of a later reply that repeats the key.
        """
        with self._lock:
            if self._calls.get(call.key) is call:
                del self._calls[call.key]
                self._ended[call.key] = later
                if len(self._ended) > _REMEMBERED:
                    self._ended.popitem(last=False)

    def expecting(self) -> list[Call]:
        """Returns the calls that have a key."""
        with self._lock:
            return list(self._calls.values())

    # -- by deadline ---------------------------------------------------------------------------------

    def add_deadline(self, when: float, call: Call) -> None:
        """Makes :meth:`due` return the call at ``when`` by the monotonic clock, unless it completes before.

        Completed calls are removed from time to time: most complete long before their deadline.
        """
        with self._lock:
            if len(self._deadlines) >= self._many:
                self._deadlines = [entry for entry in self._deadlines if not entry[2].completed]
                heapq.heapify(self._deadlines)
                self._many = max(_FEW, 2 * len(self._deadlines))
            heapq.heappush(self._deadlines, (when, next(self._numbers), call))

    def next_deadline(self) -> float:
        """Returns the next deadline by the monotonic clock, or infinity if there is none."""
        with self._lock:
            while self._deadlines and self._deadlines[0][2].completed:
                heapq.heappop(self._deadlines)
            return self._deadlines[0][0] if self._deadlines else math.inf

    def due(self, now: float) -> list[Call]:
        """Removes and returns the calls with a deadline that is not after ``now``."""
        found = []
        with self._lock:
            while self._deadlines and self._deadlines[0][0] <= now:
                found.append(heapq.heappop(self._deadlines)[2])
        return [call for call in found if not call.completed]

    def awaiting(self) -> list[Call]:
        """Returns the sent calls that await a reply."""
        with self._lock:
            return [call for _, _, call in self._deadlines if call.deadline < math.inf]
