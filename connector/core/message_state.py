"""The states of a message in a channel (JBoss Messaging Core, 5).

In ``dropbox`` the state is the folder of the file, so a transition is a rename.
:mod:`connector.stores.engine.changes` names the transitions of a local provider.

===============  ======================  ==============================================================
state            dropbox folder          leaves it by
===============  ======================  ==============================================================
NOT_COMMITTED    ``working/``            commit, rollback, expiry (rolls back)
NEW              ``target/``             claim, expiry
DELIVERED        ``processing/``         acknowledge, give back (claimable again), expiry, in doubt
===============  ======================  ==============================================================
"""

from __future__ import annotations

from enum import Enum

from connector.errors import CapabilityError
from connector.messaging.destination import Destination


class MessageState(Enum):
    """The state of a message in a channel (JBoss Messaging Core, 5)."""

    NOT_COMMITTED = "not committed"
    NEW = "new"
    DELIVERED = "delivered"
    REMOVED = "removed"


def order_key(priority: int, timestamp: int, identity: str) -> tuple[int, int, str]:
    """Returns a key that sorts messages by priority, then by age, then by name (JBoss Messaging Core, 10)."""
    return (-priority, timestamp, identity)


def check_in_progress(source: Destination, in_progress: Destination | None) -> None:
    """Checks that messages of one destination can be in progress in another.

    Raises:
        CapabilityError: the destinations are not two whole queues.
    """
    if in_progress is None:
        return
    if not in_progress.is_queue or in_progress.view or source.view or in_progress == source:
        raise CapabilityError(
            f"messages of {source} cannot be in progress in {in_progress}: name two different queues, and no "
            "view of a queue"
        )
