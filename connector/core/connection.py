"""Connections of JMS: clients of a provider. Each session has a separate provider connection."""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
from collections.abc import Callable
from types import TracebackType

from connector.core.session import CoreSession
from connector.core.takeover import INTERVAL, TakeoverTimer, try_take_over
from connector.errors import SessionStateError
from connector.messaging import client
from connector.messaging.client import AcknowledgeMode
from connector.messaging.destination import Destination
from connector.messaging.provider import Capabilities, Connection, Provider
from connector.tracebacks import error_text

_log = logging.getLogger("connector.core")


class MessagingConnection(client.MessagingConnection):
    """A connection to a provider, for all sessions of a program.

    Args:
        provider: of the messages.
        client_id: held until :meth:`close`. Empty = none.
        start: whether messages are delivered at once.
        takeover_interval: seconds between two looks for dead clients.

    Raises:
        ClientIdError: another client holds the client id.
        ProviderError: the provider is out of reach.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        client_id: str = "",
        start: bool = True,
        takeover_interval: float = INTERVAL,
    ) -> None:
        self._client_id = client_id
        self.exception_listener: Callable[[Exception], object] | None = None
        self._provider = provider
        self._origin = client_id or secrets.token_hex(8)
        self._started = start
        self._lock = threading.Lock()
        self._sessions: list[CoreSession] = []
        self._schedule = TakeoverTimer(takeover_interval)
        self._closed = False
        self._own = provider.connect(client_id=client_id, origin=self._origin)  # holds the client id
        try:
            try_take_over(self._own, at_start=True)
        except BaseException:
            self._own.abandon()
            raise

    @property
    def client_id(self) -> str:
        return self._client_id

    @property
    def capabilities(self) -> Capabilities:
        return self._provider.capabilities

    @property
    def started(self) -> bool:
        """Whether messages are delivered now."""
        return self._started

    def session(self, mode: AcknowledgeMode = AcknowledgeMode.AUTO) -> CoreSession:
        self._check_open()
        connection = self._provider.connect(origin=self._origin)
        session = CoreSession(connection, mode, self)
        with self._lock:
            if not self._closed:
                self._sessions.append(session)
                return session
        connection.close()
        raise SessionStateError("the connection was closed meanwhile")

    def start(self) -> None:
        self._check_open()
        self._started = True

    def stop(self) -> None:
        self._check_open()
        sessions = self._all()
        for session in sessions:
            session.refuse_own_listener()
        self._started = False
        for session in sessions:
            session.wait_for_listener()

    def close(self) -> None:
        sessions = self._all()
        for session in sessions:
            session.refuse_own_listener()
        with self._lock:
            if self._closed:
                return
            self._closed = True
        with contextlib.ExitStack() as rest:  # a failure keeps no other session open
            rest.callback(self._own.close)
            for session in sessions:
                rest.callback(session.close)

    def __enter__(self) -> MessagingConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- what its sessions need ----------------------------------------------------------------------

    def report(self, error: Exception) -> None:
        """Calls the exception listener, or logs the error if there is none."""
        listener = self.exception_listener
        if listener is None:
            _log.error("the connection has failed", extra={"reason": error_text(error)}, exc_info=error)
            return
        try:
            listener(error)
        except Exception:
            _log.exception("the exception listener raised an exception")

    def is_takeover_due(self) -> bool:
        """Whether the calling session must look for dead clients now."""
        return self._schedule.is_due()

    def temporary(self, kind: str) -> Destination:
        """Returns a new temporary destination for all sessions. The destination ends with this connection."""
        with self._lock:
            self._check_open()
            return self._own.temporary(kind)

    def delete_temporary(self, destination: Destination) -> None:
        """Ends a temporary destination.

        Raises:
            DestinationError: the destination cannot be ended here.
        """
        with self._lock:
            self._check_open()
            self._own.delete_temporary(destination)

    def remove_session(self, session: CoreSession, connection: Connection, *, broken: bool) -> None:
        """Removes an ended session.

        Args:
            connection: the provider connection of the session.
            broken: whether claims of the session are not settled. A takeover settles them.
        """
        with self._lock:
            if session in self._sessions:
                self._sessions.remove(session)
        if broken:
            connection.abandon()
        else:
            connection.close()

    def _all(self) -> list[CoreSession]:
        with self._lock:
            return list(self._sessions)

    def _check_open(self) -> None:
        if self._closed:
            raise SessionStateError("the connection is closed: make another one")
