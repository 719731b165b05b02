"""Drafts a business object from an XML Schema (W3C XML Schema 1.0)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from lxml import etree

from connector.authoring.drafting.draft import TEXT, XSI_TYPE, Draft, DraftObject, attribute, element
from connector.authoring.drafting.shape import BESIDE_NIL, ORDER
from connector.authoring.drafting.xml_content import Content, ContentReader, Particle
from connector.authoring.drafting.xml_schema_files import (
    COMPLEX,
    ELEMENT,
    QualifiedName,
    XmlSchemaFiles,
    is_true,
    kind_of,
    line_of,
)
from connector.authoring.drafting.xml_simple_types import simple_type_of
from connector.errors import MalformedData

_VERB: Final = "verb"
_ANY: Final = "elements or XML attributes of any name"
_SHOWN: Final = 3
"""Names that a reason names at most."""


def draft_xml_schema(draft: Draft, body: bytes, path: Path, directory: Path) -> None:
    """Drafts from an XML Schema. The element of the object's name is the root, else the only root there is.

    Args:
        directory: the files that the schema includes lie here or below, or beside the schema or below.

    Raises:
        MalformedData: the body is no schema, or has no element to begin with.
    """
    try:
        _Schema(draft, XmlSchemaFiles(body, path, directory)).draft()
    except RecursionError:
        raise MalformedData("the groups or types of the schema are nested too deeply") from None


class _Schema:
    def __init__(self, draft: Draft, files: XmlSchemaFiles) -> None:
        self._draft = draft
        self._files = files
        self._reader = ContentReader(files)
        self._children: dict[etree._Element, str] = {}
        self._waiting: list[tuple[DraftObject, etree._Element]] = []

    def draft(self) -> None:
        root, top = self._root(), self._draft.top
        complex_type: etree._Element | None = root
        if kind_of(root) == ELEMENT:
            complex_type = self._files.type_of(root)
            self._draft.root_element(root.get("name", "").strip(), self._files.namespace_of(root))
        in_place = self._in_place_of(root)
        if complex_type is None or kind_of(complex_type) != COMPLEX or self._content(complex_type).is_simple:
            reason = in_place or "holds a single value, expected elements"
            raise MalformedData(f"{root.get('name')} {reason}: {line_of(root)}")
        if in_place:
            self._draft.leave_out(top, f"root element {root.get('name')}", f"it {in_place}")
        if QualifiedName("", _VERB) not in self._content(complex_type).attributes:
            top.tags.append("verb=false")
        self._children[complex_type] = top.name
        self._waiting.append((top, complex_type))
        for holder, described in self._waiting:  # grows
            self._fill(holder, described)
        if kind_of(root) == ELEMENT:
            self._draft.add_schema_location(self._files.target(root))
        self._draft.name_prefixes(self._files.prefixes)
        for location in self._files.not_read:
            self._draft.left_out.append(f"{location}: only local schema files are read")

    def _in_place_of(self, root: etree._Element) -> str:
        """Says which elements a body has in the place of an abstract root. Empty = another root."""
        if kind_of(root) != ELEMENT or not is_true(root.get("abstract")):
            return ""
        names = [str(one.get("name")).strip() for one in self._files.substitutes(root)]
        if not names:
            return "is abstract, and no element substitutes it: no body has it"
        return f"is abstract, and a body has {' or '.join(names)} in its place: name the object like that one"

    def _root(self) -> etree._Element:
        name = self._draft.top.name
        for kind in (ELEMENT, COMPLEX):
            node = self._files.by_local_name(kind, name)
            if node is not None:
                return node
        elements = [node for node in self._files.declared(ELEMENT) if not is_true(node.get("abstract"))]
        elements = [node for node in elements if self._files.is_main(node)] or elements
        everywhere = {node.getroottree().getroot() for node in elements}
        used = {
            self._files.find(ELEMENT, inner, inner.get("ref", ""))
            for schema in everywhere
            for inner in schema.iter()
            if kind_of(inner) == ELEMENT and inner.get("ref")
        }
        roots = [node for node in elements if node not in used] or elements
        roots = roots or self._files.declared(COMPLEX)
        if not roots:
            raise MalformedData("the schema has no element")
        if len(roots) > 1:
            names = ", ".join(str(node.get("name")) for node in roots[:10])
            raise MalformedData(f"the schema has several root elements, name the object like one: {names}")
        return roots[0]

    def _content(self, complex_type: etree._Element) -> Content:
        """Returns the content of a type, and of the types that ``xsi:type`` may name in its place."""
        found = self._reader.content(complex_type)
        derived = self._files.derived(complex_type)
        if not derived:
            return found
        elements, attributes = dict(found.elements), dict(found.attributes)
        notes = list(found.notes)
        for one in derived:
            more = self._reader.content(one)
            for name, particle in more.elements.items():
                known = elements.setdefault(name, replace(particle, least=0))
                if self._files.type_of(known.node) is not self._files.type_of(particle.node):
                    notes.append((name.local, f"the element of the derived type {one.get('name')}"))
            for name, (node, _) in more.attributes.items():
                attributes.setdefault(name, (node, False))
        return replace(found, elements=elements, attributes=attributes, notes=notes)

    def _fill(self, holder: DraftObject, complex_type: etree._Element) -> None:
        """Adds the attributes of a type."""
        content = self._content(complex_type)
        if content.has_text or (content.is_mixed and not content.is_markup):
            simple = simple_type_of(self._files, complex_type)
            text = self._draft.add(holder, TEXT, simple.type, comment=simple.comment)
            if text is not None:
                simple.describe(text)
                text.required = simple.type != "String"
        elif content.is_mixed:
            self._draft.leave_out(holder, "text", "text between elements")
        if content.has_any or content.has_any_attribute:
            self._draft.leave_out(holder, "xs:any" if content.has_any else "xs:anyAttribute", _ANY)
        if content.unordered:
            self._draft.leave_out(holder, _names(content.unordered), ORDER)
        for name, reason in content.notes:
            self._draft.leave_out(holder, name, reason)
        for found, particle in content.elements.items():
            if particle.most:
                self._add_element(holder, found, particle)
        for found, (node, is_required) in content.attributes.items():
            simple = simple_type_of(self._files, node)
            made = self._draft.add(
                holder, attribute(found.local, found.namespace), simple.type, comment=simple.comment
            )
            if made is not None:
                simple.describe(made)
                made.required = is_required
        if self._files.derived(complex_type):
            made = self._draft.add(holder, XSI_TYPE, "String", comment="the derived type of the element")
            if made is not None:
                made.add_tag(f"ns={self._files.target(complex_type)}")
                made.required = is_true(complex_type.get("abstract"))

    def _add_element(self, holder: DraftObject, name: QualifiedName, particle: Particle) -> None:
        node, member = particle.node, element(name.local, name.namespace)
        is_many, is_required = particle.most > 1, particle.least > 0
        is_nillable = is_true(node.get("nillable"))
        is_unset_by_nil = is_nillable and is_required and not is_many
        complex_type = self._files.type_of(node)
        content = None
        if complex_type is not None and kind_of(complex_type) == COMPLEX:
            content = self._content(complex_type)
        if content is not None and content.is_markup:
            made = self._draft.add(holder, member, "String", many=is_many, comment="an element as XML")
            if made is not None:
                made.required = is_required
                made.add_tag("type=xml")
        elif complex_type is None or content is None or content.is_simple:
            simple = simple_type_of(self._files, node)
            made = self._draft.add(holder, member, simple.type, many=is_many, comment=simple.comment)
            if made is not None:
                simple.describe(made)
                made.required = is_required and not is_unset_by_nil
                if is_nillable:
                    made.add_tag("nil=unset" if is_unset_by_nil else "nil=blank")
        else:
            made = self._draft.add(holder, member, "")
            if made is None:
                return
            made.type = self._child(holder, complex_type, made.name)
            made.many, made.required = is_many, is_required and not is_unset_by_nil
            if is_unset_by_nil:
                made.add_tag("nil=unset")
            elif is_nillable:
                reason = 'xsi:nil="true", which is read as not set, and is not written'
                self._draft.leave_out(holder, name.local, reason)
            if is_nillable and content.attributes:
                self._draft.leave_out(holder, name.local, BESIDE_NIL)

    def _child(self, holder: DraftObject, complex_type: etree._Element, name: str) -> str:
        """Returns the definition of a type, which is new at its first use."""
        if complex_type not in self._children:
            shared = complex_type.get("name")  # a type that other elements may have, too
            child = self._draft.child(self._draft.top if shared else holder, shared or name)
            self._children[complex_type] = child.name
            self._waiting.append((child, complex_type))
        return self._children[complex_type]


def _names(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more
