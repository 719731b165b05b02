"""Sends requests. Each is committed before the reply is awaited.

All callers share one provider connection. The thread that finds the connection free commits for all callers
that wait, so that a hundred callers cost one sync of the disk.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from connector.errors import ConnectorError, ProviderError, SettlementError
from connector.messaging.access import MessageAccess
from connector.messaging.destination import Destination
from connector.messaging.message import Message, expiration_after
from connector.messaging.provider import Connection
from connector.messaging.settlement import Prepared

_log = logging.getLogger("connector.requests")

_MAX_BATCH: Final = 256
"""Most requests in one commit."""


@dataclass(slots=True, eq=False)
class Outgoing:
    """A request that is being sent.

    Args:
        destination: of the request.
        message: complete but for the id.
        prepared: called before anybody can see the message, with its id and the ``sent_ids`` of the
            connection.
        time_to_live: milliseconds from sending to the expiration. 0 = no expiration.
    """

    destination: Destination
    message: Message
    prepared: Callable[[str, str], object] = lambda message_id, sent_ids: None
    time_to_live: int = 0
    attempted: bool = False
    """Whether the commit was begun, so that the request may have been sent in spite of an error."""
    done: bool = False
    error: Exception | None = None
    handle: Prepared | None = None


class Sender:
    """Commits requests, many in one commit if many wait. Thread-safe.

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
        """Sends one request and returns after the commit.

        Raises:
            DestinationError, UnknownDestination, CapabilityError, ValueError: the request cannot be sent as
                it is.
            ProviderError: the provider failed. If ``outgoing.attempted``, and the error is no
                SettlementError, the request may have been sent.
        """
        self._waiting.append(outgoing)
        with self._lock:
            while not outgoing.done:
                batch = [self._waiting.popleft() for _ in range(min(_MAX_BATCH, len(self._waiting)))]
                self._send(batch)
        if outgoing.error is not None:
            raise outgoing.error

    def sent_ids(self) -> str:
        """Returns the LIKE pattern of the ids of all sent messages. Connects if there is no connection.

        Raises:
            ProviderError: the sender cannot connect.
        """
        with self._lock:
            return self._open()[0].sent_ids

    def close(self) -> None:
        """Ends the connection. Nothing is sent any more. Repeatable."""
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
        """Sends a batch, and notes the error of each request in that request."""
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
        """Returns the requests that can be committed. Connects anew if the connection has ended meanwhile."""
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
        try:
            outgoing.message.expiration = expiration_after(outgoing.time_to_live)
            outgoing.handle = access.prepare(
                outgoing.destination, outgoing.message, f"request {next(self._keys)}"
            )
            outgoing.prepared(outgoing.message.message_id or "", connection.sent_ids)
        except (ConnectorError, ValueError) as error:
            if outgoing.handle is not None:
                access.discard(outgoing.handle)
            outgoing.error = error
            if isinstance(error, ProviderError):
                connection.check()  # raises if the whole provider failed, not only this destination
        return outgoing.error is None

    def _commit(self, batch: list[Outgoing]) -> None:
        """Commits all requests at once, or each alone if that fails.

        So no request fails because of another.
        """
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
            if self._has_ended(connection):  # nothing was sent, and a new connection sends the batch
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
        """Whether a connection can no longer be used."""
        try:
            connection.check()
        except ProviderError:
            return True
        return False

    def _abandon(self) -> None:
        """Abandons a failed connection. The next request connects anew."""
        connection, self._connection, self._access = self._connection, None, None
        if connection is not None:
            try:
                connection.abandon()
            except (ProviderError, OSError) as error:
                _log.debug("closing a failed connection failed", extra={"reason": str(error)})
