"""The StateStore in a directory, which all instances of an application see under one path.

::

    <directory>/<instance>/lock                         held by the instance, contains its note
    <directory>/<instance>/<client>/<batch>.<task>.<job>     a journal
    <directory>/published/                              finished commit records: the duplicate window
    <directory>/in-flight/<client>                      keys that a client is about to publish
    <directory>/id                                      of the directory
    <directory>/redeliveries                            messages that a broker delivers again
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from connector.errors import ProviderError, remedy
from connector.messaging.state_store import InstanceNote, StateStore
from connector.state.duplicates import IN_FLIGHT, DuplicateWindow
from connector.state.instances import InstanceLock, read_instances
from connector.state.journal import JournalDirectory
from connector.state.redeliveries import RedeliveryFile

PUBLISHED: Final = "published"
"""The folder into which a provider puts records of published ids."""

FOLDERS: Final = (PUBLISHED, IN_FLIGHT)
"""The folders that belong to no instance."""


class StateDirectory(StateStore):
    """The state of an application in a directory.

    Args:
        path: for the ApplicationName, made when first needed.
        folder: returns the folder of an instance, none of :data:`FOLDERS`.
        keys_of: reads the published keys from a file in ``published/``, in order.
    """

    def __init__(
        self, path: str, *, folder: Callable[[str], str], keys_of: Callable[[bytes], Sequence[str]]
    ) -> None:
        self.path = path
        self.published = os.path.join(path, PUBLISHED)
        self.in_flight = os.path.join(path, IN_FLIGHT)
        self._folder = folder
        self._keys_of = keys_of

    def instance(self, wanted: str | None) -> InstanceLock:
        return InstanceLock(self.path, wanted, self._folder)

    def instances(self) -> list[InstanceNote]:
        return read_instances(self.path)

    def dead_clients(self, instance: str, client_id: str) -> dict[str, JournalDirectory]:
        return {
            name: journals
            for note in read_instances(self.path)
            if note.name == instance or not note.runs
            for name, journals in self._clients(note.name)
            if name != client_id
        }

    def _clients(self, instance: str) -> Iterator[tuple[str, JournalDirectory]]:
        """Yields the clients of an instance with their journals."""
        with os.scandir(os.path.join(self.path, self._folder(instance))) as entries:
            clients = sorted(one.path for one in entries if one.is_dir(follow_symlinks=False))
        for path in clients:
            yield os.path.basename(path).partition(".")[0], JournalDirectory(path)

    def identity(self) -> str:
        path = os.path.join(self.path, "id")
        try:
            os.makedirs(self.path, exist_ok=True)
            with contextlib.suppress(FileExistsError), tempfile.NamedTemporaryFile("w", dir=self.path) as new:
                new.write(secrets.token_hex(8))
                new.flush()
                os.link(new.name, path)
            with open(path, encoding="ascii") as file:
                return file.read()
        except OSError as error:
            raise ProviderError(f"cannot use {path}: {error.strerror}{remedy(error)}") from error

    def clients(self) -> set[str]:
        """Returns the clients that have journals."""
        return {name for note in read_instances(self.path) for name, _ in self._clients(note.name)}

    def claims_of_others(self, client_id: str) -> set[str]:
        found: set[str] = set()
        for note in read_instances(self.path):
            for name, journals in self._clients(note.name):
                if name != client_id:
                    found |= journals.open_claims()
        return found

    def redeliveries(self) -> RedeliveryFile:
        return RedeliveryFile(self.path)

    def journals(self, client_id: str, instance: str) -> JournalDirectory:
        return JournalDirectory(os.path.join(self.path, self._folder(instance), client_id))

    def window(self, client_id: str, size: int) -> DuplicateWindow:
        return DuplicateWindow(self.published, self.path, client_id, size, self._keys_of)
