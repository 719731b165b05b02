"""A provider on a database file, to try the store contracts."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from connector.core.local.connection import LocalConnection
from connector.core.local.registry import ClientInfo
from connector.messaging.destination import Destination
from connector.messaging.provider import Capabilities
from connector.state.directory import StateDirectory
from tests.providers.sqlite.database import Database
from tests.providers.sqlite.registry import SqliteRegistry, SqliteWatch
from tests.providers.sqlite.store import SqliteStore


@dataclass(frozen=True)
class SqliteProvider:
    """Queues and topics in one database file, shared by the processes of one machine.

    Args:
        path: of the file.
        redelivery_limit: deliveries of one message by anybody, then it is put aside; None = no limit.
    """

    path: str
    redelivery_limit: int | None = None
    capabilities = Capabilities(
        topics=True, selectors=True, temporary_destinations=True, virtual_destinations=True
    )

    def state(self, application: str) -> SqliteState:
        """See :meth:`connector.messaging.provider.Provider.state`."""
        return SqliteState(self.path, application)

    def connect(
        self, application: str = "", instance: str = "", *, client_id: str = "", origin: str = ""
    ) -> LocalConnection:
        """See :meth:`connector.messaging.provider.Provider.connect`."""
        own = f"s{secrets.token_hex(6)}"
        db = Database(self.path, own)
        who = f"process {os.getpid()}"
        info = ClientInfo(own, application, instance, origin or client_id or own, who=who)
        registry, watch = SqliteRegistry(db, info), SqliteWatch(db)
        store = SqliteStore(db, own, application, watch)
        return LocalConnection(store, registry, watch, limit=self.redelivery_limit, client_id=client_id)

    def refuse(self, destination: Destination) -> None:
        """Lets nothing be sent to a destination."""
        db = Database(self.path, "refuse")
        db.execute("INSERT INTO refused VALUES (?, 'refused by a test')", str(destination))
        db.close()


class SqliteState(StateDirectory):
    """See :class:`connector.state.store.StateStore`: journals in a directory, the window in the database."""

    def __init__(self, path: str, application: str) -> None:
        super().__init__(f"{path}.state/{_folder(application)}", folder=_folder, keys_of=lambda data: ())
        self._file = path
        self._application = application

    def window(self, client_id: str, size: int) -> SqliteWindow:  # type: ignore[override]
        return SqliteWindow(Database(self._file, client_id), self._application, client_id, size)


class SqliteWindow:
    """See :class:`connector.state.store.PublishedIds`."""

    def __init__(self, db: Database, application: str, client_id: str, size: int) -> None:
        self._db = db
        self._own = application, client_id
        self._size = size
        self._keys: dict[str, None] = {}
        self._read = 0
        self._refresh()

    def _refresh(self) -> None:
        newest = "SELECT number, key FROM published WHERE application = ? AND number > ? ORDER BY number"
        for row in self._db.execute(newest, self._own[0], self._read):
            self._read = row["number"]
            self.add((row["key"].decode("utf-8", "surrogateescape"),))

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def add(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._keys.pop(key, None)
            self._keys[key] = None
        if len(self._keys) > 2 * self._size:
            self._keys = dict.fromkeys(list(self._keys)[-self._size :])

    def reserve(self, keys: Sequence[str], held: Sequence[str] = ()) -> set[str]:
        with self._db.transaction():
            self._refresh()
            rows = self._db.execute(
                "SELECT key FROM in_flight WHERE application = ? AND client <> ?", *self._own
            )
            taken = {row["key"] for row in rows}
            busy = {key for key in keys if key.encode("utf-8", "surrogateescape") in taken}
            self.release()
            for key in {*held, *keys} - busy:
                data = key.encode("utf-8", "surrogateescape")
                self._db.execute("INSERT INTO in_flight VALUES (?, ?, ?)", *self._own, data)
        return busy

    def release(self, client_id: str | None = None) -> None:
        if client_id is not None:
            self._refresh()
        whose = self._own[0], client_id or self._own[1]
        self._db.execute("DELETE FROM in_flight WHERE application = ? AND client = ?", *whose)


def _folder(name: str) -> str:
    """A name of a user's as that of a folder."""
    return f"@{quote(name, safe='')}"
