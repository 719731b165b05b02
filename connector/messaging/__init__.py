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
from connector.messaging.typed_values import Byte, Char, Double, Float, Int, Long, Short

__all__ = [
    "NON_PERSISTENT",
    "PERSISTENT",
    "AcknowledgeMode",
    "Byte",
    "Char",
    "Consumer",
    "Destination",
    "Double",
    "Float",
    "Int",
    "Long",
    "Lot",
    "Message",
    "MessagingConnection",
    "Producer",
    "ReceivedMessage",
    "Session",
    "Settlement",
    "Short",
    "connect",
    "parse_destination",
]
