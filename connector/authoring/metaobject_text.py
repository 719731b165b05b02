"""Writes the documents of ``metaobjects/*.yaml`` as YAML text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Union

from connector.declare.problems import Problems
from connector.declare.scalar import scalar
from connector.declare.tree import Items, Leaf, Node, parse
from connector.text.names import one_line

Entries = dict[str, Union[str, "Entries"]]
Path = tuple[str, ...]

_WIDTH: Final = 110
_TYPE: Final = "type"


class Flow(str):
    """A value that is written as it is: a list in brackets."""

    @classmethod
    def of(cls, values: Sequence[str]) -> Flow:
        """Returns a list of scalars."""
        return cls(f"[{', '.join(map(scalar, values))}]")


@dataclass(slots=True)
class DocumentText:
    """A document that is to be written.

    Attributes:
        kind: ``business_object``, ``static_metaobject`` or ``datahandler_metaobject``.
        entries: the document without that first key.
        comments: from the path of an entry to a comment behind the entry.
        head: comments in front of the document.
    """

    kind: str
    name: str
    entries: Entries = field(default_factory=dict)
    comments: dict[Path, str] = field(default_factory=dict)
    head: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        for text in self.head:
            yield f"# {one_line(text)}".rstrip()
        yield f"{self.kind}: {scalar(self.name)}"
        for key, value in self.entries.items():
            if isinstance(value, str):
                yield self._with_comment(f"{key}: {scalar(value)}", (key,))
                continue
            yield self._with_comment(f"{key}:", (key,))
            for name, inner in value.items():
                yield from self._entry(name, inner, (key, name))

    def _entry(self, name: str, value: str | Entries, path: Path) -> Iterator[str]:
        begin = f"  {scalar(name)}:"
        if isinstance(value, str):
            yield self._with_comment(f"{begin} {scalar(value)}", path)
            return
        texts = {key: inner for key, inner in value.items() if isinstance(inner, str)}
        if not texts:
            yield self._with_comment(begin, path)
        elif path[0] == "attributes" and list(texts) == [_TYPE]:
            yield self._with_comment(f"{begin} {scalar(texts[_TYPE])}", path)
        else:
            flow = (
                f"{begin} {{{', '.join(f'{scalar(key)}: {_scalar(text)}' for key, text in texts.items())}}}"
            )
            if len(flow) <= _WIDTH:
                yield self._with_comment(flow, path)
                return
            yield self._with_comment(begin, path)
            for key, text in texts.items():
                yield f"    {scalar(key)}: {_scalar(text)}"

    def _with_comment(self, line: str, path: Path) -> str:
        comment = self.comments.get(path)
        return line if comment is None else f"{line}  # {one_line(comment)}"


def _scalar(text: str) -> str:
    return text if isinstance(text, Flow) else scalar(text)


def file_text(documents: Sequence[DocumentText]) -> str:
    """Returns the text of a file with these documents."""
    return "---\n".join(str(document) for document in documents)


class Places:
    """The paths of the entries in a text that :class:`DocumentText` has written, by their places."""

    def __init__(self, text: str) -> None:
        nodes = parse(text, "", Problems()) or []
        self._by_line: dict[int, list[tuple[int, Path]]] = {}
        for node in nodes:
            for line, column, path in _walk(node, ()):
                self._by_line.setdefault(line, []).append((column, path))

    def path(self, line: int, column: int) -> Path:
        """Returns the path of the entry at a place. Empty = the document as a whole."""
        before = [(place, path) for place, path in self._by_line.get(line, ()) if place <= column]
        return max(before, key=lambda one: (one[0], len(one[1])))[1] if before else ()


def _walk(node: Node, path: Path) -> Iterator[tuple[int, int, Path]]:
    if isinstance(node, Items):
        return
    yield node.position.line, node.position.column, path
    if isinstance(node, Leaf):
        return
    for key, value in node.entries.items():
        place = node.keys[key].position
        yield place.line, place.column, (*path, key)
        yield from _walk(value, (*path, key))


def remove(entries: Entries, path: Path) -> bool:
    """Removes the entry at a path. Returns False if there is no such entry."""
    holder: str | Entries | None = entries
    for key in path[:-1]:
        holder = holder.get(key) if isinstance(holder, dict) else None
    return isinstance(holder, dict) and holder.pop(path[-1], None) is not None
