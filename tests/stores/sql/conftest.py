"""Parts that the tests of the store in a database share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from sqlalchemy import Connection, NullPool, create_engine

from connector.messaging.destination import parse_destination
from connector.stores.sql.schema import metadata, state_metadata

ORDERS, ARCHIVE = parse_destination("queue://orders"), parse_destination("queue://archive")
PRICES = parse_destination("topic://prices")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of a database for one test: a SQLite file, and one of PostgreSQL."""
    if request.param == "postgresql":
        found: str = request.getfixturevalue("database")
        return found
    return f"sqlite:///{request.getfixturevalue('root')}/messages.db"


@contextmanager
def program(url: str, **options: Any) -> Iterator[Connection]:
    """The connection of another program to a database. What it has done is committed at the end."""
    with create_engine(url, poolclass=NullPool, **options).begin() as connection:
        yield connection


_REFUSALS: Final = {
    "sqlite": (
        "CREATE TRIGGER refused BEFORE INSERT ON channel WHEN NEW.name = 'queue://blocked' "
        "BEGIN SELECT RAISE(ABORT, 'refused by a test'); END",
        "DROP TRIGGER refused",
    ),
    "postgresql": (
        "ALTER TABLE channel ADD CONSTRAINT refused_by_a_test CHECK (name <> 'queue://blocked')",
        "ALTER TABLE channel DROP CONSTRAINT refused_by_a_test",
    ),
}
"""What refuses the queue ``blocked``, and what accepts it again."""


class EmptiedDatabase:
    """A database that many tests use one after the other, because to make one takes longer than most tests.

    Args:
        url: of the database. A provider has made its tables before the first call of :meth:`empty`.
    """

    def __init__(self, url: str) -> None:
        self.engine = create_engine(url)
        self._is_sqlite = self.engine.dialect.name == "sqlite"
        self._refusal, self._acceptance = _REFUSALS[self.engine.dialect.name]
        made = (metadata,) if self._is_sqlite else (metadata, state_metadata)
        names = [table.name for one in made for table in reversed(one.sorted_tables)]
        names = [name for name in names if name not in ("schema_version", "counter")]
        self._deletions = [f"DELETE FROM {name}" for name in names]  # to truncate small tables takes longer
        if not self._is_sqlite:  # one message to the server
            self._deletions = [f"DO $$ BEGIN {'; '.join(self._deletions)}; END $$"]
        self._refuses = False

    def empty(self) -> None:
        """Removes what a test has left."""
        with self.engine.begin() as connection:
            if self._refuses:
                connection.exec_driver_sql(self._acceptance)
            for deletion in self._deletions:
                connection.exec_driver_sql(deletion)
        self._refuses = False
        if self._is_sqlite:
            shutil.rmtree(f"{self.engine.url.database}.state", ignore_errors=True)

    def refuse(self) -> None:
        """Lets the database refuse the queue ``blocked``."""
        with self.engine.begin() as connection:
            connection.exec_driver_sql(self._refusal)
        self._refuses = True

    def close(self) -> None:
        self.engine.dispose()
