"""The owner of sessions: what a session needs beyond its connection of the provider."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from connector.core.takeover import INTERVAL, TakeoverTimer
from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.messaging.provider import Capabilities, SessionClient
from connector.tracebacks import error_text

_log = logging.getLogger("connector.core")


class SessionOwner:
    """The owner of a session that stands alone, and the base of connections with many sessions.

    Args:
        connection: has the client id and the temporary destinations.
        client_id: of JMS, which ``connection`` holds. Empty = none.
        takeover_interval: seconds between two looks for dead clients.
    """

    started = True
    """Whether messages are delivered now."""
    exception_listener: Callable[[Exception], object] | None = None

    def __init__(
        self,
        connection: SessionClient,
        capabilities: Capabilities,
        client_id: str = "",
        takeover_interval: float = INTERVAL,
    ) -> None:
        self._own = connection
        self._capabilities = capabilities
        self._client_id = client_id
        self._timer = TakeoverTimer(takeover_interval)

    @property
    def client_id(self) -> str:
        """The client id of JMS. Empty = none."""
        return self._client_id

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the provider."""
        return self._capabilities

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
        return self._timer.is_due()

    def temporary(self, kind: str) -> Destination:
        """Returns a new temporary destination for all sessions. The destination ends with this owner."""
        return self._own.temporary(kind)

    def delete_temporary(self, destination: Destination) -> None:
        """Ends a temporary destination.

        Raises:
            DestinationError: the destination cannot be ended here.
        """
        self._own.delete_temporary(destination)

    def remove_session(self, session: Any, connection: SessionClient, *, broken: bool) -> None:
        """Ends the connection of a session that has ended.

        Args:
            broken: whether claims of the session are not settled. A takeover settles them.
        """
        if not broken:
            connection.close()
            return
        try:
            connection.abandon()
        except (ProviderError, OSError) as error:
            _log.debug("closing a failed connection failed", extra={"reason": str(error)})
