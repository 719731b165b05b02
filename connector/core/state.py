"""The states of a message in a channel, and the only ways from one to the next (seed 001, section 5).

A channel is a pair: *which message is in which state* and *where its body lies*. In ``dropbox`` the
state is the folder that the file is in, so a transition is a rename; the table here is what every
local provider has to follow.

===============  ======================  ==================================================
state            dropbox folder          leaves it by
===============  ======================  ==================================================
NOT_COMMITTED    ``working/``            commit, rollback, expiry (rolls back)
NEW              ``target/``             claim, expiry
DELIVERED        ``processing/``         acknowledge, give back (claimable again), in doubt
===============  ======================  ==================================================
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class ChannelState(Enum):
    """Where a message stands in its channel."""

    NOT_COMMITTED = "not committed"
    NEW = "new"
    DELIVERED = "delivered"
    REMOVED = "removed"


class Transition(Enum):
    """What moves a message from one state to the next."""

    PREPARE = "prepare"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    SEND = "send"
    CLAIM = "claim"
    ACKNOWLEDGE = "acknowledge"
    GIVE_BACK = "give back"
    EXPIRE = "expire"


TRANSITIONS: Final = {
    (None, Transition.PREPARE): ChannelState.NOT_COMMITTED,
    (None, Transition.SEND): ChannelState.NEW,
    (ChannelState.NOT_COMMITTED, Transition.COMMIT): ChannelState.NEW,
    (ChannelState.NOT_COMMITTED, Transition.ROLLBACK): ChannelState.REMOVED,
    (ChannelState.NOT_COMMITTED, Transition.EXPIRE): ChannelState.REMOVED,
    (ChannelState.NEW, Transition.CLAIM): ChannelState.DELIVERED,
    (ChannelState.NEW, Transition.EXPIRE): ChannelState.REMOVED,
    (ChannelState.DELIVERED, Transition.ACKNOWLEDGE): ChannelState.REMOVED,
    (ChannelState.DELIVERED, Transition.GIVE_BACK): ChannelState.NEW,
}
"""(from, transition) -> to; what is not in it does not happen. ``None`` = not in the channel."""


def order_key(priority: int, timestamp: int, identity: str) -> tuple[int, int, str]:
    """Sorts messages as they are taken: highest priority, then oldest, then by name (seed 001, 10)."""
    return (-priority, timestamp, identity)
