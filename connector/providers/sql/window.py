"""The duplicate window in the database, where a settlement writes the published keys in its transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sqlalchemy import delete, insert, select

from connector.providers.sql.changes import write_key
from connector.providers.sql.database import Database, DatabaseClient
from connector.providers.sql.schema import counter, in_flight, published

_PRUNED: Final = 10_000
"""Keys that are published, at least, between two removals of old ones."""


class SqlWindow:
    """See :class:`connector.state.store.PublishedIds`.

    Args:
        database: with the published keys.
        application: whose.
        client_id: names what the client has in flight.
        size: keys to remember, at least.
    """

    def __init__(self, database: Database, application: str, client_id: str, size: int) -> None:
        self._db = DatabaseClient(database, client_id)
        self._application = application
        self._client_id = client_id
        self._size = size
        self._keys: dict[str, None] = {}
        self._mark = self._db.dialect.beginning
        self._reserved = 0
        self._refresh()
        self._prune()

    def _refresh(self) -> None:
        """Reads what has been published since; the newest at the end.

        Numbers are given before a commit, so the latest number says nothing about the earlier ones.
        """
        own = published.c.application == self._application
        newest = select(published.c.key).where(own, self._db.dialect.since(published.c.changed))
        with self._db.reading() as connection:
            mark = connection.execute(select(self._db.dialect.mark)).scalar_one()
            found = connection.execute(newest.order_by(published.c.number), {"mark": self._mark}).scalars()
            self.add(map(_read_key, found))
            self._mark = mark

    def _prune(self) -> None:
        """Removes the keys that the window has forgotten."""
        own = published.c.application == self._application
        oldest = select(published.c.number).where(own).order_by(published.c.number.desc())
        with self._db.transaction() as connection:
            last = connection.execute(oldest.offset(self._size).limit(1)).scalar()
            if last is not None:
                connection.execute(delete(published).where(own, published.c.number <= last))

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def add(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._keys.pop(key, None)
            self._keys[key] = None
        if len(self._keys) > 2 * self._size + 1000:
            self._keys = dict.fromkeys(list(self._keys)[-self._size :])

    def reserve(self, keys: Sequence[str], held: Sequence[str] = ()) -> set[str]:
        self._reserved += len(keys)
        if self._reserved > self._size + _PRUNED:
            self._reserved = 0
            self._prune()
        with self._db.transaction() as connection:
            one_at_a_time = select(counter.c.value).where(counter.c.name == "records").with_for_update()
            connection.execute(one_at_a_time)
            self._refresh()
            others = (in_flight.c.application == self._application) & (in_flight.c.client != self._client_id)
            taken = {
                _read_key(key) for key in connection.execute(select(in_flight.c.key).where(others)).scalars()
            }
            busy = taken.intersection(keys)
            self.release()
            rows = [
                {"application": self._application, "client": self._client_id, "key": write_key(key)}
                for key in {*held, *keys} - busy
            ]
            if rows:
                connection.execute(insert(in_flight), rows)
        return busy

    def release(self, client_id: str | None = None) -> None:
        if client_id is not None:
            self._refresh()
        own = in_flight.c.application == self._application
        own &= in_flight.c.client == (client_id or self._client_id)
        with self._db.transaction() as connection:
            connection.execute(delete(in_flight).where(own))


def _read_key(key: bytes) -> str:
    return bytes(key).decode("utf-8", "surrogateescape")
