"""The server that tests run on starts, answers, survives being killed, and leaves nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import create_engine, text

from tests.postgres import PostgresServer, new_server


def test_the_server_answers_with_a_database_for_each_test(database: str) -> None:
    engine = create_engine(database)
    with engine.connect() as connection:
        tables = connection.execute(text("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"))
        assert tables.scalar() == 0
    engine.dispose()


def test_a_server_leaves_no_process_and_no_file() -> None:
    with new_server() as server:
        assert _processes(server.directory)
    assert _processes(server.directory) == []
    assert not server.directory.exists()


def test_what_was_committed_outlives_a_killed_server(own_postgres: PostgresServer) -> None:
    name = own_postgres.make_database()
    with own_postgres.connect(name) as connection:
        connection.execute("CREATE TABLE kept (number integer)")
        connection.execute("INSERT INTO kept VALUES (7)")
        own_postgres.kill()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert _processes(own_postgres.directory) == []
    own_postgres.start()
    with own_postgres.connect(name) as connection:
        assert connection.execute("SELECT number FROM kept").fetchall() == [(7,)]


def _processes(directory: Path) -> list[int]:
    """Processes that work in a directory or below."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdecimal() and Path(os.readlink(process / "cwd")).is_relative_to(directory):
                found.append(int(process.name))
        except OSError:
            continue
    return found
