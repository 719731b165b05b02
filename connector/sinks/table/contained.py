"""The objects that other objects contain, with those around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from connector.businessobjects.instance import BusinessObject


class Owned(NamedTuple):
    """An object, the objects around it with the containing one first, and its place for errors."""

    bo: BusinessObject
    around: tuple[BusinessObject, ...]
    place: str


def contained(attribute: str, owners: Sequence[Owned]) -> list[Owned]:
    """Returns the objects that an attribute of objects contains."""
    found = []
    for bo, around, place in owners:
        inner = bo[attribute]
        if isinstance(inner, BusinessObject):
            found.append(Owned(inner, (bo, *around), f"{place}.{attribute}"))
        for index, one in enumerate(inner if isinstance(inner, list) else ()):
            found.append(Owned(one, (bo, *around), f"{place}.{attribute}[{index}]"))
    return found
