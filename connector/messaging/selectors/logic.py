"""The operators of selectors: three-valued logic, comparison, arithmetic (JMS 2.0, 3.8.1.2 and 3.8.2).

A selector is a tree of functions. Each takes a message and returns the value of a node. No function raises,
whatever the types of properties are:

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
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeGuard

from connector.messaging.message import Message
from connector.messaging.selectors.identifiers import HEADERS
from connector.messaging.selectors.nodes import And, Function, Identifier, Literal, Node

Value = bool | int | float | str | None

COMPARISONS: Final[dict[str, Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_PLAIN: Final = {int, float}
_SIGN_BIT: Final = 1 << 63
_LONG: Final = 1 << 64
_EXACT_IN_DOUBLE: Final = 1 << 53
"""Below this, Python, which compares int with float exactly, agrees with Java, which makes both doubles."""


# Values.


def _arithmetic(exact: Callable[[int, int], int | None], approximate: Callable[[float, float], float]) -> Any:
    def calculate(left: Any, right: Any) -> int | float | None:
        if type(left) is int and type(right) is int:
            number = exact(left, right)
            if number is None or -_SIGN_BIT <= number < _SIGN_BIT:
                return number
            return (number + _SIGN_BIT) % _LONG - _SIGN_BIT
        if type(left) in _PLAIN and type(right) in _PLAIN:
            return approximate(left, right)
        if left is None or right is None or not (_is_number(left) and _is_number(right)):
            return None
        return calculate(_plain(left), _plain(right))  # subclasses, such as an IntEnum

    return calculate


def _plain(number: int | float) -> int | float:
    return float(number) if isinstance(number, float) else int(number)


def _divide_exactly(left: int, right: int) -> int | None:
    return None if right == 0 else abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def _divide(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


multiply = _arithmetic(operator.mul, operator.mul)
_ARITHMETIC: Final = {
    "+": _arithmetic(operator.add, operator.add),
    "-": _arithmetic(operator.sub, operator.sub),
    "*": multiply,
    "/": _arithmetic(_divide_exactly, _divide),
}


def _is_number(value: Value) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and value is not True and value is not False


def _compare(sign: str, left: Value, right: Value) -> bool | None:
    if left is None or right is None:
        return None
    if _is_number(left) and _is_number(right):
        if isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)
    elif sign not in ("=", "<>") or not any(
        isinstance(left, kind) and isinstance(right, kind) for kind in (str, bool)
    ):
        return False
    return bool(COMPARISONS[sign](left, right))


# Functions of a message.


def arithmetic(first: Node, rest: Sequence[tuple[str, Node]]) -> Function:
    """A chain of operators from left to right: ``a + b - c``. Most chains have a single operator."""
    (sign, second), *more = rest
    calculate = _ARITHMETIC[sign]
    left_name, read_left = _source(first)
    right_name, read_right = _source(second)
    steps = [(_ARITHMETIC[sign], operand.function) for sign, operand in more]

    def function(message: Message) -> Any:
        get = message.properties.get
        left = get(left_name) if read_left is None else read_left(message)
        result = calculate(left, get(right_name) if read_right is None else read_right(message))
        for step, operand in steps:
            result = step(result, operand(message))
        return result

    return function


def comparison(sign: str, left: Node, right: Node) -> Function:
    """``=``, ``<>``, ``<``, ``<=``, ``>`` and ``>=``."""
    read_left, read_right = left.function, right.function
    if not _is_plain_literal(right):
        return lambda message: _compare(sign, read_left(message), read_right(message))
    literal = right.value
    types = _PLAIN if _is_number(literal) else {type(literal)}
    compare = COMPARISONS[sign]
    name, read = _source(left)

    def function(message: Message) -> Any:
        value = message.properties.get(name) if read is None else read(message)
        if type(value) in types:
            return compare(value, literal)
        return None if value is None else _compare(sign, value, literal)

    return function


def between(operand: Node, low: Node, high: Node) -> Function:
    bounds = (comparison(">=", operand, low), comparison("<=", operand, high))
    in_bounds = combination(bounds, decisive=False)
    if not (_is_plain_literal(low) and _is_plain_literal(high)):
        return in_bounds
    least: Any = low.value
    most: Any = high.value
    name, read = _source(operand)

    def function(message: Message) -> Any:
        value = message.properties.get(name) if read is None else read(message)
        if type(value) in _PLAIN:
            return least <= value <= most
        return None if value is None else in_bounds(message)

    return function


def _is_plain_literal(node: Node) -> TypeGuard[Literal]:
    """Whether the node is a literal that Python compares as Java would."""
    if not isinstance(node, Literal):
        return False
    return not _is_number(node.value) or abs(node.value) < _EXACT_IN_DOUBLE


def _source(operand: Node) -> tuple[str, Function | None]:
    """Returns the name of a property, or the function of another operand.

    Most selectors compare a property with a literal. Without a call for the property they need less time.
    """
    if isinstance(operand, Identifier) and operand.name not in HEADERS:
        return operand.name, None
    return "", operand.function


def member(operand: Node, strings: frozenset[str]) -> Function:
    name, read = _source(operand)

    def function(message: Message) -> bool | None:
        value = message.properties.get(name) if read is None else read(message)
        return None if value is None else value in strings

    return function


def like(operand: Node, matches: Callable[[str], bool]) -> Function:
    name, read = _source(operand)

    def function(message: Message) -> bool | None:
        value = message.properties.get(name) if read is None else read(message)
        if isinstance(value, str):
            return matches(value)
        return None if value is None else False

    return function


def as_condition(operand: Function) -> Function:
    """A property as a condition. Any value but true and false is unknown."""

    def function(message: Message) -> bool | None:
        value = operand(message)
        return value if isinstance(value, bool) else None

    return function


def negation(condition: Function) -> Function:

    def function(message: Message) -> bool | None:
        value: bool | None = condition(message)
        return None if value is None else not value

    return function


def combination(conditions: Sequence[Function], decisive: bool) -> Function:
    """AND or OR.

    Args:
        decisive: the value of an operand that decides the result: False for AND, True for OR.
    """

    def function(message: Message) -> bool | None:
        result: bool | None = not decisive
        for condition in conditions:
            value: bool | None = condition(message)
            if value is decisive:
                return decisive
            if value is None:
                result = None
        return result

    return function


def is_true(condition: Node) -> Callable[[Message], bool]:
    """Whether a condition is true for a message. The result for false and unknown is False."""
    if not isinstance(condition, And):
        holds = condition.function
        return lambda message: holds(message) is True
    first, second, *others = [operand.function for operand in condition.operands]

    def every_is_true(message: Message) -> bool:
        if first(message) is True and second(message) is True:
            for holds in others:
                if holds(message) is not True:
                    break
            else:
                return True
        return False

    return every_is_true
