"""Drafts a business object from a sample of separated values or of names and values."""

from __future__ import annotations

import csv
import io
import re
import sys
from typing import Final

from connector.businessobjects.encoding import decode
from connector.config.drafting.draft import Draft, key
from connector.config.drafting.kinds import kind_of_text, type_of_texts
from connector.config.drafting.shape import Shape, draft_shape
from connector.config.problems import shown
from connector.errors import MalformedData

DELIMITER: Final = "~"
"""The delimiter of samples in the WBI Data Handler Guide."""
MAX_COLUMNS: Final = 2000

csv.field_size_limit(sys.maxsize)  # the size of the file is the limit

_OBJECT: Final = "BusinessObject"
_VERB: Final = "Verb"
_COUNT: Final = "AttributeCount"
_EVENT_ID: Final = "objecteventid"
_MAX_DEPTH: Final = 200
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")
_SEPARATORS: Final = (",", ";", "\t", "|")


def draft_csv(draft: Draft, body: bytes) -> None:
    """Drafts from comma-separated values (RFC 4180). The first record names the attributes.

    Raises:
        MalformedData: the body has no such record, or a record with another number of values.
    """
    text = decode(body)
    separator = max(_SEPARATORS, key=text.partition("\n")[0].count)
    records = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    titles: list[str] = []
    shape = Shape()
    try:
        for record in records:
            if not record:
                continue
            if not titles:
                titles = _titles(record)
                for title in titles:
                    if title not in (_OBJECT, _VERB):
                        shape.member(key(title))
                continue
            if len(record) != len(titles):
                found = f"{len(record)} values, expected {len(titles)}"
                raise MalformedData(f"found {found} as in the first record: line {records.line_num}")
            for title, value in zip(titles, record, strict=True):
                if title == _OBJECT:
                    draft.name_in_sample(value)
                elif title == _VERB:
                    draft.add_verb(value)
                else:
                    _observe(shape.member(key(title)), value)
    except csv.Error as error:
        raise MalformedData(f"no separated values: {error}: line {records.line_num}") from None
    if not titles:
        raise MalformedData("the body is empty, expected a record with the names of the attributes")
    if separator != ",":
        draft.checks.append(f"the values are separated by {separator!r}: an option of the data handler")
    draft_shape(draft, draft.top, shape, type_of_texts)


def _titles(record: list[str]) -> list[str]:
    """Returns the names in the first record."""
    if len(record) > MAX_COLUMNS:
        raise MalformedData(f"more than {MAX_COLUMNS} values in a record: line 1")
    seen: set[str] = set()
    for number, title in enumerate(record, 1):
        if not title.strip():
            raise MalformedData(f"value {number} of the first record is empty, expected a name: line 1")
        if title in seen:
            raise MalformedData(f"the name {shown(title)} stands twice in the first record: line 1")
        seen.add(title)
    return record


def draft_delimited(draft: Draft, body: bytes) -> None:
    """Drafts from a line such as ``Customer~Create~C-1~Ada``, the format ``text/delimited``.

    Such a body has no names of attributes, so the draft numbers them. It has no marks of children, either:
    their values become attributes too.

    Raises:
        MalformedData: the body has no name, verb and value.
    """
    tokens = decode(body).rstrip("\r\n").split(DELIMITER)
    if len(tokens) < 3:
        raise MalformedData(f"found {len(tokens)} values, expected name, verb and values between {DELIMITER}")
    if len(tokens) > MAX_COLUMNS:
        raise MalformedData(f"more than {MAX_COLUMNS} values")
    draft.name_in_sample(tokens[0].strip())
    draft.add_verb(tokens[1].strip())
    shape = Shape()
    for number, value in enumerate(tokens[2:], 1):
        _observe(shape.member(key(f"Attribute{number}")), value)
    draft.checks.append("the format has no names of attributes: rename Attribute1 and the others")
    draft.checks.append("children: a count, then their names, verbs and values; move these to definitions")
    draft.checks.append("the last value may be the ObjectEventId, which needs no attribute")
    draft_shape(draft, draft.top, shape, type_of_texts)


def _observe(shape: Shape, value: str) -> None:
    kind = kind_of_text(value)
    if kind is not None:
        shape.kinds.add(kind)


def draft_namevalue(draft: Draft, body: bytes) -> None:
    """Drafts from lines ``Name=value``, the format ``text/namevalue``. The first names the object.

    A line that is followed by ``BusinessObject=`` begins children: its value is their number. A child ends
    with its line ``ObjectEventId``, and with the next ``BusinessObject=``.

    Raises:
        MalformedData: a line has no ``=``, or a child is not where its count says.
    """
    _NameValue(decode(body)).draft(draft)


class _NameValue:
    """The lines of a body in the format ``text/namevalue``, and the next line to read."""

    def __init__(self, text: str) -> None:
        self._next = 0
        self._lines: list[tuple[int, str, str]] = []
        for number, raw in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
            name, equals, value = raw.partition("=")
            if equals and name.strip():
                self._lines.append((number, name.strip(), value))
            elif raw.strip():
                raise MalformedData(f"found {shown(raw.strip())}, expected Name=value: line {number}")
        if not self._is_object():
            raise MalformedData(f"expected {_OBJECT}=... in the first line")

    def draft(self, draft: Draft) -> None:
        draft.name_in_sample(self._lines[0][2].strip())
        if len(self._lines) > 1 and self._lines[1][1] == _VERB:
            draft.add_verb(self._lines[1][2].strip())
        shape = Shape()
        self._read(shape, draft, 1)
        if self._next < len(self._lines):
            number, name, _ = self._lines[self._next]
            raise MalformedData(f"found {shown(name)} after the end of the object: line {number}")
        draft_shape(draft, draft.top, shape, type_of_texts)

    def _read(self, shape: Shape, draft: Draft, depth: int) -> None:
        """Reads an object, from its line ``BusinessObject`` to its end."""
        shape.is_object = True
        if depth > _MAX_DEPTH:
            raise MalformedData(f"nested deeper than {_MAX_DEPTH} levels: line {self._lines[self._next][0]}")
        self._next += 1
        while self._next < len(self._lines) and not self._is_object():
            number, name, value = self._lines[self._next]
            self._next += 1
            if name.lower() == _EVENT_ID:
                return
            if name in (_VERB, _COUNT):
                continue
            part = shape.member(key(name))
            if not self._is_object():
                _observe(part, value)
                continue
            count = value.strip()
            if not _NUMBER.fullmatch(count):
                raise MalformedData(f"{name}: found {shown(count)}, expected a number: line {number}")
            part.is_list |= int(count) > 1
            for _ in range(int(count)):
                if not self._is_object():
                    raise MalformedData(f"{name}: expected {count} children: line {number}")
                self._read(part, draft, depth + 1)
        if depth > 1:
            text = "a child without ObjectEventId: whether what follows belongs to it is a guess"
            draft.checks += [] if text in draft.checks else [text]

    def _is_object(self) -> bool:
        return self._next < len(self._lines) and self._lines[self._next][1] == _OBJECT
