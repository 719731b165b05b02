"""Business objects as rows: columns, keys, children, and what does not fit."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import types
from sqlalchemy.dialects import postgresql

from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import is_date
from connector.databases.column_types import of_sqlalchemy
from connector.databases.handle import EventTransaction
from connector.databases.values import converter
from connector.errors import ObjectRefused
from connector.service.database_check import check_databases
from connector.sinks.subscriptions import Subscription
from connector.sinks.table.mapping import TableMapping, WrongExpression, source_of
from connector.sinks.table.rows import OnConflict, Operation, WrongTable
from connector.sinks.table.sink import TableSpec
from tests.databases.conftest import Shop
from tests.tables import rows


def convert(kind: Any, value: Any, dialect: str = "postgresql") -> Any:
    return converter(of_sqlalchemy(kind, dialect), dialect)(value)


def _attributes(**types_: str) -> dict[str, Attribute]:
    return {name: Attribute(name, kind) for name, kind in types_.items()}


LINE = Definition("Line", attributes=_attributes(Sku="String", Quantity="Integer"))
ORDER = Definition(
    "Order",
    attributes={
        "OrderId": Attribute("OrderId", "Integer", is_key=True),
        **_attributes(Customer="String", Total="Double", Paid="Boolean", Day="Date", Note="LongText"),
        "Line": Attribute("Line", "Line", cardinality="n"),
    },
    verbs={verb: Verb(verb) for verb in ("Create", "Update", "Delete")},
)
DEFINITIONS = Definitions({"Order": ORDER, "Line": LINE})
TABLES = (
    "CREATE TABLE orders (orderid INTEGER PRIMARY KEY, customer VARCHAR(40), total NUMERIC(10, 2), "
    "paid BOOLEAN, day DATE, note TEXT DEFAULT 'none')",
    "CREATE TABLE line (order_id INTEGER NOT NULL, sku VARCHAR(20), quantity INTEGER DEFAULT 1)",
)
LINES = (("Line", TableMapping("line", key=(("order_id", "OrderId"),))),)
WITH_LINES = TableMapping("orders", children=LINES)


@pytest.fixture(autouse=True)
def tables(request: pytest.FixtureRequest) -> None:
    if "shop" in request.fixturenames:
        request.getfixturevalue("shop").execute(*TABLES)


def order(number: int, **values: Any) -> BusinessObject:
    return BusinessObject(DEFINITIONS, "Order", "Create", {"OrderId": number, **values})


def write(
    shop: Shop,
    *objects: BusinessObject,
    operation: Operation = "insert",
    on_conflict: OnConflict = "error",
    mapping: TableMapping = WITH_LINES,
) -> None:
    first = objects[0]
    spec = TableSpec("shop", first.type, mapping, on_conflict)

    def work(transaction: EventTransaction) -> None:
        rows = spec.rows(transaction.sqlalchemy, first.definitions)
        for bo in objects:
            rows.write(transaction.sqlalchemy, bo, operation, on_conflict)

    shop.database.run(shop.new_row(), lambda: None, work)


def orders(shop: Shop, columns: str = "orderid, customer") -> list[tuple[Any, ...]]:
    return shop.execute(f"SELECT {columns} FROM orders ORDER BY orderid")


def lines(shop: Shop) -> list[tuple[Any, ...]]:
    return shop.execute("SELECT order_id, sku, quantity FROM line ORDER BY order_id, sku")


def test_attributes_go_into_the_columns_of_their_names(shop: Shop) -> None:
    write(shop, order(1, Customer="Ada", Total=12.5, Paid=True, Day="2026-11-23", Note=""))
    ((number, customer, total, paid, day, note),) = orders(shop, "*")
    assert (number, customer, Decimal(str(total)), bool(paid), note) == (1, "Ada", Decimal("12.5"), True, "")
    assert str(day) == "2026-11-23"


def test_what_is_not_set_takes_the_default_of_the_table_and_a_blank_number_is_null(shop: Shop) -> None:
    write(shop, order(1, Total=""))
    assert orders(shop, "customer, total, note") == [(None, None, "none")]


def test_an_update_changes_what_is_set_and_replaces_the_children_as_a_whole(shop: Shop) -> None:
    write(
        shop, order(1, Customer="Ada", Total=1.0, Line=[{"Sku": "a"}, {"Sku": "b", "Quantity": 2}]), order(2)
    )
    assert lines(shop) == [(1, "a", 1), (1, "b", 2)]
    write(shop, order(1, Customer="Bea", Line=[{"Sku": "c"}]), operation="update")
    assert orders(shop, "orderid, customer, CAST(total AS INTEGER)") == [(1, "Bea", 1), (2, None, None)]
    assert lines(shop) == [(1, "c", 1)]
    write(shop, order(1), operation="update")
    assert lines(shop) == [(1, "c", 1)], "children that are not set stay"
    write(shop, order(1, Line=[]), operation="update")
    assert lines(shop) == []


def test_null_sets_a_column_to_null_and_removes_the_children(shop: Shop) -> None:
    first = order(1, Customer="Ada", Note="a", Line=[{"Sku": "a"}])
    write(shop, first)
    change = order(1)
    for name in ("Customer", "Note", "Line"):
        change.set_null(name)
    write(shop, change, operation="update")
    assert (orders(shop, "customer, note"), lines(shop)) == ([(None, None)], [])
    write(shop, first, on_conflict="update")
    write(shop, change, on_conflict="update")
    assert (orders(shop, "customer, note"), lines(shop)) == ([(None, None)], [])
    new = order(2, Line=[{"Sku": "b"}])
    new.set_null("Note")
    new["Line"][0].set_null("Quantity")
    write(shop, new)
    assert orders(shop, "orderid, note")[1] == (2, None), "no default"
    assert lines(shop) == [(2, "b", None)]
    new.set_null("OrderId")
    with pytest.raises(ObjectRefused, match="OrderId is null, and is a key of orders"):
        write(shop, new, operation="update")


TAXES = Definitions(
    {
        "Order": replace(
            ORDER, attributes={**ORDER.attributes, "Line": Attribute("Line", "Part", cardinality="n")}
        ),
        "Part": Definition(
            "Part",
            attributes={
                **_attributes(No="Integer", Sku="String"),
                "Tax": Attribute("Tax", "Tax", cardinality="n"),
                "Box": Attribute("Box", "Box"),
            },
        ),
        "Tax": Definition(
            "Tax",
            attributes={**_attributes(Kind="String"), "Note": Attribute("Note", "Box", cardinality="n")},
        ),
        "Box": Definition("Box", attributes=_attributes(Text="String")),
    }
)
NOTES = TableMapping("notes", None, (("order_id", "OrderId"), ("kind", "Kind")))
TAX_TABLE = TableMapping("tax", None, (("order_id", "OrderId"), ("line_no", "No")), (("Note", NOTES),))
BOX_TABLE = TableMapping("box", None, (("line_no", "No"),))
PART_TABLE = TableMapping("part", None, (("order_id", "OrderId"),), (("Tax", TAX_TABLE), ("Box", BOX_TABLE)))
WITH_TAXES = TableMapping("orders", (("orderid", "OrderId"),), (), (("Line", PART_TABLE),))
TAX_TABLES = (
    "CREATE TABLE part (order_id INTEGER NOT NULL, no INTEGER, sku VARCHAR(20))",
    "CREATE TABLE tax (order_id INTEGER NOT NULL, line_no INTEGER NOT NULL, kind VARCHAR(4))",
    "CREATE TABLE notes (order_id INTEGER NOT NULL, kind VARCHAR(4) NOT NULL, text VARCHAR(9))",
    "CREATE TABLE box (line_no INTEGER NOT NULL, text VARCHAR(9))",
)


def test_children_within_children_have_tables_of_their_own(shop: Shop) -> None:
    shop.execute(*TAX_TABLES)

    def tables(*names: str) -> list[list[tuple[Any, ...]]]:
        return [
            shop.execute(f"SELECT * FROM {name} ORDER BY 1, 2, {3 if name != 'box' else 2}") for name in names
        ]

    def taxed(number: int, **values: Any) -> BusinessObject:
        return BusinessObject(TAXES, "Order", "Create", {"OrderId": number, **values})

    notes = [{"Text": "x"}, {"Text": "y"}]
    taxes = [{"Kind": "vat", "Note": notes}, {"Kind": "eco"}]
    lines_of_1 = [{"No": 1, "Sku": "a", "Tax": taxes, "Box": {"Text": "b"}}, {"No": 2, "Sku": "b"}]
    write(
        shop,
        taxed(1, Line=lines_of_1),
        taxed(2, Line=[{"No": 7, "Tax": [{"Kind": "vat", "Note": [{"Text": "z"}]}]}]),
        mapping=WITH_TAXES,
    )
    assert tables("part", "tax", "notes", "box") == [
        [(1, 1, "a"), (1, 2, "b"), (2, 7, None)],
        [(1, 1, "eco"), (1, 1, "vat"), (2, 7, "vat")],
        [(1, "vat", "x"), (1, "vat", "y"), (2, "vat", "z")],
        [(1, "b")],
    ]
    write(shop, taxed(1), operation="update", mapping=WITH_TAXES)
    assert len(tables("tax")[0]) == 3, "what is not set stays"
    write(shop, taxed(1, Line=[{"No": 3, "Tax": [{"Kind": "new"}]}]), operation="update", mapping=WITH_TAXES)
    assert tables("part", "tax", "notes", "box") == [
        [(1, 3, None), (2, 7, None)],
        [(1, 3, "new"), (2, 7, "vat")],
        [(2, "vat", "z")],
        [],
    ]
    write(shop, taxed(2), operation="delete", mapping=WITH_TAXES)
    assert tables("part", "tax", "notes", "box") == [[(1, 3, None)], [(1, 3, "new")], [], []]


def test_the_table_of_a_failing_row_is_named(shop: Shop) -> None:
    shop.execute(*TAX_TABLES)
    bo = BusinessObject(
        TAXES, "Order", "Create", {"OrderId": 1, "Line": [{"Tax": [{"Kind": "vat"}], "No": 1, "Sku": "a"}]}
    )
    columns = "order_id INTEGER, line_no INTEGER NOT NULL CHECK (line_no > 1), kind VARCHAR(4)"
    shop.execute("DROP TABLE tax", f"CREATE TABLE tax ({columns})")
    with pytest.raises(ObjectRefused, match=r"the table tax: .*(?i:check)"):
        write(shop, bo, mapping=WITH_TAXES)


def test_the_key_of_a_child_within_a_child_needs_a_column_around(shop: Shop) -> None:
    shop.execute(*TAX_TABLES)
    part = TableMapping("part", (("sku", "Sku"),), (("order_id", "OrderId"),), (("Box", BOX_TABLE),))
    mapping = TableMapping("orders", (("orderid", "OrderId"),), (), (("Line", part),))
    bo = BusinessObject(TAXES, "Order", "Create", {"OrderId": 1})
    with pytest.raises(WrongTable, match="the key of box has No, and no column of part has it"):
        write(shop, bo, mapping=mapping)
    shop.execute("DROP TABLE box")
    with pytest.raises(WrongTable, match=r"CREATE TABLE box \(.*line_no INTEGER NOT NULL"):
        write(shop, bo, mapping=WITH_TAXES)


def test_a_path_through_children_may_lead_to_null(shop: Shop) -> None:
    bill = Definition(
        "Bill", attributes={"Id": Attribute("Id", "Integer", is_key=True), "Line": Attribute("Line", "Line")}
    )
    definitions = Definitions({"Bill": bill, "Line": LINE})
    mapping = TableMapping("orders", (("orderid", "Id"), ("note", "Line.Sku")))
    objects = [
        BusinessObject(definitions, "Bill", "Create", {"Id": number, "Line": {}}) for number in (1, 2, 3)
    ]
    objects[1]["Line"].set_null("Sku")
    objects[2].set_null("Line")
    for bo in objects:
        write(shop, bo, mapping=mapping)
    assert orders(shop, "note") == [("none",), (None,), (None,)]


def test_an_update_that_finds_no_row_fails(shop: Shop) -> None:
    for values in ({"Customer": "x"}, {}):
        with pytest.raises(ObjectRefused, match="has no row with orderid = 7"):
            write(shop, order(7, **values), operation="update")


def test_a_delete_removes_the_row_with_its_children(shop: Shop) -> None:
    write(shop, order(1, Line=[{"Sku": "a"}]), order(2, Line=[{"Sku": "b"}]))
    write(shop, order(1), order(9), operation="delete")
    assert (orders(shop), lines(shop)) == ([(2, None)], [(2, "b", 1)])


def test_a_row_that_is_there_is_an_error_or_stays_or_is_updated(shop: Shop) -> None:
    write(shop, order(1, Customer="Ada", Note="kept", Line=[{"Sku": "a"}]))
    again = order(1, Customer="Bea", Line=[{"Sku": "b"}])
    with pytest.raises(Exception, match=r"(?i)unique"):
        write(shop, again)
    write(shop, again, on_conflict="ignore")
    assert (orders(shop), lines(shop)) == ([(1, "Ada")], [(1, "a", 1)])
    write(shop, again, on_conflict="update")
    assert (orders(shop, "customer, note"), lines(shop)) == ([("Bea", "kept")], [(1, "b", 1)])


def test_columns_take_attributes_and_expressions(shop: Shop) -> None:
    columns = {"orderid": "OrderId", "customer": "Line[0].Sku", "total": "length(Line)", "note": "'web'"}
    mapping = TableMapping("orders", tuple(columns.items()))
    write(shop, order(1, Line=[{"Sku": "a"}, {"Sku": "b"}]), mapping=mapping)
    assert orders(shop, "customer, CAST(total AS INTEGER), note") == [("a", 2, "web")]
    with pytest.raises(ObjectRefused, match=r"length\(Line\).*cannot be used"):
        write(shop, order(2), mapping=mapping)


@rows(
    "columns, found",
    [
        ((("orderid", "OrderId"), ("total", "Line[0].Sku")), "found the text 'a', expected a number"),
        ((("orderid", "Line[0].Sku"),), "found the text 'a', expected a whole number"),
        ((("orderid", "OrderId"), ("day", "Line[0].Sku")), "found the text 'a', expected a date"),
        ((("orderid", "OrderId"), ("customer", "length(Line)")), "found the number 1, expected a text"),
    ],
)
def test_the_value_of_an_expression_that_does_not_fit_names_the_column(
    shop: Shop, columns: tuple[tuple[str, str], ...], found: str
) -> None:
    with pytest.raises(ObjectRefused, match=f"{found}.*for the column"):
        write(shop, order(1, Line=[{"Sku": "a"}]), mapping=TableMapping("orders", columns))


@rows(
    "mapping, found",
    [
        (TableMapping("order"), "there is no table order, did you mean 'orders'?; there are "),
        (TableMapping("line", (("sku", "Customer"),)), "the column order_id of line needs a value"),
        (
            TableMapping("orders", (("orderid", "OrderId"), ("customer", "Customer"), ("Customer", "Note"))),
            "the column customer of orders would get Order.Customer and Order.Note: give one of them",
        ),
        (
            TableMapping("orders", children=(("Line", TableMapping("line", key=(("SKU", "Customer"),))),)),
            "the column sku of line would get Line.Sku and Order.Customer",
        ),
        (TableMapping("orders", (("name", "Customer"),)), "has no column 'name' for Order.Customer"),
        (TableMapping("orders", (("total", "Customer"),)), "Order.Customer is String, but the column total"),
        (TableMapping("orders", (("customer", "OrderId"),)), "Order.OrderId is Integer, but the column cust"),
        (TableMapping("orders", (("customer", "Paid"),)), "Order.Paid is Boolean, but the column customer"),
        (
            TableMapping("orders", children=(("Line", TableMapping("line", key=(("order", "OrderId"),))),)),
            "the table line has no column 'order' for Order.OrderId",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_named_with_all_mistakes(
    shop: Shop, mapping: TableMapping, found: str
) -> None:
    with pytest.raises(WrongTable) as caught:
        write(shop, order(1), mapping=mapping)
    assert found in str(caught.value)
    subscription = Subscription("s", "Order", None, TableSpec("shop", "Order", mapping))
    database, table = check_databases([shop.settings], [subscription], DEFINITIONS, makes=False)
    assert database.problem == ""
    assert table.problem == str(caught.value)


def test_attributes_that_differ_in_case_only_need_columns_of_their_own(shop: Shop) -> None:
    key = Attribute("id", "String", is_key=True)
    attributes = {"id": key, **_attributes(ID="String", name="String", NAME="String")}
    known = Definitions({"Twin": Definition("Twin", attributes=attributes)})
    twin = BusinessObject(known, "Twin", "Create", {"id": "1", "ID": "2", "name": "a", "NAME": "b"})
    shop.execute("CREATE TABLE twin (id TEXT PRIMARY KEY, name TEXT)")
    with pytest.raises(WrongTable) as caught:
        write(shop, twin, mapping=TableMapping("twin"))
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == [
        "the column id of twin would get Twin.id and Twin.ID",
        "the column name of twin would get Twin.name and Twin.NAME",
    ]
    if "sqlite" not in shop.settings.url:  # where names in quotes differ
        shop.execute('ALTER TABLE twin ADD "ID" TEXT, ADD "NAME" TEXT')
        write(shop, twin, mapping=TableMapping("twin"))
        assert shop.execute('SELECT id, "ID", name, "NAME" FROM twin') == [("1", "2", "a", "b")]


def test_an_update_on_conflict_needs_a_key_that_the_table_knows(shop: Shop) -> None:
    shop.execute("CREATE TABLE plain (orderid INTEGER, customer VARCHAR(40))")
    mapping = TableMapping("plain", (("orderid", "OrderId"), ("customer", "Customer")))
    for on_conflict, table, wrong in (
        ("update", mapping, True),
        ("ignore", mapping, False),
        ("update", TableMapping("orders"), False),
    ):
        subscription = Subscription("s", "Order", None, TableSpec("shop", "Order", table, on_conflict))  # type: ignore[arg-type]
        _, found = check_databases([shop.settings], [subscription], DEFINITIONS, makes=False)
        assert bool(found.problem) is wrong
        assert not wrong or "needs a primary key or a unique index of plain" in found.problem


def test_a_check_leaves_nothing_behind(shop: Shop) -> None:
    assert [one.problem for one in check_databases([shop.settings], [], DEFINITIONS, makes=False)] == [""]
    with pytest.raises(Exception, match="connector_outcome"):
        shop.outcomes()
    assert [one.problem for one in check_databases([shop.settings], [], DEFINITIONS, makes=True)] == [""]
    assert shop.outcomes() == []


@rows("text", ["Custmer", "Line", "a[", "Line[?"])
def test_a_source_is_an_attribute_or_an_expression(text: str) -> None:
    with pytest.raises(WrongExpression):
        source_of(text, ORDER)


WITH_ZONE, WITHOUT_ZONE = types.DateTime(timezone=True), types.DateTime()


@rows(
    "kind, text, reason",
    [
        (WITHOUT_ZONE, "20240531T0800-05", "with a zone, expected one without"),
        (WITH_ZONE, "2024-05-31T08:00:00", "without a zone, expected one with a zone"),
        (WITH_ZONE, "2024-05-31T08:00:00,1234567Z", "expected at most 6 digits after the second"),
        (postgresql.TIMESTAMP(precision=0), "2024-05-31T08:00:00.5", "expected at most 0 digits"),
        (WITH_ZONE, "20240531T235960.5Z", "expected a date and time without a leap second"),
        (WITHOUT_ZONE, "9999-12-31T24:00", "before the year 10000"),
        (types.Date(), "2024-05-31T08:00:00", "expected a date"),
    ],
)
def test_a_time_of_which_the_column_loses_a_part_is_refused(kind: Any, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        convert(kind, text)


def test_every_date_of_an_object_is_read_or_refused_with_its_reason() -> None:
    """A column reads the whole notation of the type Date, and never makes another time of it."""
    zones = ("", "Z", "+02:00", "-05:30", "+0100", "-11")
    times = ("T00", "T08:15", "T0815", "T08:15:30", "T08:15:30.25", "T081530,5", "T24:00", "T240000", "T24")
    for day in ("2024-02-29", "20240229"):
        moments = [day + time + zone for time in times for zone in zones]
        for text in [*moments, day, f"{day}Z", f"{day}+14:00"]:
            assert is_date(text)
            has_zone = text[len(day) :].strip("T0123456789:.,") != ""
            read = convert(WITH_ZONE if has_zone else WITHOUT_ZONE, text)
            assert (read.tzinfo is not None) is has_zone
            assert read.day == (1 if "T24" in text else 29)
            assert read.hour == (8 if "T08" in text else 0)


@given(
    st.one_of(st.integers(), st.booleans(), st.text(), st.floats(allow_nan=False), st.lists(st.integers()))
)
def test_a_converter_refuses_with_a_value_error_only(value: Any) -> None:
    kinds = types.Integer, types.Numeric, types.Boolean, types.String, types.Date, types.DateTime, types.Uuid
    for kind in kinds:
        with suppress(ValueError):
            convert(kind(), value)


@rows(
    "mapping, needed",
    [
        (TableMapping("made", children=(("Line", TableMapping("parts", key=(("of", "OrderId"),))),)), 2),
        (TableMapping("made", (("number", "OrderId"), ("who", "Customer"), ("first", "Line[0].Sku"))), 1),
        (TableMapping("made"), 1),
    ],
)
def test_the_sql_of_a_missing_table_makes_one_that_fits(
    shop: Shop, mapping: TableMapping, needed: int
) -> None:
    full = order(1, Customer="Ada", Total=1.5, Paid=True, Day="2026-11-23", Line=[{"Sku": "a"}])
    objects = [full, order(2)]
    shop.execute("DROP TABLE IF EXISTS made", "DROP TABLE IF EXISTS parts")
    for made in range(needed):
        with pytest.raises(WrongTable) as caught:
            write(shop, *objects, mapping=mapping)
        (text,) = str(caught.value).splitlines()
        assert "there are line, orders. An administrator can make it so: CREATE TABLE " in text or made
        shop.execute(text.partition("make it so: ")[2])
    write(shop, *objects, mapping=mapping)
    write(shop, *objects, mapping=mapping, on_conflict="update")
    assert len(shop.execute("SELECT * FROM made")) == 2


def test_a_database_without_tables_says_so(shop: Shop) -> None:
    shop.execute("DROP TABLE line", "DROP TABLE orders")
    with pytest.raises(WrongTable, match="there is no table orders; there are no tables"):
        write(shop, order(1), mapping=TableMapping("orders"))


# --- exact numbers -----------------------------------------------------------------------------

MONEY = Definition(
    "Money",
    attributes={
        "Id": Attribute("Id", "Integer", is_key=True),
        "Amount": Attribute("Amount", "Decimal"),
        "Line": Attribute("Line", "Share", cardinality="n"),
    },
    verbs={"Create": Verb("Create")},
)
SHARE = Definition("Share", attributes=_attributes(Part="Decimal"))
WITH_MONEY = Definitions({"Money": MONEY, "Share": SHARE})


def write_money(shop: Shop, column: str, amount: str, columns: dict[str, str] | None = None) -> str:
    """Writes an amount into a column of a type. Returns what a client reads as text, or the refusal."""
    table = f"CREATE TABLE money (id INTEGER PRIMARY KEY, amount {column})"
    shop.execute("DROP TABLE IF EXISTS money", table)
    values = {"Id": 1, "Amount": amount, "Line": [{"Part": "1.10"}, {"Part": "2.205"}]}
    bo = BusinessObject(WITH_MONEY, "Money", "Create", values)
    try:
        write(shop, bo, mapping=TableMapping("money", tuple(columns.items()) if columns else None))
    except ObjectRefused as refused:
        return str(refused)
    ((found,),) = shop.execute("SELECT CAST(amount AS TEXT) FROM money")
    return str(found)


LONG = "123456789012345678901234567890.10"


def test_many_digits_are_kept_or_refused(shop: Shop) -> None:
    assert write_money(shop, "TEXT", LONG) == LONG
    found = write_money(shop, "NUMERIC", LONG)
    if "sqlite" in shop.settings.url:
        assert "found a number of 31 digits, expected at most 15, which SQLite keeps as NUMERIC" in found
        assert "the column amount of money" in found
    else:
        assert found == LONG


@rows(
    "amount, reason",
    [
        ("1.239", "found the number 1.239 with 3 places after the point, expected at most 2"),
        ("123456789", "found the number 123456789 with 9 digits before the point, expected at most 8"),
    ],
)
def test_nothing_is_rounded_for_a_column(shop: Shop, amount: str, reason: str) -> None:
    assert reason in write_money(shop, "NUMERIC(10, 2)", amount)


@rows("column", ["REAL", "DOUBLE PRECISION", "INTEGER", "BOOLEAN", "DATE"])
def test_a_column_that_cannot_hold_every_decimal_is_a_mistake(shop: Shop, column: str) -> None:
    assert "Money.Amount is Decimal, but the column amount of money is" in write_money(shop, column, "1")


@rows(
    "digits, scale, amount",
    [(0, None, LONG), (5, 2, "12345"), (5, 2, "123.45"), (15, None, "1234567890.12345"), (20, 3, "0.001")],
)
def test_the_sql_of_a_missing_table_has_columns_for_every_decimal(
    shop: Shop, digits: int, scale: int | None, amount: str
) -> None:
    amounts = Attribute("Amount", "Decimal", digits=digits, scale=scale)
    money = replace(MONEY, attributes={**MONEY.attributes, "Amount": amounts})
    known = Definitions({"Money": money, "Share": SHARE})
    bo = BusinessObject(known, "Money", "Create", {"Id": 1, "Amount": amount})
    shop.execute("DROP TABLE IF EXISTS made")
    for _ in range(2):
        try:
            write(shop, bo, mapping=TableMapping("made"))
        except WrongTable as wrong:
            shop.execute(str(wrong).partition("make it so: ")[2])
    ((found,),) = shop.execute('SELECT CAST("Amount" AS TEXT) FROM made')
    assert Decimal(found) == Decimal(amount)


def test_a_decimal_can_be_a_key(shop: Shop) -> None:
    shop.execute("CREATE TABLE rates (rate NUMERIC(6, 3) PRIMARY KEY, who TEXT)")
    attributes = {"Rate": Attribute("Rate", "Decimal", is_key=True), "Who": Attribute("Who", "String")}
    known = Definitions({"R": Definition("R", attributes=attributes, verbs={"Create": Verb("Create")})})

    def run(operation: Operation, rate: str, who: str) -> None:
        bo = BusinessObject(known, "R", "Create", {"Rate": rate, "Who": who})
        write(shop, bo, operation=operation, mapping=TableMapping("rates"))

    run("insert", "0.10", "a")
    run("insert", "0.11", "b")
    run("update", "0.100", "c")
    assert shop.execute("SELECT who FROM rates ORDER BY rate") == [("c",), ("b",)]
    with pytest.raises(ObjectRefused, match=r"has no row with rate = 0\.1[25]"):
        run("update", "0.125", "d")
    run("delete", "0.1", "c")
    assert shop.execute("SELECT who FROM rates") == [("b",)]


def test_an_expression_adds_exactly(shop: Shop) -> None:
    columns = {"id": "Id", "amount": "sum(Line[].Part)"}
    assert Decimal(write_money(shop, "NUMERIC(10, 3)", "1", columns)) == Decimal("3.305")
    assert "with 3 places" in write_money(shop, "NUMERIC(10, 2)", "1", columns)


def test_json_in_a_column_keeps_the_digits(shop: Shop) -> None:
    if "sqlite" in shop.settings.url:
        columns = {"id": "Id", "amount": "Line[]"}
        assert write_money(shop, "JSON", "1", columns) == '[{"Part": 1.10}, {"Part": 2.205}]'
    else:
        columns = {"id": "Id", "amount": "{amount: Amount}"}
        assert write_money(shop, "JSONB", LONG, columns) == f'{{"amount": {LONG}}}'
