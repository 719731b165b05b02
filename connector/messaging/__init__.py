"""The vocabulary of all providers: message, destination, connection, claim. The API for Python programs."""

from connector.messaging.client import (
    AcknowledgeMode,
    Consumer,
    MessagingConnection,
    Producer,
    ReceivedMessage,
    Session,
    connect,
)
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.lot import Lot
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message
from connector.messaging.settlement import Settlement

__all__ = [
    "NON_PERSISTENT",
    "PERSISTENT",
    "AcknowledgeMode",
    "Consumer",
    "Destination",
    "Lot",
    "Message",
    "MessagingConnection",
    "Producer",
    "ReceivedMessage",
    "Session",
    "Settlement",
    "connect",
    "parse_destination",
]
