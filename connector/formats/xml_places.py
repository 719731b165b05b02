"""Errors of elements, with their places in a document."""

from __future__ import annotations

from typing import Any, Final
from xml.parsers import expat

from lxml import etree

from connector.errors import MalformedData
from connector.text.encoding import decode

_LAST_LINE: Final = 65535
"""The last line that the parser tells of an element without a text in it."""


class ElementError(MalformedData):
    """An element does not fit.

    Args:
        index: the number of the element in its document, from 0.
        line: of the element, as far as the parser knows it.
    """

    def __init__(self, reason: str, index: int, line: int) -> None:
        later = " or later" if line == _LAST_LINE else ""
        super().__init__(f"{reason}: line {line}{later}")
        self._reason = reason
        self._index = index

    def placed(self, body: bytes | str, charset: str) -> MalformedData:
        """Returns the error with line and column.

        Args:
            body: the document.
            charset: the character set that the configuration names. Empty = none.
        """
        where = _place_of_element(body, charset, self._index)
        return MalformedData(f"{self._reason}: {where}" if where else str(self))


def error_at(reason: str, element: etree._Element, path: str = "") -> ElementError:
    """Returns the error for an element, with its path and line."""
    line: Any = element.sourceline
    holder: Any = element
    while holder is not None and not isinstance(holder.tag, str):
        holder = holder.getparent()  # of a comment or another special part
    elements = enumerate(element.getroottree().iter("*"))
    index = next((number for number, one in elements if one is holder), 0)
    return ElementError(f"{path}: {reason}" if path else reason, index, line)


class _Found(Exception):
    """The element has been found. The text is its place."""


def _place_of_element(body: bytes | str, charset: str, index: int) -> str:
    """Returns the line and column of an element, where its tag begins. Empty = unknown.

    The document has been read without an error, so that it has neither entities nor an internal subset.

    Args:
        charset: the character set that the configuration names. Empty = none.
        index: the number of the element in the order of the document, from 0.
    """
    try:
        text = decode(body, charset) if charset else body
        data = text.encode("utf-8") if isinstance(text, str) else text
        parser = expat.ParserCreate("utf-8" if isinstance(text, str) else None)
    except (MalformedData, UnicodeError):
        return ""
    left = index

    def start(name: str, attributes: Any) -> None:
        nonlocal left
        if left == 0:
            raise _Found(f"line {parser.CurrentLineNumber} column {parser.CurrentColumnNumber + 1}")
        left -= 1

    parser.StartElementHandler = start
    try:
        parser.Parse(data, True)
    except _Found as found:
        return str(found)
    except (expat.ExpatError, ValueError, LookupError):
        pass  # an encoding that only the other parser knows
    return ""
