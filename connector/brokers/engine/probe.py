"""Finds out what a broker refuses."""

from __future__ import annotations

from connector.brokers.engine.broker import BrokerConnection
from connector.errors import ProviderError, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.settlement import TransactionRefused


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


def refusal_of(connection: BrokerConnection, error: Exception) -> SettlementError:
    """Returns the error of a transaction that the broker has not committed."""
    kind = TransactionRefused if connection.failure is None else SettlementError
    return kind(f"nothing was settled: {error}")
