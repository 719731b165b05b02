"""Which values of a business object go into which columns of a table, as adapter.yaml says."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from jmespath.exceptions import JMESPathError

from connector.businessobjects.definition import Attribute, Definition
from connector.businessobjects.expressions import compile_expression, files_of
from connector.businessobjects.instance import BusinessObject
from connector.text.names import did_you_mean

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PATH: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+\Z")


class WrongExpression(ValueError):
    """An expression names no attribute, or is no JMESPath expression."""


class Source(NamedTuple):
    """Where the value of a column comes from.

    Args:
        text: the name of an attribute, or a JMESPath expression, for texts.
        attribute: of the business object. None = an expression.
        value: returns the value. None = not set, or null.
        is_null: tells whether the value is null.
    """

    text: str
    attribute: Attribute | None
    value: Callable[[BusinessObject], Any]
    is_null: Callable[[BusinessObject], bool]


def source_of(text: str, definition: Definition) -> Source:
    """Returns the source that a text names: an attribute of a simple type, or a JMESPath expression.

    Raises:
        WrongExpression: the text is neither.
    """
    attribute = definition.attributes.get(text)
    if attribute is not None and attribute.is_list:
        raise WrongExpression(
            f"{text} is a list of values ({attribute.type}), and a column holds a single value"
        )
    if attribute is not None and not attribute.is_child:
        return Source(text, attribute, lambda bo: bo.value(text), lambda bo: bo.is_null(text))
    if attribute is not None:
        raise WrongExpression(f"{text} is a {attribute.type}, not a single value")
    if _NAME.match(text):
        near = did_you_mean(text, definition.attributes)
        raise WrongExpression(f"{definition.name} has no attribute {text!r}{near}")
    try:
        expression = compile_expression(text)
    except JMESPathError as error:
        raise WrongExpression(f"{text!r} is no JMESPath expression: {' '.join(str(error).split())}") from None

    if files_of(expression.tree):
        raise WrongExpression(f"{text!r} looks up in a file, which only a map does for a table")

    def value(bo: BusinessObject) -> Any:
        try:
            return expression.search(bo.as_dict())
        except JMESPathError as error:
            raise ValueError(f"the expression {text!r} cannot be used: {error}") from None

    path = text.split(".") if _PATH.match(text) else []
    return Source(text, None, value, lambda bo: _is_null(bo, path))


def _is_null(bo: BusinessObject, path: list[str]) -> bool:
    """Tells whether a path through single children leads to null, or through a child that is null."""
    place: Any = bo
    for name in path:
        if not isinstance(place, BusinessObject) or name not in place:
            return False
        if place.is_null(name):
            return True
        place = place[name]
    return False


@dataclass(frozen=True, slots=True)
class TableMapping:
    """A table, and the sources of its columns.

    Args:
        name: TABLE or SCHEMA.TABLE.
        columns: column and source. None = all attributes of simple types, by their names.
        key: column and source in the objects around (:func:`owner_of`), for the table of a child.
        children: attribute and table.
    """

    name: str
    columns: tuple[tuple[str, str], ...] | None = None
    key: tuple[tuple[str, str], ...] = ()
    children: tuple[tuple[str, TableMapping], ...] = ()


def owner_of(text: str, around: Sequence[Definition]) -> int:
    """Returns the number of the object that has a source: the nearest one with an attribute of that name.

    Args:
        text: of the source. An expression is one of the containing object.
        around: the definitions of the objects around a child, the containing one first.
    """
    for number, definition in enumerate(around):
        if text in definition.attributes and not definition.attributes[text].is_child:
            return number
    return 0


def default_columns(definition: Definition) -> list[str]:
    """Returns the attributes that have columns of their names: all of simple types but meta-objects."""
    left_out = definition.metaobject_attributes
    return [
        name
        for name, attribute in definition.attributes.items()
        if not attribute.is_child and name not in left_out
    ]
