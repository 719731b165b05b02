"""A transaction with the outcome of an event: it happens once, and only the connector ends it."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from connector.databases.database import Database, DatabaseUnreachable, TransactionConflict
from connector.databases.handle import EventTransaction, TransactionEndRefused
from connector.databases.outcomes import KEPT, prune, remove
from connector.databases.settings import DatabaseSettings
from connector.errors import ConnectorError, DatabaseProblem, ObjectRefused
from connector.events.hooks.outcome_rows import OutcomeRows, OutcomeWork
from tests.databases.conftest import Shop
from tests.postgres import PostgresServer
from tests.tables import rows

Use = Callable[[EventTransaction], object]


def nothing() -> None:
    """A worker that may go on."""


ORDERS = "CREATE TABLE orders (id INTEGER PRIMARY KEY, name VARCHAR(40))"


@pytest.fixture(autouse=True)
def orders(request: pytest.FixtureRequest) -> None:
    if "shop" in request.fixturenames:
        request.getfixturevalue("shop").execute(ORDERS)


def insert(shop: Shop, number: int) -> Use:
    statement = f"INSERT INTO orders VALUES ({shop.mark}, {shop.mark})"
    return lambda transaction: transaction.execute(statement, (number, "x"))


def numbers(shop: Shop) -> list[int]:
    return [row[0] for row in shop.execute("SELECT id FROM orders ORDER BY id")]


def test_the_second_run_of_an_event_does_nothing(shop: Shop) -> None:
    assert shop.database.run(shop.row("a"), nothing, lambda transaction: "returned") == "returned"
    assert shop.database.run(shop.row("a", client="other", batch=7), nothing, insert(shop, 1)) is None
    shop.database.run(shop.row("b"), nothing, insert(shop, 2))
    assert numbers(shop) == [2]
    assert shop.outcomes() == [("a", "other", 7), ("b", "client", 1)], "the last batch removes the row"


def test_an_exception_leaves_no_row(shop: Shop) -> None:
    def fail(transaction: EventTransaction) -> None:
        insert(shop, 1)(transaction)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        shop.database.run(shop.row("a"), nothing, fail)
    assert (numbers(shop), shop.outcomes()) == ([], [])
    shop.database.run(shop.row("a"), nothing, insert(shop, 1))
    assert numbers(shop) == [1]


def test_a_file_that_another_program_keeps_locked_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another program holds for longer than a minute."""
    monkeypatch.setattr("connector.databases.database._BUSY_SECONDS", 0.05)
    shop = Shop(f"sqlite:///{tmp_path}/shop.db")
    shop.execute(ORDERS)
    shop.database.run(shop.row("a"), nothing, insert(shop, 1))
    other = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TransactionConflict, match=r"the database shop: .*locked"):
        shop.database.run(shop.row("b"), nothing, insert(shop, 2))
    other.execute("ROLLBACK")
    shop.database.run(shop.row("b"), nothing, insert(shop, 2))
    assert numbers(shop) == [1, 2]


def test_a_worker_that_may_not_go_on_leaves_nothing(shop: Shop) -> None:
    def taken_over() -> None:
        raise FileNotFoundError("taken over")

    with pytest.raises(FileNotFoundError):
        shop.database.run(shop.row("a"), taken_over, insert(shop, 1))
    assert (numbers(shop), shop.outcomes()) == ([], [])


REFUSED: dict[str, Use] = {
    "commit": lambda one: one.commit(),
    "rollback": lambda one: one.rollback(),
    "close": lambda one: one.close(),
    "with": lambda one: one.__enter__(),
    "autocommit": lambda one: setattr(one, "autocommit", True),
    "isolation level": lambda one: setattr(one, "isolation_level", None),
    "statement": lambda one: one.execute("  commit"),
    "statement with a comment": lambda one: one.cursor().execute("-- now\n/* really */ ROLLBACK"),
    "begin": lambda one: one.cursor().execute("BEGIN"),
    "of a cursor": lambda one: one.cursor().connection.commit(),
    "of SQLAlchemy": lambda one: one.sqlalchemy.commit(),
    "back with SQLAlchemy": lambda one: one.sqlalchemy.rollback(),
    "close of SQLAlchemy": lambda one: one.sqlalchemy.close(),
    "statement of SQLAlchemy": lambda one: one.sqlalchemy.execute(text("COMMIT")),
    "block of SQLAlchemy": lambda one: one.sqlalchemy.begin().commit(),
}


@rows("name", REFUSED)
def test_only_the_connector_ends_the_transaction(shop: Shop, name: str) -> None:
    shop.execute("DELETE FROM orders")

    def use(transaction: EventTransaction) -> None:
        insert(shop, 1)(transaction)
        with pytest.raises(TransactionEndRefused, match="return to commit, or raise to roll back"):
            REFUSED[name](transaction)
        assert numbers(shop) == []

    shop.database.run(shop.new_row(), nothing, use)
    assert numbers(shop) == [1], "the process has gone on and returned"


def test_savepoints_are_allowed(shop: Shop) -> None:
    def use(transaction: EventTransaction) -> None:
        transaction.execute("SAVEPOINT one")
        insert(shop, 1)(transaction)
        transaction.execute("ROLLBACK TO SAVEPOINT one")
        with transaction.sqlalchemy.begin_nested():
            transaction.sqlalchemy.execute(text("INSERT INTO orders VALUES (2, 'y')"))

    shop.database.run(shop.row("a"), nothing, use)
    assert numbers(shop) == [2]


def test_a_cursor_works_as_the_drivers(shop: Shop) -> None:
    def use(transaction: EventTransaction) -> list[Any]:
        with transaction.cursor() as cursor:
            cursor.executemany(f"INSERT INTO orders VALUES ({shop.mark}, {shop.mark})", [(1, "a"), (2, "b")])
            cursor.execute("SELECT name FROM orders ORDER BY id")
            assert cursor.description[0][0] == "name"
            return [row[0] for row in cursor]

    assert shop.database.run(shop.row("a"), nothing, use) == ["a", "b"]


def test_what_a_process_sets_ends_with_its_event(shop: Shop) -> None:
    def use(transaction: EventTransaction) -> None:
        for factory in (lambda *_: "first", lambda *_: "second"):
            transaction.row_factory = factory
        raise KeyError("after the setting")

    with pytest.raises(KeyError):
        shop.database.run(shop.row("a"), nothing, use)
    assert shop.database.run(shop.row("b"), nothing, lambda one: one.execute("SELECT 7").fetchone()) == (7,)


def test_a_failed_statement_that_a_process_hides_is_no_success(shop: Shop) -> None:
    """PostgreSQL would answer the commit with a rollback, as if nothing were wrong."""
    insert_one = insert(shop, 1)

    def use(transaction: EventTransaction) -> None:
        insert_one(transaction)
        with pytest.raises(Exception, match=r"(?i)unique"):
            insert_one(transaction)

    if "sqlite" in shop.settings.url:  # where a failed statement does not end the transaction
        shop.database.run(shop.row("a"), nothing, use)
        assert numbers(shop) == [1]
        return
    with pytest.raises(ConnectorError, match="has returned all the same"):
        shop.database.run(shop.row("a"), nothing, use)
    assert (numbers(shop), shop.outcomes()) == ([], [])


def test_the_commit_itself_may_refuse(database: str) -> None:
    shop = Shop(database)
    shop.execute(
        "CREATE TABLE parent (id INTEGER PRIMARY KEY)",
        "CREATE TABLE line (id INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)",
    )
    reason = (
        r"^the database shop refuses the commit: insert or update on table \"line\" violates.* DETAIL: Key"
    )
    with pytest.raises(ObjectRefused, match=reason) as refused:
        shop.database.run(shop.row("a"), nothing, lambda one: one.execute("INSERT INTO line VALUES (9)"))
    assert "\n" not in str(refused.value)
    assert shop.outcomes() == []
    shop.database.close()


def test_a_second_run_waits_for_the_open_transaction_of_the_first(shop: Shop) -> None:
    began, ends = threading.Event(), threading.Event()
    order: list[str] = []

    def first(transaction: EventTransaction) -> None:
        began.set()
        assert ends.wait(120)
        insert(shop, 1)(transaction)
        order.append("first")

    other = Database(shop.settings)
    thread = threading.Thread(target=lambda: other.run(shop.row("a"), nothing, first))
    shop.database.prepare()
    thread.start()
    assert began.wait(120)
    threading.Timer(0.3, ends.set).start()
    assert shop.database.run(shop.row("a"), nothing, insert(shop, 2)) is None
    thread.join()
    other.close()
    assert (order, numbers(shop)) == (["first"], [1])


def test_a_conflict_is_told_from_a_failure(database: str) -> None:
    shop = Shop(f"{database}?options=-c%20default_transaction_isolation%3Dserializable")
    shop.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, amount INTEGER)")
    shop.execute("INSERT INTO account VALUES (1, 0)")

    def change(transaction: EventTransaction) -> None:
        transaction.execute("SELECT amount FROM account")
        shop.execute("UPDATE account SET amount = amount + 1")
        transaction.execute("UPDATE account SET amount = amount + 1")

    with pytest.raises(TransactionConflict):
        shop.database.run(shop.row("a"), nothing, change)
    shop.database.close()


def test_a_connection_that_was_lost_while_idle_is_replaced(own_postgres: PostgresServer) -> None:
    shop = Shop(own_postgres.url())
    shop.execute(ORDERS)
    shop.database.run(shop.row("a"), nothing, insert(shop, 1))
    own_postgres.kill()
    own_postgres.start()
    shop.database.run(shop.row("b"), nothing, insert(shop, 2))
    assert numbers(shop) == [1, 2]

    def lose(transaction: EventTransaction) -> None:
        own_postgres.kill()
        insert(shop, 3)(transaction)

    with pytest.raises(DatabaseUnreachable, match="the database shop") as caught:
        shop.database.run(shop.row("c"), nothing, lose)
    assert own_postgres.password not in str(caught.value)
    with pytest.raises(DatabaseUnreachable):
        shop.database.run(shop.row("c"), nothing, insert(shop, 3))
    own_postgres.start()
    shop.database.run(shop.row("c"), nothing, insert(shop, 3))
    assert numbers(shop) == [1, 2, 3]
    shop.database.close()


def test_a_table_of_outcomes_that_may_not_be_made_is_shown_as_sql(
    postgres: PostgresServer, database: str
) -> None:
    name = database.rpartition("/")[2]
    with postgres.connect(name) as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'reading'")
    url = f"postgresql+psycopg://reader:reading@127.0.0.1:{postgres.port}/{name}"
    refused = Database(DatabaseSettings("shop", url))
    with pytest.raises(DatabaseProblem) as caught:
        refused.prepare()
    shown = str(caught.value)
    assert "reading" not in shown
    statements = shown.partition("let an administrator run:\n")[2]
    with postgres.connect(name) as connection:
        connection.execute(statements)
        connection.execute("GRANT ALL ON connector_outcome TO reader")
    refused.prepare()
    refused.close()


def test_rows_are_removed_by_batch_and_by_age(shop: Shop) -> None:
    for number in range(4):
        shop.database.run(shop.row(str(number), batch=number), nothing, insert(shop, number))
    with shop.database.connect() as connection, connection.begin():
        assert remove(connection, "demo", "client", [0, 1]) == 2
        assert remove(connection, "another", "client", [2]) == 0
        assert prune(connection, "demo") == 0
        older = int((time.time() - KEPT - 60) * 1000)
        connection.execute(text(f"UPDATE connector_outcome SET written = {older} WHERE batch = 2"))
        assert prune(connection, "demo") == 1
    assert shop.outcomes() == [("3", "client", 3)]


def test_rows_of_events_that_come_again_stay(shop: Shop) -> None:
    for number in range(4):
        shop.database.run(shop.row(str(number)), nothing, insert(shop, number))
    with shop.database.connect() as connection, connection.begin():
        assert remove(connection, "demo", "client", [1], {"ID:2", "ID:9"}) == 3
    assert shop.outcomes() == [("2", "client", 1)]


def test_a_database_that_is_away_is_said_once_and_when_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    folder = tmp_path / "away"
    settings = DatabaseSettings("shop", f"sqlite:///{folder}/shop.db")
    for _ in range(2):
        outcome_rows = OutcomeRows([settings], "demo", "client")
        database = Database(settings)
        for number in range(3):
            outcome_rows.work_on(database, {OutcomeWork(number)})
        folder.mkdir()
        database.prepare()
        outcome_rows.work_on(database, {OutcomeWork(3)})
        database.close()
        (folder / "shop.db").unlink()
        folder.rmdir()
    lines = [one for one in caplog.records if one.name == "connector.events"]
    said = [
        "rows of settled events stay in connector_outcome for now",
        "a business database can be used again",
    ]
    assert [one.getMessage() for one in lines] == said * 2
    assert all(
        len(vars(one).get("reason", "")) <= 300 and "\n" not in vars(one).get("reason", "") for one in lines
    )


def test_passwords_are_in_no_text() -> None:
    settings = DatabaseSettings("shop", "postgresql+psycopg://user:secret@127.0.0.1:1/shop?sslkey=secret")
    database = Database(settings)
    with pytest.raises(DatabaseUnreachable) as caught:
        database.connect()
    for shown in (repr(settings), settings.title, str(caught.value), repr(caught.value)):
        assert "secret" not in shown
