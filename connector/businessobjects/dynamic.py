"""The dynamic meta-object: the header values of a message, in a child of the business object.

The tag ``cw_mo_<label>=<attribute>`` of the object names the child (WBI Adapter for JMS, "Understanding
message header mapping"). Of the attributes that the child's type declares, those in :data:`HEADERS` and
:data:`PROPERTIES` are filled. The other attributes serve requests.

A header that the message does not have leaves its attribute unset. A value is converted to the type of the
attribute.

:func:`properties_of` is the way back, for requests. :mod:`connector.businessobjects.metadata` reads the other
values that a request takes from a dynamic meta-object.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from connector.businessobjects.app_specific_info import tags
from connector.businessobjects.definition import Attribute, Definition, Definitions
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import DECIMAL, TEXTS, SimpleValue, text_of
from connector.errors import MalformedData
from connector.messaging.message import (
    STANDARD_TYPES,
    Message,
    PropertyValue,
    check_property,
    check_text,
    parse_property,
)
from connector.messaging.selectors.identifiers import check_property_name
from connector.text.names import did_you_mean

PROPERTIES: Final = "JMSProperties"

_TEXT: Final = ("String", "LongText")
_NUMBER: Final = ("Integer", "Float", "Double", *_TEXT)
_TIME: Final = ("Date", "Double", "Float", *_TEXT)


class Header(NamedTuple):
    """An attribute that stands for a header of a message.

    Args:
        field: the header or property, by its name in JMS.
        read: returns the value of a message. None = the value comes from the adapter, not from the message.
        remark: for the reference page.
    """

    field: str
    types: tuple[str, ...]
    read: Callable[[Message], PropertyValue | None] | None
    remark: str = ""


def _property(name: str) -> Callable[[Message], PropertyValue | None]:
    return lambda message: message.properties.get(name)


HEADERS: Final[Mapping[str, Header]] = {
    "MessageID": Header("JMSMessageID", _TEXT, lambda message: message.message_id),
    "CorrelationID": Header("JMSCorrelationID", _TEXT, lambda message: message.correlation_id),
    "ReplyToDestination": Header(
        "JMSReplyTo", _TEXT, lambda message: message.reply_to, "Of a request it has to be a queue."
    ),
    "Destination": Header(
        "JMSDestination", _TEXT, lambda message: message.destination, "Where the message was sent."
    ),
    "Type": Header("JMSType", _TEXT, lambda message: message.type, "Requests say it as `OutputFormat`."),
    "DeliveryMode": Header(
        "JMSDeliveryMode",
        _NUMBER,
        lambda message: message.delivery_mode,
        "1: non-persistent, 2: persistent. Of a request also `NonPersistent` and `Persistent`.",
    ),
    "Priority": Header("JMSPriority", _NUMBER, lambda message: message.priority, "0 to 9."),
    "Expiration": Header(
        "JMSExpiration",
        _TIME,
        lambda message: message.expiration,
        "Milliseconds since 1970. A Date has ISO 8601 in UTC. Not set where the message never expires.",
    ),
    "TimeStamp": Header(
        "JMSTimestamp",
        _TIME,
        lambda message: message.timestamp,
        "When it was sent, in milliseconds since 1970. A Date has ISO 8601 in UTC.",
    ),
    "Redelivered": Header(
        "JMSRedelivered", ("Boolean", *_TEXT), lambda message: message.redelivered, "It was delivered before."
    ),
    "DeliveryCount": Header(
        "JMSXDeliveryCount", _NUMBER, lambda message: message.delivery_count, "1 at the first delivery."
    ),
    "UserID": Header("JMSXUserID", _TEXT, _property("JMSXUserID"), "Set by some brokers only."),
    "AppID": Header("JMSXAppID", _TEXT, _property("JMSXAppID"), "Set by some brokers only."),
    "GroupID": Header("JMSXGroupID", _TEXT, _property("JMSXGroupID"), "What `order: group` goes by."),
    "GroupSeq": Header("JMSXGroupSeq", _NUMBER, _property("JMSXGroupSeq")),
    "InputFormat": Header(
        "JMSType", _TEXT, None, "Or what `MessageFormatProperty` names: the format that rules see."
    ),
    "InputDestination": Header(
        "", _TEXT, None, "The input that the message was taken from, or the queue of the reply."
    ),
}
"""The attributes that stand for headers. ``docs/reference/dynamic-meta-object.md`` is made of this table."""

PROPERTY_TYPES: Final = {
    "string": "string",
    "int": "int",
    "integer": "int",
    "long": "long",
    "short": "short",
    "byte": "byte",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
}
"""From ``type`` in the tags of an attribute of JMSProperties, in lower case, to the type of the property."""

NATURAL_TYPES: Final = {
    "String": "string",
    "LongText": "string",
    "Ciphertext": "string",
    "Date": "string",
    "Boolean": "boolean",
    "Integer": "int",
    "Float": "float",
    "Double": "double",
    DECIMAL: "string",
}
"""From the type of an attribute of JMSProperties without a tag ``type`` to the type of the property."""

_INTEGERS: Final = frozenset({"byte", "short", "int", "long"})
READABLE_AS: Final = {
    "boolean": {"boolean", "string"},
    "byte": {"byte", "short", "int", "long", "string"},
    "short": {"short", "int", "long", "string"},
    "int": {"int", "long", "string"},
    "long": {"long", "string"},
    "float": {"float", "double", "string"},
    "double": {"double", "string"},
    "string": set(PROPERTY_TYPES.values()),
}
"""From the type of a property to the types that can hold all its values. Text is parsed (JMS 2.0, 3.5.4)."""


def fill_dynamic(
    bo: BusinessObject, message: Message, *, message_format: str | None, input_destination: str
) -> None:
    """Makes the dynamic meta-object of ``bo`` from ``message``. Does nothing when the definition has none.

    Args:
        bo: the top-level object. An existing dynamic meta-object is replaced.
        message_format: the format that rules compare with ``InputFormat``. None = the message has no format.
        input_destination: the destination that the message was taken from, ``queue://orders``.

    Raises:
        MalformedData: a header or property does not fit the type of its attribute, or cannot be read as the
            JMS type in the tag.
    """
    refill_dynamic(bo, message, message_format=message_format, input_destination=input_destination, kept=None)


def refill_dynamic(
    bo: BusinessObject,
    message: Message,
    *,
    message_format: str | None,
    input_destination: str | None,
    kept: BusinessObject | None,
) -> None:
    """Works like :func:`fill_dynamic`, from the reply to a request (WBI Adapter for JMS, table 6).

    Attributes that stand for headers come from the reply. The other attributes (``OutputDestination``,
    ``ResponseTimeout`` ...) stay as they were in the request.

    Args:
        bo: gets a new dynamic meta-object, which replaces an existing dynamic meta-object.
        kept: the dynamic meta-object of the request, which stays unchanged. None = the request had none.

    Raises:
        MalformedData: as :func:`fill_dynamic`.
    """
    holder = bo.definition.dynamic_metaobject
    if holder is None:
        return
    bo[holder] = None
    child = bo.add(holder)
    if kept is not None:
        for name in kept:
            if name not in HEADERS and name != PROPERTIES:
                child[name] = kept.value(name)
    place = f"{bo.type}: {holder}"
    for name, attribute in child.definition.attributes.items():
        if attribute.is_child:
            if name == PROPERTIES:
                _fill_properties(child.add(name), message, f"{place}.{name}")
            continue
        header = HEADERS.get(name)
        if header is None:
            continue
        if header.read is not None:
            value = header.read(message)
        else:
            value = message_format if name == "InputFormat" else input_destination
        if value is None:
            continue
        if header.types is _TIME:
            if not value:
                continue  # 0 means unknown, or never
            if attribute.type == "Date":
                value = _utc(int(value), f"{place}.{name}")
        _set(child, name, value, place)


def properties_of(child: BusinessObject, place: str) -> tuple[tuple[str, str, PropertyValue], ...]:
    """Returns the names, JMS types and values of the properties in a JMSProperties child.

    The type is that of the tag, else that of the attribute (Integer: int, Date: string ...). An attribute
    that is not set gives no property. A blank attribute gives a property only if the type is string. That
    property is sent empty.

    Args:
        child: the object that the attribute JMSProperties holds.
        place: for errors, ``Customer.Meta.JMSProperties``.

    Raises:
        MalformedData: a value does not fit the JMS type, or a message cannot have a property of that name.
    """
    found: dict[str, tuple[str, str, PropertyValue]] = {}
    for attribute_name in child:
        attribute = child.definition.attributes[attribute_name]
        here = f"{place}.{attribute_name}"
        value = child.value(attribute_name)
        if attribute.is_list:
            raise MalformedData(f"{here}: found a list of values, expected a single value")
        name, kind = property_tags(attribute)
        if kind is None:
            wrong = tags(attribute.app_specific_info).get("type") or attribute.type
            raise MalformedData(f"{here}: no property can be a {wrong}")
        if isinstance(value, str) and not value.strip() and kind != "string":
            continue
        try:
            check_property_name(name, kind)
            converted = _as_property(kind, value)
        except ValueError as error:
            raise MalformedData(f"{here}: {error}") from None
        if name in found:
            raise MalformedData(f"{here}: the property {name!r} is set twice")
        found[name] = (name, kind, converted)
    return tuple(found.values())


def property_tags(attribute: Attribute) -> tuple[str, str | None]:
    """Returns the name and JMS type of the property that an attribute of JMSProperties stands for.

    The tags decide, else what JMS defines, else the name and type of the attribute. The type is None when it
    fits no property.
    """
    named = tags(attribute.app_specific_info)
    tagged = named.get("type")
    name = named.get("name") or attribute.name
    if tagged:
        return name, PROPERTY_TYPES.get(tagged.lower())
    natural = NATURAL_TYPES.get(attribute.type)
    return name, natural and STANDARD_TYPES.get(name, natural)


def dynamic_problems(definition: Definition, definitions: Definitions) -> Iterator[str]:
    """Returns the mistakes in the dynamic meta-object of ``definition``, each as a sentence for an error."""
    for holder in definition.metaobject_attributes:
        attribute = definition.attributes.get(holder)
        if attribute is None:
            guess = did_you_mean(holder, definition.attributes)
            yield f"app_specific_info names {holder!r}, which is no attribute of {definition.name}{guess}"
            continue
        if not attribute.is_child or attribute.is_many:
            yield f"{holder} holds the dynamic meta-object and must be one business object"
            continue
        child = definitions.get(attribute.type)
        properties = child.attributes.get(PROPERTIES) if child else None
        if child is None or properties is None:
            continue
        if not properties.is_child or properties.is_many:
            yield f"{PROPERTIES} of {child.name} must be one business object"
            continue
        holder_of_properties = definitions.get(properties.type)
        for part in holder_of_properties.attributes.values() if holder_of_properties else ():
            kind = tags(part.app_specific_info).get("type", "string")
            if kind.lower() not in PROPERTY_TYPES:
                yield (
                    f"{part.name} of {properties.type} has type={kind}, expected one of String, Integer, "
                    "Long, Short, Byte, Float, Double, Boolean"
                )
            if part.is_child:
                yield f"{part.name} of {properties.type} stands for a property and must be of a simple type"


def _fill_properties(child: BusinessObject, message: Message, path: str) -> None:
    for attribute in child.definition.attributes.values():
        named = tags(attribute.app_specific_info)
        name = named.get("name") or attribute.name
        value = message.properties.get(name)
        if value is None:
            continue
        place = f"{path}.{attribute.name}"
        actual = message.property_types.get(name, "string")
        wanted = named.get("type")
        kind = PROPERTY_TYPES.get(wanted.lower()) if wanted else actual
        if kind is None:
            raise MalformedData(f"{place}: type={wanted} is no property type; correct app_specific_info")
        if kind not in READABLE_AS.get(actual, ()):
            raise MalformedData(
                f"{place}: the property {name!r} is a {actual}, which cannot be read as {kind}"
            )
        try:
            if kind == "string":
                value = as_text(value)
            elif isinstance(value, str):
                value = parse_property(kind, value)
            else:
                value = check_property(kind, value)
        except ValueError as error:
            raise MalformedData(f"{place}: the property {name!r}: {error}") from None
        _set(child, attribute.name, value, path)


def _set(bo: BusinessObject, name: str, value: PropertyValue, place: str) -> None:
    kind = bo.definition.attributes[name].type
    converted: SimpleValue = as_text(value) if kind in TEXTS else value
    try:
        bo[name] = converted
    except MalformedData as error:
        raise MalformedData(f"{place}.{name}: {str(error).split(': ', 2)[-1]}") from None


def as_text(value: SimpleValue) -> str:
    """Returns a header, a property or a simple value as text. Booleans are written as in XML and JSON."""
    return text_of(value)


def sendable_text(value: SimpleValue) -> str:
    """Works like :func:`as_text`, for a header or property of a message.

    Raises:
        ValueError: the text is not valid Unicode, or has the character U+0000.
    """
    return check_text(as_text(value))


def _as_property(kind: str, value: SimpleValue) -> PropertyValue:
    """Returns the value of an attribute as a property of a JMS type.

    Raises:
        ValueError: the value does not fit.
    """
    if kind == "string":
        return sendable_text(value)
    if isinstance(value, str):
        return parse_property(kind, value)
    if kind in _INTEGERS and isinstance(value, float) and value.is_integer():
        value = int(value)  # a Double holds a long, because an Integer has 32 bits
    return check_property(kind, value)


def _utc(milliseconds: int, place: str) -> str:
    try:
        moment = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(
            milliseconds=milliseconds
        )
    except OverflowError:
        raise MalformedData(f"{place}: {milliseconds} ms since 1970 is no date") from None
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
