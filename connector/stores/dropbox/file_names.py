"""New file names after an edit of headers and properties."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from typing import Final

from connector.messaging.message import PropertyValue, natural_type
from connector.messaging.settlement import HISTORY
from connector.stores.dropbox import codec
from connector.stores.dropbox.claims import WAITS, DropboxClaim, name_with_owner
from connector.stores.dropbox.headers import HeaderStore
from connector.stores.engine.changes import Edit
from connector.stores.engine.headers import ORIGIN, edit_to_put_aside

_COPIES_LACK: Final = (
    *(f"{name}{letter}=" for name in HISTORY for letter in codec.LETTER_TYPES),
    codec.DELIVERY_COUNT,
    codec.OWNER,
)
"""Properties that a copy does not inherit from the claimed message."""


class FileNames:
    """Makes the file names of one client."""

    def __init__(self, headers: HeaderStore, client_id: str) -> None:
        self._headers = headers
        self._client_id = client_id
        self._claimed_files = itertools.count(1)
        self._pairs: dict[int, tuple[Mapping[str, PropertyValue], str]] = {}

    def claimed(self, name: str, age: int) -> str:
        """Returns the name under which a file with a bare name is claimed. It has an id of its own.

        The claim is one rename, so a crash leaves the file without an id, or with an id that stays.

        Args:
            age: as :func:`.codec.structure_file`.
        """
        return codec.structure_file(name, age, self._client_id, next(self._claimed_files))

    def processed(self, claim: DropboxClaim) -> str:
        """Returns the name of a message that is settled without a copy.

        A file with a bare name has that name again, so that the program that has put it there finds it.
        """
        bare = codec.file_of(claim.full_name)
        if bare is not None:
            return bare
        return codec.without_properties(claim.name, (codec.OWNER,)) if claim.in_progress else claim.name

    def copy(self, claim: DropboxClaim, edit: Edit) -> str:
        """Returns the name of a copy that a settlement makes.

        A copy has the history of that settlement only.
        """
        pairs = self.pairs(edit.properties)
        if edit.deliveries:
            count = f"{codec.DELIVERY_COUNT}I={edit.deliveries + 1}"
            pairs = f"{count}&{pairs}" if pairs else count
        name = full = claim.name
        if codec.HEADER_KEY in name:
            full = self._headers.full(name)
            if "connector_" in full or codec.DELIVERY_COUNT in full or codec.OWNER in full:
                name = full  # the sidecar has properties that the copy must not inherit
        if "connector_" in name or codec.DELIVERY_COUNT in name or codec.OWNER in name:
            name = codec.without_properties(name, _COPIES_LACK)
        if claim.folders.copy_tag and claim.folders.copy_tag not in full:  # a replayed message has it
            # Two subscriptions may hold the same file. The copy of each has its own name.
            pairs = f"{pairs}&{claim.folders.copy_tag}" if pairs else claim.folders.copy_tag
        return self._headers.fit(codec.add_properties(name, pairs) if pairs else name, claim.file)

    def name_when_new(self, claim: DropboxClaim) -> str:
        """Returns the name of a message that is new again, and otherwise unchanged."""
        name = codec.without_properties(claim.full_name, (codec.DELIVERY_COUNT,))
        return self._headers.fit(name, claim.file)

    def returned(self, claim: DropboxClaim, edit: Edit, *, stays: bool, room: int) -> str:
        """Returns the name of a message that is given back, or left to wait in an in-progress destination.

        Args:
            room: bytes, at most.
        """
        full = name = claim.name
        if codec.HEADER_KEY in name:
            full = self._headers.full(name)
        returned = full
        if claim.owner is not None and stays:
            returned = name_with_owner(full, WAITS, claim.destination)
        elif claim.owner is not None and claim.in_progress:
            returned = codec.without_properties(full, (codec.OWNER, ORIGIN))
        deliveries = claim.delivery_count if edit.deliveries is None else edit.deliveries
        if deliveries != claim.delivery_count or edit.properties:
            pairs = []
            if deliveries > 0:
                pairs.append(f"{codec.DELIVERY_COUNT}I={deliveries + 1}")
            if edit.properties:
                pairs.append(self.pairs(edit.properties))
            dropped = [f"{pair.partition('=')[0]}=" for pair in "&".join(pairs).split("&")]
            returned = codec.without_properties(returned, (codec.DELIVERY_COUNT, *dropped))
            if pairs:
                returned = codec.add_properties(returned, "&".join(pairs))
        if returned == full and len(os.fsencode(name)) <= room:
            return name
        return self._headers.fit(returned, claim.file, room)

    def put_aside(self, name: str) -> str:
        """Returns the full name of a message that was delivered too often."""
        edit = edit_to_put_aside(codec.decode(name, readable_only=True)[0])
        dropped = [f"{key}{letter}=" for key in edit.properties for letter in codec.LETTER_TYPES]
        name = codec.without_properties(name, (codec.DELIVERY_COUNT, *dropped))
        return codec.add_properties(name, self.pairs(edit.properties))

    def pairs(self, properties: Mapping[str, PropertyValue]) -> str:
        """Returns the encoded pairs. A batch has few pairs and shares them, so they are encoded once."""
        known = self._pairs.get(id(properties))
        if known is not None and known[0] is properties:
            return known[1]
        text = "&".join(
            codec.encode_property(name, natural_type(value), value) for name, value in properties.items()
        )
        if len(self._pairs) > 1000:
            self._pairs.clear()
        self._pairs[id(properties)] = (properties, text)
        return text
