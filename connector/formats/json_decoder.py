"""Decodes JSON straight to the checked values of business objects."""

from __future__ import annotations

from collections.abc import Sequence
from types import GenericAlias
from typing import Annotated, Any, Final, Literal, TypedDict

import msgspec

from connector.businessobjects.definition import Definitions, Field, Schema
from connector.businessobjects.instance import BusinessObject, object_of
from connector.businessobjects.types import (
    DECIMAL,
    MAX_FLOAT,
    MAX_INTEGER,
    MIN_INTEGER,
    TEXTS,
    Converter,
    SimpleValue,
    is_date,
)
from connector.errors import UnknownBusinessObject
from connector.formats.json_names import JsonNames, json_names

MAX_LEVELS: Final = 32
"""Levels of nested objects that are decoded. The caller has to decode a body with deeper nesting."""

_BLANK: Final = Literal[""]
_SHAPES: Final[dict[str, Any]] = {
    "Boolean": bool | _BLANK,
    "Integer": Annotated[int, msgspec.Meta(ge=MIN_INTEGER, le=MAX_INTEGER)] | _BLANK,
    "Float": Annotated[float, msgspec.Meta(ge=-MAX_FLOAT, le=MAX_FLOAT)] | _BLANK,
    "Double": float | _BLANK,
    "Date": str,
}

_make_shape: Any = TypedDict  # a type checker knows only literal TypedDict calls


class JsonDecoder:
    """Decodes JSON bodies to business objects in one step. Every data handler may use this class.

    A decoder accepts only bodies that are right beyond doubt, and gives no reason for a refusal. So a handler
    needs a second way: parse the body, set the members with :meth:`BusinessObject.set_values`, and word the
    errors. Both ways give equal objects (``body_only=True``). A member is called as the application-specific
    information of its attribute says (:mod:`connector.formats.json_names`).

    The decoder for an object is prepared at the first body. Used by one thread at a time.

    Args:
        definitions: the business objects.
        keys: members beside the attributes of the outermost object, such as its type. They hold a text
            or null.
    """

    def __init__(self, definitions: Definitions, keys: Sequence[str] = ()) -> None:
        self._definitions = definitions
        self._keys = tuple(keys)
        self._names: dict[str, JsonNames] = {}
        self._shapes: dict[str, _Shape] = {}
        self._prepared: dict[str, tuple[_Shape, msgspec.json.Decoder[dict[str, Any]]] | None] = {}

    def decode(self, name: str, body: bytes) -> tuple[BusinessObject, dict[str, str | None]] | None:
        """Returns the object in a body, without a verb, and the values of ``keys`` in the body.

        Args:
            name: the name of the business object.
            body: UTF-8, without a byte order mark.

        Returns:
            None when the body is not the JSON of such an object, with each key once. None also for a
            wrong value, an unknown attribute or object, more than :data:`MAX_LEVELS` levels, and an object
            with an attribute that is called as one of ``keys``.

        Raises:
            MalformedData: two attributes of the object or of a descendant have one name in JSON.
        """
        if name not in self._prepared and not self._prepare(name):
            return None
        prepared = self._prepared[name]
        if prepared is None:
            return None
        shape, decoder = prepared
        said: dict[str, str | None] = {}
        try:
            values = decoder.decode(body)
            for key in self._keys:
                if key in values:
                    said[key] = values.pop(key)
            values = shape.by_attribute(values)
            members = len(said) + _adopt(shape, values, 1)
        except (ValueError, RecursionError):
            return None
        # The decoder passes over unknown members and keeps the last of two equal keys. Every member has one
        # colon outside of texts. If there are no more colons than members, there were no such members.
        if body.count(b":") != members and count_members(body) != members:
            return None
        return object_of(shape.schema, values), said

    def _prepare(self, name: str) -> bool:
        """Prepares the decoder of an object. Returns False if there is no definition of that name."""
        try:
            schema = self._definitions.schema(name)
        except UnknownBusinessObject:
            return False
        names = json_names(schema, self._names)
        self._prepared[name] = None
        if not any(key in names.attributes for key in self._keys):
            shape = self._shape(schema)
            outermost = _make_shape(name, {}, total=False)
            outermost.__annotations__ = {
                **shape.members.__annotations__,
                **dict.fromkeys(self._keys, str | None),
            }
            try:
                self._prepared[name] = shape, msgspec.json.Decoder(outermost)
            except RecursionError:  # definitions may be nested more deeply than MAX_LEVELS
                pass
        return True

    def _shape(self, schema: Schema) -> _Shape:
        """Returns the shape of an object. Makes those of all descendants, in a loop for deep nesting."""
        waiting = [schema]
        made: list[_Shape] = []
        while waiting:
            wanted = waiting.pop()
            if wanted.name not in self._shapes:
                shape = self._shapes[wanted.name] = _Shape(wanted, json_names(wanted, self._names))
                made.append(shape)
                waiting.extend(field.child for field in wanted.children if field.child is not None)
        for shape in made:
            shape.link(self._shapes)
        return self._shapes[schema.name]


class _Shape:
    """The types by which msgspec decodes an object.

    Args:
        schema: the schema of the object.
        names: the names of its members.
    """

    __slots__ = ("_names", "children", "date_lists", "dates", "decimals", "members", "renamed", "schema")

    def __init__(self, schema: Schema, names: JsonNames) -> None:
        self.schema = schema
        self._names = names.attributes
        is_renamed = any(name != attribute for name, attribute in self._names.items())
        self.renamed: dict[str, str] | None = self._names if is_renamed else None
        """Attributes by the names of their members. None = the names are the same."""
        self.members = _make_shape(schema.name, {}, total=False)
        """The type that msgspec decodes: a mapping of the attributes that a body may have."""
        self.children: tuple[tuple[str, bool, _Shape], ...] = ()
        dates = [
            field for field in schema.fields.values() if field.attribute.type == "Date" and field.in_body
        ]
        self.dates: tuple[str, ...] = tuple(field.name for field in dates if not field.many)
        self.date_lists: tuple[str, ...] = tuple(field.name for field in dates if field.many)
        self.decimals: tuple[Field, ...] = tuple(
            field for field in schema.fields.values() if field.attribute.type == DECIMAL and field.in_body
        )

    def by_attribute(self, members: dict[str, Any]) -> dict[str, Any]:
        """Returns decoded members by the names of the attributes."""
        renamed = self.renamed
        return members if renamed is None else {renamed[name]: value for name, value in members.items()}

    def link(self, shapes: dict[str, _Shape]) -> None:
        """Sets the types of the attributes. The shapes of all children must exist."""
        self.children = tuple(
            (field.name, field.many, shapes[field.attribute.type]) for field in self.schema.children
        )
        # set as a whole, after the class is made, because an object may be its own child
        self.members.__annotations__ = {
            name: _type_of(self.schema.fields[attribute], shapes) for name, attribute in self._names.items()
        }


def _type_of(field: Field, shapes: dict[str, _Shape]) -> Any:
    attribute = field.attribute
    if attribute.is_child:
        child = shapes[attribute.type].members
        return (GenericAlias(list, child) if field.many else child) | None
    value: Any = str
    if attribute.type == DECIMAL:
        value = msgspec.Raw  # the digits as they stand in the body
    elif attribute.type not in TEXTS:
        value = _SHAPES[attribute.type]
    elif attribute.max_length:
        value = Annotated[str, msgspec.Meta(max_length=attribute.max_length)]
    if field.many:
        return GenericAlias(list, value) | None
    return value if attribute.type == DECIMAL else value | None  # a Raw may be null, too


def _adopt(shape: _Shape, values: dict[str, Any], level: int) -> int:
    """Turns decoded values into those of an object, in place. Returns the number of members.

    Raises:
        ValueError: a date is not valid, or the values are nested too deeply.
    """
    members = len(values)
    if None in values.values():
        for name in [name for name, value in values.items() if value is None]:
            del values[name]
    for name in shape.dates:
        if name in values and not is_date(values[name]):
            raise ValueError("no date")
    for name in shape.date_lists:
        if not all(map(is_date, values.get(name, ()))):
            raise ValueError("no date")
    for field in shape.decimals:
        if (raw := values.get(field.name)) is not None:
            assert field.value_from_typed is not None
            if field.many:
                values[field.name] = [_decimal(one, field.value_from_typed) for one in raw]
            elif bytes(raw) == b"null":
                del values[field.name]
            else:
                values[field.name] = _decimal(raw, field.value_from_typed)
    for name, many, child in shape.children:
        value = values.get(name)
        if value is None:
            continue
        if level == MAX_LEVELS:
            raise ValueError("nested too deeply")
        if many:
            for index, element in enumerate(value):
                if child.renamed is not None:
                    element = child.by_attribute(element)
                members += _adopt(child, element, level + 1)
                value[index] = object_of(child.schema, element)
        else:
            value = child.by_attribute(value)
            members += _adopt(child, value, level + 1)
            values[name] = object_of(child.schema, value)
    return members


def _decimal(raw: msgspec.Raw, convert: Converter) -> SimpleValue:
    """Returns the Decimal of a JSON number, or of a string with a number.

    Raises:
        ValueError: neither, or the string has escapes.
    """
    text = bytes(raw).decode()
    return convert(text[1:-1] if text[0] == '"' else text)


def count_members(body: bytes) -> int:
    """Returns the number of members of all objects in a body that is valid JSON, equal keys included."""
    if b"\\" in body:
        # In pairs from the left, as the decoder reads them. A single backslash left over may escape a quote.
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(body.split(b'"')[::2]).count(b":")
