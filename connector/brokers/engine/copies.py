"""Copies of a received message: what a copy keeps, and what it leaves out."""

from __future__ import annotations

from collections.abc import Mapping

from connector.brokers.engine.access import sendable
from connector.brokers.engine.claims import BEGUN, PROGRESS_MARKS, keep_original
from connector.brokers.engine.vendor_properties import NOT_COPIED
from connector.errors import SettlementError
from connector.messaging.message import Message, PropertyValue
from connector.messaging.settlement import HISTORY, Settlement


def copy_of(settlement: Settlement) -> Message:
    """Returns the copy of a claimed message. The copy does not expire, and says what the broker changes.

    Raises:
        SettlementError: the copy is for one subscription of a topic, and would go to all.
    """
    if settlement.subscription:
        raise SettlementError(
            f"only an operator of an adapter sends to the subscription {settlement.subscription!r} of "
            f"{settlement.copy_to}: nothing was settled"
        )
    return edited_copy(settlement)


def edited_copy(settlement: Settlement) -> Message:
    """Returns the same as :func:`copy_of`, also for one subscription of a topic."""
    message: Message = settlement.claim.reference.message
    copy = plain_copy(message) if not settlement.bare else _bare_copy(message)
    for name in (*HISTORY, *PROGRESS_MARKS):
        copy.remove_property(name)
    if settlement.delivery_count > 0:
        copy.set_property(BEGUN, settlement.delivery_count)
    for name, value in settlement.properties.items():
        copy.set_property(name, value)
    copy.expiration = 0
    return copy


def moved_copy(message: Message, marks: Mapping[str, PropertyValue], *, expires: bool) -> Message:
    """Returns a copy of a message that lies elsewhere for a while.

    Args:
        message: as its sender made it.
        expires: whether the copy has the expiration of the message.
    """
    copy = plain_copy(message)
    for name, value in marks.items():
        copy.set_property(name, value)
    if not expires or copy.expiration < 0:
        copy.expiration = 0
    return copy


def plain_copy(message: Message) -> Message:
    """Returns a copy with the first id, time and expiration, and without what a broker gives a meaning."""
    copy = sendable(message)
    for name in [name for name in copy.properties if NOT_COPIED.fullmatch(name)]:
        copy.remove_property(name)
    keep_original(copy, message)
    return copy


def _bare_copy(message: Message) -> Message:
    """Returns a copy with nothing but the body, and the first id, time and expiration."""
    copy = Message(message.body, message.message_class, delivery_mode=message.delivery_mode)
    keep_original(copy, message)
    return copy
