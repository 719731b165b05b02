"""The owner of a session that stands alone, in parts of the connector that connect by themselves."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from connector.core.session import CoreSession
from connector.core.takeover import INTERVAL, TakeoverTimer
from connector.errors import ProviderError
from connector.messaging.client import AcknowledgeMode
from connector.messaging.destination import Destination
from connector.messaging.provider import Capabilities, Connection
from connector.tracebacks import error_text

_log = logging.getLogger("connector.core")


def sole_session(
    connection: Connection,
    mode: AcknowledgeMode,
    capabilities: Capabilities,
    *,
    client_id: str = "",
    takeover_interval: float = INTERVAL,
) -> CoreSession:
    """Returns the only session of a connection of a provider. The connection ends with the session.

    Args:
        connection: abandoned if the session cannot be made.
        mode: of acknowledgement.
        capabilities: of the provider.
        client_id: the client id of JMS that the connection holds. Empty = none.
        takeover_interval: seconds between two looks for dead clients.

    Raises:
        ProviderError: the connection has failed.
    """
    try:
        owner = SoleOwner(connection, capabilities, client_id, TakeoverTimer(takeover_interval))
        return CoreSession(connection, mode, owner)
    except BaseException:
        connection.abandon()
        raise


@dataclass(slots=True)
class SoleOwner:
    """The owner of one session, by the contract :class:`connector.core.inbox.SessionOwner`.

    Args:
        connection: of the session.
        capabilities: of the provider.
        client_id: the client id of JMS that the connection holds. Empty = none.
        timer: of the looks for dead clients.
    """

    connection: Connection
    capabilities: Capabilities
    client_id: str
    timer: TakeoverTimer
    started: bool = True

    def report(self, error: Exception) -> None:
        _log.error("the connection has failed", extra={"reason": error_text(error)}, exc_info=error)

    def is_takeover_due(self) -> bool:
        return self.timer.is_due()

    def temporary(self, kind: str) -> Destination:
        return self.connection.temporary(kind)

    def delete_temporary(self, destination: Destination) -> None:
        self.connection.delete_temporary(destination)

    def remove_session(self, session: Any, connection: Connection, *, broken: bool) -> None:
        if not broken:
            connection.close()
            return
        try:
            connection.abandon()
        except (ProviderError, OSError) as error:
            _log.debug("closing a failed connection failed", extra={"reason": str(error)})
