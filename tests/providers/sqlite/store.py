"""A store on a database file (see :mod:`connector.core.local.store`).

The state of a message is a column. What a client takes, it takes by one UPDATE in one transaction.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from connector.core.local.changes import Change, Discarded, Edit, GivenBack, GroupMoved, Moved, Removed, Sent
from connector.core.local.channel import Channel, Owner, Part
from connector.core.local.claims import LocalClaim
from connector.core.local.client import SUBSCRIPTION, has_ended
from connector.core.local.headers import ORIGIN, counted_anew, edited, origin_queue
from connector.core.local.store import Counts, Judge, Unreadable, Verdict
from connector.errors import ClaimLost, MalformedData, ProviderError, SettlementError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.retention import Pruned, Retention
from tests.providers.sqlite.database import Database, read_channel, read_headers, write_channel, write_headers
from tests.providers.sqlite.registry import SqliteWatch

_WAITS: Final = "channel = ? AND part = ? AND state = 'NEW'"
_CLAIM: Final = "message.id, message.stamp, headers, home, source, owner, cycle, sequence, in_progress, waits"
_HELD: Final = "SELECT 1 FROM message WHERE id = ? AND stamp = ?"
_PREPARED: Final = "FROM message WHERE owner = ? AND key = ? AND state = 'PREPARED'"
_NOWHERE: Final = "owner = NULL, home = NULL, source = NULL, in_progress = 0, waits = 0"


class SqliteClaim(LocalClaim):
    """A claim, or a message that was looked at. The stamp tells whether it has changed since."""

    __slots__ = ("number", "stamp")

    def __init__(self, row: sqlite3.Row, home: Channel) -> None:
        self.number, self.stamp = row["id"], row["stamp"]
        owner = Owner(row["owner"], row["cycle"], row["sequence"]) if row["owner"] else None
        super().__init__(
            (self.number, self.stamp),
            read_headers(row["headers"]),
            read_channel(row["home"]) if row["home"] else home,
            owner,
            parse_destination(row["source"]) if row["source"] else None,
            in_progress=bool(row["in_progress"]),
            waits=bool(row["waits"]),
        )


class SqliteReader:
    """See :class:`connector.core.local.store.Reader`.

    What a selector has to be asked about is judged once, when it comes. The messages that were not left
    are kept as candidates: one that another has taken or changed is passed over when its turn comes.
    """

    def __init__(
        self,
        db: Database,
        client_id: str,
        watch: SqliteWatch,
        channel: Channel,
        judge: Judge,
        into: Channel | None,
        destination: Destination,
    ) -> None:
        self.expired = 0
        self._db = db
        self._client_id = client_id
        self._watch = watch
        self._judge = judge
        self._destination = destination
        self._home = write_channel(channel)
        with db.transaction():
            self._where = db.find(channel), channel.part.value
            self._into = (db.make(into), "") if into is not None else self._where
        self._in_progress = into is not None
        self._candidates: list[tuple[int, int, int, int]] = []
        self._judged = self._newest = 0
        watch.readers.append(self)

    def claim(self, cycle: int, numbers: range) -> list[LocalClaim]:
        if not self.has_news():
            return []
        with self._db.transaction():
            if not self._judge.is_view:
                self._put_aside()
            rows = self._db.execute(
                "UPDATE message SET state = 'CLAIMED', stamp = ?, owner = ?, cycle = ?, "
                "sequence = ? + chosen.key * ?, home = ?, source = ?, channel = ?, part = ?, in_progress = ? "
                f"FROM json_each(?) AS chosen WHERE message.id = chosen.value RETURNING {_CLAIM}",
                self._db.stamp,
                self._client_id,
                cycle,
                numbers.start,
                numbers.step,
                self._home,
                str(self._destination),
                *self._into,
                self._in_progress,
                json.dumps(self._choose(len(numbers))),
            )
        rows.sort(key=lambda row: int(row["sequence"]))
        return [SqliteClaim(row, read_channel(self._home)) for row in rows]

    def _choose(self, limit: int) -> list[int]:
        """The messages that are taken, the first to be taken first."""
        if not self._judge.selects:
            order = "SELECT id FROM message WHERE " + _WAITS + " ORDER BY priority DESC, age LIMIT ?"
            return [row["id"] for row in self._db.execute(order, *self._where, limit)]
        self._look()
        found: list[int] = []
        while self._candidates and len(found) < limit:
            *_, number, stamp = heapq.heappop(self._candidates)
            if self._db.first(_HELD, number, stamp) is not None:
                found.append(number)
        return found

    def _look(self) -> None:
        """Judges what has come since the last look."""
        came = "SELECT id, stamp, priority, age, headers, returned_by FROM message WHERE " + _WAITS
        for row in self._db.execute(came + " AND stamp > ?", *self._where, self._judged):
            self._judged = max(self._judged, row["stamp"])
            if self._judge(read_headers(row["headers"]), _now()) is not Verdict.LEAVE:
                entry = -row["priority"], row["age"], row["id"], row["stamp"]
                heapq.heappush(self._candidates, entry)
                if row["returned_by"] != self._client_id:
                    self._newest = max(self._newest, row["stamp"])

    def _put_aside(self) -> None:
        expired = "UPDATE message SET part = 'EXPIRED', stamp = ? WHERE " + _WAITS
        expired += " AND expiration > 0 AND expiration <= ? RETURNING id"
        self.expired += len(self._db.execute(expired, self._db.stamp, *self._where, _now()))
        if self._judge.limit is not None:
            exhausted = "SELECT id, headers FROM message WHERE " + _WAITS
            exhausted += " AND deliveries > 0 AND deliveries >= ?"
            for row in self._db.execute(exhausted, *self._where, self._judge.limit):
                message = read_headers(row["headers"])
                change_headers(self._db, row["id"], edited(message, counted_anew(message)))
                aside = "UPDATE message SET part = 'ERROR', stamp = ? WHERE id = ?"
                self._db.execute(aside, self._db.stamp, row["id"])

    def has_news(self) -> bool:
        if self._candidates:
            return True
        news = "SELECT 1 FROM message WHERE " + _WAITS
        if self._db.first("SELECT 1 FROM channel WHERE id = ?", self._where[0]) is None:
            return True  # it has ended
        if not self._judge.selects:
            return self._has(news, *self._where)
        return self._has(news + " AND stamp > ?", *self._where, self._judged) or self._has(
            news + " AND expiration > 0 AND expiration <= ?", *self._where, _now()
        )

    def _has(self, statement: str, *values: Any) -> bool:
        return self._db.first(statement + " LIMIT 1", *values) is not None

    def newest(self) -> int:
        """See :class:`tests.providers.sqlite.registry.Watched`."""
        if self._judge.selects:
            with self._db.transaction():
                self._look()
            return self._newest
        others = "SELECT max(stamp) FROM message WHERE " + _WAITS + " AND returned_by IS NOT ?"
        return self._db.first(others, *self._where, self._client_id) or 0

    def close(self) -> None:
        with contextlib.suppress(ValueError):
            self._watch.readers.remove(self)


class SqliteStore:
    """See :class:`connector.core.local.store.Store`.

    Args:
        db: of the client.
        client_id, application: of the client.
        watch: of the client.
    """

    has_foreign = False

    def __init__(self, db: Database, client_id: str, application: str, watch: SqliteWatch) -> None:
        self.title = db.path
        self._db = db
        self._client_id = client_id
        self._application = application
        self._watch = watch

    # -- channels ----------------------------------------------------------------------------------

    def destinations(self) -> list[Destination]:
        rows = self._db.execute("SELECT destination FROM channel WHERE subscription = ''")
        return [parse_destination(row["destination"]) for row in rows]

    def has(self, channel: Channel) -> bool:
        return self._db.find(channel) is not None

    def create(self, channel: Channel) -> None:
        if not self.has(channel):
            with self._db.transaction():
                self._db.make(channel)

    def drop(self, channel: Channel, *, claimed: bool) -> None:
        with self._db.transaction():
            number = self._db.find(channel)
            gone = "DELETE FROM message WHERE channel = ? AND (state = 'NEW' OR ?)"
            self._db.execute(gone, number, claimed)
            self._db.execute("DELETE FROM channel WHERE id = ?", number)
            if channel.subscription:
                self._db.remove_record(SUBSCRIPTION, Channel(channel.destination), channel.subscription)

    def empty(self, channel: Channel) -> None:
        gone = "DELETE FROM message WHERE state = 'NEW' AND channel = ? AND part = ''"
        self._db.execute(gone, self._db.find(channel))

    def count(self, channel: Channel) -> Counts:
        counted = "SELECT state, part, count(*) FROM message WHERE channel = ? GROUP BY state, part"
        rows = self._db.execute(counted, self._db.find(channel))
        waiting = {row["part"]: row[2] for row in rows if row["state"] == "NEW"}
        claimed = sum(row[2] for row in rows if row["state"] == "CLAIMED")
        return Counts(waiting.get("", 0), claimed, waiting.get("EXPIRED", 0), waiting.get("ERROR", 0))

    def scan(
        self, channel: Channel, *, waiting: bool, claimed: bool, unreadable: Unreadable | None
    ) -> Iterator[Message]:
        found = self._db.execute(
            "SELECT headers, data, in_progress, source FROM message JOIN body ON body.id = body "
            "WHERE channel = ? AND (? AND state = 'NEW' AND part = ? OR ? AND state = 'CLAIMED') "
            "ORDER BY priority DESC, age",
            self._db.find(channel),
            waiting,
            channel.part.value,
            claimed,
        )
        for row in found:
            message = read_headers(row["headers"], row["data"])
            if row["in_progress"] and row["source"] != str(channel.destination):
                message.set_property(ORIGIN, row["source"])
            yield message

    def lying(self, channel: Channel) -> list[LocalClaim]:
        all_of_it = "SELECT * FROM message WHERE channel = ? AND part = '' ORDER BY priority DESC, age"
        found: list[LocalClaim] = []
        for row in self._db.execute(all_of_it, self._db.find(channel)):
            claim = SqliteClaim(row, channel)
            if not claim.in_progress:
                claim.in_progress = True
                origin = origin_queue(claim.headers()) if claim.owner is None else None
                if origin is not None:
                    claim.home, claim.destination = Channel(origin), origin
            found.append(claim)
        return found

    def reader(
        self, channel: Channel, judge: Judge, into: Channel | None, destination: Destination
    ) -> SqliteReader:
        return SqliteReader(self._db, self._client_id, self._watch, channel, judge, into, destination)

    # -- sending -----------------------------------------------------------------------------------

    def put(self, messages: Sequence[tuple[Message, Sequence[Channel]]]) -> None:
        with self._db.transaction():
            for channel in {channel for _, channels in messages for channel in channels}:
                check_target(self._db, channel)
            for message, channels in messages:
                if channels:
                    body = self._db.first("INSERT INTO body(data) VALUES (?) RETURNING id", message.body)
                    number = insert(self._db, "NEW", message, body)
                    self._spread(number, channels)

    def _spread(self, number: int, channels: Sequence[Channel], returned_by: str = "") -> None:
        """A message waits in channels from now on. All but the first get a copy. A channel that is gone
        gets nothing."""
        number_of_copy: int | None = number
        for channel in channels:
            where = self._db.find(channel)
            if where is None:
                if channel.can_end:
                    continue
                where = self._db.make(channel)
            if number_of_copy is None:
                number_of_copy = self._db.first(
                    "INSERT INTO message(state, stamp, priority, age, expiration, deliveries, headers, body) "
                    "SELECT 'NEW', stamp, priority, age, expiration, deliveries, headers, body "
                    "FROM message WHERE id = ? RETURNING id",
                    number,
                )
            self._db.execute(
                "UPDATE message SET state = 'NEW', stamp = ?, channel = ?, part = ?, returned_by = ?, "
                f"age = coalesce(age, id), {_NOWHERE} WHERE id = ?",
                self._db.stamp,
                where,
                channel.part.value,
                returned_by,
                number_of_copy,
            )
            number_of_copy = None
        if number_of_copy is not None:
            self._db.execute("DELETE FROM message WHERE id = ?", number_of_copy)

    def prepared(self, handle: tuple[str, str]) -> Message | None:
        wanted = f"SELECT headers {_PREPARED}"
        text = self._db.first(wanted, *handle)
        return read_headers(text) if text is not None else None

    def check_writable(self, destination: Destination) -> None:
        check_target(self._db, Channel(destination))
        self.create(Channel(destination))

    # -- settling ----------------------------------------------------------------------------------

    def apply(self, changes: Sequence[Change], *, fenced: bool) -> None:
        try:
            with self._db.transaction():
                for change in changes:
                    if isinstance(change, Sent | Discarded):
                        self._send(change)
                    elif isinstance(change, GroupMoved):
                        keys: Sequence[str | None] = change.published or [None] * len(change.claims)
                        for claim, key in zip(change.claims, keys, strict=True):
                            self._settle(Moved(claim, (change.channel,), change.edit, key), fenced=fenced)
                    else:
                        self._settle(change, fenced=fenced)
        except ClaimLost:
            raise
        except ProviderError as error:
            raise SettlementError(str(error)) from error

    def _send(self, change: Sent | Discarded) -> None:
        wanted = f"SELECT id {_PREPARED}"
        number = self._db.first(wanted, *change.handle)
        if number is not None:
            self._spread(number, change.channels if isinstance(change, Sent) else ())
        elif isinstance(change, Sent):
            raise ClaimLost(
                f"the message prepared as {change.handle[1]!r} is not there any more: it was sent or "
                "discarded before, or its client has ended; nothing was settled"
            )

    def _settle(self, change: Moved | GivenBack | Removed, *, fenced: bool) -> None:
        claim = change.claim
        assert isinstance(claim, SqliteClaim)
        if self._db.first(_HELD, claim.number, claim.stamp) is None:
            if fenced:
                raise ClaimLost(
                    f"{claim.message_id} of {claim.destination} is not claimed by this client any more; "
                    "nothing was settled, it comes again to whoever takes it"
                )
            return
        if not isinstance(change, GivenBack) and change.published is not None and self._application:
            remember = "INSERT INTO published(application, key) VALUES (?, ?)"
            data = change.published.encode("utf-8", "surrogateescape")
            self._db.execute(remember, self._application, data)
        if isinstance(change, Moved | GivenBack):
            change_headers(self._db, claim.number, edited(claim.headers(), change.edit))
        if isinstance(change, Moved):
            self._spread(claim.number, change.channels)
        elif isinstance(change, GivenBack) and change.stays:
            self._lie(claim, None, waits=True)
        elif isinstance(change, GivenBack):
            self._spread(claim.number, (claim.home,), self._client_id)
        else:
            self._spread(claim.number, ())

    def _lie(self, claim: SqliteClaim, owner: Owner | None, *, waits: bool) -> None:
        """A message lies in its in-progress destination, of somebody or nobody."""
        self._db.execute(
            "UPDATE message SET state = 'CLAIMED', stamp = ?, owner = ?, cycle = ?, sequence = ?, home = ?, "
            "source = ?, in_progress = 1, waits = ? WHERE id = ?",
            self._db.stamp,
            *(owner or (None, 0, 0)),
            write_channel(claim.home),
            str(claim.destination),
            waits,
            claim.number,
        )

    # -- taking over -------------------------------------------------------------------------------

    def own(self, claim: LocalClaim, owner: Owner | None, edit: Edit) -> LocalClaim | None:
        assert isinstance(claim, SqliteClaim)
        with self._db.transaction():
            if self._db.first(_HELD, claim.number, claim.stamp) is None:
                return None
            change_headers(self._db, claim.number, edited(claim.headers(), edit))
            self._lie(claim, owner, waits=False)
            (row,) = self._db.execute("SELECT * FROM message WHERE id = ?", claim.number)
        return SqliteClaim(row, claim.home)

    def claims(self, client_ids: Collection[str], in_progress: Channel | None) -> dict[str, list[LocalClaim]]:
        rows = self._db.execute(
            "SELECT * FROM message WHERE owner IN (SELECT value FROM json_each(?)) AND state = 'CLAIMED' "
            "AND (NOT in_progress OR channel = ?) ORDER BY cycle, sequence",
            json.dumps(list(client_ids)),
            self._db.find(in_progress) if in_progress is not None else None,
        )
        found: dict[str, list[LocalClaim]] = {}
        for row in rows:
            found.setdefault(row["owner"], []).append(SqliteClaim(row, read_channel(row["home"])))
        return found

    def finish(self, client_id: str) -> None:
        with self._db.transaction():
            late = "UPDATE message SET stamp = ? WHERE owner = ? AND state = 'CLAIMED'"
            self._db.execute(late, self._db.stamp, client_id)

    def forget(self, client_id: str) -> None:
        self._db.execute("DELETE FROM message WHERE owner = ? AND state = 'PREPARED'", client_id)

    def prune(self, retentions: Sequence[Retention], seconds: float) -> Pruned:
        copies: dict[Destination, int] = {}
        now = time.time()
        for one in retentions:
            waiting = "SELECT id, headers FROM message WHERE " + _WAITS
            number = self._db.find(Channel(one.destination))
            with self._db.transaction():
                for row in self._db.execute(waiting, number, Part.MAIN.value):
                    if one.is_over(read_headers(row["headers"]), now, now):
                        self._db.execute("DELETE FROM message WHERE id = ?", row["id"])
                        copies[one.destination] = copies.get(one.destination, 0) + 1
        return Pruned(copies=copies)

    def tasks(self) -> SqliteTaskSpec:
        return SqliteTaskSpec(self._db.path, self._client_id)


def insert(db: Database, state: str, message: Message, body: int, owner: str = "", key: str = "") -> int:
    """A message of a body that is there, in no channel yet."""
    number: int = db.first(
        "INSERT INTO message(state, stamp, priority, expiration, deliveries, headers, body, owner, key) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        state,
        db.stamp,
        message.priority,
        message.expiration,
        message.delivery_count - 1,
        write_headers(message),
        body,
        owner or None,
        key or None,
    )
    return number


def change_headers(db: Database, number: int, message: Message) -> None:
    """Headers and properties of a message change."""
    change = "UPDATE message SET headers = ?, deliveries = ? WHERE id = ?"
    db.execute(change, write_headers(message), message.delivery_count - 1, number)


def check_target(db: Database, channel: Channel) -> None:
    """Raises where a test refuses a destination, or where it was temporary and has ended."""
    destination = channel.destination
    reason = db.first("SELECT reason FROM refused WHERE destination = ?", str(destination))
    if reason is not None:
        raise ProviderError(f"{destination} cannot be written: {reason}")
    if channel.can_end and not channel.subscription and db.find(channel) is None:
        raise has_ended(destination)


def _now() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class SqliteTaskSpec:
    """See :class:`connector.core.local.store.TaskStoreSpec`."""

    path: str
    client_id: str

    def open(self) -> SqliteTaskStore:
        return SqliteTaskStore(Database(self.path, self.client_id), self.client_id)


class SqliteTaskStore:
    """See :class:`connector.core.local.store.TaskStore`. What it prepares, it writes when it syncs."""

    def __init__(self, db: Database, client_id: str) -> None:
        self.client_id = client_id
        self._db = db
        self._prepared: dict[str, Message] = {}

    def check(self) -> None:
        if self._db.first("SELECT 1 FROM client WHERE id = ?", self.client_id) is None:
            raise ProviderError(f"there is no client {self.client_id} in {self._db.path}")

    def is_there(self, destination: Destination, owner: str) -> bool:
        return self._db.find(Channel(destination)) is not None and self._db.is_alive(owner)

    def read(self, reference: tuple[int, int], max_body: int) -> Message:
        wanted = (
            "SELECT headers, data FROM message JOIN body ON body.id = body WHERE message.id = ? AND stamp = ?"
        )
        rows = self._db.execute(wanted, *reference)
        if not rows:
            raise LookupError(f"message {reference[0]} is gone")
        body = rows[0]["data"]
        if len(body) > max_body:
            raise MalformedData(f"the body has {len(body)} bytes, more than max_body ({max_body} bytes)")
        return read_headers(rows[0]["headers"], body)

    def prepare(self, destination: Destination, message: Message, key: str) -> tuple[str, str]:
        check_target(self._db, Channel(destination))
        self._prepared[key] = message.copy(message.body)
        return self.client_id, key

    def discard(self, handle: tuple[str, str]) -> None:
        if self._prepared.pop(handle[1], None) is None:
            self._db.execute(f"DELETE {_PREPARED}", *handle)

    def sync(self) -> None:
        if not self._prepared:
            return
        with self._db.transaction():
            self.check()
            for key, message in self._prepared.items():
                gone = f"DELETE {_PREPARED}"
                self._db.execute(gone, self.client_id, key)
                body = self._db.first("INSERT INTO body(data) VALUES (?) RETURNING id", message.body)
                insert(self._db, "PREPARED", message, body, self.client_id, key)
        self._prepared.clear()
