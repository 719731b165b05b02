"""What goes wrong with a database is a clear error, and nothing is lost by it."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from connector.databases.urls import parse_url
from connector.errors import ProviderError, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.stores.engine.connection import LocalConnection
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from tests.postgres import PostgresServer
from tests.privileges import without_privileges
from tests.stores.dropbox.steps import closed, files_limited_to
from tests.stores.sql.conftest import ARCHIVE, ORDERS
from tests.tables import rows


def one_claimed(provider: SqlProvider) -> tuple[LocalConnection, Settlement]:
    """Returns a client, and the outcome of a message that it has claimed: a copy in the archive."""
    connection = provider.connect("suite", "one")
    connection.send(ORDERS, [Message(b"1")])
    (claim,) = connection.poller(ORDERS).claim(1, range(1))
    return connection, Settlement(claim, copy_to=ARCHIVE)


def bodies(connection: LocalConnection, queue: Destination = ARCHIVE) -> list[bytes]:
    return [message.body for message in connection.browse(queue)]


@pytest.fixture
def file(root: Path) -> Path:
    return root / "messages.db"


@pytest.fixture
def sqlite(file: Path) -> SqlProvider:
    return SqlProvider(Settings(f"sqlite:///{file}"))


# -- SQLite ----------------------------------------------------------------------------------------


def test_a_file_that_another_program_has_locked_is_an_error_that_says_so(file: Path) -> None:
    connection, settlement = one_claimed(SqlProvider(Settings(f"sqlite:///{file}", busy=0.05)))
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(SettlementError, match=r"messages\.db: .*locked.* another program"):
        connection.settle([settlement])
    with pytest.raises(ProviderError, match="another program"):
        connection.send(ORDERS, [Message(b"2")])
    other.execute("ROLLBACK")
    other.close()
    connection.settle([settlement])
    assert (bodies(connection), bodies(connection, ORDERS)) == ([b"1"], [])


def test_a_full_disk_is_an_error_that_says_so_and_costs_nothing(sqlite: SqlProvider, file: Path) -> None:
    connection, settlement = one_claimed(sqlite)
    engine = sqlite._database().engine
    with engine.connect() as limited:
        pages = limited.exec_driver_sql("PRAGMA page_count").scalar_one()
        limited.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(ProviderError, match=r"full.*make room on the disk"):
        connection.send(ORDERS, [Message(b"x" * 1_000_000)])
    with engine.connect() as limited:
        limited.exec_driver_sql("PRAGMA max_page_count = 1000000")
    said = r"messages\.db: .*: make room on the disk"
    with files_limited_to(Path(f"{file}-wal").stat().st_size), pytest.raises(ProviderError, match=said):
        connection.settle([settlement])  # the kernel refuses to let the file grow
    connection.settle([settlement])
    assert bodies(connection) == [b"1"]
    connection.close()


def test_a_file_that_is_no_database_is_an_error_that_says_so(sqlite: SqlProvider, file: Path) -> None:
    file.write_bytes(b"this is a letter, and no database" * 100)
    with pytest.raises(ProviderError, match=r"messages\.db: .*not a database"):
        sqlite.connect()


def test_a_text_that_no_database_can_hold_is_refused(sqlite: SqlProvider) -> None:
    connection = sqlite.connect("suite", "one")
    for text, reason in (("\udc80", "not valid Unicode"), ("with \0", "which no database keeps")):
        with pytest.raises(ValueError, match=reason):
            connection.send(ORDERS, [Message(type=text)])
    connection.send(ORDERS, [Message(type="snow ☃")])
    assert [message.type for message in connection.browse(ORDERS)] == ["snow ☃"]


# -- PostgreSQL ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"password": "wr0ng"}, r"password authentication failed.*: correct the user and the password"),
        ({"database": "nowhere"}, r'"nowhere" does not exist.*: correct the name of the database'),
        ({"port": 1}, r"refused.*: look whether the server runs"),
    ],
)
def test_who_cannot_connect_sees_no_password(database: str, change: dict[str, object], said: str) -> None:
    url = parse_url(database).set(**change)  # type: ignore[arg-type]
    with pytest.raises(ProviderError, match=said) as refused:
        SqlProvider(Settings(url.render_as_string(hide_password=False))).connect()
    assert str(url.password) not in str(refused.value)
    assert "***@127.0.0.1" in str(refused.value)


def test_a_user_without_rights_is_told_so(database: str, postgres: PostgresServer) -> None:
    """On the database and its schema, and on the tables."""
    url = parse_url(database)
    with postgres.connect(str(url.database)) as owner:
        owner.execute("DROP ROLE IF EXISTS guest")
        owner.execute(f"CREATE ROLE guest LOGIN PASSWORD '{postgres.password}'")
    guest = url.set(username="guest").render_as_string(hide_password=False)
    for schema, said in ((None, "schema public"), ("events", "database"), (None, "table")):
        if said == "table":
            SqlProvider(Settings(database)).connect().close()
        with pytest.raises(ProviderError, match=f"permission denied for {said}.*: give this user the rights"):
            SqlProvider(Settings(guest, schema)).connect()


def test_a_server_that_only_reads_is_an_error_that_says_so(database: str, postgres: PostgresServer) -> None:
    connection = SqlProvider(Settings(database)).connect("suite", "one")
    name = parse_url(database).database
    with postgres.connect() as owner:
        owner.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    _cut(postgres, database)
    with pytest.raises(ProviderError, match="look whether the server runs"):
        connection.send(ORDERS, [Message()])
    with pytest.raises(ProviderError, match=r"read-only transaction.*: connect to the server that writes"):
        connection.send(ORDERS, [Message()])


def test_a_connection_that_is_lost_is_an_error_and_the_next_call_has_another(
    database: str, postgres: PostgresServer
) -> None:
    connection, settlement = one_claimed(SqlProvider(Settings(database)))
    _cut(postgres, database)
    with pytest.raises(SettlementError, match=r"\*\*\*@127.0.0.1.*: look whether the server runs"):
        connection.settle([settlement])
    connection.settle([settlement])
    assert bodies(connection) == [b"1"]


def test_no_transaction_stays_open_between_calls(database: str, postgres: PostgresServer) -> None:
    connection = SqlProvider(Settings(database)).connect("suite", "one")
    connection.send(ORDERS, [Message(str(number).encode()) for number in range(300)])
    connection.poller(ORDERS).claim(1, range(10))
    shown = connection.browse(ORDERS)
    next(shown)
    with postgres.connect() as looking:
        name = parse_url(database).database
        open_ones = looking.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND state LIKE 'idle in%%'", [name]
        ).fetchone()
    assert open_ones == (0,)
    connection.abandon()


def _cut(postgres: PostgresServer, database: str) -> None:
    """Ends all connections to a database, as a server does that restarts."""
    name = parse_url(database).database
    with postgres.connect() as looking:
        looking.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])


def test_several_threads_of_one_provider_share_its_connections(database: str) -> None:
    provider = SqlProvider(Settings(database, pool_size=1))

    def work(number: int) -> None:
        connection = provider.connect("suite", str(number))
        for _ in range(5):
            connection.send(ORDERS, [Message(str(number).encode())])
        connection.close()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert len(bodies(provider.connect(), ORDERS)) == 40


# -- rights --------------------------------------------------------------------------------------------


def test_a_file_without_write_permission_is_an_error_that_says_so(sqlite: SqlProvider, file: Path) -> None:
    connection = sqlite.connect("suite", "one")
    connection.send(ORDERS, [Message(b"kept")])
    connection.close()
    file.chmod(0o444)
    said = rf"{file}: .*: give this user the right to write the file and its directory$"
    with without_privileges(), pytest.raises(ProviderError, match=said):
        SqlProvider(Settings(f"sqlite:///{file}")).connect().send(ORDERS, [Message(b"1")])
    file.chmod(0o644)
    assert bodies(sqlite.connect(), ORDERS) == [b"kept"]


@rows("place", ["messages.db", "data/messages.db"])
def test_a_directory_without_write_permission_is_an_error_that_says_so(root: Path, place: str) -> None:
    said = rf"{root}.*: .*[;:] give this user the right to write"
    with closed(root), pytest.raises(ProviderError, match=said):
        SqlProvider(Settings(f"sqlite:///{root}/{place}")).connect()
    assert list(root.iterdir()) == []


def test_a_deadlock_is_an_error_that_says_so_and_the_next_call_succeeds(
    database: str, postgres: PostgresServer
) -> None:
    connection, settlement = one_claimed(SqlProvider(Settings(database)))
    connection.send(ARCHIVE, [Message(b"0")])
    name = str(parse_url(database).database)
    with postgres.connect(name) as other, ThreadPoolExecutor() as threads:
        other.execute("SET deadlock_timeout = '1h'")  # the server finds it for the one that waits last
        other.execute("BEGIN")
        other.execute("UPDATE channel SET name = name WHERE name = 'queue://archive'")
        waits = []

        def settle() -> None:
            with connection._registry.lock():
                locked = "UPDATE counter SET value = value WHERE name = 'records'"
                waits.append(threads.submit(other.execute, locked))
                connection.settle([settlement])

        with pytest.raises(ProviderError, match=r"deadlock detected.*: nothing was done, try again"):
            settle()
        waits[0].result()
        other.execute("COMMIT")
    connection.settle([settlement])
    assert sorted(bodies(connection)) == [b"0", b"1"]


# -- the server of these tests -------------------------------------------------------------------------
