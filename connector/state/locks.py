"""File locks: the kernel drops them when their process dies, so they tell the living from the dead."""

from __future__ import annotations

import fcntl
import time
from typing import Final

from connector.errors import ProviderError

_PAUSE: Final = 0.001


def try_lock(descriptor: int, where: str) -> bool:
    """Takes an exclusive lock if no other descriptor has one, of this process or another.

    Waits for those that only look (:func:`is_locked`).

    Args:
        descriptor: of the file.
        where: what lies on that file system, for the error.

    Raises:
        ProviderError: the file system has no locks.
    """
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if is_locked(descriptor):
                    return False
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                time.sleep(_PAUSE)
    except OSError as error:
        raise ProviderError(
            f"the file system of {where} has no file locks ({error.strerror}); "
            "use one that has (a local one, NFS 4), they tell the living from the dead"
        ) from error


def is_locked(descriptor: int) -> bool:
    """Whether another descriptor has an exclusive lock; until this one is closed nobody else gets one."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
