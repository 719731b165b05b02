"""A file with one JSON value, which several processes read and change.

A change holds a lock and replaces the file whole. So readers need no lock.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

import orjson

from connector import own_files
from connector.errors import ProviderError, remedy
from connector.state.locked_file import exclusive

_Value = TypeVar("_Value")
_COARSE_NS: Final = 2_000_000_000
"""A younger file is always read. Clocks are coarse, and the number of a removed file comes again."""


class SharedFile(Generic[_Value]):
    """A file with one value.

    Args:
        path: of the file, in a directory that the first change makes.
        lock: path of the file that is locked during a change.
        parse: returns the value from parsed JSON. Raises TypeError, ValueError or KeyError.
        make: returns the value of a file that is missing.
    """

    def __init__(
        self,
        path: str,
        lock: str,
        parse: Callable[[Any], _Value],
        dump: Callable[[_Value], Any],
        make: Callable[[], _Value],
        *,
        is_durable: bool = False,
    ) -> None:
        self._path = path
        self._lock = lock
        self._parse = parse
        self._dump = dump
        self._make = make
        self._is_durable = is_durable
        self._seen: tuple[int, int] | None = None
        self._value = make()

    def read(self) -> _Value:
        """Returns the value, which is not to be changed. Raises ProviderError if the file cannot be read."""
        try:
            found = os.stat(self._path)
            seen = found.st_mtime_ns, found.st_ino
            if seen != self._seen:
                self._value = self._load()
                self._seen = seen if time.time_ns() - found.st_mtime_ns > _COARSE_NS else None
        except FileNotFoundError:
            return self._make()
        except OSError as error:
            raise ProviderError(f"cannot read {self._path}: {error.strerror}") from error
        return self._value

    def _load(self) -> _Value:
        try:
            with open(self._path, "rb") as file:
                return self._parse(orjson.loads(file.read()))
        except FileNotFoundError:
            return self._make()
        except (TypeError, ValueError, KeyError) as error:
            raise ProviderError(f"cannot read {self._path}: {error}") from error

    @contextlib.contextmanager
    def change(self) -> Iterator[_Value]:
        """Yields the value, which is written at the end if it has changed.

        Raises:
            ProviderError: the file cannot be written, and has the earlier value.
        """
        try:
            own_files.make_directories(os.path.dirname(self._path))
            with exclusive(self._lock):
                value = self._load()
                before = orjson.dumps(self._dump(value))
                yield value
                after = orjson.dumps(self._dump(value))
                if after != before:
                    self._write(after)
        except OSError as error:
            raise ProviderError(f"cannot write {self._path}: {error.strerror}{remedy(error)}") from error

    def _write(self, data: bytes) -> None:
        with open(f"{self._path}.new", "wb", opener=own_files.opener) as file:
            file.write(data)
            if self._is_durable:
                file.flush()
                os.fsync(file.fileno())
        os.rename(f"{self._path}.new", self._path)
        if self._is_durable:
            own_files.sync_directory(os.path.dirname(self._path))
