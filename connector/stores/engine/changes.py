"""Changes: the steps of a settlement for a store (see :meth:`connector.stores.engine.store.Store.apply`).

The engine works with the states of the JBoss Messaging Core Specification (section 5), which
:class:`connector.channels.state.MessageState` lists. Each change, and each call of a store that moves
a message, is a transition:

===========  ======================  ===========================================================
transition   from, to                change or call
===========  ======================  ===========================================================
PREPARE      nothing, NOT_COMMITTED  ``TaskStore.keep``
COMMIT       NOT_COMMITTED, NEW      :class:`Sent`
ROLLBACK     NOT_COMMITTED, removed  :class:`Discarded`, ``TaskStore.remove``, ``Store.discard_prepared``
SEND         nothing, NEW            ``Store.put``
CLAIM        NEW, DELIVERED          ``Reader.claim`` with the verdict TAKE, ``Store.set_owner``
ACKNOWLEDGE  DELIVERED, removed      :class:`Removed`, :class:`Moved`, :class:`GroupMoved`
GIVE BACK    DELIVERED, NEW          :class:`GivenBack`, ``Store.set_owner`` without an owner
EXPIRE       NEW, removed            ``Reader.claim`` with the verdict EXPIRED
===========  ======================  ===========================================================

A copy of :class:`Moved` or :class:`GroupMoved` is sent (SEND) in the same step. A NOT_COMMITTED message
expires as its transaction is rolled back. A DELIVERED message is given back, and expires then. The verdict
EXHAUSTED acknowledges a message and sends the message to :attr:`.channel.Part.ERROR`, in one step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from connector.messaging.message import PropertyValue
from connector.stores.engine.channel import Channel
from connector.stores.engine.claims import LocalClaim


class Edit(NamedTuple):
    """Changes of the headers and properties of a message.

    Args:
        properties: set after ``dropped``. Each gets the type natural to its value.
        dropped: names of removed properties.
        deliveries: begun so far. None = unchanged.
    """

    properties: Mapping[str, PropertyValue] = MappingProxyType({})
    dropped: Sequence[str] = ()
    deliveries: int | None = None


UNCHANGED: Final = Edit()


@dataclass(slots=True)
class Moved:
    """Ends a claim. The message then waits in other channels, one copy each. The copies share the body.

    Args:
        channels: the targets. Empty = no copy. A channel that is gone gets no copy.
        published: a key that the duplicate window then remembers. None = none.
    """

    claim: LocalClaim
    channels: Sequence[Channel]
    edit: Edit = UNCHANGED
    published: str | None = None


@dataclass(slots=True)
class GroupMoved:
    """Ends claims. The messages then wait in another queue, all edited alike. As :class:`Moved` of each.

    Args:
        published: a key for each claim, or none at all.
    """

    claims: Sequence[LocalClaim]
    channel: Channel
    edit: Edit
    published: Sequence[str] = ()


@dataclass(slots=True)
class Removed:
    """Ends a claim without a copy. The store may keep the message where no client takes it.

    Args:
        published: as for :class:`Moved`.
    """

    claim: LocalClaim
    published: str | None = None


@dataclass(slots=True)
class GivenBack:
    """Ends a claim. The message waits again in the channel that it was claimed from.

    If that channel is gone, the message is removed.

    Args:
        stays: leave the message in its in-progress destination to wait, without an owner
            (:attr:`LocalClaim.waits`).
        due: milliseconds since 1970. The message waits in :attr:`.channel.Part.DELAYED` until then. 0 = no
            client has to wait.
    """

    claim: LocalClaim
    edit: Edit = UNCHANGED
    stays: bool = False
    due: int = 0


@dataclass(slots=True)
class Sent:
    """Sends a prepared message to channels, one copy each.

    Args:
        handle: from :meth:`connector.stores.engine.task_store.TaskStore.keep`, of this or a dead client.
        channels: the targets. Empty = the message is removed. A channel that is gone gets no copy.
    """

    handle: Any
    channels: Sequence[Channel]


@dataclass(slots=True)
class Discarded:
    """Removes a prepared message. A message that is gone is skipped."""

    handle: Any


Change = Moved | GroupMoved | Removed | GivenBack | Sent | Discarded
"""A change for every claim and prepared message. Never modified, but not frozen, because that is cheaper."""
