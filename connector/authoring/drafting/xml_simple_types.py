"""The simple types of XML Schema (W3C XML Schema 1.0, part 2), and the attribute types that hold them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from lxml import etree

from connector.authoring.drafting.draft import DraftAttribute
from connector.authoring.drafting.facets import facet_entries
from connector.authoring.drafting.xml_schema_files import (
    COMPLEX,
    SIMPLE,
    XmlSchemaFiles,
    derivation,
    kind_of,
    line_of,
)
from connector.businessobjects.types import DECIMAL, MAX_INTEGER, MIN_INTEGER, NUMBERS
from connector.errors import MalformedData
from connector.formats.xml_schema_documents import NAMESPACE

_WITH_PATTERN: Final = "a number of a pattern, so a text: a number would lose leading zeros"
_WITH_PREFIX: Final = "a name with a prefix: the prefix has to be one that is written"
_FINITE: Final = "without INF and NaN"
_BOUNDS: Final = {"minInclusive": "minimum", "maxInclusive": "maximum"}
_COMMON: Final = re.compile(r"(?:[A-Za-z0-9 _,:;/@#%!=.*+?(){}|-]|\\[d.*+?(){}|-]|\[[A-Za-z0-9_ .-]+\])*")
"""Patterns of XML Schema that mean the same in definitions."""
_DIGITS: Final = 9
"""Every number of so many digits has 32 bits."""
_BUILT_IN: Final = {
    **dict.fromkeys(("int", "short", "byte", "unsignedShort", "unsignedByte"), "Integer"),
    "decimal": "Decimal",
    "double": "Double",
    **dict.fromkeys(("date", "dateTime"), "Date"),
    "float": "Float",
    "boolean": "Boolean",
}
_COMMENTS: Final = {
    **dict.fromkeys(("float", "double"), _FINITE),
    **dict.fromkeys(("QName", "NOTATION"), _WITH_PREFIX),
}
_BYTES: Final = ("hexBinary", "base64Binary")
"""Types whose length is a number of bytes, not of characters."""
_WHOLE: Final = frozenset(
    (
        "integer",
        "long",
        "unsignedInt",
        "unsignedLong",
        "nonNegativeInteger",
        "positiveInteger",
        "nonPositiveInteger",
        "negativeInteger",
    )
)


@dataclass(slots=True)
class SimpleType:
    """The type of an attribute for a simple type, with the facets that matter.

    Attributes:
        comment: what a person should know of the type.
        max_length: characters. 0 = unlimited.
        smallest, largest: facets of a number.
        digits, scale: of a Decimal.
        has_pattern: a facet gives the form of the text.
        pattern, values, bounds, min_length: those facets.
    """

    type: str = "String"
    comment: str = ""
    max_length: int = 0
    smallest: int | None = None
    largest: int | None = None
    digits: int = 0
    scale: int | None = None
    has_pattern: bool = False
    pattern: str = ""
    values: list[str] = field(default_factory=list)
    bounds: dict[str, str] = field(default_factory=dict)
    min_length: int = 0

    def take_facets(self, step: etree._Element) -> None:
        """Takes the facets of a restriction. The outermost restriction comes first, and is the narrowest."""
        values = [facet.get("value", "") for facet in step if kind_of(facet) == "enumeration"]
        patterns = [facet.get("value", "") for facet in step if kind_of(facet) == "pattern"]
        self.values = self.values or values
        if patterns and not self.pattern and _COMMON.fullmatch("".join(patterns)):
            self.pattern = "|".join(patterns).replace(r"\d", "[0-9]")
        for facet in step:
            kind, text = kind_of(facet), facet.get("value", "").strip()
            self.has_pattern |= kind == "pattern"
            if kind in _BOUNDS:
                self.bounds.setdefault(_BOUNDS[kind], text)
            if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
                continue
            number = int(text)
            if kind in ("maxLength", "length"):
                self.max_length = self.max_length or number
            if kind in ("minLength", "length"):
                self.min_length = self.min_length or number
            if kind in ("maxInclusive", "maxExclusive"):
                self.largest = number if self.largest is None else self.largest
            elif kind in ("minInclusive", "minExclusive"):
                self.smallest = number if self.smallest is None else self.smallest
            elif kind == "totalDigits":
                self.digits = self.digits or number
            elif kind == "fractionDigits":
                self.scale = number if self.scale is None else self.scale

    def take_built_in(self, name: str) -> None:
        """Takes the built-in type that the restrictions begin with."""
        if name in _WHOLE:
            self.type = "Integer" if self._is_bounded() else DECIMAL
            self.scale = 0
        else:
            self.type = _BUILT_IN.get(name, "String")
            self.comment = _COMMENTS.get(name, "")
        if self.type in NUMBERS and self.has_pattern:
            self.type, self.comment = "String", _WITH_PATTERN
        if self.type != DECIMAL:
            self.digits, self.scale = 0, None
        if self.type != "String" or self.comment or name in _BYTES:
            self.max_length = 0

    def _is_bounded(self) -> bool:
        if 0 < self.digits <= _DIGITS:
            return True
        low, high = self.smallest, self.largest
        return low is not None and high is not None and low >= MIN_INTEGER and high <= MAX_INTEGER

    def describe(self, attribute: DraftAttribute) -> None:
        """Gives an attribute the facets of the type."""
        attribute.max_length, attribute.digits, attribute.scale = self.max_length, self.digits, self.scale
        is_text = self.type == "String" and not self.comment
        values = self.values if is_text or self.type != "String" else []
        attribute.facets = facet_entries(
            self.type, self.bounds, values, self.pattern if is_text else "", self.min_length if is_text else 0
        )
        attribute.allows_blank = self.type == "String" and not (self.has_pattern or attribute.facets)


def simple_type_of(files: XmlSchemaFiles, node: etree._Element) -> SimpleType:
    """Returns the attribute type of an element, an XML attribute, or a complex type with simple content.

    Raises:
        MalformedData: a type is based on itself.
    """
    found = SimpleType()
    declared = node if kind_of(node) == COMPLEX else files.type_of(node)
    holder = node
    seen: set[etree._Element] = set()
    while declared is not None:
        if declared in seen:
            raise MalformedData(f"a simple type is based on itself: {line_of(declared)}")
        seen.add(declared)
        step = derivation(declared) if kind_of(declared) == COMPLEX else _step(declared)
        if step is None:
            return found  # mixed content, or nothing
        if kind_of(step) == "list":
            found.comment, found.max_length = "a list of values in one text", 0
            return found
        if kind_of(step) == "union":
            return found
        found.take_facets(step)
        holder = step
        inner = next((inner for inner in step if kind_of(inner) == SIMPLE), None)
        declared = inner if inner is not None else files.type_of(step)
    name = files.type_name(holder)
    if name is None or name in ((NAMESPACE, "anyType"), (NAMESPACE, "anySimpleType"), (NAMESPACE, "")):
        found.comment = "of any type in the schema"
    elif name.namespace != NAMESPACE:
        found.comment = f"the schema does not define the type {name.local}"
    else:
        found.take_built_in(name.local)
    return found


def _step(simple_type: etree._Element) -> etree._Element | None:
    return next((one for one in simple_type if kind_of(one) in ("restriction", "list", "union")), None)
