"""Client ids of JMS: each is held by one connection at a time, or by the instances of one adapter."""

from __future__ import annotations

import hashlib
import os

from connector.errors import ClientIdError
from connector.providers.dropbox.clients import ClientInfo
from connector.providers.dropbox.codec import NAME_MAX, encode_field
from connector.providers.dropbox.layout import Layout
from connector.providers.dropbox.marks import IsAlive, Mark, exclusive, living


def hold(layout: Layout, name: str, client_id: str, info: ClientInfo, is_alive: IsAlive) -> Mark:
    """Takes a client id until the mark is closed.

    Args:
        layout: of the root.
        name: the client id of JMS.
        client_id, info: of the client that asks.
        is_alive: tells whether another client lives.

    Raises:
        ClientIdError: somebody holds it; says who.
        ProviderError: the mark cannot be written.
    """
    folder = encode_field(name)
    if len(folder) > NAME_MAX:
        folder = f"~{hashlib.blake2b(name.encode('utf-8', 'surrogateescape'), digest_size=16).hexdigest()}"
    directory = os.path.join(layout.client_ids, folder)
    with exclusive(layout.lock):
        for holder in living(directory, is_alive, tidy=True):
            if info.application and holder.application == info.application:
                continue
            who = f"the adapter {holder.application!r}, " if holder.application else ""
            raise ClientIdError(
                f"the client id {name!r} is in use by {who}process {holder.pid} on {holder.host}; "
                "end that, or choose another client id"
            )
        return Mark(directory, client_id, 1, info)
