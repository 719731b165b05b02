"""Turns a selector into a Python function.

``logic`` defines each operator with three truth values. But a selector only has to tell *true* from *not
true*, and mostly compares a property with a literal. So most of a selector becomes plain two-valued Python.
There are two questions about every condition: is it **true**, and is it **false**? For an unknown
condition both answers are no. NOT swaps the two questions. AND and OR pass them to their operands. All other
operations, such as one property compared with another, call ``logic``.

The code consists of names and operators written here. Everything from a selector (identifiers, literals,
patterns) is in constants. Everything from a message is in variables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from connector.errors import SelectorError
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message
from connector.messaging.selectors import logic
from connector.messaging.selectors.identifiers import HEADERS
from connector.messaging.selectors.literals import LONG_LIMIT
from connector.messaging.selectors.nodes import (
    Arithmetic,
    Between,
    Comparison,
    Every,
    Identifier,
    Kind,
    Like,
    Literal,
    Member,
    Missing,
    Node,
    Not,
    Signed,
    Some,
)

_COMPARISONS: Final = {
    "=": ("==", "equal"),
    "<>": ("!=", "unequal"),
    "<": ("<", "less"),
    "<=": ("<=", "less_or_equal"),
    ">": (">", "greater"),
    ">=": (">=", "greater_or_equal"),
}
_MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ARITHMETIC: Final = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}
_SIGNS: Final = {"+": "plus", "-": "minus"}

_LIBRARY: Final[dict[str, Any]] = {
    "__builtins__": {},
    "isinstance": isinstance,
    "type": type,
    "bool": bool,
    "str": str,
    "numbers": (int, float),
    "delivery_modes": {PERSISTENT: "PERSISTENT", NON_PERSISTENT: "NON_PERSISTENT"}.get,
    **{
        name: getattr(logic, name)
        for name in (
            *("add", "subtract", "multiply", "divide", "plus", "minus", "chain"),
            *("equal", "unequal", "less", "less_or_equal", "greater", "greater_or_equal"),
            *("truth", "negation", "every", "some", "between", "not_between"),
        )
    },
}

_LONGEST_NESTED_CHAIN: Final = 3
_DEEPEST_EXPRESSION: Final = 10
"""Python's own parser has a limit. A deeper expression gets a separate line."""

_EXACT_IN_DOUBLE: Final = 1 << 53
"""Below this, Python, which compares int with float exactly, agrees with Java, which makes both doubles."""


def translate(condition: Node) -> tuple[Callable[[Message], bool], frozenset[str]]:
    """Returns the function that says whether the condition is true for a message, and the identifiers.

    Raises:
        SelectorError: a literal is 2**63 without a minus before it.
    """
    translation = _Translation()
    code = translation.function(condition)
    namespace = {**_LIBRARY, **translation.constants}
    exec(compile(code, "<message selector>", "exec"), namespace)
    return cast("Callable[[Message], bool]", namespace["matches"]), frozenset(translation.identifiers)


class _Translation:
    def __init__(self) -> None:
        self.constants: dict[str, Any] = {}
        self.identifiers: set[str] = set()
        self._names: dict[tuple[type, Any], str] = {}
        self._lines: list[str] = []

    def function(self, condition: Node) -> str:
        result = self._true(condition, 0)
        lines = ["get = message.properties.get", *self._lines, f"return {result}"]
        return "def matches(message):\n" + "".join(f"    {line}\n" for line in lines)

    # Conditions: are they true, are they false?

    def _true(self, node: Node, depth: int) -> str:
        if depth >= _DEEPEST_EXPRESSION:
            return self._on_its_own_line(self._true(node, 0))
        match node:
            case Not():
                return self._false(node.operand, depth + 1)
            case Every():
                return self._both(" and ", self._true, node.operands, depth)
            case Some():
                return self._both(" or ", self._true, node.operands, depth)
        subject, test = self._test(node, depth + 1)
        if "{again}" in test:
            subject = f"(value := {subject})"
        return test.format(subject=subject, again="value")

    def _false(self, node: Node, depth: int) -> str:
        if depth >= _DEEPEST_EXPRESSION:
            return self._on_its_own_line(self._false(node, 0))
        match node:
            case Not():
                return self._true(node.operand, depth + 1)
            case Every():
                return self._both(" or ", self._false, node.operands, depth)
            case Some():
                return self._both(" and ", self._false, node.operands, depth)
        subject, test = self._test(node, depth + 1)
        if isinstance(node, Missing):
            return f"{subject} is not None"
        test = test.format(subject="value", again="value")
        return f"((value := {subject}) is not None and not ({test}))"

    def _both(
        self, word: str, part: Callable[[Node, int], str], operands: tuple[Node, ...], depth: int
    ) -> str:
        return f"({word.join([part(operand, depth + 1) for operand in operands])})"

    def _test(self, node: Node, depth: int) -> tuple[str, str]:
        """Returns a condition as a value and a two-valued test for this value. The test is false for None.

        The test has ``{subject}`` at the first use of the value, ``{again}`` at later uses.
        """
        match node:
            case Comparison():
                for operator, one, other in (
                    (node.operator, node.left, node.right),
                    (_MIRRORED[node.operator], node.right, node.left),
                ):
                    if isinstance(other, Literal) and _is_plain(other):
                        return self._value(one, depth), self._comparison_test(operator, other, one.kind)
            case Between() if _is_plain(node.low) and _is_plain(node.high):
                low, high = self._value(node.low, depth), self._value(node.high, depth)
                inside = f"{low} <= {{again}} <= {high}"
                if node.negated:
                    inside = f"({{again}} < {low} or {{again}} > {high})"
                test = f"isinstance({{subject}}, numbers) and {inside} and type({{again}}) is not bool"
                return self._value(node.operand, depth), test
            case Member():
                return self._value(node.operand, depth), f"{{subject}} in {self._constant(node.values)}"
            case Like():
                return self._value(node.operand, depth), self._like_test(node)
            case Missing():
                return self._value(node.operand, depth), "{subject} is None"
        return self._condition(node, depth), "{subject} is True"

    def _comparison_test(self, operator: str, literal: Literal, kind: Kind) -> str:
        sign = _COMPARISONS[operator][0]
        constant = self._literal(literal)
        if isinstance(literal.value, bool):
            return f"{{subject}} is {literal.value is (operator == '=')}"
        if isinstance(literal.value, str):
            if operator == "=":
                return f"{{subject}} == {constant}"
            return f"isinstance({{subject}}, str) and {{again}} != {constant}"
        if kind is Kind.NUMBER:
            return f"{{subject}} is not None and {{again}} {sign} {constant}"
        if operator == "=":
            return f"{{subject}} == {constant} and type({{again}}) is not bool"
        test = f"{{again}} {sign} {constant} and type({{again}}) is not bool"
        return f"isinstance({{subject}}, numbers) and {test}"

    def _like_test(self, node: Like) -> str:
        pattern = node.pattern
        if pattern.expression is not None:
            matches = self._constant(pattern.expression.fullmatch)
            return f"isinstance({{subject}}, str) and {matches}({{again}}) is not None"
        text = self._constant(pattern.text)
        form = {
            "equal": f"{{again}} == {text}",
            "prefix": f"{{again}}.startswith({text})",
            "suffix": f"{{again}}.endswith({text})",
            "infix": f"{text} in {{again}}",
        }[pattern.shape]
        return f"isinstance({{subject}}, str) and {form}"

    # Values, among them conditions as such: true, false or None.

    def _value(self, node: Node, depth: int) -> str:
        if depth >= _DEEPEST_EXPRESSION and not isinstance(node, Literal | Identifier):
            return self._on_its_own_line(self._value(node, 0))
        match node:
            case Literal():
                return self._literal(node)
            case Identifier():
                self.identifiers.add(node.name)
                if node.name in HEADERS:
                    return HEADERS[node.name][0]
                return f"get({self._constant(node.name)})"
            case Signed():
                return f"{_SIGNS[node.sign]}({self._value(node.operand, depth + 1)})"
            case Arithmetic():
                return self._arithmetic(node, depth)
            case Comparison():
                left, right = self._value(node.left, depth + 1), self._value(node.right, depth + 1)
                return f"{_COMPARISONS[node.operator][1]}({left}, {right})"
            case Between():
                operands = ", ".join(
                    self._value(operand, depth + 1) for operand in (node.operand, node.low, node.high)
                )
                return f"{'not_' if node.negated else ''}between({operands})"
            case Not():
                return f"negation({self._condition(node.operand, depth + 1)})"
            case Every() | Some():
                name = "every" if isinstance(node, Every) else "some"
                return f"{name}({', '.join([self._condition(each, depth + 1) for each in node.operands])})"
            case Missing():
                return f"({self._true(node, depth + 1)})"
            case Member() | Like():
                true, false = self._true(node, depth + 1), self._false(node, depth + 1)
                return f"(True if {true} else False if {false} else None)"

    def _condition(self, node: Node, depth: int) -> str:
        value = self._value(node, depth)
        return f"truth({value})" if isinstance(node, Identifier) else value

    def _arithmetic(self, node: Arithmetic, depth: int) -> str:
        depth += min(len(node.rest), _LONGEST_NESTED_CHAIN)
        result = self._value(node.first, depth)
        rest = [(_ARITHMETIC[operator], self._value(operand, depth)) for operator, operand in node.rest]
        if len(rest) > _LONGEST_NESTED_CHAIN:
            return f"chain({result}, {', '.join(f'{name}, {value}' for name, value in rest)})"
        for name, value in rest:
            result = f"{name}({result}, {value})"
        return result

    # Names.

    def _literal(self, node: Literal) -> str:
        if type(node.value) is int and node.value == LONG_LIMIT:
            raise SelectorError(
                f"found '{node.value}', expected a number within the range of a long (64 bits), "
                f"at character {node.position + 1}",
                node.position + 1,
            )
        return str(node.value) if isinstance(node.value, bool) else self._constant(node.value)

    def _constant(self, value: Any) -> str:
        # By type too: 1, 1.0 and True are equal. By its text, because 0.0 and -0.0 are equal as well.
        key = (type(value), repr(value) if isinstance(value, float) else value)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"constant_{len(self.constants)}"
            self.constants[name] = value
        return name

    def _on_its_own_line(self, code: str) -> str:
        name = f"part_{len(self._lines)}"
        self._lines.append(f"{name} = {code}")
        return name


def _is_plain(node: Node) -> bool:
    """Whether the node is a literal that Python compares as Java would."""
    if not isinstance(node, Literal):
        return False
    return not isinstance(node.value, int | float) or abs(node.value) < _EXACT_IN_DOUBLE
