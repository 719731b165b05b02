"""JSON Schemas of business objects, for the body of a request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from connector.businessobjects.definition import OBJECT_EVENT_ID, Attribute, Definition, Definitions, Schema
from connector.businessobjects.facets import NO_FACETS
from connector.businessobjects.metadata import MAX_TIMEOUT
from connector.businessobjects.types import DECIMAL, MAX_FLOAT, SECRET, TEXTS
from connector.http.timeout_limits import TIMEOUT
from connector.messaging.message import NON_PERSISTENT, PERSISTENT
from connector.messaging.numbers import MAX_LONG

SchemaObject = dict[str, Any]

_MAX_DOUBLE: Final = 1.7976931348623157e308
_DATE: Final = (
    r"(?!0000)(?:[0-9]{4}(-?)(?:(?:0[13578]|1[02])\1(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)\1(?:0[1-9]|[12][0-9]|30)|02\1(?:0[1-9]|1[0-9]|2[0-8]))"
    r"|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)(-?)02\2(?:29))"
)
_TIME: Final = (
    r"T(?:(?:[01][0-9]|2[0-3])(?::?[0-5][0-9](?::?(?:[0-5][0-9]|60)(?:[.,][0-9]+)?)?)?"
    r"|24(?::?00(?::?00(?:[.,]0+)?)?)?)"
    r"(?:Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?"
)
_ZONE: Final = r"Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00"
_NUMBERS: Final = {
    "Integer": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "Float": {"type": "number", "minimum": -MAX_FLOAT, "maximum": MAX_FLOAT},
    "Double": {"type": "number", "minimum": -_MAX_DOUBLE, "maximum": _MAX_DOUBLE},
}
_COMMON: Final = re.compile(
    r"(?:[A-Za-z0-9 _,:;/@#%!=<>.*+?){}|-]|\((?!\?)|\\[].*+?(){}|[-]|\[\^?[A-Za-z0-9_ .-]+\])*"
)
"""Patterns of definitions that mean the same in JSON Schema."""
_SAMPLES: Final = {
    "String": "text",
    "LongText": "a longer text",
    "Ciphertext": "a secret",
    "Boolean": True,
    "Integer": 7,
    "Float": 2.5,
    "Double": 99.95,
    DECIMAL: Decimal("12.50"),
    "Date": "2024-05-31",
}


def reference(name: str) -> SchemaObject:
    """Returns the reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def object_schemas(
    definitions: Definitions, most_timeout: int = MAX_TIMEOUT, use_defaults: bool = False
) -> dict[str, SchemaObject]:
    """Returns the schemas of all business objects that have a verb, and of all their children.

    The arguments are those of :func:`connector.http.openapi.describe_requests`.
    """
    having = [name for name, definition in definitions.items() if definition.verbs]
    in_bodies = _reachable(definitions, having, in_body=True)
    metadata = {
        definition.attributes[holder].type
        for name in having
        if (holder := (definition := definitions[name]).dynamic_metaobject) in definition.attributes
    }
    made = {}
    for name in _reachable(definitions, having, in_body=False):
        schema = _object(definitions[name])
        if name in in_bodies:
            _require(schema, definitions.schema(name), use_defaults)
        if name in metadata:
            _bound(schema, definitions[name], most_timeout)
        made[name] = schema
    return {name: made[name] for name in definitions if name in made}


def _reachable(definitions: Definitions, having: Sequence[str], *, in_body: bool) -> set[str]:
    """Returns the business objects and all their children. ``in_body`` leaves out meta-objects."""
    waiting = list(having)
    found = set()
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        definition = definitions[name]
        hidden = definition.metaobject_attributes if in_body else ()
        waiting.extend(
            each.type for each in definition.attributes.values() if each.is_child and each.name not in hidden
        )
    return found


def _object(definition: Definition) -> SchemaObject:
    metaobjects = definition.metaobject_attributes
    return {
        "type": "object",
        "description": f"Business object {definition.name}, version {definition.version}.",
        "properties": {
            name: _attribute(attribute, name in metaobjects)
            for name, attribute in definition.attributes.items()
        },
        "additionalProperties": False,
    }


def _require(schema: SchemaObject, held: Schema, use_defaults: bool) -> None:
    """Sets which attributes are required. Null and an empty list are missing. A blank is an error."""
    properties = schema["properties"]
    for field in (*held.required, *held.optional_keys):
        if not (field.may_be_blank or field.many or field.child):
            properties[field.name] = _not_blank(properties[field.name])
    needed = [field for field in held.required if not (use_defaults and field.attribute.default is not None)]
    for field in needed:
        properties[field.name] = _not_null(properties[field.name])
        if field.many:
            properties[field.name]["minItems"] = 1
    if needed:
        schema["required"] = [field.name for field in needed]


def _not_null(schema: SchemaObject) -> SchemaObject:
    """Returns the schema of an attribute without null."""
    made = dict(schema)
    if "anyOf" in made:
        made["anyOf"] = [_not_null(each) for each in made["anyOf"] if each != {"type": "null"}]
    if isinstance(made.get("type"), list):
        kept = [each for each in made["type"] if each != "null"]
        made["type"] = kept[0] if len(kept) == 1 else kept
    if "enum" in made:
        made["enum"] = [each for each in made["enum"] if each is not None]
    return made


def _not_blank(schema: SchemaObject) -> SchemaObject:
    """Returns the schema of a value that is not blank."""
    made = dict(schema)
    if "anyOf" in made:
        made["anyOf"] = [
            {"type": "null"} if each.get("maxLength") == 0 else _not_blank(each) for each in made["anyOf"]
        ]
    elif "enum" in made:
        made["enum"] = [each for each in made["enum"] if each != ""]
    elif "string" in made["type"]:
        made["minLength"] = max(1, made.get("minLength", 0))
    return made


def _bound(schema: SchemaObject, definition: Definition, most_timeout: int) -> None:
    """Bounds the numbers among the meta-data of a request."""
    bounds = {
        "Priority": (0, 9),
        "DeliveryMode": (NON_PERSISTENT, PERSISTENT),
        TIMEOUT: (-(2**31), most_timeout),
        "TimeToLive": (0, MAX_LONG),
        "DeliveryDelay": (0, MAX_LONG),
    }
    for name, (least, most) in bounds.items():
        attribute = definition.attributes.get(name)
        if attribute is not None and attribute.type in _NUMBERS and not attribute.is_many:
            number, *others = schema["properties"][name]["anyOf"]
            most = min(most, number.get("maximum", most))
            number = {**number, "type": "integer", "minimum": least, "maximum": most}
            schema["properties"][name]["anyOf"] = [number, *others]


def _attribute(attribute: Attribute, is_metaobject: bool) -> SchemaObject:
    schema = _value(attribute)
    said: list[str] = []
    if attribute.facets != NO_FACETS:
        said.extend(_describe_facets(attribute))
    if attribute.is_key:
        said.append("Key.")
    if attribute.is_foreign_key:
        said.append("Foreign key.")
    if is_metaobject:
        said.append("Meta-data of this one request; never part of a message's body.")
    if attribute.type == "Date":
        said.append("Date or date-time of ISO 8601.")
    if attribute.type == DECIMAL:
        said.append(_describe_decimal(attribute))
    if attribute.default is not None and attribute.type != SECRET:
        schema["default"] = attribute.default
    if said:
        schema["description"] = " ".join(said)
    return schema


def _value(attribute: Attribute) -> SchemaObject:
    """Returns the schema of a value. null leaves an attribute unset. "" is blank, for every simple type."""
    kind = attribute.type
    if attribute.is_list:
        return {"type": ["array", "null"], "items": _not_null(_value(replace(attribute, cardinality="1")))}
    if attribute.is_many:
        return {"type": ["array", "null"], "items": reference(kind)}
    if attribute.is_child:
        return {"anyOf": [reference(kind), {"type": "null"}]}
    if kind in TEXTS:
        return _text(attribute)
    if kind == "Date":
        if attribute.facets.values:
            return {"type": ["string", "null"], "enum": [*attribute.facets.values, "", None]}
        return {"type": ["string", "null"], "pattern": f"^(?:{_DATE}(?:{_TIME}|{_ZONE})?)?$"}
    if kind == DECIMAL:
        number = _with_facets(_decimal(attribute), attribute)
        return {"anyOf": [number, _decimal_text(attribute), {"type": "null"}]}
    if kind == "Boolean":
        return {"type": ["boolean", "string", "null"], "enum": [True, False, "", None]}
    number = _with_facets(_NUMBERS[kind], attribute)
    return {"anyOf": [number, {"type": ["string", "null"], "maxLength": 0}]}


def _text(attribute: Attribute) -> SchemaObject:
    """Returns the schema of a text."""
    facets = attribute.facets
    schema: SchemaObject = {"type": ["string", "null"]}
    if attribute.type == SECRET:
        schema["format"] = "password"
    if attribute.max_length:
        schema["maxLength"] = attribute.max_length
    if facets.values:
        blank = [""] if attribute.may_be_blank else []
        schema["enum"] = [*facets.values, *blank, None]
    elif facets.min_length and not attribute.may_be_blank:
        schema["minLength"] = facets.min_length
    if facets.pattern and _COMMON.fullmatch(facets.pattern):
        schema["pattern"] = f"^(?:{facets.pattern}){'?' if attribute.may_be_blank else ''}$"
    return schema


def _describe_facets(attribute: Attribute) -> Iterator[str]:
    """Returns what a schema cannot say of facets."""
    facets = attribute.facets
    if attribute.type == "Date":
        if facets.minimum is not None:
            yield f"At least {facets.minimum}."
        if facets.maximum is not None:
            yield f"At most {facets.maximum}."
    if facets.pattern:
        yield f"The whole text is of the pattern {facets.pattern}"
    if facets.min_length and attribute.may_be_blank:
        yield f"Blank, or at least {facets.min_length} characters."


def _with_facets(number: SchemaObject, attribute: Attribute) -> SchemaObject:
    """Returns the schema of a number with its facets."""
    facets = attribute.facets
    made = dict(number)
    if facets.values:
        made["enum"] = list(facets.values)
    if facets.minimum is not None:
        made["minimum"] = max(facets.minimum, made.get("minimum", facets.minimum))
    if facets.maximum is not None:
        made["maximum"] = min(facets.maximum, made.get("maximum", facets.maximum))
    return made


def _decimal(attribute: Attribute) -> SchemaObject:
    """Returns the schema of a Decimal that is a number.

    It has no ``multipleOf`` for the places, because validators compute that with floats. Without ``digits`` a
    Decimal has no limit, also none of a Double.
    """
    if attribute.digits:
        most = 10**attribute.digits
        return {"type": "number", "exclusiveMinimum": -most, "exclusiveMaximum": most}
    return {"type": "number"}


def _decimal_text(attribute: Attribute) -> SchemaObject:
    """Returns the schema of a Decimal that is a text of digits, or blank."""
    number = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?"
    if attribute.scale is not None:
        number = rf"[0-9]+(?:\.[0-9]{{0,{attribute.scale}}}0*)?"
    return {"type": "string", "pattern": f"^(?:[+-]?{number})?$", "maxLength": 900}


def _describe_decimal(attribute: Attribute) -> str:
    limits = [f"at most {attribute.digits} significant digits"] if attribute.digits else []
    if attribute.scale is not None:
        limits.append(f"at most {attribute.scale} places after the point")
    said = f", {' and '.join(limits)}" if limits else ""
    bounds = ", within the same bounds" if attribute.facets != NO_FACETS else ""
    return f"An exact number{said}. A text with the digits is one, too{bounds}."


def sample(definitions: Definitions, name: str, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """Returns an example of a business object, without meta-data."""
    definition = definitions[name]
    metaobjects = definition.metaobject_attributes
    found: dict[str, Any] = {}
    for attribute in definition.attributes.values():
        if attribute.name in metaobjects or attribute.name == OBJECT_EVENT_ID:
            continue
        if not attribute.is_child:
            value = _sample_value(attribute)
            if value is None:
                continue
            found[attribute.name] = [value] if attribute.is_many else value
        elif attribute.type not in (*seen, name):
            child = sample(definitions, attribute.type, (*seen, name))
            found[attribute.name] = [child] if attribute.is_many else child
    return found


def _sample_value(attribute: Attribute) -> Any:
    """Returns a value that fits. None = none is known, and the attribute may be left out."""
    if attribute.default is not None and attribute.type != SECRET:
        return attribute.default
    value = _SAMPLES[attribute.type]
    if attribute.type == DECIMAL and (attribute.scale == 0 or 0 < attribute.digits < 3):
        value = Decimal(1)
    if isinstance(value, str):
        value = value.ljust(attribute.facets.min_length, ".")[: attribute.max_length or None]
    facets = attribute.facets
    check = facets.check(attribute.type, attribute.may_be_blank)
    for one in (value, *facets.values, facets.minimum, facets.maximum):
        try:
            if check is None or (one is not None and check(one) is None):
                return one
        except ValueError:
            pass
    return value if attribute.is_required else None
