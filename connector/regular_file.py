"""Reads a file of a deployment, but no pipe and no device: those may never answer, or never end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path, limit: int = -1) -> bytes:
    """Returns the bytes of a file, without waiting for anybody.

    Args:
        limit: the most bytes that are read. -1 = all.

    Raises:
        OSError: the file cannot be read, or is not a regular file.
    """
    # Non-blocking, because a FIFO without a writer must not delay the answer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(descriptor)
