"""Reads an XML Schema and the files that the schema includes or imports. Nothing else is read or fetched."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from lxml import etree

from connector.errors import MalformedData
from connector.regular_file import read_regular
from connector.text.xml_parser import local_name

NAMESPACE: Final = "http://www.w3.org/2001/XMLSchema"
XML_NAMESPACE: Final = "http://www.w3.org/XML/1998/namespace"
MAX_FILES: Final = 1000
MAX_BYTES: Final = 16 << 20
"""Of one file."""

_XS: Final = f"{{{NAMESPACE}}}"
_REFERENCES: Final = ("include", "import", "redefine", "override")
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")
_POSITION: Final = re.compile(r", line \d+, column \d+.*", re.DOTALL)

XML_ATTRIBUTES: Final = b"""\
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"
    targetNamespace="http://www.w3.org/XML/1998/namespace">
  <xs:attribute name="lang">
    <xs:simpleType><xs:union memberTypes="xs:language"><xs:simpleType><xs:restriction base="xs:string">
      <xs:enumeration value=""/></xs:restriction></xs:simpleType></xs:union></xs:simpleType>
  </xs:attribute>
  <xs:attribute name="space">
    <xs:simpleType><xs:restriction base="xs:NCName">
      <xs:enumeration value="default"/><xs:enumeration value="preserve"/>
    </xs:restriction></xs:simpleType>
  </xs:attribute>
  <xs:attribute name="base" type="xs:anyURI"/>
  <xs:attribute name="id" type="xs:ID"/>
  <xs:attributeGroup name="specialAttrs">
    <xs:attribute ref="xml:base"/><xs:attribute ref="xml:lang"/>
    <xs:attribute ref="xml:space"/><xs:attribute ref="xml:id"/>
  </xs:attributeGroup>
</xs:schema>
"""
"""The attributes of the namespace of XML, which every schema may import by name or by address."""


@dataclass(slots=True)
class SchemaDocument:
    """A file of a schema.

    Attributes:
        url: names the document within its :class:`SchemaDocuments`. No part of the file's path is in it.
        root: the element ``xs:schema``.
        references: the documents that an ``include``, ``import``, ``redefine`` or ``override`` means.
    """

    file: Path
    url: str
    root: etree._Element
    references: list[tuple[etree._Element, SchemaDocument]] = field(default_factory=list)


class SchemaDocuments:
    """A schema with all files that it includes or imports.

    These files lie in ``directory`` or below, or in the directory of the schema or below. For an address
    (``http://...``) the last part of its name counts: a file of that name beside the file that refers to it.
    A document type declaration is read, but nothing that it names. Its own entities are replaced.

    Args:
        content: of the schema. None = the file is read.

    Attributes:
        documents: by their URL. The schema is the first.
        not_found: ``FILE:LINE: 'ADDRESS'`` for addresses without a local file.

    Raises:
        MalformedData: a file cannot be read, is no XML, or lies elsewhere. The text names the file.
    """

    def __init__(self, path: Path, directory: Path, content: bytes | None = None) -> None:
        self._allowed = (directory.resolve(), path.resolve().parent)
        self.documents: dict[str, SchemaDocument] = {}
        self.not_found: list[str] = []
        self._by_file: dict[Path, SchemaDocument] = {}
        self._waiting: list[SchemaDocument] = []
        self.main = self._add(path, "", content)
        while self._waiting:
            self._follow(self._waiting.pop(0))
        self._join_imports()

    def serialise(self, url: str) -> bytes | None:
        """Returns a document without its document type. References have URLs. None = no such document."""
        document = self.documents.get(url)
        return None if document is None else etree.tostring(document.root)

    def _add(self, file: Path, place: str, content: bytes | None = None) -> SchemaDocument:
        known = self._by_file.get(file.resolve())
        if known is not None:
            return known
        if len(self.documents) == MAX_FILES:
            raise MalformedData(f"{place}more than {MAX_FILES} schema files")
        subject = f"{place}{file.name}" if content is None else "the body"
        root = parse_schema(_read(file, place) if content is None else content, subject)
        made = SchemaDocument(file, f"urn:schema:{len(self.documents)}:{_plain(file.name)}", root)
        self._by_file[file.resolve()] = self.documents[made.url] = made
        self._waiting.append(made)
        return made

    def _follow(self, document: SchemaDocument) -> None:
        for element in document.root:
            if local_name(str(element.tag)) not in _REFERENCES or not str(element.tag).startswith(_XS):
                continue
            location = element.get("schemaLocation")
            place = f"{document.file.name}:{element.sourceline}: "
            found: SchemaDocument | None = None
            if location is not None:
                found = self._document(document.file, location.strip(), place)
            if found is None and element.get("namespace") == XML_NAMESPACE:
                found = self._add(Path("xml.xsd"), place, XML_ATTRIBUTES)
            elif found is None and location is not None:
                self.not_found.append(f"{place}{location.strip()!r}")
            if found is not None:
                document.references.append((element, found))
                element.set("schemaLocation", found.url)
            elif location is not None:
                del element.attrib["schemaLocation"]

    def _join_imports(self) -> None:
        """Lets each import of a namespace bring all files of the namespace: libxml2 takes only the first."""
        imports = [
            element
            for document in self.documents.values()
            for element in document.root.iterchildren(f"{_XS}import")
        ]
        files: dict[str, list[str]] = {}
        for element in imports:
            urls = files.setdefault(element.get("namespace", ""), [])
            url = element.get("schemaLocation", "")
            urls += [url] if url and url not in urls else []
        for number, (namespace, urls) in enumerate(files.items()):
            url = next(iter(urls), "")
            if len(urls) > 1:
                joint = etree.Element(f"{_XS}schema", {"targetNamespace": namespace} if namespace else {})
                for one in urls:
                    etree.SubElement(joint, f"{_XS}include", {"schemaLocation": one})
                url = f"urn:schema:imports:{number}"
                self.documents[url] = SchemaDocument(Path("imports"), url, joint)
            for element in imports:
                if url and element.get("namespace", "") == namespace:
                    element.set("schemaLocation", url)

    def _document(self, file: Path, location: str, place: str) -> SchemaDocument | None:
        """Returns the document of a location. None = the location is an address without a local file."""
        if _ADDRESS.match(location):
            name = unquote(urlsplit(location).path).rpartition("/")[2]
            beside = file.parent / name
            return self._add(beside, place) if name and beside.is_file() else None
        try:
            target = file.parent / unquote(location.partition("#")[0])
            inside = any(target.resolve().is_relative_to(directory) for directory in self._allowed)
        except (OSError, ValueError, RuntimeError) as error:
            raise MalformedData(f"{place}cannot read {location!r}: {error}") from None
        if not inside:
            directories = " or ".join(dict.fromkeys(map(str, self._allowed)))
            raise MalformedData(
                f"{place}{location!r} is not in the directory of the schemas, expected a file in "
                f"{directories}; schema_directory names another directory"
            )
        return self._add(target, place)


def parse_schema(content: bytes, subject: str = "the body") -> etree._Element:
    """Returns the root element of a schema. What its document type declaration names is not read.

    Raises:
        MalformedData: the content is no XML, or uses an entity of another file.
    """
    internal: Any = "internal"  # the stubs know only True and False
    parser = etree.XMLParser(
        resolve_entities=internal,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    parser.resolvers.add(OnlyThese(lambda url: None))
    try:
        return etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        line, column = error.position
        reason = _POSITION.sub("", error.msg or "unreadable")[:300]
        raise MalformedData(f"{subject} is no XML: {reason}: line {line} column {column}") from None
    except (ValueError, LookupError) as error:
        raise MalformedData(f"{subject} is no XML: {error}") from None


class OnlyThese(etree.Resolver):
    """Gives libxml2 the documents that it asks for, and nothing else.

    Args:
        find: returns the content of a document by its URL. None = there is no such document.
    """

    def __init__(self, find: Callable[[str], bytes | None]) -> None:
        super().__init__()
        self._find = find

    def resolve(self, system_url: str, public_id: str, context: Any = None) -> Any:
        resolver: Any = self  # the stubs lack two of the methods
        content = self._find(system_url)
        if content is None:
            return resolver.resolve_empty(context)
        return resolver.resolve_string(content, context, base_url=system_url)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)


def _read(path: Path, place: str) -> bytes:
    try:
        content = read_regular(path, MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MalformedData(f"{place}{path.name} cannot be read: {reason}") from None
    if len(content) > MAX_BYTES:
        raise MalformedData(f"{place}{path.name} is larger than {MAX_BYTES >> 20} MiB")
    return content
