"""Order: decides which events are published one after the other."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from operator import attrgetter

from connector.messaging.claim import Claim

DESTINATION = "destination"
GROUP = "group"
NONE = "none"


def order_group_key(order: str, claim: Claim) -> Hashable:
    """Returns the key of the order group of an event, or None for events without an order.

    Events with equal keys are published one after the other.

    Args:
        order: ``destination``, ``group`` (JMSXGroupID within a destination) or ``none``.
    """
    if order == DESTINATION:
        return claim.destination
    if order == GROUP:
        group = claim.group_id
        return None if group is None else (claim.destination, group)
    return None


def order_key_of(order: str) -> Callable[[Claim], Hashable]:
    """Returns :func:`order_group_key` for one order."""
    return attrgetter("destination") if order == DESTINATION else partial(order_group_key, order)


def group_key_of(order: str) -> Callable[[Claim], Hashable]:
    """Returns a function from a claim to the key of its order group.

    Every claim has such a key. That of a group without order begins with None.
    """
    if order == DESTINATION:
        return attrgetter("destination")

    def key(claim: Claim) -> Hashable:
        group = claim.group_id if order == GROUP else None
        return (None, claim.input) if group is None else (claim.destination, group)

    return key
