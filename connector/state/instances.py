"""Instances: the names of the adapter processes of one ApplicationName."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from connector import own_files
from connector.errors import ProviderError, ProviderMisconfigured, remedy
from connector.messaging.state_store import HeldInstance, InstanceNote
from connector.state.locked_file import LockedFile, look

_LOCK: Final = "lock"


class InstanceLock(HeldInstance):
    """The name of an instance, held by a lock on a file in its folder.

    Args:
        directory: for the state of the ApplicationName.
        wanted: the configured name. None = the host's name, with a number if several run.
        folder: returns the folder of an instance.

    Raises:
        ProviderError: a living process has the configured name, or the directory cannot be used.
    """

    def __init__(self, directory: str, wanted: str | None, folder: Callable[[str], str]) -> None:
        host = wanted or socket.gethostname() or "instance"
        number = 1
        while True:
            self.name = host if number == 1 else f"{host}-{number}"
            path = os.path.join(directory, folder(self.name))
            try:
                own_files.make_directories(path)
                file = LockedFile.hold(os.path.join(path, _LOCK))
            except OSError as error:
                raise ProviderError(f"cannot write {path}: {error.strerror}{remedy(error)}") from error
            if file is not None:
                break
            if wanted is not None:
                raise ProviderMisconfigured(
                    f"an instance {wanted!r} runs already; give this one another `instance`, or none at all"
                )
            number += 1
        self._file = file
        self._own: dict[str, Any] = {
            "instance": self.name,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "started": round(time.time(), 3),
        }
        self.note({})

    def note(self, values: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self._file.write(json.dumps({**self._own, **values}).encode())

    def close(self) -> None:
        self._file.abandon()


def read_instances(directory: str) -> list[InstanceNote]:
    """Returns all instances by name (see :meth:`connector.messaging.state_store.StateStore.instances`)."""
    found = []
    try:
        folders = os.listdir(directory)
    except OSError:
        return []
    for folder in folders:
        one = look(os.path.join(directory, folder, _LOCK))
        if one is not None:
            note = _parse(one.content)
            name = note.pop("instance", folder)
            found.append(InstanceNote(str(name), one.is_held, note))
    return sorted(found, key=lambda one: one.name)


def _parse(data: bytes) -> dict[str, Any]:
    """Returns the note in a lock file. Empty for an earlier version or an unfinished write."""
    try:
        values = json.loads(data)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}
