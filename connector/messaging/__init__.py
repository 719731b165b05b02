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
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message

__all__ = [
    "NON_PERSISTENT",
    "PERSISTENT",
    "AcknowledgeMode",
    "Consumer",
    "Destination",
    "Message",
    "MessagingConnection",
    "Producer",
    "ReceivedMessage",
    "Session",
    "connect",
    "parse_destination",
]
