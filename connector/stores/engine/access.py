"""The part of a local provider that a task needs: reads claimed messages, prepares new messages."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.settlement import Prepared
from connector.stores.engine.channel import temporary_owner
from connector.stores.engine.client import check_sendable, has_ended
from connector.stores.engine.headers import Stamp
from connector.stores.engine.store import TaskStore, TaskStoreSpec


@dataclass(frozen=True, slots=True)
class LocalAccessSpec:
    """See :class:`connector.messaging.access.AccessSpec`.

    Args:
        store: recipe of the store that the access uses.
    """

    store: TaskStoreSpec

    def open(self) -> LocalAccess:
        """See :meth:`connector.messaging.access.AccessSpec.open`."""
        return LocalAccess(self.store.open())


class LocalAccess:
    """See :class:`connector.messaging.access.MessageAccess`."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store
        self._stamp = Stamp(store.client_id)
        self.check = store.check
        self.load = store.read
        self.identity = store.identity
        self.write = store.write
        self.sync = store.sync

    def prepare(self, destination: Destination, message: Message, key: str) -> Prepared:
        """See :meth:`connector.messaging.access.MessageAccess.prepare`."""
        check_sendable(destination)
        owner = temporary_owner(destination)
        if owner is not None and not self._store.is_there(destination, owner):
            raise has_ended(destination)
        # The same key gives the same end of the id. So a second attempt is recognised.
        name = f"{destination} {key}".encode("utf-8", "surrogateescape")
        suffix = hashlib.blake2b(name, digest_size=8).hexdigest()
        stored = self._stamp.new(message, suffix)
        handle: Any = self._store.prepare(destination, stored, suffix)
        return Prepared(handle, destination)

    def discard(self, prepared: Prepared) -> None:
        """See :meth:`connector.messaging.access.MessageAccess.discard`."""
        self._store.discard(prepared.handle)
