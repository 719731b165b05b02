"""Headers and properties on their way: what a new message gets, and what a copy keeps."""

from __future__ import annotations

import itertools
import time
from typing import Final

from connector.core.local.changes import Edit
from connector.errors import DestinationError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message, natural_type
from connector.messaging.settlement import HISTORY, GroupSettlement, Settlement

ORIGIN: Final = "connector_origin_destination"
_ATTEMPTS: Final = "connector_attempts"
_COUNT: Final = "JMSXDeliveryCount"
_MAX_INT: Final = (1 << 31) - 1


class Stamp:
    """Gives the messages of one client their ids: ``ID:TIME-CLIENT-SUFFIX``. They sort as they were made.

    Args:
        client_id: of letters and digits.
    """

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._micros = 0
        self._numbers = itertools.count(1)

    @property
    def pattern(self) -> str:
        """See :meth:`connector.messaging.provider.Connection.sent_ids`."""
        return f"%-{self._client_id}-%"  # of letters and digits: there is nothing to escape

    def new(self, message: Message, suffix: str = "") -> Message:
        """The message as it is stored. Its id and its time are set in the one that was given, too.

        Args:
            message: of the sender. It is also what is returned, where nothing else of it has to change.
            suffix: end of the id, where that must be the same for a second attempt.

        Raises:
            ValueError: it is not valid.
        """
        message.check()
        now = time.time_ns() // 1000
        self._micros = micros = now if now > self._micros else self._micros + 1
        message.message_id = f"ID:{micros:016d}-{self._client_id}-{suffix or next(self._numbers)}"
        message.timestamp = micros // 1000
        if message.delivery_count == 1 and message.destination is None and _COUNT not in message.properties:
            return message
        stored = message.copy(message.body)
        stored.delivery_count = 1
        stored.destination = None  # the channel knows
        stored.properties.pop(_COUNT, None)
        stored.property_types.pop(_COUNT, None)
        return stored


def edited(message: Message, edit: Edit) -> Message:
    """The headers after an edit; the same object where nothing changes. No body."""
    if not edit.properties and not edit.dropped and edit.deliveries in (None, message.delivery_count - 1):
        return message
    changed = message.copy()
    for name in edit.dropped:
        changed.properties.pop(name, None)
        changed.property_types.pop(name, None)
    for name, value in edit.properties.items():
        changed.set_property(name, value, natural_type(value))
    if edit.deliveries is not None:
        changed.delivery_count = edit.deliveries + 1
    return changed


def counted_anew(message: Message) -> Edit:
    """For a message that is put aside: its deliveries become ``connector_attempts``, and begin anew.

    Else a message that somebody moves back would be put aside again at once.
    """
    earlier = message.properties.get(_ATTEMPTS)
    attempts = message.delivery_count - 1 + (earlier if isinstance(earlier, int) and earlier > 0 else 0)
    return Edit({_ATTEMPTS: min(attempts, _MAX_INT)}, (), 0)


def copied(settlement: Settlement | GroupSettlement) -> Edit:
    """For the copies that a settlement makes: they have the history of that alone."""
    return Edit(settlement.properties, HISTORY, 0)


def returned(settlement: Settlement) -> Edit:
    """For the message that a settlement gives back."""
    return Edit(settlement.properties, (), max(0, settlement.delivery_count))


def origin_queue(message: Message) -> Destination | None:
    """The queue that a message says it was taken from; None where it names none."""
    value = message.properties.get(ORIGIN)
    try:
        found = parse_destination(value) if isinstance(value, str) else None
    except DestinationError:
        return None
    return found if found is not None and found.is_queue and not found.view else None
