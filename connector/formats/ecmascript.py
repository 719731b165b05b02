"""Regular expressions of ECMA-262, in the notation of the engine that validates JSON schemas.

JSON Schema reads ``pattern`` and ``patternProperties`` as ECMA-262 does with the flag ``u`` (JSON Schema
2020-12, core, 6.4). The engine gives most of them the same meaning. This module writes the others in the
notation of the engine. It refuses texts that the engine accepts but ECMA-262 does not.

Two forms are accepted that ECMA-262 has only without that flag, because schemas of earlier drafts have
them: a ``{`` that repeats nothing, and a ``-`` beside a set, such as ``[\\w-.]``. Both stand for themselves.
"""

from __future__ import annotations

import re
import string
from typing import Final

_SETS: Final = {
    "d": ((0x30, 0x39),),
    "s": (
        (0x09, 0x0D),
        (0x20, 0x20),
        (0xA0, 0xA0),
        (0x1680, 0x1680),
        (0x2000, 0x200A),
        (0x2028, 0x2029),
        (0x202F, 0x202F),
        (0x205F, 0x205F),
        (0x3000, 0x3000),
        (0xFEFF, 0xFEFF),
    ),
    "w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
}
"""The characters of a set, as ranges."""
_LAST: Final = 0x10FFFF
_CONTROLS: Final = {"f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09, "v": 0x0B}
_SYNTAX: Final = "^$\\.*+?()[]{}|/-"
_QUANTIFIER: Final = re.compile(r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??")
_GROUP: Final = re.compile(r"\((?:\?(?::|=|!|<=|<!|<(?P<name>[^\W\d][\w$]*|\$[\w$]*)>))?")
_CODE: Final = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]+)\}|c([A-Za-z])")
_PROPERTY: Final = re.compile(r"[pP]\{[\w=]+\}", re.ASCII)
_LOW: Final = re.compile(r"\\u([dD][c-fC-F][0-9A-Fa-f]{2})")
_REFERENCE: Final = re.compile(r"k<([^>]+)>")
_NOTHING: Final = r"[^\s\S]"
_ANYTHING: Final = r"[\s\S]"
_IN_PLACE_OF: Final = {
    ".": r"[^\n\r\u2028\u2029]",
    "}": r"\}",
    "]": r"\]",
    r"\b": "(?:(?<=[A-Za-z0-9_])(?![A-Za-z0-9_])|(?<![A-Za-z0-9_])(?=[A-Za-z0-9_]))",
    r"\B": "(?:(?<=[A-Za-z0-9_])(?=[A-Za-z0-9_])|(?<![A-Za-z0-9_])(?![A-Za-z0-9_]))",
}
"""A dot of the engine takes every line end but LF. A word of the engine has the letters of every script."""


def translate(pattern: str) -> str:
    """Returns a regular expression of ECMA-262 in the notation of the engine.

    Raises:
        ValueError: the text is no such expression. The text of the error says why. The engine finds further
            mistakes, such as a parenthesis too many.
    """
    return _Translation(pattern).result()


class _Translation:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._next = 0
        self._out: list[str] = []
        self._groups: list[str] = []
        """The name of each capturing group, or an empty text."""
        self._references: list[tuple[int, str]] = []
        """The places of references by name in :attr:`_out`."""

    def result(self) -> str:
        pattern = self._pattern
        while self._next < len(pattern):
            character = pattern[self._next]
            if character == "\\":
                self._next += 1
                self._out.append(self._escape())
            elif character == "[":
                self._next += 1
                self._out.append(self._class())
            elif character == "(":
                self._group()
            elif character in "*+?{":
                self._quantifier()
            else:
                self._next += 1
                self._out.append(_IN_PLACE_OF.get(character, character))
        for place, name in self._references:
            if name not in self._groups:
                raise ValueError(f"no group is called {name}")
            # Not a digit of the text behind it.
            self._out[place] = f"(?:\\{self._groups.index(name) + 1})"
        return "".join(self._out)

    def _match(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        found = expression.match(self._pattern, self._next)
        if found is not None:
            self._next = found.end()
        return found

    def _group(self) -> None:
        found = self._match(_GROUP)
        assert found is not None  # a parenthesis fits
        name = found["name"]
        if found.group() == "(":
            if self._pattern.startswith("?", self._next):
                raise ValueError(
                    f"{self._pattern[self._next - 1 : self._next + 2]} begins no group of ECMA-262"
                )
            self._groups.append("")
        elif name is not None:
            if name in self._groups:
                raise ValueError(f"two groups are called {name}")
            self._groups.append(name)
        # Names are for references only, which become numbers.
        self._out.append("(" if name is not None else found.group())

    def _quantifier(self) -> None:
        found = self._match(_QUANTIFIER)
        if found is None:
            self._next += 1
            self._out.append("\\{")
            return
        if self._next < len(self._pattern) and self._pattern[self._next] in "*+?":
            raise ValueError(f"{found.group()}{self._pattern[self._next]} repeats a repetition")
        self._out.append(found.group())

    def _escape(self) -> str:
        """Returns an escape outside of a class, without the backslash before it."""
        if self._next == len(self._pattern):
            raise ValueError("a \\ at the end")
        character = self._pattern[self._next]
        if character in "bB":
            self._next += 1
            return _IN_PLACE_OF[f"\\{character}"]
        if character in "123456789":
            number = re.compile("[0-9]+").match(self._pattern, self._next)
            assert number is not None
            self._next = number.end()
            return f"(?:\\{number.group()})"
        reference = self._match(_REFERENCE)
        if reference is not None:
            self._references.append((len(self._out), reference[1]))
            return ""
        code = self._code_or_set()
        if isinstance(code, str):
            return f"[{code}]"
        return _NOTHING if 0xD800 <= code <= 0xDFFF else _character(code)

    def _code_or_set(self) -> int | str:
        """Returns the code of the character that an escape stands for, or a set as members of a class."""
        character = self._pattern[self._next]
        if character.lower() in _SETS:
            self._next += 1
            return _set(character)
        found = self._match(_PROPERTY)
        if found is not None:
            return f"\\{found.group()}"
        found = self._match(_CODE)
        if found is not None:
            byte, unit, point, letter = found.groups()
            if letter:
                return ord(letter) % 32
            code = int(byte or unit or point, 16)
            if code > _LAST:
                raise ValueError(f"\\{found.group()} is no character")
            if unit and 0xD800 <= code < 0xDC00:
                low = self._match(_LOW)
                if low is not None:
                    return 0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00
            return code
        self._next += 1
        if character == "0" and not self._pattern[self._next : self._next + 1].isdigit():
            return 0
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character.isascii() and character.isalnum():
            raise ValueError(f"\\{character} is no escape of ECMA-262")
        return ord(character)

    def _class(self) -> str:
        """Returns a class, without the bracket before it."""
        is_negated = self._pattern.startswith("^", self._next)
        self._next += is_negated
        parts: list[str] = []
        while True:
            if self._next >= len(self._pattern):
                raise ValueError("a [ without its ]")
            if self._pattern[self._next] == "]":
                self._next += 1
                break
            first = self._member()
            rest = self._pattern[self._next : self._next + 2]
            if rest[:1] != "-" or rest[1:] in ("]", ""):
                parts.append(first if isinstance(first, str) else _characters(first, first))
                continue
            self._next += 1
            last = self._member()
            if isinstance(first, str) or isinstance(last, str):
                parts += (one if isinstance(one, str) else _characters(one, one) for one in (first, 45, last))
                continue
            if first > last:
                raise ValueError("a range of a class ends before its start")
            parts.append(_characters(first, last))
        members = "".join(parts)
        if not members:
            return _ANYTHING if is_negated else _NOTHING
        return f"[{'^' if is_negated else ''}{members}]"

    def _member(self) -> int | str:
        """Returns the code of a member of a class, or a set as members."""
        character = self._pattern[self._next]
        self._next += 1
        if character != "\\":
            return ord(character)
        if self._next == len(self._pattern):
            raise ValueError("a \\ at the end")
        if self._pattern[self._next] == "b":
            self._next += 1
            return 8
        return self._code_or_set()


def _set(letter: str) -> str:
    """Returns the characters of a set as members of a class. A capital letter is the opposite."""
    ranges = _SETS[letter.lower()]
    if letter.isupper():
        begins = [0, *(last + 1 for _, last in ranges)]
        ends = [*(first - 1 for first, _ in ranges), _LAST]
        ranges = tuple(zip(begins, ends, strict=True))
    return "".join(_characters(first, last) for first, last in ranges)


def _characters(first: int, last: int) -> str:
    """Returns a range of a class. Texts have no half of a surrogate pair, so that such codes are left out."""
    if 0xD800 <= first <= 0xDFFF:
        first = 0xE000
    if 0xD800 <= last <= 0xDFFF:
        last = 0xD7FF
    if first > last:
        return ""
    return _character(first) if first == last else f"{_character(first)}-{_character(last)}"


def _character(code: int) -> str:
    character = chr(code)
    if character in string.ascii_letters or character in string.digits:
        return character
    return f"\\{character}" if character in _SYNTAX else f"\\u{{{code:X}}}"
