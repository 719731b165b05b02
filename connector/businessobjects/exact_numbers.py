"""The numbers of expressions: exact, whatever their size."""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

_EXACT: Final = Context(prec=1_000_000, Emax=MAX_EMAX, Emin=MIN_EMIN)
_QUOTIENT: Final = Context(prec=50, Emax=MAX_EMAX, Emin=MIN_EMIN)


class Number(Decimal):
    """A number in an expression. ``is_float`` says that the number comes from a float."""

    is_float = False

    @classmethod
    def of(cls, value: Decimal | str | int, *, is_float: bool = False) -> Number:
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


Number.__name__ = "float"  # the name by which the library of JMESPath knows a number

Operand = Number | int | float
"""A number as a document or a literal has it."""


def add(left: Operand, right: Operand) -> Number | int:
    return _calculate(_EXACT.add, left, right)


def subtract(left: Operand, right: Operand) -> Number | int:
    return _calculate(_EXACT.subtract, left, right)


def multiply(left: Operand, right: Operand) -> Number | int:
    return _calculate(_EXACT.multiply, left, right)


def divide(left: Operand, right: Operand, scale: int) -> Number | int:
    """Returns a quotient with ``scale`` places, rounded once, half away from zero."""
    one, other = _number(left), _number(right)
    whole, rest = _EXACT.divmod(_EXACT.scaleb(one, scale), other)
    if _EXACT.multiply(rest.copy_abs(), 2) >= other.copy_abs():
        whole = _EXACT.add(whole, 1 if one.is_signed() == other.is_signed() else -1)
    return _with_places(_EXACT.scaleb(whole, -scale), scale, is_float=one.is_float or other.is_float)


def round_half_up(value: Operand, scale: int) -> Number | int:
    """Returns a number with ``scale`` places, rounded half away from zero. Without places it is an int."""
    number = _number(value)
    return _with_places(number, scale, is_float=number.is_float)


def _with_places(number: Decimal, scale: int, *, is_float: bool) -> Number | int:
    rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    if not scale:
        return int(rounded)
    return Number.of(rounded or rounded.copy_abs(), is_float=is_float)


def _number(value: Operand) -> Number:
    return value if isinstance(value, Number) else Number.of(Decimal(value))


def _calculate(
    operation: Callable[[Decimal, Decimal], Decimal], left: Operand, right: Operand
) -> Number | int:
    one, other = _number(left), _number(right)
    result = operation(one, other)
    if isinstance(left, int) and isinstance(right, int):
        return int(result)
    return Number.of(result, is_float=one.is_float or other.is_float)
