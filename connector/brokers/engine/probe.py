"""Asks a broker whether a destination takes a message."""

from __future__ import annotations

from connector.brokers.engine.broker import BrokerConnection
from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.messaging.message import Message


def takes(connection: BrokerConnection, destination: Destination) -> bool:
    """Whether a destination takes an empty message, which is never delivered.

    Raises:
        ProviderError: a session cannot be made.
    """
    session = connection.session()
    try:
        session.send(destination, Message(b"", "M"))
        session.check_sends()
    except ProviderError:
        return False
    finally:
        session.close()
    return True
