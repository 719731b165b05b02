"""Validates XML against an XML Schema or a DTD. Only files of the deployment are read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from lxml import etree

from connector.errors import MalformedData
from connector.formats.xml_schema_documents import OnlyThese, SchemaDocuments

_MOST: Final = 5
"""Mistakes that an error names."""


class SchemaValidator:
    """Validates against an XML Schema 1.0.

    Args:
        directory: schemas that the file includes or imports lie here or below, or in the directory of the
            file or below.

    Raises:
        ValueError: the schema cannot be used. The text names the file.
    """

    def __init__(self, path: str, directory: str) -> None:
        if not Path(directory).is_dir():
            raise ValueError(f"schema_directory: {directory} is no directory")
        documents = SchemaDocuments(Path(path), Path(directory))
        if documents.not_found:
            raise ValueError(
                f"{documents.not_found[0]} is not in the directory of the schemas: no address is fetched, so "
                "put a file of that name beside the schema"
            )
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
        parser.resolvers.add(OnlyThese(documents.serialise))
        main = documents.main
        try:
            text = documents.serialise(main.url) or b""
            self._schema = etree.XMLSchema(etree.fromstring(text, parser, base_url=main.url))
        except etree.XMLSchemaParseError as error:
            wrong = next((entry.filename for entry in error.error_log or ()), "")
            name = documents.documents.get(wrong, main).file.name
            raise ValueError(f"{name} is no XML Schema: {_words(error)}") from None

    def check(self, root: etree._Element) -> None:
        """Raises MalformedData with the first mistakes, each with its line, if the document is not valid."""
        if not self._schema.validate(root):
            raise _refusal(self._schema.error_log)


class DtdValidator:
    """Validates against the DTD that the document type declaration of a body names.

    Args:
        directory: holds the DTDs. A body names a file in it. The directory part of a name does not count.
    """

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        if not self._directory.is_dir():
            raise ValueError(f"DTDPath: {directory} is no directory")
        self._made: dict[str, etree.DTD] = {}

    def check(self, root: etree._Element) -> None:
        """Raises MalformedData if the body names no DTD of the directory, or is not valid."""
        system: str | None = root.getroottree().docinfo.system_url  # type: ignore[attr-defined]  # stubs
        if not system:
            raise MalformedData(
                'the body names no DTD: expected <!DOCTYPE NAME SYSTEM "FILE">, because Validation is true'
            )
        name = os.path.basename(unquote(urlsplit(system).path))
        dtd = self._made.get(name)
        if dtd is None:
            dtd = self._made[name] = self._load(name, system)
        if not dtd.validate(root):
            raise _refusal(dtd.error_log)

    def _load(self, name: str, system: str) -> etree.DTD:
        file = self._directory / name
        if not name or not file.is_file():
            raise MalformedData(f"the body names the DTD {system[:100]!r}, and DTDPath has no {name[:100]!r}")
        text = file.read_bytes()
        if b"SYSTEM" in text or b"PUBLIC" in text:
            raise MalformedData(f"the DTD {name} refers to other files, which is not supported")
        try:
            with open(file, "rb") as source:
                return etree.DTD(source)
        except etree.DTDParseError as error:
            raise MalformedData(f"the DTD {name} cannot be read: {_words(error)}") from None


def _refusal(log: Any) -> MalformedData:
    mistakes = [f"line {entry.line} column {entry.column}: {_words(entry.message)}" for entry in log]
    more = f"; and {len(mistakes) - _MOST} more" if len(mistakes) > _MOST else ""
    return MalformedData(f"the body is not valid: {'; '.join(mistakes[:_MOST])}{more}")


def _words(error: object) -> str:
    return " ".join(str(error).split())[:400]
