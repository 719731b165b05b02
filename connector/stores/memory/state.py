"""The directory in which a memory provider keeps journals, published ids and instance locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any, Final

from connector import own_files
from connector.errors import ProviderError
from connector.state.directory import StateDirectory, own_folder
from connector.state.duplicates import IN_FLIGHT

_LOCK: Final = "memory.lock"


class MemoryState:
    """The state of all applications of one provider.

    Messages end with their process, and so do journals and the messages in flight of a client. Published ids
    stay. The first provider that uses the state of an application removes the remains of dead processes.

    Args:
        directory: ``state.directory``, made at the first use. None = a temporary directory, which ends with
            this object.
    """

    def __init__(self, directory: str | os.PathLike[str] | None) -> None:
        self._directory = "" if directory is None else os.path.abspath(directory)
        self._locks: dict[str, int] = {}
        self._close: weakref.finalize[Any, MemoryState] = weakref.finalize(self, _close, self._locks, "", 0)

    def of(self, application: str) -> StateDirectory:
        """Returns the state of one ApplicationName.

        Raises:
            ProviderError: the directory cannot be used.
        """
        if not self._directory:
            self._directory = tempfile.mkdtemp(prefix="connector-memory-")
            self._close = weakref.finalize(self, _close, self._locks, self._directory, os.getpid())
        path = os.path.join(self._directory, own_folder(application))
        if path not in self._locks and self._close.alive:
            try:
                self._locks[path] = _join(path)
            except OSError as error:
                raise ProviderError(
                    f"cannot use {path}: {error.strerror}; give this user the right to write there, or "
                    "change state.directory"
                ) from error
        return StateDirectory(path, durable=False)

    def close(self) -> None:
        """Lets other providers clear the directory, and removes a temporary directory. Repeatable."""
        self._close()


def _join(path: str) -> int:
    """Holds the state of an application with a shared lock. The first holder clears the state before."""
    own_files.make_directories(path)
    descriptor = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, own_files.FILE)
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for file in Path(path).glob(f"{IN_FLIGHT}/*"):
                file.unlink()
            for client in Path(path).glob("@*/*/"):
                shutil.rmtree(client)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _close(locks: dict[str, int], temporary: str, pid: int) -> None:
    while locks:
        os.close(locks.popitem()[1])
    if temporary and pid == os.getpid():  # not in a process that was forked off
        shutil.rmtree(temporary, ignore_errors=True)
