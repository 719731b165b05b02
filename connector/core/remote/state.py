"""The state of the instances of an application at a broker: a directory that all instances share."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from urllib.parse import quote

from connector.state.directory import StateDirectory


class RemoteState(StateDirectory):
    """See :class:`connector.state.store.StateStore`.

    Args:
        directory: of the deployment, or ``state.directory``.
        application: ApplicationName.
    """

    def __init__(self, directory: str, application: str) -> None:
        super().__init__(os.path.join(directory, _folder(application)), folder=_folder, keys_of=_keys)


class PublishedRecords:
    """Writes the published keys of one client, for the duplicate window.

    Args:
        directory: of the records.
        client_id: names the records.
    """

    def __init__(self, directory: str, client_id: str) -> None:
        self._directory = directory
        self._client_id = client_id
        self._numbers = itertools.count()

    def __call__(self, keys: Sequence[str]) -> None:
        """Writes a record of published keys."""
        if not keys:
            return
        os.makedirs(self._directory, exist_ok=True)
        hidden = os.path.join(self._directory, f".{self._client_id}")
        with open(hidden, "wb") as file:
            file.write("\n".join(keys).encode("utf-8", "surrogateescape"))
        os.rename(hidden, os.path.join(self._directory, f"{self._client_id}-{next(self._numbers)}"))


def _folder(name: str) -> str:
    return f"@{quote(name, safe='')}"


def _keys(record: bytes) -> list[str]:
    return record.decode("utf-8", "surrogateescape").split("\n")
