"""Who is alive: each client of a SQLite file keeps a file locked, until the kernel ends its process.

A client of PostgreSQL is alive while its process is (:mod:`.processes`).
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Protocol

from connector.errors import ProviderError
from connector.providers.sql.client_marks import PostgresMarks
from connector.providers.sql.database import Settings
from connector.providers.sql.processes import ProcessConnection, StateSettings
from connector.state.locks import is_locked, try_lock


class Marks(Protocol):
    """The marks of the clients of a database."""

    def hold(self, client_id: str) -> None:
        """This process says that a client lives, until it releases the mark or ends.

        Raises:
            ProviderError: it cannot.
        """

    def is_alive(self, client_id: str) -> bool:
        """Whether a client lives."""

    def release(self, client_id: str) -> None:
        """A client of this process lives no more. Repeatable."""

    def forget(self, client_id: str) -> None:
        """Removes the mark of a client that is forgotten."""


class FileMarks:
    """See :class:`Marks`: a locked file for each client, in a directory beside the database file.

    Args:
        directory: made when a client comes.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._held: dict[str, int] = {}

    def hold(self, client_id: str) -> None:
        path = os.path.join(self._directory, client_id)
        try:
            os.makedirs(self._directory, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise ProviderError(
                f"cannot write {path}: {error.strerror}; give this user the right to write there"
            ) from error
        self._held[client_id] = descriptor
        try_lock(descriptor, path)

    def is_alive(self, client_id: str) -> bool:
        try:
            descriptor = os.open(os.path.join(self._directory, client_id), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return is_locked(descriptor)
        finally:
            os.close(descriptor)

    def release(self, client_id: str) -> None:
        descriptor = self._held.pop(client_id, None)
        if descriptor is not None:
            os.close(descriptor)

    def forget(self, client_id: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self._directory, client_id))


def marks_of(settings: Settings) -> Marks:
    """The marks of the clients of a database."""
    file = settings.file
    if file is None:
        return PostgresMarks(ProcessConnection.shared(StateSettings(settings)))
    return FileMarks(f"{file}.clients")
