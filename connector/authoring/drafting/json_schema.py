"""Drafts a business object from a JSON Schema (drafts 4 to 2020-12, the keywords that say what there is)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from connector.authoring.drafting.draft import Draft, DraftObject, key
from connector.authoring.drafting.facets import facet_entries
from connector.authoring.drafting.kinds import BOOLEAN, HUGE, kind_of_number, kind_of_string, type_of_values
from connector.businessobjects.types import MAX_INTEGER, MIN_INTEGER
from connector.datahandlers.json_handler import parse_object
from connector.errors import MalformedData
from connector.text.names import shown

MAX_PARTS: Final = 20_000
"""Properties of all definitions together. Schemas that use schemas can multiply."""

_MAX_STEPS: Final = 100
_SHOWN: Final = 10
_MAX_CHOICE: Final = 20
"""Schemas of a choice whose properties become one object."""
_NULL: Final = "required in the schema, where null is a value"
_NO_BOUNDS: Final = "the schema gives no bounds; Integer has 32 bits"

_WORDS: Final = {
    "Integer": "integer",
    "Double": "number",
    "Decimal": "number",
    "Boolean": "boolean",
    "String": "string",
    "Date": "string",
}

JsonObject = dict[str, Any]


def draft_json_schema(draft: Draft, body: bytes) -> None:
    """Drafts from a JSON Schema. The definition of the object's name counts, else the schema as a whole.

    Raises:
        MalformedData: the body is no such schema.
    """
    _Schema(draft, parse_object(body)).draft()


class _Misfit(Exception):
    """No attribute can hold what a schema describes. The text gives the reason."""


class _Resolved(NamedTuple):
    """A schema without the references that lead to it.

    Args:
        kind: the type of the values.
        name: the name of the last reference. Empty = none.
        is_nullable: null is a value, too.
    """

    kind: str
    schema: JsonObject
    name: str
    is_nullable: bool


class _Schema:
    def __init__(self, draft: Draft, document: JsonObject) -> None:
        self._draft = draft
        self._document = document
        self._children: dict[int, str] = {}  # from the identity of a schema to its definition
        self._waiting: list[tuple[DraftObject, JsonObject]] = []
        self._parts = 0

    def draft(self) -> None:
        top = self._draft.top
        definitions = self._definitions()
        advice = ""
        if definitions:
            names = ", ".join(list(definitions)[:_SHOWN])
            more = f" and {len(definitions) - _SHOWN} more" if len(definitions) > _SHOWN else ""
            advice = f"; name the object like one of its definitions: {names}{more}"
        try:
            described = definitions.get(top.name, self._document)
            if self._document.get("title") == top.name:
                described = self._document
            kind, schema, _, _ = self._resolve(described)
        except _Misfit as misfit:
            raise MalformedData(f"the schema describes no object: {misfit}{advice}") from None
        if kind != "object" or not self._has_properties(schema):
            raise MalformedData(f"the schema describes no object with properties{advice}")
        self._children[id(schema)] = top.name
        self._waiting.append((top, schema))
        while self._waiting:
            holder, described = self._waiting.pop(0)
            self._fill(holder, described)

    def _definitions(self) -> JsonObject:
        """Returns the definitions of the document by name: of JSON Schema, OpenAPI or Swagger."""
        found: JsonObject = {}
        for path in (("$defs",), ("definitions",), ("components", "schemas")):
            node: Any = self._document
            for step in path:
                node = node.get(step) if isinstance(node, dict) else None
            found = {**(node if isinstance(node, dict) else {}), **found}
        return found

    def _fill(self, holder: DraftObject, schema: JsonObject) -> None:
        required = {name for part in self._all_parts(schema) for name in _names(part.get("required"))}
        for name, described in self._properties(schema):
            if key(name) in holder.members:
                continue  # a part of allOf says more about it
            self._try(holder, name, described, name in required)
        for name, described in self._alternatives(schema):
            known = holder.members.get(key(name))
            if known is None:
                self._try(holder, name, described, False)
            elif self._type_of(described) != (known.type, known.many):
                self._draft.leave_out(holder, name, "another type in another schema of a choice")
        for part in self._all_parts(schema):
            if isinstance(part.get("additionalProperties"), dict) or part.get("patternProperties"):
                word = "patternProperties" if part.get("patternProperties") else "additionalProperties"
                self._draft.leave_out(holder, word, "members of any name")

    def _try(self, holder: DraftObject, name: str, described: Any, required: bool) -> None:
        self._count()
        try:
            self._add(holder, name, described, required)
        except _Misfit as misfit:
            self._draft.leave_out(holder, name, str(misfit))

    def _count(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise MalformedData(f"more than {MAX_PARTS} properties")

    def _alternatives(self, schema: JsonObject) -> Iterator[tuple[str, Any]]:
        """Yields the properties of the schemas of which an object fits one, or only sometimes."""
        for part in self._all_parts(schema):
            choices = [one for word in ("oneOf", "anyOf") for one in _list(part.get(word))]
            choices += [part[word] for word in ("then", "else") if word in part]
            for choice in choices:
                try:
                    inner = self._follow(choice)
                except _Misfit:
                    continue  # named where the choice is resolved
                if isinstance(inner, dict) and inner is not schema:
                    yield from self._properties(inner)

    def _type_of(self, described: Any) -> tuple[str, bool]:
        """Returns the type of an attribute for a schema, and whether it is a list. Empty = there is none."""
        try:
            kind, schema, _, _ = self._resolve(described)
            many = kind == "array"
            if many:
                kind, schema, _, _ = self._resolve(_items(schema))
            if kind == "object":
                return self._children.get(id(schema), ""), many
            return _simple(kind, schema)[0], many
        except _Misfit:
            return "", False

    def _add(self, holder: DraftObject, name: str, described: Any, required: bool) -> None:
        kind, schema, reference, is_nullable = self._resolve(described)
        many = kind == "array"
        if many:
            kind, schema, reference, has_gaps = self._resolve(_items(schema))
            if kind == "array" or has_gaps:
                raise _Misfit("a list with null" if has_gaps else "a list of lists")
        if kind == "object":
            if not self._has_properties(schema):
                raise _Misfit("an object without properties")
            made = self._draft.add(holder, key(name), "")
            if made is not None:
                made.type = self._child(holder, schema, reference or made.name, bool(reference))
        else:
            type_name, scale, comment = _simple(kind, schema)
            made = self._draft.add(holder, key(name), type_name, many=many, comment=comment)
            if made is not None:
                made.scale = scale
                made.max_length = _length(schema) if type_name == "String" else 0
                made.facets = _facets(type_name, schema)
        if made is not None:
            made.many, made.required = many, required and not is_nullable
            if required and is_nullable:
                made.comment = _NULL if not made.comment else f"{made.comment}; {_NULL}"

    def _child(self, holder: DraftObject, schema: JsonObject, name: str, is_shared: bool) -> str:
        """Returns the definition of a schema, which is new at its first use."""
        if id(schema) not in self._children:
            child = self._draft.child(self._draft.top if is_shared else holder, name)
            self._children[id(schema)] = child.name
            self._waiting.append((child, schema))
        return self._children[id(schema)]

    # --- schemas -----------------------------------------------------------------------------

    def _resolve(self, schema: Any) -> _Resolved:
        """Returns the type that a schema describes, and the schema without references.

        Raises:
            _Misfit: the schema describes no single type.
        """
        name, is_nullable = "", False
        for _ in range(_MAX_STEPS):
            if not isinstance(schema, dict):
                raise _Misfit("any value fits")
            if isinstance(schema.get("$ref"), str):
                name = _last(schema["$ref"])
                schema = self._schema_at(schema["$ref"])
                continue
            choices = schema.get("oneOf") or schema.get("anyOf")
            if isinstance(choices, list) and "properties" not in schema:
                others = [one for one in choices if not (isinstance(one, dict) and one.get("type") == "null")]
                if len(others) != 1 and self._are_objects(others):
                    return _Resolved("object", schema, name, is_nullable or len(others) < len(choices))
                if len(others) != 1:
                    raise _Misfit(f"one of {len(others)} schemas")
                is_nullable |= len(others) < len(choices)
                schema = others[0]
                continue
            parts = schema.get("allOf")
            if isinstance(parts, list) and len(parts) == 1 and not {"properties", "type"} & schema.keys():
                schema = parts[0]
                continue
            return _Resolved(_type(schema), schema, name, is_nullable or _allows_null(schema))
        raise _Misfit("references in a circle")

    def _are_objects(self, schemas: list[Any]) -> bool:
        """Tells whether a choice is one of a few objects, which can be one object together."""
        if not 1 < len(schemas) <= _MAX_CHOICE:
            return False
        for one in schemas:
            self._count()
            try:
                followed = self._follow(one)
                if not isinstance(followed, dict) or _type(followed) != "object":
                    return False
            except _Misfit:
                return False
        return True

    def _schema_at(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise _Misfit(f"the reference {shown(reference)} leads out of the file")
        if not reference.startswith("#/") and reference != "#":
            return self._schema_with_anchor(reference[1:], reference)
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

    def _schema_with_anchor(self, anchor: str, reference: str) -> Any:
        """Returns the schema that has an anchor."""
        waiting: list[Any] = [self._document]
        for node in waiting:  # grows
            if isinstance(node, dict):
                if anchor in (node.get("$anchor"), node.get("$dynamicAnchor")):
                    return node
                waiting += node.values()
            elif isinstance(node, list):
                waiting += node
        raise _Misfit(f"the reference {shown(reference)} leads nowhere")

    def _all_parts(self, schema: JsonObject) -> Iterator[JsonObject]:
        """Yields a schema and the schemas of its ``allOf``, those of these too."""
        waiting: list[Any] = [schema]
        seen: set[int] = set()
        while waiting:
            part = waiting.pop(0)
            try:
                part = self._follow(part)
            except _Misfit as misfit:
                text = f"a part of allOf: {misfit}"
                self._draft.left_out += [] if text in self._draft.left_out else [text]
                continue
            if isinstance(part, dict) and id(part) not in seen:
                seen.add(id(part))
                yield part
                parts = part.get("allOf")
                waiting += parts if isinstance(parts, list) else []

    def _follow(self, schema: Any) -> Any:
        """Returns the schema that a schema of references means."""
        for _ in range(_MAX_STEPS):
            if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
                return schema
            schema = self._schema_at(schema["$ref"])
        raise _Misfit("references in a circle")

    def _has_properties(self, schema: JsonObject) -> bool:
        return any(True for _ in self._properties(schema)) or any(True for _ in self._alternatives(schema))

    def _properties(self, schema: JsonObject) -> Iterator[tuple[str, Any]]:
        for part in self._all_parts(schema):
            properties = part.get("properties")
            if isinstance(properties, dict):
                yield from properties.items()


def _allows_null(schema: JsonObject) -> bool:
    named, values = schema.get("type"), schema.get("enum")
    return (
        schema.get("nullable") is True  # OpenAPI 3.0
        or (isinstance(named, list) and "null" in named)
        or (isinstance(values, list) and None in values)
    )


def _type(schema: JsonObject) -> str:
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
    found = type_of_values({kind for kind in kinds if kind}) if kinds and "" not in kinds else None
    if found is None:
        raise _Misfit("a value of any type")
    return _WORDS[found]


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int | float | Decimal):
        return kind_of_number(str(value)) or HUGE
    return kind_of_string(value) if isinstance(value, str) else ""


def _simple(kind: str, schema: JsonObject) -> tuple[str, int | None, str]:
    """Returns the type of an attribute, the scale of a Decimal, and a comment."""
    if kind == "string":
        return "Date" if schema.get("format") in ("date", "date-time") else "String", None, ""
    if kind == "boolean":
        return "Boolean", None, ""
    if kind == "number":
        return "Double" if schema.get("format") in ("float", "double") else "Decimal", None, ""
    if kind == "integer":
        bounds: list[Any] = [schema[key] for key in ("minimum", "maximum") if _is_number(schema.get(key))]
        is_long = schema.get("format") in ("int64", "long")
        if is_long or any(not MIN_INTEGER <= bound <= MAX_INTEGER for bound in bounds):
            return "Decimal", 0, ""
        return "Integer", None, "" if len(bounds) == 2 else _NO_BOUNDS
    raise _Misfit(f"the type {shown(kind)}")


def _items(schema: JsonObject) -> Any:
    items = schema.get("items")
    if isinstance(items, list) or "prefixItems" in schema:
        raise _Misfit("a list whose elements differ by their place")
    return items


def _facets(type_name: str, schema: JsonObject) -> dict[str, str]:
    bounds = {
        key: str(schema[key])
        for key in ("minimum", "maximum")
        if _is_number(schema.get(key)) and schema.get(f"exclusive{key.capitalize()}") is not True
    }
    values = _list(schema.get("enum"))
    is_text = type_name == "String"
    if any(not (isinstance(one, str) if is_text else _is_number(one)) for one in values):
        values = []
    pattern = schema.get("pattern")
    least = schema.get("minLength")
    return facet_entries(
        type_name,
        bounds,
        [str(one) for one in values],
        _whole(pattern) if isinstance(pattern, str) else "",
        least if isinstance(least, int) and not isinstance(least, bool) else 0,
    )


def _whole(pattern: str) -> str:
    """Returns a pattern of JSON Schema, which finds a part of a text, for the whole text. Empty = none."""
    pattern = pattern.replace(r"\d", "[0-9]") if r"[\d" not in pattern else pattern
    is_plain = re.fullmatch(r"[ -~]*", pattern) and not re.search(r"\\[A-Za-z0-9]|&&|--|~~", pattern)
    if not is_plain or ("|" in pattern and not re.fullmatch(r"\^\([^()]*\)\$", pattern)):
        return ""
    inner = pattern.removeprefix("^")
    is_end = inner.endswith("$") and not inner.endswith(r"\$")
    before = "" if inner != pattern else "(?s:.*)"
    return before + (inner.removesuffix("$") if is_end else f"{inner}(?s:.*)")


def _length(schema: JsonObject) -> int:
    length = schema.get("maxLength")
    return length if isinstance(length, int) and not isinstance(length, bool) and length > 0 else 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _names(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _last(reference: str) -> str:
    return unquote(reference).rpartition("/")[2].lstrip("#")
