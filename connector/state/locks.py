"""File locks. The kernel drops the locks of a dead process, so locks show which processes live."""

from __future__ import annotations

import fcntl
import time
from typing import Final

from connector.errors import ProviderMisconfigured

_PAUSE: Final = 0.001


def try_lock(descriptor: int, where: str) -> bool:
    """Takes an exclusive lock unless another descriptor has one, in this process or another.

    Waits for descriptors that only look (:func:`is_locked`).

    Args:
        descriptor: of the file.
        where: a path on that file system, for the error.

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
        raise ProviderMisconfigured(
            f"the file system of {where} has no file locks ({error.strerror}); "
            "use a local file system or NFS 4, because the locks show which clients are alive"
        ) from error


def is_locked(descriptor: int) -> bool:
    """Tells whether another descriptor has an exclusive lock.

    If not, prevents one until ``descriptor`` is closed.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
