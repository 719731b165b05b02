"""The calls of an application that had a key: one file for each."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import orjson

from connector import own_files
from connector.errors import ProviderError, remedy
from connector.messaging.state_store import CallLimits, CallRecord, KeptCall
from connector.state.locked_file import LockedFile, exclusive, is_held

FOLDER: Final = "calls.d"
"""The folder of an instance has no dot in its name."""
_LIFE: Final = ".life"
"""End of the name of a file that a living record holds."""
_CALLS_BETWEEN: Final = 100
"""New calls between two removals of old calls."""
_BYTES_SHARE: Final = 16


class CallFiles(CallRecord):
    """The calls in a directory.

    Args:
        directory: of the application, made when first needed.
        durable: whether a call is synced before its request is sent.
    """

    def __init__(self, directory: str, limits: CallLimits, *, durable: bool) -> None:
        self._folder = os.path.join(directory, FOLDER)
        self._limits = limits
        self._durable = durable
        self._owner = secrets.token_hex(8)
        self._life: LockedFile | None = None
        self._lock = threading.Lock()
        self._calls = self._bytes = 0

    def begin(self, key: str, fingerprint: str) -> KeptCall | None:
        with self._changing():
            found = self._read(key)
            if found is not None:
                return found
            if self._calls % _CALLS_BETWEEN == 0 or self._bytes > self._limits.size // _BYTES_SHARE:
                self._remove_old()
            self._calls += 1
            if self._life is None:
                self._life = LockedFile.hold(self._path(self._owner + _LIFE))
            self._write(key, {"fingerprint": fingerprint, "owner": self._owner, "at": time.time()})
        return None

    def finish(self, key: str, fingerprint: str, status: int, body: bytes) -> None:
        with self._changing():
            values = {"fingerprint": fingerprint, "at": time.time(), "status": status, "body": body.decode()}
            self._bytes += len(body)
            self._write(key, values)

    def forget(self, key: str) -> None:
        with self._changing(), contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(key))

    def close(self) -> None:
        with self._lock:
            if self._life is not None:
                self._life.remove()
                self._life = None

    def _path(self, key: str) -> str:
        return os.path.join(self._folder, key)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            own_files.make_directories(self._folder)
            with self._lock, exclusive(f"{self._folder}.lock"):
                yield
        except OSError as error:
            raise ProviderError(f"cannot use {self._folder}: {error.strerror}{remedy(error)}") from error

    def _read(self, key: str) -> KeptCall | None:
        """Returns a call whose time is not over."""
        try:
            with open(self._path(key), "rb") as file:
                values: dict[str, Any] = orjson.loads(file.read())
            owner = values.get("owner")
            is_alive = owner is not None and (owner == self._owner or is_held(self._path(f"{owner}{_LIFE}")))
            if not is_alive and values["at"] <= time.time() - self._limits.seconds:
                return None
            body = values.get("body", "").encode()
            return KeptCall(values["fingerprint"], is_alive, values.get("status", 0), body)
        except FileNotFoundError:
            return None
        except (TypeError, ValueError, KeyError) as error:
            raise ProviderError(f"cannot read {self._path(key)}: {error}") from error

    def _write(self, key: str, values: dict[str, Any]) -> None:
        path = self._path(key)
        with open(f"{path}.new", "wb", opener=own_files.opener) as file:
            file.write(orjson.dumps(values))
            if self._durable:
                file.flush()
                os.fsync(file.fileno())
        os.rename(f"{path}.new", path)
        if self._durable:
            own_files.sync_directory(self._folder)

    def _remove_old(self) -> None:
        """Removes calls whose time is over, and the oldest above the limits, but no call at work."""
        self._bytes = 0
        now, number, size = time.time(), 0, 0
        files = [(entry.stat(), entry) for entry in os.scandir(self._folder)]
        for status, entry in sorted(files, key=lambda one: one[0].st_mtime, reverse=True):
            if entry.name.endswith(_LIFE):
                if not is_held(entry.path):
                    os.unlink(entry.path)
                continue
            number, size = number + 1, size + status.st_size
            is_over = status.st_mtime <= now - self._limits.seconds
            if is_over or number >= self._limits.number or size > self._limits.size:
                with contextlib.suppress(ProviderError):  # a file that cannot be read stays to be seen
                    found = self._read(entry.name)
                    if found is None or not found.is_at_work:
                        os.unlink(entry.path)
