"""Each type of column gets a value whole, or its event fails: with values that the type would change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import Connection, text

from connector.businessobjects.definition import Attribute, Definition, Definitions
from connector.businessobjects.instance import BusinessObject
from connector.databases.database import Database
from connector.databases.settings import DatabaseSettings
from connector.errors import ObjectRefused
from connector.sinks.table.mapping import TableMapping
from connector.sinks.table.rows import TableRows, WrongTable
from tests.databases.conftest import Shop
from tests.tables import Table, rows, texts

TEXTS: Final = (
    *("abc", "abc   ", "abc ", " abc", "a", "red", "", "x" * 70, "Grüße, Welt", "a\0b"),
    *("5", "05", "-1", "1.50", "1e3", "true", "t", "$1.23", "$1.239", "101", "1011", "\\x41"),
    *("10:00:00", "10:00:00.7", "10:00:00+02", "2024-05-31", "2024-05-31 08:00:00", "1 day", "P1D"),
    *("{a,b}", "{1.50}", "{1.239}", "{red}", "(1,2)", "( 1 , 2 )", "[1,5)", "[1,5]", "{[1,3),[4,6)}", "1 2"),
    *("10.0.0.1", "10.0.0.0/8", "08:00:2b:01:02:03", "08-00-2B-01-02-03", "pg_class", "0/16B3740", "(0,1)"),
    *("a1ee0b99-9c0b-4ef8-bb6d-6bb9bd380a11", "A1EE0B99-9C0B-4EF8-BB6D-6BB9BD380A11", "b & a", "$.a"),
    *("<a b='1'/>", '<?xml version="1.0" encoding="latin1"?><a/>', '{"b": 1, "a": 2, "a": 3}'),
)
NUMBERS: Final = (0, 1, -1, 7, 40000, 12345, 12300, 16777217, 2147483647, -2147483648)
FLOATS: Final = (
    *(0.0, 0.5, 0.1, 1.239, 1.5, 0.1234567890123456, 0.00123, 3.1415927),
    *(1e-45, 1e39, 1e300, 12345.0),
)
DECIMALS: Final = (
    *("0", "10.00", "1.23", "1.239", "0.00123", "12345", "12300", "1.005"),
    *("-99.90", "99999999.99", "123456789012345678.5", "1e30"),
)
DATES: Final = {
    "2024-05-31": ("2024-05-31 00:00:00",),
    "20240531": ("20240531", "2024-05-31", "2024-05-31 00:00:00"),
    "2024-05-31Z": ("2024-05-31 00:00:00+00",),
    "2024-05-31T08:00": ("2024-05-31 08:00:00",),
    "2024-05-31T08:00:00Z": ("2024-05-31 08:00:00+00",),
    "2024-02-29T10:00:00+02:00": ("2024-02-29 08:00:00+00",),
    "2024-05-31T10:00:00.7": ("2024-05-31 10:00:00.7",),
    "2024-05-31T10:00:00.123456789": (),
    "2024-05-31T10:00:00.123456-11:00": ("2024-05-31 21:00:00.123456+00",),
    "2024-12-31T24:00:00": ("2025-01-01 00:00:00",),
    "2024-05-31T08:00:60": (),
    "9999-12-31T23:59:59.999999-12:00": ("10000-01-01 11:59:59.999999+00",),
    "2024-05-31T08:00+23:00": ("2024-05-30 09:00:00+00",),
    "2024-05-31-14:00": ("2024-05-31 14:00:00+00",),
    "2024-12-31T24:00:00.00-05:00": ("2025-01-01 05:00:00+00",),
    "20231231T2400": ("2024-01-01 00:00:00",),
    "2024-05-31T08:00:00.1234560": ("2024-05-31 08:00:00.123456",),
}
"""What a column may make of a date: the same moment, with a zone if the date has one."""
WITH_ZONE: Final = """
    2024-05-31Z  2024-05-31T08:00:00Z  2024-02-29T10:00:00+02:00  2024-05-31T08:00+23:00
    2024-05-31-14:00  2024-12-31T24:00:00.00-05:00
"""
WITHOUT_ZONE: Final = "2024-05-31  20240531  2024-05-31T08:00  2024-12-31T24:00:00  20231231T2400"
DIGITS: Final = ("2024-05-31T10:00:00.7", "2024-05-31T08:00:00.1234560")
VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "String": TEXTS,
    "Boolean": (True, False),
    "Integer": NUMBERS,
    "Double": FLOATS,
    "Decimal": DECIMALS,
    "Date": tuple(DATES),
}


def known_with(attribute_type: str) -> Definitions:
    """An object with an attribute X of a type."""
    attributes = {"Id": Attribute("Id", "Integer"), "X": Attribute("X", attribute_type)}
    return Definitions({"O": Definition("O", attributes=attributes)})


class Columns:
    """Tables of one column, in a transaction that is never committed."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.is_postgresql = connection.dialect.name == "postgresql"

    @contextmanager
    def undone(self, name: str) -> Iterator[None]:
        self.connection.exec_driver_sql(f"SAVEPOINT {name}")
        try:
            yield
        finally:
            self.connection.exec_driver_sql(f"ROLLBACK TO SAVEPOINT {name}")

    def stored(self, kind: str) -> dict[tuple[str, Any], Any]:
        """Returns what a client reads of all values that a type takes, by attribute type and value."""
        found = {}
        with self.undone("kind"):
            self.connection.execute(text(f"CREATE TABLE t (id INTEGER, x {kind})"))
            for attribute_type, values in VALUES.items():
                known = known_with(attribute_type)
                try:
                    one = TableRows(self.connection, TableMapping("t"), known["O"], known)
                except WrongTable:
                    continue
                for value in values:
                    bo = BusinessObject(known, "O", "Create", {"Id": 1, "X": value})
                    try:
                        with self.undone("value"):
                            one.write(self.connection, bo, "insert", "error")
                            found[attribute_type, value] = self._read()
                    except ObjectRefused as refused:
                        reason = str(refused)
                        assert reason.startswith("O: X: found "), reason
                        assert "for the column x of t (" in reason
                        assert "\n" not in reason
        return found

    def _read(self) -> Any:
        shown = "x" if not self.is_postgresql else "CASE WHEN x IS NOT NULL THEN concat(x) END"
        return self.connection.execute(text(f"SELECT {shown} FROM t")).scalar()


def is_whole(kind: str, attribute_type: str, sent: Any, read: Any) -> bool:
    """Whether what was read is what was sent."""
    if sent == "" and read is None:
        return True
    if kind.lower() in ("json", "jsonb") and attribute_type in ("Double", "Decimal"):
        return bool(json.loads(str(read), parse_float=Decimal, parse_int=Decimal) == Decimal(str(sent)))
    if kind.lower() in ("json", "jsonb"):
        return bool(json.loads(str(read)) == sent)
    if kind in ("character", "char(5)", "bpchar", "padded"):
        read = read.rstrip(" ")  # which no cast to text has, and no comparison sees
    if attribute_type == "Boolean":
        return read in (("t", "true", 1) if sent else ("f", "false", 0))
    if attribute_type in ("Integer", "Double", "Decimal"):
        return Decimal(str(read).replace("$", "").replace(",", "")) == Decimal(str(sent))
    if attribute_type == "Date" and read != sent:
        return re.sub(r"(\.[0-9]*?)0*\Z", r"\1", read).rstrip(".") in DATES[sent]
    return bool(str(read) == sent)


def check(shop: Shop, kinds: Iterable[str], made: Iterable[str] = ()) -> dict[tuple[str, str], list[Any]]:
    """Writes all values into a column of each type. Returns what was stored, by type and attribute type."""
    taken: dict[tuple[str, str], list[Any]] = {}
    with Table() as table, shop.database.connect() as connection:
        columns = Columns(connection)
        for statement in made:
            connection.execute(text(statement))
        for kind in kinds:
            with table.row(kind):
                for (attribute_type, sent), read in columns.stored(kind).items():
                    taken.setdefault((kind, attribute_type), []).append(sent)
                    assert is_whole(kind, attribute_type, sent, read), (attribute_type, sent, read)
        connection.rollback()
    return taken


def assert_taken(
    taken: Mapping[tuple[str, str], list[Any]], expected: Iterable[tuple[str, str, list[Any]]]
) -> None:
    with Table() as table:
        for kind, attribute_type, values in expected:
            with table.row(kind, attribute_type):
                found = taken.get((kind, attribute_type), [])
                assert [one for one in (*found, *values) if (one in found) != (one in values)] == []


MADE: Final = (
    "SET LOCAL TimeZone = 'UTC'",
    "CREATE TYPE color AS ENUM ('red', 'blue')",
    "CREATE TYPE pair AS (a integer, b text)",
    "CREATE DOMAIN money2 AS numeric(10, 2)",
    "CREATE DOMAIN money3 AS money2 CHECK (VALUE > -100)",
    "CREATE DOMAIN second AS timestamp(0)",
    "CREATE DOMAIN code AS varchar(3)",
    "CREATE DOMAIN padded AS char(5)",
    "CREATE DOMAIN single AS real",
    "CREATE DOMAIN tags AS varchar(3)[]",
    "CREATE SCHEMA other",
    'CREATE DOMAIN other."Odd name" AS numeric(5, -2)',
)
DERIVED: Final = """
    color  pair  money2  money3  second  code  padded  single  tags  other."Odd name"
    numeric(10,2)  numeric(12,-2)  numeric(3,5)  numeric(2,2)  varchar(3)  char(5)  bpchar
    timestamp(0)  timestamptz(3)  time(0)  timetz(0)  interval(0)  interval day  bit(3)
    varbit(3)  numeric(10,2)[]  money2[]  color[]  timestamp(0)[]  char(5)[]  integer[]
"""


def test_every_type_of_postgresql_holds_a_value_whole_or_refuses_it(database: str) -> None:
    shop = Shop(database)
    kinds = shop.execute(
        "SELECT format_type(oid, NULL) FROM pg_type WHERE typtype IN ('b', 'r', 'm') AND typcategory <> 'A' "
        "AND typnamespace = 'pg_catalog'::regnamespace AND typname !~ '^pg_|^gtsvector' ORDER BY 1"
    )
    taken = check(shop, [*(kind for (kind,) in kinds), *texts(DERIVED)], MADE)
    shop.database.close()
    assert len(kinds) > 60
    assert_taken(taken, TAKEN)


def short(most: int) -> list[str]:
    """Returns the texts up to a length that a column of PostgreSQL holds."""
    return [one for one in TEXTS if len(one) <= most and "\0" not in one]


TAKEN: Final = (
    ("text", "String", short(99)),
    ("character varying", "String", short(99)),
    ("varchar(3)", "String", short(3)),
    ("code", "String", short(3)),
    ("char(5)", "String", [one for one in short(5) if not one.endswith(" ")]),
    ("padded", "String", [one for one in short(5) if not one.endswith(" ")]),
    ("name", "String", short(63)),
    ("color", "String", ["red"]),
    ("uuid", "String", ["", "a1ee0b99-9c0b-4ef8-bb6d-6bb9bd380a11"]),  # a blank is NULL
    ("inet", "String", ["10.0.0.1", "10.0.0.0/8"]),
    ("interval", "String", ["10:00:00", "10:00:00.7", "1 day"]),
    ("time(0)", "String", ["10:00:00"]),
    ("bit(3)", "String", ["101"]),
    ("color[]", "String", ["{red}"]),
    ("money", "Decimal", ["0", "10.00", "1.23", "12345", "12300", "-99.90", "99999999.99"]),
    ("money3", "Decimal", ["0", "10.00", "1.23", "12345", "12300", "-99.90", "99999999.99"]),
    ("numeric", "Decimal", list(DECIMALS)),
    ("numeric", "Double", list(FLOATS)),
    ("numeric(10,2)", "Decimal", ["0", "10.00", "1.23", "12345", "12300", "-99.90", "99999999.99"]),
    ("numeric(10,2)", "Double", [0.0, 0.5, 0.1, 1.5, 12345.0]),
    ("numeric(12,-2)", "Integer", [0, 40000, 12300]),
    ("numeric(3,5)", "Decimal", ["0", "0.00123"]),
    ("numeric(2,2)", "Double", [0.0, 0.5, 0.1]),
    ('other."Odd name"', "Decimal", ["0", "12300"]),
    ("integer", "Integer", list(NUMBERS)),
    ("smallint", "Integer", [0, 1, -1, 7, 12345, 12300]),
    ("real", "Double", [0.0, 0.5, 0.1, 1.239, 1.5, 0.00123, 3.1415927, 1e-45, 12345.0]),
    ("real", "Integer", list(NUMBERS[:7])),
    ("double precision", "Double", list(FLOATS)),
    ("boolean", "Boolean", [True, False]),
    ("date", "Date", ["2024-05-31", "20240531"]),
    ("second", "Date", texts(WITHOUT_ZONE)),
    ("timestamp without time zone", "Date", [*texts(WITHOUT_ZONE), *DIGITS]),
    ("timestamptz(3)", "Date", texts(WITH_ZONE)),
    ("jsonb", "Decimal", list(DECIMALS)),
    ("json", "String", list(TEXTS)),
)
"""What a type holds whole, and so has to take."""


def test_every_affinity_of_sqlite_holds_a_value_whole_or_refuses_it(tmp_path: Path) -> None:
    shop = Shop(f"sqlite:///{tmp_path}/shop.db")
    taken = check(shop, ["", *texts(SQLITE)])
    shop.database.close()
    assert_taken(taken, TAKEN_BY_SQLITE)


SQLITE: Final = """
    TEXT  VARCHAR(3)  CHAR(5)  CLOB  BLOB  STRING  UUID  INET  POINT  JSON  MONEY
    INTEGER  INT  SMALLINT  BIGINT  REAL  DOUBLE  FLOAT  BOOLEAN  TIMESTAMP WITH TIME ZONE
    NUMERIC  NUMERIC(10,2)  DECIMAL(3,5)  NUMERIC(12,-2)  DATE  TIME  DATETIME  TIMESTAMP
"""
TAKEN_BY_SQLITE: Final = (
    ("TEXT", "String", list(TEXTS)),
    ("VARCHAR(3)", "String", list(TEXTS)),
    ("CHAR(5)", "String", list(TEXTS)),
    ("", "String", list(TEXTS)),
    ("", "Integer", list(NUMBERS)),
    ("", "Decimal", list(DECIMALS)),
    ("TEXT", "Decimal", list(DECIMALS)),
    ("TEXT", "Date", list(DATES)),
    ("NUMERIC", "Decimal", list(DECIMALS[:-2])),
    ("REAL", "Double", list(FLOATS)),
    ("REAL", "Integer", list(NUMBERS)),
    ("SMALLINT", "Integer", list(NUMBERS)),
    ("DATE", "Date", ["2024-05-31", "20240531"]),
    ("JSON", "Boolean", [True, False]),
)


@rows(
    "kind, expression, expected",
    [
        ("numeric(10,3)[]", "Part[].Size", "{1.100,2.205}"),
        ("numeric(10,2)[]", "Part[].Size", "found the number 2.205 with 3 places after the point"),
        ("money2[]", "Part[].Size", "found a list, which money2[] would keep as another list"),
        ("text[]", "Part[].Size", "{1.10,2.205}"),
        ("real[]", "[length(Part), `16777217`]", "found the number 16777217, expected a number of 32 bits"),
        ("varchar(3)[]", "Part[].Name", '{a,"b "}'),
        ("varchar(1)[]", "Part[].Name", "found a text of 2 characters, expected at most 1"),
        ("color[]", "['red', 'blue']", "{red,blue}"),
        ("color[]", "['red', 'green']", "found a list, expected a value of color[]"),
        ("integer[]", "[[`1`], [`2`]]", "found a list, expected a whole number"),
        ("integer", "Part[]", "found a list, expected a whole number"),
        ("inet", "Part[0]", "found an object, expected a text that its type keeps"),
        ("oid", "length(Part)", "2"),
        ("uuid", "Part[0].Name", "found the text 'a', expected a UUID"),
        ("jsonb", "{b: Part[0].Size, a: Part[0].Name}", '{"a": "a", "b": 1.10}'),
    ],
)
def test_an_expression_goes_into_a_column_whole_or_not_at_all(
    database: str, kind: str, expression: str, expected: str
) -> None:
    part = Definition(
        "Part", attributes={"Size": Attribute("Size", "Decimal"), "Name": Attribute("Name", "String")}
    )
    attributes = {"Id": Attribute("Id", "Integer"), "Part": Attribute("Part", "Part", cardinality="n")}
    known = Definitions({"O": Definition("O", attributes=attributes), "Part": part})
    parts = [{"Size": "1.10", "Name": "a"}, {"Size": "2.205", "Name": "b "}]
    bo = BusinessObject(known, "O", "Create", {"Id": 1, "Part": parts})
    shop = Shop(database)
    with closing(shop.database), shop.database.connect() as connection:
        for statement in (*MADE, f"CREATE TABLE t (id integer, x {kind})"):
            connection.execute(text(statement))
        mapping = TableMapping("t", (("id", "Id"), ("x", expression)))
        rows_of = TableRows(connection, mapping, known["O"], known)
        if "found " in expected:
            with pytest.raises(ObjectRefused) as refused:
                rows_of.write(connection, bo, "insert", "error")
            assert expected in str(refused.value)
            return
        rows_of.write(connection, bo, "insert", "error")
        assert connection.execute(text("SELECT concat(x) FROM t")).scalar() == expected


@rows("kind, sent", [("char(9)", "hush "), ("uuid", "hush"), ("inet", "hush"), ("varchar(2)[]", "{hush}")])
def test_no_reason_shows_a_ciphertext(database: str, kind: str, sent: str) -> None:
    known = known_with("Ciphertext")
    shop = Shop(database)
    with closing(shop.database), shop.database.connect() as connection:
        connection.execute(text(f"CREATE TABLE t (id integer, x {kind})"))
        one = TableRows(connection, TableMapping("t"), known["O"], known)
        bo = BusinessObject(known, "O", "Create", {"Id": 1, "X": sent})
        with pytest.raises(ObjectRefused, match="O: X: found a value that the column") as caught:
            one.write(connection, bo, "insert", "error")
        assert "hush" not in str(caught.value)


@rows(
    "name, value",
    [
        ("PGDATESTYLE", "German"),
        ("PGDATESTYLE", "SQL, MDY"),
        ("PGTZ", "Asia/Tokyo"),
        ("PGCLIENTENCODING", "LATIN1"),
        ("PGCLIENTENCODING", "SQL_ASCII"),
        ("PGOPTIONS", "-c search_path=elsewhere -c TimeZone=Asia/Tokyo -c extra_float_digits=0"),
        ("PGOPTIONS", "-c bytea_output=escape -c standard_conforming_strings=off -c IntervalStyle=iso_8601"),
        ("PGHOSTADDR", "127.0.0.9"),  # nobody listens there
        ("TZ", "Asia/Tokyo"),
    ],
)
def test_no_variable_changes_a_value(
    database: str, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    kinds = {
        "String": "text",
        "Day": "date",
        "Local": "timestamp",
        "Instant": "timestamptz",
        "Float": "float8",
    }
    values = {
        "String": "€ \\ '",
        "Day": "2024-05-06",
        "Local": "2024-05-06T07:08:09.5",
        "Instant": "2024-05-06T07:08:09+02:00",
        "Float": 0.1 + 0.2,
    }
    types = dict.fromkeys(kinds, "Date") | {"String": "String", "Float": "Double"}
    known = Definitions({"O": Definition("O", attributes={one: Attribute(one, types[one]) for one in kinds})})
    columns = ", ".join(f'"{one}" {kind}' for one, kind in kinds.items())
    with closing(Database(DatabaseSettings("shop", database))) as clean, clean.connect() as beside:
        beside.exec_driver_sql("DROP TABLE IF EXISTS t")
        beside.exec_driver_sql(f"CREATE TABLE t ({columns})")
        beside.commit()
        monkeypatch.setenv(name, value)
        with closing(Database(DatabaseSettings("shop", database))) as shop, shop.connect() as connection:
            bo = BusinessObject(known, "O", "Create", values)
            TableRows(connection, TableMapping("t"), known["O"], known).write(
                connection, bo, "insert", "error"
            )
            connection.commit()
        (row,) = beside.exec_driver_sql("""SELECT "String", to_char("Day", 'YYYY-MM-DD'),
            to_char("Local", 'HH24:MI:SS.MS'), extract(epoch FROM "Instant")::bigint, "Float" FROM t""").all()
    assert tuple(row) == ("€ \\ '", "2024-05-06", "07:08:09.500", 1714972089, 0.1 + 0.2)
