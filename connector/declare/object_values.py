"""Reads the values of a business object that stand in YAML. The type of the attribute decides."""

from __future__ import annotations

from typing import Any

from connector.businessobjects.definition import Definitions, Schema
from connector.businessobjects.types import Converter
from connector.declare.problems import Problems
from connector.declare.tree import Items, Leaf, Node, Table, is_absent, kind_of
from connector.errors import UnknownBusinessObject
from connector.text.names import nearest, shown


class ObjectValues:
    """Reads values of the business objects of a deployment.

    Args:
        problems: gets the mistakes. Wrong values are None, and unknown attributes are left out.
    """

    def __init__(self, definitions: Definitions, problems: Problems) -> None:
        self._definitions = definitions
        self._problems = problems

    def read(self, node: Node, name: str, path: str) -> dict[str, Any] | None:
        """Returns typed values by attribute. None = there is no such business object, which is reported.

        Args:
            node: a mapping.
            name: of the business object.
            path: of the node, for error texts.
        """
        try:
            schema = self._definitions.schema(name)
        except UnknownBusinessObject as error:
            self._problems.add(node.position, path, str(error), "a business object of the deployment")
            return None
        return self._values(node, schema, path)

    def _values(self, node: Node, schema: Schema, path: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        if is_absent(node):
            return values
        if not isinstance(node, Table):
            self._problems.add(node.position, path, kind_of(node), "a mapping")
            return values
        for key, value in node.entries.items():
            if key in schema.fields:
                values[key] = self._attribute(value, schema, key, f"{path}.{key}")
            else:
                self._problems.add(
                    node.keys[key].position,
                    f"{path}.{key}",
                    f"{schema.name} has no such attribute",
                    f"one of {', '.join(schema.fields)}",
                    nearest(key, schema.fields),
                )
        return values

    def _attribute(self, value: Node, schema: Schema, key: str, path: str) -> Any:
        """Returns the value of an attribute: of a simple type, a list, a child or several children."""
        field = schema.fields[key]
        if is_absent(value):
            return None
        if field.from_text is not None and isinstance(value, Leaf):
            return self._simple(value, field.from_text, path)
        items = value.items if isinstance(value, Items) else None
        if field.is_list and items is not None:
            assert field.value_from_text is not None
            convert = field.value_from_text
            return [self._simple(one, convert, f"{path}[{number}]") for number, one in enumerate(items)]
        if field.child is not None and field.many and items is not None:
            child = field.child
            return [self._values(one, child, f"{path}[{number}]") for number, one in enumerate(items)]
        if field.child is not None and not field.many and isinstance(value, Table):
            return self._values(value, field.child, path)
        if field.is_list:
            expected = "a list of values"
        else:
            expected = "a list of mappings" if field.many else "a mapping"
            expected = expected if field.child else "a single value"
        self._problems.add(value.position, path, kind_of(value), expected)
        return None

    def _simple(self, node: Node, convert: Converter, path: str) -> Any:
        """Returns a value of a simple type. None if it does not fit."""
        if not isinstance(node, Leaf):
            self._problems.add(node.position, path, kind_of(node), "a single value")
            return None
        if is_absent(node):
            self._problems.add(node.position, path, "null", "a value, because a list has no gaps")
            return None
        try:
            return convert(str(node))
        except ValueError as error:
            found, _, expected = str(error).partition(", expected ")
            if node.from_environment:  # which may be a secret
                found = f"{shown(node.raw)} from the environment, which does not fit"
            self._problems.add(node.position, path, found, expected)
        return None
