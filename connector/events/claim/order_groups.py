"""Order: decides which events are published one after the other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from operator import attrgetter
from typing import NamedTuple

from connector.messaging.claim import Claim
from connector.messaging.destination import Destination

DESTINATION = "destination"
GROUP = "group"
NONE = "none"


class Orders(NamedTuple):
    """The order of the events of each destination: ``destination``, ``group`` or ``none``.

    All inputs of a destination have one order.

    Args:
        default: of the connector.
        own: of destinations whose inputs say another one.
    """

    default: str
    own: Mapping[Destination, str] = {}

    def of(self, destination: Destination) -> str:
        """Returns the order of a destination."""
        return self.own.get(destination, self.default)

    @property
    def has_any(self) -> bool:
        """Whether the events of any destination have an order."""
        return self.default != NONE or any(order != NONE for order in self.own.values())

    def key(self, claim: Claim) -> Hashable:
        """Returns the key of the order group of an event, or None for events without an order.

        Events with equal keys are published one after the other.
        """
        order = self.own.get(claim.destination, self.default)
        if order == DESTINATION:
            return claim.destination
        group = claim.group_id if order == GROUP else None
        return None if group is None else (claim.destination, group)

    def group_key(self, claim: Claim) -> Hashable:
        """Returns the key of the order group of an event. That of a group without order begins with None."""
        order = self.own.get(claim.destination, self.default)
        if order == DESTINATION:
            return claim.destination
        group = claim.group_id if order == GROUP else None
        return (None, claim.input) if group is None else (claim.destination, group)

    def key_of(self) -> Callable[[Claim], Hashable]:
        """Returns :meth:`key`, as quick as can be."""
        return attrgetter("destination") if self == Orders(DESTINATION) else self.key

    def group_key_of(self) -> Callable[[Claim], Hashable]:
        """Returns :meth:`group_key`, as quick as can be."""
        return attrgetter("destination") if self == Orders(DESTINATION) else self.group_key
