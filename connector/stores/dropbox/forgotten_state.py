"""Removes journals and keys in flight of adapters whose client has no file any more.

A loss of power may take the file of a client and leave these, or bring them back after their removal. No
recovery looks for them. Keys in flight would keep each further message with such a key from being published.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

from connector.state.directory import FOLDERS
from connector.state.duplicates import IN_FLIGHT
from connector.state.journal import CLOSED
from connector.state.locked_file import list_files
from connector.stores.dropbox import files
from connector.stores.dropbox.layout import RootLayout


def remove_forgotten_state(layout: RootLayout) -> None:
    """Removes the journals and the keys in flight of clients that have no file.

    A file that cannot be removed stays.
    """
    found = list(_state(layout))
    known = set(list_files(layout.clients))  # after the others: a client has its file first
    for client_id, path in found:
        if client_id in known:
            continue
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _state(layout: RootLayout) -> Iterator[tuple[str, str]]:
    """Yields the client and the directory of journals, and the client and the file of keys in flight."""
    for application in files.names_in(layout.adapters):
        for folder in files.names_in(f"{layout.adapters}/{application}"):
            if folder in FOLDERS and folder != IN_FLIGHT:
                continue
            for name in files.names_in(f"{layout.adapters}/{application}/{folder}"):
                path = f"{layout.adapters}/{application}/{folder}/{name}"
                if folder == IN_FLIGHT or os.path.isdir(path):
                    yield name.removesuffix(CLOSED), path
