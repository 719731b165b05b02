"""Claims: a rename out of ``target/`` that records its owner.

The claimed file is ``processing/<name>~@<client>-<cycle>-<sequence>``: the name is untouched, so
giving it back is the same rename reversed. With an in-progress destination the claim *is* the move
there; then owner and origin stand among the properties of the name, because that file lies in the
``target/`` of a queue, where every reader of the protocol has to understand it.
"""

from __future__ import annotations

import errno
import os
import time
from typing import Final, NamedTuple

from connector import faults
from connector.errors import DestinationError, MalformedData, ProviderError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.providers.dropbox import codec
from connector.providers.dropbox.clients import base36
from connector.providers.dropbox.files import rename_to_free_name
from connector.providers.dropbox.headers import HeaderStore, key_of
from connector.providers.dropbox.layout import Layout, QueueFolders
from connector.providers.dropbox.listing import Listing

TAG: Final = "~@"
ORIGIN: Final = "connector_origin_destination"


class Owner(NamedTuple):
    """Who has claimed a message, and as what."""

    client_id: str
    cycle: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.client_id}-{base36(self.cycle)}-{base36(self.sequence)}"


def parse_owner(text: str) -> Owner | None:
    parts = text.split("-")
    if len(parts) != 3 or not all(parts):
        return None
    try:
        return Owner(parts[0], int(parts[1], 36), int(parts[2], 36))
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
        """The name with all headers, also those of a sidecar; the short one where that is gone."""
        if self._full is None:
            try:
                self._full = self._headers.expand(self.name)
            except MalformedData:
                self._full = self.name
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


class QueuePoller:
    """Takes messages of one queue (see :class:`connector.messaging.provider.Poller`)."""

    def __init__(
        self,
        layout: Layout,
        headers: HeaderStore,
        client_id: str,
        destination: Destination,
        in_progress: Destination | None,
        *,
        limit: int,
        keep: bool,
    ) -> None:
        self._layout = layout
        self._headers = headers
        self.destination = destination
        self._client_id = client_id
        self._limit = limit
        self._keep = keep
        self._folders = layout.ensure(destination)
        self._in_progress = layout.ensure(in_progress) if in_progress else None
        self._listing = Listing(self._folders.target)
        self._target = self._folders.target + "/"
        self._processing = self._folders.processing + "/"
        self._relative = layout.relative(self._processing)
        self._tag = f"{TAG}{client_id}-"
        self.expired = 0

    def take(self, cycle: int, sequence: int) -> DropboxClaim | None:
        """See :meth:`connector.messaging.provider.Poller.take`."""
        while (name := self._listing.next()) is not None:
            if self._has_expired(name):
                self._expire(name)
                continue
            if codec.DELIVERY_COUNT in name and self._delivered_too_often(name):
                self._remove_to(self._folders.error, name)
                continue
            claimed = self._claim(name, cycle, sequence)
            if claimed is not None:
                return claimed
        return None

    def look_again(self) -> None:
        """Messages came back to the queue: the next :meth:`take` must see them."""
        self._listing.forget()

    def _claim(self, name: str, cycle: int, sequence: int) -> DropboxClaim | None:
        if self._in_progress is not None:
            return self._move_to_in_progress(name, cycle, sequence)
        claimed = f"{name}{self._tag}{base36(cycle)}-{base36(sequence)}"
        try:
            os.rename(self._target + name, self._processing + claimed)
        except OSError as error:
            return self._claim_anyway(error, name, cycle, sequence)
        faults.point("claim")
        return DropboxClaim(
            self._layout, self._headers, self._folders, name, self._relative + claimed, cycle, sequence
        )

    def _claim_anyway(self, error: OSError, name: str, cycle: int, sequence: int) -> DropboxClaim | None:
        """What a failed claim means: somebody else was faster, the name is too long, or real trouble."""
        if error.errno == errno.ENOENT:
            if not os.path.lexists(self._target + name):
                return None
            self._layout.make(self._folders)  # somebody removed processing/
            os.makedirs(self._folders.processing, exist_ok=True)
            return self._claim(name, cycle, sequence)
        if error.errno == errno.ENAMETOOLONG:
            tag = f"{self._tag}{base36(cycle)}-{base36(sequence)}"
            short = self._fit(name, codec.NAME_MAX - len(tag))
            if not self._rename_fitted(name, short, self._processing + short + tag):
                return None
            faults.point("claim")
            return DropboxClaim(
                self._layout,
                self._headers,
                self._folders,
                short,
                self._relative + short + tag,
                cycle,
                sequence,
            )
        raise self._trouble(error) from error

    def _move_to_in_progress(self, name: str, cycle: int, sequence: int) -> DropboxClaim | None:
        assert self._in_progress is not None
        owner = Owner(self._client_id, cycle, sequence)
        moved = owned_name(name, owner, self._folders.destination)
        if len(os.fsencode(moved)) > codec.NAME_MAX:
            moved = self._fit(moved, codec.NAME_MAX)
        target = f"{self._in_progress.target}/{moved}"
        if not os.path.isdir(self._in_progress.target):
            self._layout.make(self._in_progress)  # somebody removed it
        if not self._rename_fitted(name, moved, target):
            return None
        faults.point("claim")
        return DropboxClaim(
            self._layout,
            self._headers,
            self._folders,
            moved,
            self._layout.relative(target),
            cycle,
            sequence,
            owner,
        )

    def _rename_fitted(self, name: str, fitted: str, target: str) -> bool:
        """Takes a message under a name that may have a sidecar of its own; False where it is gone."""
        try:
            os.rename(self._target + name, target)
        except OSError as error:
            if key_of(fitted) != key_of(name):
                self._headers.remove(fitted)
            if error.errno == errno.ENOENT and not os.path.lexists(self._target + name):
                return False
            raise self._trouble(error) from error
        if key_of(fitted) != key_of(name):
            self._headers.remove(name)
        return True

    def _fit(self, name: str, room: int) -> str:
        try:
            return self._headers.fit(name, room)
        except OSError as error:
            raise self._trouble(error) from error

    def _has_expired(self, name: str) -> bool:
        parts = name.split(".", 4)
        if len(parts) < 4 or not parts[3] or not codec.split(name):
            return False
        try:
            expiration = codec.decode_expiration(parts[3])
        except MalformedData:
            return False  # the event fails with that text
        return 0 < expiration <= time.time_ns() // 1_000_000

    def _delivered_too_often(self, name: str) -> bool:
        try:
            return codec.decode(name)[0].delivery_count > self._limit
        except MalformedData:
            return False

    def _expire(self, name: str) -> None:
        if self._keep:
            self.expired += self._remove_to(self._folders.expired, name)
            return
        try:
            os.unlink(self._target + name)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._trouble(error) from error
        self._headers.remove(name)
        self.expired += 1

    def _remove_to(self, folder: str, name: str) -> bool:
        """Moves a message that is not for delivery; False where somebody else was faster."""
        try:
            if not os.path.lexists(self._target + name):
                return False
            os.makedirs(folder, exist_ok=True)
            rename_to_free_name(self._target + name, f"{folder}/{name}", self._headers.fit)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._trouble(error) from error
        return True

    def _trouble(self, error: OSError) -> ProviderError:
        if error.errno == errno.EXDEV:
            return ProviderError(
                f"cannot take a message of {self._folders.destination}: {error.filename!r} and "
                f"{error.filename2!r} lie on different file systems; put all folders of the root on one"
            )
        return ProviderError(
            f"cannot take a message of {self._folders.destination}: {error.strerror}: {error.filename!r}; "
            "give this user the right to write there, or make room on the disk"
        )


def owned_name(name: str, owner: Owner, origin: Destination) -> str:
    """The name in an in-progress destination: with owner and origin among the properties."""
    if ORIGIN in name or codec.OWNER in name:
        name = codec.without_properties(name, (ORIGIN, codec.OWNER))
    pairs = "&".join((f"{codec.OWNER}S={owner}", codec.encode_property(ORIGIN, "string", str(origin))))
    return codec.add_properties(name, pairs)


def in_progress_origin(name: str) -> tuple[Owner | None, Destination | None]:
    """Owner and origin in the name of a message in an in-progress destination."""
    message, own = codec.decode(name, readable_only=True)
    owner = parse_owner(own.get("owner", ""))
    origin = message.properties.get(ORIGIN)
    if not isinstance(origin, str):
        return owner, None
    try:
        return owner, parse_destination(origin)
    except DestinationError:
        return owner, None
