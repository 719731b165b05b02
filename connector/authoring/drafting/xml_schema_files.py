"""The declarations in the files of an XML Schema (W3C XML Schema 1.0), by their namespaces and names.

The package xmlschema reads schemas, too. It is not used, because its time and memory grow with the square of
a choice: 4,000 elements take 10 s and 865 MB there, and 0.03 s here. A draft also needs the parts of a schema
that has mistakes.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Final, NamedTuple

from lxml import etree

from connector.errors import MalformedData
from connector.formats.xml_schema_documents import (
    NAMESPACE,
    XML_ATTRIBUTES,
    XML_NAMESPACE,
    SchemaDocument,
    SchemaDocuments,
    parse_schema,
)
from connector.text.xml_parser import local_name

ELEMENT: Final = "element"
ATTRIBUTE: Final = "attribute"
COMPLEX: Final = "complexType"
SIMPLE: Final = "simpleType"
GROUP: Final = "group"
ATTRIBUTE_GROUP: Final = "attributeGroup"
_GLOBAL: Final = (ELEMENT, ATTRIBUTE, COMPLEX, SIMPLE, GROUP, ATTRIBUTE_GROUP)
_REDEFINING: Final = ("redefine", "override")
_XS: Final = f"{{{NAMESPACE}}}"


class QualifiedName(NamedTuple):
    """A name with its namespace. Empty = none."""

    namespace: str
    local: str


class XmlSchemaFiles:
    """The global declarations of a schema and of the files that the schema includes or imports.

    Args:
        directory: included files lie here or below, or beside the schema or below.

    Attributes:
        not_read: the places of addresses without a local file.
        prefixes: the prefixes that the files give to namespaces, by namespace. Those of the schema itself
            count first.

    Raises:
        MalformedData: a file is no schema, cannot be read, or lies elsewhere.
    """

    def __init__(self, body: bytes, path: Path, directory: Path) -> None:
        documents = SchemaDocuments(path, directory, body)
        self.not_read = documents.not_found
        self.prefixes: dict[str, str] = {}
        self._declared: dict[tuple[str, QualifiedName], etree._Element] = {}
        self._redefined: dict[etree._Element, etree._Element] = {}
        self._targets: dict[etree._Element, str] = {}
        self._main = documents.main.root
        self._take_all(documents.main)
        self._take(parse_schema(XML_ATTRIBUTES), XML_NAMESPACE)  # every schema may refer to these
        self._members: dict[QualifiedName, list[etree._Element]] = {}
        self._derived: dict[QualifiedName, list[etree._Element]] = {}
        for node in self.declared(ELEMENT):
            for head in node.get("substitutionGroup", "").split():  # several in XML Schema 1.1
                self._members.setdefault(self.name_of(node, head), []).append(node)
        for node in self.declared(COMPLEX):
            step = derivation(node)
            if step is not None:
                self._derived.setdefault(self.name_of(step, step.get("base", "")), []).append(node)

    def _take_all(self, main: SchemaDocument) -> None:
        waiting = [(main, main.root.get("targetNamespace", ""))]
        seen: set[tuple[str, str]] = set()
        roots: set[etree._Element] = set()
        for document, target in waiting:  # grows
            if (document.url, target) in seen:
                continue
            seen.add((document.url, target))
            root = copy.deepcopy(document.root) if document.root in roots else document.root
            roots.add(document.root)
            self._take(root, target)
            for element, referred in document.references:
                own = referred.root.get("targetNamespace", "")
                is_included = local_name(str(element.tag)) != "import"
                waiting.append((referred, own or target if is_included else own))

    def _take(self, root: etree._Element, target: str) -> None:
        if root.tag != f"{_XS}schema":
            found = local_name(str(root.tag))
            raise MalformedData(f"the root element is {found}, expected xs:schema: {line_of(root)}")
        self._targets[root] = target
        for prefix, uri in root.nsmap.items():
            if prefix and uri not in self.prefixes and prefix not in self.prefixes.values():
                self.prefixes[uri] = prefix
        for part in root:
            parts = part if kind_of(part) in _REDEFINING else (part,)
            for declared in parts:
                if kind_of(declared) in _GLOBAL:
                    name = QualifiedName(target, declared.get("name", "").strip())
                    known = self._declared.setdefault((kind_of(declared), name), declared)
                    if known is not declared and kind_of(known.getparent()) in _REDEFINING:
                        self._redefined[known] = declared

    def declared(self, kind: str) -> list[etree._Element]:
        """Returns all global declarations of a kind."""
        return [node for (declared, _), node in self._declared.items() if declared == kind]

    def is_main(self, node: etree._Element) -> bool:
        """Tells whether a declaration stands in the schema itself, not in a file that it includes."""
        return root_of(node) is self._main

    def by_local_name(self, kind: str, name: str) -> etree._Element | None:
        """Returns the global declaration of a local name. The target namespace of the schema counts first."""
        found = [node for node in self.declared(kind) if node.get("name", "").strip() == name]
        target = self._targets[self._main]
        return next((node for node in found if self.target(node) == target), next(iter(found), None))

    def find(self, kind: str, node: etree._Element, name: str) -> etree._Element | None:
        """Returns the global declaration of a qualified name at ``node``. None = there is none."""
        found = self._declared.get((kind, self.name_of(node, name)))
        if found is not None and found in self._redefined and found in (node, *node.iterancestors()):
            return self._redefined[found]  # a type that is redefined is based on the type of its name
        return found

    def name_of(self, node: etree._Element, name: str) -> QualifiedName:
        """Returns the meaning of a qualified name that stands at ``node``."""
        prefix, _, local = name.strip().rpartition(":")
        if prefix == "xml":
            return QualifiedName(XML_NAMESPACE, local)
        namespace = node.nsmap.get(prefix or None, "" if not prefix else "?")
        if not namespace and "targetNamespace" not in root_of(node).attrib:
            namespace = self.target(node)  # included by a schema with a target namespace
        return QualifiedName(namespace, local)

    def target(self, node: etree._Element) -> str:
        """Returns the target namespace of a declaration."""
        return self._targets[root_of(node)]

    def is_global(self, node: etree._Element) -> bool:
        return kind_of(node.getparent()) in ("schema", *_REDEFINING)

    def namespace_of(self, node: etree._Element) -> str:
        """Returns the namespace of an element or XML attribute. Empty = none."""
        if self.is_global(node):
            return self.target(node)
        form = node.get("form") or root_of(node).get(f"{kind_of(node)}FormDefault", "")
        return self.target(node) if (form or "").strip() == "qualified" else ""

    def type_of(self, node: etree._Element) -> etree._Element | None:
        """Returns the declaration of the type of an element, XML attribute or base. None = built in."""
        seen: set[etree._Element] = set()
        while True:
            inner = next((inner for inner in node if kind_of(inner) in (COMPLEX, SIMPLE)), None)
            if inner is not None:
                return inner
            name = node.get("type") or node.get("base")
            if name:
                found = self.find(COMPLEX, node, name)
                return found if found is not None else self.find(SIMPLE, node, name)
            head = node.get("substitutionGroup", "").split()[:1]
            declared = self.find(ELEMENT, node, head[0]) if head else None
            if declared is None or node in seen:
                return None
            seen.add(node)
            node = declared

    def type_name(self, node: etree._Element) -> QualifiedName | None:
        """Returns the name of the type of an element, XML attribute or base. None = of any type."""
        name = node.get("type") or node.get("base")
        return self.name_of(node, name) if name else None

    def substitutes(self, node: etree._Element) -> list[etree._Element]:
        """Returns the elements that may stand in the place of an element: itself first, no abstract ones."""
        found, waiting = [], [node]
        for one in waiting:  # grows
            if not is_true(one.get("abstract")):
                found.append(one)
            if self.is_global(one):
                members = self._members.get(QualifiedName(self.target(one), one.get("name", "").strip()), ())
                waiting += [member for member in members if member not in waiting]
        return found

    def derived(self, complex_type: etree._Element) -> list[etree._Element]:
        """Returns the global types that extend or restrict a global type, and those that extend these."""
        found: list[etree._Element] = []
        waiting = [complex_type] if self.is_global(complex_type) else []
        for one in waiting:  # grows
            for node in self._derived.get(QualifiedName(self.target(one), one.get("name", "").strip()), ()):
                if node not in waiting:
                    waiting.append(node)
                    found.append(node)
        return found


def kind_of(node: etree._Element | None) -> str:
    """Returns the name of an element of XML Schema. Empty = another element."""
    tag = "" if node is None else node.tag
    return tag[len(_XS) :] if isinstance(tag, str) and tag.startswith(_XS) else ""


def derivation(complex_type: etree._Element) -> etree._Element | None:
    """Returns the ``extension`` or ``restriction`` of a complex type. None = it has none."""
    for content in complex_type:
        if kind_of(content) in ("complexContent", "simpleContent"):
            return next((step for step in content if kind_of(step) in ("extension", "restriction")), None)
    return None


def root_of(node: etree._Element) -> etree._Element:
    return node.getroottree().getroot()


def is_true(text: str | None) -> bool:
    """Tells whether a boolean of XML Schema is true."""
    return (text or "").strip() in ("true", "1")


def line_of(node: etree._Element) -> str:
    return f"line {node.sourceline}"
