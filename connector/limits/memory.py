"""The memory of a runner: its limit, and when the runner is replaced."""

from __future__ import annotations

import os
import resource
import time
from contextlib import suppress
from typing import Final

_OOM_SCORE: Final = 500
"""Makes the kernel end a runner before it ends the adapter's driver, Java or a provider."""
_SHARE: Final = 0.75
"""The part of its memory that a runner may keep from one event to the next."""
_PAUSE: Final = 0.01
"""Seconds between two looks at the memory."""
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class WorkerMemory:
    """The memory of this process, which is a runner.

    The limit is one of the kernel (RLIMIT_DATA). An allocation beyond it fails, in Python with MemoryError.
    Shared memory and files that are mapped do not count.

    Args:
        limit: bytes. None = no limit.
    """

    def __init__(self, limit: int | None) -> None:
        self._most = None if limit is None else int(limit * _SHARE)
        self._next_look = 0.0
        self._is_full = False
        with suppress(OSError), open("/proc/self/oom_score_adj", "r+b", buffering=0) as file:
            if int(file.read()) < _OOM_SCORE:
                file.write(b"%d" % _OOM_SCORE)
        if limit is None:
            return
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard == resource.RLIM_INFINITY or limit < hard:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))

    def is_full(self) -> bool:
        """Whether this process keeps so much memory that a new process should go on."""
        if self._most is None or self._is_full or (now := time.monotonic()) < self._next_look:
            return self._is_full
        self._next_look = now + _PAUSE
        self._is_full = resident_memory() > self._most
        return self._is_full


def data_memory() -> int:
    """Returns the bytes of this process that count for the limit."""
    with open("/proc/self/statm", "rb", buffering=0) as file:
        return int(file.read().split()[5]) * _PAGE


def resident_memory() -> int:
    """Returns the bytes of this process that are in memory."""
    with open("/proc/self/statm", "rb", buffering=0) as file:
        return int(file.read().split()[1]) * _PAGE
