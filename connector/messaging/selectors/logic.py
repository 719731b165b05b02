"""The operators of selectors: three-valued logic, comparison, arithmetic (JMS 2.0, 3.8.1.2 and 3.8.2).

``None`` is NULL among values and *unknown* among conditions. No function here raises, whatever the types of
properties are:

* A comparison with NULL is unknown. A comparison of unlike types is false. ``<``, ``<=``, ``>`` and ``>=``
  compare numbers only.
* Arithmetic with anything but numbers is unknown.
* Exact numbers are longs and wrap round as in Java. Beside an approximate number they become doubles.
* Exact division truncates. Exact division by zero is unknown, where Java would raise. Approximate division by
  zero is infinite, or no number (NaN).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, TypeGuard, cast

Value = bool | int | float | str | None
Truth = bool | None
Number = int | float | None

_SIGN_BIT = 1 << 63
_LONG = 1 << 64
_PLAIN = frozenset({int, float})


def _long(number: int) -> int:
    if -_SIGN_BIT <= number < _SIGN_BIT:
        return number
    return (number + _SIGN_BIT) % _LONG - _SIGN_BIT


def _is_number(value: Value) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _arithmetic(
    exact: Callable[[int, int], int | None], approximate: Callable[[float, float], float]
) -> Callable[[Value, Value], Number]:
    def calculate(left: Any, right: Any) -> Number:
        if type(left) is int and type(right) is int:
            number = exact(left, right)
            if number is None or -_SIGN_BIT <= number < _SIGN_BIT:
                return number
            return _long(number)
        if type(left) in _PLAIN and type(right) in _PLAIN:
            return approximate(left, right)
        if _is_number(left) and _is_number(right):  # subclasses, such as an IntEnum
            return calculate(_plain(left), _plain(right))
        return None

    return calculate


def _plain(number: int | float) -> int | float:
    return float(number) if isinstance(number, float) else int(number)


def _divide_exactly(left: int, right: int) -> int | None:
    if right == 0:
        return None
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _divide(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


add = _arithmetic(operator.add, operator.add)
subtract = _arithmetic(operator.sub, operator.sub)
multiply = _arithmetic(operator.mul, operator.mul)
divide = _arithmetic(_divide_exactly, _divide)


def plus(value: Value) -> Number:
    """``+value``."""
    return value if _is_number(value) else None


def minus(value: Value) -> Number:
    """``-value``."""
    if not _is_number(value):
        return None
    return -value if isinstance(value, float) else _long(-value)


def chain(first: Value, *rest: Any) -> Number:
    """Returns the value of a long chain of arithmetic: ``chain(a, add, b, subtract, c)``."""
    result: Any = first
    for calculate, value in zip(rest[::2], rest[1::2], strict=True):
        result = calculate(result, value)
    return cast("Number", result)


def _comparison(
    compare: Callable[[Any, Any], bool], *, numbers_only: bool
) -> Callable[[Value, Value], Truth]:
    def holds(left: Value, right: Value) -> Truth:
        if left is None or right is None:
            return None
        if _is_number(left) and _is_number(right):
            if isinstance(left, float) or isinstance(right, float):
                return compare(float(left), float(right))
            return compare(left, right)
        if numbers_only:
            return False
        alike = (isinstance(left, str) and isinstance(right, str)) or (
            isinstance(left, bool) and isinstance(right, bool)
        )
        return alike and compare(left, right)

    return holds


equal = _comparison(operator.eq, numbers_only=False)
unequal = _comparison(operator.ne, numbers_only=False)
less = _comparison(operator.lt, numbers_only=True)
less_or_equal = _comparison(operator.le, numbers_only=True)
greater = _comparison(operator.gt, numbers_only=True)
greater_or_equal = _comparison(operator.ge, numbers_only=True)


def truth(value: Value) -> Truth:
    """Returns a property as a condition. Any value but true and false is unknown."""
    return value if isinstance(value, bool) else None


def negation(condition: Truth) -> Truth:
    """NOT."""
    return None if condition is None else not condition


def every(*conditions: Truth) -> Truth:
    """AND."""
    if False in conditions:
        return False
    return None if None in conditions else True


def some(*conditions: Truth) -> Truth:
    """OR."""
    if True in conditions:
        return True
    return None if None in conditions else False


def between(value: Value, low: Value, high: Value) -> Truth:
    """BETWEEN."""
    return every(greater_or_equal(value, low), less_or_equal(value, high))


def not_between(value: Value, low: Value, high: Value) -> Truth:
    """NOT BETWEEN."""
    return some(less(value, low), greater(value, high))
