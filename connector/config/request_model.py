"""Names of headers and properties that hold the format, and that match a request with its reply."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from connector.config.problems import nearest
from connector.config.section import Section
from connector.config.value_types import ValueType, as_found, leaf, refuse
from connector.messaging.selectors.identifiers import check_property_name

_MESSAGE_ID: Final = "JMSMessageID"
_CORRELATION_ID: Final = "JMSCorrelationID"


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
            check_property_name(name)
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
REQUESTED_BY: Final = _property_or(_MESSAGE_ID, _CORRELATION_ID)
FORMAT: Final = _property_or("JMSType", _CORRELATION_ID)
"""A header or property that can hold the format of a message that is sent."""
ANSWERED_BY: Final = _property_or(_CORRELATION_ID)


class ReplyMatching(Section):
    """Headers or properties that match a reply with its request, for requests made and requests served."""

    request: Annotated[str, REQUESTED_BY] = Field(default=_MESSAGE_ID, description="Identifies a request.")
    reply: Annotated[str, ANSWERED_BY] = Field(
        default=_CORRELATION_ID, description="Identifies the request in replies."
    )
