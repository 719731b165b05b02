"""Sends requests. Each is committed before the reply is awaited.

Callers share one transacted session. The thread that finds the session free commits for all callers that
wait, so that a hundred callers cost one sync of the disk. Then this thread wakes the caller that commits
next, and after that caller the others. A lock for all callers would wake them one after the other, in any
order, and keep some waiting.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from connector.core.session import CoreSession
from connector.errors import ConnectorError, ProviderError, SettlementError, TransactionRolledBack
from connector.messaging.destination import Destination
from connector.messaging.message import Message, delivery_time_after, expiration_after

_MAX_BATCH: Final = 256
"""Most requests in one commit."""
_MOST_SENDERS: Final = 64
"""Most destinations whose sessions are kept for further requests."""
_MOST_THREADS: Final = 1000


@dataclass(slots=True, eq=False)
class OutgoingRequest:
    """A request that is being sent.

    Args:
        message: complete but for the id.
        before_commit: called before anybody can see the message, with its id and the ``sent_ids`` of the
            connection. Called again if the request gets another id.
        time_to_live: milliseconds from sending to the expiration. 0 = no expiration.
        delivery_delay: milliseconds from sending to the first delivery.
        seconds: after which a broker that has not taken the request never gets it. None = without limit.
        check: called on the connection of the sender, before the request is added to a transaction. Raises
            ProviderError if the reply could not come, so that the request is not sent.
    """

    destination: Destination
    message: Message
    before_commit: Callable[[str, str], object] = lambda message_id, sent_ids: None
    time_to_live: int = 0
    delivery_delay: int = 0
    seconds: float | None = None
    check: Callable[[], object] = lambda: None
    given_up: bool = False
    """Whether the request must not be sent any more."""
    attempted: bool = False
    """Whether the commit was begun, so that the request may have been sent in spite of an error."""
    not_taken: bool = False
    """Whether its destination takes no message now, although the provider works."""
    done: bool = False
    error: Exception | None = None
    turn: threading.Lock = field(default_factory=threading.Lock)
    """Its thread sleeps on this lock until the request is done, or is the first of those that wait."""

    def __post_init__(self) -> None:
        self.turn.acquire()


class Senders:
    """The senders of a client. Thread-safe.

    At a broker each destination has its own, because a send to a full destination waits. Elsewhere all share
    one, so that many requests share a commit.

    Args:
        open_session: as of :class:`Sender`.
        apart: whether each destination has its own sender.
    """

    def __init__(self, open_session: Callable[[], CoreSession], *, apart: bool) -> None:
        self._open_session = open_session
        self._apart = apart
        self._lock = threading.Lock()
        self._senders: dict[Destination | None, Sender] = {None: Sender(open_session)}
        self._used: Counter[Destination | None] = Counter()
        """The numbers of requests that are being sent."""
        self._threads = ThreadPoolExecutor(_MOST_THREADS, "connector-requests-commit")
        """Send the requests that may be given up."""
        self._closed = False

    def send(self, outgoing: OutgoingRequest) -> None:
        """Sends a request as :meth:`Sender.send`, or gives the request up when its time is over."""
        key = outgoing.destination if self._apart else None
        with self._using(key):
            with self._lock:
                sender = self._senders.pop(key, None) or Sender(self._open_session)
                self._senders[key] = sender  # the last one is the newest
                old = self._idle() if len(self._senders) > _MOST_SENDERS and not self._closed else None
                if self._closed:
                    sender.close()
            if old is not None:
                old.close()
            if outgoing.seconds is None or not self._apart:
                sender.send(outgoing)
                return
            sender.open()  # in a time of its own
            sent = self._threads.submit(self._send, key, sender, outgoing)
            is_in_time = False
            try:
                is_in_time = bool(wait([sent], outgoing.seconds).done)
            finally:
                is_given_up = not is_in_time and sender.give_up(outgoing)
            if is_given_up:
                outgoing.not_taken = True
                raise ProviderError(
                    f"{outgoing.destination} has not taken it within {outgoing.seconds:g} s (ResponseTimeout)"
                )
            sent.result()

    def _send(self, key: Destination | None, sender: Sender, outgoing: OutgoingRequest) -> None:
        with self._using(key):
            sender.send(outgoing)

    @contextmanager
    def _using(self, key: Destination | None) -> Iterator[None]:
        """Keeps a sender from being closed."""
        with self._lock:
            self._used[key] += 1
        try:
            yield
        finally:
            with self._lock:
                self._used[key] -= 1

    def _idle(self) -> Sender | None:
        """Removes and returns the sender that was not used for the longest time."""
        for key in self._senders:
            if key is not None and not self._used[key]:
                del self._used[key]
                return self._senders.pop(key)
        return None

    def sent_ids(self) -> str:
        """Returns the LIKE pattern as :meth:`Sender.sent_ids`. For a provider where all share one sender."""
        return self._senders[None].sent_ids()

    def close(self) -> None:
        """Ends all sessions. Nothing is sent any more. Repeatable.

        Raises:
            ProviderError: a session cannot be ended.
        """
        with self._lock:
            self._closed = True
            senders = list(self._senders.values())
        for sender in senders:
            sender.close()


class Sender:
    """Commits requests, many in one commit if many wait. Thread-safe."""

    def __init__(self, open_session: Callable[[], CoreSession]) -> None:
        self._open_session = open_session
        self._lock = threading.Lock()
        """For the session. Only the thread that commits waits for it long."""
        self._opening = threading.Lock()
        self._queue_lock = threading.Lock()
        self._waiting: deque[OutgoingRequest] = deque()
        self._first: OutgoingRequest | None = None
        """The request whose thread commits. None = no request waits."""
        self._session: CoreSession | None = None
        self._closed = False

    def send(self, outgoing: OutgoingRequest) -> None:
        """Sends one request and returns after the commit.

        Raises:
            DestinationError, UnknownDestination, CapabilityError, ValueError: the request cannot be sent as
                it is.
            ProviderError: the provider failed. If ``outgoing.attempted``, the request may have been sent.
        """
        with self._queue_lock:
            self._waiting.append(outgoing)
            if self._first is None:
                self._first = outgoing
                outgoing.turn.release()
        try:
            outgoing.turn.acquire()
            if not outgoing.done:
                self._send_waiting(outgoing)
        finally:
            self._leave(outgoing)
        if outgoing.error is not None:
            raise outgoing.error

    def _send_waiting(self, first: OutgoingRequest) -> None:
        """Sends ``first`` and the requests behind it. Wakes first the thread that commits next."""
        batch: list[OutgoingRequest] = []
        try:
            with self._lock:
                with self._queue_lock:
                    batch += [self._waiting.popleft() for _ in range(min(_MAX_BATCH, len(self._waiting)))]
                self._send(batch)
        finally:
            self._leave(first)
            for outgoing in batch:
                if outgoing is not first:
                    outgoing.turn.release()

    def _leave(self, outgoing: OutgoingRequest) -> None:
        """Gives the turn on, if ``outgoing`` has it. A request whose thread was interrupted is not sent."""
        with self._queue_lock:
            if not outgoing.done and outgoing in self._waiting:
                self._waiting.remove(outgoing)
            if self._first is outgoing:
                self._first = self._waiting[0] if self._waiting else None
                if self._first is not None:
                    self._first.turn.release()

    def sent_ids(self) -> str:
        """Returns the LIKE pattern of the ids of all sent messages. Connects if there is no connection.

        Raises:
            ProviderError: the sender cannot connect.
        """
        with self._lock:
            return self.open().connection.sent_ids

    def close(self) -> None:
        """Ends the session. Nothing is sent any more. Repeatable."""
        with self._lock, self._opening:
            self._closed = True
            session, self._session = self._session, None
            if session is not None:
                session.close()

    def open(self) -> CoreSession:
        """Returns the session. Connects if there is none.

        Raises:
            ProviderError: the sender cannot connect.
        """
        with self._opening:
            if self._closed:
                raise ProviderError("the adapter was stopped")
            if self._session is None:
                self._session = self._open_session()
            return self._session

    def give_up(self, outgoing: OutgoingRequest) -> bool:
        """Returns whether a request was not sent, and never will be."""
        with self._queue_lock:
            outgoing.given_up = not (outgoing.attempted or outgoing.done)
            return outgoing.given_up

    def _begin_commit(self, sent: list[OutgoingRequest]) -> bool:
        """Notes that a commit begins. Returns False if one of its requests was given up."""
        with self._queue_lock:
            may_begin = not any(outgoing.given_up for outgoing in sent)
            for outgoing in sent:
                outgoing.attempted = may_begin
            return may_begin

    def _send(self, batch: list[OutgoingRequest]) -> None:
        """Sends a batch, and notes the error of each request in that request.

        Raises:
            BaseException: this thread was interrupted. The other requests of the batch get a ProviderError.
        """
        try:
            self._commit(batch)
        except BaseException as error:
            interrupted = ProviderError("the thread that was sending it was interrupted")
            told = error if isinstance(error, Exception) else interrupted
            for outgoing in batch:
                if not outgoing.done:
                    outgoing.error = outgoing.error or told
            self._abandon()
            if told is interrupted:
                raise
        finally:
            for outgoing in batch:
                outgoing.done = True

    def _commit(self, batch: list[OutgoingRequest]) -> None:
        """Commits all requests at once, or each alone if that fails.

        So no request fails because of another. Connects anew if the connection has ended since it was used.
        """
        was_open = self._session is not None
        session = self.open()
        try:
            sent = [outgoing for outgoing in batch if self._dispatch(session, outgoing)]
        except ProviderError:
            if not was_open:
                raise
            self._abandon()
            self._commit(batch)
            return
        if not sent:
            return
        try:
            session.commit(lambda: self._begin_commit(sent))
        except (SettlementError, TransactionRolledBack) as error:
            for outgoing in sent:
                outgoing.attempted = False
            if was_open and self._has_ended(session):
                self._abandon()
                self._commit(sent)
                return
            session.rollback()
            if len(sent) == 1:
                sent[0].error = error
                sent[0].not_taken = not self._has_ended(session)
                return
            for outgoing in sent:
                self._commit([outgoing])
            return
        for outgoing in sent:
            outgoing.done = True

    @staticmethod
    def _dispatch(session: CoreSession, outgoing: OutgoingRequest) -> bool:
        """Adds a request to the transaction. Returns False if it was given up, or cannot be sent as it is.

        Raises:
            ProviderError: the whole provider failed, not only the destination of the request.
        """
        message = outgoing.message
        outgoing.error = None
        if outgoing.given_up:
            return False
        try:
            outgoing.check()
            message.expiration = expiration_after(outgoing.time_to_live)
            message.delivery_time = delivery_time_after(outgoing.delivery_delay)
            (message_id,) = session.dispatch(outgoing.destination, [message])
        except (ConnectorError, ValueError) as error:
            outgoing.error = error
            if isinstance(error, ProviderError):
                session.connection.check()
                outgoing.not_taken = True
            return False
        if not outgoing.given_up:
            outgoing.before_commit(message_id, session.connection.sent_ids)
        return True

    @staticmethod
    def _has_ended(session: CoreSession) -> bool:
        """Whether the connection of a session can no longer be used."""
        try:
            session.connection.check()
        except ProviderError:
            return True
        return False

    def _abandon(self) -> None:
        """Abandons a failed session. The next request connects anew."""
        session, self._session = self._session, None
        if session is not None:
            session.abandon()
