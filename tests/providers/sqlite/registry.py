"""The clients of a database file, the records that they share, and how one of them waits."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from typing import Final, Protocol

from connector.core.local.channel import Channel
from connector.core.local.client import SUBSCRIPTION
from connector.core.local.registry import ClientInfo, Record
from connector.errors import ProviderError
from connector.messaging.subscription import TopicSubscription
from connector.state.locks import try_lock
from tests.providers.sqlite.database import Database, read_channel, write_of

_LOOK_SECONDS: Final = 0.01
"""Between two looks for messages of other processes."""
_LIVING_SECONDS: Final = 0.5
"""For which the owner of a record that was alive is taken for alive, by whoever decides nothing."""


class SqliteDead:
    """See :class:`connector.core.local.registry.DeadClient`: the client's row says who takes over from it."""

    def __init__(self, registry: SqliteRegistry, info: ClientInfo) -> None:
        self.info = info
        self._registry = registry
        self._is_forgotten = False

    def forget(self) -> None:
        self._is_forgotten = True
        self._registry.forget_client(self.info.client_id)

    def release(self) -> None:
        if not self._is_forgotten:
            self._registry.release_client(self.info.client_id)


class SqliteRegistry:
    """See :class:`connector.core.local.registry.Registry`.

    A client lives as long as it holds the lock of its file, which the kernel ends with its process.
    """

    def __init__(self, db: Database, info: ClientInfo) -> None:
        self.info = info
        self._db = db
        self._cached: dict[tuple[str, Channel | str], tuple[int, float, tuple[Record, ...]]] = {}
        path = os.path.join(db.clients, info.client_id)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try_lock(self._descriptor, path)
        with db.transaction():
            db.execute("INSERT INTO client(id, info) VALUES (?, ?)", info.client_id, json.dumps(asdict(info)))

    def check(self) -> None:
        if not self.knows(self.info.client_id):
            raise ProviderError(f"{self.info.client_id} is not known in {self._db.path} any more")

    def living(self, client_id: str) -> ClientInfo | None:
        if not self._db.is_alive(client_id):
            return None
        text = self._db.first("SELECT info FROM client WHERE id = ?", client_id)
        return _info(text) if text is not None else None

    def knows(self, client_id: str) -> bool:
        return self._db.first("SELECT 1 FROM client WHERE id = ?", client_id) is not None

    def dead(self, *, at_start: bool) -> Iterator[SqliteDead]:
        found = []
        with self._db.transaction():
            for row in self._db.execute("SELECT id, info, taken_by FROM client"):
                if self._db.is_alive(row["id"]) or (row["taken_by"] and self._db.is_alive(row["taken_by"])):
                    continue
                self._db.execute(
                    "UPDATE client SET taken_by = ? WHERE id = ?", self.info.client_id, row["id"]
                )
                found.append(SqliteDead(self, _info(row["info"])))
        return iter(found)

    def release_client(self, client_id: str) -> None:
        """Somebody else may take over from a dead client."""
        self._db.execute(
            "UPDATE client SET taken_by = NULL WHERE id = ? AND taken_by = ?", client_id, self.info.client_id
        )

    def forget_client(self, client_id: str) -> None:
        """Nothing of a client is kept. What it has claimed in an in-progress destination has no owner."""
        with self._db.transaction():
            self._db.execute(
                "UPDATE message SET owner = NULL, stamp = ? WHERE owner = ? AND state = 'CLAIMED'",
                self._db.stamp,
                client_id,
            )
            self._db.execute("DELETE FROM message WHERE owner = ?", client_id)
            self._db.execute("DELETE FROM record WHERE owner = ?", client_id)
            self._db.execute("DELETE FROM client WHERE id = ?", client_id)
            self._db.records_changed()
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self._db.clients, client_id))

    def lock(self) -> AbstractContextManager[object]:
        return self._db.transaction()

    def records(self, kind: str, of: Channel | str) -> Sequence[Record]:
        cached = self._cached.get((kind, of))
        version = self._db.first("SELECT records FROM stamp")
        if cached is not None and cached[0] == version:
            if not self._db.is_locked and time.monotonic() < cached[1]:
                return cached[2]
            if all(one.owner is None or self._db.is_alive(one.owner.client_id) for one in cached[2]):
                self._cached[kind, of] = (version, time.monotonic() + _LIVING_SECONDS, cached[2])
                return cached[2]
        rows = self._db.execute(
            "SELECT key, data, durable, owner, info FROM record LEFT JOIN client ON client.id = owner "
            "WHERE kind = ? AND of = ? ORDER BY record.rowid",
            kind,
            write_of(of),
        )
        found = tuple(
            Record(
                kind,
                of,
                row["key"],
                json.loads(row["data"]),
                _info(row["info"]) if row["info"] else None,
                bool(row["durable"]),
            )
            for row in rows
            if row["owner"] is None or self._db.is_alive(row["owner"])
        )
        if cached is not None and cached[2] == found:
            found = cached[2]
        self._cached[kind, of] = (version, time.monotonic() + _LIVING_SECONDS, found)
        return found

    def subscription(self, client_id: str, name: str, *, durable: bool) -> Record | None:
        key = _key(client_id, name, durable=durable)
        rows = self._db.execute("SELECT of, data FROM record WHERE key = ? AND kind = ?", key, SUBSCRIPTION)
        if not rows:
            return None
        topic = read_channel(rows[0]["of"])
        return Record(SUBSCRIPTION, topic, key, json.loads(rows[0]["data"]), durable=durable)

    def subscription_key(self, details: TopicSubscription, unique: str) -> str:
        return _key(details.client_id, details.name, durable=details.durable) if details.name else unique

    def write(self, record: Record) -> None:
        owner = record.owner.client_id if record.owner else None
        data = json.dumps(dict(record.data))
        with self._db.transaction():
            if record.kind == SUBSCRIPTION and isinstance(record.of, Channel):
                self._db.make(Channel(record.of.destination, record.key))
            self._db.execute(
                "INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?, ?, ?)",
                *(record.kind, write_of(record.of), record.key, data, owner, record.durable),
            )
            self._db.records_changed()

    def remove(self, record: Record) -> None:
        self._db.remove_record(record.kind, record.of, record.key)

    def end(self, *, abandoned: bool) -> None:
        if self._descriptor < 0:
            return
        own = self.info.client_id
        try:
            with self._db.transaction():
                if not abandoned:
                    claims = "SELECT 1 FROM message WHERE owner = ? AND state = 'CLAIMED'"
                    if self._db.first(claims, own) is None:
                        self.forget_client(own)
                self._db.records_changed()
        finally:
            self._db.close()
            os.close(self._descriptor)
            self._descriptor = -1


def _key(client_id: str, name: str, *, durable: bool) -> str:
    return json.dumps(["durable" if durable else "shared", client_id, name])


def _info(text: str) -> ClientInfo:
    return ClientInfo(**json.loads(text))


class Watched(Protocol):
    """A reader that can be asked what has come."""

    def newest(self) -> int:
        """The highest stamp of the messages that wait for it and that its own client has not given back."""


class SqliteWatch:
    """See :class:`connector.core.local.store.Watch`. It looks into the database every few milliseconds."""

    can_tell = True

    def __init__(self, db: Database) -> None:
        self.readers: list[Watched] = []
        self._db = db
        self._woken = threading.Event()
        self._ended = False
        self._seen = 0

    def begin(self) -> bool:
        self._ask(self._look)
        return not self._ended

    def _look(self) -> bool:
        self._seen = self._db.first("SELECT value FROM stamp")
        return True

    def wait(self, seconds: float) -> bool:
        self.pause(self._has_come, seconds)
        return self._ask(self._has_come)

    def _has_come(self) -> bool:
        return any(reader.newest() > self._seen for reader in tuple(self.readers))

    def _ask(self, has_news: Callable[[], bool]) -> bool:
        """As ``has_news``, and True where the client has ended."""
        try:
            return self._ended or has_news()
        except ProviderError:
            if not self._ended:
                raise
            return True

    def pause(self, has_news: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._ask(has_news) and (left := deadline - time.monotonic()) > 0:
            if self._woken.wait(min(left, _LOOK_SECONDS)):
                break
        self._woken.clear()

    def wake(self) -> None:
        self._woken.set()

    def end(self) -> None:
        self._ended = True
        self._woken.set()
