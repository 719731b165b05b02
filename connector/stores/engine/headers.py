"""Headers and properties of new messages, of copies, and of messages that are given back."""

from __future__ import annotations

import itertools
import time
from typing import Final

from connector.errors import DestinationError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message, is_of_provider, natural_type
from connector.messaging.settlement import HISTORY, GroupSettlement, Settlement
from connector.stores.engine.changes import Edit

ORIGIN: Final = "connector_origin_destination"
_ATTEMPTS: Final = "connector_attempts"
_MAX_INT: Final = (1 << 31) - 1


class MessageIds:
    """Gives the messages of one client ids in the order of creation: ``ID:TIME-CLIENT-SUFFIX``.

    Args:
        client_id: of letters and digits.
    """

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._micros = 0
        self._numbers = itertools.count(1)

    @property
    def pattern(self) -> str:
        """A LIKE pattern of the ids of this client."""
        return f"%-{self._client_id}-%"  # letters and digits need no escape

    def new(self, message: Message, suffix: str = "") -> Message:
        """Returns the message to store. The id and the time are also set in ``message``.

        Args:
            message: of the sender. Returned itself, if no other header has to change.
            suffix: end of the id, if a second attempt must get the same end.

        Raises:
            ValueError: the message is not valid.
        """
        message.check()
        now = time.time_ns() // 1000
        self._micros = micros = now if now > self._micros else self._micros + 1
        message.message_id = f"ID:{micros:016d}-{self._client_id}-{suffix or next(self._numbers)}"
        message.timestamp = micros // 1000
        ours = [name for name in message.properties if is_of_provider(name)]
        if message.delivery_count == 1 and message.destination is None and not ours:
            return message
        stored = message.copy(message.body)
        stored.delivery_count = 1
        stored.destination = None  # the channel has the destination
        for name in ours:
            stored.remove_property(name)
        return stored


def apply_edit(message: Message, edit: Edit) -> Message:
    """Returns the headers after an edit, without a body. The same object if no header changes."""
    if not edit.properties and not edit.dropped and edit.deliveries in (None, message.delivery_count - 1):
        return message
    changed = message.copy()
    for name in edit.dropped:
        changed.remove_property(name)
    for name, value in edit.properties.items():
        changed.set_property(name, value, natural_type(value))
    if edit.deliveries is not None:
        changed.delivery_count = edit.deliveries + 1
    return changed


def edit_to_put_aside(message: Message) -> Edit:
    """Returns the edit of a message that is put aside.

    The deliveries become ``connector_attempts``, and their count restarts. Otherwise a message that is moved
    back would be put aside again at once.
    """
    earlier = message.properties.get(_ATTEMPTS)
    attempts = message.delivery_count - 1 + (earlier if isinstance(earlier, int) and earlier > 0 else 0)
    return Edit({_ATTEMPTS: min(attempts, _MAX_INT)}, (), 0)


def edit_of_copy(settlement: Settlement | GroupSettlement) -> Edit:
    """Returns the edit of the copies of a settlement. A copy has the history of that settlement only."""
    begun = settlement.delivery_count if isinstance(settlement, Settlement) else 0
    return Edit(settlement.properties, HISTORY, max(0, begun))


def edit_of_return(settlement: Settlement) -> Edit:
    """Returns the edit of a message that a settlement gives back."""
    return Edit(settlement.properties, (), max(0, settlement.delivery_count))


def edit_in_progress(edit: Edit, origin: Destination, *, owned: bool) -> Edit:
    """Returns the edit of a message that stays in an in-progress destination.

    Args:
        origin: of the message. Without an owner the message names it, because anybody may take the message.
        owned: whether the message has an owner then.
    """
    if owned:
        return edit._replace(dropped=(*edit.dropped, ORIGIN))
    return edit._replace(properties={**edit.properties, ORIGIN: str(origin)})


def origin_queue(message: Message) -> Destination | None:
    """Returns the queue that a message was taken from, by its properties. None = not named."""
    value = message.properties.get(ORIGIN)
    try:
        found = parse_destination(value) if isinstance(value, str) else None
    except DestinationError:
        return None
    return found if found is not None and found.is_queue and not found.view else None
