"""The types of single values: how each is read, checked, written and described.

Every value type annotates fields of sections. A reader gets the text as
written in the file, so the result does not depend on the types of YAML.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from connector.declare.tree import Leaf, kind_of
from connector.limits.free_space import MinFree
from connector.messaging.numbers import read_whole
from connector.text.durations import UNITS, read_duration
from connector.text.names import nearest, shown

_REFERENCE: Final[dict[str, Any]] = {"type": "string", "pattern": r"\$\{"}
"""A reference to the environment, for the schema of an editor."""


@dataclass(frozen=True, eq=False)
class ValueType:
    """A type of single value: the metadata of an ``Annotated`` field.

    Args:
        read: returns the value of a :class:`Leaf`. Raises an error of :func:`refuse`.
        write: returns the value in the form of the file.
        label: the name in the generated reference.
    """

    read: Callable[[object], Any]
    write: Callable[[Any], Any]
    schema: dict[str, Any]
    label: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read, serialization=self._serialization())

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return dict(self.schema)

    def _serialization(self) -> core_schema.PlainSerializerFunctionSerSchema:
        return core_schema.plain_serializer_function_ser_schema(self.write)


def refuse(found: str, expected: str, near: str | None = None, *, offset: int = 0) -> PydanticCustomError:
    """Returns an error that becomes a :class:`connector.errors.Problem`.

    Args:
        offset: the position of the mistake within the text.
    """
    return PydanticCustomError(
        "refused", "{found}", {"found": found, "expected": expected, "nearest": near, "offset": offset}
    )


def as_found(value: object) -> str:
    """Returns a value for an error text. For a value from the environment, only the reference is shown."""
    if isinstance(value, Leaf):
        return f"{shown(value.raw)} from the environment" if value.from_environment else shown(value)
    return kind_of(value)


def leaf(value: object, expected: str) -> Leaf:
    """Returns the value as a single text.

    Raises:
        PydanticCustomError: the value is a mapping or a list.
    """
    if isinstance(value, Leaf):
        return value
    raise refuse(kind_of(value), expected)


# --- texts -----------------------------------------------------------------------------------


def _read_text(value: object) -> str:
    text = leaf(value, "a text")
    if not text.strip():
        raise refuse("an empty text", "a text")
    return str(text)


def text_type(label: str = "text") -> ValueType:
    """Returns the value type for an unchanged text that is not empty."""
    return ValueType(_read_text, str, {"type": ["string", "number", "boolean"]}, label)


Text = Annotated[str, text_type()]

_NAME: Final = re.compile(r"[^\W][\w.@+-]*(?: [\w.@+-]+)*\Z")


def _read_directory_name(value: object) -> str:
    expected = "letters, digits and . _ - only, at most 100 bytes; it becomes the name of a directory"
    name = leaf(value, expected)
    if not _NAME.match(name) or ".." in name or len(name.encode()) > 100:
        raise refuse(as_found(name), expected)
    return str(name)


DirectoryName = Annotated[str, ValueType(_read_directory_name, str, {"type": ["string", "number"]}, "name")]


def choice(*values: str) -> ValueType:
    """Returns the value type for a choice of words. Upper and lower case count."""
    words = " | ".join(values)

    def read(value: object) -> str:
        word = leaf(value, words)
        if word in values:
            return str(word)
        raise refuse(as_found(word), words, nearest(word, values))

    return ValueType(read, str, {"anyOf": [{"enum": [*values]}, _REFERENCE]}, words)


def _read_boolean(value: object) -> bool:
    word = leaf(value, "true or false")
    if word.casefold() in ("true", "false"):
        return word.casefold() == "true"
    raise refuse(as_found(word), "true or false")


Boolean = Annotated[
    bool,
    ValueType(_read_boolean, bool, {"anyOf": [{"type": "boolean"}, _REFERENCE]}, "true | false"),
]


_JMS_OR_NONE: Final = choice("none", "JMS")
CONTAINER_MANAGED: Final = ValueType(
    lambda value: bool(_JMS_OR_NONE.read(value) == "JMS"),
    lambda value: "JMS" if value else "none",
    _JMS_OR_NONE.schema,
    _JMS_OR_NONE.label,
)
"""``JMS`` or ``none``, a switch of WBI Adapter for JMS."""


# --- numbers ---------------------------------------------------------------------------------


def integer(
    minimum: int, unit: str = "", *, none: str | None = None, maximum: int | None = None
) -> ValueType:
    """Returns the value type for a whole number. ``none`` is the word for None."""
    limits = f"from {minimum} up" if maximum is None else f"from {minimum} to {maximum}"
    expected = f"a whole number {limits}" + (f" ({unit})" if unit else "") + (f", or {none}" if none else "")

    def read(value: object) -> int | None:
        number = leaf(value, expected)
        if none is not None and number.casefold() == none:
            return None
        try:
            result = read_whole(number)
        except ValueError:
            raise refuse(as_found(number), expected) from None
        if result < minimum or (maximum is not None and result > maximum):
            raise refuse(as_found(number), expected)
        return result

    number: dict[str, Any] = {"type": "integer", "minimum": minimum}
    if maximum is not None:
        number["maximum"] = maximum
    any_of = [number, _REFERENCE]
    if none is not None:
        any_of.append({"enum": [none, False] if none == "no" else [none]})
    label = (unit or "whole number") + (f" | {none}" if none else "")
    return ValueType(read, lambda value: none if value is None else value, {"anyOf": any_of}, label)


def _read_minutes(value: object) -> float:
    expected = "minutes, a number from 0 up"
    number = leaf(value, expected)
    if not re.match(r"[0-9]{1,9}(\.[0-9]{1,9})?\Z", number):
        raise refuse(as_found(number), expected)
    return float(number)


Minutes = Annotated[
    float,
    ValueType(
        _read_minutes,
        lambda value: int(value) if value == int(value) else value,
        {"anyOf": [{"type": "number", "minimum": 0}, _REFERENCE]},
        "minutes",
    ),
]


def write_duration(seconds: float) -> str:
    """Returns the shortest text for a number of seconds."""
    for unit in ("d", "h", "m", "s"):
        if seconds and seconds % UNITS[unit] == 0:
            return f"{int(seconds / UNITS[unit])}{unit}"
    milliseconds = round(seconds * 1000, 6)
    return f"{milliseconds:g}ms" if milliseconds else "0s"


def duration(*, none: str | None = None, zero: bool = False) -> ValueType:
    """Returns the value type for seconds, written ``500ms 30s 5m 2h 7d``.

    Args:
        none: the word for None.
        zero: whether ``0`` is allowed.
    """
    words = [f"{none}"] if none else []
    words += ["0"] if zero else []
    expected = "a duration such as 500ms, 30s, 5m, 2h or 7d" + "".join(f", or {word}" for word in words)

    def read(value: object) -> float | None:
        written = leaf(value, expected)
        if none is not None and written == none:
            return None
        seconds = read_duration(written)
        if seconds is None and not (zero and written == "0"):
            raise refuse(as_found(written), expected)
        if not seconds and not zero:
            raise refuse(as_found(written), expected.replace("a duration", "a duration above 0"))
        return seconds or 0.0

    def write(value: float | None) -> Any:
        if value is None:
            return none
        return 0 if zero and not value else write_duration(value)

    pattern = r"^([0-9.]+(ms|s|m|h|d)|0" + (f"|{none}" if none else "") + r")$|\$\{"
    schema: dict[str, Any] = {"type": "string", "pattern": pattern}
    if zero:
        schema = {"anyOf": [schema, {"const": 0}]}
    return ValueType(read, write, schema, "duration" + "".join(f" | {word}" for word in words))


_RATE_EXPECTED: Final = "messages a second, minute or hour, such as 50/s, 50/m or 50/h"
_RATE_UNITS: Final = {"h": 3600, "m": 60, "s": 1}


def _read_rate(value: object) -> float:
    written = leaf(value, _RATE_EXPECTED)
    match = re.match(r"([1-9][0-9]{0,8})/([smh])\Z", written)
    if not match:
        raise refuse(as_found(written), _RATE_EXPECTED)
    return int(match[1]) / _RATE_UNITS[match[2]]


def _write_rate(rate: float | None) -> str | None:
    if rate is None:
        return None
    numbers = {unit: rate * seconds for unit, seconds in _RATE_UNITS.items()}
    unit = [one for one, number in numbers.items() if abs(number - round(number)) < 1e-6][-1]
    return f"{round(numbers[unit])}/{unit}"


RATE: Final = ValueType(
    _read_rate, _write_rate, {"type": "string", "pattern": r"^[1-9][0-9]*/[smh]$|\$\{"}, "rate"
)

_BYTES: Final = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def write_size(number: int) -> str:
    """Returns the shortest text for a number of bytes."""
    for unit in ("GiB", "MiB", "KiB"):
        if number % _BYTES[unit] == 0:
            return f"{number // _BYTES[unit]}{unit}"
    return f"{number}B"


def size(*, none: str | None = None, least: int = 1) -> ValueType:
    """Returns the value type for bytes, written ``64KiB 16MiB 1GiB``.

    Args:
        none: the word for None.
        least: the smallest size.
    """
    expected = "a size above 0 such as 64KiB, 16MiB or 1GiB"
    if least > 1:
        expected = f"a size from {write_size(least)} up, such as 512MiB or 2GiB"
    if none is not None:
        expected += f", or {none}"

    def read(value: object) -> int | None:
        written = leaf(value, expected)
        if none is not None and written == none:
            return None
        match = re.match(r"([0-9]{1,15})(B|KiB|MiB|GiB|)\Z", written)
        number = int(match[1]) * _BYTES[match[2]] if match else 0
        if number < least:
            raise refuse(as_found(written), expected)
        return number

    pattern = r"^[0-9]+(B|KiB|MiB|GiB)?$" + (f"|^{none}$" if none else "") + r"|\$\{"
    return ValueType(
        read,
        lambda value: none if value is None else write_size(value),
        {"anyOf": [{"type": "string", "pattern": pattern}, {"type": "integer"}]},
        "size" + (f" | {none}" if none else ""),
    )


Size = Annotated[int, size()]

_SHARE: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%\Z")
_DISK_SIZE: Final = re.compile(r"([0-9]{1,15})([KMGT]?)(i?)B?\Z")
_FREE_EXPECTED: Final = "a share of the disk such as 1%, or a size such as 500MB or 2GiB"


def _read_min_free(value: object) -> MinFree:
    written = leaf(value, _FREE_EXPECTED)
    if (match := _SHARE.match(written)) and float(match[1]) <= 100:
        return MinFree(percent=float(match[1]))
    if (match := _DISK_SIZE.match(written)) and (match[2] or not match[3]):
        return MinFree(size=int(match[1]) * (1024 if match[3] else 1000) ** " KMGT".index(match[2] or " "))
    raise refuse(as_found(written), _FREE_EXPECTED)


MIN_FREE: Final = ValueType(
    _read_min_free,
    lambda value: f"{value.percent:g}%" if value.percent else write_size(value.size),
    {"anyOf": [{"type": "string", "pattern": r"^[0-9.]+%$|^[0-9]+([KMGT]i?)?B?$|\$\{"}, {"type": "integer"}]},
    "share | size",
)


def _read_time(value: object) -> datetime.time:
    expected = 'a time of day, "HH:MM"'
    written = leaf(value, expected)
    match = re.match(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?\Z", written)
    try:
        if match:
            return datetime.time(int(match[1]), int(match[2]), int(match[3] or 0))
    except ValueError:
        pass
    raise refuse(as_found(written), expected)


TimeOfDay = Annotated[
    datetime.time,
    ValueType(
        _read_time,
        lambda value: value.isoformat("auto" if value.second else "minutes"),
        # Readers of YAML 1.1 make a number of an unquoted 22:00.
        {
            "anyOf": [
                {"type": "string", "pattern": r"^[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?$|\$\{"},
                {"type": "integer", "minimum": 0, "maximum": 86399},
            ]
        },
        "HH:MM",
    ),
]


# --- paths -----------------------------------------------------------------------------------


def resolve(text: str, directory: Path) -> Path:
    """Returns the path that ``text`` means in a file of ``directory``."""
    return directory / Path(text).expanduser()


@dataclass(frozen=True, eq=False)
class PathType(ValueType):
    """A path that counts from the directory of the file."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def read(value: object, info: ValidationInfo) -> Path:
            context: dict[str, Any] = info.context or {}
            return resolve(_read_text(value), context["directory"])

        return core_schema.with_info_plain_validator_function(read, serialization=self._serialization())


PathName = Annotated[Path, PathType(_read_text, str, {"type": "string"}, "path")]


AS_WRITTEN: Final = ValueType(
    lambda value: leaf(value, "a single value"),
    lambda value: "" if value is None else str(value),
    {"type": ["string", "number", "boolean", "null"]},
    "as its use demands",
)
"""The :class:`Leaf` itself, for values whose type is known only later."""


def _read_option(value: object) -> Any:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    for one in inner:
        leaf(one, "a single value, or a list or a mapping of single values")
    return value


OPTION: Final = ValueType(
    _read_option,
    lambda value: value,
    {
        "anyOf": [
            AS_WRITTEN.schema,
            {"type": "array", "items": AS_WRITTEN.schema},
            {"type": "object", "additionalProperties": AS_WRITTEN.schema},
        ]
    },
    "as its use demands",
)
"""A :class:`Leaf`, or a list or a mapping of leaves, for options whose type is known only later."""


def split_list(value: object) -> Any:
    """Splits a text with ``;`` between its entries, as in WBI Adapter for JMS. Returns a list unchanged."""
    if not isinstance(value, Leaf):
        return value
    pieces, offset = [], 0
    for piece in value.split(";"):
        text = piece.strip()
        if text:
            position = value.place(offset + len(piece) - len(piece.lstrip()))
            raw = value.raw if value.from_environment else None
            pieces.append(Leaf.of(text, position, raw=raw, quote=None))
        offset += len(piece) + 1
    return pieces


def one_or_list(value: object) -> Any:
    """Makes a list of a single value. Returns a list unchanged."""
    return [value] if isinstance(value, Leaf) else value


def words(values: Sequence[str]) -> str:
    """Joins words for a text: ``a, b or c``."""
    if len(values) < 2:
        return "".join(values)
    return f"{', '.join(values[:-1])} or {values[-1]}"
