"""The state of an application in PostgreSQL."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, delete, literal_column, select, update
from sqlalchemy.dialects.postgresql import insert

from connector.errors import ProviderError
from connector.providers.sql.database import Database
from connector.providers.sql.journals import PostgresJournals, TaskOwner
from connector.providers.sql.processes import (
    HOLDER,
    ProcessConnection,
    StateSettings,
    durable,
    provider_error,
    this_machine,
)
from connector.providers.sql.state_schema import NOW, instance, process
from connector.providers.sql.window import SqlWindow
from connector.state.store import InstanceNote

_log: Final = logging.getLogger("connector.state")
_RETRY: Final = 0.2
_OLD: Final[ColumnElement[Any]] = literal_column("interval '1 day'")
"""After which nobody holds anything by the last beat of a process."""


class PostgresState:
    """See :class:`connector.state.store.StateStore`.

    Args:
        settings: of the database.
        database: opens it for this process; makes its tables where they may be made.
        application: whose state it is.
    """

    def __init__(self, settings: StateSettings, database: Callable[[], Database], application: str) -> None:
        self._settings = settings
        self._database = database
        self._application = application

    @property
    def _connection(self) -> ProcessConnection:
        return ProcessConnection.shared(self._settings)

    def instance(self, wanted: str | None) -> PostgresInstance:
        """See :meth:`connector.state.store.StateStore.instance`."""
        self._database()  # makes the tables
        return PostgresInstance(self._connection, self._application, wanted)

    def instances(self) -> list[InstanceNote]:
        """See :meth:`connector.state.store.StateStore.instances`."""
        joined = instance.outerjoin(process, process.c.id == instance.c.process)
        found = select(instance.c.name, instance.c.note, *HOLDER).select_from(joined)
        found = found.where(instance.c.application == self._application).order_by(instance.c.name)
        lives = self._connection.lives
        try:
            rows = self._connection.call(lambda connection: connection.execute(found).fetchall())
        except OSError:
            return []
        return [InstanceNote(row.name, lives(row), row.note) for row in rows]

    def journals(self, client_id: str, instance: str) -> PostgresJournals:
        """See :meth:`connector.state.store.StateStore.journals`."""
        self._database()  # makes the tables
        return PostgresJournals(TaskOwner(self._settings, self._application, instance, client_id))

    def window(self, client_id: str, size: int) -> SqlWindow:
        """See :meth:`connector.state.store.StateStore.window`."""
        return SqlWindow(self._database(), self._application, client_id, size)


class PostgresInstance:
    """See :class:`connector.state.store.HeldInstance`.

    Args:
        connection: to the database.
        application: that it is an instance of.
        wanted: the configured name; None = the host's name, with a number where several run.

    Raises:
        ProviderError: a living process has the configured name, or the database cannot be used.
    """

    def __init__(self, connection: ProcessConnection, application: str, wanted: str | None) -> None:
        self._connection = connection
        self._application = application
        self._hold = secrets.token_hex(8)
        self._own: dict[str, Any] = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "started": round(time.time(), 3),
        }
        host = wanted or socket.gethostname() or "instance"
        number = 1
        connection.hold(self)
        try:
            while True:
                self.name = host if number == 1 else f"{host}-{number}"
                holder = connection.call(self._take)
                if holder is None:
                    return
                if wanted is None:
                    number += 1
                else:
                    self._wait_for_name(holder)
                    return
        except OSError as error:
            connection.release(self)
            raise provider_error(error) from error
        except BaseException:
            connection.release(self)
            raise

    def _wait_for_name(self, holder: Row[Any]) -> None:
        """Takes the name of a process that has died on another machine, when its lease has ended.

        Raises:
            ProviderError: the process lives, because it is of this machine or beats again.
        """
        if holder.machine != this_machine():
            fields = {"instance": self.name, "host": holder.host, "pid": holder.pid}
            _log.warning("waiting for the name of an instance", extra=fields)
        found: Row[Any] | None = holder
        while found is not None:
            is_same = (found.process_id, found.beat) == (holder.process_id, holder.beat)
            if not is_same or holder.machine == this_machine():
                raise ProviderError(
                    f"an instance {self.name!r} runs already: process {found.pid} on {found.host}; "
                    "give this one another `instance`, or none at all"
                )
            time.sleep(_RETRY)
            found = self._connection.call(self._take)

    def _take(self, connection: Connection) -> Row[Any] | None:
        """Takes the name. Returns the process that lives and has the name, or None."""
        key = {"application": self._application, "name": self.name}
        own = (instance.c.application == self._application) & (instance.c.name == self.name)
        joined = instance.outerjoin(process, process.c.id == instance.c.process)
        held = (
            select(instance.c.hold, process.c.beat, *HOLDER)
            .select_from(joined)
            .where(own)
            .with_for_update(of=instance)
        )
        with durable(connection):
            connection.execute(delete(process).where(process.c.beat < NOW - _OLD))
            self._connection.beat(connection)
            connection.execute(insert(instance).values(key).on_conflict_do_nothing())
            row = connection.execute(held).one()
            if row.hold != self._hold and self._connection.lives(row):
                return row
            values = {"process": self._connection.id, "hold": self._hold, "note": self._own}
            connection.execute(update(instance).where(own).values(values))
        return None

    def restore(self, connection: Connection) -> None:
        """See :class:`connector.providers.sql.processes.Hold`: the name was on the disk when it was taken."""

    def note(self, values: Mapping[str, Any]) -> None:
        """See :meth:`connector.state.store.HeldInstance.note`; host, pid and start stand beside them."""
        noted = update(instance).where(instance.c.hold == self._hold).values(note={**self._own, **values})
        with suppress(OSError):
            self._connection.call(lambda connection: connection.execute(noted))

    def close(self) -> None:
        """See :meth:`connector.state.store.HeldInstance.close`."""
        given_up = update(instance).where(instance.c.hold == self._hold).values(process=None, hold=None)
        with suppress(OSError):
            self._connection.call(lambda connection: connection.execute(given_up))
        self._connection.release(self)
