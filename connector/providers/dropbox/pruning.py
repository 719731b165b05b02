"""Removing what is kept no longer: settled and expired messages, after ``keep_processed``."""

from __future__ import annotations

import os
import time
from typing import Final

from connector.providers.dropbox import files
from connector.providers.dropbox.headers import HeaderStore
from connector.providers.dropbox.layout import Layout

_INTERVAL: Final = 3600.0


def prune(layout: Layout, headers: HeaderStore, keep: float | None) -> int:
    """Removes files that ``processed/`` and ``expired/`` have for longer than ``keep`` seconds.

    Every hour at most, whoever of all clients asks; more often where little is kept. None = for ever.
    Returns how many files.
    """
    if keep is None or not _is_due(layout, min(_INTERVAL, keep / 4)):
        return 0
    limit = time.time() - keep
    return sum(
        _prune_folder(headers, folder, limit)
        for folders in layout.everywhere()
        for folder in (folders.processed, folders.expired)
    )


def _is_due(layout: Layout, interval: float) -> bool:
    """Whether ``interval`` seconds have passed since anybody was told so."""
    mark = os.path.join(os.path.dirname(layout.clients), "pruned")
    try:
        if time.time() - os.stat(mark).st_mtime < interval:
            return False
    except FileNotFoundError:
        pass
    try:
        with open(mark, "wb"):
            os.utime(mark)
    except OSError:
        return False
    return True


def _prune_folder(headers: HeaderStore, folder: str, limit: float) -> int:
    removed = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if (
                    entry.is_file(follow_symlinks=False)
                    and entry.stat(follow_symlinks=False).st_ctime < limit
                ):
                    headers.remove(entry.name)
                    files.remove(entry.path)
                    removed += 1
    except OSError:
        pass  # what cannot be removed now is removed another time
    return removed
