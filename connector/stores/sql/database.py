"""A database: its URL, its connections, its transactions and its errors."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

from connector import own_files
from connector.databases.urls import at, is_mistake, network_options, reason_of, title_of
from connector.errors import ProviderError, ProviderMisconfigured
from connector.stores.sql import schema as tables
from connector.stores.sql.dialects import READ_ONLY, Dialect, dialect_of
from connector.stores.sql.json_columns import read_json, write_json
from connector.stores.sql.statements import statements_of
from connector.stores.sql.turns import Turns

_NETWORK_SECONDS: Final = 10.0
"""After which the connection to a host that does not answer is lost."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Place and use of a database. Picklable.

    Args:
        url: of the database, with the password.
        schema: of PostgreSQL. None = the first schema of the user's search path.
        pool_size: connections that a process keeps open.
        durable: whether a commit is on the disk when it returns.
        lease: seconds without a sign of life after which a process on PostgreSQL counts as dead.
        busy: seconds that a statement waits for the lock of another process on a SQLite file.
    """

    url: str
    schema: str | None = None
    pool_size: int = 5
    durable: bool = True
    lease: float = 30.0
    busy: float = 30.0

    def __repr__(self) -> str:
        return f"Settings({self.title!r})"  # never the password

    def at(self, directory: str | os.PathLike[str]) -> Settings:
        """Returns these settings with an absolute path of the SQLite file."""
        return replace(self, url=at(self.parsed, directory).render_as_string(hide_password=False))

    @property
    def parsed(self) -> URL:
        return make_url(self.url)

    @property
    def title(self) -> str:
        """The database in texts: the file of SQLite, or the URL without the password."""
        return title_of(self.parsed)

    @property
    def file(self) -> str | None:
        """The absolute path of the SQLite file. None for PostgreSQL."""
        url = self.parsed
        return os.path.abspath(url.database or "") if url.get_backend_name() == "sqlite" else None


class CommitAnswerLost(ProviderError):
    """The connection was lost during a commit. The commit may have happened."""


class MessageDatabase:
    """The connections of one process to a database. The first use connects."""

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
            json_deserializer=read_json,
            **options,
        )
        self.dialect: Dialect = dialect_of(self.engine.dialect.name)
        self.dialect.configure(
            self.engine, schema=settings.schema, durable=settings.durable, busy=settings.busy
        )
        self._in_use: Callable[[], AbstractContextManager[None]] = nullcontext
        self._turn: Callable[[], AbstractContextManager[None]] = nullcontext
        if is_sqlite:
            self._reading = self.engine
            self._in_use = _no_fork
            self._turn = Turns(f"{settings.file}.clients", f"{settings.file}.turn", settings.busy).turn
            _sqlite_engines.add(self.engine)
        else:  # to read needs no BEGIN and COMMIT, each of which is a message to the server
            self._reading = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        weakref.finalize(self, _dispose, self.engine, os.getpid())

    def prepare(self, *, make: bool) -> bool:
        """Checks the tables. Makes missing tables if ``make``. Returns whether the tables exist.

        Raises:
            ProviderError: the database cannot be reached, or a newer program has made its tables.
        """
        if self._is_prepared:
            return True
        file = self.settings.file
        if file is not None and not os.path.exists(file):
            if not make:
                return False
            try:
                own_files.make_directories(os.path.dirname(file))
                own_files.make_file(file)  # SQLite gives its other files the same mode
            except OSError as error:
                raise ProviderError(
                    f"cannot make {error.filename}: {error.strerror}; give this user the right to write there"
                ) from error
        with self.transaction(reads=not make) as connection:
            self._is_prepared = tables.prepare(connection, self.title, self.settings.schema, make=make)
        return self._is_prepared

    @contextmanager
    def transaction(self, *, reads: bool = False) -> Iterator[Connection]:
        """A transaction: all statements take effect at the end, or none.

        Raises:
            CommitAnswerLost: the commit may have happened.
            ProviderError: nothing has happened.
        """
        is_committing = False
        try:
            with (
                self._in_use(),
                nullcontext() if reads else self._turn(),
                (self._reading if reads else self.engine).connect() as connection,
            ):
                if reads:
                    connection.execution_options(**{READ_ONLY: True})
                with connection.begin() as transaction:
                    yield connection
                    is_committing = True
                    transaction.commit()
                    is_committing = False
        except SQLAlchemyError as error:
            if is_committing and isinstance(error, DBAPIError) and error.connection_invalidated:
                raise CommitAnswerLost(
                    f"the connection to {self.title} was lost in a commit, which may have happened: "
                    f"{reason_of(error)}"
                ) from error
            failure = ProviderMisconfigured if is_mistake(error) else ProviderError
            raise failure(f"cannot use {self.title}: {reason_of(error)}") from error

    @classmethod
    def of_process(cls, settings: Settings) -> MessageDatabase:
        """Returns the database that all tasks of this process share."""
        key = os.getpid(), settings
        with _making:
            if key not in _shared:
                _shared[key] = cls(settings)
            _shared[key].prepare(make=True)
        return _shared[key]


_making: Final = threading.RLock()
_shared: Final[dict[tuple[int, Settings], MessageDatabase]] = {}


def _dispose(engine: Engine, pid: int) -> None:
    """Closes the connections of an engine. A forked child leaves them to its parent."""
    engine.dispose(close=os.getpid() == pid)


# -- forks -----------------------------------------------------------------------------------------
# SQLite remembers its locks in the memory of the process, and a forked process gets none of the locks. So no
# connection to a SQLite file is open during a fork.

_sqlite_engines: Final[weakref.WeakSet[Engine]] = weakref.WeakSet()
_forks: Final = threading.Condition(threading.RLock())
_users: Final[dict[int, int]] = {}
"""Thread -> the number of its nested uses of connections."""


@contextmanager
def _no_fork() -> Iterator[None]:
    """Delays forks by other threads while this thread uses a connection."""
    thread = threading.get_ident()
    with _forks:
        _users[thread] = _users.get(thread, 0) + 1
    try:
        yield
    finally:
        with _forks:
            _users[thread] -= 1
            if not _users[thread]:
                del _users[thread]
            _forks.notify_all()


def _before_fork() -> None:
    _forks.acquire()
    own = threading.get_ident()
    _forks.wait_for(lambda: not _users.keys() - {own})
    for engine in tuple(_sqlite_engines):
        engine.dispose()


def _after_fork() -> None:
    for thread in _users.keys() - {threading.get_ident()}:
        del _users[thread]
    _forks.release()


os.register_at_fork(before=_before_fork, after_in_parent=_forks.release, after_in_child=_after_fork)

# -- texts -----------------------------------------------------------------------------------------


def is_passing(error: ProviderError) -> bool:
    """Whether an error of PostgreSQL may be over soon: the same transaction is tried again."""
    cause = error.__cause__
    is_of_postgresql = isinstance(cause, DBAPIError) and hasattr(cause.orig, "sqlstate")
    return is_of_postgresql and isinstance(cause, OperationalError | InterfaceError)


class DatabaseClient:
    """A database as one client uses it, one thread at a time.

    Args:
        client_id, application: of the client. Empty for a client that only looks.
    """

    def __init__(self, database: MessageDatabase, client_id: str = "", application: str = "") -> None:
        self.database = database
        self.dialect = database.dialect
        self.statements = statements_of(database.dialect.name)
        self.title = database.title
        self.client_id = client_id
        self.application = application
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._is_counted = False
        self._after: list[Callable[[], object]] = []
        self._is_closed = False

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction. A nested one is part of the outermost transaction."""
        with self._use():
            if self._connection is not None:
                yield self._connection
                return
            try:
                with self.database.transaction() as connection:
                    self._connection, self._is_counted, self._after = connection, False, []
                    yield connection
            finally:
                self._connection = None
            for call in self._after:
                call()

    @contextmanager
    def read_transaction(self) -> Iterator[Connection]:
        """A transaction that only reads, or the transaction under way."""
        with self._use():
            if self._connection is not None:
                yield self._connection
                return
            with self.database.transaction(reads=True) as connection:
                yield connection

    @contextmanager
    def _use(self) -> Iterator[None]:
        with self._lock:
            if self._is_closed:
                raise ProviderError(
                    f"the connection {self.client_id} is closed, nothing was done: connect anew"
                )
            yield

    def rows(self, statement: Any, parameters: Mapping[str, Any] | None = None) -> Sequence[Any]:
        with self.read_transaction() as connection:
            return connection.execute(statement, parameters).fetchall()

    def first(self, statement: Any, parameters: Mapping[str, Any] | None = None) -> Any:
        """Returns the first column of the first row. None = there is no row."""
        with self.read_transaction() as connection:
            return connection.execute(statement, parameters).scalar()

    def count_transaction(self, connection: Connection) -> None:
        """Numbers the transaction under way, because messages wait after it."""
        statement = self.statements.count_transaction
        if statement is not None and not self._is_counted:
            statement.run(connection, {})
            self._is_counted = True

    def after_commit(self, call: Callable[[], object]) -> None:
        """Calls ``call`` after the transaction under way, unless that fails. Without one calls it at once."""
        if self._connection is None:
            call()
        else:
            self._after.append(call)

    @property
    def is_locked(self) -> bool:
        """Whether a transaction is under way."""
        return self._connection is not None

    def close(self) -> None:
        """Refuses further use. Waits for a transaction under way."""
        with self._lock:
            self._is_closed = True
