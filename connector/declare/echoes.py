"""Hides secrets in the texts of programs that get them, and that may repeat them in an error."""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final
from urllib.parse import unquote

from connector.declare.masking import MASK
from connector.text.names import one_line

_SHORTEST: Final = 6
"""Characters of a secret, or of its begin, that count in the text of another program."""
_RUN: Final = 12
"""Characters of any other part that count."""
_MOST: Final = 8 << 10
"""Characters of such a text that are kept."""
_ROUNDS: Final = 3
"""A text may be encoded several times, such as a URL in JSON in HTML."""
_CODE: Final = re.compile(
    r"(?:\\|%)u([0-9a-f]{4})|(?:\\x|%)([0-9a-f]{2})|&#x([0-9a-f]{1,6});?|&#(\d{1,7});?|(&[a-z]+\d*;)|\\(.)",
    re.IGNORECASE | re.DOTALL,
)
_BETWEEN: Final = re.compile(r"[\s;,\"'=:]+")
_CODED: Final = re.compile(r"[\\%&][^\s\"'<>]*")
"""How a secret goes on whose next character is encoded."""


class Secrets:
    """Secrets that another program may repeat: as they are, encoded, in other case, or in part.

    Args:
        values: headers and passwords.
        names: texts that are perhaps only names, such as a segment of a path. A part of one that looks like
            a word does not count.
    """

    def __init__(self, values: Iterable[str], names: Iterable[str] = ()) -> None:
        found = [form for value in values for form in _forms(value)]
        words = [form for value in names for form in (value, unquote(value))]
        self._parts = {_lower(one) for one in [*found, *filter(_is_random, words)] if len(one) >= _SHORTEST}
        self._wholes = {_lower(one) for one in words if len(one) >= _SHORTEST}

    def hide(self, text: str) -> str:
        """Returns the text with :data:`MASK` in place of each secret and each recognisable part of one.

        A text with a secret that is encoded is returned decoded.
        """
        shown = read = self._mask(text[:_MOST])
        for _ in range(_ROUNDS):
            read = _CODE.sub(_character, read)
            masked = self._mask(read)
            if masked != read:
                shown = read = masked
        return shown

    def _mask(self, text: str) -> str:
        marked = bytearray(len(text))
        for begin, end in self._find(_lower(text)):
            marked[begin:end] = b"\1" * (end - begin)
        runs = groupby(zip(marked, text, strict=True), key=lambda one: one[0])
        return "".join(MASK if is_secret else "".join(c for _, c in run) for is_secret, run in runs)

    def _find(self, text: str) -> Iterator[tuple[int, int]]:
        for whole in self._wholes:
            for hit in re.finditer(re.escape(whole), text):
                yield hit.span()
        for secret in self._parts:
            for hit in re.finditer(re.escape(secret[:_SHORTEST]), text):
                begin = hit.start()
                size = next(n for n in range(len(secret), 0, -1) if text.startswith(secret[:n], begin))
                goes_on = _CODED.match(text, begin + size) if size < len(secret) else None
                yield begin, begin + size if goes_on is None else goes_on.end()
            for begin in range(1, len(secret) - _RUN + 1):
                place = text.find(secret[begin : begin + _RUN])
                while place >= 0:
                    yield place, place + _RUN
                    place = text.find(secret[begin : begin + _RUN], place + 1)


def _forms(value: str) -> Iterator[str]:
    """Yields a secret, its words and their values, each as it is written and decoded."""
    words = {value, value.replace(" ", "+"), *value.split(), *_BETWEEN.split(value)}
    for word in list(words):
        try:
            read = base64.b64decode(word, validate=True).decode()
        except (binascii.Error, ValueError):
            continue
        if ":" in read and read.isprintable():  # a user and a password (RFC 7617)
            words |= {read, read.partition(":")[2]}
    yield from words
    yield from map(unquote, words)


def _is_random(text: str) -> bool:
    return any(c.isdigit() for c in text) or not text[1:].islower()


def _lower(text: str) -> str:
    """Returns a text in lower case, as long as before."""
    return "".join(c if len(c.lower()) > 1 else c.lower() for c in text)


def _character(code: re.Match[str]) -> str:
    """Returns the character that a code of JSON, JavaScript, HTML or a URL means."""
    number = code[1] or code[2] or code[3]
    try:
        if number or code[4]:
            return one_line(chr(int(number, 16) if number else int(code[4])))
    except (ValueError, OverflowError):
        return code[0]
    return html.unescape(code[5]) if code[5] else code[6]
