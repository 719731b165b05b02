"""Checks the databases of transactional sinks: the table of outcomes, and the tables of business objects."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from connector.businessobjects.definition import Definitions
from connector.databases.database import Database, DatabaseUnreachable
from connector.databases.settings import DatabaseSettings
from connector.errors import DatabaseProblem
from connector.sinks.subscriptions import Subscription
from connector.sinks.table.rows import WrongTable
from connector.sinks.table.sink import TableSpec


class DatabaseFinding(NamedTuple):
    """What a check has found about a database or a table.

    Args:
        problem: with the remedy. Empty = it can be used.
        text: details of a database that can be used.
        subscription: position of the subscription with the table. None = the finding is about a database.
    """

    name: str
    problem: str = ""
    is_unreachable: bool = False
    text: str = ""
    subscription: int | None = None


def check_databases(
    databases: Sequence[DatabaseSettings],
    subscriptions: Sequence[Subscription],
    definitions: Definitions,
    *,
    makes: bool,
) -> Iterator[DatabaseFinding]:
    """Connects to each database, and checks the table of outcomes and the tables of all subscriptions.

    Args:
        makes: whether a missing table of outcomes is made.

    Yields:
        a finding for each database and each table.
    """
    for settings in databases:
        name = f"database {settings.name}"
        try:
            database = Database(settings)
        except DatabaseProblem as error:
            yield DatabaseFinding(name, str(error))
            continue
        try:
            yield _prepare(database, name, makes=makes)
            for number, one in enumerate(subscriptions):
                if isinstance(one.sink, TableSpec) and one.sink.database == settings.name:
                    yield _table(database, one.sink, definitions)._replace(subscription=number)
        except DatabaseUnreachable as error:
            yield DatabaseFinding(name, str(error), is_unreachable=True)
        finally:
            database.close()


def problem_of(settings: DatabaseSettings) -> str:
    """Returns why a database cannot be reached. Empty = it can. Makes no file and no table."""
    url = settings.parsed
    if url.get_backend_name() == "sqlite" and not os.path.exists(url.database or ""):
        return ""  # the first transaction makes the file
    try:
        database = Database(settings)
        try:
            database.connect().close()
        finally:
            database.close()
    except (DatabaseProblem, DatabaseUnreachable) as error:
        return str(error)
    return ""


def _prepare(database: Database, name: str, *, makes: bool) -> DatabaseFinding:
    try:
        database.prepare(makes=makes)
    except DatabaseProblem as error:
        return DatabaseFinding(name, str(error))
    return DatabaseFinding(name, text=database.title)


def _table(database: Database, spec: TableSpec, definitions: Definitions) -> DatabaseFinding:
    name = f"table {spec.database}.{spec.mapping.name} for {spec.object}"
    try:
        with database.connect() as connection:
            spec.rows(connection, definitions).check_conflicts(connection, spec.on_conflict)
    except WrongTable as error:
        return DatabaseFinding(name, str(error))
    except SQLAlchemyError as error:
        raise database.unreachable(error) from None
    return DatabaseFinding(name)
