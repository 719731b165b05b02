"""The order in which processes write to a SQLite file.

SQLite lets one process write at a time, and has no queue of the others. Each of them sleeps, longer and
longer, and then looks again. So the process that has just written mostly writes again, and others starve.
Here the processes take turns. A process that wants to write waits for the gate, then for the turn. A
process that has just written finds the gate taken, and waits behind the others.
"""

from __future__ import annotations

import fcntl
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from connector import own_files
from connector.core.fair_lock import FairLock

_GATE_PAUSE: Final = 0.001
_TURN_PAUSE: Final = 0.0003
"""Seconds between two looks. Short, because only one process waits for the turn."""


class Turns:
    """The turns of this process at one SQLite file. For any thread.

    Turns only order the processes, SQLite still guards the file. So a process goes on without a turn if the
    locks cannot be used, or if it has waited for too long.

    Args:
        gate: a directory, locked by the process whose turn is next. Without it there are no turns.
        file: locked by the process that has the turn. Made when missing.
        patience: seconds to wait for a turn at most.
    """

    def __init__(self, gate: str, file: str, patience: float) -> None:
        self._gate = gate
        self._file = file
        self._patience = patience
        self._threads = FairLock()
        self._opened: tuple[int, int, int] | None = None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Holds the turn, as far as it can be had. Inside of another turn of this thread does nothing."""
        if self._threads.is_mine:
            yield
            return
        with self._threads:
            held = self._take()
            try:
                yield
            finally:
                if held >= 0:
                    fcntl.flock(held, fcntl.LOCK_UN)

    def _take(self) -> int:
        """Waits for the turn. Returns the descriptor of the lock, -1 = no turn."""
        try:
            gate, turn = self._files()
            deadline = time.monotonic() + self._patience
            if not _wait(gate, deadline, _GATE_PAUSE):
                return -1
            try:
                return turn if _wait(turn, deadline, _TURN_PAUSE) else -1
            finally:
                fcntl.flock(gate, fcntl.LOCK_UN)
        except OSError:  # no directory, no right to write there, or no locks in this file system
            return -1

    def _files(self) -> tuple[int, int]:
        """Returns the descriptors of this process. A forked process would share those of its parent."""
        if self._opened is not None and self._opened[0] != os.getpid():
            self.close()
        if self._opened is None:
            gate = os.open(self._gate, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                turn = os.open(
                    self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, own_files.FILE
                )
                self._opened = os.getpid(), gate, turn
            except OSError:
                os.close(gate)
                raise
        return self._opened[1:]

    def close(self) -> None:
        """Closes the files. The next turn opens them again."""
        if self._opened is not None:
            _, *descriptors = self._opened
            self._opened = None
            for descriptor in descriptors:
                os.close(descriptor)


def _wait(descriptor: int, deadline: float, pause: float) -> bool:
    """Takes a lock. Returns False at the deadline.

    Raises:
        OSError: the file system has no locks.
    """
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        time.sleep(pause * random.uniform(0.5, 1.5))  # no secret
