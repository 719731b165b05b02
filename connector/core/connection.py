"""Connections of JMS: clients of a provider. Each session has a separate provider connection."""

from __future__ import annotations

import contextlib
import secrets
import threading

from connector.core.producer import as_destination
from connector.core.session import CoreSession
from connector.core.session_owner import SessionOwner
from connector.core.takeover import INTERVAL, try_take_over
from connector.errors import CapabilityError, SessionStateError
from connector.messaging import client
from connector.messaging.client import AcknowledgeMode
from connector.messaging.destination import Destination
from connector.messaging.lot import Lot
from connector.messaging.provider import Connection, Provider, SessionClient


class CoreConnection(SessionOwner, client.MessagingConnection):
    """A connection to a provider, for all sessions of a program.

    Args:
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
        self._provider = provider
        self._origin = client_id or secrets.token_hex(8)
        own = provider.connect(client_id=client_id, origin=self._origin)  # holds the client id
        super().__init__(own, provider.capabilities, client_id, takeover_interval)
        self.started = start
        self._lock = threading.Lock()
        self._sessions: list[CoreSession] = []
        self._lots: dict[str, Connection] = {}
        """The connection that owns the lots of a name."""
        self._closed = False
        try:
            try_take_over(own, at_start=True)
        except BaseException:
            own.abandon()
            raise

    def session(self, mode: AcknowledgeMode = AcknowledgeMode.AUTO) -> CoreSession:
        self._check_open()
        session = self._new_session(mode)
        with self._lock:
            if not self._closed:
                self._sessions.append(session)
                return session
        session.connection.close()
        raise SessionStateError("the connection was closed meanwhile")

    def claim_lot(
        self, destination: Destination | str, name: str, limit: int, *, number: int | None = None
    ) -> Lot | None:
        queue = as_destination(destination, self._capabilities)
        if not self._capabilities.lots:
            raise CapabilityError("the provider has no lots: use a consumer")
        with self._lock:
            self._check_open()
            if name not in self._lots:
                self._lots[name] = self._provider.connect(origin=self._origin)
            connection = self._lots[name]
        return connection.lots.claim(queue, name, limit, number=number)

    def start(self) -> None:
        self._check_open()
        self.started = True

    def stop(self) -> None:
        self._check_open()
        sessions = self._all()
        for session in sessions:
            session.refuse_own_listener()
        self.started = False
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
            for connection in self._lots.values():
                rest.callback(connection.close)
            for session in sessions:
                rest.callback(session.close)

    def _new_session(self, mode: AcknowledgeMode) -> CoreSession:
        """Returns a session on a connection of its own."""
        connection = self._provider.connect(origin=self._origin)
        return CoreSession(connection, mode, self, connection)

    # -- what its sessions need ----------------------------------------------------------------------

    def temporary(self, kind: str) -> Destination:
        with self._lock:
            self._check_open()
            return super().temporary(kind)

    def delete_temporary(self, destination: Destination) -> None:
        with self._lock:
            self._check_open()
            super().delete_temporary(destination)

    def remove_session(self, session: CoreSession, connection: SessionClient, *, broken: bool) -> None:
        with self._lock:
            if session in self._sessions:
                self._sessions.remove(session)
        super().remove_session(session, connection, broken=broken)

    def _all(self) -> list[CoreSession]:
        with self._lock:
            return list(self._sessions)

    def _check_open(self) -> None:
        if self._closed:
            raise SessionStateError("the connection is closed: make another one")
