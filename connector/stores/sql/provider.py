"""The provider ``sql``: connections of clients, and the questions of operators."""

from __future__ import annotations

import os
import secrets
from functools import partial
from itertools import groupby
from typing import Any, Final

from sqlalchemy import func, select, true, update
from sqlalchemy.exc import OperationalError

from connector.errors import ProviderError, ProviderMisconfigured
from connector.messaging.destination import Destination
from connector.messaging.notes import BatchNote, ClientNote, ClientState, WaitingNote
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.state_store import StateStore
from connector.messaging.subscription import TopicSubscription
from connector.stores.engine.channel import Part, is_lot
from connector.stores.engine.connection import CAPABILITIES, LocalConnection
from connector.stores.engine.registry import ClientInfo, source_channel
from connector.stores.sql.database import DatabaseClient, MessageDatabase, Settings
from connector.stores.sql.dialects import IDLE_SECONDS
from connector.stores.sql.liveness import liveness_of
from connector.stores.sql.messages import SqlClaim, channel_name
from connector.stores.sql.reader import SqlReader
from connector.stores.sql.registry import SqlRegistry
from connector.stores.sql.schema import NOBODY, message, reference
from connector.stores.sql.schema import client as clients
from connector.stores.sql.state import PostgresState, SqliteState
from connector.stores.sql.statements import IS_CLAIMED, IS_NEW, select_claims
from connector.stores.sql.store import SqlStore
from connector.stores.sql.watch import FileNotifier, Notifier, SqlWatch

_PATIENCE: Final = 5.0
"""Seconds that an operator waits for a client in the middle of a claim."""
_LOCK_NOT_AVAILABLE: Final = "55P03"


class SqlProvider(AdapterProvider):
    """Queues and topics in a database.

    Args:
        keep_processed: seconds that a message settled without a copy is kept. None = for ever.
        redelivery_limit: deliveries of one message before it is put aside. None or 0 = no limit.
        state_directory: for journals and instance locks. None = beside the SQLite file, or in the tables of
            PostgreSQL.
    """

    capabilities = CAPABILITIES

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
        self._opened: tuple[int, MessageDatabase] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leaves the connections out. Another process opens its own."""
        return {**self.__dict__, "_opened": None}

    def _database(self, *, make: bool = True) -> MessageDatabase:
        """Returns the database, with connections of this process.

        Raises:
            ProviderError: the database cannot be reached, or has no tables and ``make`` is False.
        """
        if self._opened is None or self._opened[0] != os.getpid():
            try:
                self._opened = os.getpid(), MessageDatabase(self._settings)
            except ModuleNotFoundError as error:
                raise ProviderMisconfigured(
                    f"PostgreSQL needs the package {error.name}: pip install 'event-connector[postgresql]'"
                ) from error
        database = self._opened[1]
        if not database.prepare(make=make):
            raise ProviderError(f"there are no tables in {database.title} yet; run or send makes them")
        return database

    def state(self, application: str) -> StateStore:
        return self._state(application, make=True)

    def existing_state(self, application: str) -> StateStore:
        return self._state(application, make=False)

    def _state(self, application: str, *, make: bool) -> StateStore:
        database = partial(self._database, make=make)
        directory = self._state_directory
        if directory is None:
            if self._settings.file is None:
                return PostgresState(self._settings, database, application)
            directory = f"{self._settings.file}.state"
        return SqliteState(os.fspath(directory), database, application, durable=self._settings.durable)

    def connect(
        self, application: str = "", instance: str = "", *, client_id: str = "", origin: str = ""
    ) -> LocalConnection:
        own = f"s{secrets.token_hex(6)}"
        info = ClientInfo(own, application, instance, origin or client_id or own)
        return self._open(self._database(), info, client_id)

    def disk(self) -> str | None:
        file = self._settings.file
        return None if file is None else os.path.dirname(file)

    def existing(self) -> LocalConnection:
        return self._open(self._database(make=False), ClientInfo(""), "")

    def _open(self, database: MessageDatabase, info: ClientInfo, client_id: str) -> LocalConnection:
        db = DatabaseClient(database, info.client_id, info.application)
        readers: dict[SqlReader, None] = {}
        registry = SqlRegistry(db, info, liveness_of(self._settings))
        notifier: Notifier
        if (file := self._settings.file) is not None:
            notifier = FileNotifier(file)
        else:
            from connector.stores.sql.postgres_notifier import PostgresNotifier  # needs the extra postgresql

            notifier = PostgresNotifier.of_process(self._settings)
        store = SqlStore(db, readers, self._keep_processed, notifier.notify)
        limit = self._redelivery_limit or None
        watch = SqlWatch(db, readers, notifier)
        return LocalConnection(store, registry, watch, limit=limit, client_id=client_id, lots=True)

    # -- for operators -----------------------------------------------------------------------------

    def check(self) -> bool:
        return MessageDatabase(self._settings).prepare(make=False)

    def _observer(self) -> DatabaseClient:
        return DatabaseClient(self._database(make=False))

    def clients(self) -> list[ClientNote]:
        """Returns the clients that have a row, the oldest first."""
        liveness = liveness_of(self._settings)
        try:
            rows = self._observer().rows(liveness.every)
        except ProviderError:
            return []
        return [
            ClientNote(
                row.id, row.application, row.instance, row.host, row.pid, row.since, liveness.state(row)
            )
            for row in sorted(rows, key=lambda row: row.since)
        ]

    def batches(self, in_progress: Destination | None) -> list[BatchNote]:
        place = "" if in_progress is None else str(in_progress)
        lies = reference.c.home.is_(None) | (reference.c.channel == place)
        claims = select_claims(IS_CLAIMED, reference.c.owner != NOBODY, lies)
        rows = self._observer().rows(
            claims.order_by(reference.c.owner, reference.c.cycle, reference.c.sequence)
        )
        return [
            BatchNote(
                client_id,
                cycle,
                (batch[0].taken_at or 0) / 1000,
                {row.sequence: SqlClaim(row) for row in batch},
            )
            for (client_id, cycle), same in groupby(rows, key=lambda row: (row.owner, row.cycle))
            if not is_lot(client_id) and (batch := list(same))
        ]

    def waiting(self, source: Destination | TopicSubscription) -> WaitingNote:
        channel = source_channel(source)
        in_channel = reference.c.channel == channel_name(channel), IS_NEW
        here = (*in_channel, reference.c.part == channel.part.value)
        db = self._observer()
        late = select(func.count()).where(*in_channel, reference.c.part == Part.DELAYED.value)
        ((delayed,),) = db.rows(late)
        number, oldest = db.rows(select(func.count(), func.min(reference.c.id)).where(*here))[0]
        if not number:
            return WaitingNote(0, None, delayed)
        of_oldest = reference.c.message == message.c.id, reference.c.id == oldest
        headers = db.first(select(message.c.headers).where(*of_oldest))
        sent = headers.get("JMSTimestamp") if isinstance(headers, dict) else None
        sent = sent / 1000 if isinstance(sent, int | float) and sent > 0 else None
        return WaitingNote(number, sent, delayed)

    def declare_dead(self, client_id: str) -> ClientState | None:
        # The client that takes over gives the claims a new version. So the late client settles none of them.
        db, liveness = self._observer(), liveness_of(self._settings)
        with db.transaction() as connection:
            row = liveness.row(db, client_id)
            if row is None:
                return None
            state = liveness.state(row)
            if state is ClientState.ALIVE:
                if connection.dialect.name == "postgresql":
                    connection.execute(select(func.set_config("lock_timeout", f"{_PATIENCE}s", true())))
                alive = update(clients).where(clients.c.id == client_id)
                try:
                    connection.execute(alive.values(declared_dead=True))
                except OperationalError as error:
                    if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                        raise
                    raise ProviderError(
                        f"client {client_id} is in the middle of a claim: it claims now, or its process is "
                        f"stopped. The server ends such a claim after {IDLE_SECONDS} s: try again then"
                    ) from error
            return state
