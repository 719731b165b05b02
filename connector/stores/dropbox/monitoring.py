"""The answers to an operator while clients work.

Makes nothing, and leaves out files that vanish meanwhile.
"""

from __future__ import annotations

import os
from itertools import groupby

from connector.messaging.destination import Destination
from connector.messaging.notes import BatchNote, WaitingNote
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox.files import names_in
from connector.stores.dropbox.headers import HeaderStore
from connector.stores.dropbox.layout import RootLayout
from connector.stores.dropbox.listing import rank, sorts_as_text
from connector.stores.dropbox.open_claims import claimed_at, claims_by_owner
from connector.stores.dropbox.subscription_files import directory_name
from connector.stores.engine.channel import is_lot


def open_batches(
    layout: RootLayout, headers: HeaderStore, in_progress: Destination | None
) -> list[BatchNote]:
    """Returns the open claims of all clients, by client and batch.

    Raises:
        ProviderError: this user may not look.
    """
    found = []
    for client_id, claims in claims_by_owner(layout, headers, None, in_progress).items():
        if is_lot(client_id):
            continue
        for number, batch in groupby(claims, key=lambda claim: claim.cycle):
            by_sequence = {claim.sequence: claim for claim in batch}
            since = next(filter(None, (claimed_at(layout, one) for one in by_sequence.values())), 0.0)
            found.append(BatchNote(client_id, number, since, by_sequence))
    return found


def look_at_waiting(
    layout: RootLayout, source: Destination | TopicSubscription, *, may_grow: bool
) -> WaitingNote:
    """Returns the number of waiting messages of a source, and the time of the oldest message.

    Args:
        may_grow: whether a file is as old as its last change on this disk. Its other time stamps may be those
            of a copy.

    Raises:
        ProviderError: this user may not look.
    """
    if isinstance(source, TopicSubscription):
        folders = layout.subscription(source.topic, directory_name(source))
    else:
        folders = layout.queue(source)
    folder, delayed = folders.target, folders.delayed
    names = [name for name in names_in(folder) if name[0] != "."]
    return WaitingNote(len(names), _oldest(folder, names, may_grow=may_grow), len(names_in(delayed)))


def _oldest(folder: str, names: list[str], *, may_grow: bool) -> float | None:
    """Returns the time of the oldest file in seconds since 1970. None = there is none."""
    if may_grow:
        changes = [changed for name in names if (changed := _changed_at(folder, name)) is not None]
        return min(changes, default=None)
    if names and all(map(sorts_as_text, names)):  # a third of the time, where many messages wait
        return int(min(name[2:18] for name in names)) / 1e6
    ages = [age for name in names if (age := _sent_at(folder, name)) is not None]
    return min(ages) / 1e6 if ages else None


def _changed_at(folder: str, name: str) -> float | None:
    """Returns seconds since 1970. None if the file is gone."""
    try:
        return os.lstat(f"{folder}/{name}").st_ctime
    except OSError:
        return None


def _sent_at(folder: str, name: str) -> int | None:
    """Returns microseconds since 1970. None if the file is gone."""
    age = rank(name)[1]
    if age is not None:
        return age
    try:
        return os.lstat(f"{folder}/{name}").st_mtime_ns // 1000
    except OSError:
        return None
