"""The header ``content-encoding`` of AMQP 1.0 (3.2.4), as Qpid JMS keeps it.

JMS has no name for this header, and Qpid JMS shows it nowhere in public. So a method of its package is called
by reflection. With another client, or another version without this method, the header is not read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from connector.messaging.message import CONTENT_ENCODING, Message

_FACADE: Final = "org.apache.qpid.jms.provider.amqp.message.AmqpJmsMessageFacade"


def encoding_reader(jpype: Any) -> Callable[[Any, Message], None] | None:
    """Returns what sets ``content_encoding`` from a Java message. None = Qpid JMS is not there."""
    try:
        method = jpype.JClass(_FACADE).class_.getDeclaredMethod("getProperties")
        method.setAccessible(True)
    except Exception:  # the class, or the method, is not there
        return None

    def read(found: Any, message: Message) -> None:
        fields = method.invoke(found.getFacade())
        encoding = None if fields is None else fields.getContentEncoding()
        if encoding is not None and CONTENT_ENCODING not in message.properties:
            message.set_property(CONTENT_ENCODING, str(encoding), "string")

    return read
