"""Business databases: a SQLite file, and a database of a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases.shop import Shop


@pytest.fixture(params=["sqlite", "postgresql"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    is_sqlite = request.param == "sqlite"
    made = Shop(f"sqlite:///{tmp_path}/shop.db" if is_sqlite else request.getfixturevalue("database"))
    yield made
    made.database.close()
