"""The functions of expressions: those of JMESPath with exact numbers, and ours.

A wrong argument is an :class:`ExpressionFailed`, which names the argument as the expression has it.
"""

from __future__ import annotations

import datetime
import operator
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from jmespath import functions
from jmespath.exceptions import JMESPathError, JMESPathTypeError

from connector.businessobjects import exact_numbers
from connector.businessobjects.dates import instant, read_time
from connector.businessobjects.exact_numbers import Number
from connector.businessobjects.lookups import NO_LOOKUPS, Lookups
from connector.businessobjects.types import describe, is_date, text_of
from connector.text.decimals import from_number
from connector.text.json_text import to_json_text

MAX_PLACES: Final = 1000
_MAX_WIDTH: Final = 100_000
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,300}")
_A_FORMAT: Final = re.compile(r"%(.?)", re.DOTALL)

DATE_PARTS: Final[dict[str, Callable[[datetime.datetime], str]]] = {
    "Y": lambda time: f"{time.year:04}",
    "y": lambda time: f"{time.year % 100:02}",
    "m": lambda time: f"{time.month:02}",
    "d": lambda time: f"{time.day:02}",
    "H": lambda time: f"{time.hour:02}",
    "I": lambda time: f"{(time.hour + 11) % 12 + 1:02}",
    "p": lambda time: "AM" if time.hour < 12 else "PM",
    "M": lambda time: f"{time.minute:02}",
    "S": lambda time: f"{time.second:02}",
    "f": lambda time: f"{time.microsecond:06}",
    "z": lambda time: time.strftime("%z"),
    "%": lambda time: "%",
}
"""The parts of a format of ``date``, as in ``strftime``."""

KINDS: Final = {
    "string": "a text",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
    "expref": "an &expression",
    "array-string": "a list of texts",
    "array-number": "a list of numbers",
}
"""From a type of JMESPath to the words for it in an error."""


class ExpressionFailed(JMESPathError):  # type: ignore[misc]  # the library has no types
    """An expression cannot be evaluated for a document. The text names the part, the found, the expected.

    Args:
        function_name: the function that got a wrong argument. Empty = a comparison.
    """

    def __init__(self, text: str, function_name: str = "") -> None:
        super().__init__(text)
        self.function_name = function_name


class _Wrong(Exception):
    """An argument that a function cannot take."""

    def __init__(self, number: int, expected: str) -> None:
        super().__init__(expected)
        self.number = number
        self.expected = expected


class Argument(NamedTuple):
    """An argument of a function, as the expression has it.

    Args:
        parts: of a list that the expression makes. Empty = another expression.
    """

    text: str
    parts: tuple[str, ...] = ()


class Arguments(tuple[Argument, ...]):
    """The arguments of a call. They stand behind the last argument, as a literal."""

    __slots__ = ()


class TypedComparison(NamedTuple):
    """A comparison in an expression whose types are known. Stands in place of the name of a function.

    Args:
        operator: ``eq``, ``ne``, ``lt``, ``lte``, ``gt``, ``gte``.
        is_date: whether instants are compared.
    """

    operator: str
    is_date: bool


def _takes(*types: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares the types of the arguments, several with ``|`` between them. Empty = any."""
    declared: Callable[[Callable[..., Any]], Callable[..., Any]] = functions.signature(
        *({"types": one.split("|") if one else []} for one in types)
    )
    return declared


class Functions(functions.Functions):  # type: ignore[misc]  # the library has no types
    """The functions of one expression.

    Args:
        lookups: the tables of ``lookup``.
        is_secret: whether no error may show a text, because the expression has a Ciphertext.
    """

    def __init__(self, lookups: Lookups = NO_LOOKUPS, *, is_secret: bool = False) -> None:
        super().__init__()
        self._tables = lookups.tables
        self._is_secret = is_secret

    def call_function(self, function_name: Any, resolved_args: Sequence[Any]) -> Any:
        """Calls a function. The last of the arguments holds their texts."""
        *values, names = resolved_args
        if isinstance(function_name, TypedComparison):
            return self._compare(function_name, values, names)
        self._check(function_name, values, names)
        try:
            return super().call_function(function_name, values)
        except _Wrong as wrong:
            found, name = values[wrong.number], names[wrong.number].text
            raise self._failure(name, found, wrong.expected, function_name) from None
        except JMESPathTypeError as error:  # of the values that an &expression finds
            found = KINDS.get(error.actual_type, "another value")
            expected = " or ".join(KINDS.get(one, one) for one in error.expected_types)
            text = f"{names[-1].text}: found {found}, expected {expected} in {function_name}()"
            raise ExpressionFailed(text, function_name) from None

    def _failure(self, name: str, value: Any, expected: str, function: str = "") -> ExpressionFailed:
        found = "a text" if self._is_secret and isinstance(value, str) else describe(value)
        place = f" in {function}()" if function else ""
        return ExpressionFailed(f"{name}: found {found}, expected {expected}{place}", function)

    def _check(self, function: str, values: Sequence[Any], names: Arguments) -> None:
        """Checks the types of arguments, so that the error names the wrong one."""
        signature = self.FUNCTION_TABLE[function]["signature"] if function in self.FUNCTION_TABLE else ()
        for value, name, declared in zip(values, names, signature, strict=False):
            types = declared["types"]
            if not types:
                continue
            expected = " or ".join(KINDS[one] for one in types)
            if kind_of(value) not in {one.partition("-")[0] for one in types}:
                raise self._failure(name.text, value, expected, function)
            inner = {one.partition("-")[2] for one in types if "-" in one}
            for index, element in enumerate(value if inner and isinstance(value, list) else ()):
                if kind_of(element) not in inner:
                    part = name.parts[index] if index < len(name.parts) else f"{name.text}[{index}]"
                    raise self._failure(part, element, KINDS[min(inner)], function)

    # --- comparisons --------------------------------------------------------------------------

    def _compare(self, comparison: TypedComparison, values: Sequence[Any], names: Arguments) -> bool | None:
        compare: Callable[[Any, Any], bool] = getattr(operator, _OPERATORS[comparison.operator])
        is_equality = comparison.operator in ("eq", "ne")
        if any(value is None or value == "" for value in values):
            if is_equality:
                return compare(*values)
            return None
        if comparison.is_date:
            return compare(*self._instants(values, names))
        kinds = [kind_of(value) for value in values]
        if not set(kinds) <= {"string", "number"}:
            return None  # as JMESPath says
        if kinds[0] != kinds[1]:
            expected = f"{KINDS[kinds[1]]}, which {names[1].text} is"
            raise self._failure(names[0].text, values[0], expected)
        return compare(*values)

    def _instants(self, values: Sequence[Any], names: Arguments) -> list[Any]:
        found = []
        for value, name in zip(values, names, strict=True):
            if not isinstance(value, str) or not is_date(value):
                raise self._failure(name.text, value, "a Date")
            found.append(instant(value))
        zones = [one.moment.tzinfo is not None for one in found]
        if zones[0] != zones[1]:
            at = zones.index(True)
            expected = f"a Date without a zone, as {names[1 - at].text} has none"
            raise self._failure(names[at].text, values[at], expected)
        return found

    # --- functions of JMESPath that would make floats of numbers ------------------------------

    @_takes("")
    def _func_to_string(self, arg: Any) -> Any:
        return arg if isinstance(arg, str) else to_json_text(inexact(arg))

    @_takes("")
    def _func_to_number(self, arg: Any) -> Any:
        if isinstance(arg, Number) or (isinstance(arg, int) and not isinstance(arg, bool)):
            return arg
        number = number_of(arg.strip()) if isinstance(arg, str) else None
        return int(number) if number is not None and _WHOLE.fullmatch(arg.strip()) else number

    @_takes("")
    def _func_type(self, arg: Any) -> Any:
        return "number" if isinstance(arg, Number) else super()._func_type(arg)

    # --- numbers ------------------------------------------------------------------------------

    @_takes("number", "number")
    def _func_add(self, left: Any, right: Any) -> Any:
        return exact_numbers.add(left, right)

    @_takes("number", "number")
    def _func_subtract(self, left: Any, right: Any) -> Any:
        return exact_numbers.subtract(left, right)

    @_takes("number", "number")
    def _func_multiply(self, left: Any, right: Any) -> Any:
        return exact_numbers.multiply(left, right)

    @_takes("number", "number", "number")
    def _func_divide(self, left: Any, right: Any, scale: Any) -> Any:
        if not right:
            raise _Wrong(1, "another number than 0")
        return exact_numbers.divide(left, right, _whole(2, scale, MAX_PLACES))

    @_takes("number", "number")
    def _func_round(self, value: Any, scale: Any) -> Any:
        return exact_numbers.round_half_up(value, _whole(1, scale, MAX_PLACES))

    # --- texts --------------------------------------------------------------------------------

    @_takes("string")
    def _func_upper(self, text: str) -> str:
        return text.upper()

    @_takes("string")
    def _func_lower(self, text: str) -> str:
        return text.lower()

    @_takes("string")
    def _func_trim(self, text: str) -> str:
        return text.strip()

    @_takes("string", "number", "number")
    def _func_substring(self, text: str, start: Any, length: Any) -> str:
        first = _whole(1, start)
        return text[first : first + _whole(2, length)]

    @_takes("string", "string", "string")
    def _func_replace(self, text: str, old: str, new: str) -> str:
        if not old:
            raise _Wrong(1, "a text that is not empty")
        return text.replace(old, new)

    @_takes("string", "string")
    def _func_split(self, text: str, separator: str) -> list[str]:
        if not separator:
            raise _Wrong(1, "a text that is not empty")
        return text.split(separator)

    @_takes("string", "number", "string")
    def _func_pad(self, text: str, width: Any, fill: str) -> str:
        if len(fill) != 1:
            raise _Wrong(2, "one character")
        wanted = _whole(1, abs(width), _MAX_WIDTH)
        return text.rjust(wanted, fill) if width > 0 else text.ljust(wanted, fill)

    # --- dates, null, tables ------------------------------------------------------------------

    @_takes("string", "string")
    def _func_date(self, value: str, format: str) -> str:
        if not value or not is_date(value):
            raise _Wrong(0, "a Date")
        if mistake := format_mistake(format):
            raise _Wrong(1, mistake)
        try:
            time = read_time(value)
        except ValueError as error:
            raise _Wrong(0, str(error)) from None
        return _A_FORMAT.sub(lambda part: DATE_PARTS[part[1]](time), format)

    @_takes("", "")
    def _func_default(self, value: Any, other: Any) -> Any:
        return other if value is None else value

    @_takes("string", "string|number|boolean|null")
    def _func_lookup(self, file: str, value: Any) -> str | None:
        table = self._tables.get(file)
        if table is None:
            raise _Wrong(0, "the name of a CSV file, as a literal,")
        return None if value is None else table.get(text_of(value))


_OPERATORS: Final = {"eq": "eq", "ne": "ne", "lt": "lt", "lte": "le", "gt": "gt", "gte": "ge"}

SIGNATURES: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    name: entry["signature"] for name, entry in Functions.FUNCTION_TABLE.items()
}
"""The types of the arguments of each function, by its name."""


def kind_of(value: Any) -> str:
    """Returns the type of a value in JMESPath."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float | Decimal):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object" if isinstance(value, dict) else "expref"


def format_mistake(format: str) -> str:
    """Returns what is expected in place of a format of ``date``. Empty = the format is right."""
    wrong = any(part not in DATE_PARTS for part in _A_FORMAT.findall(format))
    return f"a format with some of %{' %'.join(DATE_PARTS)}" if wrong else ""


def _whole(argument: int, value: Any, most: int | None = None) -> int:
    if value < 0 or value != int(value) or (most is not None and value > most):
        raise _Wrong(argument, "a whole number from 0 up" if most is None else f"a whole number up to {most}")
    return int(value)


def number_of(text: str) -> Number | None:
    """Returns a number. None = the text is none, or has an exponent that is too large for a Decimal."""
    try:
        found = from_number(text)
    except ValueError:
        return None
    return Number.of(found) if isinstance(found, Decimal) else None


def inexact(value: Any) -> Any:
    """Returns a value of an expression with the types that the document had."""
    if isinstance(value, dict):
        return {name: inexact(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [inexact(inner) for inner in value]
    if isinstance(value, Number):
        return float(value) if value.is_float else Decimal(value)
    return value
