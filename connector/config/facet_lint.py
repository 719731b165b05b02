"""Reads the facets of attributes, and reports those that contradict their type or each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connector.businessobjects.dates import has_zone
from connector.businessobjects.definition import Attribute
from connector.businessobjects.facets import Facets, compile_pattern
from connector.businessobjects.types import NUMBERS, SECRET, SIMPLE_TYPES, TEXTS, text_converter, text_of
from connector.config.metaobjects import Document
from connector.errors import MalformedData

_WITH_VALUES: Final = tuple(name for name in SIMPLE_TYPES if name not in (SECRET, "Boolean"))
_TYPES: Final = {
    "values": (_WITH_VALUES, "a text, a number or a Date"),
    "minimum": ((*NUMBERS, "Date"), "a number or a Date"),
    "maximum": ((*NUMBERS, "Date"), "a number or a Date"),
    "pattern": (TEXTS, "a text"),
    "min_length": (TEXTS, "a text"),
}


def read_facets(attribute: Attribute, given: Mapping[str, Any], document: Document) -> Facets:
    """Returns the facets of an attribute, without those that are wrong.

    Args:
        given: the facets as they are written, by their keys.
        document: gets the mistakes.
    """
    found: dict[str, Any] = {}
    where = ("attributes", attribute.name)
    for key, written in given.items():
        if written in (None, [], 0):
            continue
        types, kind = _TYPES[key]
        if attribute.type not in types:
            document.add((*where, key), f"{key} of a {attribute.type}", f"it left out; only {kind} has it")
            continue
        try:
            found[key] = _read(key, written, attribute)
        except (ValueError, MalformedData) as error:
            text, _, expected = str(error).partition(", expected ")
            document.add((*where, key), text, expected or "a regular expression, such as O-[0-9]+")
    if (wrong := _wrong_bounds(attribute.type, found.get("minimum"), found.get("maximum"))) is not None:
        document.add((*where, "minimum"), *wrong)
        del found["minimum"]
    least, most = found.get("min_length", 0), attribute.max_length
    if most and least > most:
        document.add((*where, "min_length"), f"{least} over the max_length {most}", "at most that")
        del found["min_length"]
    facets = Facets(**found)
    _check_values(attribute, facets, document)
    return facets


def _read(key: str, written: Any, attribute: Attribute) -> Any:
    if key == "min_length":
        return written
    if key == "pattern":
        compile_pattern(str(written))
        return str(written)
    read = text_converter(attribute.type, attribute.max_length, attribute.digits, attribute.scale)
    if key == "values":
        return tuple(read(str(one)) for one in written)
    value = read(str(written))
    if value == "":
        raise ValueError(f"found nothing, expected {_TYPES[key][1]}")
    return value


def _wrong_bounds(type_name: str, low: Any, high: Any) -> tuple[str, str] | None:
    """Returns what is wrong with two bounds, and what is expected. None = nothing."""
    if low is None or high is None:
        return None
    if type_name == "Date" and has_zone(low) is not has_zone(high):
        return f"{low} beside the maximum {high}", "both with a zone, or both without"
    check = Facets(maximum=high).check(type_name, True)
    try:
        if check is not None:
            check(low)
    except ValueError:
        return f"{text_of(low)} over the maximum {text_of(high)}", "at most that"
    return None


def _check_values(attribute: Attribute, facets: Facets, document: Document) -> None:
    """Reports values that the other facets refuse."""
    check = facets.check(attribute.type, True)
    if check is None:
        return
    for value in facets.values:
        try:
            check(value)
        except ValueError as error:
            found, _, expected = str(error).partition(", expected ")
            document.add(("attributes", attribute.name, "values"), found, expected)
