"""A database that many tests use one after the other, because to make one takes longer than most tests."""

from __future__ import annotations

import shutil
from typing import Final

from sqlalchemy import create_engine, text

from connector.stores.sql.schema import metadata, state_metadata

_REFUSE_SQLITE: Final = """
CREATE TRIGGER refused BEFORE INSERT ON channel WHEN NEW.name = 'queue://blocked'
BEGIN SELECT RAISE(ABORT, 'refused by a test'); END
"""
_REFUSE_POSTGRESQL: Final = """
ALTER TABLE channel ADD CONSTRAINT refused_by_a_test CHECK (name <> 'queue://blocked')
"""
_ACCEPT_SQLITE: Final = "DROP TRIGGER IF EXISTS refused"
_ACCEPT_POSTGRESQL: Final = "ALTER TABLE channel DROP CONSTRAINT IF EXISTS refused_by_a_test"
_KEPT: Final = "schema_version", "counter"


class EmptiedDatabase:
    """A database with the tables of the store.

    Args:
        url: of the database. A provider has made its tables before the first call of :meth:`empty`.
    """

    def __init__(self, url: str) -> None:
        self.engine = create_engine(url)
        self._is_sqlite = self.engine.dialect.name == "sqlite"

    def empty(self) -> None:
        """Removes what a test has left."""
        with self.engine.begin() as connection:
            connection.execute(text(_ACCEPT_SQLITE if self._is_sqlite else _ACCEPT_POSTGRESQL))
            for one in (metadata,) if self._is_sqlite else (metadata, state_metadata):
                for table in reversed(one.sorted_tables):
                    if table.name not in _KEPT:
                        connection.execute(table.delete())  # a small table is not truncated as quickly
        if self._is_sqlite:
            shutil.rmtree(f"{self.engine.url.database}.state", ignore_errors=True)

    def refuse(self) -> None:
        """Lets the database refuse the queue ``blocked``."""
        with self.engine.begin() as connection:
            connection.execute(text(_REFUSE_SQLITE if self._is_sqlite else _REFUSE_POSTGRESQL))

    def close(self) -> None:
        self.engine.dispose()
