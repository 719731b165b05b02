"""Connections of Python programs to a broker: each is one connection of the broker, with many sessions."""

from __future__ import annotations

import secrets
from typing import Any

from connector.brokers.engine.broker import BrokerConnection
from connector.brokers.engine.connection import RemoteConnection
from connector.brokers.engine.provider import RemoteProvider
from connector.brokers.engine.session_connection import SessionConnection, SharedConnection
from connector.core.connection import MessagingConnection
from connector.messaging.client import AcknowledgeMode
from connector.messaging.provider import Connection

_UNACKNOWLEDGED = (AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK)
"""The modes in which a message that cannot be read stays unacknowledged."""


class BrokerMessagingConnection(MessagingConnection):
    """A connection to a broker, for all sessions of a program.

    The client id, the subscriptions and the temporary destinations are those of the broker's connection.

    Args:
        provider: of the messages.
        options: of :class:`~connector.core.connection.MessagingConnection`.

    Raises:
        ClientIdError: another client holds the client id.
        ProviderError: the broker is out of reach.
    """

    _own: RemoteConnection

    def __init__(self, provider: RemoteProvider, **options: Any) -> None:
        self._max_body = provider.max_body
        super().__init__(provider, **options)

    def _connect(self, mode: AcknowledgeMode) -> Connection:
        self._own.check()
        return connect_session(self._own.broker, mode, self._max_body)


def connect_session(
    broker: BrokerConnection, mode: AcknowledgeMode, max_body: int, *, owns: bool = False
) -> Connection:
    """Returns the connection of a session in this mode, on a connection of a broker.

    A broker settles a transaction as a whole. So the messages of INDIVIDUAL are a transaction each, and those
    of other modes are one.

    Args:
        max_body: bytes of a body. A larger body is not read.
        owns: whether the connection of the broker ends with the session.

    Raises:
        ProviderError: a session cannot be made.
    """
    shared = broker if owns else SharedConnection(broker)
    if mode is AcknowledgeMode.INDIVIDUAL:
        return RemoteConnection(shared, limit=max_body, batch=1, batch_bytes=max_body)
    client_id = f"s{secrets.token_hex(6)}"
    keeps_unreadable = mode in _UNACKNOWLEDGED
    return SessionConnection(shared, client_id, limit=max_body, keeps_unreadable=keeps_unreadable)
