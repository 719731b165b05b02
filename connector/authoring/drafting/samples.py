"""Drafts a business object from a file: a sample body or a schema, in one of several formats."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final, cast

from connector.authoring.drafting.csv_sample import draft_csv
from connector.authoring.drafting.draft import Draft
from connector.authoring.drafting.json_sample import draft_json, draft_json_lines
from connector.authoring.drafting.json_schema import draft_json_schema
from connector.authoring.drafting.sample_files import Samples
from connector.authoring.drafting.shape import ORDER
from connector.authoring.drafting.text_sample import (
    DELIMITER,
    draft_delimited,
    draft_namevalue,
    is_plain_namevalue,
)
from connector.authoring.drafting.xml_sample import draft_xml
from connector.authoring.drafting.xml_schema import draft_xml_schema
from connector.config.metaobject_model import is_name
from connector.datahandlers.json_handler import parse_object, parse_objects
from connector.errors import MalformedData
from connector.formats.datahandler import Option
from connector.formats.xml_schema_documents import NAMESPACE, parse_schema
from connector.text.encoding import decode
from connector.text.names import shown
from connector.text.xml_parser import parse_xml

XSD: Final = "xsd"

_READERS: Final[dict[str, Callable[[Draft, Samples], None]]] = {
    "json": draft_json,
    "jsonlines": draft_json_lines,
    "xml": draft_xml,
    "csv": draft_csv,
    "delimited": draft_delimited,
    "namevalue": draft_namevalue,
    "json-schema": lambda draft, samples: draft_json_schema(draft, samples.content),
}

FORMATS: Final = (*_READERS, XSD)
"""The formats of samples and schemas."""

SCHEMAS: Final = ("json-schema", XSD)
"""The formats that describe bodies."""

_IGNORES: Final = "IgnoreUndefinedAttributes"
_SUFFIXES: Final = {
    ".xsd": XSD,
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonlines",
    ".ndjson": "jsonlines",
}


def format_of(path: Path, content: bytes, charset: str = "") -> str:
    """Returns the format of a sample, by the suffix of the file and by its content.

    Args:
        charset: the character set. Empty = as the body says.

    Raises:
        MalformedData: neither says the format.
    """
    suffix = path.suffix.lower()
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    text = decode(content, charset).lstrip() if charset or not _is_xml(content) else "<"
    if text.startswith("<") or suffix == ".xml":
        return _xml_format(content, charset)
    if text.startswith(("{", "[")) or suffix == ".json":
        return _json_format(path, text)
    first = text.partition("\n")[0]
    if first.startswith("BusinessObject=") or ("\n" in text.strip() and is_plain_namevalue(text)):
        return "namevalue"
    if DELIMITER in first and is_name(first.partition(DELIMITER)[0].strip()):
        return "delimited"
    if any(separator in first for separator in ",;\t|"):
        return "csv"
    expected = f"a sample of {', '.join(FORMATS)}; --format names one of them"
    advice = "for another format, connector new datahandler drafts a data handler"
    raise MalformedData(
        f"the format is not known: line 1: found {shown(first)}, expected {expected}; {advice}"
    )


def draft_of(
    name: str, samples: Samples, format_name: str, taken: Collection[str] = (), schemas: Path | None = None
) -> Draft:
    """Returns the draft of a business object.

    Args:
        format_name: one of :data:`FORMATS`.
        schemas: files that a schema includes lie in this directory or below. None = the directory above that
            of the schema.

    Raises:
        MalformedData: a body is not of the format, or has another shape than the first.
    """
    draft = Draft(name, taken)
    draft.is_of_sample = format_name not in SCHEMAS
    if format_name == XSD:
        path = samples.path
        draft_xml_schema(draft, samples.content, path, schemas or path.resolve().parent.parent)
    else:
        _READERS[format_name](draft, samples)
    if format_name == "xml":
        draft.checks.append("an element that no sample repeats has cardinality 1")
    if draft.is_of_sample:
        draft.checks.append("required and max_length are in no sample, and a key may be blank")
    if any(not text.endswith(ORDER) for text in draft.left_out):
        names = [one.name for one in cast(Sequence[Option], draft.handler.options)] if draft.handler else []
        if not names or _IGNORES in names:
            draft.options[_IGNORES] = True
            draft.checks.append(f"bodies with parts that were left out need {_IGNORES}: true")
    draft.finish()
    return draft


def _is_xml(content: bytes) -> bool:
    """Tells whether bytes begin like XML in any of its encodings."""
    return content.lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n").startswith(b"<")


def _xml_format(content: bytes, charset: str) -> str:
    try:
        root = parse_xml(content, charset, may_have_doctype=True)
    except MalformedData:
        if charset or not _is_schema_with_entities(content):
            raise
        return XSD
    return XSD if root.tag == f"{{{NAMESPACE}}}schema" else "xml"


def _is_schema_with_entities(content: bytes) -> bool:
    """Tells whether bytes are a schema that only its own document type makes readable."""
    try:
        return parse_schema(content).tag == f"{{{NAMESPACE}}}schema"
    except MalformedData:
        return False


def _json_format(path: Path, text: str) -> str:
    lines = [line for line in text.split("\n") if line.strip()]
    try:
        if text.lstrip().startswith("["):
            parse_objects(text)
            return "json"
        document = parse_object(text)
    except MalformedData:
        if len(lines) < 2:
            raise
        try:
            parse_object(lines[0])
        except MalformedData:
            pass  # the mistake of the whole document counts
        else:
            return "jsonlines"
        raise
    has_properties = isinstance(document.get("properties"), dict) or "$ref" in document
    is_schema = "$schema" in document or (document.get("type") == "object" and has_properties)
    is_schema |= "$defs" in document or "openapi" in document or "swagger" in document
    return "json-schema" if is_schema or path.name.endswith(".schema.json") else "json"
