"""Texts with placeholders for the attributes of a business object: ``{Attribute}``, ``{Child.Attribute}``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from connector.businessobjects.definition import Definition, Definitions, Field
from connector.businessobjects.dynamic import NATURAL_TYPES
from connector.businessobjects.instance import BusinessObject, UnknownAttribute
from connector.businessobjects.types import SECRET, SimpleValue, text_of
from connector.errors import ObjectRefused, WrongValue
from connector.messaging.message import PropertyValue
from connector.text.names import nearest, shown

NAME: Final = r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*"
"""The form of the name in a placeholder, for a regular expression."""
_NAME: Final = re.compile(rf"{NAME}\Z")
_PART: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_EXPECTED: Final = "{Attribute} or {Child.Attribute}, and {{ or }} for a brace"


def find_value(objects: Sequence[BusinessObject], name: str) -> tuple[Field, SimpleValue | None]:
    """Returns an attribute of an object or of its children, and its value. None = it is not set.

    Args:
        objects: the object of the event, and the object of the map if there is one. The first that has the
            attribute counts.
        name: of the attribute, with the attributes of the children before it: ``Child.Attribute``.

    Raises:
        ObjectRefused: the attribute has no single value.
        UnknownAttribute: the definition has no such attribute.
    """
    *children, last = name.split(".")
    first = [*children, last][0]
    bo = next((one for one in objects if first in one.definitions.schema(one.type).fields), objects[0])
    schema = bo.definitions.schema(bo.type)
    value: Any = bo
    for part in children:
        attribute = schema.fields.get(part)
        if attribute is None:
            raise UnknownAttribute(schema, part)
        if attribute.child is None or attribute.many:
            raise ObjectRefused(f"{name} is needed, and {part} is not a single child")
        schema = attribute.child
        value = None if value is None else value[part]
    attribute = schema.fields.get(last)
    if attribute is None:
        raise UnknownAttribute(schema, last)
    if attribute.child is not None or attribute.many:
        raise ObjectRefused(f"{name} is needed, which is not a single value")
    return attribute, None if value is None else value[last]


@dataclass(frozen=True, slots=True)
class TextTemplate:
    """A text with placeholders. ``{{`` and ``}}`` stand for braces.

    Args:
        text: the template. Raises :class:`WrongValue`.
    """

    text: str
    parts: tuple[tuple[str, str], ...] = field(init=False, repr=False, compare=False)
    """Each a fixed text and the name behind it. The name of the last part is empty."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(_parts(self.text)))

    def __str__(self) -> str:
        return self.text

    @property
    def names(self) -> list[str]:
        """The names of the placeholders."""
        return [name for _, name in self.parts if name]

    def filled_with(self, text: str) -> str:
        """Returns the text with ``text`` in place of each placeholder."""
        return "".join(fixed + (text if name else "") for fixed, name in self.parts)

    def fill(self, objects: Sequence[BusinessObject]) -> str | None:
        """Returns the text for objects, see :func:`find_value`. None = an attribute is not set.

        Raises:
            ObjectRefused, UnknownAttribute: as :func:`find_value`.
        """
        texts = []
        for fixed, name in self.parts:
            texts.append(fixed)
            if name:
                value = find_value(objects, name)[1]
                if value is None:
                    return None
                texts.append(text_of(value))
        return "".join(texts)

    def property_of(self, objects: Sequence[BusinessObject]) -> tuple[PropertyValue | None, str]:
        """Returns the value of a property for objects, and its JMS type. None = an attribute is not set.

        A template that is one placeholder has the type of the attribute, a Decimal as text. Any other
        template is a text.

        Raises:
            ObjectRefused, UnknownAttribute: as :func:`find_value`.
        """
        if len(self.parts) != 2 or self.parts[0][0] or self.parts[1][0]:
            return self.fill(objects), "string"
        attribute, value = find_value(objects, self.parts[0][1])
        kind = NATURAL_TYPES[attribute.attribute.type]
        if value is None or kind != "string":
            return value, kind  # type: ignore[return-value]  # a Decimal is a string
        return text_of(value), kind


def _parts(text: str) -> Iterator[tuple[str, str]]:
    fixed, end = "", 0
    for match in _PART.finditer(text):
        fixed += text[end : match.start()]
        end = match.end()
        found, name = match[0], match[1]
        if found in ("{{", "}}"):
            fixed += found[0]
        elif name is None:
            raise WrongValue(f"{shown(text)} with a single {found}", _EXPECTED)
        elif not _NAME.match(name):
            raise WrongValue(f"{shown(found)}, which names no attribute", _EXPECTED)
        else:
            yield fixed, name
            fixed = ""
    yield fixed + text[end:], ""


class PlaceholderMistake(NamedTuple):
    """Why a placeholder can have no value, with the arguments of ``EntryCheck.add``."""

    found: str
    expected: str
    nearest: str | None = None


def placeholder_mistakes(
    names: Iterable[str], objects: Sequence[str], definitions: Definitions, *, shows: bool = False
) -> Iterator[PlaceholderMistake]:
    """Yields the mistakes of placeholders for objects of these types.

    Args:
        objects: as :func:`find_value` gets them. Nothing is a mistake if a definition is not known.
        shows: whether logs and errors show the values, so that no Ciphertext can be among them.
    """
    known = [definition for one in objects if (definition := definitions.get(one)) is not None]
    for name in names if len(known) == len(objects) else ():
        *children, last = name.split(".")
        first = [*children, last][0]
        of: Definition | None = next((one for one in known if first in one.attributes), known[0])
        for part in children:
            child = of.attributes.get(part) if of is not None else None
            if of is not None and (child is None or not child.is_child or child.is_many):
                fit = [one.name for one in of.attributes.values() if one.is_child and not one.is_many]
                found = f"{of.name} has no attribute {part} with a single child"
                yield PlaceholderMistake(found, f"one of {', '.join(fit) or 'none'}", nearest(part, fit))
            of = None if child is None or child.is_many else definitions.get(child.type)
        if of is None:
            continue
        attributes = of.attributes.values()
        fit = [one.name for one in attributes if not (one.is_child or one.is_many)]
        if last not in fit:
            found = f"{of.name} has no attribute {last} with a single value"
            yield PlaceholderMistake(found, f"one of {', '.join(fit)}", nearest(last, fit))
        elif shows and of.attributes[last].type == SECRET:
            yield PlaceholderMistake(f"{last} is a {SECRET}, and logs would show it", "another attribute")
