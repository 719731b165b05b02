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
            self._connection.release(mark)
            self.forget(client_id)

    def forget(self, client_id: str) -> None:
        """See :meth:`connector.providers.sql.liveness.Marks.forget`."""
        removed = delete(client_process).where(client_process.c.client == client_id)
        with suppress(OSError):  # then the mark ends with its process
            self._connection.call(lambda connection: connection.execute(removed))


class ClientMark:
    """See :class:`connector.providers.sql.processes.Hold`.

    Args:
        connection: to the database.
        client_id: of the client that lives.
    """

    def __init__(self, connection: ProcessConnection, client_id: str) -> None:
        self._connection = connection
        self._client_id = client_id

    def write(self, connection: Connection) -> None:
        """This process says that the client lives."""
        values = {"client": self._client_id, "process": self._connection.id}
        made = insert(client_process).values(values)
        with durable(connection):
            self._connection.beat(connection)
            connection.execute(
                made.on_conflict_do_update(index_elements=["client"], set_={"process": self._connection.id})
            )

    def restore(self, connection: Connection) -> None:
        """See :meth:`connector.providers.sql.processes.Hold.restore`: the mark was on the disk."""
