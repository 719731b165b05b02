"""The dynamic meta-object: what a message's headers say, in a child of its business object.

Seed 004, "Understanding message header mapping"; reference wbi-adapter, section 6. The child is
named by the tag ``cw_mo_<label>=<attribute>`` of the object. Only the attributes that its type
declares are filled, and only those of this table; any other serves requests:

======================  ==========================================================================
attribute               filled with
======================  ==========================================================================
MessageID               JMSMessageID
CorrelationID           JMSCorrelationID
ReplyToDestination      JMSReplyTo
Destination             JMSDestination
Type                    JMSType
DeliveryMode            JMSDeliveryMode: 1 non-persistent, 2 persistent
Priority                JMSPriority
Expiration, TimeStamp   JMSExpiration, JMSTimestamp: milliseconds since 1970, or ISO 8601 (UTC) where the
                        attribute is a Date
Redelivered             JMSRedelivered
UserID, AppID           JMSXUserID, JMSXAppID
GroupID, GroupSeq       JMSXGroupID, JMSXGroupSeq
DeliveryCount           JMSXDeliveryCount
InputFormat             the message format that rules see
InputDestination        where the message was taken from
JMSProperties           a child whose attributes are properties: ``name=<property>;type=<JMS type>``
======================  ==========================================================================

A header that the message does not have leaves its attribute unset. A value is converted to the
type of its attribute; milliseconds do not fit the 32 bits of an Integer, so use String or Double.

The way back, for requests, is :func:`properties_of`; what else a request reads from its dynamic meta-object
stands in :mod:`connector.businessobjects.metadata`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from connector.businessobjects.definition import Attribute, Definition, Definitions
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.names import did_you_mean
from connector.businessobjects.types import SimpleValue
from connector.errors import MalformedData
from connector.messaging.message import Message, PropertyValue, check_property, parse_property
from connector.messaging.selectors.identifiers import check_property_name

PROPERTIES: Final = "JMSProperties"

_HEADERS: Final[dict[str, Callable[[Message], PropertyValue | None]]] = {
    "MessageID": lambda message: message.message_id,
    "CorrelationID": lambda message: message.correlation_id,
    "ReplyToDestination": lambda message: message.reply_to,
    "Destination": lambda message: message.destination,
    "Type": lambda message: message.type,
    "DeliveryMode": lambda message: message.delivery_mode,
    "Priority": lambda message: message.priority,
    "Expiration": lambda message: message.expiration,
    "TimeStamp": lambda message: message.timestamp,
    "Redelivered": lambda message: message.redelivered,
    "DeliveryCount": lambda message: message.delivery_count,
    "UserID": lambda message: message.properties.get("JMSXUserID"),
    "AppID": lambda message: message.properties.get("JMSXAppID"),
    "GroupID": lambda message: message.properties.get("JMSXGroupID"),
    "GroupSeq": lambda message: message.properties.get("JMSXGroupSeq"),
}
HEADER_ATTRIBUTES: Final = frozenset({*_HEADERS, "InputFormat", "InputDestination"})
"""The attributes of the table above, but JMSProperties."""

_TIMES: Final = frozenset({"Expiration", "TimeStamp"})
_TYPES: Final = {
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
_NATURAL: Final = {
    "String": "string",
    "LongText": "string",
    "Date": "string",
    "Boolean": "boolean",
    "Integer": "int",
    "Float": "float",
    "Double": "double",
}
_INTEGERS: Final = frozenset({"byte", "short", "int", "long"})
# A property is readable as any type that holds all of its values; text is parsed (JMS 2.0, section 3.5.4).
_READABLE: Final = {
    "boolean": {"boolean", "string"},
    "byte": {"byte", "short", "int", "long", "string"},
    "short": {"short", "int", "long", "string"},
    "int": {"int", "long", "string"},
    "long": {"long", "string"},
    "float": {"float", "double", "string"},
    "double": {"double", "string"},
    "string": set(_TYPES.values()),
}


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
    """As :func:`fill_dynamic`, from the reply to a request (seed 004, table 6).

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
            if name not in HEADER_ATTRIBUTES and name != PROPERTIES:
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
    kind = _TYPES.get(tagged.lower()) if tagged else _NATURAL.get(attribute.type)
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
        header = _HEADERS.get(name)
        if header is not None:
            value = header(message)
        elif name == "InputFormat":
            value = message_format
        elif name == "InputDestination":
            value = input_destination
        else:
            continue
        if value is None:
            continue
        if name in _TIMES:
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
            if kind.lower() not in _TYPES:
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
        kind = _TYPES.get(wanted.lower()) if wanted else actual
        if kind is None:
            raise MalformedData(f"{place}: type={wanted} is no property type; correct app_specific_info")
        if kind not in _READABLE.get(actual, ()):
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
    converted: SimpleValue = as_text(value) if kind in ("String", "LongText") else value
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
