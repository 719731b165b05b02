"""File operations as a disk sees them: on inodes and directory entries, not on paths."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final


class Kind(Enum):
    """What an operation does."""

    MKDIR = "mkdir"
    CREATE = "create"
    LINK = "link"
    REMOVE = "remove"
    RENAME = "rename"
    WRITE = "write"
    TRUNCATE = "truncate"
    TOUCH = "touch"
    SYNC = "sync"
    MARK = "mark"


OF_NAMES: Final = frozenset((Kind.MKDIR, Kind.CREATE, Kind.LINK, Kind.REMOVE, Kind.RENAME))
"""Operations that change entries of directories."""
OF_DATA: Final = frozenset((Kind.WRITE, Kind.TRUNCATE))
"""Operations that change the content of a file."""
ROOT: Final = 0
"""The inode of the directory that holds all others."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation.

    Args:
        kind: what it does.
        node: the inode of the file or directory.
        parent, name: the entry that is made or removed. For a rename the entry that is removed.
        target, new: the entry that a rename makes.
        offset, data: of a write. The offset of a truncation is the new size.
        time_ns: when a file was changed, in nanoseconds since 1970.
        text: what a reader is told: call and paths.
        fact: of a mark, what the world outside has seen: a tuple whose first item is its kind.
    """

    kind: Kind
    node: int = -1
    parent: int = -1
    name: str = ""
    target: int = -1
    new: str = ""
    offset: int = 0
    data: bytes = b""
    time_ns: int = 0
    text: str = ""
    fact: tuple[Any, ...] = ()

    @property
    def directories(self) -> tuple[int, ...]:
        """The directories whose entries are changed."""
        if self.kind is Kind.RENAME and self.target != self.parent:
            return self.parent, self.target
        return (self.parent,) if self.kind in OF_NAMES else ()


@dataclass(slots=True)
class Node:
    """A file or a directory.

    Args:
        entries: names and inodes of a directory. None = a file.
        content: of a file.
        time_ns: when the file was changed.
    """

    entries: dict[str, int] | None = None
    content: bytes = b""
    time_ns: int = 0

    def copy(self) -> Node:
        return Node(None if self.entries is None else dict(self.entries), self.content, self.time_ns)


Nodes = dict[int, Node]
"""A disk: all inodes by number. :data:`ROOT` is the directory that holds all others."""


@dataclass(slots=True)
class Recording:
    """One recorded run.

    Args:
        before: the disk before the run, which is durable.
        operations: in the order in which they were made.
        facts: what the world outside had seen before the run.
    """

    before: Nodes
    operations: list[Operation] = field(default_factory=list)
    facts: list[tuple[Any, ...]] = field(default_factory=list)


def paths(nodes: Nodes) -> dict[str, int]:
    """Returns the paths that lead to an inode from the root. A directory ends with a slash."""
    found: dict[str, int] = {}
    open_: list[tuple[str, int]] = [("", ROOT)]
    while open_:
        prefix, number = open_.pop()
        for name, inside in (nodes[number].entries or {}).items():
            if nodes[inside].entries is None:
                found[prefix + name] = inside
            else:
                found[f"{prefix}{name}/"] = inside
                open_.append((f"{prefix}{name}/", inside))
    return found


def text_of(nodes: Nodes) -> str:
    """Returns the tree of a disk for a reader. Empty directories are left out."""
    found = paths(nodes)
    lines = []
    for path in sorted(found):
        node = nodes[found[path]]
        if node.entries is None:
            lines.append(f"  {path} ({len(node.content)}) {node.content[:300]!r}")
    return "\n".join(lines)
