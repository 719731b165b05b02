"""The dynamic meta-object: what a message's headers say, in a child of its business object.

The child is named by the tag ``cw_mo_<label>=<attribute>`` of the object (WBI Adapter for JMS, "Understanding
message header mapping"). Of the attributes that its type declares, those in :data:`HEADERS` and
:data:`PROPERTIES` are filled. The other attributes serve requests.

A header that the message does not have leaves its attribute unset. A value is converted to the type of its
attribute.

The way back, for requests, is :func:`properties_of`; what else a request reads from its dynamic meta-object
stands in :mod:`connector.businessobjects.metadata`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from connector.businessobjects.definition import Attribute, Definition, Definitions
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.names import did_you_mean
from connector.businessobjects.types import TEXTS, SimpleValue
from connector.errors import MalformedData
from connector.messaging.message import Message, PropertyValue, check_property, parse_property
from connector.messaging.selectors.identifiers import check_property_name

PROPERTIES: Final = "JMSProperties"

_TEXT: Final = ("String", "LongText")
_NUMBER: Final = ("Integer", "Float", "Double", *_TEXT)
_TIME: Final = ("Date", "Double", "Float", *_TEXT)


class Header(NamedTuple):
    """An attribute that stands for a header of a message.

    Args:
        field: the header or property, by its name in JMS.
        types: that the attribute may have.
        read: the value of a message. None: the adapter knows it, not the message.
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
    "UserID": Header("JMSXUserID", _TEXT, _property("JMSXUserID"), "Set where the sender has said it."),
    "AppID": Header("JMSXAppID", _TEXT, _property("JMSXAppID"), "Set where the sender has said it."),
    "GroupID": Header("JMSXGroupID", _TEXT, _property("JMSXGroupID"), "What `order: group` goes by."),
    "GroupSeq": Header("JMSXGroupSeq", _NUMBER, _property("JMSXGroupSeq")),
    "InputFormat": Header(
        "JMSType", _TEXT, None, "Or what `MessageFormatProperty` names: the format that rules see."
    ),
    "InputDestination": Header(
        "", _TEXT, None, "The input that the message was taken from, or the queue of the reply."
    ),
}
"""The attributes that stand for headers. ``docs/reference/dynamic-meta-object.md`` is made of them."""

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
"""``type`` in the tags of an attribute of JMSProperties, in lower case, to the type of the property."""

NATURAL_TYPES: Final = {
    "String": "string",
    "LongText": "string",
    "Ciphertext": "string",
    "Date": "string",
    "Boolean": "boolean",
    "Integer": "int",
    "Float": "float",
    "Double": "double",
}
"""Type of such an attribute to that of the property, where no tag says it."""

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
"""Type of a property to the types that it can be read as: those that hold all of its values. Text is parsed
(JMS 2.0, 3.5.4)."""


def fill_dynamic(
    bo: BusinessObject, message: Message, *, message_format: str | None, input_destination: str
) -> None:
    """Makes the dynamic meta-object of ``bo``, where its definition has one, from ``message``.

    Args:
        bo: the top-level object; a dynamic meta-object that it has already is replaced.
        message: the message it was made from.
        message_format: what rules matched ``InputFormat`` with; None = the message has none.
        input_destination: where the message was taken from, ``queue://orders``.

    Raises:
        MalformedData: a header or property does not fit the type of its attribute, or a property
            cannot be read as the JMS type that is demanded.
    """
    holder = bo.definition.dynamic_metaobject
    if holder is None:
        return
    bo[holder] = None
    child = bo.add(holder)
    _fill(child, message, message_format, input_destination, f"{bo.type}: {holder}")


def refill_dynamic(
    bo: BusinessObject,
    message: Message,
    *,
    message_format: str | None,
    input_destination: str | None,
    kept: BusinessObject | None,
) -> None:
    """As :func:`fill_dynamic`, from the reply to a request (WBI Adapter for JMS, table 6).

    What stands for headers is the reply's; the other attributes (``OutputDestination``, ``ResponseTimeout``
    ...) stay as they were in the request.

    Args:
        bo: gets a dynamic meta-object of its own; it has none yet, or one that is replaced.
        kept: the dynamic meta-object of the request; not changed. None = it had none.

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
                child[name] = kept[name]
    _fill(child, message, message_format, input_destination, f"{bo.type}: {holder}")


def properties_of(child: BusinessObject, place: str) -> tuple[tuple[str, str, PropertyValue], ...]:
    """The properties that a JMSProperties child says: their names, JMS types and values.

    The type is that of the tag, else that of the attribute (Integer: int, Date: string ...). What is not set
    is no property, and neither is what is blank, unless it is a string: that is sent empty.

    Args:
        child: the object that the attribute JMSProperties holds.
        place: for errors, ``Customer.Meta.JMSProperties``.

    Raises:
        MalformedData: a value does not fit its JMS type, or a message cannot have a property of that name.
    """
    found: dict[str, tuple[str, str, PropertyValue]] = {}
    for attribute_name in child:
        attribute = child.definition.attributes[attribute_name]
        here = f"{place}.{attribute_name}"
        value = child[attribute_name]
        name, kind = property_tags(attribute)
        if kind is None:
            wrong = _tags(attribute.app_specific_info).get("type") or attribute.type
            raise MalformedData(f"{here}: no property can be a {wrong}")
        if isinstance(value, str) and not value.strip() and kind != "string":
            continue
        try:
            check_property_name(name)
            converted = _as_property(kind, value)
        except ValueError as error:
            raise MalformedData(f"{here}: {error}") from None
        if name in found:
            raise MalformedData(f"{here}: the property {name!r} is set twice")
        found[name] = (name, kind, converted)
    return tuple(found.values())


def property_tags(attribute: Attribute) -> tuple[str, str | None]:
    """The name and JMS type of the property that an attribute of JMSProperties stands for in requests.

    Both by its tags, else by its own name and type. The type is None where none can be.
    """
    tags = _tags(attribute.app_specific_info)
    tagged = tags.get("type")
    kind = PROPERTY_TYPES.get(tagged.lower()) if tagged else NATURAL_TYPES.get(attribute.type)
    return tags.get("name") or attribute.name, kind


def _fill(
    child: BusinessObject,
    message: Message,
    message_format: str | None,
    input_destination: str | None,
    place: str,
) -> None:
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


def dynamic_problems(definition: Definition, definitions: Definitions) -> Iterator[str]:
    """What is wrong with the dynamic meta-object of ``definition``, each as a sentence for an error."""
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
            kind = _tags(part.app_specific_info).get("type", "string")
            if kind.lower() not in PROPERTY_TYPES:
                yield (
                    f"{part.name} of {properties.type} has type={kind}, expected one of String, Integer, "
                    "Long, Short, Byte, Float, Double, Boolean"
                )
            if part.is_child:
                yield f"{part.name} of {properties.type} stands for a property and must be of a simple type"


def _fill_properties(child: BusinessObject, message: Message, path: str) -> None:
    for attribute in child.definition.attributes.values():
        tags = _tags(attribute.app_specific_info)
        name = tags.get("name") or attribute.name
        value = message.properties.get(name)
        if value is None:
            continue
        place = f"{path}.{attribute.name}"
        actual = message.property_types.get(name, "string")
        wanted = tags.get("type")
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


def as_text(value: PropertyValue) -> str:
    """A header, a property or a simple value as text; booleans as XML and JSON write them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def sendable_text(value: PropertyValue) -> str:
    """As :func:`as_text`, for a header or property of a message.

    Raises:
        ValueError: it is not valid Unicode.
    """
    text = as_text(value)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("found a text that is not valid Unicode") from None
    return text


def _as_property(kind: str, value: SimpleValue) -> PropertyValue:
    """What an attribute says as a property of a JMS type; the inverse of reading it.

    Raises:
        ValueError: it does not fit.
    """
    if kind == "string":
        return sendable_text(value)
    if isinstance(value, str):
        return parse_property(kind, value.strip())
    if kind in _INTEGERS and isinstance(value, float) and value.is_integer():
        value = int(value)  # a long is kept as a Double: an Integer has 32 bits
    return check_property(kind, value)


def _utc(milliseconds: int, place: str) -> str:
    try:
        moment = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(
            milliseconds=milliseconds
        )
    except OverflowError:
        raise MalformedData(f"{place}: {milliseconds} ms since 1970 is no date") from None
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


@lru_cache(maxsize=4096)  # asked for at every message
def _tags(app_specific_info: str) -> Mapping[str, str]:
    tags = {}
    for part in app_specific_info.split(";"):
        name, separator, value = part.partition("=")
        if separator:
            tags[name.strip().lower()] = value.strip()
    return MappingProxyType(tags)
