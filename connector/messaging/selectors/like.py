"""Patterns of LIKE: ``%`` is any text, ``_`` any one character (JMS 2.0, 3.8.1.2)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_ANY_TEXT = object()
_ANY_CHARACTER = object()


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern.

    Args:
        matches: says whether a text has the pattern.
        prefix: of the texts, if the pattern says nothing else. Otherwise None.
    """

    matches: Callable[[str], bool]
    prefix: str | None = None


def like_pattern(text: str, escape: str | None = None) -> Pattern:
    """Reads a pattern.

    Args:
        text: the pattern.
        escape: the single character that makes a following ``%``, ``_`` or ``escape`` an ordinary character.

    Raises:
        ValueError: the escape character stands before another character, or at the end.
    """
    parts = _parts(text, escape)
    inner = "".join(part for part in parts if isinstance(part, str))
    match [index for index, part in enumerate(parts) if part is _ANY_TEXT]:
        case _ if _ANY_CHARACTER in parts:
            pass
        case []:
            return Pattern(lambda value: value == inner)
        case [index] if index == len(parts) - 1:
            return Pattern(lambda value: value.startswith(inner), prefix=inner)
        case [0]:
            return Pattern(lambda value: value.endswith(inner))
        case [0, index] if index == len(parts) - 1:
            return Pattern(lambda value: inner in value)
    fullmatch = _expression(parts).fullmatch
    return Pattern(lambda value: fullmatch(value) is not None)


def _parts(text: str, escape: str | None) -> list[object]:
    """Returns single characters and wildcards. Several ``%`` in a row become a single wildcard."""
    parts: list[object] = []
    characters = iter(text)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped == "" or escaped not in ("%", "_", escape):
                raise ValueError(f"{escape!r} before {escaped!r}" if escaped else f"{escape!r} at the end")
            parts.append(escaped)
        elif character == "%":
            if not parts or parts[-1] is not _ANY_TEXT:
                parts.append(_ANY_TEXT)
        else:
            parts.append(_ANY_CHARACTER if character == "_" else character)
    return parts


def _expression(parts: list[object]) -> re.Pattern[str]:
    """Returns the regular expression of a pattern with wildcards.

    The text between two ``%`` has a fixed length, so its first match is as good as any later match. The
    atomic groups use this. Without them the search would try every combination for a text that almost fits.
    """
    pieces = [""]
    for part in parts:
        if part is _ANY_TEXT:
            pieces.append("")
        else:
            pieces[-1] += re.escape(part) if isinstance(part, str) else "."
    head, *middle = pieces
    if not middle:
        return re.compile(head, re.DOTALL)
    *middle, tail = middle
    return re.compile(head + "".join(f"(?>.*?{piece})" for piece in middle) + ".*" + tail, re.DOTALL)
