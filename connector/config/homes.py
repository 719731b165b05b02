"""Finds the section that a misplaced key belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from pydantic import BaseModel

from connector.config.metaobject_model import BusinessObjectDocument, HandlerDocument, StaticDocument
from connector.config.model import AdapterFile
from connector.config.provider_section import provider_sections
from connector.config.sinks import SINKS
from connector.declare.reading import fields_by_key, section_in
from connector.declare.section import ProviderSection

_MOST = 4
"""Places beyond which a key says nothing about where the key belongs."""


def home_of(key: str) -> str | None:
    """Returns the places that take a key, in words for an error. None = no place, or too many places.

    Places in adapter.yaml count before places in the files of ``metaobjects``.
    """
    for homes in (_of_adapter(), _of_metaobjects()):
        places = homes.get(key)
        if places:
            return f"it {' or '.join(places)}" if len(places) <= _MOST else None
    return None


@cache
def _of_adapter() -> dict[str, list[str]]:
    found: list[tuple[str, str]] = []
    for key, place, model in _fields(AdapterFile, ""):
        if not issubclass(model, ProviderSection):
            found.append((key, f"under {place}" if place else "as a section of its own"))
    types: dict[str, list[str]] = {}
    for name, model in provider_sections().items():
        for key, _, _ in _fields(model, "provider"):
            types.setdefault(key, []).append(name)
    for key, names in types.items():
        found.append((key, f"under provider, of type {' or '.join(names)}"))
    sinks = list(SINKS.usable())
    entries: dict[tuple[str, str], list[str]] = {}
    for sink, entry in sinks:
        for key, place, _ in _fields(entry, ""):
            entries.setdefault((key, place), []).append(sink)
    for (key, place), names in entries.items():
        with_sink = "" if len(names) == len(sinks) else f" with {' or '.join(names)}"
        found.append((key, f"in a subscription{with_sink}" + (f", under {place}" if place else "")))
    return _by_key(found)


@cache
def _of_metaobjects() -> dict[str, list[str]]:
    found = [
        (key, f"under {place} of a {document} in metaobjects" if place else f"in a {document}")
        for document, model in (
            ("static meta-object", StaticDocument),
            ("data-handler meta-object", HandlerDocument),
            ("business object", BusinessObjectDocument),
        )
        for key, place, _ in _fields(model, "")
    ]
    return _by_key(found)


def _by_key(found: list[tuple[str, str]]) -> dict[str, list[str]]:
    by_key: dict[str, list[str]] = {}
    for key, place in found:
        places = by_key.setdefault(key, [])
        if place not in places:
            places.append(place)
    return by_key


def _fields(model: type[BaseModel], place: str) -> Iterator[tuple[str, str, type[BaseModel]]]:
    """Yields each key of a section and of the sections in it, with its place and the model of the place."""
    for key, field in fields_by_key(model).items():
        yield key, place, model
        inner, repeated = section_in(field.annotation)
        if inner is not None and inner is not model:  # children may have children
            yield from _fields(inner, f"{place}.{key}{repeated}".lstrip("."))
