"""The delayed messages of a channel: files in ``delayed/``, named ``<due>.<name>``.

``due`` is in milliseconds since 1970. When the time has come, a reader renames the file to ``target/<name>``.
"""

from __future__ import annotations

import logging
import math
import os
import time
from typing import Final

from connector import faults
from connector.stores.dropbox import codec, files
from connector.stores.dropbox.headers import HeaderStore
from connector.stores.dropbox.layout import QueueFolders, RootLayout

_log: Final = logging.getLogger("connector.dropbox")
_PAUSE: Final = 10.0
"""Seconds after which a folder is tried again that could not be read or changed."""
_COST_FACTOR: Final = 20.0
"""The next listing comes after so many times the duration of the last one, so that listings cost 5 %."""
_CHEAP: Final = 0.002
"""Seconds of a listing that is repeated without a pause."""
_CLOCK_TICK_NS: Final = 10_000_000
"""A directory changed so recently may change again without a new time stamp (coarse kernel clocks)."""


def room_for(due: int) -> int:
    """Returns the longest file name in bytes, without the time before the name."""
    return codec.NAME_MAX - len(str(due)) - 1 if due else codec.NAME_MAX


def place_of(folders: QueueFolders, name: str, due: int) -> str:
    """Returns the path, relative to the root, at which a message waits.

    Args:
        name: of the message, at most :func:`room_for` long.
        due: milliseconds since 1970. 0 = the message is not delayed.
    """
    if not due:
        return f"{folders.relative_target}/{name}"
    return f"{folders.relative_delayed}/{due}.{name}"


def due_and_name(path: str) -> tuple[int, str]:
    """Returns the time and the name of a message in a path of :func:`place_of`."""
    folder, _, name = path.rpartition("/")
    return files.split_due(name) if folder.endswith(f"/{files.DELAYED}") else (0, name)


class DelayedFiles:
    """Looks after the folder ``delayed/`` of a reader.

    The sorted names are kept until the folder changes, so that messages that wait cost one ``stat``. A folder
    that cannot be read or changed is named once in the log, and looked at again after a while.
    """

    def __init__(self, folders: QueueFolders, layout: RootLayout, headers: HeaderStore) -> None:
        self.folder = folders.delayed
        self._target = folders.target
        self._layout = layout
        self._headers = headers
        self._names: list[tuple[int, str]] = []
        """The last is due first."""
        self._changed_ns = -1
        self._again_at = -math.inf
        self._is_named = False

    def due_in(self) -> float:
        """Returns the seconds until the next message is due. Infinity = none waits.

        If the folder cannot be listed yet, not more than the seconds until it can be.
        """
        try:
            is_listed = self._look()
        except OSError as error:
            self._leave(error)
            is_listed = False
        left = math.inf if is_listed else max(0.0, self._again_at - time.monotonic())
        return min(left, self._names[-1][0] / 1000 - time.time()) if self._names else left

    def move_due(self) -> bool:
        """Moves the messages that are due to ``target/``. Returns whether one was moved."""
        has_moved = False
        try:
            self._look()
            while self._names and self._names[-1][0] <= time.time() * 1000:
                due, name = self._names.pop()
                if self._move(f"{self.folder}/{due}.{name}", f"{self._target}/{name}"):
                    faults.point("delayed.move")
                    has_moved, self._is_named = True, False
        except OSError as error:
            self._leave(error)
        return has_moved

    def _move(self, source: str, target: str) -> bool:
        """Moves a message. Returns False if another client was faster, or the channel has ended."""
        try:
            files.rename_to_free_name(source, target, self._headers.fit)
        except FileNotFoundError:
            if not os.path.lexists(source) or not self._layout.make_parent(target):
                return False
            files.rename_to_free_name(source, target, self._headers.fit)
        return True

    def _leave(self, error: OSError) -> None:
        self._names, self._changed_ns = [], -1
        self._again_at = time.monotonic() + _PAUSE
        if not self._is_named:
            self._is_named = True
            reason = f"{error.strerror}; give this user the right to read and write there, or make room"
            _log.warning("delayed messages stay delayed", extra={"directory": self.folder, "reason": reason})

    def _look(self) -> bool:
        """Lists the folder if it has changed. Returns False if it is too soon for that.

        Raises:
            OSError: the folder cannot be read.
        """
        try:
            changed_ns = os.stat(self.folder).st_mtime_ns
        except FileNotFoundError:
            changed_ns = 0
        started = time.monotonic()
        if changed_ns == self._changed_ns:
            return True
        if started < self._again_at:
            return False
        now_ns = time.time_ns()
        found = [files.split_due(name) for name in files.names_in(self.folder)]
        self._names = sorted((one for one in found if one[0]), reverse=True)
        # A time stamp this fresh may not tell the next change apart.
        self._changed_ns = changed_ns if now_ns - changed_ns > _CLOCK_TICK_NS else -1
        cost = time.monotonic() - started
        self._again_at = started + (cost if cost < _CHEAP else cost * (1 + _COST_FACTOR))
        return True
