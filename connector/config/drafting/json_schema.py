"""Drafts a business object from a JSON Schema (drafts 4 to 2020-12, the keywords that say what there is)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

from connector.businessobjects.types import MAX_INTEGER, MIN_INTEGER
from connector.config.drafting.draft import Draft, DraftObject, key
from connector.config.drafting.kinds import BOOLEAN, DOUBLE, kind_of_number, kind_of_string, type_of_json
from connector.config.problems import shown
from connector.datahandlers.json_handler import parse_object
from connector.errors import MalformedData

MAX_PARTS: Final = 20_000
"""Properties of all definitions together. Schemas that use schemas can multiply."""

_MAX_STEPS: Final = 100
_LONG: Final = "whole numbers beyond 32 bits: exact up to 2**53, written with a decimal point"
_NO_BOUNDS: Final = "the schema gives no bounds; Integer has 32 bits"

_WORDS: Final = {
    "Integer": "integer",
    "Double": "number",
    "Boolean": "boolean",
    "String": "string",
    "Date": "string",
}

Schema = dict[str, Any]


def draft_json_schema(draft: Draft, body: bytes) -> None:
    """Drafts from a JSON Schema of an object.

    Raises:
        MalformedData: the body is no such schema.
    """
    _Schema(draft, parse_object(body)).draft()


class _Misfit(Exception):
    """No attribute can hold what a schema describes. The text gives the reason."""


class _Schema:
    def __init__(self, draft: Draft, document: Schema) -> None:
        self._draft = draft
        self._document = document
        self._children: dict[int, str] = {}  # from the identity of a schema to its definition
        self._waiting: list[tuple[DraftObject, Schema]] = []
        self._parts = 0

    def draft(self) -> None:
        top = self._draft.top
        try:
            kind, schema, _ = self._resolved(self._document)
        except _Misfit as misfit:
            raise MalformedData(f"the schema describes no object: {misfit}") from None
        if kind != "object" or not any(True for _ in self._properties(schema)):
            raise MalformedData("the schema describes no object with properties")
        self._children[id(schema)] = top.name
        self._waiting.append((top, schema))
        while self._waiting:
            holder, described = self._waiting.pop(0)
            self._fill(holder, described)

    def _fill(self, holder: DraftObject, schema: Schema) -> None:
        required = {name for part in self._merged(schema) for name in _names(part.get("required"))}
        for name, described in self._properties(schema):
            self._parts += 1
            if self._parts > MAX_PARTS:
                raise MalformedData(f"more than {MAX_PARTS} properties")
            if key(name) in holder.members:
                continue  # a part of allOf says more about it
            try:
                self._add(holder, name, described, name in required)
            except _Misfit as misfit:
                self._draft.leave_out(holder, name, str(misfit))

    def _add(self, holder: DraftObject, name: str, described: Any, required: bool) -> None:
        kind, schema, reference = self._resolved(described)
        many = kind == "array"
        if many:
            kind, schema, reference = self._resolved(_items(schema))
            if kind != "object":
                raise _Misfit("a list of single values or lists; only a list of objects can be an attribute")
        if kind == "object":
            if not any(True for _ in self._properties(schema)):
                raise _Misfit("an object without properties")
            made = self._draft.add(holder, key(name), "")
            if made is not None:
                made.type = self._child(holder, schema, reference or made.name, bool(reference))
        else:
            type_name, comment = _simple(kind, schema)
            made = self._draft.add(holder, key(name), type_name, comment=comment)
            if made is not None and type_name == "String":
                made.max_length = _length(schema)
        if made is not None:
            made.many, made.required = many, required

    def _child(self, holder: DraftObject, schema: Schema, name: str, is_shared: bool) -> str:
        """Returns the definition of a schema, which is new at its first use."""
        if id(schema) not in self._children:
            child = self._draft.child(self._draft.top if is_shared else holder, name)
            self._children[id(schema)] = child.name
            self._waiting.append((child, schema))
        return self._children[id(schema)]

    # --- schemas -----------------------------------------------------------------------------

    def _resolved(self, schema: Any) -> tuple[str, Schema, str]:
        """Returns the type that a schema describes, the schema, and the name of the last reference to it.

        Raises:
            _Misfit: the schema describes no single type.
        """
        name = ""
        for _ in range(_MAX_STEPS):
            if not isinstance(schema, dict):
                raise _Misfit("any value fits")
            if isinstance(schema.get("$ref"), str):
                name = _last(schema["$ref"])
                schema = self._referred(schema["$ref"])
                continue
            choices = schema.get("oneOf") or schema.get("anyOf")
            if isinstance(choices, list) and "properties" not in schema:
                others = [one for one in choices if not (isinstance(one, dict) and one.get("type") == "null")]
                if len(others) != 1:
                    raise _Misfit("one of several schemas")
                schema = others[0]
                continue
            parts = schema.get("allOf")
            if isinstance(parts, list) and len(parts) == 1 and not {"properties", "type"} & schema.keys():
                schema = parts[0]
                continue
            return _type(schema), schema, name
        raise _Misfit("references in a circle")

    def _referred(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise _Misfit(f"the reference {shown(reference)} leads out of the file")
        node: Any = self._document
        for step in reference[1:].split("/")[1:]:
            step = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(node, list) and step.isdecimal() and int(step[:9]) < len(node):
                node = node[int(step[:9])]
            elif isinstance(node, dict) and step in node:
                node = node[step]
            else:
                raise _Misfit(f"the reference {shown(reference)} leads nowhere")
        return node

    def _merged(self, schema: Schema) -> Iterator[Schema]:
        """Yields a schema and the schemas of its ``allOf``, those of these too."""
        waiting: list[Any] = [schema]
        seen: set[int] = set()
        while waiting:
            part = waiting.pop(0)
            try:
                part = self._followed(part)
            except _Misfit as misfit:
                text = f"a part of allOf: {misfit}"
                self._draft.left_out += [] if text in self._draft.left_out else [text]
                continue
            if isinstance(part, dict) and id(part) not in seen:
                seen.add(id(part))
                yield part
                parts = part.get("allOf")
                waiting += parts if isinstance(parts, list) else []

    def _followed(self, schema: Any) -> Any:
        """Returns the schema that a schema of references means."""
        for _ in range(_MAX_STEPS):
            if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
                return schema
            schema = self._referred(schema["$ref"])
        raise _Misfit("references in a circle")

    def _properties(self, schema: Schema) -> Iterator[tuple[str, Any]]:
        for part in self._merged(schema):
            properties = part.get("properties")
            if isinstance(properties, dict):
                yield from properties.items()


def _type(schema: Schema) -> str:
    """Returns the type that a schema names or means."""
    named = schema.get("type")
    types = [one for one in (named if isinstance(named, list) else [named]) if one != "null"]
    if sorted(map(str, types)) == ["integer", "number"]:
        return "number"
    if len(types) > 1:
        raise _Misfit(f"a value of several types: {', '.join(map(str, types))}")
    if types and isinstance(types[0], str):
        return types[0]
    if any(word in schema for word in ("properties", "allOf", "additionalProperties", "patternProperties")):
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    values = schema["enum"] if isinstance(schema.get("enum"), list) else [schema.get("const")]
    kinds = {_kind(value) for value in values if value is not None}
    found = type_of_json({kind for kind in kinds if kind}) if kinds and "" not in kinds else None
    if found is None:
        raise _Misfit("a value of any type")
    return _WORDS[found[0]]


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int):
        return kind_of_number(str(value)) or DOUBLE
    if isinstance(value, float):
        return DOUBLE
    return kind_of_string(value) if isinstance(value, str) else ""


def _simple(kind: str, schema: Schema) -> tuple[str, str]:
    if kind == "string":
        return ("Date", "") if schema.get("format") in ("date", "date-time") else ("String", "")
    if kind == "boolean":
        return "Boolean", ""
    if kind == "number":
        return "Double", ""
    if kind == "integer":
        bounds: list[Any] = [schema[key] for key in ("minimum", "maximum") if _is_number(schema.get(key))]
        is_long = schema.get("format") in ("int64", "long")
        if is_long or any(not MIN_INTEGER <= bound <= MAX_INTEGER for bound in bounds):
            return "Double", _LONG
        return "Integer", "" if len(bounds) == 2 else _NO_BOUNDS
    raise _Misfit(f"the type {shown(kind)}")


def _items(schema: Schema) -> Any:
    items = schema.get("items")
    if isinstance(items, list) or "prefixItems" in schema:
        raise _Misfit("a list whose elements differ by their place")
    return items


def _length(schema: Schema) -> int:
    length = schema.get("maxLength")
    return length if isinstance(length, int) and not isinstance(length, bool) and length > 0 else 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _names(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _last(reference: str) -> str:
    return unquote(reference).rpartition("/")[2].lstrip("#")
