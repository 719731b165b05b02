"""Reads the text format of a repository (WBI Data Handler Guide, appendix B; ``repos_copy``).

A file is a list of sections. A section begins with its name in brackets and ends with ``[End]``. Between them
are lines ``Name = value`` and other sections::

    [BusinessObjectDefinition]
    Name = Customer
      [Attribute]
      Name = CustomerId
      Type = String
      [End]
    [End]

White space around lines, names and values does not count, nor does the case of names. Empty lines and lines
that begin with ``#`` or ``;`` are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from connector.declare.problems import Position, Problems
from connector.errors import ConfigurationError, MalformedData
from connector.text.encoding import decode
from connector.text.names import nearest, shown

MAX_BYTES: Final = 32 << 20
"""The largest repository file that is read, in bytes."""
MAX_SECTIONS: Final = 300_000
"""Business objects, attributes and verbs of one file. Each takes about 1 KiB of memory."""
MAX_ATTRIBUTES: Final = 10_000
MAX_VERBS: Final = 100
"""Of one object. The check compares each mistake with all of them."""
MAX_WARNINGS: Final = 1000
"""Warnings of one file. Later ones are not listed."""
MAX_DEPTH: Final = 50
"""Levels of sections within sections."""

OBJECT: Final = "BusinessObjectDefinition"
ATTRIBUTE: Final = "Attribute"
VERB: Final = "Verb"
_HEADER: Final = "ReposCopy"
_END: Final = "end"

OBJECT_KEYS: Final = ("Name", "Version", "AppSpecificInfo")
VERB_KEYS: Final = ("Name", "AppSpecificInfo")
ATTRIBUTE_KEYS: Final = (
    "Name",
    "Type",
    "Cardinality",
    "MaxLength",
    "IsKey",
    "IsForeignKey",
    "IsRequired",
    "AppSpecificInfo",
    "DefaultValue",
    "IsRequiredServerBound",
    "ContainedObjectVersion",
    "Relationship",
    "RelationshipType",
)

_KINDS: Final = {kind.lower(): kind for kind in (OBJECT, ATTRIBUTE, VERB, _HEADER)}
_KEYS: Final = {OBJECT: OBJECT_KEYS, ATTRIBUTE: ATTRIBUTE_KEYS, VERB: VERB_KEYS}
_INSIDE: Final = {OBJECT: (ATTRIBUTE, VERB)}
"""From a section to the sections that may stand in it."""

_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_. -]*")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class SectionValue:
    """A value and the place of its line."""

    text: str
    position: Position


@dataclass(slots=True)
class FileSection:
    """A section that is carried over: a business object, an attribute or a verb.

    Attributes:
        position: the line of its name in brackets.
        values: by the names of ``OBJECT_KEYS``, ``ATTRIBUTE_KEYS`` and ``VERB_KEYS``.
        attributes, verbs: of a business object, in the order of the file.
    """

    kind: str
    position: Position
    values: dict[str, SectionValue] = field(default_factory=dict)
    attributes: dict[str, FileSection] = field(default_factory=dict)
    verbs: dict[str, FileSection] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.get("Name")

    def get(self, key: str) -> str:
        """Returns the text of a value. A value that is not there is the empty text."""
        value = self.values.get(key)
        return value.text if value is not None else ""

    def place(self, key: str) -> Position:
        """Returns the place of a value, else that of the section."""
        value = self.values.get(key)
        return value.position if value is not None else self.position


def read_repository(path: Path, problems: Problems, *, charset: str = "") -> dict[str, FileSection]:
    """Returns the business objects of a repository file, by name.

    Args:
        problems: gets a warning for each section and key that has no counterpart.
        charset: the character set. Empty = that of the byte order mark, else UTF-8.

    Raises:
        ConfigurationError: the file cannot be read, or breaks the format. The error names the line.
    """
    display = str(path)
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _error(Position(display), f"cannot be read: {reason}", "a repository file") from None
    if len(content) > MAX_BYTES:
        raise _error(Position(display), f"is larger than {MAX_BYTES >> 20} MiB", "a file for each object")
    return parse_repository(content, problems, charset=charset, display=display)


def parse_repository(
    content: bytes, problems: Problems, *, charset: str = "", display: str = "repository"
) -> dict[str, FileSection]:
    """Works like :func:`read_repository`, from the content of a file."""
    return _Reader(display, problems).read(_decode(content, charset, display))


def _decode(content: bytes, charset: str, display: str) -> str:
    try:
        return decode(content, charset)
    except MalformedData as error:
        line, place = 0, re.search(r": byte ([0-9]+), line ([0-9]+) .*$", str(error))
        found = str(error).removeprefix("the body ")
        if place is not None:
            offset, line = int(place[1]), int(place[2])
            value = f" is 0x{content[offset]:02X}" if offset < len(content) else ""
            found = f"{found.partition(': byte ')[0]}: byte {offset}{value}"
        expected = "text in this character set" if charset else "UTF-8, or --charset with the name of another"
        raise _error(Position(display, line), found, expected) from None


def _lines(text: str) -> Iterator[str]:
    """Yields the lines without their ends, one at a time, because a file may be large."""
    begin = 0
    for end in _LINE_END.finditer(text):
        yield text[begin : end.start()]
        begin = end.end()
    yield text[begin:]


class _Reader:
    """The state between two lines: the open sections, outermost first. None = a section that is skipped."""

    def __init__(self, display: str, problems: Problems) -> None:
        self._display = display
        self._problems = problems
        self._open: list[tuple[str, Position, FileSection | None]] = []
        self._objects: dict[str, FileSection] = {}
        self._sections = 0
        self._warnings = 0

    def read(self, text: str) -> dict[str, FileSection]:
        for number, raw in enumerate(_lines(text), 1):
            line = raw.strip(" \t")
            if not line or line[0] in "#;":
                continue
            position = Position(self._display, number)
            bad = _CONTROL.search(line)
            if bad is not None:
                raise _error(position, f"the control character U+{ord(bad[0]):04X}", "text")
            name = line[1:-1].strip() if line[0] == "[" and line[-1] == "]" else ""
            if not _NAME.fullmatch(name):
                self._take_line(line, position)
            elif name.lower() == _END:
                self._close(position)
            else:
                self._begin(name, position)
        if self._open:
            name, position, _ = self._open[-1]
            raise _error(position, f"[{name}] has no [End]", "[End] before the end of the file")
        return self._objects

    def _begin(self, name: str, position: Position) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise _error(position, f"sections nested deeper than {MAX_DEPTH} levels", "fewer levels")
        outer = self._open[-1] if self._open else None
        kind = _KINDS.get(name.lower(), "")
        if outer is None:
            if kind in (ATTRIBUTE, VERB):
                raise _error(position, f"[{name}] outside of a business object", f"[{OBJECT}]")
            if kind not in (OBJECT, _HEADER):
                self._warn(position, f"the section [{name}]", (OBJECT,), name)
            self._open.append((name, position, self._make(kind, position) if kind == OBJECT else None))
            return
        outer_name, outer_position, outer_section = outer
        if outer_section is None:  # a section that is skipped, with everything in it
            if kind == OBJECT:
                raise _not_closed(outer_name, outer_position, name, position)
            self._open.append((name, position, None))
        elif kind in _INSIDE.get(outer_section.kind, ()):
            self._open.append((name, position, self._make(kind, position)))
        elif kind:
            raise _not_closed(outer_name, outer_position, name, position)
        else:
            inside = _INSIDE.get(outer_section.kind, ())
            self._warn(position, f"the section [{name}] in [{outer_section.kind}]", inside, name)
            self._open.append((name, position, None))

    def _make(self, kind: str, position: Position) -> FileSection:
        self._sections += 1
        if self._sections > MAX_SECTIONS:
            raise _error(position, f"more than {MAX_SECTIONS} sections", "fewer in one file")
        return FileSection(kind, position)

    def _close(self, position: Position) -> None:
        if not self._open:
            raise _error(position, "[End] without a section", f"[{OBJECT}]")
        _, _, section = self._open.pop()
        if section is None:
            return
        if not section.name:
            raise _error(section.position, f"[{section.kind}] without a Name", "Name = ...")
        outer = self._open[-1][2] if self._open else None
        target = self._objects
        if outer is not None:
            target = outer.attributes if section.kind == ATTRIBUTE else outer.verbs
        first = target.get(section.name)
        if first is not None:
            raise _error(
                section.place("Name"),
                f"{_words(section.kind)} {shown(section.name)} a second time, "
                f"first in line {first.place('Name').line}",
                "it once",
            )
        target[section.name] = section
        limit = {ATTRIBUTE: MAX_ATTRIBUTES, VERB: MAX_VERBS}.get(section.kind, MAX_SECTIONS)
        if len(target) > limit:
            raise _error(section.position, f"more than {limit} [{section.kind}]", "fewer in one object")

    def _take_line(self, line: str, position: Position) -> None:
        if self._open and self._open[-1][2] is None:
            return
        name, equals, text = line.partition("=")
        name = name.strip()
        if not equals or not _NAME.fullmatch(name):
            raise _error(position, shown(line), "Name = value, [Section] or [End]")
        section = self._open[-1][2] if self._open else None
        if section is None:
            raise _error(position, f"{shown(line)} outside of a section", f"[{OBJECT}]")
        known = _KEYS[section.kind]
        key = next((one for one in known if one.lower() == name.lower()), None)
        if key is None:
            self._warn(position, f"{name} of [{section.kind}]", known, name)
        elif key in section.values:
            first = section.values[key].position.line
            raise _error(position, f"{name} a second time, first in line {first}", "it once")
        else:
            section.values[key] = SectionValue(text.strip(), position)

    def _warn(self, position: Position, what: str, known: tuple[str, ...], name: str) -> None:
        self._warnings += 1
        if self._warnings > MAX_WARNINGS:
            return
        found, near = f"{what} has no counterpart and is left out", nearest(name, known)
        if self._warnings == MAX_WARNINGS:
            found, near = "more that has no counterpart from this line on is left out", None
        self._problems.add(position, "", found, "", near, warning=True)


def _words(kind: str) -> str:
    return {OBJECT: "the business object", ATTRIBUTE: "the attribute", VERB: "the verb"}[kind]


def _not_closed(outer: str, begun: Position, inner: str, position: Position) -> ConfigurationError:
    return _error(position, f"[{inner}] in the [{outer}] of line {begun.line}", "[End] before it")


def _error(position: Position, found: str, expected: str) -> ConfigurationError:
    problems = Problems()
    problems.add(position, "", found, expected)
    return ConfigurationError(problems.sorted())
