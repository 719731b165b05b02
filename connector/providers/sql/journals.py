"""The journals of tasks in PostgreSQL.

Each task has one row, which its process changes: ``event`` is at work, ``begun`` says that its delivery was
begun. Outcomes are rows of their own. To take over from a task is to set ``given_up`` in its row. A delivery
begins with an UPDATE of the same row, which changes nothing once ``given_up`` is set. So the lock of the row
decides, whatever clocks and connections say.

What a task writes waits for no disk. A server that is killed loses the last of it. The process of the task
knows all of it, and writes it again when the server is back. Only three things wait for the disk: to open a
journal, to close it, and to take over.
"""

from __future__ import annotations

import errno
import itertools
import os
import secrets
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import orjson
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    LargeBinary,
    bindparam,
    delete,
    func,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, insert, psycopg

from connector.providers.sql.processes import (
    HOLDER,
    ProcessConnection,
    StateSettings,
    durable,
    provider_error,
    start_of,
    this_machine,
)
from connector.providers.sql.state_schema import NOW, outcome, process, task, task_list
from connector.state.store import CycleJournal, JournalHandle, TaskNote

_TAKEN_OVER: Final = "somebody has taken over from this client"
_RETRY: Final = 0.02
_LONGEST_RETRY: Final = 0.25


@dataclass(frozen=True, slots=True)
class TaskOwner:
    """The client that tasks belong to. Picklable.

    Args:
        settings: of the database.
        application, instance, client: which it is.
    """

    settings: StateSettings
    application: str
    instance: str
    client: str

    @property
    def connection(self) -> ProcessConnection:
        """That of the process that calls."""
        return ProcessConnection.shared(self.settings)

    @property
    def names(self) -> dict[str, str]:
        """The columns that name its task list."""
        return {"application": self.application, "instance": self.instance, "client": self.client}

    @property
    def condition(self) -> ColumnElement[bool]:
        """Which task list is its own."""
        columns = task_list.c
        own = (columns.application == self.application) & (columns.instance == self.instance)
        return own & (columns.client == self.client)


@dataclass(frozen=True, slots=True)
class PostgresHandle:
    """See :class:`connector.state.store.JournalHandle`.

    Args:
        owner: of the task.
        batch, place, job: which it is.
    """

    owner: TaskOwner
    batch: int
    place: int
    job: int

    def open(self) -> PostgresJournal:
        """See :meth:`connector.state.store.JournalHandle.open`."""
        return PostgresJournal(self)

    def read(self, into: CycleJournal) -> bool:
        """See :meth:`connector.state.store.JournalHandle.read`."""
        rows = _read(self.owner, [self])
        _add_all(rows, into)
        return any(row.opened is not None for row in rows)

    @property
    def key(self) -> dict[str, int]:
        """The columns that name the task in the list of its owner."""
        return {"batch": self.batch, "place": self.place, "job": self.job}


_AT: Final = (
    update(task)
    .where(task.c.id == bindparam("task_id"))
    .values(event=bindparam("at"), begun=bindparam("is_begun"), changed=NOW)
)
_BEGIN: Final = _AT.where(~task.c.given_up)
_said = _AT.returning(task.c.id).cte("said")
_FINISHED: Final = insert(outcome).from_select(
    ["task", "event", "outcome"],
    select(
        _said.c.id,
        bindparam("finished", type_=BigInteger),
        bindparam("result", type_=LargeBinary),
    ),
)
_DONE: Final = _FINISHED.on_conflict_do_update(
    index_elements=["task", "event"], set_={"outcome": _FINISHED.excluded.outcome}
)
_here = select(task.c.id).where(task.c.id == bindparam("task_id")).with_for_update().cte("here")
_all: Final = (
    func.unnest(bindparam("events", type_=ARRAY(BigInteger)), bindparam("results", type_=ARRAY(LargeBinary)))
    .table_valued("event", "outcome")
    .render_derived()
)
_RESTORED = insert(outcome).from_select(
    ["task", "event", "outcome"],
    select(_here.c.id, _all.c.event, _all.c.outcome).select_from(_here.join(_all, true())),
)
_RESTORE: Final = _RESTORED.on_conflict_do_update(
    index_elements=["task", "event"], set_={"outcome": _RESTORED.excluded.outcome}
)
_CLOSE: Final = (
    update(task)
    .where(task.c.id == bindparam("task_id"))
    .values(process=None, event=None, begun=False, changed=NOW)
)

_dialect = psycopg.dialect()  # type: ignore[no-untyped-call]
# two of them run for every event: SQLAlchemy takes a quarter of their time unless they are texts
_AT_TEXT, _BEGIN_TEXT, _DONE_TEXT = (str(one.compile(dialect=_dialect)) for one in (_AT, _BEGIN, _DONE))


class PostgresJournal:
    """See :class:`connector.state.store.TaskJournal`.

    A server that cannot be reached is waited for as long as the lease. What was written stays in memory until
    the journal is closed. It is written again after each loss of the connection.

    Args:
        handle: of the journal.

    Raises:
        FileExistsError: this task has run before, or runs now.
        FileNotFoundError: somebody has taken over from this client.
        OSError: the database cannot be used.
    """

    def __init__(self, handle: PostgresHandle) -> None:
        self._connection = handle.owner.connection
        self._client = handle.owner.client
        self._patience = handle.owner.settings.lease
        self._opened = secrets.token_hex(8)
        self._event: int | None = None
        self._is_begun = False
        self._is_closing = False
        self._outcomes: dict[int, bytes | None] = {}
        self._id = self._connection.call(lambda one: self._open(one, handle), patience=self._patience)
        self._connection.hold(self)

    def _open(self, connection: Connection, handle: PostgresHandle) -> int:
        owner = handle.owner
        living = select(task_list.c.id).where(owner.condition, ~task_list.c.given_up)
        with durable(connection):
            self._connection.beat(connection)
            number = connection.execute(living.with_for_update(read=True)).scalar()
            if number is None:
                raise FileNotFoundError(errno.ENOENT, _TAKEN_OVER, owner.client)
            row = {"list": number, "opened": self._opened, "process": self._connection.id, **handle.key}
            made = insert(task).values(row).on_conflict_do_nothing().returning(task.c.id)
            found = connection.execute(made).scalar()
            if found is None:  # somebody has opened it: this object, where a commit had lost its connection
                row.pop("process")
                own = select(task.c.id).where(*(task.c[name] == value for name, value in row.items()))
                found = connection.execute(own).scalar()
            if found is None:
                raise FileExistsError(errno.EEXIST, "this task has run before, or runs now", owner.client)
        return int(found)

    def at(self, sequence: int) -> None:
        """See :meth:`connector.state.store.TaskJournal.at`."""
        self._leave()
        self._event, self._is_begun = sequence, False
        self._write(_AT_TEXT)

    def begin(self, sequence: int) -> None:
        """See :meth:`connector.state.store.TaskJournal.begin`."""
        if self._event != sequence:
            self._leave()
        self._event, self._is_begun = sequence, False  # until the row says so
        if not self._write(_BEGIN_TEXT, is_begun=True):
            raise FileNotFoundError(errno.ENOENT, _TAKEN_OVER, self._client)
        self._is_begun = True

    def done(self, sequence: int, outcome: bytes, following: int | None = None) -> None:
        """See :meth:`connector.state.store.TaskJournal.done`."""
        self._finish(sequence, outcome, following)

    def _finish(self, sequence: int, result: bytes | None, following: int | None) -> None:
        self._event, self._is_begun = following, False
        self._outcomes[sequence] = result
        self._write(_DONE_TEXT, finished=sequence, result=result)

    def _leave(self) -> None:
        """An event that was begun, and of which nobody says that it is done, stays begun."""
        if self._is_begun and self._event is not None:
            self._finish(self._event, None, None)

    def _write(self, statement: str, *, is_begun: bool = False, **values: object) -> int:
        values = {"task_id": self._id, "at": self._event, "is_begun": is_begun, **values}
        return self._connection.call(
            lambda connection: connection.exec_driver_sql(statement, values).rowcount, patience=self._patience
        )

    def restore(self, connection: Connection) -> None:
        """See :class:`connector.providers.sql.processes.Hold`."""
        state = {"task_id": self._id, "at": self._event, "is_begun": self._is_begun}
        if self._outcomes:
            events, results = list(self._outcomes), list(self._outcomes.values())
            connection.execute(_RESTORE, {"task_id": self._id, "events": events, "results": results})
        connection.execute(_AT, state)
        if self._is_closing:
            self._close(connection)

    def close(self) -> None:
        """See :meth:`connector.state.store.TaskJournal.close`.

        What cannot be written now is written when the server is back.
        """
        if self._is_closing:
            return
        with suppress(OSError):
            self._leave()
        self._event, self._is_begun, self._is_closing = None, False, True
        with suppress(OSError):
            self._connection.call(self._close)

    def _close(self, connection: Connection) -> None:
        with durable(connection):
            connection.execute(_CLOSE, {"task_id": self._id})
        self._connection.release(self)


def _read(owner: TaskOwner, handles: Iterable[JournalHandle] | None = None) -> Sequence[Any]:
    """The tasks of a client with their outcomes: a row for each, and one for a task that has none.

    Raises:
        OSError: they cannot be read.
    """
    columns = task.c.id, task.c.batch, task.c.opened, task.c.event, task.c.begun
    joined = task_list.join(task, task.c.list == task_list.c.id).outerjoin(
        outcome, outcome.c.task == task.c.id
    )
    found = select(*columns, outcome.c.event.label("finished"), outcome.c.outcome).select_from(joined)
    found = found.where(_which(owner, handles)).order_by(task.c.batch, task.c.id, outcome.c.event)
    return owner.connection.call(lambda connection: connection.execute(found).fetchall())


def _which(owner: TaskOwner, handles: Iterable[JournalHandle] | None) -> ColumnElement[bool]:
    """Of the tasks of a client: all, or those of some handles."""
    if handles is None:
        return owner.condition
    keys = [tuple(handle.key.values()) for handle in _own(handles)]
    return owner.condition & tuple_(task.c.batch, task.c.place, task.c.job).in_(keys)


def _own(handles: Iterable[JournalHandle]) -> Iterator[PostgresHandle]:
    for handle in handles:
        assert isinstance(handle, PostgresHandle)
        yield handle


def _add_all(rows: Iterable[Any], into: CycleJournal) -> None:
    """Adds what rows of :func:`_read` say."""
    seen = None
    for row in rows:
        if row.id != seen and row.event is not None:
            into.at_work[row.event] = into.at_work.get(row.event, 0) + 1
            if row.begun:
                into.begun[row.event] = into.begun.get(row.event, 0) + 1
        seen = row.id
        if row.finished is not None:
            into.begun[row.finished] = into.begun.get(row.finished, 0) + 1
            if row.outcome is not None:
                into.done[row.finished] = orjson.loads(row.outcome)


class PostgresJournals:
    """See :class:`connector.state.store.ClientJournals`.

    Args:
        owner: of the tasks.
    """

    def __init__(self, owner: TaskOwner) -> None:
        self._owner = owner

    def make(self) -> None:
        """See :meth:`connector.state.store.ClientJournals.make`."""
        made = insert(task_list).values(self._owner.names).on_conflict_do_nothing()
        try:
            self._owner.connection.call(lambda connection: connection.execute(made))
        except OSError as error:
            raise provider_error(error) from error

    def file(self, batch: int, task: int, number: int) -> PostgresHandle:
        """See :meth:`connector.state.store.ClientJournals.file`."""
        return PostgresHandle(self._owner, batch, task, number)

    def read(self) -> dict[int, CycleJournal]:
        """See :meth:`connector.state.store.ClientJournals.read`."""
        result: dict[int, CycleJournal] = {}
        for batch, rows in itertools.groupby(_read(self._owner), key=lambda row: row.batch):
            _add_all(rows, result.setdefault(batch, CycleJournal()))
        return result

    def seal(self, handles: Iterable[JournalHandle] | None = None) -> None:
        """See :meth:`connector.state.store.ClientJournals.seal`. A row without a process keeps a task off."""
        if handles is not None:
            keys = [handle.key for handle in _own(handles)]
            self._owner.connection.call(lambda connection: self._keep_off(connection, keys))
        else:
            self._owner.connection.call(self._give_up)

    def _keep_off(self, connection: Connection, keys: Sequence[dict[str, int]]) -> None:
        with durable(connection):
            number = connection.execute(select(task_list.c.id).where(self._owner.condition)).scalar()
            if number is not None and keys:
                rows = [{"list": number, **key} for key in keys]
                connection.execute(insert(task).on_conflict_do_nothing(), rows)

    def _give_up(self, connection: Connection) -> None:
        lists = update(task_list).where(self._owner.condition).values(given_up=True).returning(task_list.c.id)
        with durable(connection):
            number = connection.execute(lists).scalar()
            # a statement of its own: it sees the tasks that were opened while the one before waited for them
            connection.execute(
                update(task).where(task.c.list == number, ~task.c.given_up).values(given_up=True)
            )

    def wait(self, timeout: float, handles: Iterable[JournalHandle] | None = None) -> bool:
        """See :meth:`connector.state.store.ClientJournals.wait`."""
        deadline = time.monotonic() + timeout
        pause = _RETRY
        known = None if handles is None else list(handles)
        while self._holders(known):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_RETRY)
        return True

    def _holders(self, handles: Iterable[JournalHandle] | None = None) -> list[Any]:
        """The tasks whose process lives and has not closed its journal.

        Raises:
            OSError: they cannot be read.
        """
        joined = task_list.join(task, task.c.list == task_list.c.id)
        joined = joined.outerjoin(process, process.c.id == task.c.process)
        since = func.extract("epoch", task.c.changed).label("since")
        found = select(task.c.batch, task.c.event, since, *HOLDER).select_from(joined)
        found = found.where(_which(self._owner, handles), task.c.process.is_not(None))
        connection = self._owner.connection
        rows = connection.call(lambda one: one.execute(found.order_by(task.c.id)).fetchall())
        return [row for row in rows if connection.lives(row)]

    def end_writers(self) -> None:
        """See :meth:`connector.state.store.ClientJournals.end_writers`."""
        with suppress(OSError):
            for row in self._holders():
                if row.machine == this_machine():
                    _kill(row.pid, row.started)

    def running(self) -> list[TaskNote]:
        """See :meth:`connector.state.store.ClientJournals.running`."""
        try:
            rows = self._holders()
        except OSError:
            return []
        return [TaskNote(row.batch, row.host, row.pid, row.event, float(row.since)) for row in rows]

    def forget(self, batch: int | None = None) -> None:
        """See :meth:`connector.state.store.ClientJournals.forget`."""
        try:
            self._owner.connection.call(lambda connection: self._remove(connection, batch))
        except OSError as error:
            raise provider_error(error) from error

    def _remove(self, connection: Connection, batch: int | None) -> None:
        own = delete(task).where(task.c.list.in_(select(task_list.c.id).where(self._owner.condition)))
        if batch is not None:
            own = own.where(task.c.batch == batch)
        removed = connection.execute(own.returning(task.c.id)).scalars().all()
        # after the rows of the tasks are gone nobody adds to their outcomes
        if removed:
            connection.execute(delete(outcome).where(outcome.c.task.in_(removed)))
        if batch is None:
            connection.execute(delete(task_list).where(self._owner.condition))


def _kill(pid: int, started: int) -> None:
    """Ends a process of this machine, and no other one that has got its number since."""
    with suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            if start_of(pid) == started:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
