"""The claims under a root, according to the file names."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator

from connector.messaging.destination import Destination
from connector.stores.dropbox import codec
from connector.stores.dropbox.claims import DropboxClaim, in_progress_origin, split_tag
from connector.stores.dropbox.files import names_in
from connector.stores.dropbox.headers import HeaderStore
from connector.stores.dropbox.layout import VIEW_LETTERS, QueueFolders, RootLayout
from connector.stores.dropbox.transaction_log import LEFT, sources_left
from connector.stores.engine.channel import Channel, Part, channel_of, is_lot


def claims_by_owner(
    layout: RootLayout,
    headers: HeaderStore,
    client_ids: Collection[str] | None,
    in_progress: Destination | None,
) -> dict[str, list[DropboxClaim]]:
    """Returns the claims under the root by the client in the file name, in the order of taking.

    Args:
        client_ids: of the clients. None = all clients.
        in_progress: include this in-progress destination.
    """
    found: dict[str, list[DropboxClaim]] = {}
    has_lots = client_ids is not None and any(map(is_lot, client_ids))
    settled = sources_left(layout, "" if has_lots else LEFT)
    for folders, key in _places(layout):
        for owner, claim in _claims_in(layout, headers, folders, key, client_ids):
            if claim.path not in settled:
                found.setdefault(owner, []).append(claim)
    for claim in in_progress_claims(layout, headers, in_progress) if in_progress is not None else ():
        if claim.owner is not None and (client_ids is None or claim.owner.client_id in client_ids):
            found.setdefault(claim.owner.client_id, []).append(claim)
    for claims in found.values():
        claims.sort(key=lambda claim: (claim.cycle, claim.sequence))
    return found


def _claims_in(
    layout: RootLayout,
    headers: HeaderStore,
    folders: QueueFolders,
    key: str,
    client_ids: Collection[str] | None,
) -> Iterator[tuple[str, DropboxClaim]]:
    """Yields the claims in the folder ``processing`` of a queue or subscription, each with its client."""
    relative = layout.relative(folders.processing)
    for name in names_in(folders.processing):
        short, tag = split_tag(name)
        if tag is None or (client_ids is not None and tag.owner.client_id not in client_ids):
            continue
        home, part = folders, Part.MAIN
        if tag.view:
            view = Destination("queue", f"{folders.destination.name}~{VIEW_LETTERS[tag.view]}")
            home, part = layout.queue(view), channel_of(view).part
        channel = Channel(folders.destination, key, part)
        claim = DropboxClaim(layout, headers, home, channel, short, f"{relative}/{name}", tag.owner)
        yield tag.owner.client_id, claim


def owned_claims(layout: RootLayout, headers: HeaderStore, folders: QueueFolders) -> Iterator[DropboxClaim]:
    """Yields the claims of messages in a queue: claimed from there, and in progress there with an owner."""
    for _, claim in _claims_in(layout, headers, folders, "", None):
        yield claim
    for claim in in_progress_claims(layout, headers, folders.destination, owned=True):
        if claim.owner is not None:
            yield claim


def claimed_at(layout: RootLayout, claim: DropboxClaim) -> float:
    """Returns the time of a claim in seconds since 1970: a rename changes the ctime of the file. 0 = gone."""
    try:
        return os.lstat(layout.absolute(claim.path)).st_ctime
    except OSError:
        return 0.0


def _places(layout: RootLayout) -> Iterator[tuple[QueueFolders, str]]:
    """Yields all folders of messages, each with the key of its subscription."""
    for folders in layout.everywhere():
        yield folders, os.path.basename(folders.base) if folders.copy_tag else ""


def in_progress_claims(
    layout: RootLayout, headers: HeaderStore, in_progress: Destination, *, owned: bool = False
) -> Iterator[DropboxClaim]:
    """Yields the messages in an in-progress destination, as claims. ``owned`` = only those that may be owned.

    A queue with many messages has few that may be owned, and to decode a name takes a while.
    """
    folders = layout.queue(in_progress)
    relative = layout.relative(folders.target)
    try:
        with os.scandir(folders.target) as entries:
            names = sorted(e.name for e in entries if e.is_file(follow_symlinks=False) and e.name[0] != ".")
    except FileNotFoundError:
        return
    settled = sources_left(layout)
    for name in names:
        if owned and codec.OWNER not in name and codec.HEADER_KEY not in name:
            continue
        if f"{relative}/{name}" in settled:
            continue
        owner, origin = in_progress_origin(name if codec.OWNER in name else headers.full(name))
        home = layout.queue(origin) if origin is not None else folders
        yield DropboxClaim(
            layout,
            headers,
            home,
            Channel(home.destination),
            name,
            f"{relative}/{name}",
            owner,
            in_progress=True,
        )
