"""Drafts a business object from samples in XML."""

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
from connector.authoring.drafting.kinds import SPACE, Values, guess_of_texts, kind_of_text
from connector.authoring.drafting.sample_files import Samples
from connector.authoring.drafting.shape import SampleShape, draft_shape
from connector.datahandlers.soap_handler import ENVELOPES, SoapHandler
from connector.datahandlers.xml_handler import XmlHandler
from connector.errors import MalformedData
from connector.formats.xml_plan import XSI
from connector.text.names import shown
from connector.text.xml_parser import local_name

_VERB: Final = "verb"
_NIL: Final = f"{{{XSI}}}nil"
_OF_XSI: Final = {
    "type": XSI_TYPE,
    "schemaLocation": SCHEMA_LOCATION,
    "noNamespaceSchemaLocation": NO_NAMESPACE_LOCATION,
}
_MAX_DEPTH: Final = 200
"""Levels that the data handler for ``text/xml`` reads."""


def draft_xml(draft: Draft, samples: Samples) -> None:
    """Drafts from XML documents, as the data handler for ``text/xml`` reads them, or that for SOAP.

    Raises:
        MalformedData: a body is no XML document, or has another root element than the first.
    """
    draft.handler = XmlHandler
    shape = SampleShape()
    prefixes: dict[str, str] = {}
    first: etree._Element | None = None
    for document in samples.roots(shape.count):
        root = _content(draft, document)
        if document.getroottree().docinfo.internalDTD is not None:
            draft.need("doctype", "ignore", "the sample has a document type")
        if first is None:
            first = root
            draft.root_element(local_name(root.tag), _namespace(root.tag))
        samples.expect("the root element", str(root.tag), str(first.tag))
        _observe_all(shape, root)
        draft.add_verb(root.get(_VERB, ""))
        for part in root.iter("*"):
            for prefix, uri in part.nsmap.items() if part is root or part.prefix else ():
                if prefix and prefix not in prefixes.values():
                    prefixes.setdefault(uri, prefix)
        if shape.kinds and not shape.members:
            raise MalformedData(f"the root element holds text, expected elements: line {root.sourceline}")
    if not draft.has_sample_verb:
        draft.top.tags.append("verb=false")
    _settle(draft, shape)
    draft_shape(draft, draft.top, shape, guess_of_texts)
    draft.name_prefixes(prefixes, has_root_prefix=first is not None and first.prefix is not None)


def _observe_all(shape: SampleShape, root: etree._Element) -> None:
    waiting = [(shape, root)]
    for _ in range(_MAX_DEPTH):  # level by level
        waiting = [below for held, part in waiting for below in _observe(held, part, is_root=part is root)]
    if waiting:
        line = waiting[0][1].sourceline
        raise MalformedData(f"elements nested deeper than {_MAX_DEPTH} levels: line {line}")


def _content(draft: Draft, root: etree._Element) -> etree._Element:
    """Returns the element that is the business object: the root, or what an envelope of SOAP contains."""
    uri = _namespace(root.tag)
    if local_name(root.tag) != "Envelope" or uri not in ENVELOPES:
        return root
    found = root.find(f"{{{uri}}}Body/*")
    if found is None or found.tag == f"{{{uri}}}Fault":
        what = "is empty" if found is None else "is a fault"
        raise MalformedData(f"the Body of the SOAP envelope {what}, expected a business object")
    draft.handler = SoapHandler
    draft.check_once("the sample is a SOAP envelope: the data handler is application/soap+xml")
    for block in root.iterfind(f"{{{uri}}}Header/*"):
        name = shown(local_name(block.tag))
        draft.check_once(f"the header block {name} is passed over: a child with the tag soap=header keeps it")
    return found


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
        _add(shape, text)
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
    _add(shape.member(member or attribute(local, namespace)), text)


def _settle(draft: Draft, top: SampleShape) -> None:
    """Decides for each element with text and more: the text is an attribute, or the element is XML."""
    waiting = [top]
    for shape in waiting:  # grows
        if shape.is_nil:
            draft.options["null"] = "value"
            draft.check_once(
                "xsi:nil means not set: the data handler needs null: value to tell it from missing"
            )
        has_elements = any(member.tag == ELEMENT_TAG for member in shape.members)
        if has_elements:
            shape.kinds.discard(SPACE)
        shape.is_markup |= has_elements and bool(shape.kinds)
        if shape.is_markup and shape is top:
            draft.leave_out(draft.top, "text", "text between elements")
            shape.is_markup, shape.values = False, Values()
        elif shape.is_markup:
            shape.is_object, shape.members, shape.values = False, {}, Values()
        elif shape.is_object and shape.kinds:
            shape.members = {TEXT: SampleShape(shape.values), **shape.members}
            shape.values = Values()
        waiting += shape.members.values()


def _namespace(tag: str) -> str:
    return tag[1:].partition("}")[0] if tag.startswith("{") else ""


def _add(shape: SampleShape, text: str) -> None:
    kind = kind_of_text(text) or (SPACE if text else None)
    if kind is not None:
        shape.add(kind, text)
