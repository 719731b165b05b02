"""Formats whose whole body is one attribute: plain text and bytes."""

from __future__ import annotations

from typing import Final

from connector.businessobjects.definition import SIMPLE_TYPES, Definition
from connector.businessobjects.types import TEXTS
from connector.text.names import shown

TEXT: Final = "text/plain"
BYTES: Final = "application/octet-stream"

ATTRIBUTE: Final = "attribute"
"""The option that names the attribute."""

_HELD_IN: Final = {TEXT: SIMPLE_TYPES, BYTES: TEXTS}
_CONTENT: Final = {TEXT: "a plain text", BYTES: "bytes"}


def holds_one_attribute(mime_type: str) -> bool:
    """Tells whether a body of this format is one attribute."""
    return mime_type in _HELD_IN


def unfit(definition: Definition, name: str, mime_type: str) -> str:
    """Returns the reason why an attribute cannot hold a body. Empty = it can.

    Args:
        name: the value of the option :data:`ATTRIBUTE`.
        mime_type: :data:`TEXT` or :data:`BYTES`.
    """
    attribute = definition.attributes.get(name)
    if attribute is None or name in definition.metaobject_attributes:
        return (
            f"{definition.name} has no attribute {shown(name)} to hold {_CONTENT[mime_type]}; "
            f"set the option '{ATTRIBUTE}' of {mime_type}"
        )
    if attribute.is_list:
        return f"{definition.name}: {name} is a list of values, expected an attribute with a single value"
    if attribute.type not in _HELD_IN[mime_type]:
        expected = "a LongText" if mime_type == BYTES else "an attribute of a simple type"
        return f"{definition.name}: {name} is a {attribute.type}, expected {expected}"
    return ""
