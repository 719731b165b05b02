"""The liveness of clients. A client lives while its process holds the client.

On SQLite the process locks a file for each client, and the kernel drops the lock when the process ends. On
PostgreSQL the row of the client names the process (:mod:`.processes`).
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, Select, select, update

from connector import own_files
from connector.errors import ProviderError, remedy
from connector.messaging.notes import ClientState
from connector.state.locked_file import LockedFile, is_held
from connector.stores.sql.database import DatabaseClient, Settings
from connector.stores.sql.processes import HOLDER, StateConnection, durable
from connector.stores.sql.schema import client, process


class Liveness:
    """Tells which clients live. A registry makes one for its client, which :meth:`hold` lets live.

    Attributes:
        source, columns: of the rows of clients, with the columns that tell whether a client lives.
    """

    source: FromClause = client
    columns: tuple[ColumnElement[Any], ...] = tuple(client.c)

    @property
    def every(self) -> Select[Any]:
        """Selects the rows of all clients."""
        return select(*self.columns).select_from(self.source).order_by(client.c.id)  # by the index

    def row(self, db: DatabaseClient, client_id: str) -> Any:
        """Returns the row of a client. None = there is no such client."""
        own = select(*self.columns).select_from(self.source).where(client.c.id == client_id)
        rows = db.rows(own)
        return rows[0] if rows else None

    def find_alive(self, db: DatabaseClient, client_id: str) -> Any:
        """Returns the row of a client that is alive. None = there is no such client."""
        row = self.row(db, client_id)
        return row if row is not None and self.state(row) is ClientState.ALIVE else None

    def state(self, row: Any) -> ClientState:
        if row.declared_dead:
            return ClientState.DECLARED_DEAD
        return ClientState.ALIVE if self._is_held(row) else ClientState.DEAD

    def _is_held(self, row: Any) -> bool:
        raise NotImplementedError

    def hold(self, client_id: str) -> str | None:
        """Lets a new client live until :meth:`release` or the end of this process.

        Returns:
            the value for the column ``process`` of the client.

        Raises:
            ProviderError: this process cannot hold the client.
        """
        raise NotImplementedError

    def release(self) -> None:
        """Ends the life of the client. Repeatable."""
        raise NotImplementedError

    def forget(self, client_id: str) -> None:
        """Removes the traces of a client outside of its row."""

    def sweep(self, known: Collection[str]) -> None:
        """Removes the traces of dead clients that have no row. They died between the one and the other.

        Args:
            known: the clients that have a row.
        """


class FileLiveness(Liveness):
    """A locked file for each client, in a directory beside the database file."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._file: LockedFile | None = None

    def hold(self, client_id: str) -> None:
        path = os.path.join(self._directory, client_id)
        try:
            own_files.make_directories(self._directory)
            while self._file is None:  # another process may sweep it away before it is locked
                self._file = LockedFile.hold(path)
        except OSError as error:
            raise ProviderError(f"cannot write {path}: {error.strerror}{remedy(error)}") from error

    def _is_held(self, row: Any) -> bool:
        return is_held(os.path.join(self._directory, row.id))

    def release(self) -> None:
        if self._file is not None:
            self._file.abandon()

    def forget(self, client_id: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self._directory, client_id))

    def sweep(self, known: Collection[str]) -> None:
        with suppress(FileNotFoundError):
            for name in set(os.listdir(self._directory)) - set(known):
                file = LockedFile.take_over(os.path.join(self._directory, name))
                if file is not None:
                    file.remove()


class PostgresLiveness(Liveness):
    """A process for each client."""

    source = client.outerjoin(process, process.c.id == client.c.process)
    columns = (*client.c, *HOLDER)

    def __init__(self, connection: StateConnection) -> None:
        self._connection = connection
        self._client_id: str | None = None
        self._is_released = False

    def hold(self, client_id: str) -> str:
        self._client_id = client_id
        self._connection.hold(self, self._restore)
        try:
            self._connection.use(self._beat)
        except ProviderError:
            self._connection.release(self)
            raise
        return self._connection.id

    def _beat(self, connection: Connection) -> None:
        with durable(connection):
            self._connection.beat(connection)

    def _is_held(self, row: Any) -> bool:
        return self._connection.is_alive(row)

    def release(self) -> None:
        self._is_released = True
        with suppress(OSError):  # _restore() ends the life of the client when the server is back
            self._connection.call(self._restore)

    def _restore(self, connection: Connection) -> None:
        if self._is_released:
            connection.execute(update(client).where(client.c.id == self._client_id).values(process=None))
            self._connection.release(self)


def liveness_of(settings: Settings) -> Liveness:
    """Returns the liveness of the clients of a database."""
    if settings.file is not None:
        return FileLiveness(f"{settings.file}.clients")
    return PostgresLiveness(StateConnection.of_process(settings))
