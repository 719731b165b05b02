"""The waiting messages of a ``target/`` folder, in the order of taking.

A directory has no order, so priority and age need the whole directory. One sorted listing serves many polls.
The listing is renewed after a second, or after 20 times its own cost, whichever is longer. So the cost of a
poll depends on the messages taken, not on those that wait. A late message of high priority waits at most that
long.
"""

from __future__ import annotations

import os
import re
import time
from bisect import bisect_right
from typing import Final

from connector.errors import ProviderError
from connector.messaging.message import DEFAULT_PRIORITY, order_key
from connector.stores.dropbox import codec
from connector.stores.dropbox.left_files import LeftFiles

_MAX_AGE: Final = 1.0
_COST_FACTOR: Final = 20.0
_CLOCK_TICK_NS: Final = 10_000_000
"""A directory changed so recently may change again without a new time stamp (coarse kernel clocks)."""

sorts_as_text: Final = re.compile(r"[0-9]\.[0-9]{16}-[^.]*\.[MBSPOT](?:\.|\Z)").match
"""A single digit of priority and an id with a time. Such names sort as text."""


def rank(name: str) -> tuple[int, int | None]:
    """Returns the priority in a file name, and its time in microseconds since 1970. None = no time."""
    if sorts_as_text(name) is not None:
        return int(name[0]), int(name[2:18])
    fields = codec.split(name)
    if fields is None:
        return DEFAULT_PRIORITY, None
    return int(fields.priority), codec.timestamp_micros(fields.id)


def _by_digit(names: list[str]) -> list[str]:
    """Returns regular names in reverse order of taking: low priorities first, the youngest of each first."""
    names.sort()
    if names[0][0] == names[-1][0]:
        names.reverse()
        return names
    ordered = []
    start = 0
    while start < len(names):
        digit = names[start][0]
        end = bisect_right(names, digit, start, key=_first)
        ordered += names[start:end][::-1]
        start = end
    return ordered


def _first(name: str) -> str:
    return name[0]


class Listing:
    """The names in one ``target/``, the highest priority first, then the oldest.

    Only regular files are messages, and no dot names. Any other entry is left in place and reported once.
    So is a message that cannot be taken, which is tried again later.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._names: list[str] = []  # reversed: the next name is the last
        self._stale_at = float("-inf")
        self._changed_ns = -1
        self._was_empty = False
        self.ages: dict[str, int] = {}
        """The time of the last change of each file whose name has no time, in microseconds since 1970."""
        self._rejected: dict[str, int] = {}
        self._left: LeftFiles | None = None
        """None before something was left in the folder."""

    def next(self) -> str | None:
        """Returns the name to try next, None if no message waits.

        Raises:
            ProviderError: the folder cannot be read.
        """
        if self._left is not None and self._left.is_closed:
            return None
        if self._names:
            if time.monotonic() > self._stale_at:
                self._scan()
        elif self._may_have_changed():
            self._scan()
        return self._names.pop() if self._names else None

    def remove(self) -> None:
        """Makes the next call read the folder again, because a message came back."""
        self._stale_at = float("-inf")

    def reject(self, name: str, expiration: int) -> None:
        """Hides a name, until its expiration (milliseconds since 1970, 0 = never)."""
        self._rejected[name] = expiration

    def leave(self, name: str, reason: str) -> None:
        """Hides a message that cannot be taken now, for a while, and names the message once."""
        self._leaving().add_stuck(name, reason)

    def _leaving(self) -> LeftFiles:
        if self._left is None:
            self._left = LeftFiles(self._folder)
        return self._left

    @property
    def obstacle(self) -> str:
        """Why no message of the folder can be taken now. Empty = nothing is in the way."""
        return "" if self._left is None else self._left.obstacle

    def leave_all(self, folder: str, reason: str) -> None:
        """Returns no name for a while, because no message can be taken now."""
        self._leaving().close(folder, len(self._names) + 1, reason)
        self._names = []
        self._stale_at = float("-inf")

    def end_claims(self, *, taken: bool) -> None:
        """Names the messages that were left since the last call.

        Args:
            taken: whether a message of the folder was taken.
        """
        if self._left is not None:
            if taken:
                self._left.open()
            self._left.report()

    def has_news(self) -> bool:
        """Whether :meth:`next` may return a name."""
        if self._left is not None and self._left.is_closed:
            return False
        return bool(self._names) or self._may_have_changed()

    def _may_have_changed(self) -> bool:
        if time.monotonic() > self._stale_at:
            return True
        try:
            return os.stat(self._folder).st_mtime_ns != self._changed_ns
        except OSError:
            return True  # the scan names the cause

    def _scan(self) -> None:
        started = time.monotonic()
        wall_ns = time.time_ns()
        names: list[str] = []
        others: list[str] = []
        try:
            changed_ns = os.stat(self._folder).st_mtime_ns
            # An empty folder mostly stays empty, and a plain listing shows that at half the cost.
            if not self._was_empty or os.listdir(self._folder):
                with os.scandir(self._folder) as entries:
                    for entry in entries:
                        name = entry.name
                        if name[0] != "." and entry.is_file(follow_symlinks=False):
                            names.append(name)
                        elif name[0] != ".":
                            others.append(name)
                            self._leaving().add_no_message(entry)
        except FileNotFoundError:
            changed_ns = -1
        except OSError as error:
            raise ProviderError(
                f"cannot read {self._folder}: {error.strerror}; "
                "give this user the right to read and write there"
            ) from error
        # A time stamp this fresh may not tell the next change apart.
        self._changed_ns = changed_ns if wall_ns - changed_ns > _CLOCK_TICK_NS else -1
        self._was_empty = not names
        if self._rejected:
            names = self._without_rejected(names)
        if self._left is not None:
            self._left.forget(others)
            self._left.report()
            names = self._left.without_stuck(names)
        self._names = self._sort(names) if names else []
        ended = time.monotonic()
        self._stale_at = ended + max(_MAX_AGE, _COST_FACTOR * (ended - started))

    def _without_rejected(self, names: list[str]) -> list[str]:
        now = time.time_ns() // 1_000_000
        rejected = self._rejected
        self._rejected = {name: rejected[name] for name in names if name in rejected}
        kept = {name for name, expiration in self._rejected.items() if not 0 < expiration <= now}
        return [name for name in names if name not in kept]

    def _sort(self, names: list[str]) -> list[str]:
        """Returns the names in reverse order of taking."""
        if all(map(sorts_as_text, names)):
            self.ages.clear()
            return _by_digit(names)
        keys = []
        irregular = []
        for name in names:
            if sorts_as_text(name):
                keys.append((-int(name[0]), int(name[2:18]), name))
            else:
                irregular.append(name)
        ages = {}
        for name in irregular:
            priority, age = rank(name)
            if age is None:
                age = ages[name] = self.ages.get(name) or self._time_of_writing(name)
            keys.append(order_key(priority, age, name))
        self.ages = ages
        keys.sort(reverse=True)
        return [name for _, _, name in keys]

    def _time_of_writing(self, name: str) -> int:
        """Returns the time of writing of a file whose name has no time, in microseconds since 1970."""
        try:
            return os.lstat(f"{self._folder}/{name}").st_mtime_ns // 1000
        except OSError:
            return 0
