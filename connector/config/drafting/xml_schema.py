"""Drafts a business object from an XML Schema (W3C XML Schema 1.0)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lxml import etree

from connector.config.drafting.draft import Draft, DraftObject, Member, attribute, element
from connector.config.drafting.xml_schema_files import (
    ATTRIBUTE,
    COMPLEX,
    ELEMENT,
    SchemaFiles,
    kind_of,
    line_of,
    local,
)
from connector.errors import MalformedData

MAX_PARTS: Final = 50_000
"""Declarations that are visited. Groups that use groups can multiply."""


@dataclass(frozen=True, slots=True)
class _Part:
    """An element or XML attribute of a type."""

    node: etree._Element
    kind: str
    is_optional: bool
    is_many: bool

    def within(self, group: etree._Element) -> _Part:
        """Returns the part as it is within a group of elements."""
        if self.kind == ATTRIBUTE:
            return self
        is_optional = self.is_optional or _is_optional(group) or kind_of(group) == "choice"
        return _Part(self.node, self.kind, is_optional, self.is_many or _is_many(group))


def draft_xml_schema(draft: Draft, body: bytes, path: Path) -> None:
    """Drafts from an XML Schema. The element of the object's name is the root, else the only root there is.

    Args:
        draft: gets the definitions.
        body: the schema.
        path: the file of the schema. Files that it includes are read, if they are local.

    Raises:
        MalformedData: the body is no schema, or has no element to begin with.
    """
    _Schema(draft, SchemaFiles(body, path)).draft()


class _Schema:
    def __init__(self, draft: Draft, files: SchemaFiles) -> None:
        self._draft = draft
        self._files = files
        self._children: dict[etree._Element, str] = {}
        self._waiting: list[tuple[DraftObject, etree._Element]] = []
        self._parts = 0

    def draft(self) -> None:
        root = self._root()
        complex_type: etree._Element | None = root
        if kind_of(root) == ELEMENT:
            self._draft.name_in_sample(root.get("name", ""))
            complex_type = self._files.type_of(root)
        if complex_type is None:
            raise MalformedData(
                f"{root.get('name')} holds a single value, expected elements: {line_of(root)}"
            )
        self._children[complex_type] = self._draft.top.name
        self._waiting.append((self._draft.top, complex_type))
        for holder, described in self._waiting:  # grows
            if described.get("mixed") in ("true", "1"):
                self._draft.leave_out(holder, "text", "text between elements")
            for part in self._content(described, holder, frozenset()):
                self._add(holder, part)
        for location in self._files.not_read:
            self._draft.left_out.append(f"{location}: only local schema files are read")

    def _root(self) -> etree._Element:
        name = self._draft.top.name
        for kind in (ELEMENT, COMPLEX):
            node = self._files.find(kind, name)
            if node is not None:
                return node
        elements = self._files.declared(ELEMENT)
        everywhere = {node.getroottree().getroot() for node in elements}
        used = {
            local(inner.get("ref", ""))
            for schema in everywhere
            for inner in schema.iter()
            if kind_of(inner) == ELEMENT
        }
        roots = [node for node in elements if node.get("name") not in used] or elements
        roots = roots or self._files.declared(COMPLEX)
        if not roots:
            raise MalformedData("the schema has no element")
        if len(roots) > 1:
            names = ", ".join(str(node.get("name")) for node in roots[:10])
            raise MalformedData(f"the schema has several root elements, name the object like one: {names}")
        return roots[0]

    def _content(
        self, node: etree._Element, holder: DraftObject, around: frozenset[etree._Element]
    ) -> Iterator[_Part]:
        """Yields the elements and XML attributes of a type, of a group or of a list of elements."""
        if node in around:
            raise MalformedData(f"{kind_of(node)} {node.get('name')} contains itself: {line_of(node)}")
        around |= {node}
        for inner in node:
            self._parts += 1
            if self._parts > MAX_PARTS:
                raise MalformedData(f"more than {MAX_PARTS} declarations: {line_of(inner)}")
            kind = kind_of(inner)
            if kind == ELEMENT:
                yield _Part(inner, kind, _is_optional(inner), _is_many(inner))
            elif kind == ATTRIBUTE:
                if inner.get("use") != "prohibited":
                    yield _Part(inner, kind, inner.get("use") != "required", False)
            elif kind in ("sequence", "all", "choice"):
                for part in self._content(inner, holder, around):
                    yield part.within(inner)
            elif kind in ("group", "attributeGroup"):
                group = self._referred(kind, inner, holder)
                for part in self._content(group, holder, around) if group is not None else ():
                    yield part.within(inner)
            elif kind in ("complexContent", "simpleContent"):
                for step in inner:
                    yield from self._derived(kind, step, holder, around)
            elif kind in ("any", "anyAttribute"):
                self._draft.leave_out(holder, f"xs:{kind}", "elements or XML attributes of any name")

    def _derived(
        self, content: str, step: etree._Element, holder: DraftObject, around: frozenset[etree._Element]
    ) -> Iterator[_Part]:
        """Yields what an extension or restriction of another type has."""
        if kind_of(step) not in ("extension", "restriction"):
            return
        base = self._files.find(COMPLEX, step.get("base", ""))
        if content == "simpleContent" and base is None:
            self._draft.leave_out(holder, "text", "the text of an element with XML attributes")
        elif base is not None and (kind_of(step) == "extension" or content == "simpleContent"):
            yield from self._content(base, holder, around)
        yield from self._content(step, holder, around)

    def _referred(self, kind: str, node: etree._Element, holder: DraftObject) -> etree._Element | None:
        """Returns the global declaration that ``ref`` names."""
        name = local(node.get("ref", ""))
        found = self._files.find(kind, name)
        if found is None:
            self._draft.leave_out(holder, name or kind, f"the schema does not define this {kind}")
        return found

    def _add(self, holder: DraftObject, part: _Part) -> None:
        node, reference = part.node, part.node.get("ref")
        if reference is not None:
            if part.kind == ATTRIBUTE and ":" in reference:
                return  # the data handler passes over XML attributes of a namespace
            referred = self._referred(part.kind, node, holder)
            if referred is None:
                return
            node = referred
        name = node.get("name", "")
        member = attribute(name) if part.kind == ATTRIBUTE else element(name)
        complex_type = self._files.type_of(node) if part.kind == ELEMENT else None
        if member in holder.members:
            self._repeat(holder, member)
        elif complex_type is not None:
            self._add_child(holder, member, complex_type, part)
        elif part.is_many:
            reason = "repeated single values; only repeated objects can be an attribute"
            self._draft.leave_out(holder, name, reason)
        else:
            simple = self._files.simple_type_of(node)
            made = self._draft.add(holder, member, simple.type, comment=simple.comment)
            if made is not None:
                made.required, made.max_length = not part.is_optional, simple.max_length

    def _repeat(self, holder: DraftObject, member: Member) -> None:
        """Takes an element that a type has a second time, as in the sequence a, b, a."""
        made = holder.members[member]
        if made.type in self._children.values():
            made.many = True
        elif member.info == "":
            holder.members[member].comment = "the schema has it more than once; only one can be an attribute"

    def _add_child(self, holder: DraftObject, member: Member, node: etree._Element, part: _Part) -> None:
        made = self._draft.add(holder, member, "")
        if made is None:
            return
        if node not in self._children:
            shared = node.get("name")  # a type that other elements may have, too
            child = self._draft.child(self._draft.top if shared else holder, shared or made.name)
            self._children[node] = child.name
            self._waiting.append((child, node))
        made.type = self._children[node]
        made.many, made.required = part.is_many, not part.is_optional


def _is_optional(node: etree._Element) -> bool:
    return node.get("minOccurs", "1").strip() == "0"


def _is_many(node: etree._Element) -> bool:
    return node.get("maxOccurs", "1").strip() not in ("0", "1")
