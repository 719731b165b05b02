"""The marks of the clients of a PostgreSQL database: each names the process that holds it."""

from __future__ import annotations

from contextlib import suppress

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.postgresql import insert

from connector.providers.sql.processes import HOLDER, ProcessConnection, durable, provider_error
from connector.providers.sql.state_schema import client_process, process


class PostgresMarks:
    """See :class:`connector.providers.sql.liveness.Marks`.

    Args:
        connection: to the database.
    """

    def __init__(self, connection: ProcessConnection) -> None:
        self._connection = connection
        self._held: dict[str, ClientMark] = {}

    def hold(self, client_id: str) -> None:
        """See :meth:`connector.providers.sql.liveness.Marks.hold`."""
        mark = ClientMark(self._connection, client_id)
        self._connection.hold(mark)
        try:
            self._connection.call(mark.write)
        except OSError as error:
            self._connection.release(mark)
            raise provider_error(error) from error
        self._held[client_id] = mark

    def is_alive(self, client_id: str) -> bool:
        """See :meth:`connector.providers.sql.liveness.Marks.is_alive`.

        Raises:
            ProviderError: the database cannot be used.
        """
        joined = client_process.join(process, process.c.id == client_process.c.process)
        held = select(*HOLDER).select_from(joined).where(client_process.c.client == client_id)
        try:
            row = self._connection.call(lambda connection: connection.execute(held).one_or_none())
        except OSError as error:
            raise provider_error(error) from error
        return row is not None and self._connection.lives(row)

    def release(self, client_id: str) -> None:
        """See :meth:`connector.providers.sql.liveness.Marks.release`."""
        mark = self._held.pop(client_id, None)
        if mark is not None:
            mark.release()

    def forget(self, client_id: str) -> None:
        """See :meth:`connector.providers.sql.liveness.Marks.forget`."""
        with suppress(OSError):  # a mark that stays marks nothing: nobody asks for the client again
            self._connection.call(lambda connection: _remove(connection, client_id))


class ClientMark:
    """See :class:`connector.providers.sql.processes.Hold`.

    Args:
        connection: to the database.
        client_id: of the client that lives.
    """

    def __init__(self, connection: ProcessConnection, client_id: str) -> None:
        self._connection = connection
        self._client_id = client_id
        self._is_released = False

    def write(self, connection: Connection) -> None:
        """This process says that the client lives."""
        values = {"client": self._client_id, "process": self._connection.id}
        made = insert(client_process).values(values)
        with durable(connection):
            self._connection.beat(connection)
            connection.execute(
                made.on_conflict_do_update(index_elements=["client"], set_={"process": self._connection.id})
            )

    def release(self) -> None:
        """The client lives no more. Where the database cannot be told now, it is told when it is back."""
        self._is_released = True
        with suppress(OSError):
            self._connection.call(self.restore)

    def restore(self, connection: Connection) -> None:
        """See :meth:`connector.providers.sql.processes.Hold.restore`. The mark itself was on the disk."""
        if self._is_released:
            _remove(connection, self._client_id)
            self._connection.release(self)


def _remove(connection: Connection, client_id: str) -> None:
    connection.execute(delete(client_process).where(client_process.c.client == client_id))
