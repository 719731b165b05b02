"""Recognises secrets and hides them."""

from __future__ import annotations

import re
from typing import Any, Final

MASK: Final = "********"

_SECRET: Final = re.compile(
    r"passw|passphrase|passwd|\bpwd|secret|token|credential|(?:private|access|account|api|auth).?key",
    re.IGNORECASE,
)
_SECRET_OPTION: Final = re.compile(r"([\w.-]*(?:passw|secret|token|credential)[\w.-]*=)(\S+)", re.IGNORECASE)
"""A secret within a text of options: ``-Djavax.net.ssl.keyStorePassword=...``."""
_USER_PART: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s]*@")


def is_secret(key: str) -> bool:
    """Tells whether a key of this name holds a secret."""
    return _SECRET.search(key) is not None


def mask(value: Any, key: str = "") -> Any:
    """Returns the value, also a mapping or list of values, with every secret replaced by :data:`MASK`."""
    if isinstance(value, dict):
        return {name: mask(inner, name) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [mask(inner, key) for inner in value]
    if value is None or isinstance(value, bool):
        return value
    if is_secret(key):
        return MASK
    if not isinstance(value, str):
        return value
    return _SECRET_OPTION.sub(rf"\g<1>{MASK}", _USER_PART.sub(rf"\g<1>{MASK}@", value))
