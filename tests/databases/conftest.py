"""Business databases: a SQLite file, and a database of a PostgreSQL server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine, text

from connector.databases.database import Database
from connector.databases.outcomes import OutcomeRow
from connector.databases.settings import DatabaseSettings, EventKey


class Shop:
    """A business database, and a look at it from outside."""

    def __init__(self, url: str) -> None:
        self.settings = DatabaseSettings("shop", url)
        self.database = Database(self.settings)
        self._engine = create_engine(url, poolclass=NullPool)
        self._numbers = itertools.count(1)

    @property
    def mark(self) -> str:
        """The mark of a parameter, for the driver."""
        return "?" if "sqlite" in self.settings.url else "%s"

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Runs statements, and returns the rows of the last one."""
        rows: list[tuple[Any, ...]] = []
        with self._engine.begin() as connection:
            for statement in statements:
                found = connection.execute(text(statement))
                rows = [tuple(row) for row in found] if found.returns_rows else []
        return rows

    def row(self, event: str, *, client: str = "client", batch: int = 1) -> OutcomeRow:
        return OutcomeRow("demo", "book", EventKey(event, f"ID:{event}", client, batch))

    def new_row(self) -> OutcomeRow:
        """The row of an event that no other has."""
        return self.row(str(next(self._numbers)))

    def outcomes(self) -> list[tuple[Any, ...]]:
        return self.execute("SELECT event, client, batch FROM connector_outcome ORDER BY event")


@pytest.fixture(params=["sqlite", "postgresql"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    is_sqlite = request.param == "sqlite"
    made = Shop(f"sqlite:///{tmp_path}/shop.db" if is_sqlite else request.getfixturevalue("database"))
    yield made
    made.database.close()
