"""The registry: the clients of a database, and the records that they share."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, delete, insert, select, update

from connector.errors import ProviderError
from connector.messaging.notes import ClientState
from connector.stores.engine.channel import Channel
from connector.stores.engine.client import SUBSCRIPTION
from connector.stores.engine.registry import ClientInfo, DeadClient, Record, Registry, name_key
from connector.stores.sql.database import DatabaseClient
from connector.stores.sql.liveness import Liveness
from connector.stores.sql.messages import channel_name, channel_of
from connector.stores.sql.schema import NOBODY, counter, reference
from connector.stores.sql.schema import client as clients
from connector.stores.sql.schema import record as records
from connector.stores.sql.schema import subscription as subscriptions
from connector.stores.sql.statements import ANY_ROW, IS_CLAIMED, IS_PREPARED

_LIVING_SECONDS: Final = 0.5
"""The time for which a living owner of a record counts as alive, without the lock."""
_ANEW: Final = "its messages are redelivered, to this client or another: connect anew"
_VERSION: Final = select(counter.c.value).where(counter.c.name == "records")


class SqlDeadClient(DeadClient):
    """A dead client, whose row names the client that takes over."""

    def __init__(self, registry: SqlRegistry, info: ClientInfo) -> None:
        self.info = info
        self._registry = registry
        self._is_forgotten = False

    def remove(self) -> None:
        self._is_forgotten = True
        self._registry.forget_client(self.info.client_id)

    def release(self) -> None:
        if not self._is_forgotten:
            self._registry.release_client(self.info.client_id)


class SqlRegistry(Registry):
    """The rows of clients and records.

    Args:
        info: of the client. Without an id for a client that only looks.
    """

    def __init__(self, db: DatabaseClient, info: ClientInfo, liveness: Liveness) -> None:
        self.info = info
        self._db = db
        self._liveness = liveness
        self._cached: dict[tuple[str, Channel | str], tuple[int, float, tuple[Record, ...]]] = {}
        self._has_ended = False
        if not info.client_id:
            return
        values = {
            "id": info.client_id,
            "application": info.application,
            "instance": info.instance,
            "origin": info.origin,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": time.time(),
            "process": liveness.hold(info.client_id),
        }
        try:
            with db.transaction() as connection:
                connection.execute(insert(clients), values)
        except BaseException:
            liveness.release()
            liveness.forget(info.client_id)
            raise

    # -- clients -----------------------------------------------------------------------------------

    def check(self) -> None:
        if not self.info.client_id:
            return
        row = self._liveness.row(self._db, self.info.client_id)
        if row is None or row.taken_by is not None:
            raise ProviderError(
                f"another client has taken over from client {self.info.client_id} in {self._db.title}, which "
                f"was declared dead, or gave no sign of life for longer than its lease; {_ANEW}"
            )
        if row.declared_dead:
            raise ProviderError(
                f"client {self.info.client_id} was declared dead by an operator (connector takeover); {_ANEW}"
            )

    def find_alive(self, client_id: str) -> ClientInfo | None:
        row = self._liveness.find_alive(self._db, client_id)
        return None if row is None else info_of(row)

    def find(self, client_id: str) -> ClientInfo | None:
        row = self._liveness.row(self._db, client_id)
        return None if row is None else info_of(row)

    def dead(self, *, at_start: bool) -> Iterator[SqlDeadClient]:
        found = []
        with self.lock() as connection:
            rows = connection.execute(self._liveness.every).fetchall()
            alive = {row.id for row in rows if self._liveness.state(row) is ClientState.ALIVE}
            for row in rows:
                if row.id in alive or row.taken_by in alive:
                    continue
                # a client in the middle of a claim is left to the next call
                free = select(clients.c.id).where(clients.c.id == row.id).with_for_update(skip_locked=True)
                take = update(clients).where(clients.c.id.in_(free)).values(taken_by=self.info.client_id)
                if connection.execute(take).rowcount:
                    found.append(SqlDeadClient(self, info_of(row)))
        self._liveness.sweep({row.id for row in rows})
        return iter(found)

    def release_client(self, client_id: str) -> None:
        """Lets other clients take over from a dead client."""
        own = (clients.c.id == client_id) & (clients.c.taken_by == self.info.client_id)
        with self._db.transaction() as connection:
            connection.execute(update(clients).where(own).values(taken_by=None))

    def forget_client(self, client_id: str) -> None:
        """Removes a client. Its claims in in-progress destinations then have no owner."""
        own = reference.c.owner == client_id
        with self.lock() as connection:
            left = update(reference).where(own & IS_CLAIMED).values(owner=NOBODY)
            connection.execute(left)  # same version: the client that takes over may adopt the messages
            self._db.statements.remove_where(connection, own & IS_PREPARED)
            if connection.execute(delete(records).where(records.c.owner == client_id)).rowcount:
                self._records_changed(connection)
            connection.execute(delete(clients).where(clients.c.id == client_id))
        self._liveness.forget(client_id)

    # -- records -----------------------------------------------------------------------------------

    @contextmanager
    def lock(self) -> Iterator[Connection]:
        """A transaction that holds one row."""
        with self._db.transaction() as connection:
            connection.execute(_VERSION.with_for_update())
            yield connection

    def records(self, kind: str, of: Channel | str) -> Sequence[Record]:
        cached = self._cached.get((kind, of))
        version = self._db.first(_VERSION)
        if cached is not None and cached[0] == version:
            if not self._db.is_locked and time.monotonic() < cached[1]:
                return cached[2]
            if all(one.owner is None or self.find_alive(one.owner.client_id) for one in cached[2]):
                self._cached[kind, of] = (version, time.monotonic() + _LIVING_SECONDS, cached[2])
                return cached[2]
        found = tuple(self._read(kind, of))
        if cached is not None and cached[2] == found:
            found = cached[2]
        self._cached[kind, of] = (version, time.monotonic() + _LIVING_SECONDS, found)
        return found

    def _read(self, kind: str, of: Channel | str) -> Iterator[Record]:
        if kind == SUBSCRIPTION:
            columns = select(subscriptions).where(subscriptions.c.topic == _name_of(of))
            for row in self._db.rows(columns.order_by(subscriptions.c.key)):
                yield Record(kind, of, row.key, row.details, durable=row.durable)
            return
        joined = records.outerjoin(self._liveness.source, clients.c.id == records.c.owner)
        columns = select(records.c.key, records.c.data, records.c.owner, *self._liveness.columns)
        where = (records.c.kind == kind) & (records.c.of == _name_of(of))
        for row in self._db.rows(columns.select_from(joined).where(where).order_by(records.c.number)):
            if row.owner is None:
                yield Record(kind, of, row.key, row.data)
            elif row.id is not None and self._liveness.state(row) is ClientState.ALIVE:
                yield Record(kind, of, row.key, row.data, info_of(row))

    def subscription(self, client_id: str, name: str, *, durable: bool) -> Record | None:
        key = name_key(client_id, name, durable=durable)
        rows = self._db.rows(select(subscriptions).where(subscriptions.c.key == key))
        if not rows:
            return None
        topic = channel_of(rows[0].topic, "")
        return Record(SUBSCRIPTION, topic, key, rows[0].details, durable=rows[0].durable)

    def write(self, record: Record) -> None:
        with self._db.transaction() as connection:
            self._delete(connection, record)
            if record.kind == SUBSCRIPTION:
                assert isinstance(record.of, Channel)
                name = channel_name(Channel(record.of.destination, record.key))
                self._db.statements.add_channel.run(connection, {"name": name})
                details = {"topic": _name_of(record.of), "key": record.key, "durable": record.durable}
                connection.execute(insert(subscriptions), {**details, "details": dict(record.data)})
            else:
                owner = record.owner.client_id if record.owner else None
                values = {"kind": record.kind, "of": _name_of(record.of), "key": record.key, "owner": owner}
                connection.execute(insert(records), {**values, "data": dict(record.data)})
            self._records_changed(connection)

    def remove(self, record: Record) -> None:
        with self._db.transaction() as connection:
            self._delete(connection, record)
            self._records_changed(connection)

    def _delete(self, connection: Connection, record: Record) -> None:
        of = _name_of(record.of)
        if record.kind == SUBSCRIPTION:
            which = (subscriptions.c.topic == of) & (subscriptions.c.key == record.key)
            connection.execute(delete(subscriptions).where(which))
        else:
            which = (records.c.kind == record.kind) & (records.c.of == of) & (records.c.key == record.key)
            connection.execute(delete(records).where(which))

    def _records_changed(self, connection: Connection) -> None:
        """Makes every client read the records again."""
        self._db.statements.records_changed.run(connection, {})

    def close(self, *, abandoned: bool) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        if not self.info.client_id:
            self._db.close()
            return
        own = self.info.client_id
        claims = select(ANY_ROW).select_from(reference).where(reference.c.owner == own, IS_CLAIMED).limit(1)
        try:
            with self._db.transaction() as connection:
                if not abandoned and connection.execute(claims).scalar() is None:
                    self.forget_client(own)
                self._records_changed(connection)
        except ProviderError:
            if not abandoned:
                raise
        finally:
            self._db.close()
            self._liveness.release()


def info_of(row: Any) -> ClientInfo:
    here = row.host == socket.gethostname() and row.pid == os.getpid()
    who = "this process" if here else f"process {row.pid} on {row.host}"
    details = row.application, row.instance, row.origin, row.declared_dead
    return ClientInfo(row.id, *details, who=who, since=row.since)


def _name_of(of: Channel | str) -> str:
    return channel_name(of) if isinstance(of, Channel) else of
