"""A database: its connections, its transactions, and what its errors mean."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
from sqlalchemy import Connection, Engine, create_engine, update
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

from connector.errors import ProviderError
from connector.providers.sql import forking
from connector.providers.sql import schema as tables
from connector.providers.sql.dialects import READ_ONLY, Dialect, dialect_of

_SHARED: Final[dict[tuple[int, Settings], Database]] = {}

URL_EXPECTED: Final = (
    "sqlite:///./FILE, sqlite:////DIRECTORY/FILE or postgresql+psycopg://USER:PASSWORD@HOST:PORT/DATABASE"
)
_DRIVERS: Final = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
_NETWORK_SECONDS: Final = 10.0
"""After which the connection to a host that does not answer is lost."""


class WrongUrl(ValueError):
    """A URL names no database that the provider uses. The text never shows the URL.

    Attributes:
        found, expected: as in :class:`connector.errors.Problem`.
    """

    def __init__(self, found: str, expected: str = URL_EXPECTED) -> None:
        super().__init__(f"{found}, expected {expected}")
        self.found, self.expected = found, expected


def parse_url(text: str) -> URL:
    """Reads the URL of a database.

    Raises:
        WrongUrl: it names none.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise WrongUrl("a text that is no URL") from None
    backend = url.get_backend_name()
    if url.drivername not in (backend, _DRIVERS.get(backend)) or backend not in _DRIVERS:
        raise WrongUrl(f"a URL of {url.drivername!r}")
    if backend == "sqlite":
        if url.host or url.query or not url.database or url.database == ":memory:":
            raise WrongUrl("a URL of SQLite that does not name a file")
    elif "@" in (url.host or ""):
        raise WrongUrl("a host with '@'", "a password with '@' written as %40")
    elif not url.host or not url.database:
        raise WrongUrl("a URL without host or database")
    elif "password" in url.query:
        raise WrongUrl("a password behind '?'", "it before the host: USER:PASSWORD@HOST")
    return url.set(drivername=_DRIVERS[backend])


@dataclass(frozen=True, slots=True)
class Settings:
    """Where a database is, and how it is used. Picklable.

    Args:
        url: of the database, with the password.
        schema: of PostgreSQL; None = the first one of the user's search path.
        pool_size: connections that a process keeps open.
        durable: whether a commit is on the disk when it returns.
    """

    url: str
    schema: str | None = None
    pool_size: int = 5
    durable: bool = True

    def __repr__(self) -> str:
        return f"Settings({self.title!r})"  # never the password

    def at(self, directory: str | os.PathLike[str]) -> Settings:
        """The same, with the file of SQLite relative to a directory."""
        url = self.parsed
        if url.get_backend_name() != "sqlite":
            return self
        file = os.path.abspath(os.path.join(directory, url.database or ""))
        return replace(self, url=url.set(database=file).render_as_string(hide_password=False))

    @property
    def parsed(self) -> URL:
        return make_url(self.url)

    @property
    def title(self) -> str:
        """The database in texts: the file of SQLite, else the URL without its password."""
        url = self.parsed
        if url.get_backend_name() == "sqlite":
            return url.database or ""
        return url.set(query={}).render_as_string(hide_password=True)

    @property
    def file(self) -> str | None:
        """The absolute path of the file of SQLite; None for PostgreSQL."""
        url = self.parsed
        return os.path.abspath(url.database or "") if url.get_backend_name() == "sqlite" else None


class CommitUnknown(ProviderError):
    """The connection was lost in a commit: nobody knows whether that has happened."""


class Database:
    """The connections of one process to a database. Nothing connects before it is used.

    Args:
        settings: where it is.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.title = settings.title
        self._is_prepared = False
        is_sqlite = settings.file is not None
        options: dict[str, Any] = {
            "isolation_level": "READ COMMITTED",  # whatever the server's default is
            "connect_args": network_options(settings.parsed, _NETWORK_SECONDS),
        }
        if is_sqlite:
            options = {"connect_args": {"check_same_thread": False}}
        self.engine: Engine = create_engine(
            settings.parsed,
            pool_size=settings.pool_size,
            max_overflow=2,
            pool_pre_ping=False,
            hide_parameters=True,
            json_serializer=write_json,
            json_deserializer=orjson.loads,
            **options,
        )
        self.dialect: Dialect = dialect_of(self.engine.dialect.name)
        self.dialect.configure(self.engine, schema=settings.schema, durable=settings.durable)
        self._reading = self.engine
        """For reading: PostgreSQL needs no BEGIN and COMMIT for that, each of which is a message to it."""
        self._in_use = contextlib.nullcontext
        if not is_sqlite:
            self._reading = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        else:
            self._in_use = forking.in_use  # type: ignore[assignment]
            forking.watch(self.engine)
        weakref.finalize(self, _dispose, self.engine, os.getpid())

    def prepare(self, *, make: bool) -> bool:
        """Looks whether the tables are there, and whether this program knows them.

        Args:
            make: whether they are made where they are not there.

        Returns:
            False where they are not there.

        Raises:
            ProviderError: the database cannot be reached, or its tables are newer than this program.
        """
        if self._is_prepared:
            return True
        file = self.settings.file
        if file is not None and not os.path.exists(file):
            if not make:
                return False
            try:
                os.makedirs(os.path.dirname(file), exist_ok=True)
            except OSError as error:
                raise ProviderError(
                    f"cannot make {error.filename}: {error.strerror}; give this user the right to write there"
                ) from error
        with self.transaction(reads=not make) as connection:
            self._is_prepared = tables.prepare(connection, self.title, self.settings.schema, make=make)
        return self._is_prepared

    @contextmanager
    def transaction(self, *, reads: bool = False) -> Iterator[Connection]:
        """A transaction of its own: all of it at the end, or nothing.

        Args:
            reads: whether it only reads.

        Raises:
            CommitUnknown: nobody knows whether it has happened.
            ProviderError: nothing has happened.
        """
        is_committing = False
        try:
            with self._in_use(), (self._reading if reads else self.engine).connect() as connection:
                if reads:
                    connection.execution_options(**{READ_ONLY: True})
                with connection.begin() as transaction:
                    yield connection
                    is_committing = True
                    transaction.commit()
                    is_committing = False
        except SQLAlchemyError as error:
            if is_committing and isinstance(error, DBAPIError) and error.connection_invalidated:
                raise CommitUnknown(
                    f"the connection to {self.title} was lost in a commit, and nobody knows whether that has "
                    f"happened: {reason_of(error)}"
                ) from error
            raise ProviderError(f"cannot use {self.title}: {reason_of(error)}") from error

    @classmethod
    def shared(cls, settings: Settings) -> Database:
        """The database of the process that calls, for its tasks: one for all of them."""
        key = os.getpid(), settings
        if key not in _SHARED:
            _SHARED[key] = cls(settings)
        _SHARED[key].prepare(make=True)
        return _SHARED[key]


def network_options(url: URL, seconds: float) -> dict[str, int]:
    """How long a connection to PostgreSQL waits for a host that does not answer. The URL has precedence.

    Args:
        url: of the database.
        seconds: after which such a connection is lost.
    """
    options = {
        "connect_timeout": max(2, int(seconds)),
        "keepalives_idle": max(1, int(seconds)),
        "keepalives_interval": max(1, int(seconds * 0.3)),
        "tcp_user_timeout": int(seconds * 1000),
    }
    return {name: value for name, value in options.items() if name not in url.query}


def _dispose(engine: Engine, pid: int) -> None:
    """Closes the connections of an engine. A forked child leaves the connections to its parent."""
    engine.dispose(close=os.getpid() == pid)


def write_json(value: object) -> str:
    """A value as JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_SERVER: Final = "look whether the server runs and can be reached"
_ADVICE: Final = (
    ("is locked", "another program holds the file: end that, or wait for it"),
    ("is full|no space|could not extend", "make room on the disk"),
    ("disk i/o error", "make room on the disk, and look whether the disk works"),
    ("readonly database|unable to open", "give this user the right to write the file and its directory"),
    ("read-only transaction|in recovery", "connect to the server that writes"),
    ("password|authentication|role .* does not exist", "correct the user and the password"),
    ("database .* does not exist", "correct the name of the database"),
    ("permission denied|must be owner", "give this user the rights on the tables"),
    ("deadlock|could not serialize", "nothing was done, try again"),
    ("not a database|malformed", "restore the file from a backup, or use another"),
    ("too many|remaining connection slots|queuepool", "lower pool_size, or let the server take more"),
    ("refused|terminat|closed|lost|timeout|starting up|shutting down|translate|consuming", _SERVER),
)
"""Texts of the databases, and what to do where an error has one."""


def reason_of(error: SQLAlchemyError) -> str:
    """The text of an error, and what to do. Not the statement and its parameters."""
    found = str(error.orig if isinstance(error, DBAPIError) else error).strip()
    found = " ".join(found.split())
    for pattern, advice in _ADVICE:
        if re.search(pattern, found, re.IGNORECASE):
            return f"{found}: {advice}"
    return found


def is_passing(error: ProviderError) -> bool:
    """Whether an error of PostgreSQL may be over soon: the same transaction is tried again."""
    cause = error.__cause__
    is_of_postgresql = isinstance(cause, DBAPIError) and hasattr(cause.orig, "sqlstate")
    return is_of_postgresql and isinstance(cause, OperationalError | InterfaceError)


class DatabaseClient:
    """A database as one client uses it. Any thread may, one at a time.

    Args:
        database: that is used.
        client_id: of the client, for error texts.
    """

    def __init__(self, database: Database, client_id: str) -> None:
        self.database = database
        self.dialect = database.dialect
        self.title = database.title
        self._client_id = client_id
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._is_counted = False
        self._is_closed = False

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """All that is executed is done at the end, or nothing is. Re-entrant: the outermost one counts."""
        with self._used():
            if self._connection is not None:
                yield self._connection
                return
            try:
                with self.database.transaction() as connection:
                    self._connection, self._is_counted = connection, False
                    yield connection
            finally:
                self._connection = None

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads, or the one under way."""
        with self._used():
            if self._connection is not None:
                yield self._connection
                return
            with self.database.transaction(reads=True) as connection:
                yield connection

    @contextmanager
    def _used(self) -> Iterator[None]:
        with self._lock:
            if self._is_closed:
                raise ProviderError(
                    f"the connection {self._client_id} is closed, nothing was done: connect anew"
                )
            yield

    def rows(self, statement: Any, parameters: Mapping[str, Any] | None = None) -> Sequence[Any]:
        """The rows of a statement that reads."""
        with self.reading() as connection:
            return connection.execute(statement, parameters).fetchall()

    def first(self, statement: Any, parameters: Mapping[str, Any] | None = None) -> Any:
        """The first column of the first row, or None where there is no row."""
        with self.reading() as connection:
            return connection.execute(statement, parameters).scalar()

    def count_transaction(self, connection: Connection) -> None:
        """The transaction under way lets messages wait: it gets its number."""
        statement = self.dialect.count_transaction
        if statement is not None and not self._is_counted:
            statement.run(connection, {})
            self._is_counted = True

    @property
    def is_locked(self) -> bool:
        """Whether a transaction is under way."""
        return self._connection is not None

    def close(self) -> None:
        """Ends every use. Waits for a transaction under way."""
        with self._lock:
            self._is_closed = True


def add_if_missing(connection: Connection, name: str) -> None:
    """Makes a channel where it is not there."""
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert as insert_on
    else:
        from sqlalchemy.dialects.postgresql import insert as insert_on  # type: ignore[assignment]
    connection.execute(insert_on(tables.channel).on_conflict_do_nothing(), {"name": name})


def records_changed(connection: Connection) -> None:
    """Whoever has read records reads them again."""
    changed = tables.counter.c.value + 1
    connection.execute(update(tables.counter).where(tables.counter.c.name == "records").values(value=changed))
