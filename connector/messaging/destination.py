"""Destinations: the queue or topic that a message is sent to or taken from."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from connector.errors import DestinationError

VIEWS = frozenset({"PROCESSING", "EXPIRED", "RECOVER-ERROR", "REJECT-ERROR"})
"""Virtual destinations: ``orders~EXPIRED`` shows the expired messages of ``orders``."""

RESERVED = frozenset({"topic-root", "dropboxmq", "global-read-lock"})
"""Names that the directory protocol reserves (DropboxMQ, "The Root")."""

_MAX_NAME_BYTES = 200


class Destination(NamedTuple):
    """A queue or topic of a provider. Made by :func:`parse_destination`, which validates.

    Args:
        kind: ``queue`` or ``topic``.
        name: the bare name, ``orders``.
    """

    kind: str
    name: str

    @property
    def is_queue(self) -> bool:
        return self.kind == "queue"

    @property
    def view(self) -> str:
        """The part of a queue that a virtual destination shows, of :data:`VIEWS`. Empty for others."""
        return self.name.rpartition("~")[2] if "~" in self.name else ""

    @property
    def base(self) -> Destination:
        """The queue of a virtual destination. Any other destination returns itself."""
        return Destination(self.kind, self.name.partition("~")[0]) if "~" in self.name else self

    def __str__(self) -> str:
        return f"{self.kind}://{self.name}"


@lru_cache(1024)
def parse_destination(text: str) -> Destination:
    """Reads ``queue://orders``, ``topic://prices``, ``orders`` (a bare name is a queue), ``orders~EXPIRED``.

    Names from every source are validated, message headers included, because a name becomes a directory. In a
    topic's name, each part between dots becomes a directory. A bare name has no colon: ``queue:orders`` is
    a mistake.

    Raises:
        DestinationError: the text names no destination. The error gives the reason.
    """
    kind, separator, name = text.partition("://")
    if not separator:
        kind, name = "queue", text
        if ":" in text:
            colon = f"{text!r} is no destination: a bare name has no ':', the form is queue://NAME"
            raise DestinationError(colon, _with_slashes(text))
    if kind not in ("queue", "topic"):
        raise DestinationError(f"{text!r} is no destination: {kind!r} is neither 'queue' nor 'topic'")
    base, tilde, view = name.partition("~")
    reason = _what_is_wrong(base) or (_what_is_wrong_with_view(kind, view) if tilde else None)
    if reason is None and kind == "topic" and name.endswith("."):
        reason = "the name of a topic does not end with a dot"
    if reason:
        raise DestinationError(f"{text!r} is no destination: {reason}")
    return Destination(kind, name)


def _with_slashes(text: str) -> str | None:
    """Returns the destination that ``queue:orders`` may mean."""
    kind, _, name = text.partition(":")
    kind, name = kind.strip().casefold(), name.strip().lstrip("/")
    is_meant = kind in ("queue", "topic") and ":" not in name and not _what_is_wrong(name)
    return f"{kind}://{name}" if is_meant else None


def _what_is_wrong_with_view(kind: str, view: str) -> str | None:
    if kind != "queue":
        return "only queues have virtual destinations ('~')"
    if view not in VIEWS:
        return f"behind '~' stands one of {', '.join(sorted(VIEWS))}, not {view!r}"
    return None


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
    if name.casefold() in RESERVED:
        return f"{name!r} is reserved"
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return "the name is not valid Unicode"
    if size > _MAX_NAME_BYTES:
        return f"the name is longer than {_MAX_NAME_BYTES} bytes"
    return None
