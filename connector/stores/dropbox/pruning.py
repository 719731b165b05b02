"""Removes old settled and expired messages, and old copies of an adapter."""

from __future__ import annotations

import datetime
import logging
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from connector import own_files
from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.messaging.retention import Pruned, Retention
from connector.stores.dropbox import codec
from connector.stores.dropbox.headers import HeaderStore
from connector.stores.dropbox.layout import RootLayout
from connector.stores.dropbox.prepared_files import remove_forgotten
from connector.stores.engine.headers import ORIGIN

_log = logging.getLogger("connector.dropbox")

_INTERVAL: Final = 3600.0
_MARK: Final = "pruned"
_SETTLED: Final = re.compile(r"connector_timeS=([^&.]+)").search

Removal = tuple[Destination | None, bool]
"""The queue of a copy that was looked at (None = no copy), and whether the file was removed."""


class RootPruner:
    """Removes files of one root in passes, each in as many steps as necessary.

    A pass begins once an hour, or more often for a short retention, counted over all clients.

    Args:
        keep: seconds that ``processed/`` and ``expired/`` keep a file. None = for ever.
        state: directory that the instances of the adapter share. Empty for a client that is no adapter.
    """

    def __init__(self, layout: RootLayout, headers: HeaderStore, keep: float | None, state: str) -> None:
        self._layout = layout
        self._headers = headers
        self._keep = keep
        self._state = state
        self._pass: Iterator[Removal] | None = None

    def step(self, retentions: Sequence[Retention], seconds: float) -> Pruned:
        """Begins a pass that is due, or continues a pass, for about ``seconds``."""
        end = time.monotonic() + seconds
        if self._pass is None:
            self._pass = self._begin(retentions)
        removed: Counter[Destination | None] = Counter()
        is_done = True
        for destination, is_removed in self._pass:
            removed[destination] += is_removed
            if time.monotonic() >= end:
                is_done = False
                break
        else:
            self._pass = None
        copies = {queue: count for queue, count in removed.items() if queue is not None and count}
        return Pruned(removed[None], copies, is_done)

    def _begin(self, retentions: Sequence[Retention]) -> Iterator[Removal]:
        root = os.path.dirname(self._layout.clients)
        if _is_due(root, 4 * _INTERVAL if self._keep is None else self._keep):
            self._remove_forgotten()
            limit = 0.0 if self._keep is None else time.time() - self._keep
            for folders in self._layout.everywhere() if self._keep is not None else ():
                for folder in (folders.processed, folders.expired):
                    yield from self._prune(None, folder, lambda entry: _time_of_change(entry) < limit)
        if retentions and self._state and _is_due(self._state, min(one.seconds for one in retentions)):
            for retention in retentions:
                folder = self._layout.outbox(retention.destination).target
                yield from self._prune(retention.destination, folder, self._judge(retention))

    def _remove_forgotten(self) -> None:
        try:
            remove_forgotten(self._layout)
        except OSError as error:
            extra = {"directory": os.path.dirname(error.filename or ""), "reason": str(error)}
            _log.warning("old messages could not be removed", extra=extra)

    def _judge(self, retention: Retention) -> Callable[[os.DirEntry[str]], bool]:
        """Returns a test for copies that were kept long enough. The test never opens a body."""
        now = time.time()
        limit = datetime.datetime.fromtimestamp(max(0.0, now - retention.seconds), datetime.UTC)

        def is_over(entry: os.DirEntry[str]) -> bool:
            if ORIGIN not in entry.name and codec.HEADER_KEY not in entry.name:
                return False
            if (settled := _SETTLED(entry.name)) and _is_later(settled[1], limit):
                return False  # nearly all files are young, and decoding a name takes several times as long
            name, lost = self._headers.look(entry.name)
            if lost:
                raise ProviderError(lost)
            if codec.OWNER in name:
                return False  # claimed by a client that uses this as an in-progress destination
            message, _ = codec.decode(name, readable_only=True)
            return retention.is_over(message, _time_of_change(entry), now)

        return is_over

    def _prune(
        self, destination: Destination | None, folder: str, is_over: Callable[[os.DirEntry[str]], bool]
    ) -> Iterator[Removal]:
        """Looks at the files of a folder one by one, and removes those whose retention is over."""
        reason = ""
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    is_removed = False
                    try:
                        if entry.is_file(follow_symlinks=False) and is_over(entry):
                            keys = self._headers.keys_of_file(entry.name, entry.path)
                            os.unlink(entry.path)  # fails if a client has claimed the file meanwhile
                            self._headers.remove(keys, after=folder)
                            is_removed = True
                    except FileNotFoundError:
                        pass
                    except (OSError, ProviderError) as error:
                        reason = reason or str(error)  # the file is removed another time
                    yield destination, is_removed
        except FileNotFoundError:
            pass
        except OSError as error:
            reason = str(error)
        if reason:
            _log.warning("old messages could not be removed", extra={"directory": folder, "reason": reason})


def _is_later(encoded: str, limit: datetime.datetime) -> bool:
    try:
        return datetime.datetime.fromisoformat(codec.decode_field(encoded)) >= limit
    except (ValueError, TypeError):
        return False


def _time_of_change(entry: os.DirEntry[str]) -> float:
    return entry.stat(follow_symlinks=False).st_ctime


def _is_due(directory: str, keep: float) -> bool:
    """Whether a pass is due: the last pass of any client is an hour, or a quarter of ``keep``, old.

    The shorter time counts. A due pass is noted in a file.
    """
    mark = os.path.join(directory, _MARK)
    try:
        if 0 <= time.time() - os.stat(mark).st_mtime < min(_INTERVAL, keep / 4):
            return False
    except FileNotFoundError:
        pass
    try:
        with open(mark, "wb", opener=own_files.opener):
            os.utime(mark)
    except OSError:
        return False
    return True
