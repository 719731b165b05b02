"""The body of a message as a text that people can read. Nothing of a body is executed."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Final, NamedTuple

from lxml import etree

from connector.errors import MalformedData
from connector.messaging.message import Message
from connector.text.xml_parser import parse_xml

LONGEST: Final = 256 << 10
"""Bytes of a body that a page shows."""
_LARGE: Final = 4 << 10
_LINE: Final = 16
_MOST_HEX: Final = 16 << 10
_MOST_INDENT: Final = 20
_JSON_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


class ShownBody(NamedTuple):
    """A body for a page.

    Args:
        text: of the body with indents, or its bytes in hexadecimal.
        kind: ``JSON``, ``XML``, ``text``, ``bytes`` or ``empty``.
        size: of the whole body in bytes.
        raw: the body as it is. Empty if it is no text, or is cut.
        is_cut: whether more follows.
        is_large: whether the page folds the body.
    """

    text: str
    kind: str
    size: int
    raw: str = ""
    is_cut: bool = False
    is_large: bool = False


def shown_body(message: Message) -> ShownBody:
    """Returns a body: JSON and XML with indents, another text as it is, other bytes in hexadecimal."""
    body = message.body
    size = len(body)
    is_large = size > _LARGE
    if not body:
        return ShownBody("", "empty", 0)
    try:
        raw = body.decode("utf-8")
    except UnicodeDecodeError:
        return ShownBody(_hex(body[:_MOST_HEX]), "bytes", size, "", size > _MOST_HEX, is_large)
    if size > LONGEST:
        return ShownBody(raw[:LONGEST], "text", size, "", True, is_large)
    kind, text = "text", raw
    with contextlib.suppress(ValueError, RecursionError, MalformedData):
        match raw.lstrip()[:1]:
            case "{" | "[":
                json.loads(raw)
                kind, text = "JSON", _json_with_indents(raw)
            case "<":
                root = parse_xml(body, keeps_specials=True)
                etree.indent(root)
                kind, text = "XML", etree.tostring(root, encoding="unicode")
    return ShownBody(text, kind, size, raw, False, is_large)


def _json_with_indents(text: str) -> str:
    """Returns JSON with another white space. A number or a text stays as it is written."""
    parts: list[str] = []
    depth, before = 0, ""
    for token in _JSON_TOKEN.findall(text):
        if token in "]}":
            depth -= 1
            parts.append("" if before in "[{" else _new_line(depth))
        elif before and before in "[{":
            parts.append(_new_line(depth))
        parts.append(token)
        if token in "[{":
            depth += 1
        elif token == ",":
            parts.append(_new_line(depth))
        elif token == ":":
            parts.append(" ")
        before = token
    return "".join(parts)


def _new_line(depth: int) -> str:
    return "\n" + "  " * min(depth, _MOST_INDENT)


def _hex(data: bytes) -> str:
    lines = []
    for begin in range(0, len(data), _LINE):
        part = data[begin : begin + _LINE]
        signs = "".join(chr(one) if 32 <= one < 127 else "." for one in part)
        lines.append(f"{begin:08x}  {part.hex(' '):<{_LINE * 3}} {signs}")
    return "\n".join(lines)
