"""Parses XML from strangers: no entities, no document type, no network.

The parser has no limit of its own that lies below ``max_body``: neither for a text nor for a name. What such
limits are against are entities, which are refused before the parser reads any, and nesting, which is counted.
"""

from __future__ import annotations

import re
from typing import Any, Final

from lxml import etree

from connector.errors import MalformedData
from connector.text.encoding import decode
from connector.text.places import place

_DOCTYPE_MARKS: Final = (
    b"<!DOCTYPE",
    "<!DOCTYPE".encode("utf-16-le"),
    "<!DOCTYPE".encode("utf-16-be"),
)
_PROLOG: Final = re.compile(r"(?:\s+|<\?.*?\?>|<!--.*?-->)*", re.DOTALL)
_PLAIN_DOCTYPE: Final = re.compile(
    r"""<!DOCTYPE\s+[^\s\[>"']+(?:\s+(?:SYSTEM|PUBLIC\s+(?:"[^"]*"|'[^']*'))\s+(?:"[^"]*"|'[^']*'))?\s*>"""
)
"""A document type without an internal subset."""
_DECLARED: Final = re.compile(rb"""\s*<\?xml[^>]*encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_LIMITS: Final = {
    "Excessive depth": "is nested deeper than 200 levels",
    "Name too long": "has a name of more than 10,000,000 characters",
}
"""What the parser refuses for its size, and is well-formed for all that."""
_PARSER_ADVICE: Final = re.compile(r",? (?:use|try) XML_PARSE_HUGE.*|, line \d+, column \d+.*", re.DOTALL)


def local_name(tag: str) -> str:
    """Returns the name of an element or XML attribute without its namespace."""
    return tag.rpartition("}")[2] if tag[0] == "{" else tag


def has_no_namespace(element: etree._Element) -> bool:
    """Tells whether an element, or one within, has no namespace."""
    return any(not str(one.tag).startswith("{") for one in element.iter("*"))


def parse_xml(
    body: bytes | str,
    charset: str = "",
    *,
    keeps_specials: bool = False,
    may_have_doctype: bool = False,
    advice: str = "",
) -> etree._Element:
    """Returns the root element of a body.

    The charset, else the byte order mark, else the XML declaration gives the encoding of bytes. Document type
    declarations and entities are refused, but for the five entities of XML itself.

    Args:
        charset: the character set that the configuration names. Empty = none.
        keeps_specials: keep comments and processing instructions.
        may_have_doctype: a document type declaration without an internal subset is passed over.
        advice: the end of the error for a document type declaration that is refused.

    Raises:
        MalformedData: the body is no such document. The text names line and column, or the byte.
    """
    if charset:
        body = decode(body, charset)
    encoding, data = None, body
    if isinstance(data, str):
        encoding = "utf-8"  # text is decoded already, so the declaration does not count
        try:
            data = data.encode("utf-8")
        except UnicodeEncodeError as error:
            raise MalformedData(f"the body is no valid Unicode: character {error.start}") from None
    if not data.strip():
        raise MalformedData("the body is empty, expected an XML document")
    for mark in _DOCTYPE_MARKS:
        if mark in data:
            _check_doctype(data, may_have_doctype, advice)
    root = _parse(data, encoding, keeps_specials=keeps_specials)
    docinfo: Any = root.getroottree().docinfo
    if not may_have_doctype and (docinfo.internalDTD is not None or docinfo.externalDTD is not None):
        raise _doctype(advice, has_subset=False)  # an encoding had hidden it from the search above
    dtd = docinfo.internalDTD
    if dtd is not None and (next(dtd.iterentities(), None), next(dtd.iterelements(), None)) != (None, None):
        raise _doctype(advice, has_subset=True)  # an encoding had hidden an internal subset
    return root


def _parse(data: bytes, encoding: str | None, *, keeps_specials: bool) -> etree._Element:
    # A parser for each body: as cheap as a shared parser, and no state of a body is left in the parser.
    parser = etree.XMLParser(
        encoding=encoding,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=True,
        remove_comments=not keeps_specials,
        remove_pis=not keeps_specials,
        recover=False,
    )
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        _refuse_undecodable(data)
        line, column = error.position
        message = error.msg or "unreadable"
        limit = next((words for start, words in _LIMITS.items() if message.startswith(start)), None)
        if limit is not None:
            raise MalformedData(f"the body {limit}: line {line} column {column}") from None
        reason = _PARSER_ADVICE.sub("", message).removesuffix(f" line {line}")[:300]
        raise MalformedData(f"the body is no XML: {reason}: line {line} column {column}") from None
    except (ValueError, LookupError) as error:
        raise MalformedData(f"the body is no XML: {error}") from None


def _refuse_undecodable(body: bytes) -> None:
    """Names the byte that is not valid in the encoding of a body."""
    declared = _DECLARED.match(body)
    name = declared.group(1).decode() if declared is not None else ""
    try:
        decode(body, "", name)
    except MalformedData as error:
        if " byte " in str(error):
            raise MalformedData(f"the body is no XML: {error}") from None


def _check_doctype(body: bytes, may_have_doctype: bool, advice: str) -> None:
    """Refuses a document type declaration before the parser reads any part of it.

    The words may also stand in a CDATA section or a comment. So the place decides: before the root.
    """
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = body.decode("utf-16", "replace")
    elif body[:4:2] == b"\0\0" or body[1:4:2] == b"\0\0":
        text = body.decode("utf-16-be" if body[:1] == b"\0" else "utf-16-le", "replace")
    else:
        text = body.decode("latin-1").removeprefix("\xef\xbb\xbf")
    text = text.removeprefix("\ufeff")
    prolog = _PROLOG.match(text)
    if prolog is None or not text.startswith("<!DOCTYPE", prolog.end()):
        return
    start = prolog.end()
    is_plain = _PLAIN_DOCTYPE.match(text, start) is not None
    if not (may_have_doctype and is_plain):
        has_subset = not is_plain and "[" in text[start : text.find(">", start)]
        raise _doctype(advice, has_subset=has_subset, where=f": {place(text, start)}")


def _doctype(advice: str, *, has_subset: bool, where: str = "") -> MalformedData:
    """Returns the error for a document type declaration, or for its internal subset."""
    if has_subset:
        what, advice = "a document type declaration with an internal subset", ""
    else:
        what = "a document type declaration (<!DOCTYPE)"
    return MalformedData(f"the body has {what}, which is refused; send it without{advice}{where}")
