"""The sockets of running services, ``.connector/run/INSTANCE.sock`` beside ``adapter.yaml``."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FOLDER: Final = Path(".connector", "run")
SUFFIX: Final = ".sock"


@contextlib.contextmanager
def at_open_directory(folder: Path, name: str) -> Iterator[str]:
    """Gives a path to a file that is short, because a socket has one of at most 107 bytes.

    Raises:
        OSError: there is no such directory.
    """
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def connect(path: str, seconds: float) -> socket.socket:
    """Returns a connection. Its calls take ``seconds`` at most.

    Raises:
        OSError: nobody listens there.
    """
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    found.settimeout(seconds)
    try:
        found.connect(path)
    except OSError:
        found.close()
        raise
    return found
