"""The record of messages that a broker delivers again, for all instances of an application: one file.

The file changes under a lock, and is replaced whole. The file is usually empty.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

import orjson

from connector.errors import ProviderError, remedy
from connector.messaging.state_store import RedeliveryNote, RedeliveryRecord
from connector.state.locked_file import exclusive

_LOCK: Final = "redeliveries.lock"
_FILE: Final = "redeliveries"


class RedeliveryFile(RedeliveryRecord):
    """A file with all entries, which is replaced whole.

    Args:
        directory: of the ApplicationName.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._path = os.path.join(directory, _FILE)
        self._seen: tuple[int, int] | None = None
        self._notes: list[RedeliveryNote] = []

    def read(self) -> list[RedeliveryNote]:
        try:
            found = os.stat(self._path)
            seen = found.st_mtime_ns, found.st_ino
            if seen != self._seen:
                self._notes, self._seen = self._load(), seen
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ProviderError(f"cannot read {self._path}: {error.strerror}") from error
        return self._notes

    def _load(self) -> list[RedeliveryNote]:
        try:
            with open(self._path, "rb") as file:
                return [RedeliveryNote(*values) for values in orjson.loads(file.read())]
        except FileNotFoundError:
            return []
        except (TypeError, ValueError) as error:
            raise ProviderError(f"cannot read {self._path}: {error}") from error

    @contextlib.contextmanager
    def change(self) -> Iterator[list[RedeliveryNote]]:
        try:
            os.makedirs(self._directory, exist_ok=True)
            with exclusive(os.path.join(self._directory, _LOCK)):
                notes = self._load()
                before = [note.to_list() for note in notes]
                yield notes
                after = [note.to_list() for note in notes]
                if after != before:
                    with open(f"{self._path}.new", "wb") as file:
                        file.write(orjson.dumps(after))
                    os.rename(f"{self._path}.new", self._path)
        except OSError as error:
            raise ProviderError(f"cannot write {self._path}: {error.strerror}{remedy(error)}") from error
