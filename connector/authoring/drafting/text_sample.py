"""Drafts a business object from samples of delimited text or of names and values."""

from __future__ import annotations

import re
from typing import Final

from connector.authoring.drafting.draft import Draft, key
from connector.authoring.drafting.kinds import INTEGER, guess_of_fields, kind_of_text
from connector.authoring.drafting.sample_files import Samples
from connector.authoring.drafting.shape import SampleCount, SampleShape, draft_shape
from connector.datahandlers.delimited_handler import DelimitedHandler
from connector.datahandlers.namevalue_handler import NameValueHandler
from connector.errors import MalformedData
from connector.text.names import shown

DELIMITER: Final = "~"
"""The delimiter of samples in the WBI Data Handler Guide."""
MAX_COLUMNS: Final = 2000

_OBJECT: Final = "BusinessObject"
_VERB: Final = "Verb"
_COUNT: Final = "AttributeCount"
_EVENT_ID: Final = "objecteventid"
_SPECIAL: Final = ("CxIgnore", "CxBlank")
"""The values of attributes that are not set, and of blank ones (WBI Data Handler Guide)."""
_TOKEN: Final = re.compile(rf"(?:[^{DELIMITER}\\]|\\.|\\\Z)*", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_MAX_DEPTH: Final = 200
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")


def draft_delimited(draft: Draft, samples: Samples) -> None:
    """Drafts from a line such as ``Customer~Create~C-1~Ada``, the format ``text/delimited``.

    Such a body has no names of attributes, so the draft numbers them. It has no marks of children, either:
    their values become attributes too.

    Raises:
        MalformedData: a body has no name, verb and value, or another number of values than the first.
    """
    draft.handler = DelimitedHandler
    shape = SampleShape()
    first: list[str] = []
    for text in samples.each(shape.count):
        tokens = _tokens(text.rstrip("\r\n"))
        if len(tokens) < 3:
            found = f"{len(tokens)} values, expected name, verb and values between {DELIMITER}"
            raise MalformedData(f"found {found}")
        if len(tokens) > MAX_COLUMNS:
            raise MalformedData(f"more than {MAX_COLUMNS} values")
        first = first or tokens
        samples.expect("a number of values:", str(len(tokens)), str(len(first)))
        draft.name_in_sample(tokens[0].strip())
        draft.add_verb(tokens[1].strip())
        for number, value in enumerate(tokens[2:], 1):
            _observe_special(shape.member(key(f"Attribute{number}")), value)
    draft.checks.append("the format has no names of attributes: rename Attribute1 and the others")
    draft.checks.append("children: a count, then their names, verbs and values; move these to definitions")
    draft.checks.append("the last value may be the ObjectEventId, which needs no attribute")
    draft_shape(draft, draft.top, shape, guess_of_fields)


def _tokens(text: str) -> list[str]:
    """Returns the values of a delimited body, without escape characters."""
    tokens, end = [], -1
    while end < len(text):
        found = _TOKEN.match(text, end + 1)
        assert found is not None  # the pattern fits an empty text
        tokens.append(_ESCAPED.sub(r"\1", found[0]))
        end = found.end()
    return tokens


def _observe(shape: SampleShape, value: str) -> None:
    kind = kind_of_text(value)
    if kind is not None:
        shape.add(kind, value)


def _observe_special(shape: SampleShape, value: str) -> None:
    if value not in _SPECIAL:
        _observe(shape, value)


def draft_namevalue(draft: Draft, samples: Samples) -> None:
    """Drafts from lines ``Name=value``, the format ``text/namevalue``. The first names the object.

    A line that is followed by ``BusinessObject=`` begins children: its value is their number. A child ends
    with its line ``ObjectEventId``, and with the next ``BusinessObject=``.

    Raises:
        MalformedData: a line has no ``=``, or a child is not where its count says, or the first line names
            another object than in the first body.
    """
    draft.handler = NameValueHandler
    shapes = _NameValue()
    name = ""
    for text in samples.each(shapes.count):
        found = shapes.observe(draft, text)
        samples.expect("the object", found, name or found)
        name = found
    shapes.settle()
    draft_shape(draft, draft.top, shapes.top(name), guess_of_fields)


class _NameValue:
    """The shapes of bodies in the format ``text/namevalue``, and the next line of a body to read."""

    def __init__(self) -> None:
        self.count = SampleCount()
        self._objects: dict[str, SampleShape] = {}
        self._none: list[SampleShape] = []  # a number, or the count of no children
        self._lines: list[tuple[int, str, str]] = []
        self._next = 0

    def top(self, name: str) -> SampleShape:
        """Returns the shape of an object."""
        found = self._objects.get(name)
        if found is None:
            found = SampleShape(is_object=True, object_name=name, count=self.count)
            self._objects[name] = found
        return found

    def observe(self, draft: Draft, text: str) -> str:
        """Notes the values of a body. Returns the name of its object."""
        self._lines, self._next = [], 0
        for number, raw in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
            name, equals, value = raw.partition("=")
            if equals and name.strip():
                self._lines.append((number, name.strip(), value))
            elif raw.strip():
                raise MalformedData(f"found {shown(raw.strip())}, expected Name=value: line {number}")
        if not self._is_object():
            raise MalformedData(f"expected {_OBJECT}=... in the first line")
        name = self._lines[0][2].strip()
        draft.name_in_sample(name)
        if len(self._lines) > 1 and self._lines[1][1] == _VERB:
            draft.add_verb(self._lines[1][2].strip())
        self._read(draft, 1)
        if self._next < len(self._lines):
            number, found, _ = self._lines[self._next]
            raise MalformedData(f"found {shown(found)} after the end of the object: line {number}")
        return name

    def settle(self) -> None:
        """Decides for each ``0`` whether it is a number or the count of no children."""
        for part in self._none:
            if not part.is_object:
                part.add(INTEGER, "0")

    def _read(self, draft: Draft, depth: int) -> str:
        """Reads an object, from its line ``BusinessObject`` to its end. Returns its name."""
        line, _, value = self._lines[self._next]
        if depth > _MAX_DEPTH:
            raise MalformedData(f"nested deeper than {_MAX_DEPTH} levels: line {line}")
        object_name = value.strip()
        shape = self.top(object_name)
        self._next += 1
        while self._next < len(self._lines) and not self._is_object():
            line, name, value = self._lines[self._next]
            self._next += 1
            if name.lower() == _EVENT_ID:
                return object_name
            if name == _COUNT:
                draft.need("ValidateAttrCount", True, "the sample has AttributeCount")
            if name in (_VERB, _COUNT):
                continue
            part = shape.member(key(name))
            if self._is_object():
                self._read_children(draft, part, name, depth)
            elif value.strip() == "0":
                self._none.append(part)
            else:
                _observe_special(part, value)
        if depth > 1:
            draft.check_once("a child without ObjectEventId: whether what follows belongs to it is a guess")
        return object_name

    def _read_children(self, draft: Draft, part: SampleShape, name: str, depth: int) -> None:
        """Reads the objects of an attribute, whose line was the last one."""
        line, _, value = self._lines[self._next - 1]
        count = value.strip()
        if not _NUMBER.fullmatch(count):
            raise MalformedData(f"{name}: found {shown(count)}, expected a number: line {line}")
        part.is_object = True
        part.is_list |= int(count) > 1
        for _ in range(int(count)):
            if not self._is_object():
                raise MalformedData(f"{name}: expected {count} children: line {line}")
            object_name = self._read(draft, depth + 1)
            if part.object_name not in ("", object_name):
                raise MalformedData(
                    f"{name}: found {shown(object_name)} and {shown(part.object_name)}: line {line}"
                )
            part.object_name, part.members = object_name, self._objects[object_name].members

    def _is_object(self) -> bool:
        return self._next < len(self._lines) and self._lines[self._next][1] == _OBJECT
