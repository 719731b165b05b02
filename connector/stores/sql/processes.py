"""Processes that hold clients, journals or names in a PostgreSQL database, and the liveness of processes.

A lock of the database ends with a connection, not with a process. So each process has a row. While the
process holds anything, a thread writes the time of the server into that row (the *beat*). Other processes
take a process for dead in two cases:

* The process ran on the same machine, and has ended.
* The last beat is older than the lease of the process.

The lease begins anew when the server starts, because no process can beat while the server is down. A process
that was stopped for longer than its lease may go on. So a lease only says when another process may take over.
The rows that a process wants to change decide whether the change is allowed (:mod:`.journals`).
"""

from __future__ import annotations

import errno
import functools
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, NullPool, Row, create_engine, func, literal_column
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError

from connector.databases.urls import network_options, reason_of
from connector.errors import ProviderError
from connector.stores.sql.database import Settings
from connector.stores.sql.dialects import dialect_of
from connector.stores.sql.schema import CLOCK, process

_BEATS: Final = 6
"""Beats in the time of a lease."""
_RETRY: Final = 0.1
_RETRY_BEAT: Final = 1.0

T = TypeVar("T")

_LEASE_END: Final = func.greatest(
    process.c.beat, func.pg_postmaster_start_time()
) + process.c.lease * literal_column("interval '1 second'")
HOLDER: Final = (
    process.c.id.label("holder"),
    process.c.machine.label("holder_machine"),
    process.c.pid.label("holder_pid"),
    process.c.started.label("holder_started"),
    (_LEASE_END > CLOCK).label("is_fresh"),
)
"""Columns for :meth:`StateConnection.is_alive`. All are NULL for a process without a row."""


Restore = Callable[[Connection], object]
"""Repeats the writes that did not wait for the disk. A killed server may have lost these writes."""


class StateConnection:
    """The connection of this process to a database, and its sign of life there. For any thread.

    Each statement is a transaction, whose commit does not wait for the disk (see :func:`durable`).
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.id: Final = secrets.token_hex(8)
        self._engine = create_engine(
            settings.parsed,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
            connect_args=network_options(settings.parsed, settings.lease / 3),
        )
        dialect_of("postgresql").configure(
            self._engine, schema=settings.schema, durable=False, busy=settings.busy
        )
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._holds: dict[object, Restore | None] = {}
        self._thread: threading.Thread | None = None
        self._used = time.monotonic()
        self._is_inherited = False

    @classmethod
    def of_process(cls, settings: Settings) -> StateConnection:
        """Returns the connection of this process."""
        with _making:
            found = _shared.get(settings)
            if found is None:
                found = _shared[settings] = cls(settings)
        return found

    def call(self, work: Callable[[Connection], T], *, retry_seconds: float = 0.0) -> T:
        """Returns the result of ``work``, which must be repeatable: it runs again after a lost connection.

        Args:
            retry_seconds: to wait for a server that cannot be reached.

        Raises:
            OSError: the work may be done or not.
        """
        deadline = time.monotonic() + retry_seconds
        with self._lock:
            self._used = time.monotonic()
            while True:
                was_open = self._connection is not None
                try:
                    return work(self._connect())
                except (OperationalError, InterfaceError) as error:
                    self._drop()
                    if not was_open and time.monotonic() >= deadline:
                        raise self._error_of(error) from error
                except SQLAlchemyError as error:
                    self._drop()
                    raise self._error_of(error) from error
                if not was_open:
                    time.sleep(_RETRY)

    def rows(self, statement: Any) -> Sequence[Any]:
        """Returns the rows of a statement. Raises as :meth:`call` does."""
        return self.call(lambda connection: connection.execute(statement).fetchall())

    def use(self, work: Callable[[Connection], T]) -> T:
        """As :meth:`call`, for callers outside of a task.

        Raises:
            ProviderError: the work may be done or not.
        """
        try:
            return self.call(work)
        except OSError as error:
            raise ProviderError(f"cannot use {error.filename}: {error.strerror}") from error

    def _error_of(self, error: SQLAlchemyError) -> OSError:
        return OSError(errno.EIO, reason_of(error), self.settings.title)

    def _connect(self) -> Connection:
        if self._is_inherited:
            reason = "the connection belongs to the process that has forked this one"
            raise OSError(errno.EBADF, reason, self.settings.title)
        if self._connection is None:
            connection = self._engine.connect()
            try:
                self._restore(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _restore(self, connection: Connection) -> None:
        if self._holds:
            self.beat(connection)
        for restore in tuple(self._holds.values()):
            if restore is not None:
                restore(connection)

    def _drop(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(SQLAlchemyError):
                connection.invalidate()
            with suppress(SQLAlchemyError):
                connection.close()

    def hold(self, what: object, restore: Restore | None = None) -> None:
        """Lets this process beat until everything is released. A new connection begins with ``restore``."""
        with self._lock:
            self._holds[what] = restore
            if self._thread is None:
                name = f"beat-{self.id}"
                self._thread = threading.Thread(target=self._keep, name=name, daemon=True)
                self._thread.start()

    def release(self, what: object) -> None:
        """Ends :meth:`hold`. Repeatable."""
        with self._lock:
            self._holds.pop(what, None)

    def beat(self, connection: Connection) -> None:
        """Writes the sign of life of this process."""
        own = {"host": socket.gethostname(), "pid": os.getpid(), "started": start_of(os.getpid()) or 0}
        values = {"id": self.id, "machine": this_machine(), "lease": self.settings.lease, **own}
        connection.execute(_BEAT, values)

    def _keep(self) -> None:
        pause = self.settings.lease / _BEATS
        while True:
            time.sleep(pause)
            pause = self.settings.lease / _BEATS
            with self._lock:
                if self._is_inherited:
                    return
                if not self._holds:
                    if time.monotonic() - self._used > self.settings.lease:
                        self._drop()
                        self._thread = None
                        return
                    continue
                used = self._used
                try:
                    self.call(self.beat)
                except OSError:
                    pause = _RETRY_BEAT
                finally:
                    self._used = used

    def is_alive(self, row: Row[Any]) -> bool:
        """Whether a process lives.

        Args:
            row: with the columns :data:`HOLDER`.
        """
        if row.holder is None:
            return False
        if row.holder == self.id:
            return True
        if row.holder_machine == this_machine() and start_of(row.holder_pid) != row.holder_started:
            return False
        return bool(row.is_fresh)

    def leave_to_parent(self) -> None:
        """Ends the use of this object in a forked process. The connection belongs to the parent."""
        self._is_inherited = True
        self._lock = threading.RLock()
        if self._connection is not None:
            with suppress(Exception):
                descriptor = self._connection.connection.driver_connection.fileno()  # type: ignore[union-attr]
                os.dup2(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), descriptor, inheritable=False)


_BEAT: Final = (
    insert(process).values(beat=CLOCK).on_conflict_do_update(index_elements=["id"], set_={"beat": CLOCK})
)

_shared: dict[Settings, StateConnection] = {}
_making = threading.Lock()
_inherited: list[StateConnection] = []


def _leave_to_parent() -> None:
    global _making
    _making = threading.Lock()
    for one in _shared.values():
        one.leave_to_parent()
        _inherited.append(one)  # to free the object would end the connection of the parent
    _shared.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


@contextmanager
def durable(connection: Connection) -> Iterator[None]:
    """A transaction on a :class:`StateConnection`, which is on the disk of the server at its end."""
    with transaction(connection, "BEGIN; SET LOCAL synchronous_commit = on"):
        yield


@contextmanager
def transaction(connection: Connection, begin: str = "BEGIN") -> Iterator[None]:
    """A transaction of several statements on a :class:`StateConnection`."""
    connection.exec_driver_sql(begin)
    try:
        yield
        connection.exec_driver_sql("COMMIT")
    except SQLAlchemyError:
        raise  # the connection is dropped
    except BaseException:
        connection.exec_driver_sql("ROLLBACK")
        raise


@functools.cache
def this_machine() -> str:
    """Returns a name for the machine until its next start, different in each container."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"unknown {secrets.token_hex(8)}"


def start_of(pid: int) -> int | None:
    """Returns the start of a process of this machine, in clock ticks. None = the process has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[19]) if fields[0] not in (b"Z", b"X") else None
