"""Headers too long for a file name: in a sidecar under ``dropboxmq/headers/``.

The sidecar holds the full name, of any length. The file gets a short name with priority, class, expiration,
and the key of the sidecar as a property. So the sidecar is found after a plain ``mv`` into another queue. The
key is unique to the copy, and ends with a digest of the sidecar. Keys of earlier versions have no digest.

A sidecar names the inode of its file, which a rename keeps. A file of another program may have the same name,
in any queue. It has the same headers, and its end leaves the sidecar. Earlier versions named no inode.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Iterable
from typing import Final

from connector.errors import MalformedData, ProviderError
from connector.stores.dropbox import codec, files

_PREFIX: Final = f"{codec.HEADER_KEY}S="
_INODE: Final = f"{codec.OWN}inodeL="
_DIGEST: Final = re.compile(r"_([0-9a-f]{10})\Z").search
"""The digest in a key. No client id has a ``_``."""
_MOST: Final = 1 << 26
"""Bytes of the largest sidecar that is read."""


class HeaderStore:
    """The sidecars of one root.

    Args:
        directory: ``<root>/dropboxmq/headers``.
        client_id: makes the keys of this client unique.
        sync: whether a sidecar is durable before its file is visible.
    """

    def __init__(self, directory: str, client_id: str, *, sync: bool) -> None:
        self._directory = directory
        self._client_id = client_id
        self._sync = sync
        self._numbers = itertools.count(1)

    def fit(self, name: str, file: str, room: int = codec.NAME_MAX) -> str:
        """Returns ``name`` if it has at most ``room`` bytes, else a short name with a new sidecar.

        Args:
            file: its path now, or that of a file which the message will be a link of.
            room: bytes.

        Raises:
            OSError: the sidecar cannot be written.
            ProviderError: an existing sidecar cannot be read.
        """
        if len(name) <= room and (name.isascii() or len(os.fsencode(name)) <= room):
            return name
        full = self.full(name)
        fields = codec.split(full)
        if fields is None:
            full = codec.structure_bare(full)
            fields = codec.split(full)
            assert fields is not None
        content = _content(full, _inode(file))
        key = f"{self._client_id}-{next(self._numbers)}_{_digest(content)}"
        files.write_new(self.path(key), content, sync=self._sync)
        if self._sync:
            files.sync_earlier(self._directory)
        short = _shorten(fields, key, keys_of(full))
        # The sidecar names a lost sidecar too. So a short name without room for both loses nothing.
        return short if len(short) <= room else _shorten(fields, key)

    def full(self, name: str) -> str:
        """Returns the same as :meth:`expand`. If a sidecar is lost, returns all known headers and its key.

        Raises:
            ProviderError: no sidecar can be read.
        """
        return name if codec.HEADER_KEY not in name else self.look(name)[0]

    def expand(self, name: str) -> str:
        """Returns the full name of a message. Later properties of the short name follow those of the sidecar.

        Raises:
            MalformedData: the sidecar is missing, damaged, or may not be read.
            ProviderError: no sidecar can be read.
        """
        if codec.HEADER_KEY not in name:  # most names have no sidecar
            return name
        full, lost = self.look(name)
        if lost:
            raise MalformedData(lost)
        return full

    def look(self, name: str) -> tuple[str, str]:
        """Returns the full name as far as known, and why the rest is lost. Empty = nothing is lost.

        A sidecar that was written while another sidecar was lost names the lost sidecar, which may be back
        now.

        Raises:
            ProviderError: no sidecar can be read.
        """
        seen = set()
        while (key := key_of(name)) is not None:
            try:
                full = self._read(name, key)
            except MalformedData as error:
                return name, str(error)
            if key in seen:
                return name, f"the headers of the message are damaged: {self.path(key)} refers to itself"
            seen.add(key)
            gained = _added_properties(name)
            if gained:
                full = codec.without_properties(full, [f"{pair.partition('=')[0]}=" for pair in gained])
                full = codec.add_properties(full, "&".join(gained))
            name = full
        return name, ""

    def _read(self, name: str, key: str) -> str:
        """Returns the full name in a sidecar, checked against the short name.

        Raises:
            MalformedData: the sidecar is missing, damaged, or may not be read.
            ProviderError: no sidecar can be read.
        """
        path = self.path(key)
        try:
            content, _ = files.read_regular(path, _MOST)
        except FileNotFoundError:
            raise MalformedData(f"the headers of the message are missing: there is no file {path}") from None
        except MalformedData:
            raise MalformedData(
                f"the headers of the message are damaged: {path} is no regular file of at most {_MOST} bytes"
            ) from None
        except OSError as error:
            if files.is_of_one_file(error, self._directory):
                raise MalformedData(
                    f"the headers of the message cannot be read: {error.strerror}: {path}"
                ) from None
            raise ProviderError(f"cannot read the headers {path}: {error.strerror}") from error
        full, _ = _parse(content)
        digest = _DIGEST(key)
        if digest and digest[1] != _digest(content):
            raise MalformedData(f"the headers of the message are damaged: {path} was changed")
        short, fields = codec.split(name), codec.split(full)
        if short is None or fields is None or _facts(short) != _facts(codec.split(_shorten(fields, key))):
            raise MalformedData(
                f"the headers of the message are damaged: {path} does not belong to the file name"
            )
        return full

    def keys_of_file(self, name: str, file: str, keep: str = "") -> list[str]:
        """Returns the keys of the sidecars that go with a file. Those of another file of this name stay.

        Args:
            name: that the file has had, without the tag of a claim.
            file: its path now. If it is gone, nothing goes with it.
            keep: another name of the file, which needs the sidecars named there.
        """
        keys = without(name, keep)
        inode = _inode(file) if keys else ""
        return [key for key in keys if inode and self._inode_of(key) in ("", inode)]

    def _inode_of(self, key: str) -> str:
        """Returns the inode that a sidecar names. Empty = none, or the sidecar cannot be read."""
        try:
            content, _ = files.read_regular(self.path(key), _MOST)
        except (MalformedData, OSError):
            return ""
        return _parse(content)[1]

    def remove(self, keys: Iterable[str], *, after: str = "") -> None:
        """Removes sidecars.

        A sidecar that this user may not remove stays, because no message needs it any more.

        Args:
            after: directory of their file. A loss of power must not bring the old name back without sidecars.
        """
        gone = list(keys)
        if gone and after and self._sync:
            files.sync_earlier(after)
        for key in gone:
            try:
                files.remove(self.path(key))
            except OSError as error:
                if not files.is_of_one_file(error, self._directory):
                    raise

    def path(self, key: str) -> str:
        return os.path.join(self._directory, key)


def without(name: str, keep: str) -> list[str]:
    """Returns the keys in a name that another name does not have."""
    return [key for key in keys_of(name) if key not in keys_of(keep)]


def _content(full: str, inode: str) -> bytes:
    """Returns the content of a sidecar. Earlier versions pass over the reserved property."""
    return os.fsencode(codec.add_properties(full, f"{_INODE}{inode}") if inode else full)


def _parse(content: bytes) -> tuple[str, str]:
    """Returns the full name in a sidecar, and the inode of its file. Empty = the sidecar names none."""
    text = os.fsdecode(content)
    full, _, inode = text.rpartition(_INODE)
    if not (full and inode.isascii() and inode.isdigit()):
        return text, ""
    return full[:-1] if full.endswith("&") else full.rstrip("."), inode


def _inode(file: str) -> str:
    """Returns the inode of a file. Empty if it is gone."""
    try:
        return str(os.lstat(file).st_ino)
    except FileNotFoundError:
        return ""


def key_of(name: str) -> str | None:
    """Returns the first key of a sidecar in a file name. None if there is no key."""
    return next(iter(keys_of(name)), None)


def keys_of(name: str) -> list[str]:
    """Returns the keys of the sidecars in a file name: the own sidecar, then a lost sidecar."""
    if codec.HEADER_KEY not in name:
        return []
    fields = codec.split(name)
    if fields is None:
        return []
    keys = [
        codec.decode_field(pair[len(_PREFIX) :])
        for pair in codec.split_properties(fields.properties)
        if pair.startswith(_PREFIX)
    ]
    # Keys become paths. So even the keys of a foreign name have to stay inside the directory.
    return [key for key in keys if key and "/" not in key and "\0" not in key and not key.startswith(".")]


def _shorten(fields: codec.Fields, key: str, lost: Iterable[str] = ()) -> str:
    """Returns the short name of a message.

    Args:
        key: of the sidecar that holds the full name.
        lost: keys of sidecars that the full name itself names.
    """
    kept = [f"{_PREFIX}{one}" for one in (key, *lost)]
    if codec.is_bare(fields.properties):
        kept.append(codec.BARE)
    return codec.Fields(
        fields.priority,
        fields.id if len(fields.id) <= 60 else key,
        fields.message_class,
        fields.expiration if len(fields.expiration) < 20 else "",  # a longer number is no time
        properties="&".join(kept),
    ).name()


def _facts(fields: codec.Fields | None) -> tuple[object, ...]:
    """Returns the facts that a short name repeats from the full name."""
    assert fields is not None  # a short name is structured
    return (*fields[:4], codec.is_bare(fields.properties))


def _added_properties(name: str) -> list[str]:
    """Returns the properties that were added to a short name later."""
    fields = codec.split(name)
    assert fields is not None  # only a structured name has properties
    pairs = codec.split_properties(fields.properties)
    return [pair for pair in pairs if not pair.startswith(_PREFIX) and pair != codec.BARE]


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=5).hexdigest()
