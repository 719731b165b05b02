"""Changes: what a settlement asks a store to do (see :meth:`connector.core.local.store.Store.apply`).

The engine works with the states of the JBoss Messaging Core Specification (section 5; see
:class:`connector.core.state.MessageState`). Each change, and each call of a store that moves a message, is
one of its transitions:

===========  ======================  ===========================================================
transition   from, to                change or call
===========  ======================  ===========================================================
PREPARE      nothing, NOT_COMMITTED  ``TaskStore.prepare``
COMMIT       NOT_COMMITTED, NEW      :class:`Sent`
ROLLBACK     NOT_COMMITTED, removed  :class:`Discarded`, ``TaskStore.discard``, ``Store.forget``
SEND         nothing, NEW            ``Store.put``
CLAIM        NEW, DELIVERED          ``Reader.claim`` with the verdict TAKE, ``Store.own``
ACKNOWLEDGE  DELIVERED, removed      :class:`Removed`, :class:`Moved`, :class:`GroupMoved`
GIVE BACK    DELIVERED, NEW          :class:`GivenBack`, ``Store.own`` without an owner
EXPIRE       NEW, removed            ``Reader.claim`` with the verdict EXPIRED
===========  ======================  ===========================================================

A copy of :class:`Moved` or :class:`GroupMoved` is sent (SEND) in the same step. A NOT_COMMITTED message
expires as its transaction is rolled back. A DELIVERED message is given back, and expires then. The verdict
EXHAUSTED acknowledges a message and sends it to the part of those delivered too often, in one step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from connector.core.local.channel import Channel
from connector.core.local.claims import LocalClaim
from connector.messaging.message import PropertyValue


class Edit(NamedTuple):
    """What changes of headers and properties on the way of a message.

    Args:
        properties: set after ``dropped``; each gets the type natural to its value.
        dropped: names of properties that go.
        deliveries: begun so far; None leaves the number as it is.
    """

    properties: Mapping[str, PropertyValue] = MappingProxyType({})
    dropped: Sequence[str] = ()
    deliveries: int | None = None


UNCHANGED: Final = Edit()


@dataclass(slots=True)
class Moved:
    """A claim ends; its message waits in other channels, one copy each. They share the body.

    Args:
        claim: the claim.
        channels: none = nobody gets it. One that is gone gets nothing.
        edit: of each copy.
        published: a key that the duplicate window remembers from then on; None = none.
    """

    claim: LocalClaim
    channels: Sequence[Channel]
    edit: Edit = UNCHANGED
    published: str | None = None


@dataclass(slots=True)
class GroupMoved:
    """Claims end; their messages wait in another queue, all edited alike. As :class:`Moved` of each.

    Args:
        claims: the claims.
        channel: the queue.
        edit: of each message.
        published: a key for each claim, or none at all.
    """

    claims: Sequence[LocalClaim]
    channel: Channel
    edit: Edit
    published: Sequence[str] = ()


@dataclass(slots=True)
class Removed:
    """A claim ends without a copy. The store may keep the message where nobody takes it.

    Args:
        claim: the claim.
        published: as for :class:`Moved`.
    """

    claim: LocalClaim
    published: str | None = None


@dataclass(slots=True)
class GivenBack:
    """A claim ends; its message waits again where it was taken from, and goes where that is gone.

    Args:
        claim: the claim.
        edit: of the message.
        stays: it waits in its in-progress destination instead, without an owner (:attr:`LocalClaim.waits`).
    """

    claim: LocalClaim
    edit: Edit = UNCHANGED
    stays: bool = False


@dataclass(slots=True)
class Sent:
    """A prepared message waits in channels, one copy each.

    Args:
        handle: from :meth:`connector.core.local.store.TaskStore.prepare`, of this client or of a dead one.
        channels: none = it goes. One that is gone gets nothing.
    """

    handle: Any
    channels: Sequence[Channel]


@dataclass(slots=True)
class Discarded:
    """A prepared message goes; one that is gone already is passed over.

    Args:
        handle: from :meth:`connector.core.local.store.TaskStore.prepare`.
    """

    handle: Any


Change = Moved | GroupMoved | Removed | GivenBack | Sent | Discarded
"""One for every claim and prepared message. Nobody changes one; that they are not frozen makes them cheap."""
