"""Definitions: what a business object looks like (seed 004 "Metadata and meta-objects")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

SIMPLE_TYPES: Final = (
    "String",
    "LongText",
    "Boolean",
    "Integer",
    "Float",
    "Double",
    "Date",
)
"""Attribute types that are no business object; any other type names one."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a business object.

    Args:
        name: at most 80 letters, digits and ``_``.
        type: one of :data:`SIMPLE_TYPES`, or the name of a business object (a child).
        is_key, is_foreign_key, is_required: flags of the definition.
        max_length: characters of a String or LongText; 0 = unlimited.
        default: the value that satisfies ``is_required`` where ``UseDefaults`` is true, already of
            the attribute's type; None = no default.
        cardinality: ``"1"`` or ``"n"``; only a child may be ``n``.
        app_specific_info: free text, usually ``name=value;name=value``.
    """

    name: str
    type: str
    is_key: bool = False
    is_foreign_key: bool = False
    is_required: bool = False
    max_length: int = 0
    default: str | int | float | bool | None = None
    cardinality: str = "1"
    app_specific_info: str = ""

    @property
    def is_child(self) -> bool:
        return self.type not in SIMPLE_TYPES

    @property
    def is_many(self) -> bool:
        return self.cardinality == "n"


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of a business object and its application-specific information."""

    name: str
    app_specific_info: str = ""


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of one business object.

    Args:
        name, version, app_specific_info: as written.
        attributes: by name, in the order of the definition.
        verbs: by name; empty = any verb is refused.
    """

    name: str
    version: str = "1.0.0"
    app_specific_info: str = ""
    attributes: dict[str, Attribute] = field(default_factory=dict)
    verbs: dict[str, Verb] = field(default_factory=dict)

    @property
    def dynamic_metaobject(self) -> str | None:
        """The attribute that holds the dynamic meta-object, None where there is none.

        Tagged as ``cw_mo_<label>=<attribute>`` in the application-specific information of the
        object; the label is free (reference wbi-adapter, section 6).
        """
        for part in self.app_specific_info.split(";"):
            key, separator, value = part.partition("=")
            if separator and key.strip().startswith("cw_mo_"):
                return value.strip()
        return None


class Definitions(Mapping[str, Definition]):
    """All business objects of a deployment, by name."""

    __slots__ = ("_by_name",)

    def __init__(self, definitions: Mapping[str, Definition] | None = None) -> None:
        self._by_name = dict(definitions or {})

    def __getitem__(self, name: str) -> Definition:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)
