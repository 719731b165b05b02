"""Files that stay in a message directory: no messages, and messages that cannot be taken now.

The log names each such file once. Many files at a time are one line with their number, so that a sender who
puts thousands of directories into a queue does not flood the log.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable
from typing import Final, NamedTuple

_log = logging.getLogger("connector.dropbox")

_NAMED: Final = 3
"""Files of one kind that are named in lines of their own, at a time."""
_FREE: Final = 10
"""Lines of one kind before the next line waits for :data:`_PAUSE`."""
_PAUSE: Final = 60.0
_FIRST_RETRY: Final = 1.0
_LAST_RETRY: Final = 30.0


class LeftFiles:
    """The files that one reader leaves in a folder."""

    def __init__(self, folder: str) -> None:
        self._not_messages = _Report(
            folder,
            "a file in a message directory is not a message and stays there",
            "files in a message directory are not messages and stay there",
            "kind",
        )
        self._stuck = _Report(
            folder,
            "a message cannot be taken now and stays in its directory",
            "messages cannot be taken now and stay in their directory",
            "reason",
        )
        self._folder = folder
        self._retries: dict[str, _Retry] = {}
        self._closed: _Retry | None = None
        self._obstacle = "", ""

    def add_no_message(self, entry: os.DirEntry[str]) -> None:
        """Notes an entry of the folder that is not a message."""
        if not self._not_messages.knows(entry.name):
            self._not_messages.add(entry.name, _kind(entry))

    def add_stuck(self, name: str, reason: str) -> None:
        """Notes a message that cannot be taken now. The next attempt waits, each time twice as long."""
        self._retries[name] = _Retry.after(self._retries.get(name))
        self._stuck.add(name, reason)

    @property
    def is_closed(self) -> bool:
        """Whether no message of the folder is to be tried now."""
        return self._closed is not None and time.monotonic() < self._closed.at

    @property
    def obstacle(self) -> str:
        """Why no message of the folder can be taken now. Empty = it can be, as far as known."""
        if self._closed is None or os.access(self._obstacle[0], os.W_OK | os.X_OK, effective_ids=True):
            return ""
        return self._obstacle[1]

    def close(self, folder: str, number: int, reason: str) -> None:
        """Notes that no message of the folder can be taken now. The next attempt waits as for one message.

        Args:
            folder: that this user may not change: this one, or the one that messages are moved to.
            number: of the messages that wait there.
        """
        if self._closed is None:
            fields = {"directory": self._folder, "number": number, "reason": reason}
            _log.warning("messages cannot be taken now and stay in their directory", extra=fields)
        self._closed, self._obstacle = _Retry.after(self._closed), (folder, reason)

    def open(self) -> None:
        """Notes that a message of the folder was taken."""
        self._closed = None

    def without_stuck(self, names: list[str]) -> list[str]:
        """Returns the names without messages whose next attempt waits. Forgets messages that are gone."""
        if not self._retries:
            return names
        now = time.monotonic()
        retries = self._retries
        self._retries = {name: retries[name] for name in names if name in retries}
        self._stuck.keep(self._retries)
        return [name for name in names if name not in self._retries or self._retries[name].at <= now]

    def forget(self, names: Iterable[str]) -> None:
        """Forgets entries that are no message and are gone, except ``names``."""
        self._not_messages.keep(frozenset(names))

    def report(self) -> None:
        """Logs the files that were added and not yet logged."""
        self._not_messages.log()
        self._stuck.log()


class _Retry(NamedTuple):
    """The time of the next attempt, and the seconds between the attempt after that and this one."""

    at: float
    pause: float

    @classmethod
    def after(cls, last: _Retry | None) -> _Retry:
        """Returns the next attempt after a failed attempt."""
        pause = _FIRST_RETRY if last is None else last.pause
        return cls(time.monotonic() + pause, min(2 * pause, _LAST_RETRY))


class _Report:
    """Names files in the log, each once.

    Args:
        one: text of a line about one file.
        many: text of a line about several files.
        field: name of the field with the details of a file.
    """

    def __init__(self, folder: str, one: str, many: str, field: str) -> None:
        self._folder = folder
        self._one = one
        self._many = many
        self._field = field
        self._known: set[str] = set()
        self._waiting: dict[str, str] = {}
        self._lines = 0
        self._next = float("-inf")

    def knows(self, name: str) -> bool:
        return name in self._known

    def add(self, name: str, details: str) -> None:
        if name not in self._known:
            self._known.add(name)
            self._waiting[name] = details

    def keep(self, names: Iterable[str]) -> None:
        """Forgets all other names. A file that comes again is named again."""
        self._known.intersection_update(names)

    def log(self) -> None:
        if not self._waiting or time.monotonic() < self._next:
            return
        waiting, self._waiting = self._waiting, {}
        if len(waiting) <= _NAMED:
            for name, details in waiting.items():
                _log.warning(self._one, extra={"file": self._path(name), self._field: details})
            self._lines += len(waiting)
        else:
            name, details = next(iter(waiting.items()))
            _log.warning(
                self._many,
                extra={
                    "directory": self._folder,
                    "number": len(waiting),
                    "file": self._path(name),
                    self._field: details,
                },
            )
            self._lines += 1
        if self._lines >= _FREE:
            self._next = time.monotonic() + _PAUSE

    def _path(self, name: str) -> str:
        return ascii(f"{self._folder}/{name}")


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_dir(follow_symlinks=False):
        return "a directory"
    return "a symbolic link" if entry.is_symlink() else "no regular file"
