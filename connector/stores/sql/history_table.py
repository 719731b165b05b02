"""The history in a table of PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, select, text
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.types import LargeBinary

from connector.messaging.history import History, HistoryRow, pattern_of, read_row, write_row
from connector.stores.sql.database import Settings
from connector.stores.sql.processes import StateConnection
from connector.stores.sql.schema import history

_DAY_SECONDS: Final = 86400
_HAS_TEXT: Final = text(
    "EXISTS (SELECT 1 FROM unnest(:patterns) AS wanted WHERE position(wanted IN data) > 0)"
).bindparams(bindparam("patterns", type_=ARRAY(LargeBinary)))


class PostgresHistory(History):
    """The history of an application in a table.

    The rows of a commit are written before the commit. The server writes both to its disk in their order. So
    no row waits for the disk.
    """

    def __init__(self, settings: Settings, prepare: Callable[[], object], application: str) -> None:
        self._settings = settings
        self._prepare = prepare
        self._application = application
        self._is_prepared = False

    def append(self, rows: Sequence[HistoryRow], *, synced: bool = False) -> None:
        if rows:
            values = [
                {"application": self._application, "time": row.time, "data": write_row(row)} for row in rows
            ]
            self._use(lambda connection: connection.execute(insert(history).values(values)))

    def find(self, texts: Iterable[str] | None, since: float = 0.0) -> Iterator[HistoryRow]:
        own = (history.c.application == self._application) & (history.c.time >= since)
        found = select(history.c.data).where(own).order_by(history.c.number)
        values: dict[str, Any] = {}
        if texts is not None:
            found = found.where(_HAS_TEXT)
            values["patterns"] = [pattern_of(one) for one in texts]
        rows = self._use(lambda connection: connection.execute(found, values).scalars().all())
        yield from filter(None, (read_row(bytes(data)) for data in rows))

    def prune(self, before: float) -> None:
        day = before // _DAY_SECONDS * _DAY_SECONDS
        old = delete(history).where(history.c.application == self._application, history.c.time < day)
        self._use(lambda connection: connection.execute(old))

    def _use(self, work: Callable[[Connection], Any]) -> Any:
        if not self._is_prepared:
            self._prepare()
            self._is_prepared = True
        return StateConnection.of_process(self._settings).use(work)
