"""The types of values that name destinations, headers and properties, and message selectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from connector.declare.tree import Leaf
from connector.declare.value_types import ValueType, as_found, leaf, refuse
from connector.errors import DestinationError, SelectorError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.selector import compile_selector, selector_text
from connector.messaging.selectors.identifiers import check_property_name
from connector.text.names import nearest, shown

MESSAGE_ID: Final = "JMSMessageID"
CORRELATION_ID: Final = "JMSCorrelationID"
_A_DESTINATION: Final = "a destination such as queue://orders"


def _parse(written: Leaf) -> Destination:
    try:
        return parse_destination(written)
    except DestinationError as error:
        found = as_found(written)
        if not written.from_environment:
            found = error.reason.replace(repr(str(written)), shown(written), 1)
        near = None if written.from_environment else error.near
        kind, separator, rest = written.partition("://")
        if separator and (close := nearest(kind, ("queue", "topic"))):
            near = None if written.from_environment else f"{close}://{rest}"
        raise refuse(found, _A_DESTINATION, near) from None


def destination_type(check: Callable[[Destination, str], None]) -> ValueType:
    """Returns the value type for a queue or topic.

    Args:
        check: gets the destination and its text for errors. Refuses destinations that are not allowed here.
    """

    def read(value: object) -> Destination:
        written = leaf(value, _A_DESTINATION)
        destination = _parse(written)
        check(destination, as_found(written))
        return destination

    return ValueType(
        read, lambda value: None if value is None else str(value), {"type": "string"}, "destination"
    )


def _check_sink(destination: Destination, found: str) -> None:
    if destination.view:
        raise refuse(f"{found} is a view of a queue: nothing can be sent there", "the queue itself")


def _queue_type(reason: str, expected: str = "a queue") -> ValueType:
    """Returns the value type for a queue that messages are sent to. A topic is refused with a reason."""

    def check(destination: Destination, found: str) -> None:
        if not destination.is_queue:
            raise refuse(f"{found} is a topic{reason}", expected)
        _check_sink(destination, found)

    return destination_type(check)


_NO_INPUTS: Final = {
    "PROCESSING": "what others have taken can only be browsed",
    "RECOVER-ERROR": "what is acknowledged there goes back to its queue, so no copy of it could be kept",
}


def _check_input(destination: Destination, found: str) -> None:
    if reason := _NO_INPUTS.get(destination.view):
        raise refuse(f"{found} is no input: {reason}", "the queue itself, its ~EXPIRED or its ~REJECT-ERROR")


SINK: Final = destination_type(_check_sink)
"""A destination that messages are sent to: a queue or topic."""
COPIES: Final = _queue_type(": a copy that nobody subscribes to is lost")
"""A destination for the adapter's copies: a queue."""
REPLIES: Final = _queue_type(": a reply that nobody subscribes to is lost")
"""A destination for replies: a queue."""
IN_PROGRESS: Final = _queue_type("", "a queue: work in progress cannot be kept on a topic")
"""A destination for messages in progress: a queue."""
INTAKE: Final = _queue_type(": a message that nobody subscribes to is lost")
"""A destination for messages from outside: a queue."""
INPUT: Final = destination_type(_check_input)
"""A destination that is polled: a queue, a topic, or a view of messages that a queue could not deliver."""


_A_SELECTOR: Final = "a message selector such as region = 'EU' AND size > 10"


def _read_text_of_selector(value: object) -> str | None:
    written = leaf(value, _A_SELECTOR)
    return str(written) if selector_text(written) else None


def _read_selector(value: object) -> str | None:
    text = _read_text_of_selector(value)
    if text is not None and (mistake := selector_mistake(leaf(value, _A_SELECTOR))) is not None:
        raise refuse(mistake.found, mistake.expected, offset=mistake.offset)
    return text


class SelectorMistake(NamedTuple):
    """Why a text is no message selector of JMS.

    Args:
        found, expected: as in :class:`connector.errors.Problem`.
    """

    found: str
    expected: str
    offset: int


def selector_mistake(written: Leaf) -> SelectorMistake | None:
    """Returns why a text is no message selector of JMS. None = it is one, or there is no text."""
    if not selector_text(written):
        return None
    try:
        compile_selector(str(written))
    except SelectorError as error:
        found = f"{as_found(written)} is no message selector"
        if not written.from_environment:
            found = f"no message selector: {error}"
        return SelectorMistake(found, _A_SELECTOR, error.position - 1)
    return None


SELECTOR: Final = ValueType(_read_selector, lambda value: value, {"type": "string"}, "message selector")
"""The text of a valid message selector. An empty text is None: no selector."""
TEXT_OF_SELECTOR: Final = ValueType(
    _read_text_of_selector, lambda value: value, {"type": "string"}, "message selector"
)
"""The text of a message selector in the language of the provider. An empty text is None: no selector."""


def _read_any_destination(value: object) -> str:
    written = leaf(value, _A_DESTINATION)
    _parse(written)
    return str(written)


ANY_DESTINATION: Final = ValueType(_read_any_destination, str, {"type": "string"}, "destination")
"""The text of a queue or topic."""


def _property_or(*headers: str) -> ValueType:
    """Returns the value type for one of some headers, or for a property that a program may set."""
    expected = ", ".join([*headers, "or the name of a property" if headers else "the name of a property"])

    def read(value: object) -> str:
        name = leaf(value, expected)
        if name in headers:
            return str(name)
        near = nearest(name, headers)
        if not name:
            raise refuse(as_found(name), expected)
        if name.startswith("JMS") and not name.startswith(("JMSX", "JMS_")):
            raise refuse(
                f"{as_found(name)} is no property: it begins with JMS, as headers do", expected, near
            )
        try:
            check_property_name(name, "string")
        except ValueError as error:
            found, _, allowed = str(error).partition(", expected ")
            if name.from_environment:
                found = as_found(name)
            raise refuse(found, f"{expected}: {allowed}" if allowed else expected, near) from None
        return str(name)

    label = " | ".join([*headers, "property"])
    return ValueType(read, str, {"type": "string"}, label)


PROPERTY: Final = _property_or()
"""The name of a property of messages."""
REQUESTED_BY: Final = _property_or(MESSAGE_ID, CORRELATION_ID)
FORMAT: Final = _property_or("JMSType", CORRELATION_ID)
"""A header or property that can hold the format of a message that is sent."""
ANSWERED_BY: Final = _property_or(CORRELATION_ID)
