"""Parts that the tests of the store in a database share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, NullPool, create_engine

from connector.messaging.destination import parse_destination

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
