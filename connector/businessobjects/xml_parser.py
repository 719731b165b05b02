"""Parses XML from strangers: no entities, no document type, no network, no huge trees."""

from __future__ import annotations

import re
from typing import Final

from lxml import etree

from connector.errors import MalformedData

_DOCTYPE_MARKS: Final = (
    b"<!DOCTYPE",
    "<!DOCTYPE".encode("utf-16-le"),
    "<!DOCTYPE".encode("utf-16-be"),
)
_PROLOG: Final = re.compile(r"(?:\s+|<\?.*?\?>|<!--.*?-->)*", re.DOTALL)
_PARSER_ADVICE: Final = re.compile(r",? (?:use|try) XML_PARSE_HUGE.*|, line \d+, column \d+.*", re.DOTALL)


def local_name(tag: str) -> str:
    """Returns the name of an element or XML attribute without its namespace."""
    return tag.rpartition("}")[2] if tag[0] == "{" else tag


def parse_xml(body: bytes | str) -> etree._Element:
    """Returns the root element of a body, without comments and processing instructions.

    The byte order mark and the XML declaration give the encoding of bytes. Document type declarations and
    entities are refused, but for the five entities of XML itself.

    Raises:
        MalformedData: the body is no such document. The text names line and column.
    """
    encoding = None
    if isinstance(body, str):
        encoding = "utf-8"  # text is decoded already, so the declaration does not count
        try:
            body = body.encode("utf-8")
        except UnicodeEncodeError as error:
            raise MalformedData(f"the body is no valid Unicode: character {error.start}") from None
    if not body.strip():
        raise MalformedData("the body is empty, expected an XML document")
    for mark in _DOCTYPE_MARKS:
        if mark in body:
            _refuse_doctype(body)
    # A parser for each body: as cheap as a shared parser, and no state of a body is left in the parser.
    parser = etree.XMLParser(
        encoding=encoding,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
        recover=False,
    )
    try:
        root = etree.fromstring(body, parser)
    except etree.XMLSyntaxError as error:
        line, column = error.position
        reason = _PARSER_ADVICE.sub("", error.msg or "unreadable")[:300]
        raise MalformedData(f"the body is no XML: {reason}: line {line} column {column}") from None
    except (ValueError, LookupError) as error:
        raise MalformedData(f"the body is no XML: {error}") from None
    docinfo = root.getroottree().docinfo
    if docinfo.internalDTD is not None or docinfo.externalDTD is not None:
        raise _doctype()  # an encoding had hidden the declaration from the search above
    return root


def _refuse_doctype(body: bytes) -> None:
    """Refuses a document type declaration before the parser reads any part of it.

    The words may also stand in a CDATA section or a comment. So the place decides: before the root.
    """
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = body.decode("utf-16", "replace")
    elif body[:4:2] == b"\0\0" or body[1:4:2] == b"\0\0":
        text = body.decode("utf-16-be" if body[:1] == b"\0" else "utf-16-le", "replace")
    else:
        text = body.decode("latin-1").removeprefix("\xef\xbb\xbf")
    prolog = _PROLOG.match(text)
    if prolog is not None and text.startswith("<!DOCTYPE", prolog.end()):
        raise _doctype()


def _doctype() -> MalformedData:
    return MalformedData(
        "the body has a document type declaration (<!DOCTYPE), which is refused; send it without"
    )
