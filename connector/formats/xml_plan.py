"""The plan of business objects in XML: which attribute is which element, XML attribute, comment or text.

The application-specific information of an attribute has these tags (WBI Data Handler Guide, XML):

========================  ==================================================================================
``elem_name=NAME``        the name of the element, where the attribute's name cannot be it
``attr_name=NAME``        the name of the XML attribute
``type=attribute``        an XML attribute of the object's element
``type=pcdata``           an element with text, the default. With ``notag``: the text of the object's element
``type=cdata``            an element whose text is written as a CDATA section
``type=comment``          a comment
``type=pi``               a processing instruction
``type=doctype``          a document type declaration
``type=xsischemalocation``  ``xsi:schemaLocation`` of the object's element
``type=xsinonslocation``  ``xsi:noNamespaceSchemaLocation`` of the object's element
``type=xsitype``          ``xsi:type`` of the object's element. A type that is not in ``ns`` is ``{URI}NAME``
``type=xml``              an element as XML text, with all that is in it
``escape=true|false``     whether ``& < > " '`` are escaped on writing
``nil=unset|blank``       whether an attribute that is not set, or a blank, is written as ``xsi:nil``
``ns=URI``                the namespace of the element or XML attribute. Of an object: of all its elements
``ns=*``                  any namespace on reading. On writing: that of the object, and none for an object
``elem_name=NAME``        of an object: the name of its element, where the object is the root element
``verb=false``            of an object: its element has no XML attribute ``verb``
``xmlns:PREFIX=URI``      of an object: the prefix of a namespace, where the object is the root element
========================  ==================================================================================

A list of values (cardinality n) is a repeated element. As an XML attribute, or as the text of the object's
element, the values stand in one text with white space between them, as in a list of XML Schema.
"""

from __future__ import annotations

import re
from typing import Final

from connector.businessobjects.app_specific_info import tags
from connector.businessobjects.definition import Definitions, Field, Schema
from connector.errors import MalformedData
from connector.formats.plan import Item, Plan, Plans, body_fields
from connector.formats.xml_schema_documents import XML_NAMESPACE
from connector.text.names import twins
from connector.text.xml_parser import local_name

XSI: Final = "http://www.w3.org/2001/XMLSchema-instance"

ELEMENT: Final = "pcdata"
ATTRIBUTE: Final = "attribute"
CDATA: Final = "cdata"
COMMENT: Final = "comment"
PI: Final = "pi"
DOCTYPE: Final = "doctype"
SCHEMA_LOCATION: Final = "xsischemalocation"
NO_NAMESPACE_LOCATION: Final = "xsinonslocation"
XSI_TYPE: Final = "xsitype"
MARKUP: Final = "xml"
TEXT: Final = "notag"
"""The text of the object's own element."""

ELEMENTS: Final = (ELEMENT, CDATA, MARKUP)
"""Kinds that are elements."""
IN_TAG: Final = (ATTRIBUTE, SCHEMA_LOCATION, NO_NAMESPACE_LOCATION, XSI_TYPE)
"""Kinds that are XML attributes."""
SPECIALS: Final = (COMMENT, PI, DOCTYPE)
"""Kinds that stand beside elements."""
_KINDS: Final = (*ELEMENTS, *IN_TAG, *SPECIALS)
UNSET: Final = "unset"
BLANK: Final = "blank"
_NILS: Final = (UNSET, BLANK)
_ANY: Final = "*"
"""The tag ``ns`` of what may stand in any namespace."""
SINGLE: Final = (*SPECIALS, SCHEMA_LOCATION, NO_NAMESPACE_LOCATION, XSI_TYPE)
"""The kinds that no list of values can be."""
_XSI_NAMES: Final = {
    SCHEMA_LOCATION: "schemaLocation",
    NO_NAMESPACE_LOCATION: "noNamespaceSchemaLocation",
    XSI_TYPE: "type",
}
_START: Final = (
    r"A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d\u2070-\u218f"
    r"\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_NCNAME: Final = rf"[{_START}][{_START}\-.0-9\u00b7\u0300-\u036f\u203f\u2040]*"
"""A name without a prefix (XML 1.0, fifth edition, 2.3)."""
_NAME: Final = re.compile(_NCNAME)
_PREFIX: Final = re.compile(rf"(?:^|;)\s*xmlns:({_NCNAME})\s*=([^;]*)")


class XmlItem(Item):
    """An attribute of a business object, and its place in XML.

    Args:
        kind: one of the constants of this module.
        name: the local name of the element or XML attribute.
        namespace: the namespace. Empty = none.
        any_namespace: whether each namespace is read.
        escapes: whether special characters are escaped.
        nil: the values that are written as ``xsi:nil``: :data:`UNSET`, :data:`BLANK` or none.
        types: the namespace of the values of ``xsi:type``.
    """

    __slots__ = (
        "any_namespace",
        "escapes",
        "from_text",
        "is_list_text",
        "is_plain",
        "kind",
        "namespace",
        "nil",
        "tag",
        "types",
    )

    def __init__(
        self,
        field: Field,
        kind: str,
        name: str,
        namespace: str,
        escapes: bool,
        nil: str = "",
        types: str = "",
        any_namespace: bool = False,
    ) -> None:
        super().__init__(field, name)
        self.kind = kind
        self.namespace = namespace
        self.any_namespace = any_namespace
        self.tag = f"{{{namespace}}}{name}" if namespace and not any_namespace else name
        """The name as lxml writes it: ``{NAMESPACE}NAME``. Without a namespace, each namespace is read."""
        self.escapes = escapes
        self.nil = nil
        self.types = types
        is_single = field.child is None and not field.many
        self.is_plain = kind == ELEMENT and is_single and escapes and nil != BLANK
        """Whether this is an element with escaped text, as most attributes are."""
        self.is_list_text = field.is_list and kind not in ELEMENTS
        """Whether this is one text with the values of a list, and white space between them."""
        self.from_text = field.from_text if kind in (ELEMENT, CDATA) else None
        """Reads the text of an element. None for a child and for an element that is repeated."""


class XmlPlan(Plan[XmlItem]):
    """A business object in XML.

    Raises:
        MalformedData: the tags contradict each other, or name no XML name.
    """

    def __init__(self, schema: Schema, escapes: bool) -> None:
        info = schema.definition.app_specific_info
        self.namespace = _namespace(info)
        """The namespace of the object's element. Empty = each is read."""
        self.element_name = tags(info).get("elem_name", "")
        """The name of the root element. Empty = as the object."""
        self.has_verb = tags(info).get("verb", "").lower() != "false"
        """Whether the XML attribute ``verb`` of the root element is the verb."""
        self.prefixes = {uri.strip(): prefix for prefix, uri in _PREFIX.findall(info)}
        """The prefixes of namespaces, by namespace."""
        super().__init__(schema, self._items(schema, escapes))
        self.names = [item.field.name for item in self.items]
        self.text = next((item for item in self.items if item.kind == TEXT), None)
        in_tag = [item for item in self.items if item.kind in IN_TAG]
        self.attributes = {item.tag: item for item in in_tag}
        elements = [item for item in self.items if item.kind in ELEMENTS]
        self.by_tag = {item.tag: item for item in elements}
        self.in_namespaces = {item.name: item for item in elements if item.tag != item.name}
        """The elements whose namespace has to match, by their local names."""
        self.specials = {kind: tuple(item for item in self.items if item.kind == kind) for kind in SPECIALS}
        for what, items in (("element", elements), ("XML attribute", in_tag)):
            for _, twice in twins((item.tag for item in items), str):
                raise MalformedData(f"{schema.name}: two attributes are the {what} {twice}")

    def _items(self, schema: Schema, escapes: bool) -> list[XmlItem]:
        fields = body_fields(schema)
        kinds = {field.name: self._kind(field) for field in fields}
        # beside XML attributes only, a plain pcdata is the text of the element: nothing else can be
        elements = [field for field in fields if kinds[field.name] in (*ELEMENTS, TEXT)]
        if len(elements) == 1 and ATTRIBUTE in kinds.values():
            info = tags(elements[0].attribute.app_specific_info)
            is_single = elements[0].child is None and not elements[0].many
            if "type" in info and "elem_name" not in info and is_single:
                kinds[elements[0].name] = TEXT
        found = []
        for field in fields:
            info, kind = tags(field.attribute.app_specific_info), kinds[field.name]
            name = _XSI_NAMES.get(kind) or (
                info.get("attr_name") or info.get("elem_name")
                if kind == ATTRIBUTE
                else info.get("elem_name") or info.get("attr_name")
            )
            prefix, _, name = (name or field.name).rpartition(":")
            if _NAME.fullmatch(name) is None:
                raise MalformedData(
                    f"{schema.name}: {field.name}: {name!r} is no name in XML; give elem_name"
                )
            within = "" if kind == ATTRIBUTE else self.namespace
            given = info.get(
                "ns", "" if kind == ATTRIBUTE else tags(schema.definition.app_specific_info).get("ns", "")
            )
            any_namespace = given == _ANY
            namespace = within if any_namespace else given
            if kind in _XSI_NAMES:
                namespace, any_namespace = XSI, False
            if kind == ATTRIBUTE and prefix == "xml":
                namespace = XML_NAMESPACE
            if field.is_list and kind in SINGLE:
                raise MalformedData(f"{schema.name}: {field.name}: a list of values cannot be a {kind}")
            escape, nil = info.get("escape"), info.get("nil", "").lower()
            found.append(
                XmlItem(
                    field,
                    kind,
                    name,
                    namespace,
                    escapes if escape is None else escape.lower() == "true",
                    nil if nil in _NILS and kind in (ELEMENT, CDATA) else "",
                    _namespace(field.attribute.app_specific_info) if kind == XSI_TYPE else "",
                    any_namespace,
                )
            )
        if sum(item.kind == TEXT for item in found) > 1:
            raise MalformedData(f"{schema.name}: two attributes are the text of the element (notag)")
        return found

    def _kind(self, field: Field) -> str:
        info = field.attribute.app_specific_info
        kind = tags(info).get("type", "").lower()
        if field.child is not None:
            return ELEMENT
        if "notag" in (part.strip().lower() for part in info.split(";")) or tags(info).get("notag") == "true":
            return TEXT
        return kind if kind in _KINDS else ELEMENT  # other types are for other formats

    @property
    def document_child(self) -> XmlItem | None:
        """The child that is the root element, if the object is a whole document: prolog and root.

        Such an object has a processing instruction or a document type, one single child, and no other
        element.
        """
        if not (self.specials[PI] or self.specials[DOCTYPE]) or self.attributes or self.text:
            return None
        (item, *more) = [*self.by_tag.values(), None]
        if more != [None] or item is None or item.field.child is None or item.field.many:
            return None
        return item


class XmlPlans(Plans[XmlPlan]):
    """The plans of the business objects of a deployment in XML.

    Args:
        prefix: BOPrefix. Stands before the name of an element, and ``_``, in the name of the object.
    """

    def __init__(self, definitions: Definitions, prefix: str = "", escapes: bool = True) -> None:
        super().__init__(definitions, lambda schema: XmlPlan(schema, escapes))
        self._prefix = f"{prefix}_" if prefix else ""
        self._special: dict[str, bool] = {}
        self._roots: dict[str, str] = {}
        """The objects by the tags of their elements, as far as these have a name of their own."""
        self._local_roots: dict[str, str] = {}
        for name, definition in self.definitions.items():
            info = tags(definition.app_specific_info)
            if element := info.get("elem_name", ""):
                namespace = info.get("ns", "")
                self._roots.setdefault(f"{{{namespace}}}{element}" if namespace else element, name)
                self._local_roots.setdefault(element, name)

    def has_specials(self, name: str) -> bool:
        """Whether an object or a descendant has a comment, a processing instruction or a document type."""
        found = self._special.get(name)
        if found is None:
            plans = self.reachable(self.get(name)) if name in self.definitions else []
            found = self._special[name] = any(any(plan.specials.values()) for plan in plans)
        return found

    def object_of(self, tag: str) -> str:
        """Returns the name of the object whose element a root element is.

        Without an object of that element and namespace, an object of that element alone is returned, so that
        the reader can name both namespaces.

        Args:
            tag: of the root element, as lxml writes it.
        """
        local = local_name(tag)
        found = self._roots.get(tag) or self._roots.get(f"{{{_ANY}}}{local}")
        name = self._prefix + local
        return found or (name if name in self.definitions else self._local_roots.get(local, name))

    def expected_root(self, plan: XmlPlan, *, is_named: bool) -> str:
        """Returns the local name that the root element of an object has. Empty = the definition gives none.

        Args:
            is_named: whether the name of the object counts, where the object has no ``elem_name``.
        """
        if given := plan.element_name:
            return given.rpartition(":")[2]
        return plan.name[len(self._prefix) :] if is_named and plan.name.startswith(self._prefix) else ""

    def element_of(self, name: str) -> str:
        """Returns the name of the root element of an object: the opposite of :meth:`object_of`.

        Raises:
            MalformedData: the name of the object does not begin with the prefix.
        """
        if given := self.get(name).element_name:
            return given
        if not name.startswith(self._prefix):
            raise MalformedData(f"{name} does not begin with the BOPrefix {self._prefix[:-1]!r}")
        return name[len(self._prefix) :]


def _namespace(info: str) -> str:
    """Returns the namespace that tags give. Empty = none, or any."""
    given = tags(info).get("ns", "")
    return "" if given == _ANY else given
