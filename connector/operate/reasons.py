"""Reasons of outcomes: each has a kind, a place, and a text. Alike reasons are a group."""

from __future__ import annotations

import hashlib
import re
from enum import StrEnum
from typing import Final

_MOST: Final = 500
"""Characters of a masked text."""
_QUOTED: Final = re.compile(r"""(?<!\w)'[^'\n]*'|"[^"\n]*"|`[^`\n]*`""")
_WORD: Final = re.compile(r"[\w.:/%-]+")
_DIGIT: Final = re.compile(r"\d")


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
    UNSUBSCRIBED = "unsubscribed"
    """No subscription wants the object."""
    EXPIRED = "expired"
    """The message was past its expiration."""


def mask(text: str) -> str:
    """Returns a reason without what differs between alike messages: quoted values, numbers and ids.

    The time is linear, because a sender may decide about the text.
    """
    masked = _QUOTED.sub("'...'", text[: 4 * _MOST])
    return _WORD.sub(lambda word: "#" if _DIGIT.search(word[0]) else word[0], masked)[:_MOST]


def group_id(kind: str, place: str, subscription: str, text: str) -> str:
    """Returns the id of the group of a reason: ten hexadecimal digits.

    Args:
        kind: a :class:`ReasonKind`. Empty = a copy of an earlier version.
        place: ``FILE:LINE`` of user code. Empty = none.
        subscription: that has failed. Empty = none.
        text: as :func:`mask` returns it.
    """
    whole = "\0".join((kind, place, subscription, text))
    return hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()
