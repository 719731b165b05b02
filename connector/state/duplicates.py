"""Duplicate event elimination: the window of published messages (WBI Adapter for JMS, "DEE").

WBI Adapter for JMS remembers one id. The window remembers many, for all instances of one ApplicationName.
The provider leaves finished commit records with the published ids in one directory. The window is an index of
these records, and is stored nowhere else. Small records are merged, so that the directory stays short.

Two instances may hold two unpublished copies of one message. So each instance reserves the keys that it has
in flight, under one lock, and leaves the keys of other instances alone.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from connector import own_files
from connector.errors import ProviderError, remedy
from connector.messaging.state_store import PublishedIds
from connector.state import file_systems
from connector.state.locked_file import exclusive

_MERGED: Final = "merged-"
_MAX_FILES: Final = 200
IN_FLIGHT: Final = "in-flight"
"""The folder with the keys that clients are about to publish."""


def write_keys(keys: Iterable[str]) -> bytes:
    """Returns a record of keys."""
    return "\n".join(keys).encode("utf-8", "surrogateescape")


def read_keys(record: bytes) -> list[str]:
    """Returns the keys of a record, in order."""
    return record.decode("utf-8", "surrogateescape").split("\n")


class DuplicateWindow(PublishedIds):
    """Remembers the last ``size`` published keys (see :class:`connector.messaging.state_store.PublishedIds`).

    Args:
        directory: holds finished commit records with published keys.
        state_directory: of the ApplicationName, with the lock and the keys in flight.
        client_id: owner of the keys in flight, and prefix of its records' names.
        size: number of keys to remember, at least.
        keys_of: reads the published keys from a commit record, in order.
    """

    def __init__(
        self,
        directory: str,
        state_directory: str,
        client_id: str,
        size: int,
        keys_of: Callable[[bytes], Sequence[str]],
    ) -> None:
        self._directory = directory
        self._in_flight = os.path.join(state_directory, IN_FLIGHT)
        self._lock = os.path.join(state_directory, "window.lock")
        self._client_id = client_id
        self._own = f"{client_id}-"
        self._size = size
        self._keys_of = keys_of
        self._index: dict[str, None] = {}
        self._read: set[str] = set()
        self._changed_ns = -1
        try:
            own_files.make_directories(self._directory)
            own_files.make_directories(self._in_flight)
        except OSError as error:
            raise ProviderError(f"cannot make {error.filename}: {error.strerror}{remedy(error)}") from error
        self.refresh()
        self._merge_if_many()

    def __contains__(self, key: str) -> bool:
        return key in self._index

    def __len__(self) -> int:
        return len(self._index)

    def add(self, keys: Iterable[str]) -> None:
        """Remembers keys that this instance, or a dead one, has published.

        The window never reads records of this instance, because it has their keys.
        """
        for key in keys:
            self._index.pop(key, None)
            self._index[key] = None
        self._shrink()

    def remove(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._index.pop(key, None)

    def reserve(self, keys: Sequence[str], held: Sequence[str] = ()) -> set[str]:
        try:
            with exclusive(self._lock):
                self.refresh()
                taken = self._keys_in_flight()
                busy = {key for key in keys if key in taken} if taken else set()
                self._write_in_flight([*held, *(key for key in keys if key not in busy)])
        except OSError as error:
            raise ProviderError(
                f"cannot use {self._in_flight}: {error.strerror}: {error.filename!r}{remedy(error)}"
            ) from error
        if len(self._read) > _MAX_FILES:
            self._merge_if_many()
        return busy

    def release(self, client_id: str | None = None) -> None:
        if client_id is not None:
            self.refresh()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._in_flight, client_id or self._client_id))

    def refresh(self) -> None:
        """Reads newly finished records. Cheap if there are none.

        Raises:
            ProviderError: the records cannot be read.
        """
        try:
            changed_ns = os.stat(self._directory).st_mtime_ns
            if changed_ns == self._changed_ns and time.time_ns() - changed_ns > 10_000_000:
                return
            names = os.listdir(self._directory)
            new = set(names) - self._read
            own = {name for name in new if name.startswith(self._own)}
            self._read |= own
            for name in self._in_order(new - own):
                self._read_record(name)
            self._read.intersection_update(names)
            self._changed_ns = changed_ns
        except OSError as error:
            raise ProviderError(f"cannot read {self._directory}: {error.strerror}") from error
        self._shrink()

    def _read_record(self, name: str) -> None:
        try:
            with open(os.path.join(self._directory, name), "rb") as record:
                data = record.read()
        except FileNotFoundError:
            return  # another instance has merged the record, and the merged file is read instead
        self._read.add(name)
        if name.startswith("."):
            return
        for key in self._keys(name, data):
            if key and key not in self._index:
                self._index[key] = None

    def _keys(self, name: str, data: bytes) -> Sequence[str]:
        return read_keys(data) if name.startswith(_MERGED) else self._keys_of(data)

    def _shrink(self) -> None:
        # A dict keeps its order, so the oldest keys are first. Not done at every key, for speed.
        if len(self._index) > self._size * 1.1 + 1000:
            self._index = dict.fromkeys(list(self._index)[-self._size :])

    def _merge_if_many(self) -> None:
        """Merges many small records into one file of keys. The time of the newest record keeps the order.

        A merge only saves time, so a failed merge can wait for the next call.
        """
        with contextlib.suppress(OSError), exclusive(self._lock, waits=False):
            names = self._in_order(n for n in os.listdir(self._directory) if n[0] != ".")
            if len(names) <= _MAX_FILES:
                return
            newest = os.stat(os.path.join(self._directory, names[-1])).st_mtime_ns
            keys: dict[str, None] = {}
            for name in names:
                with open(os.path.join(self._directory, name), "rb") as record:
                    data = record.read()
                for key in self._keys(name, data):
                    keys.pop(key, None)
                    keys[key] = None
            keys.pop("", None)
            kept = list(keys)[-self._size :]
            merged = os.path.join(self._directory, _MERGED + names[-1].removeprefix(_MERGED))
            temporary = os.path.join(self._directory, f".{self._client_id}")
            with open(temporary, "wb", opener=own_files.opener) as out:
                out.write(write_keys(kept))
                out.flush()
                os.fsync(out.fileno())
            os.utime(temporary, ns=(newest, newest))
            os.rename(temporary, merged)
            if not file_systems.keeps_order(self._directory):
                own_files.sync_directory(self._directory)  # before the merged records are removed
            for name in names:
                path = os.path.join(self._directory, name)
                if path != merged:
                    os.unlink(path)
            if self._read.issuperset(names):  # otherwise the file has keys that this index lacks
                self._read.add(os.path.basename(merged))

    def _in_order(self, names: Iterable[str]) -> list[str]:
        """Returns records in the order in which they were written."""

        def key(name: str) -> tuple[int, int, str]:
            try:
                written = os.stat(os.path.join(self._directory, name)).st_mtime_ns
            except FileNotFoundError:
                written = 0
            return written, len(name), name  # the longer number of one client is the later one

        return sorted(names, key=key)

    def _keys_in_flight(self) -> set[str]:
        keys: set[str] = set()
        for name in os.listdir(self._in_flight):
            if name != self._client_id:
                with (
                    contextlib.suppress(FileNotFoundError),
                    open(os.path.join(self._in_flight, name), "rb") as file,
                ):
                    keys.update(read_keys(file.read()))
        return keys

    def _write_in_flight(self, keys: Sequence[str]) -> None:
        path = os.path.join(self._in_flight, self._client_id)
        with open(path, "wb", opener=own_files.opener) as file:
            file.write(write_keys(keys))
