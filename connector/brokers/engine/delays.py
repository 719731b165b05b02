"""The delivery delay of a broker (JMS 2.0, 7.9). Only a delayed message shows whether the broker keeps it."""

from __future__ import annotations

import contextlib
import time
from typing import Final

from connector.brokers.engine.broker import BrokerConnection
from connector.brokers.engine.silence import ANSWER, BrokerSilent
from connector.errors import CapabilityError, ConnectorError
from connector.messaging.destination import Destination
from connector.messaging.message import Message

_ASKED_MS: Final = 500
_SECONDS: Final = ANSWER + 15.0
"""Until a message has to come. A broker may look at its delayed messages every 30 seconds only."""


def measure_delay(connection: BrokerConnection) -> str:
    """Sends a delayed message to a temporary queue, and another message behind it. Returns what was seen.

    The order decides, not the time: on a slow machine every message comes late. If the delay was over before
    a message was seen, the order shows nothing, and a longer delay is tried.

    Raises:
        CapabilityError: the delayed message came first, or not at all.
        BrokerSilent: no message came.
        ConnectorError: the broker or its client library refuses an operation.
    """
    queue = connection.temporary("queue")
    try:
        asked = _ASKED_MS
        while (seen := _measure(connection, queue, asked)) is None:
            asked *= 10
        return seen
    finally:
        with contextlib.suppress(ConnectorError):
            connection.delete_temporary(queue)


def _measure(connection: BrokerConnection, queue: Destination, asked: int) -> str | None:
    """See :func:`measure_delay`. Returns None if the order shows nothing."""
    session = connection.session()
    try:
        began = _now()
        session.send(queue, Message(b"", "M", type="delayed", delivery_time=began + asked))
        session.send(queue, Message(b"", "M", type="plain"))
        session.commit()
        receiver = session.receiver(queue, "", 1)
        for kind in ("plain", "delayed"):
            found = receiver.receive(_SECONDS)
            milliseconds = _now() - began
            seen = f"{asked} ms asked, {milliseconds} ms seen"
            if not found:
                if kind == "plain":
                    raise BrokerSilent("nobody knows whether the broker delays a message")
                raise CapabilityError(f"the delayed message does not come: {seen}")
            if found[0].message.type != kind:
                if milliseconds >= asked and receiver.receive(_SECONDS):
                    session.commit()
                    return None
                raise CapabilityError(f"the broker delivers at once: {seen}")
        session.commit()
    finally:
        session.close()
    return f"kept: {seen}"


def check_delays(connection: BrokerConnection) -> None:
    """Measures once for each connection whether the broker keeps a delivery delay.

    Raises:
        CapabilityError: the broker does not keep it, or the delay cannot be measured.
        BrokerSilent: the broker does not answer.
        ProviderError: the connection has failed.
    """
    if connection.keeps_delays:
        return
    try:
        measure_delay(connection)
    except BrokerSilent:
        raise
    except ConnectorError as error:
        if connection.failure is not None:
            raise
        raise CapabilityError(
            f"this broker is not known to delay a message ({error}): send it without a delivery delay, and "
            "see connector check --connect"
        ) from None
    connection.keeps_delays = True


def _now() -> int:
    return time.time_ns() // 1_000_000
