"""A map with one expression an attribute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from jmespath.exceptions import JMESPathError

from connector.businessobjects.expression_types import type_expression
from connector.businessobjects.expressions import compile_expression, exact
from connector.businessobjects.instance import BusinessObject, finish
from connector.businessobjects.lookups import Lookups
from connector.businessobjects.object_map import ObjectMap
from connector.errors import MalformedData


class MappedAttribute(NamedTuple):
    """An attribute of the object that is made, and its expression.

    Args:
        lookups: the tables of ``lookup``.
    """

    name: str
    text: str
    lookups: Lookups


@dataclass(slots=True)
class ExpressionMap(ObjectMap):
    """Makes each attribute by an expression on the object that it takes."""

    name: str
    source: str
    target: str
    verb: str | None
    attributes: tuple[MappedAttribute, ...]

    def make(self, bo: BusinessObject, *, use_defaults: bool) -> BusinessObject:
        schema, document = bo.definitions.schema(bo.type), exact(bo.as_dict())
        made = BusinessObject(bo.definitions, self.target, self.verb or bo.verb)
        made.object_event_id = bo.object_event_id
        has_null = _has_null(document)
        for name, text, lookups in self.attributes:
            typed = type_expression(compile_expression(text, lookups), schema)
            try:
                found = typed.expression.find_member(document) if has_null else None
                value = typed.expression.find(document) if found is None else found.get("value")
            except JMESPathError as error:
                raise MalformedData(f"{name}: {error}") from None
            try:
                made[name] = value
                if found:
                    _set_nulls(made, name, value)
            except MalformedData:
                if not typed.is_secret:
                    raise
                raise MalformedData(f"{self.target}: {name}: found a value that does not fit") from None
        finish(made, use_defaults=use_defaults)
        return made


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    return any(map(_has_null, value)) if isinstance(value, list) else value is None


def _set_nulls(made: BusinessObject, name: str, value: Any) -> None:
    """Sets what is None in a value that was assigned to null, in children, too."""
    if value is None:
        made.set_null(name)
        return
    given, children = (value, made[name]) if isinstance(value, list) else ([value], [made[name]])
    for inner, child in zip(given, children, strict=True):
        for key, one in inner.items() if isinstance(inner, dict) else ():
            _set_nulls(child, key, one)
