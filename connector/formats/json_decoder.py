"""Decodes JSON straight to the checked values of business objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from connector.businessobjects.instance import BusinessObject, object_of
from connector.businessobjects.types import Converter, SimpleValue, is_date
from connector.errors import UnknownBusinessObject
from connector.formats.json_plan import JsonPlan, JsonPlans, typed_dict

MAX_LEVELS: Final = 32
"""Levels of nested objects that are decoded. The caller has to decode a body with deeper nesting."""


class JsonDecoder:
    """Decodes JSON bodies to business objects in one step. Every data handler may use this class.

    A decoder accepts only bodies that are right beyond doubt, and gives no reason for a refusal. So a handler
    needs a second way: parse the body, set the members with :meth:`BusinessObject.set_values`, and word the
    errors. Both ways give equal objects (``body_only=True``). A member is called as the application-specific
    information of its attribute says (:mod:`connector.formats.json_plan`).

    The decoder for an object is prepared at the first body. Used by one thread at a time.

    Args:
        keys: members beside the attributes of the outermost object, such as its type. They hold a text
            or null.
        keeps_null: null sets an attribute to null. False = it sets nothing.
    """

    def __init__(self, plans: JsonPlans, keys: Sequence[str] = (), *, keeps_null: bool = False) -> None:
        self._plans = plans
        self._keys = tuple(keys)
        self._keeps_null = keeps_null
        self._prepared: dict[str, tuple[JsonPlan, msgspec.json.Decoder[dict[str, Any]]] | None] = {}

    def decode(self, name: str, body: bytes) -> tuple[BusinessObject, dict[str, str | None]] | None:
        """Returns the object in a body, without a verb, and the values of ``keys`` in the body.

        Args:
            body: UTF-8, without a byte order mark.

        Returns:
            None when the body is not the JSON of such an object, with each key once. None also for a
            wrong value, an unknown attribute or object, more than :data:`MAX_LEVELS` levels, and an object
            with an attribute that is called as one of ``keys``.

        Raises:
            MalformedData: two attributes of the object or of a descendant have one name in JSON.
        """
        if name not in self._prepared:
            self._prepare(name)
        prepared = self._prepared.get(name)
        if prepared is None:
            return None
        plan, decoder = prepared
        said: dict[str, str | None] = {}
        try:
            values = decoder.decode(body)
            for key in self._keys:
                if key in values:
                    said[key] = values.pop(key)
            if plan.is_renamed:
                values = plan.by_attribute(values)
            members = len(said) + _adopt(plan, values, 1, b"null" in body, self._keeps_null)
        except (ValueError, RecursionError):
            return None
        # The decoder passes over unknown members and keeps the last of two equal keys. Every member has one
        # colon outside of texts. If there are no more colons than members, there were no such members.
        if body.count(b":") != members and count_members(body) != members:
            return None
        return object_of(plan.schema, values), said

    def _prepare(self, name: str) -> None:
        """Prepares the decoder of an object. Without a definition of that name nothing is prepared."""
        try:
            plan = self._plans.get(name)
        except UnknownBusinessObject:
            return
        self._prepared[name] = None
        if any(key in plan.by_name for key in self._keys):
            return
        outermost = typed_dict(name, {**plan.type.__annotations__, **dict.fromkeys(self._keys, str | None)})
        try:
            self._prepared[name] = plan, msgspec.json.Decoder(outermost)
        except RecursionError:  # definitions may be nested more deeply than MAX_LEVELS
            pass


def _adopt(plan: JsonPlan, values: dict[str, Any], level: int, has_null: bool, keeps_null: bool) -> int:
    """Turns decoded values into those of an object, in place. Returns the number of members.

    Args:
        values: by attribute.
        level: of the object, from 1.
        has_null: whether a value may be None.
        keeps_null: leave a value that is None as it is.

    Raises:
        ValueError: a date is not valid, or the values are nested too deeply.
    """
    members = len(values)
    if has_null and not keeps_null and None in values.values():
        for name in [name for name, value in values.items() if value is None]:
            del values[name]
    for name in plan.dates:
        if (date := values.get(name)) is not None and not is_date(date):
            raise ValueError("no date")
    for name in plan.date_lists:
        if not all(map(is_date, values.get(name) or ())):
            raise ValueError("no date")
    for field in plan.decimals:
        if (raw := values.get(field.name)) is not None:
            assert field.value_from_typed is not None
            if field.many:
                values[field.name] = [_decimal(one, field.value_from_typed) for one in raw]
            elif bytes(raw) == b"null":
                if keeps_null:
                    values[field.name] = None
                else:
                    del values[field.name]
            else:
                values[field.name] = _decimal(raw, field.value_from_typed)
    for name, child in plan.children.items():
        value = values.get(name)
        if value is None:
            continue
        if level == MAX_LEVELS:
            raise ValueError("nested too deeply")
        if type(value) is list:
            for index, element in enumerate(value):
                if child.is_renamed:
                    element = child.by_attribute(element)
                members += _adopt(child, element, level + 1, has_null, keeps_null)
                value[index] = object_of(child.schema, element)
        else:
            value = child.by_attribute(value)
            members += _adopt(child, value, level + 1, has_null, keeps_null)
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
