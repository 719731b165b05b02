"""Claims: a rename out of ``target/`` that records the owner.

The claimed file is ``processing/<name>~@<client>-<cycle>-<sequence>``. The name itself is unchanged, so
giving back is the reverse rename. One more letter says that the message came from a virtual destination and
goes back there. With an in-progress destination the claim *is* the move there. Then owner and origin are
properties in the name, because that file lies in the ``target/`` of a queue. Every reader of the protocol has
to understand that file.
"""

from __future__ import annotations

import os
import shutil
from typing import Final, NamedTuple

from connector.messaging.destination import Destination
from connector.messaging.history import file_name
from connector.messaging.message import FILE_NAME, Message
from connector.stores.dropbox import codec, files
from connector.stores.dropbox.clients import base36
from connector.stores.dropbox.headers import HeaderStore
from connector.stores.dropbox.layout import VIEW_LETTERS, QueueFolders, RootLayout
from connector.stores.engine.channel import Channel, Owner
from connector.stores.engine.claims import LocalClaim, duplicate_key
from connector.stores.engine.headers import ORIGIN, origin_queue

TAG: Final = codec.TAG
WAITS: Final = "waits"
"""Stands in place of the owner of a message that waits in an in-progress destination."""


class Tag(NamedTuple):
    """The owner of a claimed file, and the letter of the virtual destination of the claim."""

    owner: Owner
    view: str = ""


def owner_text(client_id: str, cycle: int, sequence: int) -> str:
    """Returns an owner as text for file names."""
    return f"{client_id}-{base36(cycle)}-{base36(sequence)}"


def _parse_tag(text: str) -> Tag | None:
    parts = text.split("-")
    if len(parts) not in (3, 4) or not all(parts):
        return None
    view = parts[3] if len(parts) == 4 else ""
    if view and view not in VIEW_LETTERS:
        return None
    try:
        return Tag(Owner(parts[0], int(parts[1], 36), int(parts[2], 36)), view)
    except ValueError:
        return None


def split_tag(claimed: str) -> tuple[str, Tag | None]:
    """Splits a name in ``processing/`` into the name without tag, and the tag."""
    name, separator, text = claimed.rpartition(TAG)
    tag = _parse_tag(text) if separator and name else None
    return (name, tag) if tag else (claimed, None)


class DropboxClaim(LocalClaim):
    """A claimed file (see :class:`connector.stores.engine.claims.LocalClaim`).

    Args:
        folders: the folders that the message goes back to.
        name: the file name of the message, without the tag of a claim.
        path: the current path of the file, relative to the root.
        owner: as :class:`Owner`. None = no owner.
        in_progress: whether the message lies in an in-progress destination.
    """

    __slots__ = ("_full", "_headers", "_id", "_layout", "folders", "name", "path")

    def __init__(
        self,
        layout: RootLayout,
        headers: HeaderStore,
        folders: QueueFolders,
        home: Channel,
        name: str,
        path: str,
        owner: tuple[str, int, int] | None,
        *,
        in_progress: bool = False,
    ) -> None:
        self._layout = layout
        self._headers = headers
        self.folders = folders
        self.home = home
        self.subscription = home.subscription
        self.destination = folders.destination
        self.name = name
        self.path = path
        self._client_id, self.cycle, self.sequence = owner or ("", 0, 0)
        self.input = None
        self.in_progress = in_progress
        self._full: str | None = None
        self._id: str | None = None
        self.waits = in_progress and owner is None and waits(self.full_name)

    @property
    def reference(self) -> str:
        return self.path

    @property
    def file(self) -> str:
        """The absolute path."""
        return self._layout.absolute(self.path)

    @property
    def full_name(self) -> str:
        """The name with all headers, also those of a sidecar.

        If the sidecar is lost, with all known headers.
        """
        if self._full is None:
            self._full = self._headers.full(self.name)
        return self._full

    @property
    def delivery_count(self) -> int:
        if codec.DELIVERY_COUNT not in self.name and codec.HEADER_KEY not in self.name:
            return 0
        return self._decode().delivery_count - 1

    @property
    def message_id(self) -> str:
        if self._id is None:
            self._id = codec.message_id(self.full_name)
        return self._id

    @property
    def group_id(self) -> str | None:
        name = self.full_name
        if "JMSXGroupID" not in name:
            return None
        return self._decode().group_id

    @property
    def file_name(self) -> str:
        return file_name(self._decode()) if FILE_NAME in self.full_name else ""

    @property
    def duplicate_key(self) -> str:
        own = codec.own_id(self.full_name)
        if own is not None:
            self._id = f"ID:{own}"
        key = duplicate_key(self.folders.text, self.message_id)
        if own is not None:
            return key
        try:  # claimed or copied by an earlier version, with the name as the id: the file tells them apart
            status = os.lstat(self.file)
        except OSError:
            return key
        return f"{key}|{status.st_ino}:{status.st_mtime_ns}"

    def headers(self) -> Message:
        return self._decode()

    def _decode(self) -> Message:
        return codec.decode(self.full_name, readable_only=True)[0]


def name_with_owner(name: str, owner: str, origin: Destination) -> str:
    """Returns the name in an in-progress destination, with owner and origin among the properties.

    Args:
        owner: as :func:`owner_text` returns, or :data:`WAITS` for no owner.
    """
    if ORIGIN in name or codec.OWNER in name:
        name = codec.without_properties(name, (ORIGIN, codec.OWNER))
    pairs = "&".join((f"{codec.OWNER}S={owner}", codec.encode_property(ORIGIN, "string", str(origin))))
    return codec.add_properties(name, pairs)


def waits(name: str) -> bool:
    """Whether a full name in an in-progress destination says that its message waits."""
    return f"{codec.OWNER}S={WAITS}" in name


def in_progress_origin(name: str) -> tuple[Owner | None, Destination | None]:
    """Returns owner and origin from the name of a message in an in-progress destination.

    Only a queue is an origin.
    """
    message, own = codec.decode(name, readable_only=True)
    tag = _parse_tag(own.get("owner", ""))
    return tag.owner if tag else None, origin_queue(message)


def remove_messages(headers: HeaderStore, directory: str) -> None:
    """Removes a directory of messages, with their sidecars. Files that cannot be removed stay."""
    for folder, _, names in os.walk(directory):
        for name in names:
            short = files.split_due(name)[1] if folder.endswith(f"/{files.DELAYED}") else name
            headers.remove(headers.keys_of_file(split_tag(short)[0], f"{folder}/{name}"))
    shutil.rmtree(directory, ignore_errors=True)
