"""The states of a message in a channel, and the only ways from one to the next (JBoss Messaging Core, 5)."""

from __future__ import annotations

from enum import Enum
from typing import Final

from connector.channels.state import MessageState


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
    (None, Transition.PREPARE): MessageState.NOT_COMMITTED,
    (None, Transition.SEND): MessageState.NEW,
    (MessageState.NOT_COMMITTED, Transition.COMMIT): MessageState.NEW,
    (MessageState.NOT_COMMITTED, Transition.ROLLBACK): MessageState.REMOVED,
    (MessageState.NOT_COMMITTED, Transition.EXPIRE): MessageState.REMOVED,
    (MessageState.NEW, Transition.CLAIM): MessageState.DELIVERED,
    (MessageState.NEW, Transition.EXPIRE): MessageState.REMOVED,
    (MessageState.DELIVERED, Transition.ACKNOWLEDGE): MessageState.REMOVED,
    (MessageState.DELIVERED, Transition.GIVE_BACK): MessageState.NEW,
    (MessageState.DELIVERED, Transition.EXPIRE): MessageState.REMOVED,
}
"""(from, transition) -> to; what is not in it does not happen. ``None`` = not in the channel."""
