"""The state of the instances of an application: beside a SQLite file, or in tables of PostgreSQL."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Text,
    cast,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects import postgresql

from connector.errors import ProviderError, ProviderMisconfigured
from connector.messaging.state_store import (
    CallLimits,
    CallRecord,
    Control,
    ControlRecord,
    HeldInstance,
    InstanceNote,
    KeptCall,
    PublishedIds,
    StateStore,
)
from connector.state.directory import StateDirectory, own_folder
from connector.stores.sql.database import DatabaseClient, MessageDatabase, Settings
from connector.stores.sql.history_table import PostgresHistory
from connector.stores.sql.journals import PostgresJournals
from connector.stores.sql.messages import write_key
from connector.stores.sql.processes import HOLDER, StateConnection, durable, this_machine
from connector.stores.sql.schema import CLOCK, counter, in_flight, instance, process, published, record

_log: Final = logging.getLogger("connector.state")
_RETRY: Final = 0.2
_CALLS_BETWEEN: Final = 100
"""New calls between two removals of old calls."""
_OLD: Final[ColumnElement[Any]] = literal_column("interval '1 day'")
"""The age of a last beat after which the row of a process is removed."""
_PRUNED: Final = 10_000
"""Keys that are reserved between two removals of old keys."""
_HELD: Final = instance.outerjoin(process, process.c.id == instance.c.process)


class SqliteState(StateDirectory):
    """Journals and names in a directory, and the window in the database."""

    def __init__(
        self, directory: str, database: Callable[[], MessageDatabase], application: str, *, durable: bool
    ) -> None:
        super().__init__(os.path.join(directory, own_folder(application)), durable=durable)
        self._database = database
        self._application = application

    def window(self, client_id: str, size: int) -> SqlWindow:
        return SqlWindow(self._database(), self._application, client_id, size)


class PostgresState(StateStore):
    """The state in tables. ``database`` makes the tables, if allowed."""

    def __init__(self, settings: Settings, database: Callable[[], MessageDatabase], application: str) -> None:
        self._settings = settings
        self._database = database
        self._application = application

    def instance(self, wanted: str | None) -> PostgresInstance:
        self._database()  # makes the tables
        return PostgresInstance(StateConnection.of_process(self._settings), self._application, wanted)

    def instances(self) -> list[InstanceNote]:
        found = select(instance.c.name, instance.c.note, *HOLDER).select_from(_HELD)
        found = found.where(instance.c.application == self._application).order_by(instance.c.name)
        connection = StateConnection.of_process(self._settings)
        try:
            rows = connection.rows(found)
        except OSError:
            return []
        return [InstanceNote(row.name, connection.is_alive(row), row.note) for row in rows]

    def journals(self, client_id: str, instance: str) -> PostgresJournals:
        self._database()  # makes the tables
        return PostgresJournals(self._settings, self._application, instance, client_id)

    def window(self, client_id: str, size: int) -> SqlWindow:
        return SqlWindow(self._database(), self._application, client_id, size)

    def control(self) -> PostgresControl:
        return PostgresControl(self._database, self._application)

    def calls(self, limits: CallLimits) -> PostgresCalls:
        return PostgresCalls(self._settings, self._database, self._application, limits)

    def history(self, instance: str = "") -> PostgresHistory:
        return PostgresHistory(self._settings, self._database, self._application)


class PostgresControl(ControlRecord):
    """A row of the table ``record``."""

    def __init__(self, database: Callable[[], MessageDatabase], application: str) -> None:
        self._database = database
        self._key = {"kind": "control", "of": application, "key": ""}
        self._own = (record.c.kind == "control") & (record.c.of == application) & (record.c.key == "")

    def read(self) -> Control:
        return self._parse(DatabaseClient(self._database()).first(select(record.c.data).where(self._own)))

    def _parse(self, values: Any) -> Control:
        try:
            return Control.from_json(values) if values else Control()
        except (TypeError, KeyError) as error:
            raise ProviderError(f"cannot read the control of {self._key['of']}: {error}") from error

    @contextmanager
    def change(self) -> Iterator[Control]:
        new = postgresql.insert(record).values({**self._key, "data": {}}).on_conflict_do_nothing()
        with DatabaseClient(self._database()).transaction() as connection:
            connection.execute(new)
            held = select(record.c.data).where(self._own).with_for_update()
            control = self._parse(connection.execute(held).scalar_one())
            before = control.to_json()
            yield control
            after = control.to_json()
            if after != before:
                connection.execute(update(record).where(self._own).values(data=after))


class PostgresCalls(CallRecord):
    """Rows of the table ``record``. Their owner is the process that has begun the call."""

    _open: ClassVar[set[str]] = set()
    """The records of this process that are not closed."""

    def __init__(
        self,
        settings: Settings,
        database: Callable[[], MessageDatabase],
        application: str,
        limits: CallLimits,
    ) -> None:
        self._settings = settings
        self._database = database
        self._all = (record.c.kind == "call") & (record.c.of == application)
        self._new = {"kind": "call", "of": application}
        self._limits = limits
        self._life = secrets.token_hex(8)
        self._begun = 0

    def begin(self, key: str, fingerprint: str) -> KeptCall | None:
        own = self._all & (record.c.key == key)
        process_connection = StateConnection.of_process(self._settings)
        now = time.time()
        with DatabaseClient(self._database()).transaction() as connection:
            if self._life not in self._open:
                self._open.add(self._life)
                process_connection.hold(self)
                process_connection.beat(connection)
            data = {"fingerprint": fingerprint, "at": now, "life": self._life}
            values = {**self._new, "key": key, "owner": process_connection.id, "data": data}
            new = postgresql.insert(record).values(values).on_conflict_do_nothing()
            if connection.execute(new.returning(record.c.number)).first() is not None:
                self._begun += 1
                if self._begun % _CALLS_BETWEEN == 1:
                    self._remove_old(connection)
                return None
            holder = record.outerjoin(process, process.c.id == record.c.owner)
            found = select(record.c.data, *HOLDER).select_from(holder).where(own)
            row = connection.execute(found.with_for_update(of=record)).one()
            kept = row.data
            is_at_work = "life" in kept and process_connection.is_alive(row)
            if row.holder == process_connection.id:  # perhaps of a record that this process has closed
                is_at_work = kept.get("life") in self._open
            if not is_at_work and kept["at"] <= now - self._limits.seconds:
                connection.execute(update(record).where(own).values(values))
                return None
        return KeptCall(kept["fingerprint"], is_at_work, kept.get("status", 0), kept.get("body", "").encode())

    def finish(self, key: str, fingerprint: str, status: int, body: bytes) -> None:
        data = {"fingerprint": fingerprint, "at": time.time(), "status": status, "body": body.decode()}
        with DatabaseClient(self._database()).transaction() as connection:
            own = self._all & (record.c.key == key)
            connection.execute(update(record).where(own).values(data=data, owner=None))

    def forget(self, key: str) -> None:
        with DatabaseClient(self._database()).transaction() as connection:
            connection.execute(delete(record).where(self._all & (record.c.key == key)))

    def close(self) -> None:
        self._open.discard(self._life)
        StateConnection.of_process(self._settings).release(self)

    def _remove_old(self, connection: Connection) -> None:
        ended = self._all & record.c.owner.is_(None)
        newest = record.c.number.desc()
        size = func.sum(func.length(cast(record.c.data, Text))).over(order_by=newest)
        position = func.row_number().over(order_by=newest)
        counted = select(record.c.number, position.label("position"), size.label("size"))
        old = counted.where(ended).subquery()
        beyond = select(old.c.number).where(
            (old.c.position > self._limits.number) | (old.c.size > self._limits.size)
        )
        over = record.c.data["at"].as_float() <= time.time() - self._limits.seconds
        left = ended | record.c.owner.not_in(select(process.c.id))
        connection.execute(delete(record).where(self._all, (left & over) | record.c.number.in_(beyond)))


class PostgresInstance(HeldInstance):
    def __init__(self, connection: StateConnection, application: str, wanted: str | None) -> None:
        self._connection = connection
        self._application = application
        self._hold = secrets.token_hex(8)
        own = {"host": socket.gethostname(), "pid": os.getpid(), "started": round(time.time(), 3)}
        self._own: dict[str, Any] = own
        self.name = host = wanted or socket.gethostname() or "instance"
        number = 1
        connection.hold(self)
        try:
            while (holder := connection.use(self._take)) is not None:
                if wanted is not None:
                    self._wait_for_name(holder)
                    return
                number += 1
                self.name = f"{host}-{number}"
        except BaseException:
            connection.release(self)
            raise

    def _wait_for_name(self, holder: Row[Any]) -> None:
        """Takes the name of a process that has died on another machine, when its lease has ended.

        Raises:
            ProviderError: the process lives, because it is of this machine or beats again.
        """
        if holder.holder_machine != this_machine():
            fields = {"instance": self.name, "host": holder.host, "pid": holder.holder_pid}
            _log.warning("waiting until another process releases the name of this instance", extra=fields)
        found: Row[Any] | None = holder
        while found is not None:
            is_same = (found.holder, found.beat) == (holder.holder, holder.beat)
            if not is_same or holder.holder_machine == this_machine():
                raise ProviderMisconfigured(
                    f"an instance {self.name!r} runs already: process {found.holder_pid} on {found.host}; "
                    "give this one another `instance`, or none at all"
                )
            time.sleep(_RETRY)
            found = self._connection.use(self._take)

    def _take(self, connection: Connection) -> Row[Any] | None:
        """Takes the name. Returns the living process that has the name, or None."""
        key = {"application": self._application, "name": self.name}
        own = (instance.c.application == self._application) & (instance.c.name == self.name)
        columns = instance.c.hold, process.c.host, process.c.beat, *HOLDER
        held = select(*columns).select_from(_HELD).where(own).with_for_update(of=instance)
        with durable(connection):
            by_index = process.c.id >= literal_column("''")
            connection.execute(delete(process).where(by_index, process.c.beat < CLOCK - _OLD))
            self._connection.beat(connection)
            connection.execute(postgresql.insert(instance).values(key).on_conflict_do_nothing())
            row = connection.execute(held).one()
            if row.hold != self._hold and self._connection.is_alive(row):
                return row
            values = {"process": self._connection.id, "hold": self._hold, "note": self._own}
            connection.execute(update(instance).where(own).values(values))
        return None

    def note(self, values: Mapping[str, Any]) -> None:
        self._update(note={**self._own, **values})

    def close(self) -> None:
        self._update(process=None, hold=None)
        self._connection.release(self)

    def _update(self, **values: Any) -> None:
        named = (instance.c.application == self._application) & (instance.c.name == self.name)
        own = update(instance).where(named, instance.c.hold == self._hold).values(values)
        with suppress(OSError):
            self._connection.call(lambda connection: connection.execute(own))


class SqlWindow(PublishedIds):
    def __init__(self, database: MessageDatabase, application: str, client_id: str, size: int) -> None:
        self._db = DatabaseClient(database, client_id, application)
        self._size = size
        self._keys: dict[str, None] = {}
        self._mark = self._db.dialect.beginning
        self._reserved = 0
        self._refresh()
        self._prune()

    def _refresh(self) -> None:
        """Reads the keys that were published since the last call.

        A key gets its number before the commit. So the latest number says nothing about earlier numbers.
        """
        own = published.c.application == self._db.application
        newest = select(published.c.key).where(own, self._db.dialect.since(published.c.changed))
        with self._db.read_transaction() as connection:
            mark = connection.execute(self._db.statements.mark).scalar_one()
            found = connection.execute(newest.order_by(published.c.number), {"mark": self._mark}).scalars()
            self.add(map(_read_key, found))
            self._mark = mark

    def _prune(self) -> None:
        """Removes keys beyond the size of the window."""
        own = published.c.application == self._db.application
        oldest = select(published.c.number).where(own).order_by(published.c.number.desc())
        with self._db.transaction() as connection:
            last = connection.execute(oldest.offset(self._size).limit(1)).scalar()
            if last is not None:
                connection.execute(delete(published).where(own, published.c.number <= last))

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def add(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._keys.pop(key, None)
            self._keys[key] = None
        if len(self._keys) > 2 * self._size + 1000:
            self._keys = dict.fromkeys(list(self._keys)[-self._size :])

    def reserve(self, keys: Sequence[str], held: Sequence[str] = ()) -> set[str]:
        self._reserved += len(keys)
        if self._reserved > self._size + _PRUNED:
            self._reserved = 0
            self._prune()
        with self._db.transaction() as connection:
            one_at_a_time = select(counter.c.value).where(counter.c.name == "records").with_for_update()
            connection.execute(one_at_a_time)
            self._refresh()
            others = (in_flight.c.application == self._db.application) & (
                in_flight.c.client != self._db.client_id
            )
            taken = connection.execute(select(in_flight.c.key).where(others)).scalars()
            busy = set(keys).intersection(map(_read_key, taken))
            self.release()
            rows = [
                {"application": self._db.application, "client": self._db.client_id, "key": write_key(key)}
                for key in {*held, *keys} - busy
            ]
            if rows:
                connection.execute(insert(in_flight), rows)
        return busy

    def release(self, client_id: str | None = None) -> None:
        if client_id is not None:
            self._refresh()
        own = in_flight.c.application == self._db.application
        own &= in_flight.c.client == (client_id or self._db.client_id)
        with self._db.transaction() as connection:
            connection.execute(delete(in_flight).where(own))


def _read_key(key: bytes) -> str:
    return bytes(key).decode("utf-8", "surrogateescape")
