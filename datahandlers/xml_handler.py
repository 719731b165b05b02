"""XML 1.0: a business object is an element, and each attribute is an element of the same name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lxml import etree

from connector.businessobjects.datahandler import Hint, Option
from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.names import shown
from connector.businessobjects.types import SimpleValue
from connector.businessobjects.xml_parser import local_name, parse_xml
from connector.errors import MalformedData

_MAX_DEPTH: Final = 200
_VERB: Final = "verb"
_NIL: Final = "{http://www.w3.org/2001/XMLSchema-instance}nil"
_SPACE: Final = " \t\r\n"


class XmlHandler:
    """XML elements.

    The root element names the type: ``Customer``, or with ``BOPrefix: MyApp`` the object
    ``MyApp_Customer``. Its attribute ``verb`` names the verb. A rule that dictates them wins over both.
    Elements are attributes by name, in any order. An n-cardinality child is a repeated element. An
    empty element is blank, an element with ``xsi:nil="true"`` is not set. Elements are written in the order
    of the definition, in UTF-8.

    Names are compared without their namespace. Attributes of a namespace (``xsi:schemaLocation``),
    comments and processing instructions are passed over. The XML declaration gives the encoding. A
    document type declaration is refused, and with it every entity but the five of XML itself. These are
    errors: nesting deeper than 200, text between elements, elements or attributes that are not defined.
    """

    mime_types = ("text/xml", "application/xml")
    options = (
        Option(
            "BOPrefix", str, "", "Stands before the name of the root element, and `_`, in the object's name."
        ),
        Option("IgnoreUndefinedAttributes", bool, False, "Pass over elements that the definition lacks."),
    )

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None:
        self._definitions = definitions
        prefix: str = options["BOPrefix"]
        self._prefix = f"{prefix}_" if prefix else ""
        self._ignore_undefined: bool = options["IgnoreUndefinedAttributes"]

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        root = parse_xml(body)
        name = hint.object if hint is not None else self._prefix + local_name(root.tag)
        bo = BusinessObject(self._definitions, name)
        bo.verb = hint.verb if hint is not None and hint.verb else root.get(_VERB) or None
        self._read(bo, root, "", 1)
        return bo

    def _read(self, bo: BusinessObject, element: etree._Element, path: str, depth: int) -> None:
        """Reads the elements within ``element``. ``path`` is that of ``bo`` and ends with a dot."""
        if depth > _MAX_DEPTH:
            raise _error(f"nested deeper than {_MAX_DEPTH} levels", element, "")
        if element.attrib and not self._ignore_undefined:
            self._refuse_attributes(element, path, depth)
        _refuse_text(element.text, element, path)
        definition = bo.definition
        attributes = definition.attributes
        hidden = definition.metaobject_attributes
        for part in element:
            if part.tail is not None:
                _refuse_text(part.tail, element, path)
            tag = part.tag
            if type(tag) is not str:
                raise _error("an entity, which is not supported", part, path)
            name = local_name(tag)
            attribute = attributes.get(name)
            if attribute is None or name in hidden:
                if self._ignore_undefined:
                    _check_depth(part, depth + 1)
                    continue
                raise self._undefined(bo, name, part, path)
            if part.attrib and part.get(_NIL, "").strip(_SPACE) in ("true", "1"):
                if len(part) or part.text:
                    raise _error("xsi:nil is true, but the element is not empty", part, f"{path}{name}")
                continue
            if attribute.is_child:
                self._read_child(bo, name, part, path, depth)
                continue
            if len(part):
                raise _error(
                    f"found the element {shown(local_name(part[0].tag))}, expected text ({attribute.type})",
                    part,
                    f"{path}{name}",
                )
            if part.attrib and not self._ignore_undefined:
                self._refuse_attributes(part, f"{path}{name}.", depth + 1)
            if name in bo:
                raise _error("found a second time, expected one", part, f"{path}{name}")
            try:
                bo.set_text(name, part.text or "")
            except MalformedData as error:
                raise _error(_reason(error), part, f"{path}{name}") from None

    def _read_child(self, bo: BusinessObject, name: str, part: etree._Element, path: str, depth: int) -> None:
        try:
            child = bo.add(name)
        except MalformedData as error:
            raise _error(_reason(error), part, f"{path}{name}") from None
        index = f"[{len(bo[name]) - 1}]" if bo.definition.attributes[name].is_many else ""
        self._read(child, part, f"{path}{name}{index}.", depth + 1)

    def _undefined(self, bo: BusinessObject, name: str, part: etree._Element, path: str) -> MalformedData:
        if name in bo.definition.attributes:
            reason = f"holds a meta-object of {bo.type}, which is never part of a body"
            return _error(reason, part, f"{path}{name}")
        try:
            bo[name]
        except MalformedData as error:
            return _error(str(error), part, path[:-1])
        raise AssertionError(name)

    def _refuse_attributes(self, element: etree._Element, path: str, depth: int) -> None:
        for key in element.attrib:
            name = str(key)
            if name[0] == "{" or (depth == 1 and name == _VERB):
                continue
            raise _error(f"the XML attribute {shown(name)} is not known", element, path[:-1])

    def to_body(self, bo: BusinessObject) -> bytes:
        name = bo.type
        if self._prefix:
            if not name.startswith(self._prefix):
                raise MalformedData(f"{name} does not begin with the BOPrefix {self._prefix!r}")
            name = name[len(self._prefix) :]
        try:
            root = etree.Element(name)
            if bo.verb:
                root.set(_VERB, bo.verb)
            _write(root, bo)
            body: bytes = etree.tostring(root, encoding="UTF-8", xml_declaration=True)
        except (ValueError, RecursionError) as error:  # a control character, nesting
            raise MalformedData(f"{bo.type} cannot be written as XML: {error}") from None
        return body


def _write(element: etree._Element, bo: BusinessObject) -> None:
    hidden = bo.definition.metaobject_attributes
    for name, attribute in bo.definition.attributes.items():
        value = bo[name]
        if value is None or name in hidden:
            continue
        if not attribute.is_child:
            etree.SubElement(element, name).text = _text(value)
        elif attribute.is_many:
            for child in value:
                _write(etree.SubElement(element, name), child)
        else:
            _write(etree.SubElement(element, name), value)


def _text(value: SimpleValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _check_depth(element: etree._Element, depth: int) -> None:
    """Refuses elements that are nested too deeply within an element that is passed over otherwise."""
    level = [element]
    while level:
        depth += 1
        if depth > _MAX_DEPTH + 1:
            raise _error(f"nested deeper than {_MAX_DEPTH} levels", level[0], "")
        level = [part for parent in level for part in parent]


def _refuse_text(text: str | None, element: etree._Element, path: str) -> None:
    if text is not None and text.strip(_SPACE):
        raise _error(f"found the text {shown(text.strip())} between elements", element, path[:-1])


def _reason(error: MalformedData) -> str:
    """Returns the mistake, without the object and the attribute before it."""
    return str(error).split(": ", 2)[-1]


def _error(reason: str, element: etree._Element, path: str) -> MalformedData:
    place = f"{path}: " if path else ""
    return MalformedData(f"{place}{reason}: line {element.sourceline}")
