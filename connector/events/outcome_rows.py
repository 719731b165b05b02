"""Removes the rows of ``connector_outcome`` whose events are settled."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from connector.databases.settings import DatabaseSettings

if TYPE_CHECKING:
    from connector.databases.database import Database

_log: Final = logging.getLogger("connector.events")
_PRUNE_SECONDS: Final = 3600.0
_CLOSE_SECONDS: Final = 5.0
_STOP: Final = -1
_PRUNE: Final = -2


class OutcomeRows:
    """The rows of one connection of the adapter. A thread of its own removes them.

    A row that cannot be removed now is left. It does no harm, and is pruned later.

    Args:
        databases: with rows.
        application: ApplicationName.
        client_id: of the connection.
    """

    def __init__(self, databases: Sequence[DatabaseSettings], application: str, client_id: str) -> None:
        self._settings = databases
        self._application = application
        self._client_id = client_id
        self._work: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pruned_at = float("-inf")

    def remove(self, batches: Sequence[int]) -> None:
        """Removes the rows of settled batches, soon."""
        for batch in batches if self._settings else ():
            self._put(batch)

    def prune(self) -> None:
        """Removes old rows once an hour. Called while no message waits, so that no event needs its row."""
        if self._settings and time.monotonic() - self._pruned_at >= _PRUNE_SECONDS:
            self._pruned_at = time.monotonic()
            self._put(_PRUNE)

    def close(self) -> None:
        """Removes what is still to be removed, within some seconds. Repeatable."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._work.put(_STOP)
            thread.join(_CLOSE_SECONDS)

    def _put(self, work: int) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="outcome-rows", daemon=True)
            self._thread.start()
        self._work.put(work)

    def _run(self) -> None:
        from connector.databases.database import Database

        databases = [Database(one) for one in self._settings]
        try:
            while True:
                found = {self._work.get()}
                while not self._work.empty():
                    found.add(self._work.get())
                for database in databases:
                    self._work_on(database, sorted(found - {_STOP, _PRUNE}), prunes=_PRUNE in found)
                if _STOP in found:
                    return
        finally:
            for database in databases:
                database.close()

    def _work_on(self, database: Database, batches: Sequence[int], *, prunes: bool) -> None:
        from sqlalchemy.exc import SQLAlchemyError

        from connector.databases.outcomes import prune, remove
        from connector.errors import ConnectorError

        try:
            with database.connect() as connection, connection.begin():
                if batches:
                    remove(connection, self._application, self._client_id, batches)
                if prunes:
                    prune(connection, self._application)
        except (SQLAlchemyError, ConnectorError) as error:
            if isinstance(error, SQLAlchemyError):
                error = database.unreachable(error)
            _log.warning(
                "rows of settled events stay in connector_outcome for now",
                extra={"database": database.name, "reason": str(error)},
            )
