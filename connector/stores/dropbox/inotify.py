"""inotify(7) through the C library: the kernel reports events in directories.

The kernel reports only events on this machine (see :mod:`connector.state.file_systems`).
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

_CLOSE_WRITE: Final = 0x8
_MOVED_TO: Final = 0x80
_ONLYDIR: Final = 0x0100_0000
_ARRIVALS: Final = _CLOSE_WRITE | _MOVED_TO | _ONLYDIR
"""Events that put a message into a directory. Not the creation of a file, which has no content yet."""

_OVERFLOW: Final = 0x4000
_ISDIR: Final = 0x4000_0000
_HEAD: Final = struct.Struct("iIII")
_BUFFER: Final = 1 << 16
_libc: Final = ctypes.CDLL(None, use_errno=True)


class InotifyEvent(NamedTuple):
    """A single event.

    Args:
        watch: number of the directory. -1 = events were lost.
        name: of the file. Empty = no file.
    """

    watch: int
    name: str


def exists() -> bool:
    """Whether this system has inotify."""
    return hasattr(_libc, "inotify_init1")


class Inotify:
    """An instance of inotify.

    Raises:
        OSError: EMFILE, if this user has too many instances or the process too many files.
    """

    def __init__(self) -> None:
        self.descriptor = _check(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def watch(self, path: str) -> int:
        """Watches a directory. Returns the same number if the directory is watched already.

        Raises:
            OSError: ENOSPC, if this user watches too much, or there is no such directory.
        """
        return _check(_libc.inotify_add_watch(self.descriptor, os.fsencode(path), _ARRIVALS), path)

    def remove_watch(self, watch: int) -> None:
        """Stops watching a directory. The watch of a removed directory has ended already."""
        _libc.inotify_rm_watch(self.descriptor, watch)

    def read(self) -> Iterator[InotifyEvent]:
        """Yields the events until now, without waiting: arrived files, and lost events."""
        while True:
            try:
                data = os.read(self.descriptor, _BUFFER)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                watch, mask, _, length = _HEAD.unpack_from(data, at)
                at += _HEAD.size + length
                if mask & _OVERFLOW or (mask & _ARRIVALS and not mask & _ISDIR):
                    name = data[at - length : at].rstrip(b"\0")
                    yield InotifyEvent(watch, os.fsdecode(name))

    def close(self) -> None:
        os.close(self.descriptor)


def _check(result: int, path: str | None = None) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result
