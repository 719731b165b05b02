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


class MessageState(Enum):
    """The state of a message in a channel (JBoss Messaging Core, 5)."""

    NOT_COMMITTED = "not committed"
    NEW = "new"
    DELIVERED = "delivered"
    REMOVED = "removed"
