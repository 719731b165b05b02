"""Sends requests: each is committed before its reply is awaited.

One provider connection for all callers. Whoever finds it free commits for all that have come meanwhile, so
that a hundred callers cost one sync of the disk and not a hundred.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from connector.errors import ConnectorError, ProviderError, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection, MessageAccess
from connector.messaging.settlement import Prepared

_log = logging.getLogger("connector.requests")

_MOST: Final = 256
"""Requests in one commit."""


class Outgoing:
    """A request on its way out.

    Args:
        destination: where it goes.
        message: ready but for its id.
        time_to_live: milliseconds from the moment of sending to its expiration; 0 = it has none.
        prepared: called with the id that it will have and the ``sent_ids`` of the connection that sends it,
            before anybody can see it.
    """

    __slots__ = (
        "attempted",
        "destination",
        "done",
        "error",
        "handle",
        "message",
        "prepared",
        "time_to_live",
    )

    def __init__(
        self,
        destination: Destination,
        message: Message,
        prepared: Callable[[str, str], object],
        time_to_live: int = 0,
    ) -> None:
        self.destination = destination
        self.message = message
        self.prepared = prepared
        self.time_to_live = time_to_live
        self.attempted = False
        """Whether its commit was begun, so that it may have been sent whatever came of it."""
        self.done = False
        self.error: Exception | None = None
        self.handle: Prepared | None = None


class Sender:
    """Commits requests, many at a time where many come. Thread-safe.

    Args:
        connect: makes a provider connection.
    """

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._waiting: deque[Outgoing] = deque()
        self._connection: Connection | None = None
        self._access: MessageAccess | None = None
        self._keys = itertools.count()
        self._closed = False

    def send(self, outgoing: Outgoing) -> None:
        """Sends one request; when this returns it is committed.

        Raises:
            DestinationError, UnknownDestination, CapabilityError, ValueError: it cannot be sent as it is.
            ProviderError: the provider failed. Where ``outgoing.attempted``, and unless it is a
                SettlementError, it may have been sent.
        """
        self._waiting.append(outgoing)
        with self._lock:
            while not outgoing.done:
                batch = [self._waiting.popleft() for _ in range(min(_MOST, len(self._waiting)))]
                self._send(batch)
        if outgoing.error is not None:
            raise outgoing.error

    def sent_ids(self) -> str:
        """See :attr:`connector.messaging.provider.Connection.sent_ids`; connects where it is not.

        Raises:
            ProviderError: it cannot.
        """
        with self._lock:
            return self._open()[0].sent_ids

    def close(self) -> None:
        """Ends the connection; nothing is sent any more. Repeatable."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _open(self) -> tuple[Connection, MessageAccess]:
        if self._closed:
            raise ProviderError("the adapter was stopped")
        if self._connection is None or self._access is None:
            self._connection = connection = self._connect()
            try:
                self._access = connection.access().open()
            except BaseException:
                self._abandon()
                raise
        return self._connection, self._access

    def _send(self, batch: list[Outgoing]) -> None:
        """Sends what it can, and notes in each what became of it."""
        try:
            self._commit(self._prepare_all(batch))
        except Exception as error:
            for outgoing in batch:
                outgoing.error = outgoing.error or error
            self._abandon()
        finally:
            for outgoing in batch:
                outgoing.done = True

    def _prepare_all(self, batch: list[Outgoing]) -> list[Outgoing]:
        """Those that can be committed. A connection that has ended meanwhile costs nobody a request."""
        was_open = self._connection is not None
        try:
            return [outgoing for outgoing in batch if self._prepare(outgoing, *self._open())]
        except ProviderError:
            if not was_open:
                raise
        self._abandon()
        for outgoing in batch:
            outgoing.error = outgoing.handle = None
        return self._prepare_all(batch)

    def _prepare(self, outgoing: Outgoing, connection: Connection, access: MessageAccess) -> bool:
        if outgoing.time_to_live:
            outgoing.message.expiration = time.time_ns() // 1_000_000 + outgoing.time_to_live
        try:
            outgoing.handle = access.prepare(
                outgoing.destination, outgoing.message, f"request {next(self._keys)}"
            )
            outgoing.prepared(outgoing.message.message_id or "", connection.sent_ids)
        except (ConnectorError, ValueError) as error:
            if outgoing.handle is not None:
                access.discard(outgoing.handle)
            outgoing.error = error
            if isinstance(error, ProviderError):
                connection.check()  # one destination cannot be written, or nothing can be any more
        return outgoing.error is None

    def _commit(self, batch: list[Outgoing]) -> None:
        """All in one commit; where that is not possible, each in its own, so that none spoils the others'."""
        connection, access = self._open()
        handles = [outgoing.handle for outgoing in batch if outgoing.handle is not None]
        if not handles:
            return
        access.sync()
        for outgoing in batch:
            outgoing.attempted = True
        try:
            connection.settle((), handles)
        except SettlementError as error:
            if self._has_ended(connection):  # then nothing was sent, and another connection does it
                for outgoing in batch:
                    outgoing.handle = None
                    outgoing.attempted = False
                self._abandon()
                self._commit(self._prepare_all(batch))
                return
            if len(batch) == 1:
                batch[0].error = error
                access.discard(handles[0])
                return
            for outgoing in batch:
                self._commit([outgoing])

    @staticmethod
    def _has_ended(connection: Connection) -> bool:
        """Whether a connection is of no use any more."""
        try:
            connection.check()
        except ProviderError:
            return True
        return False

    def _abandon(self) -> None:
        """The connection has failed: the next request makes another one."""
        connection, self._connection, self._access = self._connection, None, None
        if connection is not None:
            try:
                connection.abandon()
            except (ProviderError, OSError) as error:
                _log.debug("ending a failed connection failed", extra={"reason": str(error)})
