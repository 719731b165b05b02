"""Drafts a business object from an XML sample."""

from __future__ import annotations

from typing import Final

from lxml import etree

from connector.businessobjects.xml_parser import local_name, parse_xml
from connector.config.drafting.draft import Draft, attribute, element
from connector.config.drafting.kinds import kind_of_text, type_of_texts
from connector.config.drafting.shape import Shape, draft_shape
from connector.errors import MalformedData

_VERB: Final = "verb"
_NIL: Final = "{http://www.w3.org/2001/XMLSchema-instance}nil"
_MAX_DEPTH: Final = 200
"""Levels that the data handler for ``text/xml`` reads."""


def draft_xml(draft: Draft, body: bytes) -> None:
    """Drafts from an XML document, as the data handler for ``text/xml`` reads it.

    Raises:
        MalformedData: the body is no XML document.
    """
    root = parse_xml(body)
    draft.name_in_sample(local_name(root.tag))
    shape = Shape()
    waiting = [(shape, root)]
    for _ in range(_MAX_DEPTH):  # level by level
        waiting = [below for held, part in waiting for below in _observe(held, part, is_root=part is root)]
    if waiting:
        line = waiting[0][1].sourceline
        raise MalformedData(f"elements nested deeper than {_MAX_DEPTH} levels: line {line}")
    draft.add_verb(root.get(_VERB, ""))
    if shape.kinds:
        raise MalformedData(f"the root element holds text, expected elements: line {root.sourceline}")
    draft_shape(draft, draft.top, shape, type_of_texts)


def _observe(shape: Shape, part: etree._Element, *, is_root: bool) -> list[tuple[Shape, etree._Element]]:
    """Notes an element. Returns the elements in it, with their shapes."""
    names = [str(name) for name in part.attrib]
    names = [name for name in names if name[0] != "{" and not (is_root and name == _VERB)]
    for name in names:
        shape.member(attribute(name)).kinds |= _kinds(part.get(name, ""))
    if len(part) or names:
        shape.is_object = True
        if "".join(filter(None, (part.text, *(inner.tail for inner in part)))).strip():
            shape.misfit = "an element with text beside its elements or XML attributes"
    elif part.get(_NIL, "").strip() not in ("true", "1"):
        shape.kinds |= _kinds(part.text or "")
    found: dict[str, Shape] = {}
    below = []
    for inner in part:
        name = local_name(inner.tag)
        held = shape.member(element(name))
        if name in found:
            held.is_list = True
        found[name] = held
        below.append((held, inner))
    return below


def _kinds(text: str) -> set[str]:
    kind = kind_of_text(text)
    return set() if kind is None else {kind}
