"""The keys of messages that were sent once by key: one file for each, by the time until which it is kept.

::

    <directory>/sent.<end>.d/<digest of the key>    kept until <end> at least, in seconds since 1970
    <directory>/sent.d/new-<name>                   a note: its message is about to be sent
    <directory>/sent.d.lock                         locked by the client that uses a key

Earlier versions tidy what they take for folders of instances, and remove a directory in a directory there.

A client writes a note before the step that sends the message. A note that another client finds was left by a
client that has not seen the end of that step. Who finds it has to find out whether the message was sent.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import orjson

from connector import own_files
from connector.errors import ProviderError, remedy
from connector.messaging.once import OnceKey, SentOnce
from connector.state import file_systems
from connector.state.locked_file import exclusive

_FOLDER: Final = "sent.d"
"""The folder of an instance has no dot in its name."""
_OF_KEYS: Final = re.compile(r"sent\.(\d+)\.d").fullmatch
_NEW: Final = "new-"
_SHORT: Final = 3600
_LONG: Final = 86400
"""Seconds of the times that share a folder: of keys that are kept for an hour at most, and of others."""
_MOST_REMOVED: Final = 100
"""Files of old keys that a new key removes at most. Each new key adds one."""


class KeyNote(NamedTuple):
    """The note of a message that is about to be sent.

    Args:
        name: of the note, as its client has given it.
        path: of the note.
        kept: path of the key's file, to which the note moves.
        values: of the note.
    """

    name: str
    path: str
    kept: str
    values: dict[str, Any]


class SentKeyFiles:
    """The keys of an application. Every method but :meth:`exists` needs :meth:`using`.

    Args:
        directory: of the application.
        durable: whether a note survives a loss of power before its message is sent.
    """

    def __init__(self, directory: str, *, durable: bool) -> None:
        self._directory = directory
        self._folder = os.path.join(directory, _FOLDER)
        self._durable = durable

    def path(self, name: str) -> str:
        """Returns the path of a file beside the keys."""
        return os.path.join(self._folder, name)

    def exists(self) -> bool:
        """Whether a key was ever used. Makes nothing."""
        return os.path.isdir(self._folder)

    @contextlib.contextmanager
    def using(self) -> Iterator[None]:
        """Returns a context in which no other client uses a key of the application.

        Raises:
            ProviderError: also instead of an OSError in the context.
        """
        try:
            self._make(self._folder)
            with exclusive(f"{self._folder}.lock"):
                yield
        except OSError as error:
            where = error.filename or self._folder
            raise ProviderError(f"cannot use {where}: {error.strerror}{remedy(error)}") from error

    def left(self) -> Iterator[KeyNote]:
        """Yields the notes that other clients have left."""
        for name in sorted(os.listdir(self._folder)):
            if name.startswith(_NEW):
                path = self.path(name)
                values = _read(path)
                if values is None:  # moved by who takes over from its client
                    continue
                if not values:  # it was not written whole, so its message was not sent
                    os.unlink(path)
                else:
                    yield KeyNote(name.removeprefix(_NEW), path, self._kept(values), values)

    def find(self, key: str) -> SentOnce | None:
        """Returns the answer of a key that is remembered. The notes are settled."""
        for end in self._ends():
            if end > time.time():
                path = os.path.join(self._folder_of(end), _digest(key))
                values = _read(path)
                if values is None:
                    continue
                if not values:
                    raise ProviderError(
                        f"cannot read {path}, so nobody knows whether the message with the key {key!r} was "
                        "sent; if it was not, or if it may be sent again, remove the file"
                    )
                if values["until"] > time.time():
                    return SentOnce(values["id"], is_new=False, fingerprint=values["fingerprint"])
        return None

    def note(self, name: str, once: OnceKey, message_id: str, **more: str) -> KeyNote:
        """Writes the note of a message that is sent next.

        Args:
            name: unique for ever.
            once: has a key that is not remembered.
            more: further values.
        """
        values: dict[str, Any] = {
            "key": once.key,
            "id": message_id,
            "fingerprint": once.fingerprint,
            "until": time.time() + once.keep,
            "width": _SHORT if once.keep <= _SHORT else _LONG,
            **more,
        }
        note = KeyNote(name, self.path(f"{_NEW}{name}"), self._kept(values), values)
        self._make(os.path.dirname(note.kept))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(note.kept)  # of an earlier time that is over
        with open(note.path, "xb", opener=own_files.opener) as file:
            file.write(orjson.dumps(values))
            if self._durable:
                file.flush()
                os.fsync(file.fileno())
        self._sync_earlier(self._folder)
        return note

    def keep(self, note: KeyNote) -> None:
        """Remembers the key of a message that was sent."""
        self._make(os.path.dirname(note.kept))
        os.rename(note.path, note.kept)
        if self._durable:
            own_files.sync_directory(os.path.dirname(note.kept))

    def prune(self) -> None:
        """Removes some files of keys whose time is over. What cannot be removed is left for another time."""
        old = next((end for end in self._ends() if end <= time.time()), None)
        if old is None:
            return
        folder = self._folder_of(old)
        with contextlib.suppress(OSError):
            with os.scandir(folder) as entries:
                gone = [entry.path for _, entry in zip(range(_MOST_REMOVED), entries, strict=False)]
            for path in gone:
                os.unlink(path)
            os.rmdir(folder)

    def _make(self, folder: str) -> None:
        if not os.path.isdir(folder):
            own_files.make_directories(folder)
            self._sync_earlier(os.path.dirname(folder))

    def _sync_earlier(self, folder: str) -> None:
        """Makes the names in a folder durable, unless what is synced later makes them durable."""
        if self._durable and not file_systems.keeps_order(folder):
            own_files.sync_directory(folder)

    def _ends(self) -> list[int]:
        found = map(_OF_KEYS, os.listdir(self._directory))
        return sorted(int(one[1]) for one in found if one is not None)

    def _folder_of(self, end: int) -> str:
        return os.path.join(self._directory, f"sent.{end}.d")

    def _kept(self, values: dict[str, Any]) -> str:
        end = math.ceil(values["until"] / values["width"]) * values["width"]
        return os.path.join(self._folder_of(end), _digest(values["key"]))


def _digest(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=20).hexdigest()


def _read(path: str) -> dict[str, Any] | None:
    """Returns the values of a file. Empty if it was not written whole. None if it is missing."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    try:
        values: dict[str, Any] = orjson.loads(data)
    except ValueError:
        return {}
    return values
