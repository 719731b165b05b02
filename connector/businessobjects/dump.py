"""Shows business objects, for traces and explanations."""

from __future__ import annotations

from typing import Any, Final

from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import SECRET
from connector.text.json_text import to_json_text
from connector.text.names import cut

_MASK: Final = "********"
_MAX_DUMP: Final = 16 << 10


def dump(bo: BusinessObject) -> str:
    """Returns the attributes of a business object as JSON, at most 16 KiB. Ciphertext is masked."""
    try:
        text = to_json_text(masked_values(bo), default=repr)
    except Exception as error:  # no trace may fail an event
        text = f"cannot be shown: {type(error).__name__}"
    return cut(text, _MAX_DUMP)


def masked_values(bo: BusinessObject) -> dict[str, Any]:
    """Returns the attributes that are set, as values for JSON. Ciphertext is masked."""
    attributes = bo.definition.attributes
    result: dict[str, Any] = {}
    for name in bo:
        value = bo.value(name)
        if attributes[name].type == SECRET:
            result[name] = _MASK
        elif value is None:
            result[name] = None
        elif isinstance(value, BusinessObject):
            result[name] = masked_values(value)
        elif attributes[name].is_many and attributes[name].is_child:
            result[name] = [masked_values(child) for child in value]
        else:
            result[name] = value
    return result
