"""Plans: what a format knows of one business object, made once.

A :class:`Plan` has the attributes that a body may have, each with its name in the format. Its
:attr:`Plan.parts` are these attributes as a walk through a body meets them. :class:`Plans` makes the plan of
each business object at the first use.

A format may add to both: its items derive from :class:`Item`, and its plans from :class:`Plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

from connector.businessobjects.definition import Definitions, Field, Schema
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import DECIMAL, HELD_AS_TEXT, TEXTS, Converter, text_of
from connector.text.names import did_you_mean, shown

MAX_DEPTH: Final = 200
"""Levels of objects in a body."""
_BOOLEANS: Final[dict[Any, str]] = {True: "true", False: "false", "": ""}
TOO_DEEP: Final = f"nested deeper than {MAX_DEPTH} levels"


class Item:
    """An attribute of a business object in a format.

    Attributes:
        to_value: returns the value of a text, or of each text of a list. None for a child.
    """

    __slots__ = ("field", "name", "to_text", "to_value")

    def __init__(self, field: Field, name: str) -> None:
        self.field = field
        self.name = name
        self.to_value: Converter | None = field.value_from_text
        type_name = field.attribute.type
        self.to_text = None if field.child is not None or type_name in HELD_AS_TEXT else _to_text(type_name)
        """Returns the text of a value. None for a child, and for a type whose values are texts."""


ItemT = TypeVar("ItemT", bound=Item)


class AttributeRun(Generic[ItemT]):
    """Attributes with single values that stand side by side. Converting them together takes less time.

    Args:
        items: the attributes, at least one.
    """

    __slots__ = ("converters", "items", "names", "prefixes", "typed")

    def __init__(self, items: list[ItemT]) -> None:
        self.items = items
        self.names = [item.field.name for item in items]
        """The names of the attributes."""
        self.prefixes = [f"{item.name}=" for item in items]
        """What stands before each value, in a format of names and values."""
        self.converters = [
            (index, item.to_value)
            for index, item in enumerate(items)
            if item.to_value is not None and not takes_any_text(item.field)
        ]
        """By index, the converters of the attributes that not every text fits."""
        self.typed = [(i, item.to_text) for i, item in enumerate(items) if item.to_text is not None]
        """By index, what writes the values that are no texts."""


UNDEFINED: Final = "; define it, or set IgnoreUndefinedAttributes"
"""The advice for a name in a body that no attribute has."""


class Plan(Generic[ItemT]):
    """A business object in a format.

    Args:
        items: the attributes that a body may have, in the order of the definition.
    """

    def __init__(self, schema: Schema, items: Iterable[ItemT]) -> None:
        self.schema = schema
        self.name = schema.name
        self.items = tuple(items)
        self.by_name = {item.name: item for item in self.items}
        self.parts = _parts(self.items)
        """The items in their order: runs of attributes with single values, children and lists of values."""

    def has_value(self, bo: BusinessObject) -> bool:
        """Tells whether an attribute of a body is set."""
        return any(item.field.name in bo for item in self.items)

    def unknown_name(self, name: str, format: str = "") -> str:
        """Returns the mistake of a name in a body that is no item."""
        field = self.schema.fields.get(name)
        if field is not None and not field.in_body:
            return f"holds a meta-object of {self.name}, which is never part of a body"
        given = next((item.name for item in self.items if item.field is field), None)
        if given is not None:
            return f"the attribute {name} of {self.name} is {shown(given)} in {format}"
        return f"no such attribute in {self.name}{did_you_mean(name, self.by_name)}"


def _to_text(type_name: str) -> Callable[[Any], str]:
    """Returns a function that does what :func:`text_of` does, for the values of one type."""
    if type_name == "Boolean":
        return _BOOLEANS.__getitem__
    return text_of if type_name == DECIMAL else str


def _parts(items: Iterable[ItemT]) -> list[AttributeRun[ItemT] | ItemT]:
    parts: list[AttributeRun[ItemT] | ItemT] = []
    run: list[ItemT] = []
    for item in items:
        if item.field.child is None and not item.field.many:
            run.append(item)
            continue
        parts += [AttributeRun(run), item] if run else [item]
        run = []
    return [*parts, AttributeRun(run)] if run else parts


PlanT = TypeVar("PlanT", bound="Plan[Any]")


class Plans(Generic[PlanT]):
    """The plans of the business objects of a deployment in one format. Each is made at its first use.

    Args:
        make: makes the plan of a business object. May raise MalformedData: the format cannot hold the object.
    """

    def __init__(self, definitions: Definitions, make: Callable[[Schema], PlanT]) -> None:
        self.definitions = definitions
        self._make = make
        self._plans: dict[str, PlanT] = {}

    def of(self, schema: Schema) -> PlanT:
        """Returns the plan of a business object."""
        plan = self._plans.get(schema.name)
        if plan is None:
            plan = self._plans[schema.name] = self._make(schema)
        return plan

    def get(self, name: str) -> PlanT:
        """Returns the plan of the business object ``name``.

        Raises:
            UnknownBusinessObject: there is no such object.
        """
        return self._plans.get(name) or self.of(self.definitions.schema(name))

    def reachable(self, plan: PlanT) -> list[PlanT]:
        """Returns a plan and the plans of all descendants."""
        found = {plan.name: plan}
        waiting = [plan]
        while waiting:  # a loop, because the nesting may be deep
            for item in waiting.pop().items:
                child = item.field.child
                if child is not None and child.name not in found:
                    found[child.name] = self.of(child)
                    waiting.append(found[child.name])
        return list(found.values())


def body_fields(schema: Schema, without: str = "") -> list[Field]:
    """Returns the attributes that a body may have, in their order.

    Args:
        without: the name of an attribute that the format does not hold. Empty = none.
    """
    return [field for field in schema.fields.values() if field.in_body and field.name != without]


def takes_any_text(field: Field) -> bool:
    """Tells whether every text is a value of an attribute."""
    return field.attribute.type in TEXTS and not field.attribute.max_length
