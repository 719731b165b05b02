"""The body of a message as a text that people can read. Nothing of a body is executed."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from connector.messaging.message import Message

LONGEST: Final = 256 << 10
"""Bytes of a body that a page shows."""
_LARGE: Final = 4 << 10
_LINE: Final = 16
_MOST_HEX: Final = 16 << 10


class ShownBody(NamedTuple):
    """A body for a page.

    Args:
        text: of the body, or its bytes in hexadecimal.
        kind: ``JSON``, ``text``, ``bytes`` or ``empty``.
        size: of the whole body in bytes.
        is_cut: whether more follows.
        is_large: whether the page folds the body.
    """

    text: str
    kind: str
    size: int
    is_cut: bool
    is_large: bool


def shown_body(message: Message) -> ShownBody:
    """Returns the body of a message: JSON with indents, another text as it is, bytes in hexadecimal."""
    body = message.body
    size = len(body)
    if not body:
        return ShownBody("", "empty", 0, False, False)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return ShownBody(_hex(body[:_MOST_HEX]), "bytes", size, size > _MOST_HEX, size > _LARGE)
    kind = "text"
    if size <= LONGEST and text.lstrip()[:1] in ("{", "["):
        try:
            text, kind = json.dumps(json.loads(text), indent=2, ensure_ascii=False), "JSON"
        except (ValueError, RecursionError):
            pass
    return ShownBody(text[:LONGEST], kind, size, size > LONGEST, size > _LARGE)


def _hex(data: bytes) -> str:
    lines = []
    for begin in range(0, len(data), _LINE):
        part = data[begin : begin + _LINE]
        signs = "".join(chr(one) if 32 <= one < 127 else "." for one in part)
        lines.append(f"{begin:08x}  {part.hex(' '):<{_LINE * 3}} {signs}")
    return "\n".join(lines)
