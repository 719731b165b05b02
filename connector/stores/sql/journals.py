"""The journals of tasks in PostgreSQL.

Each task has one row, which the process of the task changes: ``event`` is at work, and ``begun`` tells
whether the delivery was begun. Outcomes are other rows. To take over from a task, a client sets ``given_up``
in the row. A delivery begins with an UPDATE of the same row, which changes nothing after ``given_up``. So the
lock of the row decides, not a clock or a connection.

The writes of a task do not wait for the disk. A killed server loses the last writes. The process of the task
remembers all writes, and repeats them when the server is back. Only three steps wait for the disk: to open a
journal, to close a journal, and to take over.
"""

from __future__ import annotations

import errno
import itertools
import os
import secrets
import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, cast

import orjson
from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, func, select, true, tuple_, update
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.types import BigInteger, LargeBinary

from connector.messaging.state_store import ClientJournals, CycleJournal, JournalHandle, TaskJournal, TaskNote
from connector.stores.sql.database import Settings
from connector.stores.sql.processes import (
    HOLDER,
    StateConnection,
    durable,
    start_of,
    this_machine,
    transaction,
)
from connector.stores.sql.schema import CLOCK, outcome, process, task, task_list
from connector.stores.sql.statement import Statement

_TAKEN_OVER: Final = "another client has taken over from this client"
_RETRY: Final = 0.02
_LONGEST_RETRY: Final = 0.25


@dataclass(frozen=True, slots=True)
class PostgresHandle(JournalHandle):
    journals: PostgresJournals
    batch: int
    place: int
    job: int

    @property
    def key(self) -> dict[str, int]:
        """The columns that name the task in the list of its client."""
        return {"batch": self.batch, "place": self.place, "job": self.job}

    def open(self) -> PostgresJournal:
        return PostgresJournal(self)

    def read(self, into: CycleJournal) -> bool:
        rows = self.journals.tasks([self])
        _add_all(rows, into)
        return any(row.opened is not None for row in rows)


_own: Final = task.c.id == bindparam("task_id")
_at: Final = update(task).where(_own).returning(task.c.id)
_at_work: Final = _at.values(event=bindparam("at"), begun=bindparam("is_begun"), changed=CLOCK)
_AT: Final = Statement("postgresql", _at_work)
_BEGIN: Final = Statement("postgresql", _at_work.where(~task.c.given_up))
_MAY: Final = Statement("postgresql", select(task.c.id).where(_own, ~task.c.given_up))
_CLOSE: Final = Statement("postgresql", _at.values(process=None, event=None, begun=False, changed=CLOCK))


def _insert_outcomes(found: Any) -> Statement:
    """Inserts or replaces the outcomes that a SELECT finds."""
    made = insert(outcome).from_select(["task", "event", "outcome"], found)
    key, value = ["task", "event"], {"outcome": made.excluded.outcome}
    made = made.on_conflict_do_update(index_elements=key, set_=value)
    return Statement("postgresql", made.returning(outcome.c.task))


_finished: Final = bindparam("finished", type_=BigInteger), bindparam("result", type_=LargeBinary)
_DONE: Final = _insert_outcomes(select(_at_work.cte("said").c.id, *_finished))
_here: Final = select(task.c.id).where(_own).with_for_update().cte("here")
_events, _results = (
    bindparam("events", type_=ARRAY(BigInteger)),
    bindparam("results", type_=ARRAY(LargeBinary)),
)
_all: Final = func.unnest(_events, _results).table_valued("event", "outcome").render_derived()
_RESTORE: Final = _insert_outcomes(select(_here.c.id, *_all.c).select_from(_here.join(_all, true())))


class PostgresJournal(TaskJournal):
    """The rows of one task.

    A write waits for a lost server as long as the lease. All writes stay in memory until the journal is
    closed. The journal repeats the writes after each loss of the connection.
    """

    def __init__(self, handle: PostgresHandle) -> None:
        self._connection = handle.journals.connection
        self._client = handle.journals.client
        self._retry_seconds = handle.journals.settings.lease
        self._opened = secrets.token_hex(8)
        self._event: int | None = None
        self._is_begun = False
        self._is_closing = False
        self._outcomes: dict[int, bytes | None] = {}
        self._id = self._connection.call(
            lambda one: self._open(one, handle), retry_seconds=self._retry_seconds
        )
        self._connection.hold(self, self._restore)

    def _open(self, connection: Connection, handle: PostgresHandle) -> int:
        living = select(task_list.c.id).where(handle.journals.condition, ~task_list.c.given_up)
        with durable(connection):
            self._connection.beat(connection)
            number = connection.execute(living.with_for_update(read=True)).scalar()
            if number is None:
                raise FileNotFoundError(errno.ENOENT, _TAKEN_OVER, self._client)
            row = {"list": number, "opened": self._opened, "process": self._connection.id, **handle.key}
            made = insert(task).values(row).on_conflict_do_nothing().returning(task.c.id)
            found = connection.execute(made).scalar()
            if found is None:  # perhaps opened by this object, in a commit that lost its connection
                row.pop("process")
                own = select(task.c.id).where(*(task.c[name] == value for name, value in row.items()))
                found = connection.execute(own).scalar()
            if found is None:
                raise FileExistsError(errno.EEXIST, "this task has run before, or runs now", self._client)
        return int(found)

    def at(self, sequence: int) -> None:
        self._leave()
        self._event, self._is_begun = sequence, False
        self._write(_AT)

    def begin(self, sequence: int) -> None:
        if self._event != sequence:
            self._leave()
        self._event, self._is_begun = sequence, False  # until the row says so
        if not self._write(_BEGIN, is_begun=True):
            raise FileNotFoundError(errno.ENOENT, _TAKEN_OVER, self._client)
        self._is_begun = True

    def check(self) -> None:
        if not self._connection.call(
            lambda one: _MAY.rows(one, {"task_id": self._id}), retry_seconds=self._retry_seconds
        ):
            raise FileNotFoundError(errno.ENOENT, _TAKEN_OVER, self._client)

    def done(
        self, sequence: int, outcome: bytes | None, following: int | None = None, note: bytes = b""
    ) -> None:
        if note and outcome is not None:
            outcome = b"%b\n%b" % (outcome, note)
        self._event, self._is_begun = following, False
        self._outcomes[sequence] = outcome
        self._write(_DONE, finished=sequence, result=outcome)

    def _leave(self) -> None:
        """Keeps the event at work as begun if its delivery was begun and not done."""
        if self._is_begun and self._event is not None:
            self.done(self._event, None)

    def _write(self, statement: Statement, *, is_begun: bool = False, **values: object) -> bool:
        values = {"task_id": self._id, "at": self._event, "is_begun": is_begun, **values}
        rows = self._connection.call(
            lambda one: statement.rows(one, values), retry_seconds=self._retry_seconds
        )
        return bool(rows)

    def _restore(self, connection: Connection) -> None:
        own = {"task_id": self._id}
        if self._outcomes:
            events, results = list(self._outcomes), list(self._outcomes.values())
            _RESTORE.rows(connection, {**own, "events": events, "results": results})
        _AT.rows(connection, {**own, "at": self._event, "is_begun": self._is_begun})
        if self._is_closing:
            self._close(connection)

    def close(self) -> None:
        if self._is_closing:
            return
        with suppress(OSError):
            self._leave()
        self._event, self._is_begun, self._is_closing = None, False, True
        with suppress(OSError):  # _restore() closes the journal when the server is back
            self._connection.call(self._close)

    def _close(self, connection: Connection) -> None:
        with durable(connection):
            _CLOSE.rows(connection, {"task_id": self._id})
        self._connection.release(self)


def _add_all(rows: Iterable[Any], into: CycleJournal) -> None:
    """Adds rows of :meth:`PostgresJournals.tasks` to a journal."""
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
                result, _, note = bytes(row.outcome).partition(b"\n")
                into.done[row.finished] = orjson.loads(result)
                if note:
                    into.notes[row.finished] = orjson.loads(note)


@dataclass(frozen=True, slots=True)
class PostgresJournals(ClientJournals):
    """The journals of a client in the database. Picklable, as a part of handles."""

    settings: Settings
    application: str
    instance: str
    client: str

    @property
    def connection(self) -> StateConnection:
        return StateConnection.of_process(self.settings)

    @property
    def names(self) -> dict[str, str]:
        """The columns that name the task list."""
        return {"application": self.application, "instance": self.instance, "client": self.client}

    @property
    def condition(self) -> ColumnElement[bool]:
        """A condition: the task list belongs to this client."""
        return and_(*(task_list.c[name] == value for name, value in self.names.items()))

    def make(self) -> None:
        made = insert(task_list).values(self.names).on_conflict_do_nothing()
        self.connection.use(lambda connection: connection.execute(made))

    def file(self, batch: int, task: int, number: int) -> PostgresHandle:
        return PostgresHandle(self, batch, task, number)

    def read(self) -> dict[int, CycleJournal]:
        result: dict[int, CycleJournal] = {}
        for batch, rows in itertools.groupby(self.tasks(), key=lambda row: row.batch):
            _add_all(rows, result.setdefault(batch, CycleJournal()))
        return result

    def tasks(self, handles: Iterable[JournalHandle] | None = None) -> Sequence[Any]:
        """Returns the tasks with their outcomes. A task without outcomes has one row.

        Raises:
            OSError: the tasks cannot be read.
        """
        columns = task.c.id, task.c.batch, task.c.opened, task.c.event, task.c.begun
        joined = task_list.join(task, task.c.list == task_list.c.id)
        joined = joined.outerjoin(outcome, outcome.c.task == task.c.id)
        found = select(*columns, outcome.c.event.label("finished"), outcome.c.outcome).select_from(joined)
        found = found.where(self._which(handles)).order_by(task.c.batch, task.c.id, outcome.c.event)
        return self.connection.rows(found)

    def _which(self, handles: Iterable[JournalHandle] | None) -> ColumnElement[bool]:
        """A condition: the task belongs to this client, and has one of the handles. None = any handle."""
        if handles is None:
            return self.condition
        keys = [tuple(key.values()) for key in _keys(handles)]
        return self.condition & tuple_(task.c.batch, task.c.place, task.c.job).in_(keys)

    def seal(self, handles: Iterable[JournalHandle] | None = None) -> None:
        if handles is not None:
            keys = _keys(handles)
            self.connection.call(lambda connection: self._block_tasks(connection, keys))
        else:
            self.connection.call(self._give_up)

    def _block_tasks(self, connection: Connection, keys: Sequence[dict[str, int]]) -> None:
        """Makes the rows of tasks, without a process. Then no process can open these journals."""
        with durable(connection):
            number = connection.execute(select(task_list.c.id).where(self.condition)).scalar()
            if number is not None and keys:
                rows = [{"list": number, **key} for key in keys]
                connection.execute(insert(task).on_conflict_do_nothing(), rows)

    def _give_up(self, connection: Connection) -> None:
        given_up = update(task_list).where(self.condition).values(given_up=True).returning(task_list.c.id)
        with durable(connection):
            number = connection.execute(given_up).scalar()
            # another statement, which sees the tasks that were opened while the first statement waited
            own = update(task).where(task.c.list == number, ~task.c.given_up)
            connection.execute(own.values(given_up=True))

    def wait(self, timeout: float, handles: Iterable[JournalHandle] | None = None) -> bool:
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
        """Returns the tasks whose process lives and has not closed its journal.

        Raises:
            OSError: the tasks cannot be read.
        """
        joined = task_list.join(task, task.c.list == task_list.c.id)
        joined = joined.outerjoin(process, process.c.id == task.c.process)
        since = func.extract("epoch", task.c.changed).label("since")
        found = select(task.c.batch, task.c.event, since, process.c.host, *HOLDER).select_from(joined)
        found = found.where(self._which(handles), task.c.process.is_not(None))
        connection = self.connection
        return [row for row in connection.rows(found.order_by(task.c.id)) if connection.is_alive(row)]

    def end_writers(self) -> None:
        with suppress(OSError):
            for row in self._holders():
                if row.holder_machine == this_machine():
                    _kill(row.holder_pid, row.holder_started)

    def running(self) -> list[TaskNote]:
        try:
            rows = self._holders()
        except OSError:
            return []
        return [TaskNote(row.batch, row.host, row.holder_pid, row.event, float(row.since)) for row in rows]

    def forget(self, batch: int | None = None) -> None:
        self.connection.use(lambda connection: self._remove(connection, batch))

    def _remove(self, connection: Connection, batch: int | None) -> None:
        with transaction(connection):  # or a connection that is lost half-way would leave outcomes for ever
            self._delete(connection, batch)

    def _delete(self, connection: Connection, batch: int | None) -> None:
        own = delete(task).where(task.c.list.in_(select(task_list.c.id).where(self.condition)))
        if batch is not None:
            own = own.where(task.c.batch == batch)
        removed = connection.execute(own.returning(task.c.id)).scalars().all()
        # no process adds outcomes after the rows of the tasks are gone
        if removed:
            connection.execute(delete(outcome).where(outcome.c.task.in_(removed)))
        if batch is None:
            connection.execute(delete(task_list).where(self.condition))


def _keys(handles: Iterable[JournalHandle]) -> list[dict[str, int]]:
    return [cast(PostgresHandle, handle).key for handle in handles]


def _kill(pid: int, started: int) -> None:
    """Ends a process of this machine, but no later process with the same number."""
    with suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            if start_of(pid) == started:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
