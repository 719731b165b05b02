"""Values that name their JMS type, for map and stream messages and for properties (JMS 2.0, 3.11.3).

A plain value of Python has the type natural to it (:func:`natural_type`)::

    session.send("queue://orders", {"Quantity": Short(7), "Price": Float(1.5), "Number": 7})

Each class is a subclass of int, float or str, so a value is used like any other. The body of a message is
plain JSON. The types that are not natural stand in the property :data:`TYPES` of the message, in the shape of
the body: ``{"Quantity":"short","Price":"float"}``. A broker gets no such property, because its values have
types themselves.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

TYPES: Final = "connector_types"
"""The property with the types of the values in a map or stream message."""

INTEGER_BITS: Final = {"byte": 8, "short": 16, "int": 32, "long": 64}


def check_whole(kind: str, value: int) -> int:
    """Returns a whole number of a JMS type. Raises ValueError if it has more bits than the type."""
    bits = INTEGER_BITS[kind]
    if -(1 << bits - 1) <= value < 1 << bits - 1:
        return value
    raise ValueError(f"{value} does not fit a {kind} ({bits} bits)")


def to_float(value: float) -> float:
    """Returns the nearest number of 32 bits. Raises ValueError if the value is too large for one."""
    if math.isnan(value) or math.isinf(value):
        return value
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        raise ValueError(f"{value} does not fit a float (32 bits)") from None


class _Whole(int):
    kind: ClassVar[str]

    def __new__(cls, value: int) -> Self:
        """Raises TypeError for anything but a whole number, and ValueError for one with too many bits."""
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{value!r} is no whole number")
        return super().__new__(cls, check_whole(cls.kind, value))


class Byte(_Whole):
    """A whole number of 8 bits."""

    kind = "byte"


class Short(_Whole):
    """A whole number of 16 bits."""

    kind = "short"


class Int(_Whole):
    """A whole number of 32 bits, as a plain int that fits."""

    kind = "int"


class Long(_Whole):
    """A whole number of 64 bits."""

    kind = "long"


class _Number(float):
    kind: ClassVar[str]

    def __new__(cls, value: float) -> Self:
        """Raises TypeError for anything but a number, and ValueError for a number that is too large."""
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise TypeError(f"{value!r} is no number")
        try:
            number = float(value)
        except OverflowError:
            raise ValueError(f"the number does not fit a {cls.kind}") from None
        return super().__new__(cls, to_float(number) if cls.kind == "float" else number)


class Float(_Number):
    """A number of 32 bits. The value is the nearest one."""

    kind = "float"


class Double(_Number):
    """A number of 64 bits, as a plain float."""

    kind = "double"


class Char(str):
    """A single character of 16 bits."""

    kind: ClassVar[str] = "char"

    __slots__ = ()

    def __new__(cls, value: str) -> Self:
        """Raises TypeError for anything but a text, and ValueError for one that is no single character."""
        if not isinstance(value, str):
            raise TypeError(f"{value!r} is no text")
        if len(value) != 1 or ord(value) > 0xFFFF or 0xD800 <= ord(value) <= 0xDFFF:
            raise ValueError(f"{value!r} is no single character of 16 bits")
        return super().__new__(cls, value)


CLASSES: Final[dict[str, type[_Whole] | type[_Number] | type[Char]]] = {
    one.kind: one for one in (Byte, Short, Int, Long, Float, Double, Char)
}
"""The class of each JMS type that a value can name."""


def natural_type(value: object) -> str:
    """Returns the JMS type of a plain Python value: boolean, int or long by range, double, string."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "int" if -(1 << 31) <= value < 1 << 31 else "long"
    return "double" if isinstance(value, float) else "string"


def type_of(value: object) -> str:
    """Returns the JMS type that a value names, or else the one natural to it."""
    return value.kind if isinstance(value, _Whole | _Number | Char) else natural_type(value)


def plain(value: Any) -> Any:
    """Returns a value without the type that it names."""
    if isinstance(value, _Whole):
        return int(value)
    if isinstance(value, _Number):
        return float(value)
    return str(value) if isinstance(value, Char) else value


def typed(kind: str, value: Any) -> Any:
    """Returns a value that names its JMS type, if the type is not natural to it."""
    return value if kind == natural_type(value) or kind not in CLASSES else CLASSES[kind](value)


def types_of(body: object) -> str:
    """Returns the property :data:`TYPES` for the value of a body. Empty = all types are natural."""
    found = _types(body)
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")) if isinstance(found, dict) else ""


def _types(value: object) -> Any:
    if isinstance(value, Mapping | list | tuple):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        return {str(key): kind for key, one in items if (kind := _types(one)) is not None} or None
    kind = type_of(value)
    return None if kind == natural_type(value) else kind


def with_types(body: Any, types: object) -> Any:
    """Returns the value of a body whose values name their types.

    Args:
        types: the property :data:`TYPES`. Any program may have set it, so what does not fit is ignored.
    """
    try:
        return _with(body, json.loads(types)) if isinstance(types, str) else body
    except (ValueError, RecursionError):
        return body


def _with(value: Any, types: Any) -> Any:
    if isinstance(types, dict):
        if isinstance(value, dict):
            return {key: _with(one, types.get(key)) for key, one in value.items()}
        if isinstance(value, list):
            return [_with(one, types.get(str(place))) for place, one in enumerate(value)]
    if isinstance(types, str) and types in CLASSES:
        try:
            return CLASSES[types](value)
        except (TypeError, ValueError):
            return value
    return value
