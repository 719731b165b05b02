"""Modes of the files and directories that the connector makes: nothing for other users of the machine.

The umask takes more away. Senders share a group with the adapter, because they write into its directories.
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


def is_open_to_others(path: str | os.PathLike[str]) -> bool:
    """Whether other users of the machine reach a file or directory, and may read or change it."""
    try:
        place = Path(path).resolve()
        return bool(place.stat().st_mode & _OTHERS) and all(
            above.stat().st_mode & _MAY_PASS for above in place.parents
        )
    except OSError:
        return False
