"""Prepared messages: files in ``working/`` with the tag of a client that has not sent them yet.

They are synced before their commit, all at once. A loss of power before that may leave the name of a file and
a journal that says done, and not the body. So the name has a digest of the body.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from typing import Final

from connector.errors import MalformedData
from connector.state.locked_file import list_files
from connector.stores.dropbox import files
from connector.stores.dropbox.claims import split_tag
from connector.stores.dropbox.layout import RootLayout

_DIGEST: Final = re.compile(r"_([0-9a-f]{16})\Z").search
_NO_LIMIT: Final = 1 << 62


def prepared_name(key: str, body: bytes) -> str:
    """Returns the name of a prepared message, without the tag of its client."""
    return f"{key}_{_digest(body)}"


def is_whole(path: str) -> bool:
    """Whether a prepared message of another client is there with its body. Earlier versions tell no body.

    Raises:
        OSError: the file cannot be read.
    """
    digest = _DIGEST(split_tag(os.path.basename(path))[0])
    if digest is None:
        return os.path.lexists(path)
    try:
        return _digest(files.read_regular(path, _NO_LIMIT)[0]) == digest[1]
    except (FileNotFoundError, MalformedData):
        return False


def _digest(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=8).hexdigest()


def prepared_files(layout: RootLayout) -> Iterator[tuple[str, str]]:
    """Yields the client and the path of each prepared message under a root."""
    for folders in layout.everywhere():
        for name in files.names_in(folders.working):
            tag = split_tag(name)[1]
            if tag is not None:
                yield tag.owner.client_id, f"{folders.working}/{name}"


def owners_of_prepared(layout: RootLayout) -> set[str]:
    """Returns the clients that have prepared messages, living or not."""
    return {client_id for client_id, _ in prepared_files(layout)}


def remove_prepared(layout: RootLayout, client_id: str) -> None:
    """Removes the prepared messages of a client.

    A file that this user may not remove stays.

    Raises:
        OSError: files cannot be removed.
    """
    for owner, path in prepared_files(layout):
        if owner == client_id:
            _remove(layout, path)


def remove_forgotten(layout: RootLayout) -> None:
    """Removes the prepared messages of clients that have no file any more. No recovery looks for these.

    Raises:
        OSError: files cannot be removed.
    """
    found = list(prepared_files(layout))
    known = list_files(layout.clients)  # after the files: a client has its file before it prepares
    for owner, path in found:
        if owner not in known:
            _remove(layout, path)


def _remove(layout: RootLayout, path: str) -> None:
    try:
        files.remove(path)
    except OSError as error:
        if not files.is_stuck(error, layout.clients):
            raise
