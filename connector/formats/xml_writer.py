"""Writes business objects as XML elements."""

from __future__ import annotations

import re
from typing import Any, Final
from xml.sax.saxutils import quoteattr

from lxml import etree

from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import SimpleValue, text_of
from connector.errors import MalformedData
from connector.formats.plan import MAX_DEPTH, TOO_DEEP
from connector.formats.xml_plan import (
    BLANK,
    CDATA,
    COMMENT,
    ELEMENT,
    ELEMENTS,
    IN_TAG,
    MARKUP,
    PI,
    SPECIALS,
    TEXT,
    UNSET,
    XSI,
    XSI_TYPE,
    XmlItem,
    XmlPlan,
    XmlPlans,
)
from connector.formats.xml_reader import VERB
from connector.formats.xml_schema_documents import XML_NAMESPACE
from connector.text.names import shown
from connector.text.xml_parser import has_no_namespace, local_name, parse_xml

_SPECIAL: Final = re.compile("[&<>\r]")
_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_IN_ATTRIBUTES: Final = {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}
_IMPOSSIBLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_SPACE: Final = re.compile("[ \t\r\n]")
_DECLARED: Final = re.compile(r"""encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")


class XmlWriter:
    """Writes business objects by their plans.

    Args:
        keeps_null: write an attribute that is null as an element with ``xsi:nil``. False = do not write it.
    """

    def __init__(self, plans: XmlPlans, *, keeps_null: bool = False) -> None:
        self._plans = plans
        self._keeps_null = keeps_null
        self._prepared: dict[str, _Names] = {}

    def document(self, bo: BusinessObject, charset: str) -> bytes:
        """Returns a whole document.

        Args:
            bo: the root element, or the whole document (:attr:`XmlPlan.document_child`).
            charset: the character set. Empty = UTF-8.

        Raises:
            MalformedData: XML cannot hold the object.
        """
        plan, name = self._plans.get(bo.type), self._plans.element_of(bo.type)
        inner = plan.document_child
        if inner is None:
            text = f"<?xml version='1.0' encoding='{charset or 'UTF-8'}'?>\n{self.element(bo, name)}"
            return self.encode(bo, text, charset)
        child = bo[inner.field.name]
        if child is None:
            raise MalformedData(f"{bo.type}: {inner.field.name} is not set, so there is no root element")
        prolog = [_special(item, bo[item.field.name]) for item in plan.items if item is not inner]
        before, child.verb = child.verb, bo.verb
        try:
            root = self.element(child, inner.name)
        finally:
            child.verb = before
        texts = [text for text in prolog if text]
        declared = _DECLARED.search(texts[0]) if texts and texts[0].startswith("<?xml ") else None
        if not (texts and texts[0].startswith("<?xml ")):
            texts.insert(0, f"<?xml version='1.0' encoding='{charset or 'UTF-8'}'?>")
        return self.encode(bo, "\n".join([*texts, root]), declared.group(1) if declared else charset)

    def element(self, bo: BusinessObject, name: str = "") -> str:
        """Returns an element with its namespaces and its verb.

        Args:
            name: of the element. Empty = as the plans say.

        Raises:
            MalformedData: XML cannot hold the object.
        """
        plan = self._plans.get(bo.type)
        names = self._prepared.get(bo.type)
        if names is None:
            names = self._prepared[bo.type] = _Names(self._plans.reachable(plan), has_nil=self._keeps_null)
        out: list[str] = []
        verb = ""
        if bo.verb and plan.has_verb and VERB not in plan.attributes:
            verb = f" {VERB}={quoteattr(bo.verb)}"
        tag = names.tag(plan.namespace, name or self._plans.element_of(bo.type))
        try:
            self._write(bo, plan, names, tag, verb, out, 1)
        except RecursionError:
            raise MalformedData(f"{bo.type} is nested too deeply for XML") from None
        out[0] = f"<{tag}{names.declarations(out)}{out[0][len(tag) + 1 :]}"
        return "".join(out)

    def encode(self, bo: BusinessObject, text: str, charset: str) -> bytes:
        """Returns the bytes of a document. Characters that the character set lacks become references.

        Raises:
            MalformedData: XML cannot hold a character.
        """
        if _IMPOSSIBLE.search(text):
            raise MalformedData(f"{self._culprit(bo)}, which XML cannot hold")
        # A reference is text where it stands in a literal.
        has_literals = "<![CDATA[" in text or "<!--" in text or text.count("<?") > 1
        try:
            return text.encode(charset or "utf-8")
        except LookupError as error:
            raise MalformedData(f"{bo.type} cannot be written in {charset}: {error}") from None
        except UnicodeError as error:
            reason = f"{bo.type} cannot be written in {charset}: {error}"
            if has_literals:
                raise MalformedData(reason) from None
        body = text.encode(charset, "xmlcharrefreplace")
        try:
            parse_xml(body, may_have_doctype=True)  # a reference cannot stand in a name
        except MalformedData:
            raise MalformedData(reason) from None
        return body

    def _culprit(self, bo: BusinessObject, path: str = "") -> str:
        """Names the attribute with a character that is not possible in XML."""
        for name in bo:
            value = bo.value(name)
            for number, child in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(child, BusinessObject):
                    place = f"{path}{name}[{number}]." if isinstance(value, list) else f"{path}{name}."
                    found = self._culprit(child, place)
                    if found:
                        return found if path else f"{bo.type}: {found}"
                elif isinstance(child, str) and (wrong := _IMPOSSIBLE.search(child)):
                    place = f"{path}{name}[{number}]" if isinstance(value, list) else f"{path}{name}"
                    found = f"{place} has the character {wrong.group()!a}"
                    return found if path else f"{bo.type}: {found}"
        return "" if path else f"{bo.type} has a character"

    def _write(
        self,
        bo: BusinessObject,
        plan: XmlPlan,
        names: _Names,
        tag: str,
        more: str,
        out: list[str],
        depth: int,
    ) -> None:
        if depth > MAX_DEPTH:
            raise MalformedData(f"{bo.type} is {TOO_DEEP}")
        out.append(f"<{tag}{more}")
        if plan.attributes:
            _write_attributes(bo, plan, names, out)
        out.append(">")
        start, tags = len(out), names.tags
        for item, value in zip(plan.items, bo.values_of(plan.names), strict=True):
            if value is None:
                if self._keeps_null:  # then xsi:nil is null, and what is not set is not written
                    if bo.is_null(item.field.name):
                        _check_null(item, bo)
                        out.append(names.nil(item))
                elif item.nil == UNSET and not item.field.many:
                    out.append(names.nil(item))
                continue
            if item.is_plain:
                if item.to_text is not None:
                    value = item.to_text(value)
                elif _SPECIAL.search(value) is not None:
                    value = value.translate(_ESCAPES)
                inner = tags[item]
                out.append(f"<{inner}>{value}</{inner}>")
            elif (field := item.field).child is not None:
                inner = tags[item]
                child_plan = self._plans.of(field.child)
                for child in value if field.many else (value,):
                    self._write(child, child_plan, names, inner, "", out, depth + 1)
            elif item.kind not in IN_TAG:
                _write_value(item, value, bo, names, out)
        if len(out) == start:
            out[-1] = "/>"
        else:
            out.append(f"</{tag}>")


def _check_null(item: XmlItem, bo: BusinessObject) -> None:
    """Refuses null where only an element of its own could say so."""
    if item.kind not in (ELEMENT, CDATA):
        kind = "an XML attribute" if item.kind in IN_TAG else "no element with a value"
        raise MalformedData(f"{bo.type}: {item.field.name} is null, but it is {kind}, which cannot be null")
    if item.nil == BLANK and item.field.child is None:
        raise MalformedData(f"{bo.type}: {item.field.name} is null, but nil=blank says that xsi:nil is blank")


def _write_attributes(bo: BusinessObject, plan: XmlPlan, names: _Names, out: list[str]) -> None:
    for item in plan.attributes.values():
        value = bo.value(item.field.name)
        if value is not None:
            name = names.attribute(item)
            text = _list_text(item, value, bo) if item.is_list_text else text_of(value)
            if item.kind == XSI_TYPE:
                text, declaration = names.type_name(item, text)
                out.append(declaration)
            out.append(f" {name}={quoteattr(text, _IN_ATTRIBUTES)}")


def _write_value(item: XmlItem, value: Any, bo: BusinessObject, names: _Names, out: list[str]) -> None:
    """Writes an attribute that is no object, and more than a plain element."""
    if item.kind in SPECIALS:
        out.append(_special(item, value))
    elif item.kind == TEXT:
        if item.is_list_text:
            value = _list_text(item, value, bo)
        if value == "" and any(name != item.field.name for name in bo):
            raise MalformedData(
                f"{bo.type}: {item.field.name} is blank, and XML cannot tell a blank text beside XML "
                "attributes or elements from one that is not set"
            )
        out.append(_content(item, value, bo))
    else:
        tag = names.tags[item]
        for one in value if item.field.many else (value,):
            if item.kind == MARKUP:
                out.append(_markup(item, one, bo, names.default))
            elif one == "" and item.nil == BLANK:
                out.append(names.nil(item))
            else:
                out.append(f"<{tag}>{_content(item, one, bo)}</{tag}>")


class _Names:
    """The names of elements below one root: which namespaces have which prefixes.

    The namespace of the root element is the default one, unless it has a prefix or an element has none.
    """

    def __init__(self, plans: list[XmlPlan], *, has_nil: bool) -> None:
        parts = [item for plan in plans for item in plan.items]
        elements = [item for item in parts if item.kind in ELEMENTS]
        in_elements = dict.fromkeys([plans[0].namespace, *(item.namespace for item in elements)])
        in_attributes = dict.fromkeys(item.namespace for item in parts if item.kind in IN_TAG)
        wanted = dict.fromkeys([*in_elements, *in_attributes, *(item.types for item in parts)])
        if has_nil or any(item.nil for item in parts):
            wanted[XSI] = None
        given = plans[0].prefixes
        root = plans[0].namespace
        only = root if "" not in in_elements and root not in given else ""
        self.default = only
        """The namespace of elements without a prefix. Empty = none."""
        self._prefixes = {XML_NAMESPACE: "xml"}
        """Those that an attribute needs, for the default namespace, too."""
        self._declarations: dict[str, str] = {}
        for uri in wanted:
            if not uri or uri == XML_NAMESPACE or (uri == only and uri not in in_attributes):
                continue
            prefix = "xsi" if uri == XSI else given.get(uri, "")
            number = len(self._declarations)
            while not prefix or prefix in self._declarations or prefix in ("xml", "xmlns"):
                prefix, number = f"ns{number}", number + 1
            self._prefixes[uri] = prefix
            self._declarations[prefix] = f" xmlns:{prefix}={quoteattr(uri)}"
        self.tags = {item: self.tag(item.namespace, item.name) for item in elements}
        """The names of the elements."""

    def declarations(self, out: list[str]) -> str:
        """Returns the declarations of the namespaces that a document uses."""
        default = f" xmlns={quoteattr(self.default)}" if self.default else ""
        if not self._declarations:
            return default
        text = "".join(out)
        used = [
            declaration
            for prefix, declaration in self._declarations.items()
            if f"<{prefix}:" in text or f" {prefix}:" in text or f'"{prefix}:' in text
        ]
        return default + "".join(used)

    def tag(self, namespace: str, name: str) -> str:
        if not namespace or namespace == self.default:
            return name
        return f"{self._prefixes[namespace]}:{name}"

    def attribute(self, item: XmlItem) -> str:
        return f"{self._prefixes[item.namespace]}:{item.name}" if item.namespace else item.name

    def nil(self, item: XmlItem) -> str:
        """Returns an element that says of itself that it has no value."""
        return f'<{self.tags[item]} {self._prefixes[XSI]}:nil="true"/>'

    def type_name(self, item: XmlItem, text: str) -> tuple[str, str]:
        """Returns the value of ``xsi:type``, and the declaration of its prefix, if any."""
        uri, brace, name = text.rpartition("}")
        uri = uri[1:] if brace else item.types
        if uri == self.default:
            return name, ""
        if not uri:  # no document has a prefix for no namespace
            return name, ' xmlns=""' if self.default else ""
        prefix = self._prefixes.get(uri)
        return (f"{prefix}:{name}", "") if prefix else (f"type:{name}", f" xmlns:type={quoteattr(uri)}")


def escape(text: str) -> str:
    """Returns a text as it stands in an element."""
    return text.translate(_ESCAPES) if _SPECIAL.search(text) else text


def _markup(item: XmlItem, value: SimpleValue, bo: BusinessObject, default: str) -> str:
    """Returns the text of an element with all that is in it, as it stands below a default namespace."""
    if value == "":
        return ""
    text = text_of(value)
    place = f"{bo.type}: {item.field.name}"
    try:
        root = parse_xml(text)
    except MalformedData as error:
        raise MalformedData(f"{place} has type=xml, and is no XML: {error}") from None
    if root.tag != item.tag and not (item.any_namespace and local_name(str(root.tag)) == item.name):
        raise MalformedData(f"{place}: found the element {shown(str(root.tag))}, expected {item.tag}")
    whole: str = etree.tostring(root, encoding="unicode")
    if default and None not in root.nsmap and has_no_namespace(root):
        end = len(f"<{root.prefix}:{local_name(item.tag)}")
        whole = f'{whole[:end]} xmlns=""{whole[end:]}'  # what has no namespace keeps having none
    return whole


def _list_text(item: XmlItem, values: list[SimpleValue], bo: BusinessObject) -> str:
    """Returns the values of a list in one text."""
    texts = [text_of(value) for value in values]
    for index, text in enumerate(texts):
        if not text or _SPACE.search(text):
            found = "has white space" if text else "is blank"
            place = f"{bo.type}: {item.field.name}[{index}]"
            raise MalformedData(f"{place} {found}, and white space separates the values of this list")
    return " ".join(texts)


def _content(item: XmlItem, value: SimpleValue, bo: BusinessObject) -> str:
    """Returns the text of an element."""
    if type(value) is not str:
        return text_of(value)
    if item.kind == CDATA and "\r" not in value:
        return f"<![CDATA[{value.replace(']]>', ']]]]><![CDATA[>')}]]>" if value else ""
    if not item.escapes:
        if "\r" in value:
            raise MalformedData(
                f"{bo.type}: {item.field.name} has escape=false, and XML reads a carriage return as a line "
                "feed; write &#13;"
            )
        if _SPECIAL.search(value):
            try:
                parse_xml(f"<x>{value}</x>")
            except MalformedData as error:
                raise MalformedData(
                    f"{bo.type}: {item.field.name} has escape=false, and is no XML: {error}"
                ) from None
        return value
    return escape(value)


def _special(item: XmlItem, value: SimpleValue | None) -> str:
    """Returns a comment, processing instruction or document type."""
    if value is None:
        return ""
    text = text_of(value)
    name = item.field.name
    if "\r" in text:
        raise MalformedData(f"{name}: XML reads a carriage return in a {item.kind} as a line feed")
    if item.kind == COMMENT:
        if "--" in text or text.endswith("-"):
            raise MalformedData(f"{name}: a comment cannot contain -- or end with -")
        return f"<!--{text}-->"
    if item.kind == PI:
        if "?>" in text or not re.match(r"[^\W\d][\w.-]*( (?![ \t\n])|\Z)", text):
            raise MalformedData(
                f"{name}: expected a processing instruction: a name, then a space, then text without ?>"
            )
        return f"<?{text}?>"
    if "[" in text or ">" in text or not text.startswith("DOCTYPE "):
        raise MalformedData(
            f"{name}: expected DOCTYPE NAME, perhaps with SYSTEM or PUBLIC, and no internal subset"
        )
    return f"<!{text}>"
