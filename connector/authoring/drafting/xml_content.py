"""The content of the complex types of an XML Schema: elements with their numbers, XML attributes, text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from lxml import etree

from connector.authoring.drafting.xml_schema_files import (
    ATTRIBUTE,
    ATTRIBUTE_GROUP,
    COMPLEX,
    ELEMENT,
    GROUP,
    QualifiedName,
    XmlSchemaFiles,
    derivation,
    is_true,
    kind_of,
    line_of,
)
from connector.errors import MalformedData

MAX_PARTS: Final = 200_000
"""Declarations that are visited. Groups that use groups can multiply."""

MAX_CHOICE: Final = 100
"""Elements of a choice that become attributes. An element with a wider choice is kept as XML."""

_MANY: Final = 1 << 20
"""Stands for any larger number of elements."""


@dataclass(frozen=True, slots=True)
class Particle:
    """An element of a type.

    Attributes:
        least, most: how often it may stand there.
    """

    node: etree._Element
    least: int
    most: int


@dataclass(slots=True)
class Content:
    """The content of a complex type.

    Attributes:
        elements: by name, in their order.
        attributes: the declarations of XML attributes by name, each with whether it is required.
        has_text: the type is a simple type with XML attributes.
        is_mixed: text may stand between the elements.
        widest: the elements of the widest choice.
        has_any, has_any_attribute: elements, XML attributes of any name may stand there.
        unordered: elements whose order among each other an object cannot keep.
        notes: names and reasons of parts that cannot be found.
    """

    elements: dict[QualifiedName, Particle] = field(default_factory=dict)
    attributes: dict[QualifiedName, tuple[etree._Element, bool]] = field(default_factory=dict)
    has_text: bool = False
    is_mixed: bool = False
    widest: int = 0
    has_any: bool = False
    has_any_attribute: bool = False
    unordered: list[str] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_simple(self) -> bool:
        """Whether the type is a text without anything else, perhaps an empty one."""
        return not (self.elements or self.attributes or self.has_any or self.has_any_attribute)

    @property
    def is_markup(self) -> bool:
        """Whether the type has text or elements that are no attributes of an object."""
        if self.widest > MAX_CHOICE and self.widest == len(self.elements):
            return True
        return (self.is_mixed and bool(self.elements or self.has_any)) or (self.has_any and not self.elements)


Elements = dict[QualifiedName, Particle]


class ContentReader:
    """Reads the content of complex types."""

    def __init__(self, files: XmlSchemaFiles) -> None:
        self._files = files
        self._known: dict[etree._Element, Content] = {}
        self._parts = 0

    def content(self, complex_type: etree._Element) -> Content:
        """Returns the content of a type, with that of the types it extends or restricts.

        Raises:
            MalformedData: the type contains itself, or has too many parts.
        """
        known = self._known.get(complex_type)
        if known is None:
            known = self._known[complex_type] = self._complex(complex_type, frozenset())
        return known

    def _enter(self, node: etree._Element, around: frozenset[etree._Element]) -> frozenset[etree._Element]:
        if node in around:
            raise MalformedData(f"{kind_of(node)} {node.get('name')} contains itself: {line_of(node)}")
        return around | {node}

    def _complex(self, node: etree._Element, around: frozenset[etree._Element]) -> Content:
        around = self._enter(node, around)
        step = derivation(node)
        if step is None:
            found = Content(is_mixed=is_true(node.get("mixed")))
            self._take(node, found, around)
            return found
        content = step.getparent()
        is_simple, is_extension = kind_of(content) == "simpleContent", kind_of(step) == "extension"
        base = self._files.find(COMPLEX, step, step.get("base", ""))
        inherited = Content() if base is None else self._complex(base, around)
        found = Content(
            elements=dict(inherited.elements) if is_extension else {},
            attributes=dict(inherited.attributes),
            has_text=is_simple,
            widest=inherited.widest if is_extension else 0,
            is_mixed=is_true(node.get("mixed")) or (content is not None and is_true(content.get("mixed"))),
            has_any=inherited.has_any and is_extension,
            has_any_attribute=inherited.has_any_attribute and is_extension,
            unordered=list(inherited.unordered) if is_extension else [],
            notes=list(inherited.notes),
        )
        if is_extension and inherited.is_mixed:
            found.is_mixed = True
        if base is None and not is_simple:
            name = self._files.name_of(step, step.get("base", ""))
            if name.local != "anyType":
                found.notes.append((name.local or kind_of(step), "the schema does not define this type"))
        self._take(step, found, around)
        return found

    def _take(self, node: etree._Element, found: Content, around: frozenset[etree._Element]) -> None:
        """Takes the groups and XML attributes of a type, a derivation or a group of attributes."""
        for inner in node:
            kind = kind_of(inner)
            if kind in ("sequence", "all", "choice", GROUP):
                _append(found.elements, self._group(inner, found, around), found)
            elif kind == ATTRIBUTE:
                self._take_attribute(inner, found)
            elif kind == ATTRIBUTE_GROUP:
                group = self._declaration_of(inner, found)
                if group is not None:
                    self._take(group, found, self._enter(group, around))
            elif kind == "anyAttribute":
                found.has_any_attribute = True

    def _take_attribute(self, node: etree._Element, found: Content) -> None:
        self._count(node)
        declared = self._declaration_of(node, found) if node.get("ref") is not None else node
        if declared is None:
            return
        name = QualifiedName(self._files.namespace_of(declared), declared.get("name", "").strip())
        if node.get("use", "").strip() == "prohibited":
            found.attributes.pop(name, None)
        else:
            found.attributes[name] = declared, node.get("use", "").strip() == "required"

    def _group(self, node: etree._Element, found: Content, around: frozenset[etree._Element]) -> Elements:
        """Returns the elements of a group, or of a single element, with their numbers."""
        self._count(node)
        least, most = _number(node, "minOccurs"), _number(node, "maxOccurs")
        kind = kind_of(node)
        elements: Elements = {}
        if not most:
            return {}
        if kind == "any":
            found.has_any = True
        elif kind == ELEMENT:
            return self._element(node, found, least, most)
        elif kind == GROUP:
            group = self._declaration_of(node, found)
            if group is None:
                return {}
            around = self._enter(group, around)
            for inner in group:
                if kind_of(inner) in ("sequence", "all", "choice", GROUP):
                    elements = self._group(inner, found, around)
        elif kind in ("sequence", "all"):
            around = self._enter(node, around)
            for inner in node:
                _append(elements, self._group(inner, found, around), found)
        elif kind == "choice":
            around = self._enter(node, around)
            elements = _either([self._group(inner, found, around) for inner in node if kind_of(inner)])
            found.widest = max(found.widest, len(elements))
        if most > 1 and len(elements) > 1:
            _note_order(found, elements)
        return {name: _times(one, least, most) for name, one in elements.items()}

    def _element(self, node: etree._Element, found: Content, least: int, most: int) -> Elements:
        declared = self._declaration_of(node, found) if node.get("ref") is not None else node
        if declared is None:
            return {}
        substitutes = self._files.substitutes(declared)
        if not substitutes:
            reason = "an abstract element that no element substitutes"
            found.notes.append((declared.get("name", "element"), reason))
        elements: Elements = {}
        for one in substitutes:
            self._count(one)
            name = QualifiedName(self._files.namespace_of(one), one.get("name", "").strip())
            elements[name] = Particle(one, least if len(substitutes) == 1 else 0, most)
        if most > 1 and len(elements) > 1:
            _note_order(found, elements)
        return elements

    def _declaration_of(self, node: etree._Element, found: Content) -> etree._Element | None:
        """Returns the global declaration that ``ref`` names."""
        kind = kind_of(node)
        declared = self._files.find(kind, node, node.get("ref", ""))
        if declared is None:
            name = node.get("ref", "").strip()
            local = name if name.startswith("xml:") else name.rpartition(":")[2]
            found.notes.append((local or kind, f"the schema does not define this {kind}"))
        return declared

    def _count(self, node: etree._Element) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise MalformedData(f"more than {MAX_PARTS} declarations: {line_of(node)}")


def _append(elements: Elements, more: Elements, found: Content) -> None:
    """Adds the elements that follow others."""
    for name, one in more.items():
        known = elements.get(name)
        if known is None:
            elements[name] = one
            continue
        if next(reversed(elements)) != name:
            _note_order(found, [name])
        elements[name] = replace(
            known, least=min(known.least + one.least, _MANY), most=min(known.most + one.most, _MANY)
        )


def _either(branches: list[Elements]) -> Elements:
    """Returns the elements of a choice."""
    elements: Elements = {}
    for branch in branches:
        for name, one in branch.items():
            known = elements.get(name, one)
            elements[name] = Particle(known.node, min(known.least, one.least), max(known.most, one.most))
    for name, one in elements.items():
        if any(name not in branch for branch in branches):
            elements[name] = replace(one, least=0)
    return elements


def _times(one: Particle, least: int, most: int) -> Particle:
    return replace(one, least=min(one.least * least, _MANY), most=min(one.most * most, _MANY))


def _note_order(found: Content, names: Iterable[QualifiedName]) -> None:
    found.unordered += [name.local for name in names if name.local not in found.unordered]


def _number(node: etree._Element, name: str) -> int:
    text = node.get(name, "1").strip()
    if text == "unbounded":
        return _MANY
    return min(int(text), _MANY) if text.isdecimal() and len(text) < 10 else 1 if len(text) < 10 else _MANY
