"""A database file: its tables, its transactions, and how messages and channels are written into it."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Final

from connector.core.local.channel import Channel, Part
from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.state.locks import is_locked

BUSY_SECONDS: Final = 30.0

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS stamp(value INTEGER NOT NULL, records INTEGER NOT NULL);
INSERT INTO stamp SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM stamp);
CREATE TABLE IF NOT EXISTS client(id TEXT PRIMARY KEY, info TEXT NOT NULL, taken_by TEXT);
CREATE TABLE IF NOT EXISTS record(
    kind TEXT, of TEXT, key TEXT, data TEXT NOT NULL, owner TEXT, durable INTEGER NOT NULL,
    PRIMARY KEY(kind, of, key));
CREATE INDEX IF NOT EXISTS record_owner ON record(owner);
CREATE INDEX IF NOT EXISTS record_key ON record(key);
CREATE TABLE IF NOT EXISTS refused(destination TEXT PRIMARY KEY, reason TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS channel(
    id INTEGER PRIMARY KEY AUTOINCREMENT, destination TEXT, subscription TEXT,
    UNIQUE(destination, subscription));
CREATE TABLE IF NOT EXISTS body(id INTEGER PRIMARY KEY AUTOINCREMENT, data BLOB NOT NULL);
-- stamp: the transaction that has changed it last; by it a claim is told from a later one of the message.
-- home: the part that a claim goes back to; source: the destination that it was taken from.
CREATE TABLE IF NOT EXISTS message(
    id INTEGER PRIMARY KEY AUTOINCREMENT, state TEXT NOT NULL, stamp INTEGER NOT NULL, channel INTEGER,
    part TEXT NOT NULL DEFAULT '', priority INTEGER NOT NULL, age INTEGER, expiration INTEGER NOT NULL,
    deliveries INTEGER NOT NULL, headers TEXT NOT NULL, body INTEGER NOT NULL, returned_by TEXT,
    owner TEXT, key TEXT, cycle INTEGER, sequence INTEGER, home TEXT, source TEXT,
    in_progress INTEGER NOT NULL DEFAULT 0, waits INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS in_order ON message(channel, part, priority DESC, age) WHERE state = 'NEW';
CREATE INDEX IF NOT EXISTS news ON message(channel, part, stamp) WHERE state = 'NEW';
CREATE INDEX IF NOT EXISTS expiring ON message(channel, part, expiration)
    WHERE state = 'NEW' AND expiration > 0;
CREATE INDEX IF NOT EXISTS counted ON message(channel, part, deliveries)
    WHERE state = 'NEW' AND deliveries > 0;
CREATE INDEX IF NOT EXISTS lies ON message(channel, state, part);
CREATE INDEX IF NOT EXISTS owned ON message(owner) WHERE owner IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS prepared ON message(owner, key) WHERE state = 'PREPARED';
CREATE INDEX IF NOT EXISTS copies ON message(body);
CREATE TRIGGER IF NOT EXISTS last_copy AFTER DELETE ON message
    WHEN NOT EXISTS (SELECT 1 FROM message WHERE body = OLD.body)
    BEGIN DELETE FROM body WHERE id = OLD.body; END;
CREATE TABLE IF NOT EXISTS published(
    number INTEGER PRIMARY KEY AUTOINCREMENT, application TEXT NOT NULL, key BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS published_keys ON published(application, number);
CREATE TABLE IF NOT EXISTS in_flight(
    application TEXT, client TEXT, key BLOB, PRIMARY KEY(application, client, key));
PRAGMA user_version = 1;
"""


class Database:
    """A connection to a database file. Any thread may use it, one at a time.

    Args:
        path: of the file. Beside it lies the directory ``<path>.clients`` with a file for each client,
            which the client keeps locked while it lives.
        user: of the connection, for error texts.
    """

    def __init__(self, path: str, user: str) -> None:
        self.path = path
        self.clients = f"{path}.clients"
        self._user = user
        self._lock = threading.RLock()
        self._depth = 0
        self._is_closed = False
        self._stamp: int | None = None
        os.makedirs(self.clients, exist_ok=True)
        try:
            self._db = sqlite3.connect(path, BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            self._db.row_factory = sqlite3.Row
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            if self.first("PRAGMA user_version") == 0:
                with self.transaction():
                    for statement in _statements():
                        self._db.execute(statement)
        except sqlite3.Error as error:
            raise ProviderError(f"cannot open {path}: {error}") from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is executed is done at the end, or nothing is. Re-entrant: the outermost one counts."""
        with self._lock:
            if self._depth == 0:
                self.execute("BEGIN IMMEDIATE")
                self._stamp = None
            self._depth += 1
            try:
                yield
                if self._depth == 1:
                    self.execute("COMMIT")
            finally:
                self._depth -= 1
                if self._depth == 0 and not self._is_closed and self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def execute(self, statement: str, *values: Any) -> list[sqlite3.Row]:
        """Executes one statement and returns its rows."""
        with self._lock:
            if self._is_closed:
                raise ProviderError(f"the connection {self._user} is closed, nothing was done: connect anew")
            try:
                return self._db.execute(statement, values).fetchall()
            except sqlite3.Error as error:
                raise ProviderError(f"cannot use {self.path}: {error}") from error

    def first(self, statement: str, *values: Any) -> Any:
        """The first column of the first row, or None where there is no row."""
        rows = self.execute(statement, *values)
        return rows[0][0] if rows else None

    @property
    def stamp(self) -> int:
        """The number of the transaction under way, higher than any before."""
        if self._stamp is None:
            self._stamp = self.first("UPDATE stamp SET value = value + 1 RETURNING value")
        return self._stamp

    @property
    def is_locked(self) -> bool:
        """Whether a transaction is under way."""
        return self._depth > 0

    def is_alive(self, client_id: str) -> bool:
        """Whether a client lives: whether its file is locked."""
        try:
            descriptor = os.open(os.path.join(self.clients, client_id), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return is_locked(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Ends every use. Waits for a transaction under way."""
        with self._lock:
            self._is_closed = True
            self._db.close()

    # -- channels ----------------------------------------------------------------------------------

    def find(self, channel: Channel) -> int | None:
        """The number of a channel, or None where the channel is not there."""
        number: int | None = self.first(
            "SELECT id FROM channel WHERE destination = ? AND subscription = ?",
            str(channel.destination),
            channel.subscription,
        )
        return number

    def make(self, channel: Channel) -> int:
        """The number of a channel, which is made where it is not there."""
        self.execute(
            "INSERT OR IGNORE INTO channel(destination, subscription) VALUES (?, ?)",
            str(channel.destination),
            channel.subscription,
        )
        number = self.find(channel)
        assert number is not None
        return number

    # -- records -----------------------------------------------------------------------------------

    def records_changed(self) -> None:
        """Whoever has read records reads them again."""
        self.execute("UPDATE stamp SET records = records + 1")

    def remove_record(self, kind: str, of: Channel | str, key: str) -> None:
        """Removes a record, where it is there."""
        with self.transaction():
            self.execute("DELETE FROM record WHERE kind = ? AND of = ? AND key = ?", kind, write_of(of), key)
            self.records_changed()


def _statements() -> Iterator[str]:
    statement = ""
    for line in _TABLES.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def write_of(of: Channel | str) -> str:
    """What a record belongs to, as text."""
    return write_channel(of) if isinstance(of, Channel) else of


def write_channel(channel: Channel) -> str:
    """A part of a channel as text."""
    where = channel.destination
    return json.dumps([where.kind, where.name, channel.subscription, channel.part.value])


def read_channel(text: str) -> Channel:
    """See :func:`write_channel`."""
    kind, name, subscription, part = json.loads(text)
    return Channel(Destination(kind, name), subscription, Part(part))


_HEADERS: Final = tuple(field.name for field in fields(Message) if field.name not in ("body", "destination"))


def write_headers(message: Message) -> str:
    """Headers and properties as text."""
    return json.dumps([getattr(message, name) for name in _HEADERS])


def read_headers(text: str, body: bytes = b"") -> Message:
    """See :func:`write_headers`."""
    return Message(body, **dict(zip(_HEADERS, json.loads(text), strict=True)))
