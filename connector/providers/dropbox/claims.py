"""Claims: a rename out of ``target/`` that records its owner.

The claimed file is ``processing/<name>~@<client>-<cycle>-<sequence>``: the name is untouched, so
giving it back is the same rename reversed; one more letter says that it came from a virtual destination
and goes back there. With an in-progress destination the claim *is* the move
there; then owner and origin stand among the properties of the name, because that file lies in the
``target/`` of a queue, where every reader of the protocol has to understand it.
"""

from __future__ import annotations

import os
import shutil
from typing import Final, NamedTuple

from connector.core.local.channel import Channel, Owner
from connector.core.local.claims import LocalClaim
from connector.core.local.headers import ORIGIN, origin_queue
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.providers.dropbox import codec
from connector.providers.dropbox.clients import base36
from connector.providers.dropbox.headers import HeaderStore
from connector.providers.dropbox.layout import VIEW_LETTERS, Layout, QueueFolders

TAG: Final = "~@"
WAITS: Final = "waits"
"""Stands in the place of the owner of a message that waits in an in-progress destination."""


class Tag(NamedTuple):
    """Who has claimed a file, and from which virtual destination, by its letter."""

    owner: Owner
    view: str = ""


def owner_text(client_id: str, cycle: int, sequence: int) -> str:
    """An owner as file names have it."""
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
    """A name in ``processing/`` without its tag, and what the tag says."""
    name, separator, text = claimed.rpartition(TAG)
    tag = _parse_tag(text) if separator and name else None
    return (name, tag) if tag else (claimed, None)


class DropboxClaim(LocalClaim):
    """A claimed file (see :class:`connector.core.local.claims.LocalClaim`).

    Args:
        layout, headers: of the root.
        folders: that it goes back to.
        home: the channel of these folders.
        name: the file name of the message, without the tag of a claim.
        path: relative to the root, as the file is called now.
        client_id, cycle, sequence: who has it, as :class:`Owner`; an empty ``client_id`` = nobody.
        in_progress: whether it lies in an in-progress destination.
    """

    __slots__ = ("_full", "_headers", "_id", "_layout", "folders", "name", "path")

    def __init__(
        self,
        layout: Layout,
        headers: HeaderStore,
        folders: QueueFolders,
        home: Channel,
        name: str,
        path: str,
        client_id: str = "",
        cycle: int = 0,
        sequence: int = 0,
        *,
        in_progress: bool = False,
    ) -> None:
        self._layout = layout
        self._headers = headers
        self.folders = folders
        self.home = home
        self.destination = folders.destination
        self.name = name
        self.path = path
        self._client_id = client_id
        self.cycle = cycle
        self.sequence = sequence
        self.in_progress = in_progress
        self._full: str | None = None
        self._id: str | None = None
        self.waits = in_progress and not client_id and waits(self.full_name)

    @property
    def reference(self) -> str:
        return self.path

    @property
    def full_name(self) -> str:
        """The name with all headers, also those of a sidecar; as much as is known where that is lost."""
        if self._full is None:
            self._full = self._headers.full(self.name)
        return self._full

    @property
    def delivery_count(self) -> int:
        if codec.DELIVERY_COUNT not in self.name and codec.HEADER_KEY not in self.name:
            return 0
        return self._decoded().delivery_count - 1

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
        value = self._decoded().properties.get("JMSXGroupID")
        return None if value is None else str(value)

    @property
    def duplicate_key(self) -> str:
        own = codec.own_id(self.full_name)
        if own is not None:
            self._id = f"ID:{own}"
        key = f"{self.folders.text}|{self.message_id}"
        if "\n" in key:
            key = key.replace("\n", "%0A")
        if own is not None:
            return key
        try:  # a bare name may be used again for another message: the file itself tells them apart
            status = os.lstat(self._layout.absolute(self.path))
        except FileNotFoundError:
            return key
        return f"{key}|{status.st_ino}:{status.st_mtime_ns}"

    def headers(self) -> Message:
        """All headers and properties, no body; those that cannot be read are left out."""
        return self._decoded()

    def _decoded(self) -> Message:
        return codec.decode(self.full_name, readable_only=True)[0]


def owned_name(name: str, owner: str, origin: Destination) -> str:
    """The name in an in-progress destination: with owner and origin among the properties.

    Args:
        owner: as :func:`owner_text` says, or :data:`WAITS` where it is nobody's.
    """
    if ORIGIN in name or codec.OWNER in name:
        name = codec.without_properties(name, (ORIGIN, codec.OWNER))
    pairs = "&".join((f"{codec.OWNER}S={owner}", codec.encode_property(ORIGIN, "string", str(origin))))
    return codec.add_properties(name, pairs)


def waits(name: str) -> bool:
    """Whether a full name in an in-progress destination says that its message waits."""
    return f"{codec.OWNER}S={WAITS}" in name


def in_progress_origin(name: str) -> tuple[Owner | None, Destination | None]:
    """Owner and origin in the name of a message in an in-progress destination; only a queue is an origin."""
    message, own = codec.decode(name, readable_only=True)
    tag = _parse_tag(own.get("owner", ""))
    return tag.owner if tag else None, origin_queue(message)


def remove_messages(headers: HeaderStore, directory: str) -> None:
    """Removes a directory of messages, with their sidecars. What cannot be removed stays."""
    for _, _, names in os.walk(directory):
        for name in names:
            headers.remove(split_tag(name)[0])
    shutil.rmtree(directory, ignore_errors=True)
