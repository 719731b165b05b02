"""The history in a directory: one file for each writer and day, one line of JSON for each row.

::

    <directory>/history/<day>.<instance>.<host>

The processes of an instance on one host share a file. Each appends its lines with one write, so that no line
breaks into another. A line begins with a line end, too. So a line that a full disk has cut off spoils no
other line. Readers on other machines see the files of a shared directory, which a database in a file cannot
offer.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import quote

from connector import own_files
from connector.errors import ProviderError, remedy
from connector.messaging.history import History, HistoryRow, pattern_of, read_row, write_row
from connector.text.iso_time import iso_time

HISTORY: Final = "history"
"""The folder of the history."""
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d\.")
_LEAST_BYTES: Final = 1 << 12
_MOST_BYTES: Final = 1 << 20
"""Of the parts in which a text is searched."""
_DAY_SECONDS: Final = 86_400


class HistoryFiles(History):
    """The history in a directory.

    Args:
        instance: that appends rows. Empty = another program.
    """

    def __init__(self, directory: str, instance: str = "", *, durable: bool = True) -> None:
        self._directory = os.path.join(directory, HISTORY)
        self._day = -1
        """The number of the day since 1970 whose file is open."""
        self._descriptor = -1
        self._name = f"{quote(os.fsencode(instance), safe='')}.{quote(socket.gethostname(), safe='')}"
        self._durable = durable

    def append(self, rows: Sequence[HistoryRow], *, synced: bool = False) -> None:
        if not rows:
            return
        lines = b"".join([b"\n%b\n" % write_row(row) for row in rows])
        try:
            descriptor = self._open(rows[0].time)
            if os.write(descriptor, lines) != len(lines):
                raise OSError(0, "there is no room on the disk")
            if synced and self._durable:
                os.fdatasync(descriptor)
        except OSError as error:
            raise ProviderError(f"cannot write {self._directory}: {error.strerror}{remedy(error)}") from error

    def _open(self, seconds: float) -> int:
        day = int(seconds // _DAY_SECONDS)
        if day != self._day:
            self.close()
            path = os.path.join(self._directory, f"{_day_of(seconds)}.{self._name}")
            self._make()
            self._descriptor = os.open(
                path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, own_files.FILE
            )
            self._day = day
        return self._descriptor

    def _make(self) -> None:
        """Makes the directory, and the two above. A root that has gone, which has them, is not made anew."""
        application = os.path.dirname(self._directory)
        for path in (os.path.dirname(application), application, self._directory):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, own_files.DIRECTORY)

    def close(self) -> None:
        """Closes the file of the day. The next row opens a file. Repeatable."""
        descriptor, self._descriptor, self._day = self._descriptor, -1, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()

    def find(self, texts: Iterable[str] | None, since: float = 0.0) -> Iterator[HistoryRow]:
        patterns = None if texts is None else [pattern_of(text) for text in texts]
        first = _day_of(since)
        for name in self._names():
            if name[: len(first)] < first:
                continue
            try:
                with _content(os.path.join(self._directory, name)) as content:
                    for line in _lines(content, patterns):
                        row = read_row(line)
                        if row is not None and row.time >= since:
                            yield row
            except FileNotFoundError:  # removed meanwhile
                continue
            except OSError as error:
                raise ProviderError(f"cannot read {self._directory}: {error.strerror}") from error

    def prune(self, before: float) -> None:
        last = _day_of(before)
        for name in self._names():
            if name[: len(last)] < last:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(self._directory, name))

    def _names(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self._directory) if _DAY.match(name))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ProviderError(f"cannot read {self._directory}: {error.strerror}") from error


def _day_of(seconds: float) -> str:
    return iso_time(seconds)[: len("2026-01-31")]


@contextlib.contextmanager
def _content(path: str) -> Iterator[mmap.mmap | bytes]:
    """The content of a file. Memory holds only what is looked at."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield content


def _lines(content: mmap.mmap | bytes, patterns: Sequence[bytes] | None) -> Iterator[bytes]:
    """Yields the lines in which one of the patterns is. None = all lines."""
    begin = 0
    places = {pattern: _find(content, pattern, 0) for pattern in patterns or ()}
    while begin < len(content):
        if patterns is not None:
            places = {one: at for one, at in places.items() if at >= 0}
            if not places:
                return
            begin = content.rfind(b"\n", begin, min(places.values())) + 1 or begin
        end = content.find(b"\n", begin)
        end = len(content) if end < 0 else end
        yield content[begin:end]
        begin = end + 1
        places = {one: at if at >= begin else _find(content, one, begin) for one, at in places.items()}


def _find(content: mmap.mmap | bytes, pattern: bytes, begin: int) -> int:
    """Returns the first place of a pattern. -1 = there is none.

    Parts are copied, because other threads run between two of them, and because a search in bytes takes
    linear time. A search in a mmap does not, and callers and senders decide about both texts.
    """
    size = _LEAST_BYTES
    while begin < len(content):
        place = content[begin : begin + size + len(pattern) - 1].find(pattern)
        if place >= 0:
            return begin + place
        begin += size
        size = min(2 * size, _MOST_BYTES)
    return -1
