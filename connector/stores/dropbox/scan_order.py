"""The order in which the files of a folder are scanned: that of taking."""

from __future__ import annotations

import heapq
import itertools
import os
import re
from collections.abc import Iterator
from typing import Final

from connector.messaging.message import order_key
from connector.stores.dropbox import codec, files
from connector.stores.dropbox.claims import split_tag
from connector.stores.dropbox.delayed import due_and_name
from connector.stores.dropbox.listing import rank, sorts_as_text

_MOST_IDS: Final = 20
"""Ids that are looked for in the names of files."""
_has_encoded_id: Final = re.compile(r"[^.]*\.[^.]*%").match
"""A foreign program may encode more of an id than is necessary."""


def _names(folder: str) -> list[str]:
    """Returns names that may be messages. Empty if a foreign program has not made the folder.

    Raises:
        ProviderError: the folder cannot be read.
    """
    try:
        return [name for name in os.listdir(folder) if not name.startswith(".")]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise files.unreadable(folder, error) from error


def scan_order(folder: str, ids: frozenset[str] | None) -> Iterator[tuple[tuple[int, int, str], str, str]]:
    """Yields place, folder and name of each file, in the order of taking.

    Args:
        ids: only files that may be of these messages, or name one of them. Names that show an id come first.
            None = all files.
    """
    names = _names(folder)
    if ids is None or len(ids) > _MOST_IDS:
        yield from _sort_lazily(folder, names)
        return
    shown, hidden = _split_by_id(names, ids)
    yield from _sort_lazily(folder, shown)
    yield from _sort_lazily(folder, hidden)


def _sort_lazily(folder: str, names: list[str]) -> Iterator[tuple[tuple[int, int, str], str, str]]:
    """Yields place, folder and name of each file, in the order of taking.

    A caller may want only the first messages of many. So names that sort as text are put in order one after
    the other.
    """
    if all(map(sorts_as_text, names)):
        by_priority: dict[str, list[str]] = {}
        for name in names:
            by_priority.setdefault(name[0], []).append(name)
        for priority in sorted(by_priority, reverse=True):
            waiting = by_priority[priority]
            heapq.heapify(waiting)
            while waiting:
                name = heapq.heappop(waiting)
                yield _place_of(folder, name), folder, name
    else:
        yield from sorted((_place_of(folder, name), folder, name) for name in names)


def _split_by_id(names: list[str], ids: frozenset[str]) -> tuple[list[str], list[str]]:
    """Returns the names that show one of some ids, and the names that may hide one: in a sidecar, or encoded.

    One search in all names takes a fifth of the time of a search in each.
    """
    encoded = ((one, codec.encode_field(one), codec.encode_pair_part(one)) for one in ids if one)
    texts = set(itertools.chain.from_iterable(encoded))
    joined = "\0".join((*names, ""))
    wanted = "|".join(map(re.escape, (*texts, codec.HEADER_KEY, "%")))
    if not joined.isascii():
        wanted += "|[^\0-\x7f]"
    shown, hidden, end = [], [], 0
    for hit in re.finditer(wanted, joined):
        if hit.start() < end:
            continue
        end = joined.index("\0", hit.start())
        name = joined[joined.rfind("\0", 0, hit.start()) + 1 : end]
        if any(text in name for text in texts):
            shown.append(name)
        elif codec.HEADER_KEY in name or not name.isascii() or _has_encoded_id(name):
            hidden.append(name)
    return shown, hidden


def _place_of(folder: str, name: str) -> tuple[int, int, str]:
    """Returns the place of a file among those that are scanned, in the order of taking."""
    short = split_tag(due_and_name(f"{folder}/{name}")[1])[0]
    priority, age = rank(short)
    if age is None:
        try:
            age = os.lstat(f"{folder}/{name}").st_mtime_ns // 1000
        except OSError:
            age = 0  # gone
    return order_key(priority, age, short)
