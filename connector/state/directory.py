"""The StateStore in a directory, which all instances of an application see under one path.

::

    <directory>/<instance>/lock                         held by the instance, contains its note
    <directory>/<instance>/<client>/<batch>.<task>.<job>     a journal
    <directory>/published/                              finished commit records: the duplicate window
    <directory>/in-flight/<client>                      keys that a client is about to publish
    <directory>/id                                      of the directory
    <directory>/redeliveries                            messages that a broker delivers again
    <directory>/control.json                            what operators have told the application
    <directory>/calls.d/                                calls over HTTP that had a key, and their answers
    <directory>/sent.d/, sent.<time>.d/                 messages that were sent once by key
    <directory>/history/                                what happened to events and requests
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import quote

from connector.messaging.state_store import CallLimits, InstanceNote, PublishedIds, StateStore
from connector.state.call_files import CallFiles
from connector.state.control_file import ControlFile
from connector.state.duplicates import IN_FLIGHT, DuplicateWindow, read_keys
from connector.state.history_files import HISTORY, HistoryFiles
from connector.state.instances import InstanceLock, read_instances
from connector.state.journal import JournalDirectory

PUBLISHED: Final = "published"
"""The folder into which a provider puts records of published ids."""

FOLDERS: Final = (PUBLISHED, IN_FLIGHT, HISTORY)
"""The folders that belong to no instance."""


def own_folder(name: str) -> str:
    """Returns the folder of a user's name. Never equal to a folder of the state itself."""
    return f"@{quote(name, safe='')}"


class StateDirectory(StateStore):
    """The state of an application in a directory.

    Args:
        path: for the ApplicationName, made when first needed.
        folder: returns the folder of an instance, none of :data:`FOLDERS`.
        keys_of: reads the published keys from a file in ``published/``, in order.
        durable: whether rows of the history can be synced.
    """

    def __init__(
        self,
        path: str,
        *,
        folder: Callable[[str], str] = own_folder,
        keys_of: Callable[[bytes], Sequence[str]] = read_keys,
        durable: bool = True,
    ) -> None:
        self.path = path
        self.published = os.path.join(path, PUBLISHED)
        self.in_flight = os.path.join(path, IN_FLIGHT)
        self._folder = folder
        self._keys_of = keys_of
        self._durable = durable

    def instance(self, wanted: str | None) -> InstanceLock:
        return InstanceLock(self.path, wanted, self._folder)

    def instances(self) -> list[InstanceNote]:
        return read_instances(self.path)

    def journals(self, client_id: str, instance: str) -> JournalDirectory:
        return JournalDirectory(os.path.join(self.path, self._folder(instance), client_id))

    def window(self, client_id: str, size: int) -> PublishedIds:
        return DuplicateWindow(self.published, self.path, client_id, size, self._keys_of)

    def control(self) -> ControlFile:
        return ControlFile(self.path)

    def calls(self, limits: CallLimits) -> CallFiles:
        return CallFiles(self.path, limits, durable=self._durable)

    def history(self, instance: str = "") -> HistoryFiles:
        return HistoryFiles(self.path, instance, durable=self._durable)
