"""Patterns of LIKE: ``%`` is any text, ``_`` any one character (JMS 2.0, 3.8.1.2)."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from connector.errors import SelectorError

_ANY_TEXT = object()
_ANY_CHARACTER = object()
_STEPS: Final = 1_000_000
"""Comparisons of characters in one call of ``re``, at most, because no other thread runs meanwhile."""
_LONG: Final = 10_000
"""Characters of a value that is searched with a look at the clock."""

patience: Final = ContextVar("patience", default=math.inf)
"""When the search in a value ends without a result, on the clock :func:`time.monotonic`."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern.

    Args:
        matches: says whether a text has the pattern. Raises SelectorError when :data:`patience` is over.
        prefix: of the texts, if the pattern says nothing else. Otherwise None.
    """

    matches: Callable[[str], bool]
    prefix: str | None = None


def like_pattern(text: str, escape: str | None = None) -> Pattern:
    """Reads a pattern.

    Args:
        escape: the single character that makes a following ``%``, ``_`` or ``escape`` an ordinary character.

    Raises:
        ValueError: the escape character stands before another character, or at the end.
    """
    parts = _parts(text, escape)
    inner = "".join(part for part in parts if isinstance(part, str))
    found = _search(parts)
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
            return Pattern(lambda value: inner in value if len(value) < _LONG else found(value))
    return Pattern(found)


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


def _search(parts: list[object]) -> Callable[[str], bool]:
    """Returns the search for a pattern.

    The text between two ``%`` has a fixed length, so its first place is as good as any later place.
    """
    pieces: list[list[object]] = [[]]
    for part in parts:
        if part is _ANY_TEXT:
            pieces.append([])
        else:
            pieces[-1].append(part)
    head, *middle = map(_Piece, pieces)
    if not middle:
        return lambda value: len(value) == head.size and head.is_at(value, 0)
    *middle, tail = middle

    def search(value: str) -> bool:
        begin, end = head.size, len(value) - tail.size
        if begin > end or not (head.is_at(value, 0) and tail.is_at(value, end)):
            return False
        for piece in middle:
            place = piece.find(value, begin, end)
            if place < 0:
                return False
            begin = place + piece.size
        return True

    return search


class _Piece:
    """The characters and the ``_`` between two ``%``."""

    def __init__(self, parts: Sequence[object]) -> None:
        self.size = len(parts)
        letters = [part if isinstance(part, str) else None for part in parts]
        self._places = max(1, _STEPS // max(1, self.size))
        self._form: str | re.Pattern[str] = "".join(filter(None, letters))
        if None in letters:
            expression = "".join("." if letter is None else re.escape(letter) for letter in letters)
            # re looks for a first letter also where a long piece has no room left, unless it begins so.
            all_places = "(?=)" if self.size > self._places else ""
            self._form = re.compile(all_places + expression, re.DOTALL)

    def is_at(self, value: str, place: int) -> bool:
        """Whether the piece stands at a place."""
        if isinstance(self._form, str):
            return value.startswith(self._form, place)
        return self._form.match(value, place) is not None

    def find(self, value: str, begin: int, end: int) -> int:
        """Returns the first place of the piece in a part of a value. -1 = there is none.

        Raises:
            SelectorError: the patience is over.
        """
        if isinstance(self._form, str):
            _look_at_the_clock(value)
            return value.find(self._form, begin, end)
        while begin + self.size <= end:
            _look_at_the_clock(value)
            found = self._form.search(value, begin, min(end, begin + self._places + self.size - 1))
            if found is not None:
                return found.start()
            begin += self._places
        return -1


def _look_at_the_clock(value: str) -> None:
    if len(value) >= _LONG and time.monotonic() > patience.get():
        raise SelectorError(
            f"a search with LIKE in a value of {len(value):,} characters takes too long: ask for less", 1
        )
