"""What the database finds: messages for a selector, published keys, and copies that are old."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import func, select

from connector.databases.urls import parse_url
from connector.messaging.message import Message, PropertyValue
from connector.messaging.retention import Retention
from connector.messaging.selector import compile_selector
from connector.messaging.settlement import Settlement
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from connector.stores.sql.schema import message as messages
from connector.stores.sql.schema import published, reference
from connector.stores.sql.selection import may_match
from connector.text.iso_time import iso_time
from tests.postgres import PostgresServer
from tests.stores.sql.conftest import ARCHIVE, ORDERS
from tests.tables import Table, texts


def _message(type: str | None = None, priority: int = 4, **properties: PropertyValue) -> Message:
    made = Message(type=type, priority=priority, correlation_id=f"c-{priority}_1")
    for name, value in properties.items():
        made.set_property(name, value)
    return made


SENT = [
    _message(),
    _message("T", region="EU"),
    _message("t", region="eu"),
    _message("T", 9, region="US", odd="with \0 in it"),
    _message("T", 9, region="EU", odd="with \0 in it"),
    _message(None, 0, region=5),
    _message(None, 0, region=True),
    _message("100%", 7, region="E%"),
    _message("1000", 7, **{"$price": "EU"}),
]
EXACT = texts(r"""
    region = 'EU'  'EU' = region  JMSType = 'T' AND region = 'EU'  JMSType = 'T' OR JMSPriority >= 7
    JMSPriority = 9  7 < JMSPriority  region IN ('EU', 'US')  $price = 'EU'  region = 'nowhere'
    JMSCorrelationID LIKE 'c-7\_%' ESCAPE '\'  JMSType LIKE '100\%%' ESCAPE '\'
""")
OTHER = texts("""
    region = 5  region <> 'EU'  NOT (region = 'EU')  region IS NULL  region = 'EU' OR region = 5
    JMSMessageID LIKE 'ID:%'  JMSPriority > 4.5 AND region LIKE '_U'  JMSXDeliveryCount = 1  region = TRUE
""")


def test_what_a_selector_accepts_is_never_left_out(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = SqlProvider(Settings(url))
    connection = provider.connect("suite", "one")
    # another program may have stored what no message of this one may have
    monkeypatch.setattr(Message, "check", lambda message: None)
    ids = connection.send(ORDERS, SENT)
    odd = {name for name, message in zip(ids, SENT, strict=True) if "odd" in message.properties}
    joined = reference.join(messages, messages.c.id == reference.c.message)
    with Table() as table:
        for cycle, selector in enumerate(EXACT + OTHER):
            with table.row(selector):
                matches = compile_selector(selector).matches
                expected = {name for name, message in zip(ids, SENT, strict=True) if matches(message)}
                statement = select(messages.c.headers).select_from(joined).where(may_match(selector))
                with provider._database().transaction(reads=True) as transaction:
                    found = {headers["JMSMessageID"] for headers in transaction.execute(statement).scalars()}
                assert expected <= found
                if selector in EXACT:
                    assert found - expected <= odd | ({ids[2]} if "sqlite" in url else set())
                poller = connection.poller(ORDERS, selector=selector)
                claims = poller.claim(cycle, range(20))
                connection.settle([Settlement(claim, give_back=True) for claim in claims])
                poller.close()
                assert {claim.message_id for claim in claims} == expected
    connection.abandon()


def test_a_property_that_was_added_to_a_copy_counts(url: str) -> None:
    connection = SqlProvider(Settings(url)).connect("suite", "one")
    connection.send(ORDERS, [_message()])
    claim = connection.poller(ORDERS).take(1, 0)
    assert claim is not None
    added: dict[str, PropertyValue] = {"connector_reason": "late"}
    connection.settle([Settlement(claim, give_back=True, properties=added)])
    assert connection.poller(ORDERS, selector="connector_reason = 'late'").take(2, 0) is not None
    connection.abandon()


# -- the duplicate window ------------------------------------------------------------------------------


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


def test_young_copies_of_high_priority_do_not_keep_pruning_from_old_ones(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prune has no time here, and goes on with a page of two copies all the same."""
    monkeypatch.setattr("connector.stores.sql.store._PRUNED", 2)
    connection = SqlProvider(Settings(url)).connect("suite", "one")
    for number in range(6):
        is_young = number < 3
        connection.send(ORDERS, [Message(b"%d" % number, priority=9 if is_young else 4)])
        (claim,) = connection.poller(ORDERS).claim(number, range(1))
        at = iso_time(time.time() - (60 if is_young else 7200))
        properties = {"connector_origin_destination": "queue://orders", "connector_time": at}
        connection.settle([Settlement(claim, copy_to=ARCHIVE, properties=properties)])
    pruned = [connection.prune([Retention(ARCHIVE, 3600.0)], seconds=0.0) for _ in range(2)]
    assert [(one.copies.get(ARCHIVE), one.is_done) for one in pruned] == [(2, False), (1, True)]
    assert [one.body for one in connection.browse(ARCHIVE)] == [b"0", b"1", b"2"]
    connection.close()


def test_messages_are_browsed_in_their_order_page_by_page(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connector.stores.sql.store._PAGE", 2)
    connection = SqlProvider(Settings(url)).connect("suite", "one")
    sent = [(priority, number) for number, priority in enumerate([4, 9, 4, 4, 0, 9, 4, 4, 0, 0, 2])]
    connection.send(ORDERS, [Message(b"%d" % number, priority=priority) for priority, number in sent])
    in_order = sorted(sent, key=lambda one: (-one[0], one[1]))
    assert [int(one.body) for one in connection.browse(ORDERS)] == [number for _, number in in_order]
    connection.close()
