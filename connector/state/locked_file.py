"""Locked files: the lock of a file shows that the process which holds the file is alive.

The kernel drops the lock when the process ends, for any reason. So a process that gets the lock knows that
the holder before is dead, and no other process takes over meanwhile. A file that was removed, or replaced by
another file, is not held any more, although the late holder still has its lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from connector import own_files
from connector.errors import ProviderMisconfigured

_MOST_BYTES: Final = 1 << 20
_PAUSE: Final = 0.001


class LockedFile:
    """A file that this process holds until :meth:`remove` or :meth:`abandon`, or until the process ends.

    Args:
        descriptor: of the file, with the lock. Afterwards -1.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def hold(cls, path: str, content: bytes | None = None, *, flags: int = 0) -> LockedFile | None:
        """Takes a file, which is made if it is missing. Returns None if another process has the file.

        Args:
            path: of the file. Its directory must exist.
            content: of the file from now on. None = as before.
            flags: further flags of ``os.open``, such as ``O_EXCL``.

        Raises:
            OSError: the file cannot be made, locked or written, and is not held.
            ProviderError: the file system has no locks.
        """
        file = cls._take(path, os.O_CREAT | flags)
        if file is not None and content is not None:
            try:
                file.write(content)
            except OSError:
                file.remove()
                raise
        return file

    @classmethod
    def take_over(cls, path: str) -> LockedFile | None:
        """Takes the file of a dead process. Returns None if the holder is alive, or if there is no file.

        Raises:
            ProviderError: the file system has no locks.
        """
        try:
            return cls._take(path, 0)
        except OSError:
            return None

    @classmethod
    def _take(cls, path: str, flags: int) -> LockedFile | None:
        file = cls(path, os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, own_files.FILE))
        is_taken = False
        try:
            is_taken = _try_lock(file.descriptor, path) and file.is_held()
        finally:
            if not is_taken:
                file.abandon()
        return file if is_taken else None

    def is_held(self) -> bool:
        """Whether other processes see the holder as alive. False after one of them has taken over."""
        try:
            return self.descriptor >= 0 and os.path.samestat(os.stat(self.path), os.fstat(self.descriptor))
        except OSError:
            return False

    def read(self) -> bytes:
        """Returns the content."""
        return os.pread(self.descriptor, os.fstat(self.descriptor).st_size, 0)

    def write(self, content: bytes) -> None:
        """Replaces the content."""
        os.pwrite(self.descriptor, content, 0)
        os.ftruncate(self.descriptor, len(content))

    def append(self, content: bytes) -> None:
        """Adds to the content."""
        os.pwrite(self.descriptor, content, os.fstat(self.descriptor).st_size)

    def replace(self, path: str) -> None:
        """Moves the file to another path, in place of any file there."""
        os.rename(self.path, path)
        self.path = path

    def remove(self) -> None:
        """Removes the file, unless another process has taken over, and releases the lock. Repeatable."""
        if self.is_held():
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        self.abandon()

    def abandon(self) -> None:
        """Releases the lock and leaves the file, as the end of the process does. Repeatable."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class Look(NamedTuple):
    """A locked file as another process sees the file.

    Args:
        is_held: whether a process holds the file.
        touched: when the file was written or touched, in seconds since 1970.
    """

    content: bytes
    is_held: bool
    touched: float


def look(path: str) -> Look | None:
    """Looks at a file and changes nothing. Returns None if there is no file that this user may read.

    A look has a shared lock for a moment. A process that takes the file waits for that moment.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        content = os.pread(descriptor, _MOST_BYTES, 0)
        return Look(content, is_locked(descriptor), os.fstat(descriptor).st_mtime)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def is_held(path: str) -> bool:
    """Whether there is a file that a process holds. True for a file that this user may not read."""
    found = look(path)
    return os.path.lexists(path) if found is None else found.is_held


def list_files(directory: str) -> list[str]:
    """Returns the names in a directory, without the hidden ones. Raises OSError if that fails."""
    return sorted(name for name in os.listdir(directory) if not name.startswith("."))


@contextlib.contextmanager
def exclusive(path: str, *, waits: bool = True) -> Iterator[None]:
    """Keeps other processes and threads out of the same block. The file is made if it is missing.

    Raises:
        OSError: the lock cannot be had. BlockingIOError: another process has the lock, without ``waits``.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, own_files.FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def is_locked(descriptor: int) -> bool:
    """Whether another descriptor has an exclusive lock. If not, prevents one until this one is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _try_lock(descriptor: int, path: str) -> bool:
    """Takes an exclusive lock unless another descriptor has one. Waits for looks."""
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
            f"the file system of {path} has no file locks ({error.strerror}); "
            "use a local file system or NFS 4, because the locks show which clients are alive"
        ) from error
