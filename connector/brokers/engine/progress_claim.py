"""A message in an in-progress destination at a broker, as a claim.

The properties of the message name its owner.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from connector.brokers.engine.broker import BrokerConnection, Received
from connector.brokers.engine.claims import (
    BEGUN,
    LEFT,
    ORIGIN,
    OWNER,
    PLACE,
    PROGRESS_MARKS,
    TOKEN,
    WAITS,
    LentClaim,
)
from connector.brokers.engine.commits import quote
from connector.brokers.engine.copies import moved_copy
from connector.errors import DestinationError, UnknownDestination
from connector.messaging.destination import Destination, known_destination
from connector.messaging.message import Message, PropertyValue

_NUMBER: Final = re.compile(r"([0-9]{1,18})/([0-9]{1,18})")


class ProgressClaim(LentClaim):
    """A message in an in-progress destination.

    Args:
        number: cycle and sequence.
        queue: the in-progress destination.
        received: as stored there.
    """

    __slots__ = ("left", "name", "named_by", "owner", "queue", "selector", "waits")

    in_progress = True

    def __init__(
        self, client_id: str, number: tuple[int, int], queue: Destination, received: Received
    ) -> None:
        message = received.message
        self.named_by, self.name = name_of(message)
        self.selector = f"{self.named_by} = {quote(self.name)}"
        self.owner = str(message.properties.get(OWNER, ""))
        self.waits = message.properties.get(WAITS) is True
        self.left = message.properties.get(LEFT) is True
        self.queue = queue
        origin = _origin(message) or queue
        for name in PROGRESS_MARKS:
            message.remove_property(name)
        super().__init__(client_id, number, origin, received)


def name_of(message: Message) -> tuple[str, str]:
    """Returns the name and the value of the property by which a message in progress is found."""
    token = message.properties.get(TOKEN)
    if isinstance(token, str) and token:  # any client may have sent the message
        return TOKEN, token
    return "JMSMessageID", message.message_id or ""


def marked_copy(
    claim: ProgressClaim, begun: int, marks: Mapping[str, PropertyValue], *, expires: bool
) -> Message:
    """Returns the message of a claim with other marks."""
    return moved_copy(claim.reference.message, {BEGUN: max(0, begun), **marks}, expires=expires)


def _origin(message: Message) -> Destination | None:
    """Returns the input of a message in progress. None if the message does not name a whole queue."""
    try:
        origin = known_destination(str(message.properties.get(ORIGIN)))
    except DestinationError:
        return None
    named = ORIGIN in message.properties and origin.is_queue and not origin.view
    return origin if named else None


def browse_progress(
    connection: BrokerConnection, queue: Destination, selector: str
) -> Iterator[tuple[str, tuple[int, int], Received]]:
    """Yields owner, number and message of messages in an in-progress destination."""
    try:
        found = list(connection.browse(queue, selector))
    except UnknownDestination:
        return
    for message in found:
        owner = str(message.properties.get(OWNER, ""))
        place = _NUMBER.fullmatch(str(message.properties.get(PLACE)))
        number = (int(place[1]), int(place[2])) if place else (0, 0)
        yield owner, number, Received(message, len(message.body))


def one_of(values: Iterable[str]) -> str:
    """Returns texts as the list of a selector."""
    return ", ".join(map(quote, values))
