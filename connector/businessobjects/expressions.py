"""JMESPath with exact numbers.

The library reads numbers as floats. Here a number with a point or an exponent keeps its digits, in the
document and in the literals of an expression. So ``price`` equals the literal 0.10 if it is 0.1, and no other
number. Sums are exact, and averages have 50 digits.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from functools import lru_cache
from typing import Any, Final

import jmespath
from jmespath import functions
from jmespath.lexer import Lexer
from jmespath.parser import ParsedResult

from connector.text.decimals import ExactFloat, ExactInteger, from_number
from connector.text.json_text import to_json_text

_EXACT: Final = Context(prec=1_000_000, Emax=MAX_EMAX, Emin=MIN_EMIN)
_QUOTIENT: Final = Context(prec=50, Emax=MAX_EMAX, Emin=MIN_EMIN)
_LITERAL: Final = re.compile(r"`((?:\\.|[^`\\])*)`", re.DOTALL)
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,300}")
_counter: Final = itertools.count()


class Number(Decimal):
    """A number in an expression. ``is_float`` says that the number comes from a float."""

    is_float = False

    @classmethod
    def of(cls, value: Decimal | str, *, is_float: bool = False) -> Number:
        made = cls(value)
        made.is_float = is_float
        return made

    def _with(self, other: object, result: Decimal) -> Number:
        return Number.of(result, is_float=self.is_float or getattr(other, "is_float", False))

    def __add__(self, other: Any) -> Number:
        return self._with(other, _EXACT.add(self, other))

    __radd__ = __add__

    def __truediv__(self, other: Any) -> Number:
        return self._with(other, _QUOTIENT.divide(self, other))

    def __abs__(self) -> Number:
        return self._with(self, self.copy_abs())


Number.__name__ = "float"  # the name by which the library knows a number


_of_any_type: Final[Callable[[Callable[..., Any]], Callable[..., Any]]] = functions.signature({"types": []})


class _Functions(functions.Functions):  # type: ignore[misc]  # the library has no types
    """The functions that would make floats of numbers."""

    @_of_any_type
    def _func_to_string(self, arg: Any) -> Any:
        return arg if isinstance(arg, str) else to_json_text(_inexact(arg))

    @_of_any_type
    def _func_to_number(self, arg: Any) -> Any:
        if isinstance(arg, Number) or (isinstance(arg, int) and not isinstance(arg, bool)):
            return arg
        number = _number(arg.strip()) if isinstance(arg, str) else None
        return int(number) if number is not None and _WHOLE.fullmatch(arg.strip()) else number

    @_of_any_type
    def _func_type(self, arg: Any) -> Any:
        return "number" if isinstance(arg, Number) else super()._func_type(arg)


_OPTIONS: Final = jmespath.Options(custom_functions=_Functions())


class Expression:
    """A JMESPath expression. Made by :func:`compile_expression`."""

    def __init__(self, parsed: ParsedResult) -> None:
        self._parsed = parsed

    @property
    def parsed(self) -> Mapping[str, Any]:
        """The syntax tree."""
        tree: Mapping[str, Any] = self._parsed.parsed
        return tree

    def search(self, document: Any) -> Any:
        """Returns the value that the expression finds. None = none.

        Args:
            document: values of JSON. Numbers may be a Decimal, or an :class:`ExactFloat` that JSON had.

        Raises:
            jmespath.exceptions.JMESPathError: a function got an argument of the wrong type, for example.
        """
        try:
            return _inexact(self._parsed.search(_exact(document), _OPTIONS))
        except (jmespath.exceptions.JMESPathError, MemoryError):
            raise
        except Exception as error:  # such as the OverflowError of floor() for infinity
            text = f"{type(error).__name__}: {error}"
            raise jmespath.exceptions.JMESPathError(text) from error


@lru_cache(maxsize=1024)
def compile_expression(text: str) -> Expression:
    """Reads an expression.

    Raises:
        jmespath.exceptions.JMESPathError: the text is no expression.
    """
    jmespath.compile(text)  # errors name places of the text as it is written
    pieces: list[str] = []
    literals: dict[str, Any] = {}
    end = 0
    for token in Lexer().tokenize(text):
        found = _LITERAL.match(text, token["start"]) if token["type"] == "literal" else None
        if found is not None and _has_float(token["value"]) and (wrong := _constant_in(found[1])):
            raise jmespath.exceptions.LexerError(
                token["start"], wrong, f"{wrong} is no number of JSON", expression=text
            )
        if found is not None and _has_float(token["value"]):
            name = f"number {next(_counter)}"  # of its own, because the library keeps what it has read
            literals[name] = _exact(json.loads(found[1].replace("\\`", "`"), parse_float=ExactFloat))
            pieces += [text[end : found.start()], f'`"{name}"`']
            end = found.end()
    parsed = jmespath.compile("".join([*pieces, text[end:]]))
    if literals:
        _put(parsed.parsed, literals)
    return Expression(parsed)


def _constant_in(literal: str) -> str:
    """Returns NaN, Infinity or -Infinity if a literal has it: Python reads them, and JSON has none."""
    found: list[str] = []
    json.loads(literal.replace("\\`", "`"), parse_constant=found.append)
    return found[0] if found else ""


def _put(node: Any, literals: Mapping[str, Any]) -> None:
    """Puts the exact literals into a syntax tree."""
    if node["type"] == "literal" and isinstance(node["value"], str) and node["value"] in literals:
        node["value"] = literals[node["value"]]
    for child in node["children"]:
        if isinstance(child, dict):
            _put(child, literals)


def _has_float(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_float, value.values()))
    return any(map(_has_float, value)) if isinstance(value, list) else isinstance(value, float)


def _exact(value: Any) -> Any:
    """Returns a document whose numbers are exact."""
    if isinstance(value, dict):
        return {name: _exact(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_exact(inner) for inner in value]
    if isinstance(value, ExactFloat | ExactInteger):
        return _number(value.text)
    if isinstance(value, Decimal):
        return Number.of(value)
    if isinstance(value, float) and math.isfinite(value):
        return Number.of(repr(value), is_float=True)
    return value


def _number(text: str) -> Number | None:
    """Returns a number. None = the text is none, or has an exponent that is too large for a Decimal."""
    try:
        found = from_number(text)
    except ValueError:
        return None
    return Number.of(found) if isinstance(found, Decimal) else None


def _inexact(value: Any) -> Any:
    """Returns what was found, with the types that the document had."""
    if isinstance(value, dict):
        return {name: _inexact(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_inexact(inner) for inner in value]
    if isinstance(value, Number):
        return float(value) if value.is_float else Decimal(value)
    return value
