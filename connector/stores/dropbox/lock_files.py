"""Lock files: a locked file shows that a living client has a consumer or a client id.

The kernel drops the lock when the process dies. So a file with a free lock does not count any more. One lock
for the whole root guards the files and the decisions about them. So two clients never decide differently at
the same time.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Final

from connector.errors import ProviderError
from connector.state.locks import is_locked
from connector.stores.dropbox.clients import ClientFile, read_info

IsAlive = Callable[[str], bool]
"""Whether a client lives, by its id."""

CONSUMERS: Final = "consumers"
"""The directory of the lock files of consumers, in a subscription or a temporary queue."""


@contextlib.contextmanager
def exclusive(path: str) -> Iterator[None]:
    """Waits for the lock for all decisions about lock files, and holds it.

    Raises:
        ProviderError: the lock cannot be had.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise ProviderError(
            f"cannot open {path}: {error.strerror}; give this user the right to write there"
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise ProviderError(f"cannot lock {path}: {error.strerror}") from error
        yield
    finally:
        os.close(descriptor)


class LockFile:
    """One lock file, from now until :meth:`close`. Placed under :func:`exclusive`.

    Args:
        directory: of the lock files of one thing. Made when missing.
        client_id: the owner. Begins the name of the lock file.
        number: tells the lock files of one client apart.
        info: of the holder, for other clients.

    Raises:
        ProviderError: the lock file cannot be written.
    """

    def __init__(self, directory: str, client_id: str, number: int, info: ClientFile) -> None:
        self._path = os.path.join(directory, f"{client_id}-{number}")
        self._descriptor = -1
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(directory)
            self._descriptor = os.open(
                self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666
            )
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)  # a client that only looks locks it for a moment
            os.write(self._descriptor, json.dumps(asdict(info)).encode())
        except OSError as error:
            self.close()
            raise ProviderError(
                f"cannot write {self._path}: {error.strerror}; "
                "make room on the disk, or give this user the right to write there"
            ) from error

    def close(self) -> None:
        """Removes the lock file. Repeatable."""
        if self._descriptor < 0:
            return
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        self.abandon()

    def abandon(self) -> None:
        """Releases the lock and leaves the file, as a process that dies does."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def living(directory: str, is_alive: IsAlive, *, tidy: bool) -> list[tuple[str, ClientFile]]:
    """Returns the names of the lock files of living clients in a directory, with their holders.

    Args:
        directory: of the lock files.
        is_alive: tells whether the client of a lock file lives.
        tidy: removes the lock files of dead clients. Under :func:`exclusive` only.
    """
    try:
        names = sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = []
    for name in names:
        path = os.path.join(directory, name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if is_locked(descriptor) and is_alive(name.partition("-")[0]):
                found.append((name, read_info(descriptor)))
            elif tidy:
                with contextlib.suppress(OSError):
                    os.unlink(path)
        finally:
            os.close(descriptor)
    return found
