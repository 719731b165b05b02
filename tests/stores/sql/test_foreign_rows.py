"""Rows that another program has written: whatever they hold, at worst that message fails."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, create_engine

from connector.errors import MalformedData
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.retention import Retention
from connector.messaging.settlement import Settlement
from connector.stores.engine.connection import LocalConnection
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider

ORDERS, ERROR = parse_destination("orders"), parse_destination("error")
IN_PROGRESS = parse_destination("in-progress")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "postgresql":
        found: str = request.getfixturevalue("database")
        return found
    return f"sqlite:///{request.getfixturevalue('root')}/messages.db"


@pytest.fixture
def sqlite(root: Any) -> str:
    return f"sqlite:///{root}/messages.db"


def connect(url: str, instance: str = "one") -> LocalConnection:
    return SqlProvider(Settings(url)).connect("suite", instance)


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = create_engine(url)
    yield engine
    engine.dispose()


def insert(engine: Engine, message: dict[str, str], reference: dict[str, str] | None = None) -> None:
    """Inserts a message as another program does. The values are SQL."""
    message = {"body": "CAST('bad' AS BLOB)", **message}
    if engine.dialect.name == "postgresql":
        message["body"] = message["body"].replace("CAST('bad' AS BLOB)", "convert_to('bad', 'UTF8')")
    reference = {"channel": "'queue://orders'", "priority": "9", **(reference or {})}
    with engine.begin() as connection:
        columns, values = ", ".join(message), ", ".join(message.values())
        made = f"INSERT INTO message ({columns}) VALUES ({values}) RETURNING id"
        number = connection.exec_driver_sql(made.replace("%", "%%")).scalar_one()
        columns, values = ", ".join(reference), ", ".join(reference.values())
        sent = f"INSERT INTO message_reference (message, {columns}) VALUES ({number}, {values})"
        connection.exec_driver_sql(sent.replace("%", "%%"))


# Values of columns, as SQL. All databases take these.
BAD = {
    "headers are a list": ({"headers": "'[]'"}, None, "the column headers is []"),
    "headers are a number": ({"headers": "'5'"}, None, "the column headers"),
    "headers are null": ({"headers": "'null'"}, None, "the column headers is None"),
    "headers with half a surrogate": (
        {"headers": r"""'{"JMSType": "\ud800"}'"""},
        None,
        "the column headers is no JSON",
    ),
    "a class that is none": ({"headers": """'{"MessageClass": "X"}'"""}, None, "the header MessageClass is"),
    "a class that is a list": ({"headers": """'{"MessageClass": ["T"]}'"""}, None, "the header MessageClass"),
    "an id that is a number": (
        {"headers": """'{"JMSMessageID": 7}'"""},
        None,
        "the header JMSMessageID is 7",
    ),
    "a time that is a text": ({"headers": """'{"JMSTimestamp": "now"}'"""}, None, "the header JMSTimestamp"),
    "a time that is a fraction": (
        {"headers": """'{"JMSTimestamp": 1.5}'"""},
        None,
        "the header JMSTimestamp",
    ),
    "a time without end": ({"headers": """'{"JMSTimestamp": 1e400}'"""}, None, "header"),
    "a type that is an object": ({"headers": """'{"JMSType": {}}'"""}, None, "the header JMSType"),
    "a correlation that is true": ({"headers": """'{"JMSCorrelationID": true}'"""}, None, "JMSCorrelationID"),
    "a reply that is a number": ({"headers": """'{"JMSReplyTo": 1}'"""}, None, "the header JMSReplyTo"),
    "a mode that is none": ({"headers": """'{"JMSDeliveryMode": 3}'"""}, None, "the header JMSDeliveryMode"),
    "properties are a list": ({"properties": "'[1]'"}, None, "the column properties is [1]"),
    "properties are a text": ({"properties": """'"x"'"""}, None, "the column properties is 'x'"),
    "a property is an object": ({"properties": """'{"a": {"b": 1}}'"""}, None, "the property 'a'"),
    "a property is a list": ({"properties": """'{"a": []}'"""}, None, "the property 'a'"),
    "a property is null": ({"properties": """'{"a": null}'"""}, None, "the property 'a'"),
    "a property is beyond a long": ({"properties": """'{"a": 9223372036854775808}'"""}, None, "the property"),
    "types are a list": ({"property_types": "'[]'"}, None, "the column property_types is []"),
    "a type is none": (
        {"properties": """'{"a": 1}'""", "property_types": """'{"a": "bigint"}'"""},
        None,
        "the property 'a'",
    ),
    "a type is a number": (
        {"properties": """'{"a": 1}'""", "property_types": """'{"a": 5}'"""},
        None,
        "the property 'a'",
    ),
    "a type that does not fit": (
        {"properties": """'{"a": "xyz"}'""", "property_types": """'{"a": "int"}'"""},
        None,
        "the property 'a'",
    ),
    "a double that is none": (
        {"properties": """'{"a": "xyz"}'""", "property_types": """'{"a": "double"}'"""},
        None,
        "the property 'a'",
    ),
    "a double that is a list": (
        {"properties": """'{"a": []}'""", "property_types": """'{"a": "double"}'"""},
        None,
        "the property 'a'",
    ),
    "the changes are a list": ({}, {"properties": "'[]'"}, "the column properties is []"),
    "a change is an object": ({}, {"properties": """'{"a": {}}'"""}, "the property 'a'"),
    "deliveries below zero": ({}, {"delivery_count": "-5"}, ""),
}
# SQLite keeps any value in any column.
if sqlite3.sqlite_version_info >= (3, 42):  # which knows JSON5
    NO_JSON = {"single quotes": "{'a': 1}", "no quotes": "{a: 1}", "no number": '{"a": NaN}'}
else:
    NO_JSON = {}
BAD_IN_SQLITE = {
    **{
        f"properties with {what}": (
            {"properties": "'" + text.replace("'", "''") + "'"},
            None,
            "the column properties is no JSON",
        )
        for what, text in NO_JSON.items()
    },
    "headers are no JSON": ({"headers": "'{broken'"}, None, "the column headers is no JSON"),
    "headers are empty": ({"headers": "''"}, None, "the column headers is no JSON"),
    "headers are bytes": ({"headers": "x'fffe'"}, None, "the column headers is no JSON"),
    "headers are no UTF-8": ({"headers": "CAST(x'ff7b7d' AS TEXT)"}, None, "the column headers is no JSON"),
    "properties are broken": ({"properties": "'{broken'"}, None, "the column properties is no JSON"),
    "properties are empty": ({"properties": "''"}, None, "the column properties is no JSON"),
    "properties are bytes": ({"properties": "x'fffe'"}, None, "the column properties is no JSON"),
    "types are no JSON": ({"property_types": "'{'"}, None, "the column property_types is no JSON"),
    "a body that is a number": ({"body": "5"}, None, "the column body is 5"),
    "a priority that is a text": ({}, {"priority": "'high'"}, "the column priority is 'high'"),
    "a priority that is a fraction": ({}, {"priority": "9.5"}, "the column priority is 9.5"),
    "a priority of 64 bits": ({}, {"priority": "4294967296"}, "the column priority is 4294967296"),
    "a priority that is bytes": ({}, {"priority": "x'00'"}, "the column priority"),
    "an expiration that is a text": ({}, {"expiration": "'never'"}, "the column expiration is 'never'"),
    "an expiration that is a fraction": ({}, {"expiration": "1.5"}, "the column expiration"),
    "deliveries that are a text": ({}, {"delivery_count": "'often'"}, "the column delivery_count is 'often'"),
    "deliveries without end": ({}, {"delivery_count": "4294967296"}, "the column delivery_count"),
    "changes that are no JSON": ({}, {"properties": "'{'"}, "the column properties is no JSON"),
    "changes that are no UTF-8": ({}, {"properties": "CAST(x'ff' AS TEXT)"}, "the column properties"),
}


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


@pytest.mark.parametrize("case", BAD)
def test_only_a_message_that_another_program_has_written_badly_fails(
    url: str, engine: Engine, case: str
) -> None:
    connection = connect(url)
    insert(engine, *BAD[case][:2])
    check_that_only_this_message_fails(connection, BAD[case][2])
    connection.close()


@pytest.mark.parametrize("case", BAD_IN_SQLITE)
def test_sqlite_keeps_any_value_and_only_its_message_fails(sqlite: str, case: str) -> None:
    connection = connect(sqlite)
    engine = create_engine(sqlite)
    insert(engine, *BAD_IN_SQLITE[case][:2])
    check_that_only_this_message_fails(connection, BAD_IN_SQLITE[case][2])
    connection.close()
    engine.dispose()


@pytest.mark.parametrize("selector", ["JMSType = 'T'", "region = 'EU'", "JMSPriority > 5 OR region IS NULL"])
def test_a_selector_is_evaluated_beside_bad_messages(sqlite: str, selector: str) -> None:
    connection = connect(sqlite)
    engine = create_engine(sqlite)
    for message, reference, _ in (*BAD.values(), *BAD_IN_SQLITE.values()):
        insert(engine, message, reference)
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
    engine.dispose()


def test_the_database_leaves_messages_with_half_a_surrogate_to_the_engine(url: str, engine: Engine) -> None:
    connection = connect(url)
    insert(engine, {"headers": r"""'{"JMSType": "\ud800"}'"""})
    connection.send(ORDERS, [Message(b"good", type="T")])
    claims = connection.poller(ORDERS, selector="JMSType = 'T'").claim(1, range(9))
    assert [claim.headers().type for claim in claims] == ["T"]
    connection.close()


@pytest.mark.parametrize("body", ["'bad'", "CAST(x'626164' AS TEXT)", "'snow ☃'", "CAST(x'ff' AS TEXT)"])
def test_a_body_that_is_a_text_counts_as_its_bytes(sqlite: str, body: str) -> None:
    connection = connect(sqlite)
    engine = create_engine(sqlite)
    insert(engine, {"body": body})
    expected = {"CAST(x'ff' AS TEXT)": b"\xff", "'snow ☃'": "snow ☃".encode()}.get(body, b"bad")
    poller = connection.poller(ORDERS)
    assert [message.body for message in connection.browse(ORDERS)] == [expected]
    (claim,) = poller.claim(1, range(9))
    assert connection.access().open().load(claim.reference, 1000).body == expected
    connection.close()
    engine.dispose()


def test_bad_messages_are_taken_over_and_put_in_progress(sqlite: str) -> None:
    first, second = connect(sqlite), connect(sqlite, "two")
    engine = create_engine(sqlite)
    for message, reference, _ in (*BAD.values(), *BAD_IN_SQLITE.values()):
        insert(engine, message, reference)
    number = len(BAD) + len(BAD_IN_SQLITE)
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
    engine.dispose()


def test_a_reference_without_its_message_holds_up_nothing(url: str, engine: Engine) -> None:
    connection = connect(url)
    for _ in range(3):
        insert(engine, {})
    with engine.begin() as other:
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


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    headers=_cells,
    types=_cells,
    body=_cells,
    priority=_cells,
    expiration=_cells,
    deliveries=_cells,
    patch=_cells,
    properties=st.dictionaries(st.text(), _values, max_size=4).map(json.dumps),
)
def test_any_row_of_sqlite_is_claimed_or_refused_by_the_database(sqlite: str, **cells: Any) -> None:
    connection = connect(sqlite)
    engine = create_engine(sqlite)
    with engine.connect() as other:
        driver = other.connection.driver_connection
        assert driver is not None
        try:
            given_ = [cells[name] for name in ("headers", "types", "body", "properties")]
            number = driver.execute(
                "INSERT INTO message (headers, property_types, body, properties) VALUES (?, ?, ?, ?)", given_
            ).lastrowid
            given_ = [cells[name] for name in ("priority", "expiration", "deliveries", "patch")]
            driver.execute(
                "INSERT INTO message_reference (message, channel, priority, expiration, delivery_count, "
                "properties) VALUES (?, 'queue://orders', ?, ?, ?, ?)",
                [number, *given_],
            )
            driver.commit()
        except Exception:  # NOT NULL, or properties that are no JSON
            driver.rollback()
    engine.dispose()
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
