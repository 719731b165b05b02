"""What an expression means for the objects of one definition: its mistakes, its type, comparisons of dates.

The syntax tree is walked once, with the definition as the type of the document. A name that the definition
does not have is a mistake. A comparison with a Date becomes one of instants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple, cast

from connector.businessobjects.dates import has_zone
from connector.businessobjects.definition import Attribute, Field, Schema
from connector.businessobjects.expression_functions import (
    KINDS,
    SIGNATURES,
    TypedComparison,
    format_mistake,
    kind_of,
)
from connector.businessobjects.expression_text import Node, text_of
from connector.businessobjects.expressions import Expression
from connector.businessobjects.types import NUMBERS, SECRET, is_date
from connector.text.names import nearest, plain, shown


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a value in an expression.

    Args:
        kind: the type in JMESPath: ``string``, ``number`` ... Empty = not known.
        name: of a value of a simple type in the definition. Empty = not from an attribute.
        attribute: that the value comes from.
        schema: of an object. None = of no definition, or not known.
        of: of the elements of a list.
        members: of an object that the expression makes, by name.
    """

    kind: str = ""
    name: str = ""
    attribute: Attribute | None = None
    schema: Schema | None = None
    of: Type | None = None
    members: Mapping[str, Type] | None = field(default=None, hash=False)

    @property
    def is_date(self) -> bool:
        return self.name == "Date"

    @property
    def element(self) -> Type:
        return self.of or ANY

    def __str__(self) -> str:
        if self.kind == "array" and self.of is not None and self.of.schema is not None:
            return f"a list of objects ({self.of.schema.name})"
        if self.kind == "array" and self.of is not None and self.of.name:
            return f"a list of values ({self.of.name})"
        if self.schema is not None:
            return f"an object ({self.schema.name})"
        return f"a {self.name}" if self.name else KINDS.get(self.kind, "a value")


ANY: Final = Type()
TEXT: Final = Type("string")
NUMBER: Final = Type("number")
_BOOLEAN: Final = Type("boolean")


class ExpressionMistake(NamedTuple):
    """A part of an expression that cannot be right for a definition."""

    found: str
    expected: str
    near: str | None = None


class TypedExpression(NamedTuple):
    """An expression for the objects of one definition.

    Args:
        expression: compares dates as instants.
        type: of its value.
        is_secret: whether it uses a Ciphertext.
    """

    expression: Expression
    type: Type
    mistakes: tuple[ExpressionMistake, ...]
    is_secret: bool


@lru_cache(maxsize=1024)
def type_expression(expression: Expression, schema: Schema) -> TypedExpression:
    """Returns what an expression means for the objects of a definition."""
    walk = _Walk()
    tree, found = walk.visit(expression.tree, Type("object", schema=schema))
    typed = Expression(expression.text, tree, expression.lookups, is_secret=walk.is_secret)
    return TypedExpression(typed, found, tuple(dict.fromkeys(walk.mistakes)), walk.is_secret)


def type_of(field_: Field) -> Type:
    """Returns the type of an attribute."""
    attribute = field_.attribute
    if field_.child is not None:
        one = Type("object", schema=field_.child)
    else:
        kind = (
            "boolean" if attribute.type == "Boolean" else "number" if attribute.type in NUMBERS else "string"
        )
        one = Type(kind, attribute.type, attribute)
    return Type("array", of=one) if field_.many else one


class _Walk:
    """One walk through a syntax tree."""

    def __init__(self) -> None:
        self.mistakes: list[ExpressionMistake] = []
        self.is_secret = False
        self._zones: dict[str, str] = {}
        """From an attribute and whether a zone stands beside it, to the text beside the attribute."""

    def visit(self, node: Node, scope: Type) -> tuple[Node, Type]:
        """Returns a node with comparisons of dates, and the type of its value.

        Args:
            scope: the type of the value that the node is applied to.
        """
        visit = cast(
            Callable[[Node, Type], tuple[Node, Type]] | None, getattr(self, f"_{node['type']}", None)
        )
        if visit is not None:
            return visit(node, scope)
        children = [
            self.visit(child, ANY)[0] if isinstance(child, dict) else child for child in node["children"]
        ]
        return {**node, "children": children}, ANY

    def _add(self, found: str, expected: str, near: str | None = None) -> None:
        self.mistakes.append(ExpressionMistake(found, expected, near))

    # --- names --------------------------------------------------------------------------------

    def _field(self, node: Node, scope: Type) -> tuple[Node, Type]:
        name = node["value"]
        if scope.members is not None:
            if name not in scope.members:
                self._add(
                    f"no {plain(name)}", f"one of {', '.join(scope.members)}", nearest(name, scope.members)
                )
            return node, scope.members.get(name, ANY)
        if scope.schema is None:
            if scope.kind and scope.kind != "object":
                expected = (
                    "a name within its elements, as in Name[].Inner" if scope.of else "a name of an object"
                )
                self._add(f"{plain(name)} of {scope}", expected)
            return node, ANY
        fields = scope.schema.fields
        if name not in fields and name == "null":
            return {"type": "literal", "value": None, "children": []}, ANY  # as JMESPath evaluates it
        if name not in fields and name in ("true", "false"):
            self._add(f"{name} without back quotes, which is the name of an attribute", f"`{name}`")
            return node, ANY
        if name not in fields:
            expected = f"one of {', '.join(fields)}"
            self._add(f"{scope.schema.name} has no attribute {shown(name)}", expected, nearest(name, fields))
            return node, ANY
        found = type_of(fields[name])
        self.is_secret |= SECRET in (found.name, found.element.name)
        return node, found

    def _current(self, node: Node, scope: Type) -> tuple[Node, Type]:
        return node, scope

    _identity = _current

    def _subexpression(self, node: Node, scope: Type) -> tuple[Node, Type]:
        children = []
        for child in node["children"]:
            made, scope = self.visit(child, scope)
            children.append(made)
        return {**node, "children": children}, scope

    _index_expression = _pipe = _subexpression

    # --- lists --------------------------------------------------------------------------------

    def _index(self, node: Node, scope: Type) -> tuple[Node, Type]:
        self._need_list(scope, f"[{node['value']}]")
        return node, scope.element

    def _slice(self, node: Node, scope: Type) -> tuple[Node, Type]:
        self._need_list(scope, "[:]")
        return node, scope

    def _need_list(self, scope: Type, what: str) -> None:
        if scope.kind not in ("", "array"):
            self._add(f"{what} of {scope}", "a list")

    def _flatten(self, node: Node, scope: Type) -> tuple[Node, Type]:
        base, found = self.visit(node["children"][0], scope)
        self._need_list(found, f"{text_of(node['children'][0])}[]")
        inner = found.element
        return {**node, "children": [base]}, inner if inner.kind == "array" else Type("array", of=inner)

    def _projection(self, node: Node, scope: Type) -> tuple[Node, Type]:
        base, found = self.visit(node["children"][0], scope)
        if node["children"][0]["type"] != "flatten":
            self._need_list(found, text_of(node))
        right, inner = self.visit(node["children"][1], found.element)
        return {**node, "children": [base, right]}, Type("array", of=inner)

    def _filter_projection(self, node: Node, scope: Type) -> tuple[Node, Type]:
        base, found = self.visit(node["children"][0], scope)
        self._need_list(found, text_of(node))
        right, inner = self.visit(node["children"][1], found.element)
        condition, _ = self.visit(node["children"][2], found.element)
        return {**node, "children": [base, right, condition]}, Type("array", of=inner)

    def _value_projection(self, node: Node, scope: Type) -> tuple[Node, Type]:
        base, _ = self.visit(node["children"][0], scope)
        right, inner = self.visit(node["children"][1], ANY)
        return {**node, "children": [base, right]}, Type("array", of=inner)

    # --- values -------------------------------------------------------------------------------

    def _literal(self, node: Node, scope: Type) -> tuple[Node, Type]:
        value = node["value"]
        return node, Type("" if value is None else kind_of(value))

    def _multi_select_list(self, node: Node, scope: Type) -> tuple[Node, Type]:
        made = [self.visit(child, scope) for child in node["children"]]
        return {**node, "children": [one for one, _ in made]}, Type("array", of=_common([t for _, t in made]))

    def _multi_select_dict(self, node: Node, scope: Type) -> tuple[Node, Type]:
        children, members = [], {}
        for pair in node["children"]:
            made, members[pair["value"]] = self.visit(pair["children"][0], scope)
            children.append({**pair, "children": [made]})
        return {**node, "children": children}, Type("object", members=members)

    def _or_expression(self, node: Node, scope: Type) -> tuple[Node, Type]:
        made = [self.visit(child, scope) for child in node["children"]]
        return {**node, "children": [one for one, _ in made]}, _common([found for _, found in made])

    _and_expression = _or_expression

    def _not_expression(self, node: Node, scope: Type) -> tuple[Node, Type]:
        return {**node, "children": [self.visit(node["children"][0], scope)[0]]}, _BOOLEAN

    # --- comparisons --------------------------------------------------------------------------

    def _comparator(self, node: Node, scope: Type) -> tuple[Node, Type]:
        made = [self.visit(child, scope) for child in node["children"]]
        children, types = [one for one, _ in made], [found for _, found in made]
        is_equality = node["value"] in ("eq", "ne")
        blank = any(child["type"] == "literal" and child["value"] == "" for child in children)
        kinds = {""} if blank else {found.kind for found in types}
        is_comparison_of_dates = any(found.is_date for found in types)
        if "" not in kinds and (len(kinds) > 1 or not (is_equality or kinds <= {"string", "number"})):
            left, right = map(text_of, node["children"])
            self._add(
                f"{left}, which is {types[0]}, beside {right}, which is {types[1]}", "values of one type"
            )
        elif is_comparison_of_dates:
            self._check_dates(node["children"], types)
        if is_equality and not is_comparison_of_dates:
            return {**node, "children": children}, _BOOLEAN
        value = TypedComparison(node["value"], is_comparison_of_dates)
        return {"type": "function_expression", "value": value, "children": children}, _BOOLEAN

    def _check_dates(self, sides: Sequence[Node], types: Sequence[Type]) -> None:
        """Checks the literals beside a Date, and that all of them have a zone or none has."""
        attributes: list[str] = []
        zones: dict[bool, str] = {}
        for side, found in zip(sides, types, strict=True):
            for part in _parts(side):
                if part["type"] != "literal":
                    attributes.append(text_of(part))
                    continue
                text = part["value"]
                if text is None or text == "":
                    continue
                if not isinstance(text, str) or not is_date(text):
                    self._add(f"{text_of(part)} beside a Date", "a date such as '2024-05-31T08:00:00Z'")
                else:
                    zones.setdefault(has_zone(text), text_of(part))
            facets = None if found.attribute is None else found.attribute.facets
            for bound in (facets.minimum, facets.maximum) if facets is not None else ():
                if isinstance(bound, str) and has_zone(bound):
                    zones.setdefault(True, f"{text_of(side)} (its bound is {bound})")
        for name in attributes:
            for zone, text in list(zones.items()):
                if (other := self._zones.get(f"{name} {not zone}")) is not None:
                    zones.setdefault(not zone, other)
                self._zones.setdefault(f"{name} {zone}", text)
        if len(zones) == 2:
            self._add(
                f"{zones[False]} without a zone beside {zones[True]} with a zone", "both with a zone, or none"
            )

    # --- functions ----------------------------------------------------------------------------

    def _function_expression(self, node: Node, scope: Type) -> tuple[Node, Type]:
        name, nodes = node["value"], node["children"]
        is_reference = [child["type"] == "expref" for child in nodes]
        made = [
            (child, ANY) if is_ref else self.visit(child, scope)
            for child, is_ref in zip(nodes, is_reference, strict=True)
        ]
        element = next((found.element for _, found in made if found.kind == "array"), ANY)
        for index, child in enumerate(nodes):
            if is_reference[index]:
                inner, found = self.visit(child["children"][0], element)
                made[index] = {**child, "children": [inner]}, Type("expref", of=found)
        types = [found for _, found in made]
        self._check_arguments(name, nodes, types)
        return {**node, "children": [one for one, _ in made]}, _result(name, types)

    def _check_arguments(self, name: str, nodes: Sequence[Node], types: Sequence[Type]) -> None:
        for node, found, declared in zip(nodes, types, SIGNATURES.get(name, ()), strict=False):
            wanted = declared["types"]
            bases = {one.partition("-")[0] for one in wanted}
            if not wanted or not found.kind:
                continue
            inner = {one.partition("-")[2] for one in wanted if "-" in one}
            of = found.element.kind
            if found.kind not in bases or (found.kind == "array" and inner and of and of not in inner):
                expected = " or ".join(KINDS[one] for one in wanted)
                self._add(f"{text_of(node)} is {found} in {name}()", expected)
        form = nodes[1]["value"] if name == "date" and nodes[1]["type"] == "literal" else None
        if isinstance(form, str) and (mistake := format_mistake(form)):
            self._add(f"{text_of(nodes[1])} in date()", mistake)


def _parts(node: Node) -> list[Node]:
    """Returns the literals and other parts that the value of a part may be."""
    if node["type"] == "or_expression" or (
        node["type"] == "function_expression" and node["value"] in ("default", "not_null")
    ):
        return [part for child in node["children"] for part in _parts(child)]
    return [node]


def _common(types: Sequence[Type]) -> Type:
    """Returns the type that all have. A literal beside a value of an attribute is of its type."""
    known = [one for one in types if one.kind]
    kinds = {one.kind for one in known}
    if len(kinds) != 1 or len(known) < len(types):
        return ANY
    named = [one for one in known if one.name or one.schema or one.members]
    is_one = len({(one.name, one.schema) for one in named}) == 1
    return named[0] if is_one else Type(kinds.pop())


_RESULTS: Final[dict[str, Type]] = {
    **dict.fromkeys(("upper", "lower", "trim", "substring", "replace", "pad", "date", "lookup"), TEXT),
    **dict.fromkeys(("join", "to_string", "type"), TEXT),
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "round", "abs", "ceil", "floor"), NUMBER),
    **dict.fromkeys(("avg", "sum", "length", "to_number"), NUMBER),
    **dict.fromkeys(("contains", "starts_with", "ends_with"), _BOOLEAN),
    **dict.fromkeys(("split", "keys"), Type("array", of=TEXT)),
    "values": Type("array"),
}


def _result(name: str, types: Sequence[Type]) -> Type:
    """Returns the type of the value of a function."""
    if name in ("default", "not_null"):
        return _default(types)
    if name in ("sort", "sort_by", "reverse"):
        return types[0]
    if name in ("max", "min", "max_by", "min_by"):
        return types[0].element
    if name == "map":
        return Type("array", of=types[0].element)
    if name == "to_array":
        return types[0] if types[0].kind == "array" else Type("array", of=types[0])
    return _RESULTS.get(name, ANY)


def _default(types: Sequence[Type]) -> Type:
    dates = [one for one in types if one.is_date]
    return dates[0] if dates else _common(types)
