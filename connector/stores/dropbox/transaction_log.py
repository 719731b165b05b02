"""The transaction log: one text record for each commit, one line for each message.

A record is written to ``associated/`` and synced. Its rename into ``committing/`` is the commit point. Then
every move of the record is made, and the record goes to ``committed/`` or is removed. Each move is
idempotent, so any client can finish a record in ``committing/``, repeatedly. A record in ``associated/`` of a
dead client never happened.

A line::

    dropboxmq --creator-version 1.1 --type received --message-file P --commit-file P --rollback-file P

``sent`` moves a prepared message to its queue, ``received`` a claimed message out of its queue. No commit
file means delete. Paths are relative to the root. Two options are extensions of this provider. ``--published
KEY`` is the key that the duplicate window remembers. Several keys are lines of it. ``--encoding percent``
marks a path or key with white space.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

from connector import faults
from connector.errors import ProviderError
from connector.stores.dropbox import files
from connector.stores.dropbox.layout import WORKING, RootLayout

LEFT: Final = "-left"
"""End of the name of a record in ``committing/`` whose moves cannot be made now, because of their files."""

_HEAD: Final = "dropboxmq --creator-version 1.1 --type "
_HEAD_SPACES: Final = _HEAD.count(" ")
"""White space of ASCII beside the two kinds that each line has."""
_odd = re.compile(r"\s|[\ud800-\udfff]").search


@dataclass(slots=True)
class FileMove:
    """A line of a record. Paths are relative to the root.

    Args:
        kind: ``sent`` or ``received``.
        target: path after a commit. None = the file is deleted.
        rollback: path after a rollback. None = the file is deleted.
        published: key for the duplicate window.
    """

    kind: str
    source: str
    target: str | None
    rollback: str | None = None
    published: str | None = None


@dataclass(slots=True)
class Copies:
    """Claimed messages that become copies: cheap columns of paths, without a :class:`FileMove` for each.

    Args:
        sources, targets, rollbacks: paths of each message, as those of a :class:`FileMove`.
        published: keys for the duplicate window, one for each message or none at all.
    """

    sources: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    rollbacks: list[str] = field(default_factory=list)
    published: list[str] = field(default_factory=list)

    def moves(self) -> list[FileMove]:
        """Returns a move for each message."""
        keys: Sequence[str | None] = self.published or [None] * len(self.sources)
        columns = zip(self.sources, self.targets, self.rollbacks, keys, strict=True)
        return [FileMove("received", *paths) for paths in columns]

    def text(self) -> str:
        """Returns the lines of the record, each with a newline."""
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
            and text.replace("\n", "").isprintable()  # no blank that separates words, as a tabulator does
        ):
            return text
        return "".join([f"{_format(move)}\n" for move in self.moves()])


def format_record(moves: Iterable[FileMove], copies: Iterable[Copies] = ()) -> bytes:
    """Returns the text of a record, one line for each move."""
    lines = []
    for move in moves:
        lines.append(f"{_format(move)}\n")
    for one in copies:
        lines.append(one.text())
    return os.fsencode("".join(lines))


def _format(move: FileMove) -> str:
    """Returns the line of a move, without a newline."""
    line, spaces = _line(f"{_HEAD}{move.kind}", move)
    if not (line.isascii() and line.isprintable() and line.count(" ") == spaces):
        paths = f"{move.source}{move.target or ''}{move.rollback or ''}{move.published or ''}"
        if _odd(paths):
            line, _ = _line(f"{_HEAD}{move.kind} --encoding percent", _quote_move(move))
    return line


def _line(head: str, move: FileMove) -> tuple[str, int]:
    """Returns a line without a newline, and its number of spaces if paths and key have none."""
    line, spaces = f"{head} --message-file {move.source}", _HEAD_SPACES + 2
    if move.target is not None:
        line, spaces = f"{line} --commit-file {move.target}", spaces + 2
    if move.rollback is not None:
        line, spaces = f"{line} --rollback-file {move.rollback}", spaces + 2
    if move.published is not None:
        line, spaces = f"{line} --published {move.published}", spaces + 2
    return line, spaces


def _quote_move(move: FileMove) -> FileMove:
    """Returns the move with paths and key in percent-encoding."""
    texts = (move.source, move.target, move.rollback, move.published)
    source, *others = (None if text is None else _quote(text) for text in texts)
    assert source is not None
    return FileMove(move.kind, source, *others)


def _quote(text: str) -> str:
    return quote_from_bytes(os.fsencode(text), safe="/:.-_~@=&")


def parse_record(data: bytes) -> list[FileMove]:
    """Reads a record, with options in any order, as the protocol allows.

    Raises:
        ProviderError: a line does not belong to a transaction log. Such a record must not be used.
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
            FileMove(
                kind,
                source,
                options.get("commit-file"),
                options.get("rollback-file"),
                options.get("published"),
            )
        )
    return moves


def published_keys(data: bytes) -> list[str]:
    """Returns the keys for the duplicate window in a record. Cheaper than reading the whole record."""
    keys: list[str] = []
    for line in os.fsdecode(data).split("\n"):
        _, found, key = line.partition(" --published ")
        if found:
            key = key.partition(" --")[0]
            encoded = " --encoding percent" in line
            keys += os.fsdecode(unquote_to_bytes(key)).split("\n") if encoded else (key,)
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


class Left(NamedTuple):
    """A move that cannot be made now, because of its file.

    Args:
        source, target: of the move, relative to the root. A target None means delete.
    """

    source: str
    target: str | None
    reason: str


def roll_forward(
    layout: RootLayout,
    moves: Sequence[tuple[str, str | None]],
    fit: Callable[[str, str], str],
    left: list[Left] | None = None,
) -> set[str]:
    """Makes every move that is not made yet. Returns the changed folders.

    Args:
        moves: source and target of each, relative to the root. A target None means delete.
        fit: shortens a name that grows too long because the target name is taken (``HeaderStore.fit``).
        left: gets the moves that cannot be made because of their file, which hold up no other move. None =
            each is an error.

    Raises:
        ProviderError: files cannot be moved. The record stays and is finished later.
    """
    root = layout.root + "/"
    folders: set[str] = set()
    with files.OpenFolders(root) as opened:
        has_many = len(moves) >= files.MANY * len({source.rpartition("/")[0] for source, _ in moves})
        for source, target in moves:
            try:
                faults.point("settle.move")
                if target is None:
                    if _remove(layout, source):
                        folders.add(source.rpartition("/")[0])
                elif (has_many and opened.rename_new(source, target)) or _rename(layout, source, target, fit):
                    folders.add(target.rpartition("/")[0])
            except OSError as error:
                if left is not None and files.is_stuck(error, layout.clients):
                    left.append(Left(source, target, error.strerror or ""))
                    continue
                raise ProviderError(
                    f"cannot move a settled message: {error.strerror}: "
                    f"{error.filename!r} -> {error.filename2!r}; "
                    "the message is moved as soon as that path can be written"
                ) from error
    return {root + folder for folder in folders}


def sources_left(layout: RootLayout, end: str = LEFT) -> frozenset[str]:
    """Returns the files of settled messages that could not be moved, relative to the root.

    Args:
        end: of the names of records. Empty = also the files of records that are being finished.
    """
    found: set[str] = set()
    for name in files.names_in(layout.committing):
        if name.endswith(end):
            with contextlib.suppress(FileNotFoundError), open(f"{layout.committing}/{name}", "rb") as record:
                found.update(move.source for move in parse_record(record.read()))
    return frozenset(found)


def _remove(layout: RootLayout, path: str) -> bool:
    """Removes a file. Returns whether it was a message, which must not be there again after a loss of power.

    A sidecar that this user may not remove stays, because no message needs it any more. A prepared message
    that is there again is removed with its client.
    """
    folder = os.path.dirname(layout.absolute(path))
    try:
        files.remove(layout.absolute(path))
    except OSError as error:
        if not (folder == layout.headers and files.is_of_one_file(error, layout.clients)):
            raise
    return folder != layout.headers and os.path.basename(folder) != WORKING


def _rename(layout: RootLayout, old: str, new: str, fit: Callable[[str, str], str]) -> bool:
    """Moves a file, also if the target name is taken.

    False if the target has ended and the file is removed.
    """
    source, target = f"{layout.root}/{old}", f"{layout.root}/{new}"
    try:
        files.rename_new(source, target)
    except FileNotFoundError:
        if os.path.lexists(source):  # else: moved before the crash
            if not layout.make_parent(target):  # the target has ended, and its messages too
                files.remove(source)
                return False
            files.rename_to_free_name(source, target, fit)
    except FileExistsError:
        files.rename_to_free_name(source, target, fit)
    return True
