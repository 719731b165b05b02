"""Reads and checks the properties of requests.

A value comes from a dynamic meta-object, of any simple type, or from a rule, as text. There is one reader
for each property (:data:`READERS`), which ``connector check`` uses too. A reader raises ValueError for any
other value than those it returns. A blank value is undefined and never read. ``docs/reference/requests.md``
explains each property.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from connector.businessobjects.definition import Definition, Definitions
from connector.businessobjects.dynamic import HEADERS, PROPERTIES, property_tags, sendable_text
from connector.businessobjects.types import SECRET, SIMPLE_TYPES, SimpleValue, describe, text_of
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import (
    HIGHEST_PRIORITY,
    NON_PERSISTENT,
    PERSISTENT,
    delivery_time_after,
    expiration_after,
)
from connector.messaging.numbers import read_whole
from connector.messaging.selectors.identifiers import check_property_name, is_providers_own
from connector.text.names import did_you_mean

MAX_TIMEOUT: Final = 2**31 - 1
"""The longest ResponseTimeout in milliseconds, some 24 days: the largest Integer."""

_MODES: Final = {
    "PERSISTENT": PERSISTENT,
    "NONPERSISTENT": NON_PERSISTENT,
    str(PERSISTENT): PERSISTENT,
    str(NON_PERSISTENT): NON_PERSISTENT,
}


def is_blank(value: SimpleValue) -> bool:
    """Tells whether a value counts as undefined."""
    return isinstance(value, str) and not value.strip()


def read_destination(value: SimpleValue) -> Destination:
    """Returns the destination that requests are sent to, no view of a queue."""
    destination = parse_destination(sendable_text(value))
    if destination.view:
        raise ValueError(f"'{destination}' is a view of a queue: nothing can be sent there")
    return destination


def read_reply_queue(value: SimpleValue) -> Destination:
    """Returns the queue that replies are awaited in."""
    destination = read_destination(value)
    if not destination.is_queue:
        raise ValueError(f"'{destination}' is a topic, expected a queue: nobody would be subscribed")
    return destination


def read_priority(value: SimpleValue) -> int:
    """Returns JMSPriority, a whole number from 0 to 9 (JMS 2.0, 3.4.10)."""
    number = _integer(value)
    if number is None or not 0 <= number <= HIGHEST_PRIORITY:
        raise ValueError(f"found {describe(value)}, expected a whole number from 0 to {HIGHEST_PRIORITY}")
    return number


def read_timeout(value: SimpleValue) -> int:
    """Returns ResponseTimeout in milliseconds, at most :data:`MAX_TIMEOUT`. Below 0 = asynchronous."""
    number = _integer(value)
    if number is None or number > MAX_TIMEOUT:
        raise ValueError(
            f"found {describe(value)}, expected milliseconds: a whole number, at most {MAX_TIMEOUT}, "
            "or -1 to wait for no reply"
        )
    return max(number, -1)


def _milliseconds(value: SimpleValue) -> int:
    number = _integer(value)
    if number is None or number < 0:
        raise ValueError(f"found {describe(value)}, expected milliseconds: a whole number from 0")
    return number


def read_time_to_live(value: SimpleValue) -> int:
    """Returns TimeToLive in milliseconds, for which a message can live. 0 = the message never expires."""
    number = _milliseconds(value)
    expiration_after(number)
    return number


def read_delivery_delay(value: SimpleValue) -> int:
    """Returns DeliveryDelay in milliseconds, for which a message can wait. 0 = no delay."""
    number = _milliseconds(value)
    delivery_time_after(number)
    return number


def read_boolean(value: SimpleValue) -> bool:
    """Returns TimeoutFatal, true or false."""
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in ("true", "false"):
        raise ValueError(f"found {describe(value)}, expected true or false")
    return word == "true"


def read_delivery_mode(value: SimpleValue) -> int:
    """Returns JMSDeliveryMode: :data:`PERSISTENT` or :data:`NON_PERSISTENT`."""
    number = _integer(value)
    word = re.sub(r"[\s_-]", "", value).upper() if isinstance(value, str) else str(number)
    if word not in _MODES:
        raise ValueError(f"found {describe(value)}, expected Persistent (2) or NonPersistent (1)")
    return _MODES[word]


READERS: Final[dict[str, Callable[[SimpleValue], Any]]] = {
    "OutputDestination": read_destination,
    "ReplyToDestination": read_reply_queue,
    "OutputFormat": sendable_text,
    "CorrelationID": sendable_text,
    "DataHandlerMimeType": sendable_text,
    "DataHandlerConfigMO": sendable_text,
    "DataHandlerClassName": sendable_text,
    "Priority": read_priority,
    "DeliveryMode": read_delivery_mode,
    "ResponseTimeout": read_timeout,
    "TimeToLive": read_time_to_live,
    "DeliveryDelay": read_delivery_delay,
    "TimeoutFatal": read_boolean,
}
"""The reader of every property that both a rule and a dynamic meta-object may have."""

_TEXTS: Final = frozenset({"String", "LongText"})
_NUMBERS: Final = _TEXTS | {"Integer", "Float", "Double"}
_FITTING: Final = {
    "OutputDestination": _TEXTS,
    "ReplyToDestination": _TEXTS,
    "Priority": _NUMBERS,
    "DeliveryMode": _NUMBERS,
    "ResponseTimeout": _NUMBERS,
    "TimeToLive": _NUMBERS,
    "DeliveryDelay": _NUMBERS,
    "TimeoutFatal": _TEXTS | {"Boolean"},
}


PROPERTY_FITTING: Final = {
    "boolean": _TEXTS | {"Boolean"},
    **dict.fromkeys(("byte", "short", "int", "long", "float", "double"), _NUMBERS),
}
"""From the type of a property to the types of an attribute. A string fits each type that accepts text."""


class MetadataProblem(NamedTuple):
    """A mistake in an attribute of a dynamic meta-object or of JMSProperties.

    Args:
        expected: the valid values. Empty when ``found`` says them.
        warning: whether the attribute may be intended.
    """

    object: str
    attribute: str
    found: str
    expected: str = ""
    warning: bool = False


def metadata_problems(definition: Definition, definitions: Definitions) -> Iterator[MetadataProblem]:
    """Returns the mistakes of a dynamic meta-object as the meta-data of requests."""
    known = [*READERS, *HEADERS, PROPERTIES]
    for name, attribute in definition.attributes.items():
        fitting = _FITTING.get(name)
        if attribute.is_list:
            yield MetadataProblem(definition.name, name, f"a list of values as {name}", "a single value")
        elif name in READERS and attribute.is_child:
            yield MetadataProblem(
                definition.name, name, f"{_a(attribute.type)} as {name}", "a simple type, usually String"
            )
        elif fitting is not None and attribute.type not in fitting:
            yield MetadataProblem(definition.name, name, f"{_a(attribute.type)} as {name}", _one_of(fitting))
        elif name in HEADERS and name not in READERS and attribute.type not in HEADERS[name].types:
            kinds = frozenset(HEADERS[name].types)
            yield MetadataProblem(definition.name, name, f"{_a(attribute.type)} as {name}", _one_of(kinds))
        elif name in known and attribute.type == SECRET:
            found = f"{_a(attribute.type)} as {name}, which logs and errors show"
            yield MetadataProblem(definition.name, name, found, "a String")
        elif name not in known and (guess := did_you_mean(name, known)):
            found = f"{name} stands for no header and no property of requests{guess}"
            yield MetadataProblem(definition.name, name, found, warning=True)
    holder = definition.attributes.get(PROPERTIES)
    properties = definitions.get(holder.type) if holder else None
    if properties is not None:
        yield from _property_problems(properties)


def _property_problems(definition: Definition) -> Iterator[MetadataProblem]:
    first: dict[str, str] = {}
    for attribute in definition.attributes.values():
        name, kind = property_tags(attribute)
        fitting = PROPERTY_FITTING.get(kind or "")
        if attribute.is_child:
            continue  # found with the meta-object itself
        if attribute.is_list:
            found = f"a list of values as the property {name!r}"
            yield MetadataProblem(definition.name, attribute.name, found, "a single value")
            continue
        if fitting is not None and attribute.type not in fitting:
            found = f"{_a(attribute.type)} for a property that is of type {kind}"
            yield MetadataProblem(definition.name, attribute.name, found, _one_of(fitting))
        if name in first:
            found = f"the property {name!r} is that of {first[name]}, too: no request can send both"
            yield MetadataProblem(definition.name, attribute.name, found, warning=True)
            continue
        first[name] = attribute.name
        if is_providers_own(name):
            continue  # only events read such a property
        try:
            check_property_name(name, kind)
        except ValueError as error:
            found = f"no request can send it: {error}"
            yield MetadataProblem(definition.name, attribute.name, found, warning=True)


def _a(name: str) -> str:
    return f"an {name}" if name[0] in "AEIOUaeiou" else f"a {name}"


def _one_of(types: frozenset[str]) -> str:
    return " or ".join(kind for kind in SIMPLE_TYPES if kind in types)


def _integer(value: SimpleValue) -> int | None:
    """Returns a value as a whole number. None = the value is not a whole number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    try:
        return read_whole(text_of(value))
    except ValueError:
        return None
