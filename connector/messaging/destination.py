"""Destinations: the queue or topic a message is sent to or taken from."""

from __future__ import annotations

from dataclasses import dataclass

from connector.errors import DestinationError

RESERVED = frozenset({"topic-root", "dropboxmq", "global-read-lock"})
"""Names that the directory protocol keeps for itself (seed 000, "The Root")."""

_MAX_NAME_BYTES = 200


@dataclass(frozen=True, slots=True, order=True)
class Destination:
    """A queue or topic of a provider. Made by :func:`parse_destination`, which validates.

    Args:
        kind: ``queue`` or ``topic``.
        name: the bare name, ``orders``.
    """

    kind: str
    name: str

    def __hash__(self) -> int:  # asked for several times a message
        return hash(self.name)

    @property
    def is_queue(self) -> bool:
        return self.kind == "queue"

    def __str__(self) -> str:
        return f"{self.kind}://{self.name}"


def parse_destination(text: str) -> Destination:
    """Reads ``queue://orders``, ``topic://prices`` or ``orders`` (a bare name is a queue).

    Names are validated wherever they come from, message headers included, because a name becomes
    a directory (design, section 7).

    Raises:
        DestinationError: the text names no destination; says why.
    """
    kind, separator, name = text.partition("://")
    if not separator:
        kind, name = "queue", text
    if kind not in ("queue", "topic"):
        raise DestinationError(f"{text!r} is no destination: {kind!r} is neither 'queue' nor 'topic'")
    reason = _what_is_wrong(name)
    if reason:
        raise DestinationError(f"{text!r} is no destination: {reason}")
    return Destination(kind, name)


def _what_is_wrong(name: str) -> str | None:
    if not name:
        return "the name is empty"
    if name != name.strip():
        return "the name begins or ends with white space"
    if any(ord(c) < 32 or ord(c) == 127 for c in name):
        return "the name has a control character"
    for forbidden in ("/", "\\", ";", ".."):
        if forbidden in name:
            return f"a name has no {forbidden!r}"
    if name.startswith("."):
        return "a name does not begin with a dot"
    if "~" in name:
        return "'~' is kept for virtual destinations, which this version does not have"
    if name.casefold() in RESERVED:
        return f"{name!r} is reserved"
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return "the name is not valid Unicode"
    if size > _MAX_NAME_BYTES:
        return f"the name is longer than {_MAX_NAME_BYTES} bytes"
    return None
