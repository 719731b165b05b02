"""Reasons of outcomes: each has a kind, a place, and a text. Alike reasons are a group."""

from __future__ import annotations

import hashlib
from enum import StrEnum


class ReasonKind(StrEnum):
    """The kind of a reason, the property ``connector_kind`` of a copy."""

    MALFORMED = "malformed"
    """The message is no object of the definitions."""
    TOO_LARGE = "too_large"
    """The body is larger than ``max_body``."""
    HANDLER_FAILED = "handler_failed"
    """A data handler or another part of the conversion raised an exception that is a mistake of its code."""
    REFUSED = "refused"
    """A subscription raised an exception, or refused the object."""
    TEMPORARY = "temporary"
    """A delivery failed for a while."""
    TIMEOUT = "timeout"
    """A conversion or a delivery took too long."""
    WORKER_DIED = "worker_died"
    """The process of the conversion or the delivery ended."""
    SEND_FAILED = "send_failed"
    """The message of a subscription cannot be sent."""
    UNREADABLE = "unreadable"
    """The message cannot be read, or has gone."""
    LOOP = "loop"
    """The message was sent on more often than ``max_hops``."""
    UNSUBSCRIBED = "unsubscribed"
    """No subscription wants the object."""
    EXPIRED = "expired"
    """The message was past its expiration."""


def group_id(kind: str, place: str, subscription: str, text: str) -> str:
    """Returns the id of the group of a reason: ten hexadecimal digits.

    Args:
        kind: a :class:`ReasonKind`. Empty = a copy of an earlier version.
        place: ``FILE:LINE`` of user code. Empty = none.
        subscription: that has failed. Empty = none.
        text: as :func:`~connector.text.alike.mask` returns it.
    """
    whole = "\0".join((kind, place, subscription, text))
    return hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()
