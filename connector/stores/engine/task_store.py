"""The contract of a store in a task, which reads claimed messages and prepares new messages."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from typing import Any, Protocol

from connector.lazy_property import lazy_property
from connector.messaging.access import MessageAccess
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.settlement import Prepared
from connector.stores.engine.channel import temporary_owner
from connector.stores.engine.client import check_sendable, has_ended
from connector.stores.engine.headers import MessageIds


class TaskStore(MessageAccess, Protocol):
    """A store as a task sees it, for one thread. Never closed: open resources end with the object.

    :meth:`sync` also raises ProviderError if the client was forgotten, because then no client would remove
    the prepared messages.
    """

    client_id: str
    """The client that the task works for."""

    @lazy_property
    def _ids(self) -> MessageIds:
        return MessageIds(self.client_id)

    def prepare(self, destination: Destination, message: Message, key: str) -> Prepared:
        check_sendable(destination)
        owner = temporary_owner(destination)
        if owner is not None and not self.is_there(destination, owner):
            raise has_ended(destination)
        # The same key gives the same end of the id. So a second attempt is recognised.
        name = f"{destination} {key}".encode("utf-8", "surrogateescape")
        suffix = hashlib.blake2b(name, digest_size=8).hexdigest()
        return Prepared(self.keep(destination, self._ids.new(message, suffix), suffix), destination)

    def discard(self, prepared: Prepared) -> None:
        self.remove(prepared.handle)

    @abstractmethod
    def is_there(self, destination: Destination, owner: str) -> bool:
        """Whether a temporary destination has not ended, and the client that owns it lives."""

    @abstractmethod
    def keep(self, destination: Destination, message: Message, key: str) -> Any:
        """Keeps a message where no client takes it. Returns a handle. The same key replaces the message.

        The message need not be written before :meth:`write` or :meth:`sync`.

        Args:
            destination: decides where the message is kept. Nothing is sent.
            message: with its id and its time. The message belongs to the sender, which may change it
                afterwards.
            key: of letters and digits, unique within the client.

        Raises:
            ProviderError: the message cannot be written, or the destination is refused.
        """

    @abstractmethod
    def remove(self, handle: Any) -> None:
        """Removes a prepared message. A message that is gone is skipped."""
