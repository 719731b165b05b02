"""Marks: a locked file says that a living client has something, a consumer or a client id.

The kernel drops the lock when the process dies, so a mark whose lock is free says nothing any more.
Marks are placed, and what they say is decided, under one lock for the whole root, so that two clients
never decide differently at the same time.
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
from connector.providers.dropbox.clients import ClientInfo, read_info
from connector.state.locks import is_locked

IsAlive = Callable[[str], bool]
"""Whether a client lives, by its id."""

CONSUMERS: Final = "consumers"
"""The directory of the marks of its consumers, in a subscription or a temporary queue."""


@contextlib.contextmanager
def exclusive(path: str) -> Iterator[None]:
    """Holds the lock that all decisions about marks are made under; waits for it.

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


class Mark:
    """One mark, from now until :meth:`close`. Placed under :func:`exclusive`.

    Args:
        directory: of the marks of one thing; made when missing.
        client_id: whose it is; begins the name of the mark.
        number: tells the marks of one client apart.
        info: what others are told about the holder.

    Raises:
        ProviderError: it cannot be written.
    """

    def __init__(self, directory: str, client_id: str, number: int, info: ClientInfo) -> None:
        self._path = os.path.join(directory, f"{client_id}-{number}")
        self._descriptor = -1
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(directory)
            self._descriptor = os.open(
                self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666
            )
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)  # somebody who only looks has it for a moment
            os.write(self._descriptor, json.dumps(asdict(info)).encode())
        except OSError as error:
            self.close()
            raise ProviderError(
                f"cannot write {self._path}: {error.strerror}; "
                "make room on the disk, or give this user the right to write there"
            ) from error

    def close(self) -> None:
        """Takes the mark away. Repeatable."""
        if self._descriptor < 0:
            return
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        self.abandon()

    def abandon(self) -> None:
        """Lets the lock go and leaves the file, as a process that dies does."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def living(directory: str, is_alive: IsAlive, *, tidy: bool) -> list[tuple[str, ClientInfo]]:
    """The names of the marks in a directory, with their holders, as far as those live.

    Args:
        directory: of the marks.
        is_alive: tells whether the client of a mark lives.
        tidy: removes the marks of the dead; under :func:`exclusive` only.
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
