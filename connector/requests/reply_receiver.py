"""The contract of a reply receiver, and how a reply finds its call.

A local provider has :mod:`connector.requests.stored_replies`, a broker
:mod:`connector.requests.broker_replies`.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, NamedTuple, Protocol

from connector.errors import ConnectorError, MalformedData
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from connector.requests.late import LateReplies
from connector.requests.pending import Answer, Call, Failure, PendingCalls, UnmatchedReply, key_of
from connector.requests.settings import CORRELATION_ID
from connector.status import ReturnCode

MAX_BATCH: Final = 500
"""Most replies that are taken at a time."""
_MOST_BROWSED: Final = 1000
_LOOK_SECONDS: Final = 1.0
"""How many messages are looked at for a reply that does not match, and for how long."""
_MAX_PATTERNS: Final = 8
"""Most sending connections whose replies are still taken. There are several only after failures."""


class ReplyReceiver(Protocol):
    """Takes the replies of a client on one connection.

    For the thread of the listener, except :meth:`wake` and :attr:`temporaries`. Every method may raise
    :class:`~connector.errors.ProviderError`: the connection has failed.
    """

    @property
    @abstractmethod
    def temporaries(self) -> Mapping[bool, Destination]:
        """The queues that :meth:`temporary` has made, and that have not ended. For any thread."""

    @abstractmethod
    def temporary(self, shared: bool) -> Destination:
        """Returns a temporary queue, which the first call makes.

        Args:
            shared: True = the queue for calls with a selector. False = a private queue that needs no
                selector: each message is a reply with a key.

        Raises:
            CapabilityError: the provider has no temporary queues.
        """

    @abstractmethod
    def take_from(self, destination: Destination) -> None:
        """Takes this client's replies from ``destination``, too. A first look shows whether that is possible.

        Raises:
            RequestRefused, DestinationError, CapabilityError: replies cannot be taken from there.
        """

    @abstractmethod
    def take_by_selector(self, call: Call, destination: Destination) -> None:
        """Takes the first message that matches the selector of ``call`` as its reply.

        Raises:
            RequestRefused, DestinationError, CapabilityError: replies cannot be taken from there.
        """

    @abstractmethod
    def take_by_id(self, call: Call, destination: Destination) -> None:
        """Takes the message that repeats the key of ``call`` as its reply. Only at a broker.

        A local provider has :meth:`take_from`, because the ids of one client have a pattern. A call whose
        reply cannot be taken from there completes with a failure.
        """

    @abstractmethod
    def awaiting(self) -> list[Call]:
        """Returns the waiting calls that have a consumer of their own."""

    def unmatched(self, call: Call) -> Message | None:
        """Returns a message that answers a call by its key, and that the selector of the call has left.

        None = there is none, or that cannot be seen.
        """
        return None

    @abstractmethod
    def take(self) -> int:
        """Takes up to :data:`MAX_BATCH` messages, completes their calls, and returns the number of messages.

        If this fails, replies that were read before complete their calls.
        """

    @abstractmethod
    def maintain(self) -> None:
        """Does what has to be done from time to time, each at its own interval."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Waits ``seconds`` at most for a reply, or until the receiver is woken."""

    @abstractmethod
    def check(self) -> None:
        """Checks that the provider is still there."""

    @abstractmethod
    def wake(self) -> None:
        """Ends the present wait, or else the next one. For any thread, never raises."""

    @abstractmethod
    def close(self) -> None:
        """Ends the receiver and its temporary queues."""

    @abstractmethod
    def abandon(self) -> None:
        """Ends the receiver as a crash would."""


class ReplySources:
    """The reply destinations of a client, and the selector for its replies. Outlives the connections.

    Thread-safe.

    Args:
        field: field of a reply that repeats the key of the call: JMSCorrelationID, or a property.
    """

    def __init__(self, field: str) -> None:
        self.field = field
        self._lock = threading.Lock()
        self.destinations: dict[Destination, None] = {}
        self.sought: dict[Call, float] = {}
        """The lasting calls with a consumer of their own or of a group, and until when a late reply is looked
        for, by the monotonic clock. Infinity = that is not decided yet."""
        self.patterns: tuple[str, ...] = ()

    def expect(self, pattern: str) -> None:
        """Lets the selector match replies that repeat a key of this LIKE pattern (escape ``\\``)."""
        if pattern not in self.patterns:
            with self._lock:
                if pattern not in self.patterns:
                    self.patterns = (*self.patterns, pattern)[-_MAX_PATTERNS:]

    @property
    def selector(self) -> str:
        """The selector that matches the replies to this client's calls."""
        return " OR ".join(f"{self.field} LIKE '{pattern}' ESCAPE '\\'" for pattern in self.patterns)

    def key(self, message: Message) -> str:
        """Returns the key that a reply repeats."""
        if self.field == CORRELATION_ID:
            return key_of(message.correlation_id or "")
        return key_of(str(message.properties.get(self.field, "")))


class Match(NamedTuple):
    """The call that a reply answers, and what becomes of the reply.

    Attributes:
        call: the call. None = no call awaits the reply.
        answer: of the call. A failure if the reply cannot be read.
        settlement: of the reply.
    """

    call: Call | None
    answer: Answer
    settlement: Settlement

    @property
    def is_awaited(self) -> bool:
        """Whether the reply is the answer of a call, so that nothing else becomes of it."""
        return self.call is not None and isinstance(self.answer, Message)


class ReplyMatcher:
    """Finds the calls of replies."""

    def __init__(self, sources: ReplySources, calls: PendingCalls, late: LateReplies) -> None:
        self._sources = sources
        self._calls = calls
        self._late = late

    def match(self, claim: Claim, load: Callable[[], Message], unnamed: Call | None = None) -> Match:
        """Reads a reply and finds its call. A call that is found expects no other reply.

        Args:
            unnamed: the call of a reply that names no call.
        """
        try:
            answer: Answer = load()
            headers = answer
        except (MalformedData, LookupError) as error:
            text = f"the reply {claim.message_id} on {claim.destination} cannot be read: {error}"
            answer, headers = Failure(ReturnCode.FAIL, text), claim.headers()
        assert isinstance(headers, Message)
        call = self._calls.find(self._sources.key(headers)) or unnamed or UnmatchedReply.LATE
        if isinstance(call, UnmatchedReply):
            return Match(None, answer, self._late.note(claim, call))
        self._calls.remove(call, UnmatchedReply.DUPLICATE)  # another reply with the same key
        if isinstance(answer, Failure):
            return Match(call, answer, self._late.note(claim, UnmatchedReply.UNREADABLE, answer.text or ""))
        return Match(call, answer, Settlement(claim))


def find_unmatched(connection: Connection, sources: ReplySources, call: Call) -> Message | None:
    """Looks for a message that answers a call by its key, and that the selector of the call has left.

    None = none was found within a second, or the destination cannot be looked into. At most brokers that is a
    temporary queue.
    """
    key = key_of(call.message.message_id or "")
    if not key or call.reply_to is None:
        return None
    until = time.monotonic() + _LOOK_SECONDS
    try:
        for message in islice(connection.browse(call.reply_to), _MOST_BROWSED):
            if sources.key(message) == key:
                return message
            if time.monotonic() > until:
                break
    except ConnectorError:  # the look explains a failure, and is no failure of its own
        pass
    return None
