"""Writes a part of an expression as a text, for errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from connector.businessobjects.expression_functions import Argument, Arguments
from connector.text.json_text import to_json_text
from connector.text.names import cut

Node = Mapping[str, Any]
"""A node of the syntax tree that JMESPath makes: ``type``, ``children``, and often ``value``."""

_MOST: Final = 60
_OPERATORS: Final = {"eq": "==", "ne": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


def text_of(node: Node) -> str:
    """Returns a part of an expression, shortened. A part that seldom fails is named by its kind."""
    return cut(_text(node), _MOST)


def _text(node: Node) -> str:
    kind, children = node["type"], node["children"]
    write = _WRITERS.get(kind)
    return write(node, children) if write is not None else f"the {kind.replace('_', ' ')}"


def _literal(node: Node, children: Any) -> str:
    value = node["value"]
    if isinstance(value, str):
        return f"'{value}'"
    try:
        return f"`{value if isinstance(value, Decimal) else to_json_text(value)}`"
    except TypeError:
        return "a literal"


def _projection(node: Node, children: Any) -> str:
    left, right = children[0], children[1]
    base = _text(left) if left["type"] == "flatten" else f"{_text(left)}[*]"
    if left["type"] in ("identity", "current"):
        base = base.removeprefix("@")
    if right["type"] == "identity":
        return base
    return f"{base}{_text(right)}" if right["type"].startswith("index") else f"{base}.{_text(right)}"


_WRITERS: Final[dict[str, Callable[[Node, Any], str]]] = {
    "field": lambda node, children: node["value"],
    "current": lambda node, children: "@",
    "identity": lambda node, children: "@",
    "literal": _literal,
    "index": lambda node, children: f"[{node['value']}]",
    "subexpression": lambda node, children: ".".join(map(_text, children)),
    "index_expression": lambda node, children: "".join(map(_text, children)).removeprefix("@"),
    "pipe": lambda node, children: " | ".join(map(_text, children)),
    "flatten": lambda node, children: f"{_text(children[0])}[]",
    "projection": _projection,
    "filter_projection": lambda node, children: f"{_text(children[0])}[?...]",
    "multi_select_list": lambda node, children: f"[{', '.join(map(_text, children))}]",
    "expref": lambda node, children: f"&{_text(children[0])}",
    "function_expression": lambda node, children: f"{node['value']}({', '.join(map(_text, children))})",
    "comparator": lambda node, children: f" {_OPERATORS.get(node['value'])} ".join(map(_text, children)),
}


def arguments_of(nodes: list[Any]) -> Arguments:
    """Returns the texts of the arguments of a call."""
    return Arguments(
        Argument(
            text_of(node),
            tuple(map(text_of, node["children"])) if node["type"] == "multi_select_list" else (),
        )
        for node in nodes
    )
