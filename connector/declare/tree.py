"""YAML as a tree of texts with positions.

The look of a value decides nothing. Every leaf is a :class:`Leaf`, a ``str`` with a position. The key decides
the type of the value. The tree is built from the events of the parser, not by constructors. So no tag can
make an object, and no alias can grow without bound. The nodes of ``yaml.compose`` would come too late for the
limits: deep nesting overflows the stack of that parser in C, and many values are all in memory first.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from connector.declare.problems import Position, Problems
from connector.regular_file import read_regular
from connector.text.names import nearest

MAX_BYTES: Final = 4 << 20
"""The largest configuration file that is read, in bytes."""
MAX_DEPTH: Final = 60
MAX_NODES: Final = 200_000
MAX_ALIASES: Final = 200

NULLS: Final = ("null", "Null", "NULL", "~")
"""The words that mean no value where they stand without quotes as a value (YAML 1.2.2, 10.2.1)."""

_UNPRINTABLE: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATES: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")


class Leaf(str):
    """The text of a single value.

    Attributes:
        position: the start of the value.
        plain: whether the value is written without quotes and not as a block.
        raw: as written. Differs from the text after the environment was filled in.
        quote: the quote around the value, empty if plain. None = a block, several lines or escapes. Then the
            positions of the characters are not known.
    """

    __slots__ = ("plain", "position", "quote", "raw")

    position: Position
    plain: bool
    raw: str
    quote: str | None

    @classmethod
    def of(
        cls,
        text: str,
        position: Position,
        *,
        plain: bool = True,
        raw: str | None = None,
        quote: str | None = "",
    ) -> Leaf:
        leaf = cls(text)
        leaf.position = position
        leaf.plain = plain
        leaf.raw = text if raw is None else raw
        leaf.quote = quote
        return leaf

    def place(self, offset: int) -> Position:
        """Returns the place of the character at ``offset``. If that is not known, returns the start."""
        if self.quote is None or self.from_environment:
            return self.position
        doubled = self.count("'", 0, offset) if self.quote == "'" else 0
        return self.position._replace(column=self.position.column + len(self.quote) + offset + doubled)

    @property
    def from_environment(self) -> bool:
        return self.raw != str(self)

    @property
    def is_absent(self) -> bool:
        """Whether the key has no value (``Key:``, ``Key: null``, ``Key: ~``), and so counts as not given."""
        return self.plain and not self


@dataclass(slots=True)
class Table:
    """A mapping. ``keys`` holds the keys as written, with their places."""

    position: Position
    entries: dict[str, Node] = field(default_factory=dict)
    keys: dict[str, Leaf] = field(default_factory=dict)

    def put(self, key: Leaf, value: Node) -> None:
        self.entries[str(key)] = value
        self.keys[str(key)] = key

    def only(self, keys: Collection[str]) -> Table:
        """Returns a mapping with only these keys, as far as this mapping has them."""
        kept = Table(self.position)
        for name, key in self.keys.items():
            if name in keys:
                kept.put(key, self.entries[name])
        return kept


@dataclass(slots=True)
class Items:
    """A list."""

    position: Position
    items: list[Node] = field(default_factory=list)


Node = Leaf | Table | Items


def is_absent(node: Node | None) -> bool:
    """Tells whether there is no value: no key, or a key without a value."""
    return node is None or (isinstance(node, Leaf) and node.is_absent)


def kind_of(node: object) -> str:
    """Returns the kind of a node, in words for an error text."""
    if isinstance(node, Table | dict):
        return "a mapping"
    if isinstance(node, Items | list):
        return "a list"
    return "a single value"


def read_file(path: Path, display: str, problems: Problems) -> list[Node] | None:
    """Reads the documents of a YAML file.

    Args:
        display: the file as the user would type it.
        problems: gets the mistakes. Then the file cannot be used, or lacks the named parts.

    Returns:
        The documents that are not empty. None = the file cannot be read or is no YAML.
    """
    text = _read_text(path, display, problems)
    if text is None:
        return None
    return parse(text, display, problems)


def parse(text: str, display: str, problems: Problems) -> list[Node] | None:
    """Works like :func:`read_file`, from text."""
    bad = _UNPRINTABLE.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        column = bad.start() - text.rfind("\n", 0, bad.start())
        problems.add(
            Position(display, line, column), "", f"a control character (U+{ord(bad.group()):04X})", "text"
        )
        return None
    # libyaml refuses the escapes of JSON for a character beyond U+FFFF. The slow parser reads them.
    loader = yaml.SafeLoader if _SURROGATE_ESCAPE.search(text) else _LOADER
    try:
        return _TreeBuilder(yaml.parse(text, Loader=loader), display, problems).build()
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        if place and (tab := _find_tab(text, place.line)):
            problems.add(Position(display, *tab), "", "no YAML: a tab", "spaces at the begin of a line")
            return None
        position = Position(display, place.line + 1, place.column + 1) if place else Position(display)
        problems.add(position, "", f"no YAML: {_words(error)}", "YAML; look at this line and the one before")
        return None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        problems.add(Position(display), "", f"no YAML: {str(error).splitlines()[0]}", "YAML")
        return None
    except _TooMuch as error:
        problems.add(error.position, "", error.found, error.expected)
        return None


def _find_tab(text: str, line: int) -> tuple[int, int] | None:
    """Returns line and column of a tab before the text of a line, or of the line before, from 1."""
    lines = text.split("\n")
    for number in (line, line - 1):
        if 0 <= number < len(lines):
            blank = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
            if "\t" in blank:
                return number + 1, blank.index("\t") + 1
    return None


def _words(error: yaml.MarkedYAMLError) -> str:
    parts = [part for part in (error.context, error.problem) if part]
    return ", ".join(parts) or "it cannot be parsed"


def _like(path: Path, display: str) -> str:
    """Returns ``; did you mean ...?`` if there is a YAML file with a name like that of ``path``."""
    try:
        names = sorted(one.name for one in path.parent.iterdir() if one.suffix in (".yaml", ".yml"))
    except OSError:
        return ""
    close = nearest(path.name, names)
    return f"; did you mean {Path(display).with_name(close)}?" if close else ""


def _read_text(path: Path, display: str, problems: Problems) -> str | None:
    here = Position(display)
    try:
        content = read_regular(path, MAX_BYTES + 1)
    except FileNotFoundError:
        problems.add(
            here,
            "",
            "no such file",
            "a configuration file; name another one with -c FILE, or connector init DIR writes one"
            + _like(path, display),
        )
        return None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EISDIR, errno.EINVAL):
            problems.add(
                here,
                "",
                "is a directory" if error.errno == errno.EISDIR else str(error.strerror),
                "a YAML file",
            )
            return None
        reason = error.strerror if isinstance(error, OSError) else str(error)
        problems.add(here, "", f"cannot be read: {reason}", "a file that this user may read")
        return None
    if len(content) > MAX_BYTES:
        problems.add(here, "", f"is larger than {MAX_BYTES >> 20} MiB", "a configuration file")
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8-sig", "replace")) + 1
        problems.add(
            Position(display, line, column),
            "",
            f"is not UTF-8 (byte 0x{content[error.start]:02X})",
            "UTF-8 text",
        )
        return None


class _TooMuch(Exception):
    def __init__(self, position: Position, found: str, expected: str) -> None:
        super().__init__(found)
        self.position, self.found, self.expected = position, found, expected


class _TreeBuilder:
    """Builds the tree from the events of the parser, one document after the other."""

    def __init__(self, events: Iterator[Any], display: str, problems: Problems) -> None:
        self._events = events
        self._file = display
        self._problems = problems
        self._anchors: dict[str, Node] = {}
        self._aliases = 0
        self._nodes = 0

    def build(self) -> list[Node]:
        documents: list[Node] = []
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
            elif isinstance(event, yaml.NodeEvent) and not is_absent(
                node := _without_null(self._node(event, 0))
            ):
                documents.append(node)
        return documents

    def _node(self, event: Any, depth: int) -> Node:
        """Returns the node that starts with an event."""
        position = Position(self._file, event.start_mark.line + 1, event.start_mark.column + 1)
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _TooMuch(position, f"more than {MAX_NODES} values", "a smaller file")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event.anchor or "", position)
        if event.tag is not None and event.tag != "!":
            self._problems.add(
                position, "", f"the tag {event.tag!r}", "no tag: the key decides the type of a value"
            )
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            text = self._join_surrogates(event.value, position)
            node = Leaf.of(text, position, plain=not event.style, quote=_quote(event))
        elif depth == MAX_DEPTH:
            raise _TooMuch(position, f"nested deeper than {MAX_DEPTH} levels", "fewer levels")
        else:
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            node = (self._table if is_mapping else self._items)(position, depth + 1)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _items(self, position: Position, depth: int) -> Items:
        items = Items(position)
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.items.append(_without_null(self._node(event, depth)))
        return items

    def _table(self, position: Position, depth: int) -> Table:
        table = Table(position)
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(self._node(event, depth), table)
            value = self._node(next(self._events), depth)
            if key is not None:
                table.put(key, _without_null(value))
        return table

    def _key(self, node: Node, table: Table) -> Leaf | None:
        """Returns a key, or None if the mapping does not get the key, because of a mistake."""
        if not isinstance(node, Leaf):
            self._problems.add(node.position, "", f"{kind_of(node)} as a key", "a single value as the key")
        elif (first := table.keys.get(node)) is not None:
            self._problems.add(
                node.position,
                "",
                f"the key {str(node)!r} stands twice, "
                f"in lines {first.position.line} and {node.position.line}",
                "it once",
            )
        elif node == "<<" and node.plain:
            self._problems.add(node.position, "", "the merge key '<<'", "the keys themselves")
        else:
            return node
        return None

    def _join_surrogates(self, text: str, position: Position) -> str:
        """Returns a text with one character for each surrogate pair. Reports half a pair."""
        if not _SURROGATES.search(text):
            return text
        joined = _SURROGATES.sub(_character, text)
        if half := _SURROGATES.search(joined):
            found = f"half a surrogate pair (\\u{ord(half[0]):04x}), which is no character"
            self._problems.add(position, "", found, "both halves of the pair, or the character itself")
            return _SURROGATES.sub("\ufffd", joined)
        return joined

    def _alias(self, anchor: str, position: Position) -> Node:
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            raise _TooMuch(position, f"more than {MAX_ALIASES} aliases", "the values themselves")
        node = self._anchors.get(anchor)
        if node is None:
            self._problems.add(
                position,
                "",
                f"the alias *{anchor} before the end of its anchor",
                "an anchor that stands above",
            )
            return Leaf.of("", position)
        # An alias of a collection with aliases multiplies, so the values behind the alias count too.
        self._nodes += _count(node)
        if self._nodes > MAX_NODES:
            raise _TooMuch(position, f"aliases that stand for more than {MAX_NODES} values", "a smaller file")
        return node


def _without_null(node: Node) -> Node:
    """Returns an empty leaf for the word of a null. As a key such a word is a text like any other."""
    if isinstance(node, Leaf) and node.plain and node in NULLS:
        return Leaf.of("", node.position)
    return node


def _character(match: re.Match[str]) -> str:
    """Returns the character of a surrogate pair. Half a pair returns itself."""
    return match[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _quote(event: Any) -> str | None:
    """Returns the quote of a scalar if its characters stand in the file one after the other, else None."""
    style = event.style or ""
    if style not in ("", "'", '"') or event.start_mark.line != event.end_mark.line:
        return None
    length = event.end_mark.column - event.start_mark.column - 2 * len(style)
    doubled = event.value.count("'") if style == "'" else 0
    return style if length == len(event.value) + doubled else None


def _count(node: Node) -> int:
    total, waiting = 0, [node]
    while waiting:
        current = waiting.pop()
        total += 1
        if total > MAX_NODES:
            break
        if isinstance(current, Table):
            waiting.extend(current.entries.values())
        elif isinstance(current, Items):
            waiting.extend(current.items)
    return total
