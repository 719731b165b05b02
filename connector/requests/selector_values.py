"""Puts values into the text of a selector so that they stay values.

NUL, a number, NUL marks the place of a value in the text. Its surroundings decide the quoting:

* inside quotes: ``'`` is doubled. A boolean is ``true`` or ``false``, as in a property of type string.
* inside the quotes of a LIKE: ``%``, ``_`` and the escape character are escaped, too. If a value needs an
  ESCAPE and there is none, one is added, with a character that the pattern does not contain.
* outside quotes: numbers and booleans only, because a text there could be any condition.

``raw`` puts every value in as it is, as in WBI Adapter for JMS. A value can then change which messages are
selected.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from connector.errors import RequestRefused

Quoting = Literal["quoted", "raw"]

MAX_SELECTOR: Final = 64 << 10
"""Most characters of a selector with its values."""

_MARK: Final = re.compile(r"\0([0-9]+)\0")
_STRING: Final = re.compile(r"'(?:[^']|'')*+(?:'|\Z)")
_LIKE: Final = re.compile(r"(?<![\w$])LIKE[\s(]{0,100}\Z", re.IGNORECASE)
_ESCAPE: Final = re.compile(r"\s*ESCAPE\s*('(?:[^']|'')*+')", re.IGNORECASE)
_ESCAPE_CHARACTERS: Final = "\\!~^|#$&*+/:;<=>?@`"
_LONG: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Value:
    """A value for a selector.

    Args:
        label: name in errors: ``{1} (Meta.CorrelationID)``.
        value: a text, a number, or a boolean. Any other value is refused.
    """

    label: str
    value: object


def mark(number: int) -> str:
    """Returns the mark for the value of this number."""
    return f"\0{number}\0"


def unquoted_marks(text: str) -> set[int]:
    """Returns the numbers of the marks that stand outside quotes."""
    return {int(found[1]) for found in _MARK.finditer(_STRING.sub("", text))}


def is_quote_open(text: str) -> bool:
    """Whether a quote is never closed."""
    return text.count("'") % 2 == 1


def put_values(text: str, values: Sequence[Value], quoting: Quoting) -> str:
    """Returns the text with the values in the places of their marks.

    Raises:
        RequestRefused: a value is null, a list or an object, or does not fit the place of its mark. Or the
            selector is too long. The text names the value's label, never the value.
    """
    if quoting == "raw":
        return _bounded(_MARK.sub(lambda found: _plain_text(values[int(found[1])]), text))
    pieces: list[str] = []
    position = 0
    for string in _STRING.finditer(text):
        outside = text[position : string.start()]
        pieces.append(_MARK.sub(_outside(outside, values), outside))
        body = string[0][1:].removesuffix("'") if is_quote_open(string[0]) else string[0][1:-1]
        if "\0" not in body:
            pieces.append(string[0])
        elif is_quote_open(string[0]):
            raise RequestRefused("the quote before a value is not closed in the response selector")
        elif _LIKE.search(outside):
            pieces.append(_pattern(body, values, _ESCAPE.match(text, string.end())))
        else:
            filled = _MARK.sub(lambda found: _doubled(_plain_text(values[int(found[1])])), body)
            pieces.append(f"'{filled}'")
        position = string.end()
    outside = text[position:]
    pieces.append(_MARK.sub(_outside(outside, values), outside))
    return _bounded("".join(pieces))


def _bounded(selector: str) -> str:
    if len(selector) > MAX_SELECTOR:
        raise RequestRefused(
            f"the response selector has {len(selector)} characters with its values, expected at most "
            f"{MAX_SELECTOR}"
        )
    return selector


def _doubled(text: str) -> str:
    return text.replace("'", "''")


def _outside(text: str, values: Sequence[Value]) -> Callable[[re.Match[str]], str]:
    def put(found: re.Match[str]) -> str:
        value = values[int(found[1])]
        scalar = _scalar(value)
        if isinstance(scalar, str):
            raise RequestRefused(
                f"{value.label} is a text and stands outside quotes in the response selector: "
                "put '...' around it"
            )
        if isinstance(scalar, bool):
            return "TRUE" if scalar else "FALSE"
        number = _number(value.label, scalar)
        # Two signs in a row begin a comment in the selectors of some providers.
        after_minus = text[: found.start()].endswith("-") and number.startswith("-")
        return f" {number}" if after_minus else number

    return put


def _number(label: str, number: int | float) -> str:
    if isinstance(number, float):
        if not math.isfinite(number):
            raise RequestRefused(f"{label} is no finite number, and a selector has no other")
        return repr(number).replace("e", "E")
    # The smallest long is left out: providers read the digits before the sign.
    if not -_LONG < number < _LONG:
        raise RequestRefused(f"{label} is beyond 64 bits, and a selector has no such number")
    return str(number)


def _scalar(value: Value) -> str | int | float | bool:
    found = value.value
    if isinstance(found, str):
        if any("\ud800" <= character <= "\udfff" for character in found):
            raise RequestRefused(
                f"{value.label} has half a character (a lone surrogate): no provider takes it"
            )
        return found
    if isinstance(found, bool | int | float):
        return found
    if found is None:
        raise RequestRefused(f"{value.label} has no value: the response selector needs one")
    what = "a list" if isinstance(found, list | tuple) else "an object"
    raise RequestRefused(f"{value.label} is {what}: a response selector takes single values")


def _plain_text(value: Value) -> str:
    scalar = _scalar(value)
    if isinstance(scalar, bool):
        return "true" if scalar else "false"
    return scalar if isinstance(scalar, str) else _number(value.label, scalar)


# --- LIKE ------------------------------------------------------------------------------------


def _pattern(body: str, values: Sequence[Value], escape: re.Match[str] | None) -> str:
    """Returns the quoted pattern of a LIKE, and an ESCAPE if the pattern needs a new one."""
    parts = _MARK.split(body)  # text, number, text, number, text
    written = [part.replace("''", "'") for part in parts[::2]]
    inserted = [values[int(number)] for number in parts[1::2]]
    texts = [_plain_text(value) for value in inserted]
    added = ""
    if escape is not None:
        character = escape[1][1:-1].replace("''", "'")
        if len(character) != 1:
            raise RequestRefused("ESCAPE takes one character in the response selector")
        for part, value in zip(written, inserted, strict=False):
            if _ends_escaping(part, character):
                raise RequestRefused(
                    f"an escape character stands before {value.label} in the response selector: take it out, "
                    "the value is escaped by itself"
                )
    elif any("%" in text or "_" in text for text in texts):
        whole = "".join((*written, *texts))
        unused = [candidate for candidate in _ESCAPE_CHARACTERS if candidate not in whole]
        character = unused[0] if unused else _ESCAPE_CHARACTERS[0]
        # Has an effect only if all escape characters are in use.
        written = [part.replace(character, character * 2) for part in written]
        added = f" ESCAPE '{character}'"
    else:
        character = ""
    if character:
        texts = [_escaped(text, character) for text in texts]
    pieces = [written[0]]
    for text, part in zip(texts, written[1:], strict=True):
        pieces += [text, part]
    return f"'{_doubled(''.join(pieces))}'{added}"


def _escaped(text: str, escape: str) -> str:
    return "".join(escape + character if character in ("%", "_", escape) else character for character in text)


def _ends_escaping(written: str, escape: str) -> bool:
    """Whether a text ends with an escape character that is not escaped itself."""
    position = 0
    while position < len(written):
        if written[position] == escape:
            if position + 1 == len(written):
                return True
            position += 1
        position += 1
    return False
