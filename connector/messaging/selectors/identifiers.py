"""Identifiers: the names that a selector may use, and their meaning (JMS 2.0, 3.8.1.1)."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Final

from connector.messaging.message import NON_PERSISTENT, PERSISTENT, STANDARD_TYPES
from connector.messaging.selectors.nodes import Function, Kind

_DELIVERY_MODES: Final = {PERSISTENT: "PERSISTENT", NON_PERSISTENT: "NON_PERSISTENT"}

HEADERS: Final[Mapping[str, tuple[Function, Kind]]] = {
    "JMSDeliveryMode": (lambda message: _DELIVERY_MODES.get(message.delivery_mode), Kind.STRING),
    "JMSPriority": (attrgetter("priority"), Kind.NUMBER),
    "JMSMessageID": (attrgetter("message_id"), Kind.STRING),
    "JMSTimestamp": (attrgetter("timestamp"), Kind.NUMBER),
    "JMSCorrelationID": (attrgetter("correlation_id"), Kind.STRING),
    "JMSType": (attrgetter("type"), Kind.STRING),
    "JMSXDeliveryCount": (attrgetter("delivery_count"), Kind.NUMBER),
}
"""The headers that a selector may use: the function that reads each, and the kind."""

KEYWORDS: Final = frozenset(
    {"AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE"}
)
"""Words that are no identifiers, in upper or lower case."""

DELIVERY_COUNT: Final = "JMSXDeliveryCount"
PROVIDERS_OWN: Final = "JMS_"

_START = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
_PART = _START | {"Nd", "Mn", "Mc", "Cf"}


def wrong_character(name: str) -> int | None:
    """Returns the index of the first character that Java does not allow at that place of an identifier."""
    for index, character in enumerate(name):
        if unicodedata.category(character) not in (_PART if index else _START):
            return index
    return None


def kind_of(name: str) -> Kind:
    """Returns the kind of an identifier's value.

    Raises:
        ValueError: a selector cannot use the name. The text names the usable headers.
    """
    if name in HEADERS:
        return HEADERS[name][1]
    # The specification reserves the prefix JMS. Any other name with this prefix is forbidden or a mistake.
    if name.startswith("JMS") and not name.startswith(("JMSX", "JMS_")):
        usable = ", ".join(header for header in HEADERS if not header.startswith("JMSX"))
        raise ValueError(f"one of the headers that a selector sees ({usable}), or a property")
    return Kind.ANY


def reader(name: str) -> Function:
    """Returns the function that reads an identifier's value from a message. None = missing."""
    if name in HEADERS:
        return HEADERS[name][0]
    return lambda message: message.properties.get(name)


def is_providers_own(name: str) -> bool:
    """Whether only providers set a property (JMS 2.0, 3.5.9 and 3.5.10)."""
    return name == DELIVERY_COUNT or name.startswith(PROVIDERS_OWN)


@lru_cache(maxsize=4096)
def check_property_name(name: str, kind: str | None = None) -> None:
    """Checks that a program may send a property of this name: a selector can ask for it (JMS 2.0, 3.5.1).

    Args:
        kind: its JMS type. None = not known, or the type that JMS defines.

    Raises:
        ValueError: the name is not allowed, or JMS defines another type for it. The text gives the reason.
    """
    if not name:
        raise ValueError("a property needs a name")
    wrong = wrong_character(name)
    if wrong is not None:
        allowed = "letters, digits, '_' and '$'" if wrong else "a letter, '_' or '$' at the beginning"
        why = f"it has {name[wrong]!r}, expected {allowed}"
    elif name.isascii() and name.upper() in KEYWORDS:
        why = "it is a word of the selectors"
    elif name == DELIVERY_COUNT:
        why = "the provider counts deliveries itself"
    elif name.startswith(PROVIDERS_OWN):
        why = f"names that begin with {PROVIDERS_OWN} are the provider's own"
    elif name.startswith("JMS") and not name.startswith("JMSX"):
        why = "names that begin with JMS are headers, and those are set by their own arguments"
    else:
        defined = STANDARD_TYPES.get(name)
        if kind and defined and kind != defined:
            raise ValueError(
                f"the property {name!r} has the type {kind}, expected {defined}, as JMS defines it"
            )
        return
    raise ValueError(f"no property can be called {name!r}: {why}")
