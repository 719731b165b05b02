"""The view of a task on a broker: everything travels by value, so a task needs no connection."""

from __future__ import annotations

import logging
from typing import Any, Final

from connector.brokers.engine.broker import BrokerConnection, BrokerSession, EndedDestination
from connector.brokers.engine.claims import LentReference, identity_of
from connector.brokers.engine.delays import check_delays
from connector.errors import BodyTooLarge, DestinationError, MalformedData
from connector.messaging.access import MessageAccess
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.settlement import Prepared

_log: Final = logging.getLogger("connector.core")
DELIVERY_COUNT: Final = "JMSXDeliveryCount"
_TEXTS = ("correlation_id", "reply_to", "type")
_NUMBERS = ("delivery_mode", "priority", "expiration", "delivery_time")


class RemoteAccess(MessageAccess):
    """The access of a task by value. Its own recipe."""

    def open(self) -> RemoteAccess:
        return self

    def check(self) -> None:
        """Does nothing: every machine sees the messages that it gets."""

    def load(self, reference: LentReference, max_body: int) -> Message:
        if reference.size > max_body:
            raise BodyTooLarge(f"the body has {reference.size} bytes, more than max_body ({max_body} bytes)")
        if reference.size > len(reference.message.body):
            raise BodyTooLarge(f"the body has {reference.size} bytes, more than this client reads")
        if reference.unreadable:
            raise MalformedData(reference.unreadable)
        return reference.message.copy(reference.message.body)

    def identity(self, reference: LentReference, message: Message) -> str:
        return f"{reference.identity or identity_of(message)} {reference.subscription}"

    def prepare(self, destination: Destination, message: Message, key: str) -> Prepared:
        if destination.view:
            raise DestinationError(f"cannot send to {destination}: it shows a part of {destination.base}")
        message.check()
        return Prepared(pack(message), destination)

    def discard(self, prepared: Prepared) -> None:
        """Does nothing: a message by value is nowhere else."""

    def write(self) -> None:
        """Does nothing: a message by value is in the journal."""

    def sync(self) -> None:
        """Does nothing: a message by value is in the journal."""


def sendable(message: Message) -> Message:
    """Returns a new message as a sender makes it, without a count of deliveries (JMS 2.0, 3.5.9)."""
    made = message.copy(message.body)
    made.remove_property(DELIVERY_COUNT)
    made.delivery_count, made.destination = 1, None
    return made


def pack(message: Message) -> list[Any]:
    """Returns a message as values that JSON can carry."""
    headers = {name: getattr(message, name) for name in (*_TEXTS, *_NUMBERS)}
    properties = [
        [name, message.property_types[name], value]
        for name, value in message.properties.items()
        if name != DELIVERY_COUNT
    ]
    return [message.message_class, message.body.decode("latin-1"), headers, properties]


def unpack(packed: Any) -> Message:
    """Undoes :func:`pack`."""
    letter, body, headers, properties = packed
    message = Message(body.encode("latin-1"), letter, **headers)
    for name, kind, value in properties:
        message.set_property(name, value, kind)
    return message


def post_prepared(connection: BrokerConnection, session: BrokerSession, prepared: Prepared) -> None:
    """Posts a prepared message in a transaction. A message for a destination that has ended is dropped.

    Raises:
        CapabilityError: the message has a delivery delay, which the broker does not keep.
        ProviderError: the broker refuses the message. The transaction can only be rolled back.
    """
    message = unpack(prepared.handle)
    if message.delivery_time:
        check_delays(connection)
    try:
        session.post(prepared.destination, message)
    except EndedDestination:
        _log.info(
            "a message is discarded because its temporary destination does not exist any more",
            extra={"destination": str(prepared.destination)},
        )
