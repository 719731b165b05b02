"""The keys of messages that were sent once by key: a row of each, in the transaction of its message."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, select

from connector.messaging.once import OnceKey, SentOnce
from connector.stores.sql.database import DatabaseClient
from connector.stores.sql.schema import sent_once

_MOST_REMOVED: Final = 20
"""Rows of old keys that a new key removes at most. Each new key adds one."""


class SentKeyRows:
    """The keys of all applications in a database, as one client uses them."""

    def __init__(self, db: DatabaseClient) -> None:
        self._db = db
        columns, now = sent_once.c, db.dialect.now
        same = columns.application == bindparam("at"), columns.digest == bindparam("of")
        answer = select(columns.message_id, columns.fingerprint)
        self._find = answer.where(*same, columns.until > now)
        keep: Any = now + bindparam("keep_")
        add = db.dialect.insert(sent_once).values(until=keep)
        news = {name: add.excluded[name] for name in ("key", "message_id", "fingerprint", "until")}
        # waits for another transaction that adds the key
        self._add = add.on_conflict_do_update(
            index_elements=["application", "digest"], set_=news, where=columns.until <= now
        ).returning(columns.number)
        old = select(columns.number).where(columns.until <= now).order_by(columns.until)
        old = old.limit(_MOST_REMOVED).with_for_update(skip_locked=True)
        self._prune = delete(sent_once).where(columns.number.in_(old))

    def find(self, application: str, key: str) -> SentOnce | None:
        """Returns the answer of a remembered key. None = it is not remembered."""
        rows = self._db.rows(self._find, {"at": application, "of": _digest(key)})
        return SentOnce(rows[0].message_id, is_new=False, fingerprint=rows[0].fingerprint) if rows else None

    def add(self, connection: Connection, once: OnceKey, message_id: str) -> bool:
        """Remembers a key in the transaction under way, and removes some keys whose time is over.

        Waits for another transaction with the key. Returns False if the key was remembered before.
        """
        values = {
            "application": once.application,
            "digest": _digest(once.key),
            "key": once.key,
            "message_id": message_id,
            "fingerprint": once.fingerprint,
            "keep_": max(1, round(once.keep * 1000)),
        }
        if connection.execute(self._add, values).first() is None:
            return False
        connection.execute(self._prune)
        return True


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=20).digest()
