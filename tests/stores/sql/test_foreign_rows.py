"""Rows that another program has written: whatever they hold, at worst that message fails."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connector.errors import MalformedData
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message, PropertyValue
from connector.messaging.retention import Retention
from connector.messaging.settlement import Settlement
from connector.stores.engine.connection import LocalConnection
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from tests.stores.sql.conftest import EmptiedDatabase, program
from tests.tables import Table, rows

ORDERS, ERROR = parse_destination("orders"), parse_destination("error")
IN_PROGRESS = parse_destination("in-progress")


@pytest.fixture
def sqlite(root: Path) -> str:
    return f"sqlite:///{root}/messages.db"


@pytest.fixture
def provider(sqlite: str) -> SqlProvider:
    return SqlProvider(Settings(sqlite))


def connect(url: str, instance: str = "one") -> LocalConnection:
    return SqlProvider(Settings(url)).connect("suite", instance)


def insert_all(url: str) -> int:
    """Inserts each of the bad messages into SQLite. Returns their number."""
    for _, columns in (*BAD, *BAD_IN_SQLITE):
        insert(url, **columns)
    return len(BAD) + len(BAD_IN_SQLITE)


def insert(url: str, **columns: str) -> None:
    """Inserts a message as another program does. Values are SQL. ``r_`` = of the reference."""
    message = {"body": "CAST('bad' AS BLOB)", **columns}
    if url.startswith("postgresql"):
        message["body"] = message["body"].replace("CAST('bad' AS BLOB)", "convert_to('bad', 'UTF8')")
    reference = {"channel": "'queue://orders'", "priority": "9"}
    for name in [name for name in message if name.startswith("r_")]:
        reference[name.removeprefix("r_")] = message.pop(name)
    with program(url) as connection:
        names, values = ", ".join(message), ", ".join(message.values())
        made = f"INSERT INTO message ({names}) VALUES ({values}) RETURNING id"
        number = connection.exec_driver_sql(made.replace("%", "%%")).scalar_one()
        names, values = ", ".join(reference), ", ".join(reference.values())
        sent = f"INSERT INTO message_reference (message, {names}) VALUES ({number}, {values})"
        connection.exec_driver_sql(sent.replace("%", "%%"))


def bad(reason: str, **columns: str) -> tuple[str, dict[str, str]]:
    """Returns the columns of a bad message, and the reason of its failure. Empty = it can be read."""
    return reason, columns


# All databases take these.
BAD = [
    bad("the column headers is []", headers="'[]'"),
    bad("the column headers", headers="'5'"),
    bad("the column headers is None", headers="'null'"),
    bad("the column headers is no JSON", headers=r"""'{"JMSType": "\ud800"}'"""),
    bad("the header MessageClass is", headers="""'{"MessageClass": "X"}'"""),
    bad("the header MessageClass", headers="""'{"MessageClass": ["T"]}'"""),
    bad("the header JMSMessageID is 7", headers="""'{"JMSMessageID": 7}'"""),
    bad("the header JMSTimestamp", headers="""'{"JMSTimestamp": "now"}'"""),
    bad("the header JMSTimestamp", headers="""'{"JMSTimestamp": 1.5}'"""),
    bad("header", headers="""'{"JMSTimestamp": 1e400}'"""),
    bad("the header JMSType", headers="""'{"JMSType": {}}'"""),
    bad("JMSCorrelationID", headers="""'{"JMSCorrelationID": true}'"""),
    bad("the header JMSReplyTo", headers="""'{"JMSReplyTo": 1}'"""),
    bad("the header JMSDeliveryMode", headers="""'{"JMSDeliveryMode": 3}'"""),
    bad("the column properties is [1]", properties="'[1]'"),
    bad("the column properties is 'x'", properties="""'"x"'"""),
    bad("the property 'a'", properties="""'{"a": {"b": 1}}'"""),
    bad("the property 'a'", properties="""'{"a": []}'"""),
    bad("the property 'a'", properties="""'{"a": null}'"""),
    bad("the property", properties="""'{"a": 9223372036854775808}'"""),
    bad("the column property_types is []", property_types="'[]'"),
    bad("the property 'a'", properties="""'{"a": 1}'""", property_types="""'{"a": "bigint"}'"""),
    bad("the property 'a'", properties="""'{"a": 1}'""", property_types="""'{"a": 5}'"""),
    bad("the property 'a'", properties="""'{"a": "xyz"}'""", property_types="""'{"a": "int"}'"""),
    bad("the property 'a'", properties="""'{"a": "xyz"}'""", property_types="""'{"a": "double"}'"""),
    bad("the property 'a'", properties="""'{"a": []}'""", property_types="""'{"a": "double"}'"""),
    bad("the column properties is []", r_properties="'[]'"),
    bad("the property 'a'", r_properties="""'{"a": {}}'"""),
    bad("", r_delivery_count="-5"),
]
# SQLite keeps any value in any column.
BAD_IN_SQLITE = [
    bad("the column headers is no JSON", headers="'{broken'"),
    bad("the column headers is no JSON", headers="''"),
    bad("the column headers is no JSON", headers="x'fffe'"),
    bad("the column headers is no JSON", headers="CAST(x'ff7b7d' AS TEXT)"),
    bad("the column properties is no JSON", properties="'{broken'"),
    bad("the column properties is no JSON", properties="''"),
    bad("the column properties is no JSON", properties="x'fffe'"),
    bad("the column property_types is no JSON", property_types="'{'"),
    bad("the column body is 5", body="5"),
    bad("the column priority is 'high'", r_priority="'high'"),
    bad("the column priority is 9.5", r_priority="9.5"),
    bad("the column priority is 4294967296", r_priority="4294967296"),
    bad("the column priority", r_priority="x'00'"),
    bad("the column expiration is 'never'", r_expiration="'never'"),
    bad("the column expiration", r_expiration="1.5"),
    bad("the column delivery_count is 'often'", r_delivery_count="'often'"),
    bad("the column delivery_count", r_delivery_count="4294967296"),
    bad("the column properties is no JSON", r_properties="'{'"),
    bad("the column properties", r_properties="CAST(x'ff' AS TEXT)"),
]
if sqlite3.sqlite_version_info >= (3, 42):  # which knows JSON5
    for json5 in ("{''a'': 1}", "{a: 1}", '{"a": NaN}'):
        BAD_IN_SQLITE.append(bad("the column properties is no JSON", properties=f"'{json5}'"))


def reasons_of(connection: LocalConnection, destination: Destination) -> list[str]:
    reasons: list[str] = []
    list(connection.browse(destination, lambda message, reason: reasons.append(reason)))
    return reasons


def check_that_only_this_message_fails(connection: LocalConnection, reason: str) -> None:
    connection.send(ORDERS, [Message(b"good")])
    reasons = reasons_of(connection, ORDERS)
    assert len(reasons) == (1 if reason else 0)
    assert all(reason in found for found in reasons)
    access = connection.access().open()
    poller = connection.poller(ORDERS)
    claims = poller.claim(1, range(9))
    assert len(claims) == 2
    bodies = []
    for claim in claims:
        assert claim.message_id
        assert claim.headers().properties is not None
        try:
            bodies.append(access.load(claim.reference, 1000).body)
        except MalformedData as error:
            bodies.append(b"malformed" if reason and reason in str(error) else str(error).encode())
    assert sorted(bodies) == sorted([b"malformed" if reason else b"bad", b"good"])
    connection.settle([Settlement(claim, give_back=True, delivery_count=1) for claim in claims])
    again = poller.claim(2, range(9))
    assert len(again) == 2
    properties = {"connector_reason": "a reason", "connector_outcome": "failed"}
    connection.settle([Settlement(claim, copy_to=ERROR, properties=properties) for claim in again])
    assert connection.poller(ORDERS).claim(3, range(9)) == []
    assert len(reasons_of(connection, ERROR)) <= len(reasons)  # a settlement writes the changes anew
    connection.prune([Retention(ERROR, 1000.0)])


def test_only_a_message_that_another_program_has_written_badly_fails(url: str) -> None:
    """SQLite keeps any value in any column, so it has more of such messages."""
    cases = [*BAD, *(BAD_IN_SQLITE if "sqlite" in url else ())]
    provider = SqlProvider(Settings(url))
    provider.connect().close()
    database = EmptiedDatabase(url)
    with Table() as table:
        for reason, columns in cases:
            with table.row(columns):
                database.empty()
                connection = provider.connect("suite", "one")
                insert(url, **columns)
                check_that_only_this_message_fails(connection, reason)
                connection.close()
    database.close()


@rows("selector", ["JMSType = 'T'", "region = 'EU'", "JMSPriority > 5 OR region IS NULL"])
def test_a_selector_is_evaluated_beside_bad_messages(root: Path, selector: str) -> None:
    url = f"sqlite:///{root}/messages.db"
    connection = connect(url)
    insert_all(url)
    sent = Message(b"good", type="T", priority=9)
    sent.set_property("region", "EU")
    connection.send(ORDERS, [sent])
    poller = connection.poller(ORDERS, selector=selector)
    assert poller.has_news()
    claims = poller.claim(1, range(99))
    assert [one for one in claims if one.headers().type == "T"]
    connection.settle([Settlement(claim) for claim in claims])
    assert not poller.claim(2, range(99))
    connection.close()


def test_the_database_leaves_messages_with_half_a_surrogate_to_the_engine(url: str) -> None:
    connection = connect(url)
    insert(url, headers=r"""'{"JMSType": "\ud800"}'""")
    connection.send(ORDERS, [Message(b"good", type="T")])
    claims = connection.poller(ORDERS, selector="JMSType = 'T'").claim(1, range(9))
    assert [claim.headers().type for claim in claims] == ["T"]
    connection.close()


def test_a_body_that_is_a_text_counts_as_its_bytes(sqlite: str) -> None:
    connection = connect(sqlite)
    bodies = {
        "'bad'": b"bad",
        "CAST(x'626164' AS TEXT)": b"bad",
        "'snow ☃'": "snow ☃".encode(),
        "CAST(x'ff' AS TEXT)": b"\xff",
    }
    for body in bodies:
        insert(sqlite, body=body)
    expected = [*bodies.values()]
    poller = connection.poller(ORDERS)
    assert [message.body for message in connection.browse(ORDERS)] == expected
    load = connection.access().open().load
    claims = poller.claim(1, range(9))
    assert [load(claim.reference, 1000).body for claim in claims] == expected
    connection.close()


def test_bad_messages_are_taken_over_and_put_in_progress(sqlite: str) -> None:
    first, second = connect(sqlite), connect(sqlite, "two")
    number = insert_all(sqlite)
    claims = first.poller(ORDERS, IN_PROGRESS).claim(1, range(99))
    assert len(claims) == number
    assert len(list(second.find_unowned(IN_PROGRESS))) == 0
    first.abandon()
    (leftover,) = second.leftovers(IN_PROGRESS, at_start=True)
    adopted = [second.adopt(claim, 2, place) for place, claim in enumerate(leftover.claims)]
    second.settle([Settlement(claim, give_back=True) for claim in adopted if claim is not None])
    leftover.forget()
    assert second.destinations()
    assert len(second.poller(ORDERS).claim(3, range(99))) == number
    second.close()


def test_a_reference_without_its_message_holds_up_nothing(url: str) -> None:
    connection = connect(url)
    for _ in range(3):
        insert(url)
    with program(url) as other:
        other.exec_driver_sql("DELETE FROM message")
    connection.send(ORDERS, [Message(b"good", priority=1)])
    poller = connection.poller(ORDERS)
    access = connection.access().open()
    taken = []
    for number in range(9):
        for claim in poller.claim(number + 1, range(1)):
            try:
                taken.append(access.load(claim.reference, 1000).body)
            except LookupError:
                connection.settle([Settlement(claim)])
    assert taken == [b"good"]
    assert not poller.has_news()
    connection.close()


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_names = st.sampled_from(
    ["MessageClass", "JMSMessageID", "JMSTimestamp", "JMSType", "JMSReplyTo", "JMSDeliveryMode", "x"]
)
_cells = st.one_of(
    st.none(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(),
    st.binary(max_size=20),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
    st.dictionaries(_names | st.text(), _values, max_size=4).map(json.dumps),
)
_properties = st.dictionaries(st.text(), _values, max_size=4).map(json.dumps)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    of_message=st.tuples(_cells, _cells, _cells, _properties),
    of_reference=st.tuples(_cells, _cells, _cells, _cells),
)
def test_any_row_of_sqlite_is_claimed_or_refused_by_the_database(
    provider: SqlProvider, sqlite: str, of_message: tuple[object, ...], of_reference: tuple[object, ...]
) -> None:
    connection = provider.connect("suite", "one")
    with program(sqlite) as other:
        driver = other.connection.driver_connection
        assert driver is not None
        try:
            columns = "headers, property_types, body, properties"
            inserted = driver.execute(f"INSERT INTO message ({columns}) VALUES (?, ?, ?, ?)", of_message)
            columns = "message, channel, priority, expiration, delivery_count, properties"
            driver.execute(
                f"INSERT INTO message_reference ({columns}) VALUES (?, 'queue://orders', ?, ?, ?, ?)",
                (inserted.lastrowid, *of_reference),
            )
            driver.commit()
        except Exception:  # NOT NULL, or properties that are no JSON
            driver.rollback()
    connection.send(ORDERS, [Message(b"good")])
    reasons_of(connection, ORDERS)
    poller = connection.poller(ORDERS)
    claims = poller.claim(1, range(99))
    access = connection.access().open()
    bodies = []
    for claim in claims:
        with contextlib.suppress(MalformedData):
            bodies.append(access.load(claim.reference, 1 << 20).body)
    assert b"good" in bodies
    connection.settle([Settlement(claim, copy_to=ERROR) for claim in claims])
    assert connection.poller(ORDERS).claim(2, range(99)) == []
    reasons_of(connection, ERROR)
    connection.settle([Settlement(claim) for claim in connection.poller(ERROR).claim(3, range(99))])
    connection.close()


OF_PROVIDERS = (
    '"JMSXUserID": "root", "JMSXAppID": "a", "JMSXProducerTXID": "1", "JMSXConsumerTXID": "1", '
    '"JMSXRcvTimestamp": 1, "JMSXState": 2, "JMSXDeliveryCount": 9, "JMSXOther": {"x": 1}'
)


def test_what_only_a_provider_sets_is_taken_from_no_row(url: str) -> None:
    connection = connect(url)
    connection.poller(ORDERS)  # makes the queue
    insert(url, properties=f"""'{{{OF_PROVIDERS}, "JMSXGroupID": "g"}}'""")
    (seen,) = connection.browse(ORDERS)
    assert connection.poller(ORDERS, selector="JMSXUserID = 'root'").claim(1, range(1)) == []
    (claim,) = connection.poller(ORDERS, selector="JMSXUserID IS NULL").claim(2, range(1))
    for one in (seen, claim.headers(), connection.access().open().load(claim.reference, 1000)):
        assert (one.properties, one.delivery_count) == ({"JMSXGroupID": "g"}, 1)
    reasons: dict[str, PropertyValue] = {"connector_reason": "late"}
    connection.settle([Settlement(claim, copy_to=ERROR, properties=reasons)])
    (copy,) = connection.browse(ERROR)
    assert copy.properties == {"JMSXGroupID": "g", **reasons}
    connection.close()
