"""The part of the store for tasks: reads claimed messages by reference, and prepares other messages."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import select

from connector import faults
from connector.errors import BodyTooLarge, MalformedData, ProviderError
from connector.messaging.access import AccessSpec
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.stores.engine.channel import Channel
from connector.stores.engine.task_store import TaskStore
from connector.stores.sql.changes import open_channels
from connector.stores.sql.database import DatabaseClient, MessageDatabase, Settings, is_passing
from connector.stores.sql.liveness import liveness_of
from connector.stores.sql.message_columns import read_body, read_message
from connector.stores.sql.messages import add_messages, write_reference
from connector.stores.sql.schema import client
from connector.stores.sql.statements import ANY_ROW

_RETRY: Final = 0.1


@dataclass(frozen=True, slots=True)
class SqlTaskSpec(AccessSpec):
    settings: Settings
    client_id: str

    def open(self) -> SqlTaskStore:
        return SqlTaskStore(MessageDatabase.of_process(self.settings), self.client_id)


class SqlTaskStore(TaskStore):
    """A database in a task. All prepared messages are written together."""

    def __init__(self, database: MessageDatabase, client_id: str) -> None:
        self.client_id = client_id
        self._db = DatabaseClient(database, client_id)
        self._statements = self._db.statements
        self._liveness = liveness_of(database.settings)
        self._prepared: dict[str, Message] = {}
        self._targets: set[Destination] = set()
        """Destinations that were checked before."""
        found = select(ANY_ROW).select_from(client).where(client.c.id == client_id)
        self._known = found.with_for_update(read=True)

    def check(self) -> None:
        if self._db.first(self._known) is None:
            raise ProviderError(f"there is no client {self.client_id} in {self._db.title} any more")

    def is_there(self, destination: Destination, owner: str) -> bool:
        return has_channel(self._db, destination) and self._liveness.find_alive(self._db, owner) is not None

    def load(self, reference: tuple[int, int], max_body: int) -> Message:
        number, version = reference
        with self._db.read_transaction() as connection:
            rows = self._statements.read.rows(connection, {"number": number, "seen": version})
        if not rows:
            raise LookupError(f"message {number} is gone")
        (row,) = rows
        if row.size is not None and row.size > max_body:
            raise BodyTooLarge(f"the body has {row.size} bytes, more than max_body ({max_body} bytes)")
        return read_message(row, read_body(row), _refuse)

    def identity(self, reference: tuple[int, int], message: Message) -> str:
        return f"{message.message_id}|{reference[0]}"

    def keep(self, destination: Destination, message: Message, key: str) -> tuple[str, str]:
        if destination not in self._targets:
            check_target(self._db, destination)
            self._targets.add(destination)
        self._prepared[key] = message.copy(message.body)
        return self.client_id, key

    def remove(self, handle: Sequence[str]) -> None:
        if self._prepared.pop(handle[1], None) is None:
            self._remove([(handle[0], handle[1])])

    def _remove(self, handles: Sequence[tuple[str, str]]) -> None:
        with self._db.transaction() as connection:
            found = self._statements.find_prepared.rows(connection, self._statements.handles(handles))
            self._statements.remove(connection, [(row.id, row.version) for row in found])

    def now(self) -> int:
        return int(self._db.first(self._statements.now))

    def write(self) -> None:
        deadline = time.monotonic() + self._db.database.settings.lease
        while self._prepared:
            try:
                self._write()
            except ProviderError as error:
                if not is_passing(error) or time.monotonic() >= deadline:
                    raise
                time.sleep(_RETRY)

    def sync(self) -> None:
        self.write()

    def _write(self) -> None:
        with self._db.transaction() as connection:
            self.check()
            self._remove([(self.client_id, key) for key in self._prepared])
            numbers = add_messages(connection, list(self._prepared.values()))
            rows = [
                {"message": number, "owner": self.client_id, "key": key, **write_reference(one)}
                for number, (key, one) in zip(numbers, self._prepared.items(), strict=True)
            ]
            connection.execute(self._statements.prepare, rows)
            faults.point("prepare.uncommitted")
        faults.point("prepare")
        self._prepared.clear()


def _refuse(reason: str) -> None:
    raise MalformedData(reason)


def has_channel(db: DatabaseClient, destination: Destination) -> bool:
    """Whether a queue exists, or a topic is known."""
    return db.first(db.statements.has_channel, {"name": str(destination)}) is not None


def check_target(db: DatabaseClient, destination: Destination) -> None:
    """Checks that messages can be sent to a destination. Makes a missing destination that cannot end.

    Raises:
        ProviderError: the destination is refused.
    """
    if not Channel(destination).can_end and not has_channel(db, destination):
        with db.transaction() as connection:
            open_channels(connection, db, [Channel(destination)])
