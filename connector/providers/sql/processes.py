"""Processes that hold something in a PostgreSQL database, and who of them lives.

A lock of the database ends with a connection, not with a process. So each process has a row. While the
process holds something, a thread writes the time of the server into that row (the *beat*). Others take a
process for dead in two cases:

* It is of their machine and has ended.
* Its last beat is older than its lease.

The lease begins anew when the server starts, because no process can beat while the server is down. A process
that was stopped for longer than its lease may go on. So a lease only says when somebody may take over. The
rows that a process wants to change decide what the process may still do (:mod:`.journals`).
"""

from __future__ import annotations

import errno
import functools
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import (
    Connection,
    NullPool,
    Row,
    create_engine,
    func,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError

from connector.errors import ProviderError
from connector.providers.sql.database import Settings, network_options, reason_of
from connector.providers.sql.dialects import dialect_of
from connector.providers.sql.state_schema import NOW, process

LEASE: Final = 30.0
"""Seconds without a beat after which a process is taken for dead."""

_BEATS: Final = 6
"""In a lease."""
_RETRY: Final = 0.1
_RETRY_BEAT: Final = 1.0

T = TypeVar("T")

IS_FRESH: Final = func.coalesce(
    func.greatest(process.c.beat, func.pg_postmaster_start_time())
    + process.c.lease * literal_column("interval '1 second'")
    > NOW,
    literal_column("false"),
)
"""Whether the lease of a process has not ended; false where the process has no row."""

HOLDER: Final = (
    process.c.id.label("process_id"),
    process.c.machine,
    process.c.host,
    process.c.pid,
    process.c.started,
    IS_FRESH.label("is_fresh"),
)
"""What :meth:`ProcessConnection.lives` needs to know of a process."""


@dataclass(frozen=True, slots=True)
class StateSettings:
    """Where the state of applications is. Picklable.

    Args:
        database: of the tables.
        lease: seconds without a beat after which others take a process for dead.
    """

    database: Settings
    lease: float = LEASE


class Hold(Protocol):
    """What a process holds."""

    def restore(self, connection: Connection) -> None:
        """Writes all of it again that no disk was waited for: a server that was killed may have lost it."""


class ProcessConnection:
    """The connection of this process to a database, and its sign of life there. For any thread.

    Statements commit by themselves, and their commits wait for no disk: see :func:`durable`.

    Args:
        settings: of the database.
    """

    def __init__(self, settings: StateSettings) -> None:
        self.settings = settings
        self.id: Final = secrets.token_hex(8)
        self._engine = create_engine(
            settings.database.parsed,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
            connect_args=network_options(settings.database.parsed, settings.lease / 3),
        )
        dialect_of("postgresql").configure(self._engine, schema=settings.database.schema, durable=False)
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._holds: dict[Hold, None] = {}
        self._thread: threading.Thread | None = None
        self._used = time.monotonic()
        self._is_inherited = False

    @classmethod
    def shared(cls, settings: StateSettings) -> ProcessConnection:
        """The one of this process."""
        with _making:
            found = _shared.get(settings)
            if found is None:
                found = _shared[settings] = cls(settings)
        return found

    # -- statements --------------------------------------------------------------------------------

    def call(self, work: Callable[[Connection], T], *, patience: float = 0.0) -> T:
        """What ``work`` returns. It runs again where the connection was lost, so it must be repeatable.

        Args:
            work: is given the connection.
            patience: seconds for which a server that cannot be reached is tried again.

        Raises:
            OSError: nobody knows whether it was done.
        """
        deadline = time.monotonic() + patience
        with self._lock:
            self._used = time.monotonic()
            while True:
                was_open = self._connection is not None
                try:
                    return work(self._connected())
                except (OperationalError, InterfaceError) as error:
                    self._drop()
                    if not was_open and time.monotonic() >= deadline:
                        raise self._failed(error) from error
                except SQLAlchemyError as error:
                    self._drop()
                    raise self._failed(error) from error
                if not was_open:
                    time.sleep(_RETRY)

    def _failed(self, error: SQLAlchemyError) -> OSError:
        return OSError(errno.EIO, reason_of(error), self.settings.database.title)

    def _connected(self) -> Connection:
        if self._is_inherited:
            raise OSError(errno.EBADF, "the connection belongs to the process that has forked this one")
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
        for hold in tuple(self._holds):
            hold.restore(connection)

    def _drop(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(SQLAlchemyError):
                connection.invalidate()
            with suppress(SQLAlchemyError):
                connection.close()

    # -- signs of life -----------------------------------------------------------------------------

    def hold(self, what: Hold) -> None:
        """This process beats from now on, until it has released everything."""
        with self._lock:
            self._holds[what] = None
            if self._thread is None:
                name = f"beat-{self.id}"
                self._thread = threading.Thread(target=self._keep, name=name, daemon=True)
                self._thread.start()

    def release(self, what: Hold) -> None:
        """Ends :meth:`hold`. Repeatable."""
        with self._lock:
            self._holds.pop(what, None)

    def beat(self, connection: Connection) -> None:
        """Says that this process lives."""
        connection.execute(_BEAT, {**_identity(), "id": self.id, "lease": self.settings.lease})

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

    def lives(self, row: Row[Any]) -> bool:
        """Whether a process lives.

        Args:
            row: with the columns :data:`HOLDER`.
        """
        if row.process_id is None:
            return False
        if row.process_id == self.id:
            return True
        if row.machine == this_machine() and start_of(row.pid) != row.started:
            return False
        return bool(row.is_fresh)

    def leave_to_parent(self) -> None:
        """This process was forked: it does not speak in the name of the other one."""
        self._is_inherited = True
        self._lock = threading.RLock()
        if self._connection is not None:
            with suppress(Exception):
                descriptor = self._connection.connection.driver_connection.fileno()  # type: ignore[union-attr]
                os.dup2(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), descriptor, inheritable=False)


_given: Final = insert(process).values(
    {one.name: text(f":{one.name}") for one in process.c if one.name != "beat"}
)
_BEAT: Final = _given.values(beat=NOW).on_conflict_do_update(index_elements=["id"], set_={"beat": NOW})

_shared: dict[StateSettings, ProcessConnection] = {}
_making = threading.Lock()
_inherited: list[ProcessConnection] = []


def _leave_to_parent() -> None:
    global _making
    _making = threading.Lock()
    for one in _shared.values():
        one.leave_to_parent()
        _inherited.append(one)  # to free it would end the connection of the other process
    _shared.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


@contextmanager
def durable(connection: Connection) -> Iterator[None]:
    """All statements within it are one transaction, which is on the disk of the server at the end."""
    connection.exec_driver_sql("BEGIN; SET LOCAL synchronous_commit = on")
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
    """Names the machine until it starts anew, and the container where the process is in one."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"unknown {secrets.token_hex(8)}"


def start_of(pid: int) -> int | None:
    """When a process of this machine was started, in ticks of its clock; None where it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[19]) if fields[0] not in (b"Z", b"X") else None


def _identity() -> dict[str, Any]:
    pid = os.getpid()
    return {
        "machine": this_machine(),
        "host": socket.gethostname(),
        "pid": pid,
        "started": start_of(pid) or 0,
    }


def provider_error(error: OSError) -> ProviderError:
    """What :meth:`ProcessConnection.call` has raised, as an error of the provider."""
    return ProviderError(f"cannot use {error.filename}: {error.strerror}")
