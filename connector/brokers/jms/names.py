"""The names of queues and topics in Java. A name is the broker's own, and any name is right.

The client of IBM MQ takes and gives names as URIs. ``queue:///ORDERS?targetClient=1`` is a queue of the
connection's queue manager with an option. Its name is ``/ORDERS?targetClient=1`` here. The name of a queue
without options is ``ORDERS``.
"""

from __future__ import annotations

from typing import Any, Final

from connector.errors import DestinationError
from connector.messaging.destination import Destination, known_destination, own_destination

_IBM: Final = "com.ibm."


def name_of(java: Any, jms: Any) -> str:
    """Returns the text of the destination that a Java queue or topic names.

    The text of a name that no text of Python can hold is none of a destination (:func:`is_named`).
    """
    is_queue = isinstance(java, jms.Queue)
    kind = "queue" if is_queue else "topic"
    found = java.getQueueName() if is_queue else java.getTopicName()
    try:
        name = str(found or "")
        if _is_of_ibm(java) and name.startswith(f"{kind}://"):
            name = name.removeprefix(f"{kind}://")
            if is_queue and name.startswith("/") and "/" not in name[1:] and "?" not in name:
                name = name[1:]
        return str(own_destination(kind, name))
    except (DestinationError, UnicodeError):
        return f"{kind}://{str(found.replaceAll('[^ -~]', '?')) if found else ''}~not-readable"


def is_named(text: str) -> bool:
    """Whether a text of :func:`name_of` is that of a destination."""
    try:
        known_destination(text)
    except DestinationError:
        return False
    return True


def java_destination(session: Any, destination: Destination) -> Any:
    """Returns the Java queue or topic of a name at the broker."""
    name = destination.own_name
    if _is_of_ibm(session) and ("?" in name or (destination.is_queue and "/" in name)):
        slash = "/" if destination.is_queue and "/" not in name else ""
        name = f"{destination.kind}://{slash}{name}"
    return session.createQueue(name) if destination.is_queue else session.createTopic(name)


def _is_of_ibm(java: Any) -> bool:
    return str(java.getClass().getName()).startswith(_IBM)
