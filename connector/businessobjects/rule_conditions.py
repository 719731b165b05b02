"""The conditions of a rule on the message itself: a selector, and a JMESPath expression on a JSON body.

Most conditions ask for a certain text, such as ``country = 'NL'``. Rules with such a condition are found by
that text, so that their number does not matter. The others are tried one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from connector.errors import MalformedData
from connector.messaging.message import Message
from connector.messaging.selector import Selector, compile_selector
from connector.messaging.selectors.identifiers import reader
from connector.messaging.selectors.nodes import And, Comparison, Identifier, Literal, Member, Node
from connector.text.encoding import decode

if TYPE_CHECKING:
    from connector.businessobjects.lookups import Lookups

_UNPARSED: Final = object()


class TextPath(NamedTuple):
    """The place of a text in a message.

    Args:
        in_body: False for a header or property.
        path: the name of the header or property. In a body the names that lead to the value.
    """

    in_body: bool
    path: tuple[str, ...]


class SeenMessage:
    """A message that rules look at. The body is parsed at most once."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self._parsed: Any = _UNPARSED

    def fits_selector(self, text: str) -> bool:
        """Tells whether a selector is true for the message."""
        return _selector(text).matches(self._message)

    def fits_expression(self, text: str, lookups: Lookups | None = None) -> bool:
        """Tells whether a JMESPath expression finds a value that is neither null, false nor empty."""
        document = self._document()
        return document is not None and holds(text, document, lookups)

    def text_at(self, place: TextPath) -> str | None:
        """Returns the text at a place. None = there is none, or another kind of value."""
        if not place.in_body:
            found = reader(place.path[0])(self._message)
        else:
            found = self._document()
            for name in place.path:
                found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, str) else None

    def _document(self) -> Any:
        """Returns the JSON document in the body, or None."""
        if self._parsed is _UNPARSED:
            from connector.text.json_text import from_json

            try:
                self._parsed = from_json(decode(self._message.body))
            except (MalformedData, ValueError, RecursionError):
                self._parsed = None
        return self._parsed


def holds(expression: str, document: Any, lookups: Lookups | None = None) -> bool:
    """Tells whether a JMESPath expression finds a value that is neither null, false nor empty."""
    try:
        return is_true(_expression(expression, lookups).search(document))
    except MemoryError:
        raise
    except Exception:  # such as a function of a value of another type
        return False


def is_true(value: Any) -> bool:
    """Tells whether a value of an expression is neither null, false nor empty. 0 is true."""
    return bool(value) or (isinstance(value, int | float | Decimal) and value is not False)


def needed_texts(selector: str | None, expression: str | None) -> tuple[TextPath, frozenset[str]] | None:
    """Returns a place and the texts of which one must stand there, if a message fits the conditions.

    None = the conditions do not ask for a text in a way that this function knows.
    """
    if selector is not None:
        from connector.messaging.selectors.syntax import parse  # lark is slow to import

        found = next(filter(None, map(_needed_by_selector, _operands(parse(selector)))), None)
        if found is not None:
            return found
    if expression is not None:
        parsed: Mapping[str, Any] = _expression(expression).tree
        return next(filter(None, map(_needed_by_expression, _parts(parsed))), None)
    return None


def _operands(node: Node) -> Iterator[Node]:
    """Yields the conditions that all have to be true."""
    if isinstance(node, And):
        for operand in node.operands:
            yield from _operands(operand)
    else:
        yield node


def _needed_by_selector(node: Node) -> tuple[TextPath, frozenset[str]] | None:
    if isinstance(node, Member):
        return TextPath(False, (node.operand.name,)), node.values
    if (
        isinstance(node, Comparison)
        and node.operator == "="
        and isinstance(node.left, Identifier)
        and isinstance(node.right, Literal)
        and isinstance(node.right.value, str)
    ):
        return TextPath(False, (node.left.name,)), frozenset((node.right.value,))
    return None


def _parts(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yields the parts of an expression that all have to be true."""
    if node["type"] == "and_expression":
        for part in node["children"]:
            yield from _parts(part)
    else:
        yield node


def _needed_by_expression(node: Mapping[str, Any]) -> tuple[TextPath, frozenset[str]] | None:
    if node["type"] != "comparator" or node["value"] != "eq":
        return None
    left, right = node["children"]
    path = _path(left)
    if path is None or right["type"] != "literal" or not isinstance(right["value"], str):
        return None
    return TextPath(True, path), frozenset((right["value"],))


def _path(node: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Returns the names of an expression such as ``order.type``. None = another expression."""
    if node["type"] == "field":
        return (node["value"],)
    if node["type"] != "subexpression":
        return None
    paths = [_path(part) for part in node["children"]]
    return None if None in paths else tuple(name for path in paths for name in path or ())


@cache  # by the texts of the configuration, so that their number is limited
def _selector(text: str) -> Selector:
    return compile_selector(text)


@cache
def _expression(text: str, lookups: Lookups | None = None) -> Any:
    from connector.businessobjects.expressions import compile_expression  # few deployments have such a rule

    return compile_expression(text) if lookups is None else compile_expression(text, lookups)
