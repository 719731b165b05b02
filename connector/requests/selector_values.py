"""The values of response selectors: paths to attributes, and values in the text of a selector.

A path is JMESPath. Fields and indexes are checked beforehand.

NUL, a number, NUL marks the place of a value in the text of a selector. Its surroundings decide the quoting,
so that the value stays a value:

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Final, Literal

from connector.businessobjects.definition import Attribute, Definition, Definitions
from connector.businessobjects.types import DECIMAL, SECRET, SimpleValue, text_of
from connector.errors import RequestRefused
from connector.text.names import shown

Quoting = Literal["quoted", "raw"]

MAX_SELECTOR: Final = 64 << 10
"""Most characters of a selector with its values."""

_MARKER: Final = re.compile(r"\0([0-9]+)\0")
_STRING: Final = re.compile(r"('(?:[^']|'')*+(?:'|\Z))")
_LIKE: Final = re.compile(r"(?<![\w$])LIKE[\s(]{0,100}\Z", re.IGNORECASE)
_ESCAPE: Final = re.compile(r"\s*ESCAPE\s*", re.IGNORECASE)
_ESCAPE_CHARACTERS: Final = "\\!~^|#$&*+/:;<=>?@`"
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
_LONG: Final = 1 << 63

Step = tuple[str | int, int]
"""The name of an attribute or the index of a child, and its offset in the path."""

_COMMA: Final = re.compile(r"""'[^']*(?:'|\Z)|"(?:\\.|[^"\\])*(?:"|\Z)|`[^`]*(?:`|\Z)|[()\[\]{}]|,""")


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in a text.

    Args:
        found, expected: as in :class:`connector.errors.Problem`.
        warning: True if the text may be right all the same.
        meant: the name that may be misspelt, or empty.
        among: the right names.
    """

    offset: int
    found: str
    expected: str
    warning: bool = False
    meant: str = ""
    among: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.found}, expected {self.expected}" if self.expected else self.found


@dataclass(frozen=True, slots=True)
class AttributePath:
    """A path, and its offset in the text that it was taken from."""

    text: str
    offset: int

    def mistake(self) -> Mistake | None:
        """Returns the mistake in the syntax of the path, or None."""
        import jmespath

        if not self.text:
            return Mistake(self.offset, "no attribute", "the path of one, Address[0].City")
        try:
            jmespath.compile(self.text)
        except jmespath.exceptions.JMESPathError as error:
            position = getattr(error, "lex_position", None) or 0
            expected = "JMESPath: Attribute, Child.Attribute, Child[0].Attribute"
            return Mistake(self.offset + position, f"no path of an attribute: {shown(self.text)}", expected)
        except RecursionError:
            return Mistake(self.offset, "no path of an attribute: it is too deep", "a simpler one")
        return None

    def value(self, data: Mapping[str, Any]) -> Any:
        """Returns the value that the path leads to, or None if that is not set.

        Raises:
            ValueError: a function got an argument of the wrong type. The text names the function.
        """
        import jmespath

        from connector.businessobjects.expressions import compile_expression

        try:
            return compile_expression(self.text).search(data)
        except jmespath.exceptions.JMESPathError as error:
            raise ValueError(_without_values(error)) from None

    def steps(self) -> list[Step] | None:
        """Returns the attributes and indexes of the path, or None if the path holds anything else."""
        from jmespath.lexer import Lexer

        found: list[Step] = []
        for token in Lexer().tokenize(self.text):
            if token["type"] in ("unquoted_identifier", "quoted_identifier", "number"):
                found.append((token["value"], self.offset + token["start"]))
            elif token["type"] not in ("dot", "lbracket", "rbracket", "eof"):
                return None
        return found


def split_paths(text: str, offset: int) -> tuple[AttributePath, ...]:
    """Returns the paths of a list that is separated by commas.

    Args:
        offset: of the list in the text that it was taken from.
    """
    depth = 0
    commas = []
    for token in _COMMA.finditer(text):
        if token[0] in ("(", "[", "{"):
            depth += 1
        elif token[0] in (")", "]", "}"):
            depth -= 1
        elif token[0] == "," and depth <= 0:
            commas.append(token.start())
    paths = []
    for start, end in zip([0, *(comma + 1 for comma in commas)], [*commas, len(text)], strict=True):
        part = text[start:end]
        paths.append(AttributePath(part.strip(), offset + start + len(part) - len(part.lstrip())))
    return tuple(paths)


def follow(
    steps: Sequence[Step], definition: Definition, definitions: Definitions, *, to_value: bool = True
) -> Mistake | Attribute | None:
    """Walks along the definitions.

    Args:
        definition: the start of the path.
        to_value: whether the path must lead to a single value.

    Returns:
        The attribute at the end, the mistake, or None if the definitions do not tell.
    """
    holder: Definition | None = definition
    attribute: Attribute | None = None
    is_list = False
    for step, offset in steps:
        if isinstance(step, int):
            if not is_list:
                name = attribute.name if attribute else definition.name
                return Mistake(offset, f"{name} is no list", "an index behind a list only (cardinality n)")
            is_list = False
            continue
        if is_list and attribute is not None:
            behind = f".{step}" if attribute.is_child else ""
            return Mistake(offset, f"{attribute.name} is a list", f"{attribute.name}[0]{behind}")
        if attribute is not None and not attribute.is_child:
            return Mistake(offset, f"{attribute.name} is a {attribute.type}", "nothing behind it")
        if holder is None:
            return None
        names = tuple(holder.attributes)
        attribute = holder.attributes.get(step)
        if attribute is None:
            what = f"{holder.name} has no attribute {shown(step)}"
            return Mistake(offset, what, "one of its attributes", meant=step, among=names)
        is_list = attribute.is_many
        holder = definitions.get(attribute.type)
    if to_value and attribute is not None and is_list and not attribute.is_child:
        what = f"{attribute.name} is a list of values ({attribute.type})"
        return Mistake(steps[-1][1], what, f"one of its values: {attribute.name}[0]")
    if to_value and attribute is not None and attribute.is_child:
        what = "a list" if is_list else f"a business object ({attribute.type})"
        whole = f"{attribute.name}[0]" if is_list else attribute.name
        return Mistake(
            steps[-1][1], f"{attribute.name} is {what}", f"one of its attributes: {whole}.Attribute"
        )
    if to_value and attribute is not None and attribute.type == SECRET:
        what = f"{attribute.name} is a {SECRET}: the provider would see its value in the selector"
        return Mistake(steps[-1][1], what, "another attribute")
    return attribute


def _without_values(error: Exception) -> str:
    """Returns the error of a function without the argument, which may be confidential."""
    name = getattr(error, "function_name", None)
    return f"the function {name}() cannot be applied to it" if name else "it cannot be evaluated"


# --- samples -----------------------------------------------------------------------------------

_SAMPLES: Final[Mapping[str, SimpleValue]] = {
    "Boolean": True,
    "Integer": 1,
    "Float": 1.5,
    "Double": 1.5,
    DECIMAL: Decimal("1.50"),
    "Date": "2024-05-31",
}
_SAMPLE_DEPTH: Final = 8


def samples(definition: Definition, definitions: Definitions) -> dict[str, Any]:
    """Returns sample values of a business object. A list has the same single element at every index."""

    @cache
    def sample(name: str, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for attribute in definitions.get(name, definition).attributes.values():
            if not attribute.is_child:
                value = _SAMPLES.get(attribute.type, "x")
                values[attribute.name] = _Endless([value]) if attribute.is_many else value
            elif depth and attribute.type in definitions:
                child = sample(attribute.type, depth - 1)
                values[attribute.name] = _Endless([child]) if attribute.is_many else child
        return values

    return sample(definition.name, _SAMPLE_DEPTH)


class _Endless(list[Any]):
    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(0) if isinstance(index, int) else list(self)


# --- values in the text ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Value:
    """A value for a selector.

    Args:
        label: name in errors: ``{1} (Meta.CorrelationID)``.
        value: a text, a number, or a boolean. Any other value is refused.
    """

    label: str
    value: object


def marker(number: int) -> str:
    """Returns the marker for the value of this number."""
    return f"\0{number}\0"


def unquoted_markers(text: str) -> set[int]:
    """Returns the numbers of the markers that stand outside quotes."""
    return {int(found[1]) for found in _MARKER.finditer(_STRING.sub("", text))}


def is_quote_open(text: str) -> bool:
    """Whether a quote is never closed."""
    return text.count("'") % 2 == 1


def put_values(text: str, values: Sequence[Value], quoting: Quoting) -> str:
    """Returns the text with the values in the places of their markers.

    Raises:
        RequestRefused: a value is null, a list or an object, or does not fit the place of its marker. Or the
            selector is too long. The text names the value's label, never the value.
    """
    if quoting == "raw":
        selector = _MARKER.sub(lambda found: _text(values[int(found[1])]), text)
    else:
        pieces = _STRING.split(text)
        selector = "".join([_quote_values(pieces, index, values) for index in range(len(pieces))])
    if len(selector) > MAX_SELECTOR:
        raise RequestRefused(
            f"the response selector has {len(selector)} characters with its values, expected at most "
            f"{MAX_SELECTOR}"
        )
    return selector


def _quote_values(pieces: Sequence[str], index: int, values: Sequence[Value]) -> str:
    """Returns a piece of the text with its values. Strings are at odd indexes, all else at even indexes."""
    piece = pieces[index]
    if index % 2 == 0:
        return _MARKER.sub(lambda found: _unquoted_text(values[int(found[1])], found), piece)
    if "\0" not in piece:
        return piece
    if is_quote_open(piece):
        raise RequestRefused("the quote before a value is not closed in the response selector")
    if _LIKE.search(pieces[index - 1]):
        has_escape = _ESCAPE.fullmatch(pieces[index + 1]) and index + 2 < len(pieces)
        return _pattern(piece[1:-1], values, pieces[index + 2] if has_escape else None)
    return _MARKER.sub(lambda found: _text(values[int(found[1])]).replace("'", "''"), piece)


def _text(value: Value) -> str:
    """Returns a value as the text that stands in quotes."""
    found = value.value
    match found:
        case str():
            if not _HALF_CHARACTER.search(found):
                return found
            reason = "has half a character (a lone surrogate): no provider takes it"
        case bool():
            return "true" if found else "false"
        case float():
            if math.isfinite(found):
                return repr(found).replace("e", "E")
            reason = "is no finite number, and a selector has no other"
        case Decimal() if "." in (digits := text_of(found)) or -_LONG < found < _LONG:
            return digits
        case int() | Decimal():
            # The smallest long is left out: providers read the digits before the sign.
            if isinstance(found, int) and -_LONG < found < _LONG:
                return str(found)
            reason = "is beyond 64 bits, and a selector has no such number"
        case None:
            reason = "has no value: the response selector needs one"
        case _:
            what = "a list" if isinstance(found, list | tuple) else "an object"
            reason = f"is {what}: a response selector takes single values"
    raise RequestRefused(f"{value.label} {reason}")


def _unquoted_text(value: Value, place: re.Match[str]) -> str:
    text = _text(value)
    if isinstance(value.value, str):
        raise RequestRefused(
            f"{value.label} is a text and stands outside quotes in the response selector: put '...' around it"
        )
    if isinstance(value.value, bool):
        return text.upper()
    # Two signs in a row begin a comment in the selectors of some providers.
    after_minus = place.string[: place.start()].endswith("-") and text.startswith("-")
    return f" {text}" if after_minus else text


def _pattern(body: str, values: Sequence[Value], escape: str | None) -> str:
    """Returns the quoted pattern of a LIKE, and an ESCAPE if the pattern needs a new one.

    Args:
        body: the pattern without its quotes, with markers.
        escape: the string of the ESCAPE that stands behind the pattern. None if there is none.
    """
    parts = _MARKER.split(body)  # text, number, text, number, text
    written = [part.replace("''", "'") for part in parts[::2]]
    inserted = [values[int(number)] for number in parts[1::2]]
    texts = [_text(value) for value in inserted]
    added = character = ""
    if escape is not None:
        character = escape[1:-1].replace("''", "'")
        if len(character) != 1:
            raise RequestRefused("ESCAPE takes one character in the response selector")
        for part, value in zip(written, inserted, strict=False):
            if (len(part) - len(part.rstrip(character))) % 2:
                raise RequestRefused(
                    f"an escape character stands before {value.label} in the response selector: take it out, "
                    "the value is escaped by itself"
                )
    elif any("%" in text or "_" in text for text in texts):
        whole = "".join((*written, *texts))
        unused = (candidate for candidate in _ESCAPE_CHARACTERS if candidate not in whole)
        character = next(unused, _ESCAPE_CHARACTERS[0])
        # Has an effect only if all escape characters are in use.
        written = [part.replace(character, character * 2) for part in written]
        added = f" ESCAPE '{character}'"
    if character:
        special = re.compile(f"[%_{re.escape(character)}]")
        texts = [special.sub(lambda found: character + found[0], text) for text in texts]
    parts[::2], parts[1::2] = written, texts
    return "'{}'{}".format("".join(parts).replace("'", "''"), added)
