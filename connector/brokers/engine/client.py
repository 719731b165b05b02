"""Connections of Python programs to a broker: each is one connection of the broker, with many sessions."""

from __future__ import annotations

import itertools
from typing import Any

from connector.brokers.engine.connection import RemoteConnection
from connector.brokers.engine.provider import RemoteProvider
from connector.brokers.engine.session_connection import SessionConnection
from connector.core.connection import CoreConnection
from connector.core.session import CoreSession
from connector.messaging.client import AcknowledgeMode


class BrokerMessagingConnection(CoreConnection):
    """A connection to a broker, for all sessions of a program.

    The client id, the subscriptions and the temporary destinations are those of the broker's connection.

    Args:
        options: of :class:`~connector.core.connection.CoreConnection`.

    Raises:
        ClientIdError: another client holds the client id.
        ProviderError: the broker is out of reach.
    """

    _own: RemoteConnection

    def __init__(self, provider: RemoteProvider, **options: Any) -> None:
        self._max_body = provider.limits.max_body
        self._numbers = itertools.count(1)
        super().__init__(provider, **options)

    def _new_session(self, mode: AcknowledgeMode) -> CoreSession:
        self._own.check()
        connection = SessionConnection(
            self._own.broker,
            f"{self._own.client_id}-{next(self._numbers)}",
            limit=self._max_body,
            keeps_unreadable=mode in (AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK),
            individual=mode is AcknowledgeMode.INDIVIDUAL,
        )
        return CoreSession(connection, mode, self)
