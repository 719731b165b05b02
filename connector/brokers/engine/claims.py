"""Claims of messages that a broker has lent."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from connector.brokers.engine.broker import Received
from connector.brokers.engine.vendor_properties import NOT_COPIED
from connector.messaging.claim import BrokerClaim
from connector.messaging.destination import Destination
from connector.messaging.history import file_name
from connector.messaging.message import Message, PropertyValue, is_of_provider
from connector.messaging.settlement import HISTORY
from connector.messaging.subscription import TopicSubscription

ORIGINAL_ID: Final = "connector_message_id"
ORIGINAL_TIME: Final = "connector_timestamp"
ORIGINAL_EXPIRATION: Final = "connector_expiration"
BEGUN: Final = "connector_begun"
"""Properties of a copy with headers of its message, because a broker gives each copy new ones."""
DIGEST: Final = "connector_digest"
HELD_FOR: Final = "connector_held_for"
ORIGIN: Final = "connector_origin_destination"
"""Properties of a held message: what names the message, its input, and the destination of that input."""
OWNER: Final = "connector_owner"
STATE: Final = "connector_state"
PLACE: Final = "connector_claim"
TOKEN: Final = "connector_token"
WAITS: Final = "connector_waits"
LEFT: Final = "connector_left"
BEFORE: Final = "connector_token_before"
PROGRESS_MARKS: Final = (OWNER, STATE, PLACE, ORIGIN, TOKEN, WAITS, LEFT, BEFORE)
"""Properties of a message in progress: owner, its state, cycle and sequence, input, a name that changes with
each owner, whether it waits, whether a delivery that nobody ended was counted, and the name it had before."""
DUE: Final = "connector_due"
"""Property of a message whose event comes again later: its time, in milliseconds since 1970."""


def original(message: Message) -> int:
    """Gives a copy the id, time and expiration of its message, and removes the properties with them.

    Returns the number of begun deliveries that the message carries.
    """
    properties = message.properties
    if ORIGINAL_ID not in properties:
        return 0
    message.message_id = str(properties[ORIGINAL_ID])
    for name, header in ((ORIGINAL_TIME, "timestamp"), (ORIGINAL_EXPIRATION, "expiration")):
        value = properties.get(name)
        if type(value) is int:  # any client may have set the property
            setattr(message, header, value)
    begun = remove(message, (ORIGINAL_ID, ORIGINAL_TIME, ORIGINAL_EXPIRATION, BEGUN)).get(BEGUN)
    if type(begun) is not int or begun < 0:
        return 0
    message.delivery_count = begun + 1
    return begun


def keep_original(copy: Message, message: Message) -> None:
    """Notes id, time and expiration of a message in properties of its copy, for :func:`original`."""
    copy.set_property(ORIGINAL_ID, message.message_id or "")
    copy.set_property(ORIGINAL_TIME, message.timestamp, "long")
    copy.set_property(ORIGINAL_EXPIRATION, message.expiration, "long")


@dataclass(frozen=True, slots=True)
class LentReference:
    """A claimed message by value, for a task.

    Args:
        name: of the claim, unique for the client.
        message: with the body.
        size: bytes of the body. More than in ``message`` if the body was too large to be read.
        unreadable: why the message cannot be read, as a sentence. Empty = it can.
        subscription: name of the subscription that the message was taken from. Empty for a queue.
        identity: text that is equal for two deliveries of one message.
    """

    name: str
    message: Message
    size: int
    unreadable: str = ""
    subscription: str = ""
    identity: str = ""

    def __str__(self) -> str:
        return self.name


class LentClaim(BrokerClaim):
    """A claim in a transaction. Names its message, which may be received again.

    Args:
        number: cycle and sequence.
        subscription: name of the subscription of the source. Empty for a queue.
        is_held: whether the message comes from a queue of the adapter, which keeps it for the source.
    """

    __slots__ = (
        "broker_count",
        "carried",
        "cycle",
        "delivery_count",
        "destination",
        "identity",
        "reference",
        "sequence",
    )
    delivery_count: int
    identity: str
    reference: LentReference

    in_progress = waits = False

    def __init__(
        self,
        client_id: str,
        number: tuple[int, int],
        source: Destination,
        received: Received,
        subscription: str = "",
        *,
        is_held: bool = False,
    ) -> None:
        self.cycle, self.sequence = number
        self.destination = source
        self.input = None
        message = received.message
        self.broker_count = message.delivery_count
        """Deliveries that the broker has counted, with this one."""
        begun = original(message)
        digest = remove(message, (DIGEST, HELD_FOR, ORIGIN, DUE)).get(DIGEST) if is_held else None
        self.identity = identity_of(message, digest)
        """Text that is equal for two deliveries of one message."""
        self.delivery_count = self.carried = begun
        """The second is the number of begun deliveries that the message itself carries."""
        name = f"{client_id}-{number[0]}-{number[1]}"
        self.reference = LentReference(
            name, message, received.size, received.unreadable, subscription, self.identity
        )

    @property
    def message_id(self) -> str:
        return self.reference.message.message_id or ""

    @property
    def group_id(self) -> str | None:
        return self.reference.message.group_id

    @property
    def expiration(self) -> int:
        return self.reference.message.expiration

    @property
    def file_name(self) -> str:
        return file_name(self.reference.message)

    @property
    def duplicate_key(self) -> str:
        return duplicate_key(self.destination, self.message_id or self.reference.name)

    @property
    def subscription(self) -> str:
        return self.reference.subscription

    def amend(self, begun: int, properties: Mapping[str, PropertyValue]) -> None:
        self.delivery_count = self.carried + begun
        for name, value in properties.items():
            self.reference.message.set_property(name, value)

    def headers(self) -> Message:
        return self.reference.message.copy()

    def refuse(self, reason: str) -> None:
        """Lets the event fail for a reason."""
        self.reference = replace(self.reference, unreadable=reason)


def duplicate_key(destination: Destination, message_id: str) -> str:
    return f"{destination} {message_id}"


def input_name(source: Destination | TopicSubscription) -> str:
    """Returns the name of an input in the queue of held messages."""
    return str(source) if isinstance(source, Destination) else f"{source.topic} {source.name}"


def remove(message: Message, names: Iterable[str]) -> dict[str, PropertyValue]:
    """Removes properties of a message, and returns those that the message had."""
    found = {name: message.remove_property(name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def identity_of(message: Message, digest: object = None) -> str:
    """Returns the JMSMessageID, the JMSTimestamp, and a digest of properties and body.

    Two messages of a sender without ids differ in one of these, or mean the same.

    Args:
        digest: of the message as its sender made it, if a copy carries that. Not a text = none.
    """
    known = digest if isinstance(digest, str) else digest_of(message)
    return f"{message.message_id or ''} {message.timestamp} {known}"


def digest_of(message: Message) -> str:
    """Returns a digest of the properties and the body that a sender has set."""
    digest = hashlib.blake2b(digest_size=12)
    for name in sorted(message.properties):
        if is_of_provider(name):  # set by the broker at a delivery
            continue
        if name in HISTORY or NOT_COPIED.fullmatch(name):  # changes with each stay in a queue
            continue
        digest.update(f"{name}\0{message.properties[name]!r}\0".encode("utf-8", "surrogatepass"))
    digest.update(message.body)
    return digest.hexdigest()
