"""The ``sql`` provider: queues and topics in the tables of a database."""

from __future__ import annotations

import os
import secrets
from functools import partial
from typing import Any

from connector.core.local.connection import LocalConnection
from connector.core.local.registry import ClientInfo
from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.messaging.notes import BatchNote, ClientNote, ClientState, WaitingNote
from connector.messaging.provider import Capabilities
from connector.messaging.subscription import TopicSubscription
from connector.providers.sql.database import Database, DatabaseClient, Settings
from connector.providers.sql.file_state import SqlState
from connector.providers.sql.liveness import marks_of
from connector.providers.sql.looking import declare_dead, list_clients, look_at_waiting, open_batches
from connector.providers.sql.processes import StateSettings
from connector.providers.sql.reader import SqlReader
from connector.providers.sql.registry import SqlRegistry
from connector.providers.sql.state import PostgresState
from connector.providers.sql.store import SqlStore
from connector.providers.sql.watch import FileNews, News, SqlWatch
from connector.state.store import StateStore


class SqlProvider:
    """Queues and topics in a database that all clients reach.

    Args:
        settings: of the database.
        keep_processed: seconds that a message which was settled without a copy is kept; None = for ever.
        redelivery_limit: deliveries of one message by anybody, then it is put aside; None or 0 = no limit.
        state_directory: for journals and instance locks; None = beside the file of
            SQLite, in the tables of PostgreSQL.
    """

    capabilities = Capabilities(
        topics=True,
        selectors=True,
        temporary_destinations=True,
        virtual_destinations=True,
        message_groups=True,
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

    def __getstate__(self) -> dict[str, Any]:
        """Another process opens connections of its own."""
        return {**self.__dict__, "_opened": None}

    def _database(self, *, make: bool = True) -> Database:
        """The database, with connections of this process's own.

        Raises:
            ProviderError: it cannot be reached, or has no tables, and none are to be made.
        """
        if self._opened is None or self._opened[0] != os.getpid():
            try:
                self._opened = os.getpid(), Database(self._settings)
            except ModuleNotFoundError as error:
                raise ProviderError(
                    f"PostgreSQL needs the package {error.name}: pip install 'event-connector[postgresql]'"
                ) from error
        database = self._opened[1]
        if not database.prepare(make=make):
            raise ProviderError(f"there are no tables in {database.title} yet; run or send makes them")
        return database

    def state(self, application: str) -> StateStore:
        """See :meth:`connector.messaging.provider.Provider.state`."""
        return self._state(application, make=True)

    def existing_state(self, application: str) -> StateStore:
        """As :meth:`state`, to look only: it makes nothing."""
        return self._state(application, make=False)

    def _state(self, application: str, *, make: bool) -> StateStore:
        database = partial(self._database, make=make)
        directory = self._state_directory
        if directory is None:
            if self._settings.file is None:
                return PostgresState(StateSettings(self._settings), database, application)
            directory = f"{self._settings.file}.state"
        return SqlState(os.fspath(directory), database, application)

    def connect(
        self, application: str = "", instance: str = "", *, client_id: str = "", origin: str = ""
    ) -> LocalConnection:
        """See :meth:`connector.messaging.provider.Provider.connect`."""
        own = f"s{secrets.token_hex(6)}"
        info = ClientInfo(own, application, instance, origin or client_id or own)
        return self._open(self._database(), info, client_id)

    def existing(self) -> LocalConnection:
        """A connection that only looks: it makes nothing.

        Raises:
            ProviderError: there are no tables yet.
        """
        return self._open(self._database(make=False), ClientInfo(""), "")

    def _open(self, database: Database, info: ClientInfo, client_id: str) -> LocalConnection:
        db = DatabaseClient(database, info.client_id)
        marks = marks_of(self._settings)
        readers: dict[SqlReader, None] = {}
        registry = SqlRegistry(db, info, marks)
        news: News
        if (file := self._settings.file) is not None:
            news = FileNews(file)
        else:
            from connector.providers.sql.notices import Notices  # needs the extra postgresql

            news = Notices.shared(self._settings)
        own = info.client_id, info.application
        store = SqlStore(db, *own, marks, readers, self._keep_processed, news.notify)
        limit = self._redelivery_limit or None
        watch = SqlWatch(db, readers, news)
        return LocalConnection(store, registry, watch, limit=limit, client_id=client_id)

    # -- for operators -----------------------------------------------------------------------------

    def check(self) -> bool:
        """Whether the tables are there; False where the first connection makes them.

        Raises:
            ProviderError: the database cannot be reached.
        """
        return Database(self._settings).prepare(make=False)

    def clients(self) -> list[ClientNote]:
        """The clients that have a row in the database, the oldest first."""
        try:
            return list_clients(self._looking(), marks_of(self._settings))
        except ProviderError:
            return []

    def batches(self, in_progress: Destination | None) -> list[BatchNote]:
        """The open claims of all clients, by client and batch.

        Raises:
            ProviderError: this user may not look.
        """
        return open_batches(self._looking(), in_progress)

    def waiting(self, source: Destination | TopicSubscription) -> WaitingNote:
        """What waits in a queue or a subscription; nothing where there is none.

        Raises:
            ProviderError: this user may not look.
        """
        return look_at_waiting(self._looking(), source)

    def declare_dead(self, client_id: str) -> ClientState | None:
        """Marks a client as dead; its process may be there all the same.

        Returns:
            its state before: only one that was alive is changed. None = there is no such client.

        Raises:
            ProviderError: it cannot be marked.
        """
        return declare_dead(self._looking(), marks_of(self._settings), client_id)

    def _looking(self) -> DatabaseClient:
        return DatabaseClient(self._database(make=False), "")
