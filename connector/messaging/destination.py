"""Destinations: the queue or topic that a message is sent to or taken from.

There are two grammars of names. A provider that keeps messages itself may make a directory of a name, so it
refuses what would leave that directory. A server such as a broker has names of its own, and takes any name.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from contextvars import ContextVar
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from connector.errors import DestinationError

VIEWS = frozenset({"PROCESSING", "EXPIRED", "RECOVER-ERROR", "REJECT-ERROR"})
"""Virtual destinations: ``orders~EXPIRED`` shows the expired messages of ``orders``."""

RESERVED = frozenset({"topic-root", "dropboxmq", "global-read-lock"})
"""Names that the directory protocol reserves (DropboxMQ, "The Root")."""

_MAX_NAME_BYTES: Final = 200
_ANY_LENGTH: Final = 1 << 30
_OWN_NAMES: Final = ContextVar("own_names", default=False)
_ESCAPES: Final = re.compile("(?:%[0-9A-Fa-f]{2})+")
_TO_ESCAPE: Final = re.compile(r"[\x00-\x1f\x7f/\\;~]|\A[\s.]|[\s.]\Z|(?<=\.)\.|%(?=[0-9A-Fa-f]{2})")
"""What the name of a directory may not have, and a percent sign that would begin an escape."""


class Destination(NamedTuple):
    """A queue or topic of a provider. Made by :func:`parse_destination`, which validates.

    Args:
        kind: ``queue`` or ``topic``.
        name: the bare name, ``orders``. A name of a server has percent escapes in place of what the name of a
            directory may not have: ``PRICES%2FNYSE``.
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

    @property
    def own_name(self) -> str:
        """The name by which a server with names of its own knows the destination."""
        return _without_escapes(self.name)

    @lru_cache(128)  # noqa: B019  # called for every event. It keeps some pairs of texts only
    def __str__(self) -> str:
        return f"{self.kind}://{self.name}"


def parse_destination(text: str, *, own_names: bool | None = None) -> Destination:
    """Reads ``queue://orders``, ``topic://prices``, ``orders`` (a bare name is a queue), ``orders~EXPIRED``.

    Names from every source are validated, message headers included, because a name becomes a directory. In a
    topic's name, each part between dots becomes a directory. A bare name has no colon: ``queue:orders`` is
    a mistake.

    Args:
        own_names: whether the provider is a server with names of its own. Then any name is right, and ``%2F``
            in it means ``/``. All texts of one name give the same destination. None = as :func:`names_of`
            says, and False outside of it.

    Raises:
        DestinationError: the text names no destination. The error gives the reason.
    """
    return _parse(text, _OWN_NAMES.get() if own_names is None else own_names)


@contextlib.contextmanager
def names_of(*, own_names: bool) -> Iterator[None]:
    """Says for the block whether names are those of a server (see :func:`parse_destination`)."""
    token = _OWN_NAMES.set(own_names)
    try:
        yield
    finally:
        _OWN_NAMES.reset(token)


def are_own_names() -> bool:
    """Whether names are those of a server, as :func:`names_of` says."""
    return _OWN_NAMES.get()


def known_destination(text: str) -> Destination:
    """Reads the text of a :class:`Destination` of any provider again.

    Raises:
        DestinationError: the text is no such text.
    """
    return _parse(text, False, _ANY_LENGTH)


def own_destination(kind: str, name: str) -> Destination:
    """Returns the destination that a server with names of its own knows by ``name``.

    Raises:
        DestinationError: the name is empty, or is not valid Unicode.
    """
    if reason := _not_unicode(name) or ("" if name else "the name is empty"):
        written = f"{kind}://{name}"
        raise DestinationError(f"{written!r} is no destination: {reason}")
    escaped = _TO_ESCAPE.sub(_escape, name)
    if name.casefold() in RESERVED:
        escaped = f"%{ord(name[0]):02X}{name[1:]}"
    return Destination(kind, escaped)


def _escape(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())


def _without_escapes(name: str) -> str:
    return _ESCAPES.sub(lambda found: unquote_to_bytes(found[0]).decode("utf-8", "replace"), name)


@lru_cache(1024)
def _parse(text: str, own_names: bool, limit: int = _MAX_NAME_BYTES) -> Destination:
    kind, separator, name = text.partition("://")
    if not separator:
        kind, name = "queue", text
        if ":" in text:
            colon = f"{text!r} is no destination: a bare name has no ':', the form is queue://NAME"
            raise DestinationError(colon, _with_slashes(text))
    if kind not in ("queue", "topic"):
        raise DestinationError(f"{text!r} is no destination: {kind!r} is neither 'queue' nor 'topic'")
    if own_names:
        return _parse_own(text, kind, name)
    base, tilde, view = name.partition("~")
    reason = _what_is_wrong(base, limit) or (_what_is_wrong_with_view(kind, view) if tilde else None)
    if reason is None and kind == "topic" and name.endswith("."):
        reason = "the name of a topic does not end with a dot"
    if reason:
        raise DestinationError(f"{text!r} is no destination: {reason}")
    return Destination(kind, name)


def _parse_own(text: str, kind: str, name: str) -> Destination:
    """Reads the name of a server. A view of a queue stays one, so that an error can name it."""
    base, tilde, view = name.rpartition("~")
    if not base or kind != "queue" or view not in VIEWS:
        base, tilde, view = name, "", ""
    plain = _without_escapes(base)
    if "\ufffd" in plain and "\ufffd" not in base:
        raise DestinationError(f"{text!r} is no destination: an escape is no UTF-8 (a percent sign is %25)")
    return Destination(kind, f"{own_destination(kind, plain).name}{tilde}{view}")


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


def _not_unicode(name: str) -> str | None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return "the name is not valid Unicode"
    return None


def _what_is_wrong(name: str, limit: int = _MAX_NAME_BYTES) -> str | None:
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
    if reason := _not_unicode(name):
        return reason
    if len(name.encode("utf-8")) > limit:
        return f"the name is longer than {limit} bytes"
    return None
