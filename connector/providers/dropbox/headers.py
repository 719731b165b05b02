"""Headers too long for a file name: in a sidecar under ``dropboxmq/headers/`` (design, section 7).

The sidecar holds the full name, of any length. The file itself gets a short one that keeps priority,
class and expiration and carries the key of the sidecar as a property, so that it is found again
after a plain ``mv`` into another queue. The key is unique to the copy.
"""

from __future__ import annotations

import itertools
import os

from connector.errors import MalformedData, ProviderError
from connector.providers.dropbox import codec, files


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

    def fit(self, name: str, room: int = codec.NAME_MAX) -> str:
        """``name`` where it has at most ``room`` bytes, else a short one with a new sidecar.

        Raises:
            OSError: the sidecar cannot be written.
            ProviderError: the sidecar that it has cannot be read.
        """
        if len(name) <= room and len(os.fsencode(name)) <= room:
            return name
        full = self.full(name)
        fields = codec.split(full)
        if fields is None:
            full = codec.structure_bare(full)
            fields = codec.split(full)
            assert fields is not None
        key = f"{self._client_id}-{next(self._numbers)}"
        files.write_new(self.path(key), os.fsencode(full), sync=self._sync)
        identity = fields.id if len(fields.id) <= 60 else key
        kept = [f"{codec.HEADER_KEY}S={key}"]
        if codec.is_bare(fields.properties):
            kept.append(codec.BARE)
        return codec.Fields(
            fields.priority,
            identity,
            fields.message_class,
            fields.expiration if len(fields.expiration) < 20 else "",  # longer ones are no time
            properties="&".join(kept),
        ).name()

    def full(self, name: str) -> str:
        """As :meth:`expand`; where the sidecar is gone, what the short name says, without its key.

        Raises:
            ProviderError: the sidecar cannot be read.
        """
        try:
            return self.expand(name)
        except MalformedData:
            return codec.without_properties(name, (codec.HEADER_KEY,))

    def expand(self, name: str) -> str:
        """The full name of a message; properties that the short name gained come after the sidecar's.

        Raises:
            MalformedData: the sidecar is missing.
            ProviderError: it cannot be read.
        """
        if codec.HEADER_KEY not in name:
            return name
        key = key_of(name)
        if key is None:
            return name
        fields = codec.split(name)
        assert fields is not None  # only a structured name has properties
        try:
            with open(self.path(key), "rb") as sidecar:
                full = os.fsdecode(sidecar.read())
        except FileNotFoundError:
            raise MalformedData(f"its headers are gone: there is no {self.path(key)}") from None
        except OSError as error:
            raise ProviderError(f"cannot read the headers {self.path(key)}: {error.strerror}") from error
        prefix = f"{codec.HEADER_KEY}S="
        gained = [
            pair
            for pair in codec.split_properties(fields.properties)
            if not pair.startswith(prefix) and pair != codec.BARE
        ]
        if not gained:
            return full
        full = codec.without_properties(full, [f"{pair.partition('=')[0]}=" for pair in gained])
        return codec.add_properties(full, "&".join(gained))

    def remove(self, name: str) -> None:
        """Removes the sidecar of a file that is removed, if it has one."""
        key = key_of(name)
        if key is not None:
            files.remove(self.path(key))

    def path(self, key: str) -> str:
        return os.path.join(self._directory, key)


def key_of(name: str) -> str | None:
    """The key of the sidecar that a file name speaks of, None where it has none."""
    if codec.HEADER_KEY not in name:
        return None
    fields = codec.split(name)
    if fields is None:
        return None
    prefix = f"{codec.HEADER_KEY}S="
    for pair in codec.split_properties(fields.properties):
        if pair.startswith(prefix):
            key = codec.decode_field(pair[len(prefix) :])
            # it becomes a path: whatever a foreign name says, it stays inside the directory
            return key if key and "/" not in key and not key.startswith(".") else None
    return None
