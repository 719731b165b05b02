"""A table that somebody alters while the adapter runs: nothing is stored by the columns of before."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any, Final

import pytest
from sqlalchemy import Connection, text

from connector.businessobjects.definition import Attribute, Definition, Definitions
from connector.businessobjects.instance import BusinessObject
from connector.databases.settings import EventKey
from connector.errors import ObjectRefused
from connector.messaging.message import Message
from connector.sinks.contract import Event
from connector.sinks.table.mapping import TableMapping
from connector.sinks.table.rows import TableRows
from connector.sinks.table.sink import TableSink, TableSpec
from connector.sinks.transactional import TransactionalCalls
from tests.databases.conftest import Shop
from tests.tables import rows

ATTRIBUTES: Final = {
    "Id": Attribute("Id", "Integer", is_key=True),
    "A": Attribute("A", "String"),
    "N": Attribute("N", "Decimal"),
    "Part": Attribute("Part", "Part", cardinality="n"),
}
KNOWN: Final = Definitions(
    {
        "O": Definition("O", attributes=ATTRIBUTES),
        "Part": Definition("Part", attributes={"Size": Attribute("Size", "Decimal")}),
    }
)
TABLES: Final = (
    "DROP TABLE IF EXISTS o",
    "DROP TABLE IF EXISTS part",
    "CREATE TABLE o (id INTEGER PRIMARY KEY, a VARCHAR(3), n NUMERIC(10, 3))",
    "CREATE TABLE part (of INTEGER, size NUMERIC(10, 3))",
)
MAPPING: Final = TableMapping("o", children=(("Part", TableMapping("part", key=(("of", "Id"),))),))
EVENTS: Final = itertools.count()
FULL: Final = {"A": "abc", "N": "1.239", "Part": [{"Size": "1.239"}]}


class Adapter:
    """A worker that lives on while the tables change."""

    def __init__(self, shop: Shop) -> None:
        sink = TableSink(TableSpec("shop", "O", MAPPING, operation="insert"), KNOWN)
        self._calls = TransactionalCalls(sink, shop.database, "demo", "o")
        self._shop = shop
        self._number = 0

    def deliver(self, **values: Any) -> str:
        """Delivers an object. Returns the reason of a refusal, empty = the row is there."""
        self._number += 1
        bo = BusinessObject(KNOWN, "O", "Create", {"Id": self._number, **values})
        self._calls.begin(EventKey(f"{next(EVENTS)}", "ID:1", "client", 1), lambda: None)
        try:
            self._calls.deliver(bo, Event("ID:1", "queue://in", 1, Message()))
        except ObjectRefused as refused:
            reason = str(refused)
        else:
            reason = ""
        found = self._shop.execute(f"SELECT count(*) FROM o WHERE id = {self._number}")
        assert found == [(0 if reason else 1,)], "nothing of a refused object is there"
        return reason


@rows(
    "alter, refused, repair",
    [
        (
            "ALTER TABLE o ALTER n TYPE numeric(10,2)",
            "N: found the number 1.239 with 3 places",
            "ALTER TABLE o ALTER n TYPE numeric",
        ),
        (
            "ALTER TABLE part ALTER size TYPE numeric(10,2)",
            "O.Part[0]: Size: found the number 1.239",
            "ALTER TABLE part ALTER size TYPE text",
        ),
        (
            "ALTER TABLE o ALTER a TYPE varchar(2) USING left(a, 2)",
            "A: found a text of 3 characters",
            "ALTER TABLE o ALTER a TYPE text",
        ),
        (
            "ALTER TABLE o ALTER a TYPE integer USING 1",
            "O.A is String, but the column a of o is integer",
            "ALTER TABLE o ALTER a TYPE char(3)",
        ),
        (
            "ALTER TABLE o ADD m text NOT NULL DEFAULT ''; ALTER TABLE o ALTER m DROP DEFAULT",
            "the column m of o needs a value",
            "ALTER TABLE o ALTER m SET DEFAULT ''",
        ),
        (
            "ALTER TABLE o ALTER n TYPE real",
            "O.N is Decimal, but the column n of o is real",
            "ALTER TABLE o ALTER n TYPE numeric",
        ),
        (
            "CREATE DOMAIN d AS varchar(2); ALTER TABLE o ALTER a TYPE d USING left(a, 2)",
            "for the column a of o (d (character varying(2)))",
            "ALTER TABLE o ALTER a TYPE varchar(4)",
        ),
        (
            "ALTER TABLE o RENAME a TO b",
            "the table o has no column 'A' for O.A; it has id, b, n",
            "ALTER TABLE o RENAME b TO a",
        ),
        (
            "ALTER TABLE o DROP n",
            "the table o has no column 'N' for O.N",
            "ALTER TABLE o ADD n numeric(10,3)",
        ),
        ("DROP TABLE part", "there is no table part", "CREATE TABLE part (size text, of integer)"),
    ],
)
def test_an_altered_table_is_compared_anew(database: str, alter: str, refused: str, repair: str) -> None:
    _alter(Shop(database), alter, refused, repair)


@rows(
    "alter, refused, repair",
    [
        (
            "ALTER TABLE o RENAME a TO b",
            "the table o has no column 'A' for O.A; it has id, b, n",
            "ALTER TABLE o RENAME b TO a",
        ),
        (
            "ALTER TABLE o DROP n",
            "the table o has no column 'N' for O.N",
            "ALTER TABLE o ADD n NUMERIC(10,3)",
        ),
        ("DROP TABLE part", "there is no table part", "CREATE TABLE part (size TEXT, of INTEGER)"),
        (
            "ALTER TABLE o DROP n; ALTER TABLE o ADD n REAL",
            "O.N is Decimal, but the column n of o is REAL",
            "ALTER TABLE o DROP n; ALTER TABLE o ADD n TEXT",
        ),
        (
            "ALTER TABLE part DROP size; ALTER TABLE part ADD size NUMERIC(9,2)",
            "O.Part[0]: Size: found the number 1.239",
            "ALTER TABLE part DROP size; ALTER TABLE part ADD size TEXT",
        ),
    ],
)
def test_an_altered_table_of_sqlite_is_compared_anew(
    tmp_path: Any, alter: str, refused: str, repair: str
) -> None:
    _alter(Shop(f"sqlite:///{tmp_path}/shop.db"), alter, refused, repair)


def _alter(shop: Shop, alter: str, refused: str, repair: str) -> None:
    with contextlib.closing(shop.database):
        shop.execute(*TABLES, *(() if "sqlite" in shop.settings.url else ("DROP DOMAIN IF EXISTS d",)))
        adapter = Adapter(shop)
        assert adapter.deliver(**FULL) == ""
        shop.execute(*alter.split("; "))
        for _ in range(2):
            assert refused in adapter.deliver(**FULL)
        shop.execute(*repair.split("; "))
        assert adapter.deliver(**FULL) == ""


def test_a_column_that_holds_more_now_takes_more_at_once(shop: Shop) -> None:
    shop.execute(*TABLES)
    adapter = Adapter(shop)
    assert adapter.deliver(N="1.239") == ""
    if "sqlite" in shop.settings.url:
        shop.execute("ALTER TABLE o DROP n", "ALTER TABLE o ADD n NUMERIC(10, 4)")
    else:
        shop.execute("ALTER TABLE o ALTER n TYPE numeric(10, 4)")
    assert adapter.deliver(N="1.2345") == ""


def test_a_table_that_is_altered_between_the_comparison_and_the_row_is_compared_anew(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who alters the table waits for events, and events wait for who alters the table."""
    shop = Shop(database)
    shop.execute(*TABLES)
    adapter, write = Adapter(shop), TableRows.write
    alter: Iterator[str] = iter(["ALTER TABLE o ALTER n TYPE numeric(10, 2)"])

    def alter_and_write(rows: TableRows, connection: Connection, *arguments: Any) -> None:
        shop.execute(*([one] if (one := next(alter, None)) else []))
        write(rows, connection, *arguments)

    monkeypatch.setattr(TableRows, "write", alter_and_write)
    assert "N: found the number 1.239 with 3 places" in adapter.deliver(N="1.239")
    assert adapter.deliver(N="1.23") == ""
    shop.database.close()


def test_a_failure_that_is_not_about_columns_is_the_events_own(shop: Shop) -> None:
    shop.execute(*TABLES)
    adapter = Adapter(shop)
    assert adapter.deliver(A="a") == ""
    with shop.database.connect() as connection:
        connection.execute(text("INSERT INTO o (id) VALUES (2)"))
        connection.commit()
    with pytest.raises(AssertionError):  # the row of somebody else is there
        adapter.deliver(A="b")
    assert adapter.deliver(A="c") == ""
