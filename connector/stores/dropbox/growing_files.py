"""Files that a partner writes straight into a message directory, and that may still grow.

A file is complete when two looks have seen the same inode, size, mtime and ctime, and ``min_age`` lies
between the looks by the monotonic clock of this process. Nothing is concluded from the age of a time stamp,
which a partner may keep.
"""

from __future__ import annotations

import math
import os
import time
from typing import Final, NamedTuple

_LEAST: Final = 0.02
"""Shortest seconds until the next look."""


class _Look(NamedTuple):
    """The state of a file, and since when it has not changed, in monotonic seconds."""

    state: tuple[int, int, int, int]
    since: float
    is_complete: bool = False


class GrowingFiles:
    """What one reader has seen of the files in a folder.

    Args:
        min_age: seconds between the two looks.
    """

    def __init__(self, folder: str, min_age: float) -> None:
        self._folder = folder
        self._min_age = min_age
        self._looks: dict[str, _Look] = {}
        self._next = math.inf

    def complete(self, names: list[str]) -> list[str]:
        """Looks at all files of the folder. Returns the names of those that are complete."""
        before, self._looks = self._looks, {}
        self._next = math.inf
        for name in names:
            look = self._look(name, before.get(name))
            if look is None:
                continue
            self._looks[name] = look
            if not look.is_complete:
                self._next = min(self._next, look.since + self._min_age)
        return [name for name in names if name in self._looks and self._looks[name].is_complete]

    def _look(self, name: str, before: _Look | None) -> _Look | None:
        """Returns a look at a file. None = the file is gone."""
        began = time.monotonic()
        state = self._state(name)
        if state is None:
            return None
        if before is None or before.state != state:
            return _Look(state, time.monotonic())
        return before._replace(is_complete=before.is_complete or began - before.since >= self._min_age)

    def _state(self, name: str) -> tuple[int, int, int, int] | None:
        try:
            status = os.lstat(f"{self._folder}/{name}")
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def has_changed(self, name: str) -> bool:
        """Whether a complete file has changed. It then counts as seen for the first time."""
        before = self._looks.get(name)
        state = self._state(name)
        if before is not None and state == before.state:
            return False
        if state is None:
            self._looks.pop(name, None)
        else:
            now = time.monotonic()
            self._looks[name] = _Look(state, now)
            self._next = min(self._next, now + self._min_age)
        return True

    def due_in(self) -> float:
        """Returns the seconds until the next look may find a file complete. Infinity = all are."""
        return max(self._next - time.monotonic(), 0.0)

    @property
    def settles_in(self) -> float:
        """Works like :meth:`due_in`, but is never 0, so that nobody looks without a pause."""
        return max(self.due_in(), _LEAST)
