"""Instances: the name of one adapter process among those of its ApplicationName."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from connector.errors import ProviderError


class InstanceLock:
    """Holds the name of an instance for the life of the process.

    Args:
        directory: state of the ApplicationName.
        wanted: the configured name; None = the host's name, with a number where several run.
        encode: makes a directory name of it.
        lock: takes an exclusive lock on a descriptor, False where another process has it.

    Raises:
        ProviderError: a living process has the configured name, or the directory cannot be used.
    """

    def __init__(
        self, directory: str, wanted: str | None, encode: Callable[[str], str], lock: Callable[[int], bool]
    ) -> None:
        host = wanted or socket.gethostname() or "instance"
        number = 1
        while True:
            self.name = host if number == 1 else f"{host}-{number}"
            folder = os.path.join(directory, encode(self.name))
            try:
                os.makedirs(folder, exist_ok=True)
                self._descriptor = os.open(
                    os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666
                )
            except OSError as error:
                raise ProviderError(f"cannot write {folder}: {error.strerror}") from error
            if lock(self._descriptor):
                return
            os.close(self._descriptor)
            if wanted is not None:
                raise ProviderError(
                    f"an instance {wanted!r} runs already; give this one another `instance`, or none at all"
                )
            number += 1

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
