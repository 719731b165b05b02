"""Watches the disk of the messages. While less than ``min_free`` is free, inputs are not claimed."""

from __future__ import annotations

import logging
import math
import os
import shutil
import time
from collections.abc import Callable
from typing import Final

from connector.limits.free_space import MinFree

_log = logging.getLogger("connector.events")
_FULL: Final = "the disk is almost full, so nothing is claimed"
_READ_ONLY: Final = "the disk is read-only, so nothing is claimed"
_INTERVAL: Final = 1.0
"""Seconds between two looks while the disk is almost full. So a disk at the limit does not fill the log."""


class FreeDisk:
    """The disk of a local provider, over all connections. For one thread.

    Args:
        path: on the disk. None = the provider has no disk here.
        least: min_free.
        clock: returns monotonic seconds.
    """

    def __init__(self, path: str | None, least: MinFree, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._least = least
        self._clock = clock
        self._look_at = clock()
        self._shortage = ""

    def shortage(self) -> str:
        """Returns why nothing may be claimed, or an empty text. Logs a change."""
        now = self._clock()
        if self._path is None or (self._shortage and now < self._look_at):
            return self._shortage
        self._look_at = now + _INTERVAL
        before, self._shortage = self._shortage, shortage_of(self._path, self._least)
        if self._shortage and not before:
            text = _READ_ONLY if is_read_only(self._path) else _FULL
            _log.error(text, extra={"reason": self._shortage})
        elif before and not self._shortage:
            _log.info("the disk has room again")
        return self._shortage

    @property
    def is_read_only(self) -> bool:
        """Whether nothing can be written on the disk, so that recovery has to wait, too."""
        return bool(self.shortage()) and is_read_only(self._path)


def shortage_of(path: str | None, least: MinFree) -> str:
    """Returns why nothing may be claimed: the disk of a path is read-only, or less than ``least`` is free.

    Empty = messages may be claimed, or it is not known.
    """
    if is_read_only(path):
        return f"the file system of {path} is read-only"
    try:
        usage = None if path is None else shutil.disk_usage(path)
    except OSError:
        usage = None  # nothing is there yet, or the provider says what is wrong
    if usage is None or usage.free >= (wanted := least_free(least, usage.total)):
        return ""
    free, must_be = (_tenth(usage.free, math.floor), _tenth(wanted, math.ceil))  # never two equal numbers
    return f"{free} are free on the disk of {path}, less than min_free ({must_be})"


def least_free(least: MinFree, total: int) -> int:
    """Returns the bytes that have to be free on a disk of ``total`` bytes."""
    return max(least.size, int(total * least.percent / 100))


def is_read_only(path: str | None) -> bool:
    """Whether the file system of a path is read-only. False if that is not known."""
    try:
        return path is not None and bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _tenth(number: int, rounded: Callable[[float], int]) -> str:
    return f"{rounded(number * 10 / (1 << 20)) / 10:,.1f} MiB"
