"""The transaction log: one text record a commit, one line a message.

A record is written to ``associated/`` and synced; its rename into ``committing/`` is the commit point;
then every move it names is made, and the record itself goes to ``committed/`` or away. Each move is
idempotent, so whoever finds a record in ``committing/`` can finish it, however often. A record in
``associated/`` of a dead client never happened.

A line::

    dropboxmq --creator-version 1.1 --type received --message-file P --commit-file P --rollback-file P

``sent`` moves a prepared message to its queue, ``received`` a claimed one out of it; no commit file
means delete. Paths are relative to the root. Ours: ``--published KEY``, the key that the duplicate
window remembers, and ``--encoding percent`` where a path or key has white space.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from connector import faults
from connector.errors import ProviderError
from connector.providers.dropbox import files
from connector.providers.dropbox.layout import Layout

_HEAD: Final = "dropboxmq --creator-version 1.1 --type "
_HEAD_SPACES: Final = _HEAD.count(" ")
_RARE_BLANKS: Final = "\t\r\v\f\x1c\x1d\x1e\x1f"
"""White space of ASCII beside the two that each line has."""
_odd = re.compile(r"\s|[\ud800-\udfff]").search


@dataclass(slots=True)
class Move:
    """One line of a record. Paths are relative to the root.

    Args:
        kind: ``sent`` or ``received``.
        source: where the file is.
        target: where commit puts it; None = it is deleted.
        rollback: where rollback puts it; None = it is deleted.
        published: key for the duplicate window.
    """

    kind: str
    source: str
    target: str | None
    rollback: str | None = None
    published: str | None = None


@dataclass(slots=True)
class Copies:
    """Claimed messages that become copies, many for little: paths in columns, without a :class:`Move` each.

    Args:
        sources, targets, rollbacks: paths of each message, as those of a :class:`Move`.
        published: keys for the duplicate window, one for each message or none at all.
    """

    sources: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    rollbacks: list[str] = field(default_factory=list)
    published: list[str] = field(default_factory=list)

    def moves(self) -> list[Move]:
        """The moves that mean the same."""
        keys: Sequence[str | None] = self.published or [None] * len(self.sources)
        columns = zip(self.sources, self.targets, self.rollbacks, keys, strict=True)
        return [Move("received", *paths) for paths in columns]

    def text(self) -> str:
        """The lines of the record, each with its end."""
        head = f"{_HEAD}received"
        spaces = _HEAD_SPACES + 6
        if self.published:
            spaces += 2
            columns = zip(self.sources, self.targets, self.rollbacks, self.published, strict=True)
            lines = [
                f"{head} --message-file {source} --commit-file {target} --rollback-file {rollback} "
                f"--published {key}\n"
                for source, target, rollback, key in columns
            ]
        else:
            lines = [
                f"{head} --message-file {source} --commit-file {target} --rollback-file {rollback}\n"
                for source, target, rollback in zip(self.sources, self.targets, self.rollbacks, strict=True)
            ]
        text, number = "".join(lines), len(lines)
        if (
            text.isascii()
            and text.count(" ") == number * spaces
            and text.count("\n") == number
            and not any(blank in text for blank in _RARE_BLANKS)
        ):
            return text
        return "".join([f"{_format(move)}\n" for move in self.moves()])


def format_record(moves: Iterable[Move], copies: Iterable[Copies] = ()) -> bytes:
    """The text of a record, one line for each move."""
    lines = [f"{_format(move)}\n" for move in moves]
    return os.fsencode("".join([*lines, *(one.text() for one in copies)]))


def _format(move: Move) -> str:
    """The line of a move, without its end."""
    line, spaces = _line(f"{_HEAD}{move.kind}", move)
    if not (line.isascii() and line.isprintable() and line.count(" ") == spaces):
        paths = f"{move.source}{move.target or ''}{move.rollback or ''}{move.published or ''}"
        if _odd(paths):
            line, _ = _line(f"{_HEAD}{move.kind} --encoding percent", _quoted(move))
    return line


def _line(head: str, move: Move) -> tuple[str, int]:
    """A line without its end, and the spaces it has where paths and key have none."""
    line, spaces = f"{head} --message-file {move.source}", _HEAD_SPACES + 2
    if move.target is not None:
        line, spaces = f"{line} --commit-file {move.target}", spaces + 2
    if move.rollback is not None:
        line, spaces = f"{line} --rollback-file {move.rollback}", spaces + 2
    if move.published is not None:
        line, spaces = f"{line} --published {move.published}", spaces + 2
    return line, spaces


def _quoted(move: Move) -> Move:
    """The move with its paths and key in percent-encoding."""
    texts = (move.source, move.target, move.rollback, move.published)
    source, *others = (None if text is None else _quote(text) for text in texts)
    assert source is not None
    return Move(move.kind, source, *others)


def _quote(text: str) -> str:
    return quote_from_bytes(os.fsencode(text), safe="/:.-_~@=&")


def parse_record(data: bytes) -> list[Move]:
    """Reads a record; options in any order, as the protocol allows.

    Raises:
        ProviderError: a line is none of a transaction log; nothing may be done with such a record.
    """
    moves = []
    for number, line in enumerate(os.fsdecode(data).split("\n"), 1):
        if not line.strip():
            continue
        options = _options(line, number)
        kind, source = options.get("type"), options.get("message-file")
        if kind not in ("sent", "received") or not source:
            raise ProviderError(
                f"line {number} of a transaction record has no type or no message file: {line!r}"
            )
        for path in (source, options.get("commit-file"), options.get("rollback-file")):
            if path is not None and (path.startswith("/") or ".." in path.split("/")):
                raise ProviderError(f"line {number} of a transaction record leaves the root: {path!r}")
            if path is not None and (not path or path.endswith("/") or "\0" in path):
                raise ProviderError(f"line {number} of a transaction record has no file name: {path!r}")
        moves.append(
            Move(
                kind,
                source,
                options.get("commit-file"),
                options.get("rollback-file"),
                options.get("published"),
            )
        )
    return moves


def published_keys(data: bytes) -> list[str]:
    """The keys for the duplicate window in a record; cheaper than reading all of it."""
    keys = []
    for line in os.fsdecode(data).split("\n"):
        _, found, key = line.partition(" --published ")
        if found:
            key = key.partition(" --")[0]
            encoded = " --encoding percent" in line
            keys.append(os.fsdecode(unquote_to_bytes(key)) if encoded else key)
    return keys


def _options(line: str, number: int) -> dict[str, str]:
    head, *parts = line.split(" --")
    if head != "dropboxmq":
        raise ProviderError(
            f"line {number} of a transaction record does not begin with 'dropboxmq': {line!r}"
        )
    options = {}
    for part in parts:
        name, _, value = part.partition(" ")
        options[name] = value
    if options.pop("encoding", None) == "percent":
        return {
            name: os.fsdecode(unquote_to_bytes(value)) if name not in ("type", "creator-version") else value
            for name, value in options.items()
        }
    return options


def roll_forward(
    layout: Layout, moves: Sequence[tuple[str, str | None]], fit: Callable[[str], str]
) -> set[str]:
    """Makes every move that is not made yet; returns the folders that changed.

    Args:
        layout: of the root.
        moves: source and target of each, relative to the root; a target that is None means delete.
        fit: shortens names that grow too long because theirs is taken (``HeaderStore.fit``).

    Raises:
        ProviderError: a file cannot be moved; the record stays and is finished later.
    """
    root = layout.root + "/"
    folders: set[str] = set()
    with files.OpenFolders(root) as opened:
        has_many = len(moves) >= files.MANY * len({source.rpartition("/")[0] for source, _ in moves})
        for source, target in moves:
            try:
                faults.point("settle.move")
                if target is None:
                    files.remove(root + source)
                elif (has_many and opened.rename_new(source, target)) or _rename(layout, source, target, fit):
                    folders.add(target.rpartition("/")[0])
            except OSError as error:
                raise ProviderError(
                    f"cannot move a settled message: {error.strerror}: "
                    f"{error.filename!r} -> {error.filename2!r}; "
                    "it is finished as soon as that can be written"
                ) from error
    return {root + folder for folder in folders}


def _rename(layout: Layout, old: str, new: str, fit: Callable[[str], str]) -> bool:
    """Moves a file, whatever is in the way; False where it is removed, because its target has ended."""
    source, target = f"{layout.root}/{old}", f"{layout.root}/{new}"
    try:
        files.rename_new(source, target)
    except FileNotFoundError:
        if os.path.lexists(source):  # else: moved before the crash
            if not layout.make_parent(target):  # what it was sent to has ended, its messages too
                files.remove(source)
                return False
            files.rename_to_free_name(source, target, fit)
    except FileExistsError:
        files.rename_to_free_name(source, target, fit)
    return True
