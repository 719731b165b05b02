"""inotify(7) through the C library: the kernel tells of what happens in directories.

Only what happens on this machine is told (see :mod:`connector.state.file_systems`).
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
"""What puts a message there. Not the making of a file: it has no content yet."""

_OVERFLOW: Final = 0x4000
_ISDIR: Final = 0x4000_0000
_HEAD: Final = struct.Struct("iIII")
_BUFFER: Final = 1 << 16
_libc: Final = ctypes.CDLL(None, use_errno=True)


class Event(NamedTuple):
    """One thing that has happened.

    Args:
        watch: in which directory; -1 where events were lost.
        name: of the file; empty where it is none.
    """

    watch: int
    name: str


def exists() -> bool:
    """Whether this system has inotify."""
    return hasattr(_libc, "inotify_init1")


class Inotify:
    """One instance.

    Raises:
        OSError: EMFILE, where this user has too many of them or the process too many files.
    """

    def __init__(self) -> None:
        self.descriptor = _check(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def watch(self, path: str) -> int:
        """Watches a directory; the same number where that is watched already.

        Raises:
            OSError: ENOSPC, where this user watches too much; or there is no such directory.
        """
        return _check(_libc.inotify_add_watch(self.descriptor, os.fsencode(path), _ARRIVALS), path)

    def forget(self, watch: int) -> None:
        """Watches a directory no more; one that is gone is not watched anyway."""
        _libc.inotify_rm_watch(self.descriptor, watch)

    def read(self) -> Iterator[Event]:
        """What has happened until now, without waiting: files that came, and what was lost."""
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
                    yield Event(watch, os.fsdecode(name))

    def close(self) -> None:
        os.close(self.descriptor)


def _check(result: int, path: str | None = None) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result
