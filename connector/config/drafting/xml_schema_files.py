"""The declarations in the files of an XML Schema (W3C XML Schema 1.0), and its simple types."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lxml import etree

from connector.businessobjects.types import MAX_INTEGER, MIN_INTEGER
from connector.businessobjects.xml_parser import local_name, parse_xml
from connector.errors import MalformedData

NAMESPACE: Final = "http://www.w3.org/2001/XMLSchema"
MAX_FILES: Final = 100
MAX_BYTES: Final = 16 << 20

ELEMENT: Final = "element"
ATTRIBUTE: Final = "attribute"
COMPLEX: Final = "complexType"
SIMPLE: Final = "simpleType"
_GLOBAL: Final = (ELEMENT, ATTRIBUTE, COMPLEX, SIMPLE, "group", "attributeGroup")
_XS: Final = f"{{{NAMESPACE}}}"

_BEYOND: Final = "may be beyond 32 bits, so a text; Integer where all values fit"
_DIGITS: Final = 9
"""Every number of so many digits has 32 bits."""
_BUILT_IN: Final = {
    **dict.fromkeys(("int", "short", "byte", "unsignedShort", "unsignedByte"), "Integer"),
    **dict.fromkeys(("decimal", "double"), "Double"),
    **dict.fromkeys(("date", "dateTime"), "Date"),
    "float": "Float",
    "boolean": "Boolean",
}
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
        type: of the attribute.
        comment: what a person should know of the type.
        max_length: characters. 0 = unlimited.
        smallest, largest, digits: facets of a number.
    """

    type: str = "String"
    comment: str = ""
    max_length: int = 0
    smallest: int | None = None
    largest: int | None = None
    digits: int | None = None

    def take_facets(self, step: etree._Element) -> None:
        """Takes the facets of a restriction. The outermost restriction comes first, and is the narrowest."""
        for facet in step:
            kind, text = kind_of(facet), facet.get("value", "").strip()
            if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
                continue
            number = int(text)
            if kind in ("maxLength", "length"):
                self.max_length = self.max_length or number
            elif kind in ("maxInclusive", "maxExclusive"):
                self.largest = number if self.largest is None else self.largest
            elif kind in ("minInclusive", "minExclusive"):
                self.smallest = number if self.smallest is None else self.smallest
            elif kind == "totalDigits":
                self.digits = number if self.digits is None else self.digits

    def take_built_in(self, name: str) -> None:
        """Takes the built-in type that the restrictions begin with."""
        if name in _WHOLE and not self._is_bounded():
            self.comment = _BEYOND
        else:
            self.type = "Integer" if name in _WHOLE else _BUILT_IN.get(name, "String")
        if self.type != "String" or self.comment:
            self.max_length = 0

    def _is_bounded(self) -> bool:
        if self.digits is not None and self.digits <= _DIGITS:
            return True
        low, high = self.smallest, self.largest
        return low is not None and high is not None and low >= MIN_INTEGER and high <= MAX_INTEGER


class SchemaFiles:
    """The global declarations of a schema and of the local files that the schema includes.

    A name counts without its namespace, as for the data handler.

    Args:
        body: the schema.
        path: its file.

    Attributes:
        not_read: the locations that are no local files.

    Raises:
        MalformedData: a file is no schema, or cannot be read.
    """

    def __init__(self, body: bytes, path: Path) -> None:
        self._declared: dict[tuple[str, str], etree._Element] = {}
        self.not_read: list[str] = []
        seen = {path.resolve()}
        waiting = [(body, path, "")]
        while waiting:
            content, file, place = waiting.pop()
            for part, included in self._take(content, file, place):
                if included.resolve() not in seen:
                    seen.add(included.resolve())
                    if len(seen) > MAX_FILES:
                        raise MalformedData(f"more than {MAX_FILES} schema files: {line_of(part)}")
                    waiting.append((_read(included, part), included, f"{included}: "))

    def _take(self, content: bytes, file: Path, place: str) -> list[tuple[etree._Element, Path]]:
        """Takes the declarations of a file. Returns the local files that the file includes."""
        try:
            root = parse_xml(content)
        except MalformedData as error:
            raise MalformedData(f"{place}{error}") from None
        if root.tag != f"{_XS}schema":
            raise MalformedData(
                f"{place}the root element is {local_name(root.tag)}, expected xs:schema: {line_of(root)}"
            )
        included = []
        for part in root:
            kind, location = kind_of(part), part.get("schemaLocation", "").strip()
            if kind in _GLOBAL:
                self._declared.setdefault((kind, part.get("name", "")), part)
            elif kind in ("include", "import", "redefine") and location:
                if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:|//", location):
                    self.not_read.append(location)
                else:
                    included.append((part, file.parent / location))
        return included

    def declared(self, kind: str) -> list[etree._Element]:
        """Returns all global declarations of a kind."""
        return [node for (declared, _), node in self._declared.items() if declared == kind]

    def find(self, kind: str, name: str) -> etree._Element | None:
        """Returns the global declaration of a name, which may have a prefix. None = there is none."""
        return self._declared.get((kind, local(name)))

    def type_of(self, node: etree._Element) -> etree._Element | None:
        """Returns the complex type of an element. None = the element holds a single value."""
        declared = next((inner for inner in node if kind_of(inner) in (COMPLEX, SIMPLE)), None)
        if declared is None and not _is_built_in(node, node.get("type", "")):
            declared = self.find(COMPLEX, node.get("type", ""))
        if declared is None or kind_of(declared) == SIMPLE or self._is_text(declared):
            return None
        return declared

    def _is_text(self, complex_type: etree._Element) -> bool:
        """Tells whether a complex type only restricts a simple type, without XML attributes."""
        content = next((inner for inner in complex_type if kind_of(inner) == "simpleContent"), None)
        if content is None:
            return False
        kinds = {kind_of(inner) for inner in complex_type.iter(f"{_XS}*")}
        base = next((inner.get("base", "") for inner in content if inner.get("base")), "")
        return not kinds & {ATTRIBUTE, "attributeGroup", "anyAttribute"} and self.find(COMPLEX, base) is None

    def simple_type_of(self, node: etree._Element) -> SimpleType:
        """Returns the type of an element or XML attribute that holds a single value."""
        found = SimpleType()
        name, holder = node.get("type", ""), node
        declared = next((inner for inner in node if kind_of(inner) in (COMPLEX, SIMPLE)), None)
        seen: set[etree._Element] = set()
        while True:
            if declared is None and not _is_built_in(holder, name):
                declared = self.find(SIMPLE, name)
                declared = self.find(COMPLEX, name) if declared is None else declared
            if declared is None:
                if name and not _is_built_in(holder, name):
                    found.comment = f"the schema does not define the type {local(name)}"
                elif local(name) in ("", "anyType", "anySimpleType"):
                    found.comment = "of any type in the schema"
                else:
                    found.take_built_in(local(name))
                return found
            if declared in seen:
                raise MalformedData(f"a simple type is based on itself: {line_of(declared)}")
            seen.add(declared)
            steps = (inner for inner in declared.iter(f"{_XS}restriction", f"{_XS}extension"))
            step = next(steps, None)
            if step is None:  # a list or a union
                return found
            found.take_facets(step)
            name, holder = step.get("base", ""), step
            declared = next((inner for inner in step if kind_of(inner) == SIMPLE), None)


def kind_of(node: etree._Element) -> str:
    """Returns the name of an element of XML Schema. Empty = another element."""
    tag = node.tag
    return tag[len(_XS) :] if isinstance(tag, str) and tag.startswith(_XS) else ""


def local(name: str) -> str:
    """Returns a qualified name without its prefix."""
    return name.rpartition(":")[2].strip()


def line_of(node: etree._Element) -> str:
    return f"line {node.sourceline}"


def _is_built_in(node: etree._Element, name: str) -> bool:
    prefix = name.rpartition(":")[0].strip() or None
    return node.nsmap.get(prefix) == NAMESPACE


def _read(path: Path, part: etree._Element) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MalformedData(f"cannot read {path}: {reason}: {line_of(part)}") from None
    if len(content) > MAX_BYTES:
        raise MalformedData(f"{path} is larger than {MAX_BYTES >> 20} MiB: {line_of(part)}")
    return content
