"""Facets of schemas, as the entries of attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from connector.authoring.metaobject_text import Flow
from connector.businessobjects.facets import compile_pattern
from connector.businessobjects.types import MAX_INTEGER, MIN_INTEGER, NUMBERS, text_converter

_MOST_VALUES: Final = 100
_TEXTS: Final = ("String", "LongText")
_DATE: Final = "Date"


def facet_entries(
    type_name: str,
    bounds: Mapping[str, str],
    values: Sequence[str] = (),
    pattern: str = "",
    min_length: int = 0,
) -> dict[str, str]:
    """Returns those facets that an attribute of a type can have.

    Args:
        bounds: ``minimum`` and ``maximum``.
        values: the only values. More than a hundred are left out.
        pattern: for the whole text. One in another notation is left out.
    """
    found: dict[str, str] = {}
    is_text = type_name in _TEXTS
    if 0 < len(values) <= _MOST_VALUES and all(_fits(type_name, one) for one in values):
        found["values"] = Flow.of(list(dict.fromkeys(values)))
    if type_name in (*NUMBERS, _DATE):
        for key, bound in bounds.items():
            if type_name != "Integer" or bound not in (str(MIN_INTEGER), str(MAX_INTEGER)):
                found.update({key: bound} if _fits(type_name, bound) else {})
    elif is_text and not values:
        if pattern and is_pattern(pattern):
            found["pattern"] = pattern
        if min_length:
            found["min_length"] = str(min_length)
    return found


def is_pattern(text: str) -> bool:
    """Tells whether a text is a pattern of an attribute."""
    try:
        compile_pattern(text)
    except ValueError:
        return False
    return True


def _fits(type_name: str, text: str) -> bool:
    """Tells whether a text is a value of a text, a number or a Date."""
    if type_name not in (*_TEXTS, *NUMBERS, _DATE):
        return False
    try:
        return type_name in _TEXTS or text_converter(type_name)(text) != ""
    except ValueError:
        return False
