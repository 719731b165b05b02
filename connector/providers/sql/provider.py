"""The ``sql`` provider: queues and topics in the tables of a database."""

from __future__ import annotations

import os
import secrets

from connector.core.local.connection import LocalConnection
from connector.core.local.registry import ClientInfo
from connector.messaging.provider import Capabilities
from connector.providers.sql.database import Database, DatabaseClient, Settings
from connector.providers.sql.file_state import SqlState
from connector.providers.sql.liveness import marks_of
from connector.providers.sql.reader import SqlReader
from connector.providers.sql.registry import SqlRegistry, SqlWatch
from connector.providers.sql.store import SqlStore


class SqlProvider:
    """Queues and topics in a database that all clients reach.

    Args:
        settings: of the database.
        keep_processed: seconds that a message which was settled without a copy is kept; None = for ever.
        redelivery_limit: deliveries of one message by anybody, then it is put aside; None or 0 = no limit.
        state_directory: for journals and instance locks; None = beside the file of SQLite.
    """

    capabilities = Capabilities(
        topics=True, selectors=True, temporary_destinations=True, virtual_destinations=True
    )

    def __init__(
        self,
        settings: Settings,
        *,
        keep_processed: float | None = 7 * 86400.0,
        redelivery_limit: int | None = None,
        state_directory: str | os.PathLike[str] | None = None,
    ) -> None:
        self._settings = settings
        self._keep_processed = keep_processed
        self._redelivery_limit = redelivery_limit
        self._state_directory = state_directory
        self._opened: tuple[int, Database] | None = None

    def _database(self) -> Database:
        """The database, with connections of this process's own."""
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = os.getpid(), Database(self._settings)
        return self._opened[1]

    def state(self, application: str) -> SqlState:
        """See :meth:`connector.messaging.provider.Provider.state`."""
        directory = self._state_directory or f"{self._settings.file}.state"
        return SqlState(os.fspath(directory), self._database(), application)

    def connect(
        self, application: str = "", instance: str = "", *, client_id: str = "", origin: str = ""
    ) -> LocalConnection:
        """See :meth:`connector.messaging.provider.Provider.connect`."""
        own = f"s{secrets.token_hex(6)}"
        db = DatabaseClient(self._database(), own)
        marks = marks_of(self._settings)
        info = ClientInfo(own, application, instance, origin or client_id or own)
        readers: dict[SqlReader, None] = {}
        registry = SqlRegistry(db, info, marks)
        store = SqlStore(db, own, application, marks, readers, self._keep_processed)
        limit = self._redelivery_limit or None
        return LocalConnection(store, registry, SqlWatch(db, readers), limit=limit, client_id=client_id)
