"""Files and directories that the connector makes: nothing for other users of the machine.

The umask takes more of their modes away. Senders share a group with the adapter, because they write there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

FILE: Final = 0o660
DIRECTORY: Final = 0o770
_OTHERS: Final = 0o007
_MAY_PASS: Final = 0o001


def opener(path: str, flags: int) -> int:
    """Opens a file for :func:`open`, which may make it."""
    return os.open(path, flags, FILE)


def make_file(path: str) -> None:
    """Makes an empty file, for a library that would make it in its own mode. It may exist."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE))


def sync_directory(path: str | os.PathLike[str]) -> None:
    """Makes the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(path: str | os.PathLike[str]) -> None:
    """Makes a directory, and those above it. It may exist.

    Raises:
        OSError: as ``os.makedirs``.
    """
    try:
        os.mkdir(path, DIRECTORY)
    except FileNotFoundError:
        make_directories(os.path.dirname(os.path.abspath(path)))
        make_directories(path)
    except OSError:  # it exists, perhaps on a file system that is read-only
        if not os.path.isdir(path):
            raise


def open_to_others(path: str | os.PathLike[str]) -> tuple[str, str] | None:
    """Returns what is found and expected if other users may read or change a file or directory, else None.

    A directory above it that others may not enter keeps them out.
    """
    try:
        place = Path(path).resolve()
        mode = place.stat().st_mode
        if not mode & _OTHERS or not all(above.stat().st_mode & _MAY_PASS for above in place.parents):
            return None
    except OSError:
        return None
    found = f"every user of this machine may read or change {path} (mode {mode & 0o777:04o})"
    what = f"{path}{'' if place.is_dir() else '*'}"
    return found, f"nothing for others: chmod -R o-rwx {what}, and umask 007 for who writes there"
