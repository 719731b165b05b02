"""Parts that the tests of the store in a database share."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of a database for one test: a SQLite file, and one of PostgreSQL."""
    if request.param == "postgresql":
        found: str = request.getfixturevalue("database")
        return found
    return f"sqlite:///{request.getfixturevalue('root')}/messages.db"
