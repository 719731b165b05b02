"""The keys of business objects, as texts."""

from __future__ import annotations

from typing import Final

from connector.businessobjects.instance import BusinessObject

LONGEST_KEY: Final = 200
"""Characters of a key."""


def keys_of(bo: BusinessObject) -> list[str]:
    """Returns the values of the key attributes of an object, without Ciphertext and without children."""
    return [key_text(value) for value in bo.values_of(key_names(bo)) if value is not None]


def key_names(bo: BusinessObject) -> tuple[str, ...]:
    """Returns the names of the attributes of :func:`keys_of`."""
    return bo.definitions.schema(bo.type).keys


def key_text(value: object) -> str:
    """Returns the text of one key, at most 200 characters."""
    text = value if type(value) is str else str(value)
    return text if len(text) <= LONGEST_KEY else text[:LONGEST_KEY]
