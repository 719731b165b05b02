"""Reads XML elements into business objects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from lxml import etree

from connector.businessobjects.definition import Schema
from connector.businessobjects.instance import BusinessObject, UnknownAttribute, object_of
from connector.businessobjects.types import SimpleValue
from connector.errors import MalformedData
from connector.formats.plan import MAX_DEPTH, TOO_DEEP
from connector.formats.xml_plan import (
    BLANK,
    COMMENT,
    DOCTYPE,
    MARKUP,
    PI,
    XSI,
    XSI_TYPE,
    XmlItem,
    XmlPlan,
    XmlPlans,
)
from connector.formats.xml_schema_documents import XML_NAMESPACE
from connector.text.names import shown
from connector.text.xml_parser import has_no_namespace, local_name, parse_xml

VERB: Final = "verb"
_LAST_LINE: Final = 65535
"""The last line that the parser tells of an element without a text in it."""
_NIL: Final = f"{{{XSI}}}nil"
_NIL_VALUES: Final = {"true": True, "1": True, "false": False, "0": False}
_NO_ATTRIBUTES: Final = (f"{{{XML_NAMESPACE}}}", f"{{{XSI}}}")
"""The namespaces of XML attributes that say something about an element, and are no part of an object."""
_SPACE: Final = " \t\r\n"
_SPACES: Final = re.compile(f"[{_SPACE}]+")


class XmlReader:
    """Reads elements by the plans of business objects.

    Args:
        ignore_undefined: pass over elements and XML attributes that the definitions lack.
        keeps_null: an element with ``xsi:nil`` is null. False = not set.
        no_attributes: further namespaces whose XML attributes are passed over.
    """

    def __init__(
        self,
        plans: XmlPlans,
        *,
        ignore_undefined: bool,
        keeps_null: bool = False,
        no_attributes: Sequence[str] = (),
    ) -> None:
        self._keeps_null = keeps_null
        self._plans = plans
        self._ignore_undefined = ignore_undefined
        self._no_attributes = (*_NO_ATTRIBUTES, *(f"{{{uri}}}" for uri in no_attributes))

    def read(self, schema: Schema, root: etree._Element, *, is_named: bool = True) -> BusinessObject:
        """Returns the object of an element, or of a whole document, with the verb of the root element.

        Args:
            is_named: whether the element has the name of the object, where the object has no ``elem_name``.

        Raises:
            MalformedData: the element does not fit the object. The text names the path and the line.
        """
        plan = self._plans.of(schema)
        values: dict[str, Any] = {}
        inner = plan.document_child
        if inner is None:
            _check_name(root, self._plans.expected_root(plan, is_named=is_named), plan.namespace)
            self._object(plan, root, values, "", 1)
        else:
            self._document(plan, inner, root, values)
        bo = object_of(schema, values)
        bo.verb = (root.get(VERB) or None) if plan.has_verb else None
        return bo

    def _document(self, plan: XmlPlan, inner: XmlItem, root: etree._Element, values: dict[str, Any]) -> None:
        tree = root.getroottree()
        instructions = [""] if tree.docinfo.encoding is None else []
        if tree.docinfo.xml_version and tree.docinfo.encoding:
            instructions = [f'xml version="{tree.docinfo.xml_version}" encoding="{tree.docinfo.encoding}"']
        before = list(reversed(list(root.itersiblings(preceding=True))))
        instructions += [_instruction(one) for one in before if isinstance(one, etree._ProcessingInstruction)]
        for item, text in zip(plan.specials[PI], filter(None, instructions), strict=False):
            self._text(item, text, root, values, "")
        comments = [one.text or "" for one in before if isinstance(one, etree._Comment)]
        for item, text in zip(plan.specials[COMMENT], comments, strict=False):
            self._text(item, text, root, values, "")
        for item in plan.specials[DOCTYPE][:1]:
            doctype: str = tree.docinfo.doctype  # type: ignore[attr-defined]  # the stubs lack this
            if doctype:
                self._text(item, doctype[2:-1], root, values, "")
        _check_name(root, inner.name, "" if inner.any_namespace else inner.namespace)
        assert inner.field.child is not None
        child: dict[str, Any] = {}
        self._object(self._plans.of(inner.field.child), root, child, f"{inner.field.name}.", 1)
        values[inner.field.name] = object_of(inner.field.child, child)

    def _object(
        self, plan: XmlPlan, element: etree._Element, values: dict[str, Any], path: str, depth: int
    ) -> None:
        """Reads the elements within ``element``. ``path`` is that of the object and ends with a dot."""
        if depth > MAX_DEPTH:
            raise error_at(TOO_DEEP, element)
        if element.attrib:
            self._attributes(plan, element, values, path, depth)
        if plan.text is not None:
            self._own_text(plan, plan.text, element, values, path)
        elif (text := element.text) is not None:
            refuse_text(text, element, path)
        by_tag, has_text = plan.by_tag, plan.text is not None
        nils: list[tuple[str, etree._Element]] = []
        foreign: list[tuple[XmlItem, etree._Element]] = []
        for inner in element:
            if not has_text and (tail := inner.tail) is not None:
                refuse_text(tail, element, path)
            tag = inner.tag
            item = by_tag.get(tag)
            if item is None:
                if type(tag) is not str:
                    self._special(plan, inner, values, path)
                    continue
                item = by_tag.get(local_name(tag))
                if item is None:
                    self._other(plan, inner, foreign, path, depth)
                    continue
            field = item.field
            name = field.name
            if item.from_text is not None and not (inner.keys() or len(inner) or name in values):
                try:
                    values[name] = item.from_text(inner.text or "")
                except ValueError as error:
                    raise error_at(str(error), inner, f"{path}{name}") from None
                continue
            if item.kind == MARKUP:
                self._markup(item, inner, values, path)
                continue
            if inner.attrib and _is_nil(inner, f"{path}{name}"):
                self._nil(item, inner, values, path)
                if item.nil != BLANK or field.child is not None:
                    nils.append((name, inner))
                continue
            if field.child is None:
                self._simple(item, inner, values, path)
            else:
                self._child(item, field.child, inner, values, path, depth)
        if nils or foreign:
            self._settle(nils, foreign, values, path)

    def _settle(
        self,
        nils: list[tuple[str, etree._Element]],
        foreign: list[tuple[XmlItem, etree._Element]],
        values: dict[str, Any],
        path: str,
    ) -> None:
        """Decides about the elements without a value, and about those of other namespaces."""
        _refuse_second(nils, values, path)
        if foreign:
            self._refuse_foreign(foreign, {*values, *(name for name, _ in nils)}, path)
        if self._keeps_null:
            values.update(dict.fromkeys(name for name, _ in nils))

    def _other(
        self,
        plan: XmlPlan,
        element: etree._Element,
        foreign: list[tuple[XmlItem, etree._Element]],
        path: str,
        depth: int,
    ) -> None:
        """Refuses, passes over or notes an element that is no attribute, at least not in its namespace."""
        item = plan.in_namespaces.get(local_name(str(element.tag)))
        if item is not None:
            foreign.append((item, element))
        if item is None or self._ignore_undefined:
            self._skip_or_refuse(plan, element, path, depth)

    def _refuse_foreign(
        self, foreign: list[tuple[XmlItem, etree._Element]], read: set[str], path: str
    ) -> None:
        """Refuses elements that have the name of an attribute, and another namespace.

        Elements that are passed over may have such a name, but not in place of the attribute.

        Args:
            read: the names of the attributes whose elements are there.
        """
        for item, element in foreign:
            if not (self._ignore_undefined and item.field.name in read):
                raise error_at(_other_namespace(element, item.namespace), element, f"{path}{item.field.name}")

    def _child(
        self,
        item: XmlItem,
        schema: Schema,
        element: etree._Element,
        values: dict[str, Any],
        path: str,
        depth: int,
    ) -> None:
        name = item.field.name
        child: dict[str, Any] = {}
        if item.field.many:
            children = values.setdefault(name, [])
            children.append(object_of(schema, child))
            place = f"{path}{name}[{len(children) - 1}]."
        elif name in values:
            reason = f"found a second time, expected one {schema.name}"
            raise error_at(reason, element, f"{path}{name}")
        else:
            values[name] = object_of(schema, child)
            place = f"{path}{name}."
        self._object(self._plans.of(schema), element, child, place, depth + 1)

    def _nil(self, item: XmlItem, element: etree._Element, values: dict[str, Any], path: str) -> None:
        """Reads an element that says of itself that it has no value."""
        name = item.field.name
        if len(element) or element.text:
            raise error_at("xsi:nil is true, but the element is not empty", element, f"{path}{name}")
        if not self._ignore_undefined:
            for key in element.attrib:
                if not str(key).startswith(self._no_attributes):
                    reason = f"the XML attribute {shown(local_name(str(key)))} beside xsi:nil cannot be kept"
                    raise error_at(reason, element, f"{path}{name}")
        if item.nil == BLANK and item.field.child is None:
            self._value(item, "", element, values, path)
        elif item.field.is_list and not self._keeps_null:
            place = f"{path}{name}[{len(values.get(name, ()))}]"
            raise error_at("xsi:nil is true, but each value of a list has to be set", element, place)

    def _markup(self, item: XmlItem, element: etree._Element, values: dict[str, Any], path: str) -> None:
        """Reads an element with all that is in it as a text."""
        check_depth(element, 1)
        text: str = etree.tostring(element, encoding="unicode", with_tail=False)
        if None not in element.nsmap or not has_no_namespace(element):  # canonical XML loses some xmlns=""
            used = [prefix for prefix in element.nsmap if prefix and f"{prefix}:" in text]
            text = _alone(element, text, used)
        self._value(item, text, element, values, path)

    def _value(
        self, item: XmlItem, text: str, element: etree._Element, values: dict[str, Any], path: str
    ) -> None:
        """Sets an attribute that is an element, or adds a value to its list."""
        field, name = item.field, item.field.name
        assert field.value_from_text is not None
        try:
            value = field.value_from_text(text)
        except ValueError as error:
            index = f"[{len(values.get(name, ()))}]" if field.many else ""
            raise error_at(str(error), element, f"{path}{name}{index}") from None
        if field.many:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise error_at("found a second time, expected one", element, f"{path}{name}")
        else:
            values[name] = value

    def _simple(self, item: XmlItem, element: etree._Element, values: dict[str, Any], path: str) -> None:
        name, text = item.field.name, element.text
        if len(element):
            text = self._text_around(item, element, f"{path}{name}")
        if element.attrib and not self._ignore_undefined:
            self._refuse_attributes(element, f"{path}{name}.")
        self._value(item, text or "", element, values, path)

    def _text_around(self, item: XmlItem, element: etree._Element, path: str) -> str:
        """Returns the text of an element that contains comments or processing instructions."""
        texts = [element.text or ""]
        inner: Any
        for inner in element:
            if isinstance(inner.tag, str):
                found = shown(local_name(inner.tag))
                expected = f"text ({item.field.attribute.type})"
                raise error_at(f"found the element {found}, expected {expected}", element, path)
            if isinstance(inner, etree._Entity):
                raise error_at("an entity, which is not supported", inner, path)
            texts.append(inner.tail or "")
        return "".join(texts)

    def _text(
        self, item: XmlItem, text: str, element: etree._Element, values: dict[str, Any], path: str
    ) -> None:
        """Sets an attribute that is no element."""
        name, convert = item.field.name, item.field.value_from_text
        assert convert is not None
        found: list[SimpleValue] = []
        try:
            if item.is_list_text:
                for one in filter(None, _SPACES.split(text)):
                    found.append(convert(one))  # the error needs the number of the value
            values[name] = found if item.is_list_text else convert(text)
        except ValueError as error:
            index = f"[{len(found)}]" if item.is_list_text else ""
            raise error_at(str(error), element, f"{path}{name}{index}") from None

    def _attributes(
        self, plan: XmlPlan, element: etree._Element, values: dict[str, Any], path: str, depth: int
    ) -> None:
        # Reading all values at once takes time in proportion to the square of their number.
        for key in element.attrib:
            name = str(key)
            item = plan.attributes.get(name)
            if item is None and name[0] == "{":
                if name.startswith(self._no_attributes):
                    continue
                item = plan.attributes.get(local_name(name))
            if item is not None:
                if item.field.name in values:
                    reason = f"found the XML attribute {shown(item.name)} a second time, expected one"
                    raise error_at(reason, element, f"{path}{item.field.name}")
                text = element.get(name, "")
                if item.kind == XSI_TYPE:
                    text = _type_name(text, item, element, path)
                self._text(item, text, element, values, path)
            elif not ((name == VERB and depth == 1 and plan.has_verb) or self._ignore_undefined):
                raise error_at(
                    f"the XML attribute {shown(local_name(name))} is not known", element, path[:-1]
                )

    def _refuse_attributes(self, element: etree._Element, path: str) -> None:
        for key in element.attrib:
            name = str(key)
            if not name.startswith(self._no_attributes):
                raise error_at(
                    f"the XML attribute {shown(local_name(name))} is not known", element, path[:-1]
                )

    def _own_text(
        self, plan: XmlPlan, item: XmlItem, element: etree._Element, values: dict[str, Any], path: str
    ) -> None:
        """Reads the text of the object's own element, without the white space around other elements."""
        texts = [element.text or "", *(inner.tail or "" for inner in element)]
        between = " " if item.is_list_text else ""
        text = (
            between.join(texts)
            if len(texts) == 1 or not plan.by_tag
            else between.join(one.strip(_SPACE) for one in texts).strip(_SPACE)
        )
        if text or not (len(element) or values):
            self._text(item, text, element, values, path)

    def _special(self, plan: XmlPlan, inner: etree._Element, values: dict[str, Any], path: str) -> None:
        if isinstance(inner, etree._Comment):
            parts, text = plan.specials[COMMENT], inner.text or ""
        elif isinstance(inner, etree._ProcessingInstruction):
            parts, text = plan.specials[PI], _instruction(inner)
        else:
            raise error_at("an entity, which is not supported", inner, path)
        free = next((item for item in parts if item.field.name not in values), None)
        if free is not None:
            self._text(free, text, inner, values, path)

    def _skip_or_refuse(self, plan: XmlPlan, element: etree._Element, path: str, depth: int) -> None:
        if self._ignore_undefined:
            check_depth(element, depth + 1)
            return
        name = local_name(str(element.tag))
        field = plan.schema.fields.get(name)
        if field is not None and not field.in_body:
            raise error_at(plan.unknown_name(name), element, f"{path}{name}")
        if field is not None:
            raise error_at(
                "is another element or XML attribute by its elem_name, attr_name or type",
                element,
                f"{path}{name}",
            )
        raise error_at(str(UnknownAttribute(plan.schema, name)), element, path[:-1])


def _check_name(element: etree._Element, name: str, namespace: str) -> None:
    """Checks the root element of a document.

    Args:
        name: its local name. Empty = any.
        namespace: empty = any.
    """
    found = local_name(str(element.tag))
    if name and found != name:
        raise error_at(f"found the root element {shown(found)}, expected {shown(name)}", element)
    if namespace and str(element.tag) != f"{{{namespace}}}{found}":
        raise error_at(f"the root element {shown(found)} {_other_namespace(element, namespace)}", element)


def _other_namespace(element: etree._Element, expected: str) -> str:
    found = etree.QName(element).namespace
    where = f"in the namespace {shown(found)}" if found else "in no namespace"
    return f"is {where}, expected {shown(expected)}"


def _alone(element: etree._Element, text: str, used: list[str]) -> str:
    """Returns an element as text, with the namespaces that it needs.

    Args:
        text: with those of the elements around it, too.
        used: prefixes that the text may have in values.
    """
    try:
        return etree.tostring(element, method="c14n", exclusive=True, inclusive_ns_prefixes=used).decode()
    except etree.C14NError:  # the name of a namespace need not be absolute, but canonical XML refuses others
        copied = parse_xml(text, keeps_specials=True)
        etree.cleanup_namespaces(copied, keep_ns_prefixes=used)
        return etree.tostring(copied, encoding="unicode")


def _refuse_second(nils: list[tuple[str, etree._Element]], values: dict[str, Any], path: str) -> None:
    """Refuses another element of the name of one that has no value."""
    names: set[str] = set()
    for name, element in nils:
        if name in values or name in names:
            reason = "xsi:nil is true, but there is another element of this name"
            raise error_at(reason, element, f"{path}{name}")
        names.add(name)


def _is_nil(element: etree._Element, path: str) -> bool:
    given = element.get(_NIL)
    is_nil = False if given is None else _NIL_VALUES.get(given.strip(_SPACE))
    if is_nil is None:
        raise error_at(f"xsi:nil is {shown(given or '')}, expected true or false", element, path)
    return is_nil


def _instruction(one: Any) -> str:
    return f"{one.target} {one.text}" if one.text else str(one.target)


def _type_name(text: str, item: XmlItem, element: etree._Element, path: str) -> str:
    """Returns the name of a type without its prefix, which means something in this document only."""
    prefix, _, name = text.strip(_SPACE).rpartition(":")
    if prefix and prefix not in element.nsmap:
        raise error_at(f"the prefix of {shown(text)} is not declared", element, f"{path}{item.field.name}")
    uri = element.nsmap.get(prefix or None, "")
    return name if uri == item.types or not name else f"{{{uri}}}{name}"


def check_depth(element: etree._Element, depth: int) -> None:
    """Refuses elements that are nested too deeply within an element that is passed over otherwise."""
    level = [element]
    while level:
        depth += 1
        if depth > MAX_DEPTH + 1:
            raise error_at(TOO_DEEP, level[0])
        level = [item for parent in level for item in parent]


def refuse_text(text: str, element: etree._Element, path: str) -> None:
    """Refuses text between elements, but for white space. ``path`` ends with a dot, or is empty."""
    if text.strip(_SPACE):
        raise error_at(f"found the text {shown(text.strip())} between elements", element, path[:-1])


def refuse_text_within(element: etree._Element) -> None:
    """Refuses text beside the elements within an element."""
    for text in (element.text, *(inner.tail for inner in element)):
        refuse_text(text or "", element, "")


def error_at(reason: str, element: etree._Element, path: str = "") -> MalformedData:
    """Returns the error for an element, with its path and line."""
    place = f"{path}: " if path else ""
    line: Any = element.sourceline
    later = " or later" if line == _LAST_LINE else ""
    return MalformedData(f"{place}{reason}: line {line}{later}")
