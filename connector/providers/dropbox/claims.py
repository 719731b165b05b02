"""Claims: a rename out of ``target/`` that records its owner.

The claimed file is ``processing/<name>~@<client>-<cycle>-<sequence>``: the name is untouched, so
giving it back is the same rename reversed; one more letter says that it came from a virtual destination
and goes back there. With an in-progress destination the claim *is* the move
there; then owner and origin stand among the properties of the name, because that file lies in the
``target/`` of a queue, where every reader of the protocol has to understand it.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from connector.errors import DestinationError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.providers.dropbox import codec
from connector.providers.dropbox.clients import base36
from connector.providers.dropbox.headers import HeaderStore
from connector.providers.dropbox.layout import VIEW_LETTERS, Layout, QueueFolders

TAG: Final = "~@"
ORIGIN: Final = "connector_origin_destination"
ATTEMPTS: Final = "connector_attempts"
WAITS: Final = "waits"
"""Stands in the place of the owner of a message that waits in an in-progress destination."""
_MAX_INT: Final = (1 << 31) - 1


class Owner(NamedTuple):
    """Who has claimed a message, and as what; ``view`` is the letter of a virtual destination."""

    client_id: str
    cycle: int
    sequence: int
    view: str = ""

    def __str__(self) -> str:
        return f"{self.client_id}-{base36(self.cycle)}-{base36(self.sequence)}"


def parse_owner(text: str) -> Owner | None:
    parts = text.split("-")
    if len(parts) not in (3, 4) or not all(parts):
        return None
    view = parts[3] if len(parts) == 4 else ""
    if view and view not in VIEW_LETTERS:
        return None
    try:
        return Owner(parts[0], int(parts[1], 36), int(parts[2], 36), view)
    except ValueError:
        return None


def split_tag(claimed: str) -> tuple[str, Owner | None]:
    """A name in ``processing/`` without its tag, and the owner that the tag names."""
    name, separator, tag = claimed.rpartition(TAG)
    owner = parse_owner(tag) if separator and name else None
    return (name, owner) if owner else (claimed, None)


class DropboxClaim:
    """A claimed file (see :class:`connector.messaging.provider.Claim`).

    Args:
        path: relative to the root, as the file is called now.
        name: the file name of the message, without the tag of a claim.
        home: the folders it goes back to.
    """

    __slots__ = (
        "_full",
        "_headers",
        "_id",
        "_layout",
        "cycle",
        "destination",
        "home",
        "name",
        "owner",
        "path",
        "sequence",
    )

    def __init__(
        self,
        layout: Layout,
        headers: HeaderStore,
        home: QueueFolders,
        name: str,
        path: str,
        cycle: int,
        sequence: int,
        owner: Owner | None = None,
    ) -> None:
        self._layout = layout
        self._headers = headers
        self.home = home
        self.destination = home.destination
        self.name = name
        self.path = path
        self.cycle = cycle
        self.sequence = sequence
        self.owner = owner
        self._full: str | None = None
        self._id: str | None = None

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
    def in_progress(self) -> bool:
        folder = self._layout.absolute(self.path).rpartition("/")[0]
        return folder != self.home.processing

    @property
    def waits(self) -> bool:
        return self.owner is None and waits(self.full_name)

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
        fields = codec.split(self.full_name)
        has_id = fields is not None and not codec.is_bare(fields.properties)
        if has_id and fields is not None:
            self._id = f"ID:{codec.decode_field(fields.id)}"
        key = f"{self.home.text}|{self.message_id}"
        if "\n" in key:
            key = key.replace("\n", "%0A")
        if has_id:
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


def owned_name(name: str, owner: Owner | str, origin: Destination) -> str:
    """The name in an in-progress destination: with owner and origin among the properties.

    Args:
        owner: :data:`WAITS` where nobody is.
    """
    if ORIGIN in name or codec.OWNER in name:
        name = codec.without_properties(name, (ORIGIN, codec.OWNER))
    pairs = "&".join((f"{codec.OWNER}S={owner}", codec.encode_property(ORIGIN, "string", str(origin))))
    return codec.add_properties(name, pairs)


def waits(name: str) -> bool:
    """Whether a full name in an in-progress destination says that its message waits."""
    return f"{codec.OWNER}S={WAITS}" in name


def counted_anew(name: str) -> str:
    """The full name in ``error/``: its deliveries are ``connector_attempts``, and begin anew when it is back.

    Else a message that an operator moves back would come here again at once (reference, 4.2).
    """
    message, _ = codec.decode(name, readable_only=True)
    earlier = message.properties.get(ATTEMPTS)
    attempts = message.delivery_count - 1 + (earlier if isinstance(earlier, int) and earlier > 0 else 0)
    name = codec.without_properties(name, (codec.DELIVERY_COUNT, ATTEMPTS))
    return codec.add_properties(name, codec.encode_property(ATTEMPTS, "int", min(attempts, _MAX_INT)))


def in_progress_origin(name: str) -> tuple[Owner | None, Destination | None]:
    """Owner and origin in the name of a message in an in-progress destination; only a queue is an origin."""
    message, own = codec.decode(name, readable_only=True)
    owner = parse_owner(own.get("owner", ""))
    origin = message.properties.get(ORIGIN)
    if not isinstance(origin, str):
        return owner, None
    try:
        destination = parse_destination(origin)
    except DestinationError:
        return owner, None
    return owner, destination if destination.is_queue and not destination.view else None
