"""Drafts a business object from a file: a sample body or a schema, in one of several formats."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from lxml import etree

from connector.authoring.drafting.draft import Draft
from connector.authoring.drafting.json_sample import draft_json
from connector.authoring.drafting.json_schema import draft_json_schema
from connector.authoring.drafting.text_sample import DELIMITER, draft_csv, draft_delimited, draft_namevalue
from connector.authoring.drafting.xml_sample import draft_xml
from connector.authoring.drafting.xml_schema import draft_xml_schema
from connector.datahandlers.json_handler import parse_object
from connector.errors import MalformedData
from connector.formats.xml_schema_documents import NAMESPACE, parse_schema
from connector.text.encoding import decode

MAX_BYTES: Final = 16 << 20
"""The largest sample that is read, in bytes."""

XSD: Final = "xsd"

_READERS: Final[dict[str, Callable[[Draft, bytes], None]]] = {
    "json": draft_json,
    "xml": draft_xml,
    "csv": draft_csv,
    "delimited": draft_delimited,
    "namevalue": draft_namevalue,
    "json-schema": draft_json_schema,
}

FORMATS: Final = (*_READERS, XSD)
"""The formats of samples and schemas."""

SCHEMAS: Final = ("json-schema", XSD)
"""The formats that describe bodies."""

_SUFFIXES: Final = {
    ".xsd": XSD,
    ".csv": "csv",
    ".tsv": "csv",
}


def read_sample(path: Path) -> bytes:
    """Returns the content of a sample.

    Raises:
        MalformedData: the file cannot be read, is empty or too large.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise MalformedData(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > MAX_BYTES:
        raise MalformedData(f"is larger than {MAX_BYTES >> 20} MiB")
    if not content.strip():
        raise MalformedData("is empty")
    return content


def format_of(path: Path, content: bytes) -> str:
    """Returns the format of a sample, by the suffix of the file and by its content.

    Raises:
        MalformedData: neither says the format.
    """
    suffix = path.suffix.lower()
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    text = decode(content).lstrip() if not _is_xml(content) else "<"
    if text.startswith("<") or suffix == ".xml":
        return _xml_format(content)
    if text.startswith("{") or suffix == ".json":
        return _json_format(path, content)
    first = text.partition("\n")[0]
    if first.startswith("BusinessObject="):
        return "namevalue"
    if DELIMITER in first:
        return "delimited"
    if any(separator in first for separator in ",;\t|"):
        return "csv"
    raise MalformedData(f"the format is not known, name it: {', '.join(FORMATS)}")


def draft_of(
    name: str,
    path: Path,
    content: bytes,
    format_name: str,
    taken: Collection[str] = (),
    schemas: Path | None = None,
) -> Draft:
    """Returns the draft of a business object.

    Args:
        format_name: one of :data:`FORMATS`.
        schemas: files that a schema includes lie in this directory or below. None = the directory above that
            of the schema.

    Raises:
        MalformedData: the content is not of the format.
    """
    draft = Draft(name, taken)
    if format_name == XSD:
        draft_xml_schema(draft, content, path, schemas or path.resolve().parent.parent)
    else:
        _READERS[format_name](draft, content)
    if format_name == "xml":
        draft.checks.append("an element that the sample does not repeat has cardinality 1")
    if format_name not in SCHEMAS:
        draft.checks.append("types are those of the values in the sample")
        draft.checks.append("required and max_length are in no sample")
    if draft.left_out:
        draft.checks.append("bodies with parts that were left out need IgnoreUndefinedAttributes: true")
    draft.finish()
    return draft


def _is_xml(content: bytes) -> bool:
    """Tells whether bytes begin like XML in any of its encodings."""
    return content.lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n").startswith(b"<")


def _xml_format(content: bytes) -> str:
    root: etree._Element = parse_schema(content)
    return XSD if root.tag == f"{{{NAMESPACE}}}schema" else "xml"


def _json_format(path: Path, content: bytes) -> str:
    document = parse_object(content)
    has_properties = isinstance(document.get("properties"), dict) or "$ref" in document
    is_schema = "$schema" in document or (document.get("type") == "object" and has_properties)
    is_schema |= "$defs" in document or "openapi" in document or "swagger" in document
    return "json-schema" if is_schema or path.name.endswith(".schema.json") else "json"
