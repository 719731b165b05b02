"""The duplicate window in the database: it misses nothing, and forgets what is old."""

from __future__ import annotations

from sqlalchemy import func, select

from connector.databases.urls import parse_url
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from connector.stores.sql.schema import published
from tests.postgres import PostgresServer

ORDERS = parse_destination("orders")


def test_what_a_neighbour_has_published_late_is_not_missed(database: str, postgres: PostgresServer) -> None:
    """It had its number before another, which was committed first."""
    provider = SqlProvider(Settings(database))
    provider.connect("suite", "one").close()
    window = provider.state("suite").window("one", 100)
    insert = "INSERT INTO published (application, key, changed) VALUES ('suite', %s, pg_current_xact_id())"
    with postgres.connect(str(parse_url(database).database)) as slow:
        slow.execute("BEGIN")
        slow.execute(insert, [b"slow"])
        with postgres.connect(str(parse_url(database).database)) as quick:
            quick.execute(insert, [b"quick"])
        window.reserve([])
        assert ("quick" in window, "slow" in window) == (True, False)
        slow.execute("COMMIT")
    window.reserve([])
    assert "slow" in window


def test_keys_that_are_forgotten_leave_the_database(url: str) -> None:
    provider = SqlProvider(Settings(url))
    for application in ("suite", "other"):
        connection = provider.connect(application, "one")
        connection.send(ORDERS, [Message() for _ in range(30)])
        claims = connection.poller(ORDERS).claim(1, range(30))
        keys = [str(number) for number in range(30)]
        connection.settle([Settlement(claim, published=key) for claim, key in zip(claims, keys, strict=True)])
        connection.close()
    provider.state("suite").window("one", 10)
    window = provider.state("suite").window("one", 10)
    assert [str(number) in window for number in range(18, 22)] == [False, False, True, True]
    counted = select(published.c.application, func.count()).group_by(published.c.application)
    with provider._database().transaction(reads=True) as transaction:
        assert dict(map(tuple, transaction.execute(counted))) == {"suite": 10, "other": 30}
