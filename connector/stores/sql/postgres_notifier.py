"""LISTEN and NOTIFY of PostgreSQL: tells of messages in channels that were empty.

A notice is sent after the commit, by another statement. A notice may be lost. So a watch also looks from time
to time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import psycopg
from sqlalchemy import ARRAY, NullPool, Text, create_engine, func, literal, select
from sqlalchemy.exc import SQLAlchemyError

from connector.databases.urls import own_options
from connector.stores.sql.database import Settings
from connector.stores.sql.processes import StateConnection
from connector.stores.sql.watch import Notifier, SqlWatch

_CHANNEL: Final = "connector_messages"
_RETRY: Final = 1.0
_LONGEST_PAYLOAD: Final = 7000
"""Bytes. PostgreSQL allows fewer than 8000."""


class PostgresNotifier(Notifier):
    """Notifies the watches of one process.

    A thread listens as long as there are watches, on a connection outside the pool.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._watches: dict[SqlWatch, None] = {}
        self._thread: threading.Thread | None = None
        self._is_listening = False

    @classmethod
    def of_process(cls, settings: Settings) -> PostgresNotifier:
        """Returns the notifier of this process."""
        return _shared.setdefault((os.getpid(), settings), cls(settings))

    def add(self, watch: SqlWatch) -> None:
        if watch in self._watches:
            return
        with self._lock:
            self._watches[watch] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="connector-notifier", daemon=True)
                self._thread.start()

    def remove(self, watch: SqlWatch) -> None:
        with self._lock:
            self._watches.pop(watch, None)

    def interval(self, *, selects: bool) -> float:
        # Rejected messages may stay in a channel for long. Then no client announces the next message.
        return 0.05 if selects or not self._is_listening else 1.0

    def notify(self, channels: Sequence[str]) -> None:
        names = [name for name in channels if len(name.encode()) < _LONGEST_PAYLOAD]
        told = select(func.pg_notify(_CHANNEL, func.unnest(literal(names, ARRAY(Text)))))
        with suppress(OSError):  # a watch also looks without a notice
            own = StateConnection.of_process(self._settings)
            own.call(lambda connection: connection.execute(told))

    def _run(self) -> None:
        engine = create_engine(
            self._settings.parsed,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args=own_options(self._settings.parsed),
        )
        while True:
            try:
                with engine.connect() as connection:
                    connection.exec_driver_sql(f"LISTEN {_CHANNEL}")
                    driver = connection.connection.driver_connection
                    assert isinstance(driver, psycopg.Connection)
                    self._is_listening = True
                    self._notify_watches(None)  # of messages that came before
                    while not self._is_done():
                        for notice in driver.notifies(timeout=_RETRY):
                            self._notify_watches(notice.payload)
                    return
            except (SQLAlchemyError, psycopg.Error):
                self._is_listening = False
                if self._is_done():
                    return
                time.sleep(_RETRY)

    def _is_done(self) -> bool:
        """Whether there are no watches any more. Then the thread ends."""
        with self._lock:
            if self._watches:
                return False
            self._thread, self._is_listening = None, False
            return True

    def _notify_watches(self, channel: str | None) -> None:
        with self._lock:
            watches = list(self._watches)
        for watch in watches:
            watch.notify(channel)


_shared: Final[dict[tuple[int, Settings], PostgresNotifier]] = {}
