"""The part of a local provider that a task needs: reads claimed messages, prepares new messages."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from connector.messaging.access import AccessSpec, MessageAccess
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.settlement import Prepared
from connector.stores.engine.channel import temporary_owner
from connector.stores.engine.client import check_sendable, has_ended
from connector.stores.engine.headers import MessageIds
from connector.stores.engine.store import TaskStore, TaskStoreSpec


@dataclass(frozen=True, slots=True)
class LocalAccessSpec(AccessSpec):
    """The recipe of an access to a store."""

    store: TaskStoreSpec

    def open(self) -> LocalAccess:
        return LocalAccess(self.store.open())


class LocalAccess(MessageAccess):
    def __init__(self, store: TaskStore) -> None:
        self._store = store
        self._ids = MessageIds(store.client_id)

    def check(self) -> None:
        self._store.check()

    def load(self, reference: Any, max_body: int) -> Message:
        return self._store.read(reference, max_body)

    def identity(self, reference: Any, message: Message) -> str:
        return self._store.identity(reference, message)

    def prepare(self, destination: Destination, message: Message, key: str) -> Prepared:
        check_sendable(destination)
        owner = temporary_owner(destination)
        if owner is not None and not self._store.is_there(destination, owner):
            raise has_ended(destination)
        # The same key gives the same end of the id. So a second attempt is recognised.
        name = f"{destination} {key}".encode("utf-8", "surrogateescape")
        suffix = hashlib.blake2b(name, digest_size=8).hexdigest()
        stored = self._ids.new(message, suffix)
        handle: Any = self._store.prepare(destination, stored, suffix)
        return Prepared(handle, destination)

    def discard(self, prepared: Prepared) -> None:
        self._store.discard(prepared.handle)

    def now(self) -> int:
        return self._store.now()

    def write(self) -> None:
        self._store.write()

    def sync(self) -> None:
        self._store.sync()
