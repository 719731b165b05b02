"""Selectors of any shape mean what a slow and plain evaluator of the specification says.

The evaluator works on trees of tuples that never pass through the parser or the translation; only
their texts do.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from connector.messaging.message import Message, natural_type
from connector.messaging.selector import compile_selector

Tree = tuple[Any, ...]

NAMES = ("a", "b", "c", "JMSXGroupSeq")
HEADERS: dict[str, Callable[[Message], Any]] = {
    "JMSPriority": lambda message: message.priority,
    "JMSType": lambda message: message.type,
    "JMSXDeliveryCount": lambda message: message.delivery_count,
    "JMSDeliveryMode": lambda message: {1: "NON_PERSISTENT", 2: "PERSISTENT"}[message.delivery_mode],
}
EDGES = [0, 1, 2, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]


# What a tree means.


def meaning(tree: Tree, message: Message) -> Any:
    """A value or, for a condition, True, False or None."""
    kind, *parts = tree
    if kind == "literal":
        return parts[0]
    if kind == "name":
        name = parts[0]
        return HEADERS[name](message) if name in HEADERS else message.properties.get(name)
    if kind == "group":
        return meaning(parts[0], message)
    if kind in ("null", "not null"):
        return (meaning(parts[0], message) is None) is (kind == "null")
    if kind in ("in", "not in"):
        tests = [compare("=", meaning(parts[0], message), string) for string in parts[1]]
        found = kleene_or(tests)
        return found if kind == "in" else kleene_not(found)
    if kind in ("like", "not like"):
        value = meaning(parts[0], message)
        if value is None:
            return None
        found = isinstance(value, str) and fits(value, parts[1])
        return found if kind == "like" else not found
    if kind in ("and", "or"):
        conditions = [condition(part, message) for part in parts]
        return kleene_and(conditions) if kind == "and" else kleene_or(conditions)
    if kind == "not":
        return kleene_not(condition(parts[0], message))
    values = [meaning(part, message) for part in parts if isinstance(part, tuple)]
    if kind == "between":
        return kleene_and([compare(">=", values[0], values[1]), compare("<=", values[0], values[2])])
    if kind == "not between":
        return kleene_or([compare("<", values[0], values[1]), compare(">", values[0], values[2])])
    if kind == "compare":
        return compare(parts[0], *values)
    if kind == "sign":
        return calculate("-", 0, values[0], negated=True) if parts[0] == "-" else number(values[0])
    return calculate(kind, *values)


def condition(tree: Tree, message: Message) -> bool | None:
    value = meaning(tree, message)
    return value if isinstance(value, bool) else None


def kleene_not(value: bool | None) -> bool | None:
    return {True: False, False: True, None: None}[value]


def kleene_and(values: list[bool | None]) -> bool | None:
    ranks = {False: 0, None: 1, True: 2}
    return min(values, key=lambda value: ranks[value])


def kleene_or(values: list[bool | None]) -> bool | None:
    ranks = {True: 0, None: 1, False: 2}
    return min(values, key=lambda value: ranks[value])


def number(value: Any) -> Any:
    return value if type(value) in (int, float) else None


def compare(operator: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    if type(left) in (int, float) and type(right) in (int, float):
        if float in (type(left), type(right)):
            left, right = float(left), float(right)
    elif type(left) is not type(right) or operator not in ("=", "<>"):
        return False
    if operator == "=":
        return bool(left == right)
    if operator == "<>":
        return bool(left != right)
    if operator in ("<", "<="):
        return bool(left < right or (operator == "<=" and left == right))
    return bool(left > right or (operator == ">=" and left == right))


def calculate(operator: str, left: Any, right: Any, *, negated: bool = False) -> Any:
    if number(left) is None or number(right) is None:
        return None
    if negated and isinstance(right, float):
        return -right
    if isinstance(left, int) and isinstance(right, int):
        if operator == "/":
            return None if right == 0 else as_long(math.trunc(Fraction(left, right)))
        return as_long({"+": left + right, "-": left - right, "*": left * right}[operator])
    left, right = float(left), float(right)
    if operator != "/":
        return {"+": left + right, "-": left - right, "*": left * right}[operator]
    if right:
        return left / right
    if math.isnan(left) or left == 0:
        return math.nan
    return math.inf if math.copysign(1, left) == math.copysign(1, right) else -math.inf


def as_long(value: int) -> int:
    return ctypes.c_int64(value & (2**64 - 1)).value


def fits(value: str, pattern: tuple[str, ...]) -> bool:
    """Every way to match is tried, by table: ``ends`` are the places that the pattern so far can reach."""
    ends = {0}
    for part in pattern:
        if part == "any":
            ends = {end for start in ends for end in range(start, len(value) + 1)}
        elif part == "one":
            ends = {start + 1 for start in ends if start < len(value)}
        else:
            ends = {start + 1 for start in ends if value[start : start + 1] == part[1]}
    return len(value) in ends


# How a tree is written.

LEVELS = {"or": 0, "and": 1, "not": 2, "+": 4, "-": 4, "*": 5, "/": 5, "sign": 6, "group": 7, "name": 7}


def level(tree: Tree) -> int:
    if tree[0] == "literal":
        return 6 if written(tree[1])[0] == "-" else 7
    return LEVELS.get(tree[0], 3)


def written(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "false"
    return quoted(value) if isinstance(value, str) else repr(value)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def text(tree: Tree, least: int = 0) -> str:
    """With no more parentheses than needed, but those of ``group``."""
    plain = unparenthesised(tree)
    return plain if level(tree) >= least else f"({plain})"


def unparenthesised(tree: Tree) -> str:
    kind, *parts = tree
    if kind == "literal":
        return written(parts[0])
    if kind == "name":
        return str(parts[0])
    if kind == "group":
        return f"({text(parts[0])})"
    if kind in ("null", "not null"):
        return f"{text(parts[0], 7)} IS {kind.upper()}"
    if kind in ("in", "not in"):
        return f"{text(parts[0], 7)} {kind} ({', '.join(map(quoted, parts[1]))})"
    if kind in ("like", "not like"):
        signs = {"any": "%", "one": "_"}
        pattern = "".join(signs.get(part) or escaped(part[1]) for part in parts[1])
        return f"{text(parts[0], 7)} {kind.upper()} {quoted(pattern)} ESCAPE '!'"
    if kind in ("and", "or"):
        return f" {kind} ".join(text(part, LEVELS[kind] + 1) for part in parts)
    if kind == "not":
        return f"NOT {text(parts[0], 2)}"
    if kind in ("between", "not between"):
        value, low, high = (text(part, 4) for part in parts)
        return f"{value} {kind} {low} AND {high}"
    if kind == "compare":
        return f"{text(parts[1], 4)} {parts[0]} {text(parts[2], 4)}"
    if kind == "sign":
        return f"{parts[0]}{text(parts[1], 6)}"
    return f"{text(parts[0], LEVELS[kind])} {kind} {text(parts[1], LEVELS[kind] + 1)}"


def escaped(character: str) -> str:
    return f"!{character}" if character in "%_!" else character


# Trees and messages of every kind.

LETTERS = st.sampled_from("ab'\n%_!")
STRINGS = st.one_of(st.sampled_from(["", "a", "ab", "PERSISTENT"]), st.text(LETTERS, max_size=4))
INTEGERS = st.one_of(st.integers(-3, 3), st.sampled_from(EDGES))
FLOATS = st.one_of(st.sampled_from([0.0, 1.0, -1.5, 2.0**53, 1e300]), st.floats(-4, 4, width=16))
NUMBERS = st.one_of(INTEGERS, FLOATS)
VALUES = st.one_of(NUMBERS, STRINGS, st.booleans(), st.sampled_from([math.nan, math.inf, -math.inf]))

PROPERTY_NAMES = st.sampled_from(NAMES).map(lambda name: ("name", name))
ANY_NAMES = st.sampled_from([*NAMES, *HEADERS]).map(lambda name: ("name", name))
NUMERIC_NAMES = st.sampled_from([*NAMES, "JMSPriority", "JMSXDeliveryCount"]).map(lambda name: ("name", name))


def literals(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Tree]:
    return values.map(lambda value: ("literal", value))


def is_written(value: Any) -> bool:
    """No selector can say infinity, or what is no number."""
    return not isinstance(value, float) or math.isfinite(value)


def calculations(operands: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.one_of(
        st.tuples(st.sampled_from("+-*/"), operands, operands),
        st.tuples(st.just("sign"), st.sampled_from("+-"), operands),
        st.tuples(st.just("group"), operands),
    )


NUMERIC = st.recursive(st.one_of(literals(NUMBERS), NUMERIC_NAMES), calculations, max_leaves=6)
PATTERNS = st.lists(
    st.one_of(st.just("any"), st.just("one"), LETTERS.map(lambda letter: ("letter", letter))), max_size=6
).map(tuple)

PREDICATES = st.one_of(
    st.tuples(st.just("compare"), st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), NUMERIC, NUMERIC),
    st.tuples(
        st.just("compare"),
        st.sampled_from(["=", "<>"]),
        st.one_of(ANY_NAMES, NUMERIC, literals(VALUES.filter(is_written))),
        st.one_of(ANY_NAMES, literals(STRINGS), literals(st.booleans())),
    ),
    st.tuples(st.sampled_from(["between", "not between"]), NUMERIC, NUMERIC, NUMERIC),
    st.tuples(st.sampled_from(["in", "not in"]), ANY_NAMES, st.lists(STRINGS, min_size=1, max_size=3)),
    st.tuples(st.sampled_from(["like", "not like"]), ANY_NAMES, PATTERNS),
    st.tuples(st.sampled_from(["null", "not null"]), ANY_NAMES),
    literals(st.booleans()),
    PROPERTY_NAMES,
)


def combinations(operands: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.one_of(
        st.tuples(st.just("not"), operands),
        st.lists(operands, min_size=2, max_size=4).map(lambda parts: ("and", *parts)),
        st.lists(operands, min_size=2, max_size=4).map(lambda parts: ("or", *parts)),
        st.tuples(st.just("group"), operands),
        st.tuples(st.just("compare"), st.sampled_from(["=", "<>"]), operands, operands),
    )


CONDITIONS = st.recursive(PREDICATES, combinations, max_leaves=10)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    message = Message(
        priority=draw(st.integers(0, 9)),
        type=draw(st.none() | STRINGS),
        delivery_mode=draw(st.sampled_from([1, 2])),
        delivery_count=draw(st.integers(1, 3)),
    )
    for name in NAMES:
        value = draw(st.none() | VALUES)
        if value is not None:
            message.set_property(name, value, natural_type(value))
    return message


@settings(max_examples=400)
@given(CONDITIONS, messages())
def test_a_selector_is_true_exactly_when_the_specification_says_so(tree: Tree, message: Message) -> None:
    """Its negation is true exactly when it is false, and it asks for no identifier that it does not name."""
    selector, meant = compile_selector(text(tree)), condition(tree, message)
    assert selector.matches(message) is (meant is True)
    assert compile_selector(f"NOT ({text(tree)})").matches(message) is (meant is False)
    bare = Message(
        priority=message.priority if "JMSPriority" in selector.identifiers else 4,
        type=message.type if "JMSType" in selector.identifiers else None,
        delivery_mode=message.delivery_mode if "JMSDeliveryMode" in selector.identifiers else 2,
        delivery_count=message.delivery_count if "JMSXDeliveryCount" in selector.identifiers else 1,
    )
    for name in selector.identifiers & message.properties.keys():
        bare.set_property(name, message.properties[name], message.property_types[name])
    assert selector.matches(bare) is selector.matches(message)
