"""Forks beside SQLite: no connection is open meanwhile.

SQLite remembers its locks in the memory of the process, and the kernel gives a forked process none of them.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Engine

_engines: Final[weakref.WeakSet[Engine]] = weakref.WeakSet()
_changed: Final = threading.Condition(threading.RLock())
_users: Final[dict[int, int]] = {}
"""Thread -> the transactions that it has open, one within another."""


def watch(engine: Engine) -> None:
    """The connections of an engine are closed before this process forks."""
    _engines.add(engine)


@contextmanager
def in_use() -> Iterator[None]:
    """A connection is used. The process does not fork meanwhile, unless this thread does it."""
    thread = threading.get_ident()
    with _changed:
        _users[thread] = _users.get(thread, 0) + 1
    try:
        yield
    finally:
        with _changed:
            _users[thread] -= 1
            if not _users[thread]:
                del _users[thread]
            _changed.notify_all()


def _before() -> None:
    _changed.acquire()
    own = threading.get_ident()
    _changed.wait_for(lambda: not _users.keys() - {own})
    for engine in tuple(_engines):
        engine.dispose()


def _after_in_child() -> None:
    own = threading.get_ident()
    for thread in _users.keys() - {own}:
        del _users[thread]
    _changed.release()


os.register_at_fork(before=_before, after_in_parent=_changed.release, after_in_child=_after_in_child)
