"""What a task has of a database: it reads claimed messages by reference, and prepares others."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, func, insert, literal_column, select

from connector import faults
from connector.core.local.channel import Channel
from connector.errors import MalformedData, ProviderError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.providers.sql.changes import open_channels, remove_messages, statements_of
from connector.providers.sql.database import Database, DatabaseClient, Settings, is_passing
from connector.providers.sql.dialects import SOME, claim_columns
from connector.providers.sql.liveness import marks_of
from connector.providers.sql.messages import add_messages, read_message, write_reference
from connector.providers.sql.processes import LEASE
from connector.providers.sql.schema import channel as channels
from connector.providers.sql.schema import client, message, reference, this_transaction
from connector.providers.sql.statement import Statement

_JOINED: Final = reference.join(message, message.c.id == reference.c.message)
_RETRY: Final = 0.1
_PREPARED: Final = insert(reference).values(
    state=literal_column("'NOT_COMMITTED'"), changed=this_transaction()
)


@dataclass(frozen=True, slots=True)
class SqlTaskSpec:
    """See :class:`connector.core.local.store.TaskStoreSpec`."""

    settings: Settings
    client_id: str

    def open(self) -> SqlTaskStore:
        return SqlTaskStore(Database.shared(self.settings), self.client_id)


class SqlTaskStore:
    """See :class:`connector.core.local.store.TaskStore`. What it prepares, it writes together."""

    def __init__(self, database: Database, client_id: str) -> None:
        self.client_id = client_id
        self._db = DatabaseClient(database, client_id)
        self._marks = marks_of(database.settings)
        self._statements = statements_of(self._db.dialect.name)
        self._read = _read_statement(self._db.dialect.name)
        self._prepared: dict[str, Message] = {}
        self._targets: set[Destination] = set()
        """Those that were asked for before."""
        found = select(SOME).select_from(client).where(client.c.id == client_id)
        self._known = self._db.dialect.share(found)

    def check(self) -> None:
        if self._db.first(self._known) is None:
            raise ProviderError(f"there is no client {self.client_id} in {self._db.title} any more")

    def is_there(self, destination: Destination, owner: str) -> bool:
        return is_there(self._db, destination) and self._marks.is_alive(owner)

    def read(self, reference_: tuple[int, int], max_body: int) -> Message:
        number, version = reference_
        with self._db.reading() as connection:
            rows = self._read.rows(connection, {"number": number, "seen": version})
        if not rows:
            raise LookupError(f"message {number} is gone")
        if rows[0].size > max_body:
            raise MalformedData(f"the body has {rows[0].size} bytes, more than max_body ({max_body} bytes)")
        return read_message(rows[0], bytes(rows[0].body))

    def prepare(self, destination: Destination, message: Message, key: str) -> tuple[str, str]:
        if destination not in self._targets:
            check_target(self._db, destination)
            self._targets.add(destination)
        self._prepared[key] = message.copy(message.body)
        return self.client_id, key

    def discard(self, handle: Sequence[str]) -> None:
        if self._prepared.pop(handle[1], None) is None:
            self._remove([(handle[0], handle[1])])

    def _remove(self, handles: Sequence[tuple[str, str]]) -> None:
        with self._db.transaction() as connection:
            found = self._statements.find_prepared.rows(connection, self._statements.keys(handles))
            if found:
                pairs = self._statements.pairs([(row.id, row.version) for row in found])
                rows = self._statements.remove.rows(connection, pairs)
                remove_messages(connection, self._db, (row.message for row in rows))

    def write(self) -> None:
        """See :meth:`connector.core.local.store.TaskStore.write`. A server that is away is waited for."""
        deadline = time.monotonic() + LEASE
        while self._prepared:
            try:
                self._write()
            except ProviderError as error:
                if not is_passing(error) or time.monotonic() >= deadline:
                    raise
                time.sleep(_RETRY)

    def sync(self) -> None:
        """See :meth:`connector.core.local.store.TaskStore.sync`."""
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
            connection.execute(_PREPARED, rows)
            faults.point("prepare.uncommitted")
        faults.point("prepare")
        self._prepared.clear()


@functools.cache
def _read_statement(dialect: str) -> Statement:
    """Reads a message whose version is ``seen``."""
    size = func.length(message.c.body).label("size")
    columns = select(*claim_columns(None), message.c.body, size).select_from(_JOINED)
    where = reference.c.id == bindparam("number"), reference.c.version == bindparam("seen")
    return Statement(dialect, columns.where(*where))


def is_there(db: DatabaseClient, destination: Destination) -> bool:
    """Whether a queue is there, or a topic known."""
    found = select(SOME).select_from(channels).where(channels.c.name == str(destination))
    return db.first(found) is not None


def check_target(db: DatabaseClient, destination: Destination) -> None:
    """Whether messages can be sent to a destination. One that cannot end is made where it is not there.

    Raises:
        ProviderError: it is refused.
    """
    if not Channel(destination).can_end and not is_there(db, destination):
        with db.transaction() as connection:
            open_channels(connection, db, [Channel(destination)])
