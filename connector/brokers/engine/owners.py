"""Whose the messages of a queue at a broker are: of a client that has them in progress, or of a lot.

A broker gives any message to anybody. So an operator and a program leave such messages by selectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from connector.brokers.engine.claims import OWNER, STATE, original
from connector.brokers.engine.commits import quote
from connector.brokers.engine.lot_names import NAME, NUMBER, SEQUENCE
from connector.brokers.engine.state import ClientFile, RemoteState
from connector.messaging.message import Message
from connector.messaging.notes import OwnerNote, owning_lot

MAY_BE_OWNED: Final = f"{OWNER} IS NOT NULL OR {SEQUENCE} IS NOT NULL"
"""The selector of messages that may have an owner."""


class Owners:
    """The owners of messages, as far as the state of the applications knows them.

    Args:
        directory: of the state of all applications.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._strangers: set[str] = set()
        """Owners that no application knows: nobody's messages name them."""

    def of(self, message: Message) -> OwnerNote | None:
        """Returns the owner of a message as the broker has it. None = it has none."""
        properties, since = message.properties, message.timestamp / 1000
        if SEQUENCE in properties:
            return owning_lot(str(properties.get(NAME)), properties.get(NUMBER))._replace(since=since)
        client_id = properties.get(OWNER)
        if client_id is None:
            return None
        note = ClientFile.owner(self._directory, str(client_id))
        note = note or self._elsewhere(str(properties.get(STATE, "")))
        if note is not None:
            return note._replace(since=since)
        if isinstance(client_id, str):
            self._strangers.add(client_id)
        return None

    def _elsewhere(self, mark: str) -> OwnerNote | None:
        """Returns the owner of a message that names another state."""
        identity, _, application = mark.partition(" ")
        if not identity or RemoteState(self._directory, application).has_id(identity):
            return None
        who = f"the adapter {application!r} with another state directory"
        return OwnerNote(who, "use its own deployment, or start it here, which says what to do")

    def notes(self, messages: Iterable[Message]) -> dict[str, list[OwnerNote]]:
        """Returns the owners by JMSMessageID."""
        found: dict[str, list[OwnerNote]] = {}
        for message in messages:
            if (note := self.of(message)) is not None:
                original(message)
                found.setdefault(message.message_id or "", []).append(note)
        return found

    def without(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Yields the messages that have no owner."""
        return (message for message in messages if self.of(message) is None)

    def selector(self, selector: str) -> str:
        """Returns the selector of what :meth:`without` has yielded: one that gets an owner now is left."""
        strangers = [f"{OWNER} = {quote(one)}" for one in self._strangers]
        return _and(selector, " OR ".join([unowned(), *strangers]))


def unowned(selector: str = "") -> str:
    """Returns a selector of messages that no client has in progress, among those of another selector."""
    return _and(selector, f"{OWNER} IS NULL")


def _and(selector: str, condition: str) -> str:
    return f"({selector}) AND ({condition})" if selector else condition
