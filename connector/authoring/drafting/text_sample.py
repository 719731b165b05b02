"""Drafts a business object from samples of delimited text or of names and values."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
_COMMENTS: Final = "#;"
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\s*=")
_EMPTY_LINES: Final = re.compile(r"\r?\n(?:[ \t]*\r?\n)+")
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
    for tokens in _records(draft, samples, shape.count):
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


def _records(draft: Draft, samples: Samples, count: SampleCount) -> Iterator[list[str]]:
    """Iterates over the records of the bodies. Each line is one if all lines begin with the same name."""
    for text in samples.each(count):
        lines = [line for line in text.splitlines() if line]
        names = {line.partition(DELIMITER)[0] for line in lines}
        if len(lines) < 2 or len(names) > 1:
            yield _tokens(text.rstrip("\r\n"))
            continue
        draft.need("split", True, "the sample has several records")
        yield from map(_tokens, lines)


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
        if is_plain_namevalue(text):
            found = draft.top.name
            _observe_plain(draft, shapes.top(found), text)
            samples.expect("the object", found, name or found)
            name = found
            continue
        for block in _blocks(draft, text):
            found = shapes.observe(draft, block)
            samples.expect("the object", found, name or found)
            name = found
    shapes.settle()
    draft_shape(draft, draft.top, shapes.top(name), guess_of_fields)


def is_plain_namevalue(text: str) -> bool:
    """Tells whether a body is names and values alone, without the name of an object."""
    lines = [line for line in map(str.strip, text.splitlines()) if line and line[0] not in _COMMENTS]
    names = [_PLAIN_NAME.match(line) for line in lines]
    return bool(lines) and all(names) and not lines[0].startswith(f"{_OBJECT}=")


def _observe_plain(draft: Draft, shape: SampleShape, text: str) -> None:
    """Notes the values of a body of names and values alone. Blocks with the same names are records."""
    draft.need("header", "none", "the sample names no object")
    seen: set[str] = set()
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line and line[0] in _COMMENTS:
            if draft.options.setdefault("comment", line[0]) != line[0]:
                raise MalformedData(f"found comments with {draft.options['comment']} and with {line[0]}")
            draft.need("comment", line[0], "the sample has comments")
        elif line:
            name, _, value = map(str.strip, line.partition("="))
            if name in seen:
                raise MalformedData(f"the name {shown(name)} stands twice in a record: line {number}")
            seen.add(name)
            _observe(shape.member(key(name)), value)
        elif draft.options.get("split") or _repeats(text):
            draft.need("split", True, "the sample has several records")
            seen.clear()


def _repeats(text: str) -> bool:
    """Tells whether a name stands in two blocks of a body."""
    names = [line.partition("=")[0].strip() for line in text.splitlines() if "=" in line]
    return len(set(names)) < len(names)


def _blocks(draft: Draft, text: str) -> list[str]:
    """Returns the records of a body: the blocks between empty lines, if all begin with the same object."""
    blocks = [block.strip("\r\n") for block in _EMPTY_LINES.split(text) if block.strip()]
    if len(blocks) < 2 or len({block.splitlines()[0] for block in blocks}) > 1:
        return [text]
    draft.need("split", True, "the sample has several records")
    return blocks


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
