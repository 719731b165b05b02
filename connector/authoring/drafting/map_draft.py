"""Drafts a map: what has the same name in both objects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from connector.businessobjects.definition import Field, Schema
from connector.businessobjects.types import DECIMAL, NUMBERS, TEXTS
from connector.declare.scalar import scalar

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DEPTH: Final = 8
_INEXACT: Final = ("Float", "Double")


class MapDraft(NamedTuple):
    """A drafted map.

    Args:
        text: the document.
        missing: the attributes without an expression, each with the reason.
    """

    text: str
    missing: tuple[str, ...]


def draft_map(name: str, source: Schema, target: Schema) -> MapDraft:
    """Returns a map with an expression for each attribute that both objects have."""
    lines = [f"map: {scalar(name)}", f"from: {scalar(source.name)}", f"to: {scalar(target.name)}"]
    verbs, own = target.definition.verbs, source.definition.verbs
    if verbs and not own.keys() <= verbs.keys():
        lines.append(f"verb: {scalar(next((verb for verb in own if verb in verbs), next(iter(verbs))))}")
    lines.append("attributes:")
    missing = []
    for field in target.fields.values():
        if not field.in_body:
            continue
        reason, expression = "", ""
        found = source.fields.get(field.name)
        if found is None:
            reason = f"{source.name} has no attribute of this name"
        else:
            expression = _expression(found, field, _DEPTH)
            reason = "" if expression else f"{_kind(found)} cannot be {_kind(field)}"
        if expression:
            lines.append(f"  {scalar(field.name)}: {scalar(expression)}")
        else:
            needed = "required, and " if field.attribute.is_required else ""
            lines.append(f"  # {field.name}: {needed}{reason}")
            missing.append(f"{field.name}: {needed}{reason}")
    return MapDraft("\n".join(lines) + "\n", tuple(missing))


def _expression(found: Field, field: Field, depth: int) -> str:
    """Returns the expression that makes an attribute of the one with the same name. Empty = none can."""
    name = _name(found.name)
    if found.many != field.many:
        return ""
    if found.child is None or field.child is None:
        one, other = found.attribute.type, field.attribute.type
        if found.child is not None or field.child is not None:
            return ""
        if one == other or (one in (*TEXTS, "Date") and other in TEXTS):
            return name
        if one in NUMBERS and other in NUMBERS and other != "Integer":
            return "" if other == DECIMAL and one in _INEXACT else name
        return f"to_string({name})" if one in NUMBERS and other in TEXTS and not found.many else ""
    if found.child.name == field.child.name:
        return name
    pairs = list(_members(found.child, field.child, depth)) if depth else []
    return f"{name}{'[]' if found.many else ''}.{{{', '.join(pairs)}}}" if pairs else ""


def _members(source: Schema, target: Schema, depth: int) -> Iterator[str]:
    for field in target.fields.values():
        found = source.fields.get(field.name)
        if found is not None and (expression := _expression(found, field, depth - 1)):
            yield f"{_name(field.name)}: {expression}"


def _name(name: str) -> str:
    return name if _IDENTIFIER.match(name) else f'"{name}"'


def _kind(field: Field) -> str:
    name = field.attribute.type
    return f"a list of {name}" if field.many else f"a {name}"
