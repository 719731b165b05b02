"""A table that somebody alters while the adapter runs: nothing is stored by the columns of before."""

from __future__ import annotations

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
from tests.tables import Table

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
PART_OF_TEXT: Final = "part DROP size; part ADD size TEXT"


class Adapter:
    """A worker that lives on while the tables change."""

    def __init__(self, shop: Shop) -> None:
        sink = TableSink(TableSpec("shop", "O", MAPPING, operation="insert"), KNOWN)
        self._calls = TransactionalCalls(sink.deliver, shop.database, "demo", "o")
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


ALTERED: Final = (
    ("o RENAME a TO b", "the table o has no column 'A' for O.A; it has id, b, n", "o RENAME b TO a"),
    ("o DROP n", "the table o has no column 'N' for O.N", "o ADD n NUMERIC(10,3)"),
    ("DROP TABLE part", "there is no table part", "CREATE TABLE part (size TEXT, of INTEGER)"),
    ("o DROP n; o ADD n REAL", "O.N is Decimal, but the column n of o is ", "o DROP n; o ADD n NUMERIC"),
    ("part DROP size; part ADD size NUMERIC(9,2)", "O.Part[0]: Size: found the number 1.239", PART_OF_TEXT),
)
ALTERED_IN_PLACE: Final = (
    ("o ALTER n TYPE numeric(10,2)", "N: found the number 1.239 with 3 places", "o ALTER n TYPE numeric"),
    ("part ALTER size TYPE numeric(10,2)", "O.Part[0]: Size: found the number 1.239", PART_OF_TEXT),
    ("o ALTER a TYPE varchar(2) USING left(a, 2)", "A: found a text of 3 characters", "o ALTER a TYPE text"),
    ("o ALTER a TYPE integer USING 1", "O.A is String, but the column a of o is ", "o ALTER a TYPE char(3)"),
    ("o ADD m text NOT NULL DEFAULT ''; o ALTER m DROP DEFAULT", "column m of o needs a value", "o DROP m"),
    ("o ALTER n TYPE real", "O.N is Decimal, but the column n of o is real", "o ALTER n TYPE numeric"),
    ("o ALTER a TYPE d USING left(a, 2)", "o (d (character varying(2)))", "o ALTER a TYPE varchar(4)"),
)
"""What PostgreSQL can do besides."""


def alter(shop: Shop, statements: str) -> None:
    for one in statements.split("; "):
        shop.execute(one if " TABLE " in one else f"ALTER TABLE {one}")


def test_an_altered_table_is_compared_anew(shop: Shop) -> None:
    is_sqlite = "sqlite" in shop.settings.url
    if not is_sqlite:
        shop.execute("CREATE DOMAIN d AS varchar(2)")
    with Table() as table:
        for change, refused, repair in (*ALTERED, *(() if is_sqlite else ALTERED_IN_PLACE)):
            with table.row(change):
                shop.execute(*TABLES)
                adapter = Adapter(shop)
                assert adapter.deliver(**FULL) == ""
                alter(shop, change)
                for _ in range(2):
                    assert refused in adapter.deliver(**FULL)
                alter(shop, repair)
                assert adapter.deliver(**FULL) == ""


def test_a_column_that_holds_more_now_takes_more_at_once(shop: Shop) -> None:
    shop.execute(*TABLES)
    adapter = Adapter(shop)
    assert adapter.deliver(N="1.239") == ""
    wider = "DROP n; o ADD n NUMERIC(10,4)" if "sqlite" in shop.settings.url else "ALTER n TYPE numeric(10,4)"
    alter(shop, f"o {wider}")
    assert adapter.deliver(N="1.2345") == ""


def test_a_table_that_is_altered_between_the_comparison_and_the_row_is_compared_anew(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who alters the table waits for events, and events wait for who alters the table."""
    shop = Shop(database)
    shop.execute(*TABLES)
    adapter, write = Adapter(shop), TableRows.write
    changes: Iterator[str] = iter(["ALTER TABLE o ALTER n TYPE numeric(10, 2)"])

    def alter_and_write(rows: TableRows, connection: Connection, *arguments: Any) -> None:
        shop.execute(*([one] if (one := next(changes, None)) else []))
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
