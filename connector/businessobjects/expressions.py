"""JMESPath with exact numbers, and the functions of :mod:`connector.businessobjects.expression_functions`.

The library reads numbers as floats. Here a number with a point or an exponent keeps its digits, in the
document and in the literals of an expression. So ``price`` equals the literal 0.10 if it is 0.1, and no other
number. Sums are exact, and averages have 50 digits.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import jmespath
from jmespath.lexer import Lexer
from jmespath.parser import ParsedResult
from jmespath.visitor import TreeInterpreter

from connector.businessobjects.exact_numbers import Number
from connector.businessobjects.expression_functions import SIGNATURES, Functions, inexact, number_of
from connector.businessobjects.expression_text import Node, arguments_of
from connector.businessobjects.lookups import NO_LOOKUPS, Lookups
from connector.text.decimals import ExactFloat, ExactInteger
from connector.text.names import did_you_mean

_LITERAL: Final = re.compile(r"`((?:\\.|[^`\\])*)`", re.DOTALL)
_counter: Final = itertools.count()


class Expression:
    """A JMESPath expression. Made by :func:`compile_expression`.

    Args:
        text: as it is written.
        tree: the syntax tree.
        lookups: the tables of ``lookup``.
        is_secret: whether no error may show a text of the document.
    """

    def __init__(
        self, text: str, tree: Node, lookups: Lookups = NO_LOOKUPS, *, is_secret: bool = False
    ) -> None:
        self.text = text
        self.tree = tree
        self.lookups = lookups
        self._parsed = ParsedResult(text, _with_arguments(tree))
        self._options = jmespath.Options(custom_functions=Functions(lookups, is_secret=is_secret))

    def search(self, document: Any) -> Any:
        """Returns the value that the expression finds. None = none.

        Args:
            document: values of JSON. Numbers may be a Decimal, or an :class:`ExactFloat` that JSON had.

        Raises:
            jmespath.exceptions.JMESPathError: a function got an argument of the wrong type, for example.
        """
        return self.find(exact(document))

    def find(self, document: Any) -> Any:
        """Works like :meth:`search`, for a document that :func:`exact` has made."""
        return self._visit(TreeInterpreter(self._options), self._parsed.parsed, document)

    def find_member(self, document: Any) -> dict[str, Any]:
        """Returns an object with the member ``value``, or without members if the document has no such value.

        So None is a null that the document has, also in the objects that the expression makes.

        Args:
            document: as :func:`exact` makes it.

        Raises:
            jmespath.exceptions.JMESPathError: as :meth:`search`.
        """
        member = {"type": "key_val_pair", "value": "value", "children": [self._parsed.parsed]}
        made = {"type": "multi_select_dict", "children": [member]}
        found: dict[str, Any] = self._visit(_WithoutMissing(self._options), made, document)
        return found

    def _visit(self, interpreter: TreeInterpreter, tree: Node, document: Any) -> Any:
        try:
            return inexact(interpreter.visit(tree, document))
        except (jmespath.exceptions.JMESPathError, MemoryError):
            raise
        except Exception as error:  # such as the OverflowError of floor() for infinity
            text = f"{type(error).__name__}: {error}"
            raise jmespath.exceptions.JMESPathError(text) from error


class _WithoutMissing(TreeInterpreter):  # type: ignore[misc]  # the library has no types
    """Makes objects without the members that only name what the document does not have."""

    def visit_multi_select_dict(self, node: Node, value: Any) -> Any:
        made = super().visit_multi_select_dict(node, value)
        if made is None:
            return None
        nodes = {one["value"]: one["children"][0] for one in node["children"]}
        return {key: one for key, one in made.items() if one is not None or self._is_null(nodes[key], value)}

    def _is_null(self, node: Node, value: Any) -> bool:
        """Tells whether a node names an attribute that is there. What a function makes is not."""
        if node["type"] == "subexpression":
            return self._is_null(node["children"][1], self.visit(node["children"][0], value))
        return node["type"] == "field" and isinstance(value, dict) and node["value"] in value


@lru_cache(maxsize=1024)
def compile_expression(text: str, lookups: Lookups = NO_LOOKUPS) -> Expression:
    """Reads an expression.

    Raises:
        jmespath.exceptions.JMESPathError: the text is no expression, or calls a function that is not there.
    """
    return Expression(text, parse(text), lookups)


def parse(text: str) -> Node:
    """Returns the syntax tree of an expression, with exact numbers. Raises as :func:`compile_expression`."""
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
            literals[name] = exact(json.loads(found[1].replace("\\`", "`"), parse_float=ExactFloat))
            pieces += [text[end : found.start()], f'`"{name}"`']
            end = found.end()
    tree: Node = jmespath.compile("".join([*pieces, text[end:]])).parsed
    if literals:
        _put(tree, literals)
    for called in calls(tree):
        _check_call(called)
    return tree


def calls(node: Node) -> Iterator[Node]:
    """Yields the calls of functions in a syntax tree."""
    if node["type"] == "function_expression":
        yield node
    for child in node["children"]:
        if isinstance(child, dict):
            yield from calls(child)


def files_of(tree: Node) -> list[str]:
    """Returns the files that an expression looks values up in.

    Raises:
        jmespath.exceptions.JMESPathError: the name of a file is no literal.
    """
    found = []
    for call in calls(tree):
        if call["value"] != "lookup":
            continue
        file = call["children"][0]
        if file["type"] != "literal" or not isinstance(file["value"], str):
            text = "lookup() needs the name of a CSV file in quotes, as in lookup('countries.csv', Region)"
            raise jmespath.exceptions.JMESPathError(text)
        found.append(file["value"])
    return list(dict.fromkeys(found))


def _check_call(call: Node) -> None:
    """Checks the name of a function, and the number of its arguments."""
    name, given = call["value"], len(call["children"])
    signature = SIGNATURES.get(name)
    if signature is None:
        text = f"there is no function {name}(){did_you_mean(name, SIGNATURES)}"
        raise jmespath.exceptions.UnknownFunctionError(text)
    is_variadic = bool(signature) and signature[-1].get("variadic", False)
    if given < len(signature) or (given > len(signature) and not is_variadic):
        least = "at least " if is_variadic else ""
        text = f"{name}() has {given} arguments, expected {least}{len(signature)}"
        raise jmespath.exceptions.JMESPathError(text)


def _with_arguments(node: Node) -> Node:
    """Returns a copy of a tree whose calls have the texts of their arguments as a last argument."""
    children = [_with_arguments(child) if isinstance(child, dict) else child for child in node["children"]]
    if node["type"] == "function_expression":
        names = arguments_of(node["children"])
        children.append({"type": "literal", "value": names, "children": []})
    return {**node, "children": children}


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


def exact(value: Any) -> Any:
    """Returns a document whose numbers are exact."""
    if isinstance(value, dict):
        return {name: exact(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [exact(inner) for inner in value]
    if isinstance(value, ExactFloat | ExactInteger):
        return number_of(value.text)
    if isinstance(value, Decimal):
        return Number.of(value)
    if isinstance(value, float) and math.isfinite(value):
        return Number.of(repr(value), is_float=True)
    return value
