"""Drafts a business object from an XML sample."""

from __future__ import annotations

from typing import Final

from lxml import etree

from connector.authoring.drafting.draft import (
    ELEMENT_TAG,
    NO_NAMESPACE_LOCATION,
    SCHEMA_LOCATION,
    TEXT,
    XSI_TYPE,
    Draft,
    attribute,
    element,
)
from connector.authoring.drafting.kinds import SPACE, kind_of_text, type_of_texts
from connector.authoring.drafting.shape import SampleShape, draft_shape
from connector.errors import MalformedData
from connector.formats.xml_plan import XSI
from connector.text.xml_parser import local_name, parse_xml

_VERB: Final = "verb"
_NIL: Final = f"{{{XSI}}}nil"
_OF_XSI: Final = {
    "type": XSI_TYPE,
    "schemaLocation": SCHEMA_LOCATION,
    "noNamespaceSchemaLocation": NO_NAMESPACE_LOCATION,
}
_MAX_DEPTH: Final = 200
"""Levels that the data handler for ``text/xml`` reads."""


def draft_xml(draft: Draft, body: bytes) -> None:
    """Drafts from an XML document, as the data handler for ``text/xml`` reads it.

    Raises:
        MalformedData: the body is no XML document.
    """
    root = parse_xml(body)
    draft.root_element(local_name(root.tag), _namespace(root.tag))
    shape = SampleShape()
    waiting = [(shape, root)]
    for _ in range(_MAX_DEPTH):  # level by level
        waiting = [below for held, part in waiting for below in _observe(held, part, is_root=part is root)]
    if waiting:
        line = waiting[0][1].sourceline
        raise MalformedData(f"elements nested deeper than {_MAX_DEPTH} levels: line {line}")
    verb = root.get(_VERB, "")
    if verb:
        draft.add_verb(verb)
    else:
        draft.top.tags.append("verb=false")
    if shape.kinds and not shape.members:
        raise MalformedData(f"the root element holds text, expected elements: line {root.sourceline}")
    _settle(draft, shape)
    draft_shape(draft, draft.top, shape, type_of_texts)
    prefixes: dict[str, str] = {}
    for part in root.iter("*"):
        for prefix, uri in part.nsmap.items() if part is root or part.prefix else ():
            if prefix and prefix not in prefixes.values():
                prefixes.setdefault(uri, prefix)
    draft.name_prefixes(prefixes, has_root_prefix=root.prefix is not None)


def _observe(
    shape: SampleShape, part: etree._Element, *, is_root: bool
) -> list[tuple[SampleShape, etree._Element]]:
    """Notes an element. Returns the elements in it, with their shapes."""
    for key in part.attrib:
        name = str(key)
        if name == _NIL:
            shape.is_nil |= part.get(_NIL, "").strip() in ("true", "1")
        elif not (is_root and name == _VERB):
            shape.is_object = True
            _observe_attribute(shape, name, part.get(name, ""))
    shape.is_single = True
    text = "".join(filter(None, (part.text, *(inner.tail for inner in part))))
    if len(part):
        shape.is_object = True
        shape.is_markup |= bool(text.strip())
    elif not shape.is_nil or text:
        shape.kinds |= _kinds(text)
    found: dict[str, SampleShape] = {}
    below = []
    before = ""
    for inner in part:
        held = shape.member(element(local_name(inner.tag), _namespace(inner.tag)))
        if inner.tag in found:
            held.is_list = True
            if before != inner.tag and local_name(inner.tag) not in shape.unordered:
                shape.unordered.append(local_name(inner.tag))
        found[inner.tag] = held
        before = inner.tag
        below.append((held, inner))
    return below


def _observe_attribute(shape: SampleShape, name: str, text: str) -> None:
    namespace, local = _namespace(name), local_name(name)
    member = _OF_XSI.get(local) if namespace == XSI else None
    shape.member(member or attribute(local, namespace)).kinds |= _kinds(text)


def _settle(draft: Draft, top: SampleShape) -> None:
    """Decides for each element with text and more: the text is an attribute, or the element is XML."""
    waiting = [top]
    for shape in waiting:  # grows
        has_elements = any(member.tag == ELEMENT_TAG for member in shape.members)
        if has_elements:
            shape.kinds.discard(SPACE)
        shape.is_markup |= has_elements and bool(shape.kinds)
        if shape.is_markup and shape is top:
            draft.leave_out(draft.top, "text", "text between elements")
            shape.is_markup, shape.kinds = False, set()
        elif shape.is_markup:
            shape.is_object, shape.members, shape.kinds = False, {}, set()
        elif shape.is_object and shape.kinds:
            shape.members = {TEXT: SampleShape(shape.kinds), **shape.members}
            shape.kinds = set()
        waiting += shape.members.values()


def _namespace(tag: str) -> str:
    return tag[1:].partition("}")[0] if tag.startswith("{") else ""


def _kinds(text: str) -> set[str]:
    kind = kind_of_text(text) or (SPACE if text else None)
    return set() if kind is None else {kind}
