"""The store of the provider (see :mod:`connector.stores.engine.store`).

The state of a message is a column of its reference. A claim is one UPDATE, a settlement one transaction.
"""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Text,
    cast,
    delete,
    false,
    func,
    literal_column,
    or_,
    select,
    true,
    union_all,
    update,
)

from connector import faults
from connector.errors import ClaimLost, MalformedData, ProviderError, SettlementError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.once import OnceKey, SentOnce
from connector.messaging.retention import Pruned, Retention
from connector.stores.engine.changes import Change, Edit
from connector.stores.engine.channel import Channel, Owner, Part
from connector.stores.engine.claims import LocalClaim
from connector.stores.engine.client import has_ended
from connector.stores.engine.headers import ORIGIN, origin_queue
from connector.stores.engine.store import Counts, Judge, Store, Unreadable
from connector.stores.sql.changes import ChangeWriter, move_to_in_progress, open_channels
from connector.stores.sql.database import CommitAnswerLost, DatabaseClient
from connector.stores.sql.message_columns import read_body, read_message
from connector.stores.sql.messages import SqlClaim, add_messages, channel_name, write_reference
from connector.stores.sql.reader import SqlReader
from connector.stores.sql.schema import NOBODY, PROCESSED, copied_at, message, reference, subscription
from connector.stores.sql.schema import channel as channels
from connector.stores.sql.sent_keys import SentKeyRows
from connector.stores.sql.statements import (
    ANY_ROW,
    IS_CLAIMED,
    IS_DELAYED,
    IS_NEW,
    IS_PREPARED,
    ORDER,
    select_claims,
)
from connector.stores.sql.tasks import SqlTaskSpec, check_target
from connector.text.iso_time import iso_time

_PAGE: Final = 100
"""Messages that are browsed in one transaction."""
_PRUNED: Final = 1000
"""Messages that are removed in one transaction."""
_PLAIN_ID: Final = re.compile(r"[\w.:#-]+", re.ASCII).fullmatch
"""An id that JSON does not escape."""
_MOST_IDS: Final = 20
"""Ids that are looked for without reading all messages."""
_IS_MAIN: Final = reference.c.part == literal_column("''")


class SqlStore(Store):
    """The messages of a database.

    Args:
        keep_processed: seconds that a message without a copy is kept. None = for ever.
        notify: announces messages in channels that were empty.
    """

    def __init__(
        self,
        db: DatabaseClient,
        readers: dict[SqlReader, None],
        keep_processed: float | None,
        notify: Callable[[Sequence[str]], None],
    ) -> None:
        self.title = db.title
        self._db = db
        self._readers = readers
        self._keep_processed = keep_processed
        self._notify = notify
        self._statements = db.statements
        self._sent_keys = SentKeyRows(db)
        self._queues: set[Destination] = set()
        """Existing queues that are not temporary. They need no further check."""

    # -- channels ----------------------------------------------------------------------------------

    def destinations(self) -> list[Destination]:
        rows = self._db.rows(select(channels.c.name).where(~channels.c.name.contains(";", autoescape=True)))
        return [parse_destination(row.name) for row in rows]

    def has(self, channel: Channel) -> bool:
        return self._db.first(self._statements.has_channel, {"name": channel_name(channel)}) is not None

    def create(self, channel: Channel) -> None:
        if not self.has(channel):
            with self._db.transaction() as connection:
                self._statements.add_channel.run(connection, {"name": channel_name(channel)})

    def remove(self, channel: Channel, *, claimed: bool) -> None:
        name = channel_name(channel)
        # one after the other, because each has an index
        going = (IS_NEW, reference.c.settled.is_not(None), *((IS_CLAIMED,) if claimed else ()))
        with self._db.transaction() as connection:
            connection.execute(delete(channels).where(channels.c.name == name))
            if channel.subscription:
                topic = str(channel.destination)
                which = (subscription.c.topic == topic) & (subscription.c.key == channel.subscription)
                connection.execute(delete(subscription).where(which))
                self._statements.records_changed.run(connection, {})
            for state in going:
                self._statements.remove_where(connection, (reference.c.channel == name) & state)

    def empty(self, channel: Channel) -> None:
        with self._db.transaction() as connection:
            self._statements.remove_where(connection, _in(channel) & (_IS_MAIN & IS_NEW | IS_DELAYED))

    def count(self, channel: Channel) -> Counts:
        number = func.count().label("number")
        waiting = select(reference.c.part, number).where(_in(channel), IS_NEW).group_by(reference.c.part)
        claimed = select(literal_column("'DELIVERED'", Text), number).where(_in(channel), IS_CLAIMED)
        kept = (reference.c.part == PROCESSED) & reference.c.settled.is_not(None)
        processed = select(literal_column(f"'{PROCESSED}'", Text), number).where(_in(channel), kept)
        found = dict(map(tuple, self._db.rows(union_all(waiting, claimed, processed))))
        parts = ("", "DELIVERED", "EXPIRED", "ERROR", PROCESSED, Part.DELAYED.value)
        return Counts(*(found.get(part, 0) for part in parts))

    def scan(
        self,
        channel: Channel,
        *,
        waiting: bool,
        claimed: bool,
        unreadable: Unreadable | None,
        ids: frozenset[str] | None = None,
    ) -> Iterator[Message]:
        wanted, where = [], _in(channel) & _may_be(ids)
        if waiting:
            wanted.append(self._pages(where & IS_NEW & (reference.c.part == channel.part.value)))
        if claimed:
            wanted.append(self._pages(where & IS_CLAIMED))
        for row in heapq.merge(*wanted, key=_order):
            reasons: list[str] = []
            found = read_message(row, unreadable=reasons.append)
            is_whole = True
            try:
                found.body = read_body(row)
            except MalformedData as error:
                reasons.append(str(error))
                is_whole = False
            if reasons and unreadable is not None:
                unreadable(found, reasons[0])
            if not is_whole:
                continue
            if row.home is not None and row.taken_from != row.channel:
                found.set_property(ORIGIN, row.taken_from)
            yield found

    def _pages(self, where: ColumnElement[bool]) -> Iterator[Any]:
        """Yields messages in the order of claims. Each page is a transaction."""
        columns = select_claims(where).add_columns(message.c.body).order_by(*ORDER).limit(_PAGE)
        page, is_last = columns, True
        last: Any = None
        while True:
            rows = self._db.rows(page)
            yield from rows
            last = rows[-1] if rows else last
            if len(rows) == _PAGE:  # two conditions that an index answers, one after the other
                same = reference.c.priority == last.priority
                page, is_last = columns.where(same, reference.c.id > last.id), False
            elif is_last:
                return
            else:
                page, is_last = columns.where(reference.c.priority < last.priority), True

    def in_progress_claims(self, channel: Channel) -> list[LocalClaim]:
        found: list[LocalClaim] = []
        here = _in(channel) & _IS_MAIN
        rows = self._db.rows(union_all(select_claims(here, IS_NEW), select_claims(here, IS_CLAIMED)))
        for row in sorted(rows, key=_order):
            claim = SqlClaim(row)
            if not claim.in_progress:
                claim.in_progress = True
                origin = origin_queue(claim.headers()) if claim.owner is None else None
                if origin is not None:
                    claim.home, claim.destination = Channel(origin), origin
            found.append(claim)
        return found

    def owners(self, channel: Channel) -> Iterator[tuple[str, str, float]]:
        owned = _in(channel) & IS_CLAIMED & (reference.c.owner != NOBODY)
        for row in self._db.rows(select_claims(owned)):
            yield read_message(row).message_id or "", row.owner, (row.taken_at or 0) / 1000

    def reader(
        self, channel: Channel, judge: Judge, into: Channel | None, destination: Destination, lot: str = ""
    ) -> SqlReader:
        return SqlReader(self._db, self._readers, channel, judge, into, destination, lot)

    # -- sending -----------------------------------------------------------------------------------

    def put(self, messages: Sequence[tuple[Message, Sequence[Channel]]]) -> None:
        wanted = {channel for _, several in messages for channel in several}
        with self._db.transaction() as connection:
            self._db.count_transaction(connection)
            for channel in wanted:
                if channel.can_end and not channel.subscription and not self.has(channel):
                    raise has_ended(channel.destination)
            there = open_channels(connection, self._db, wanted)
            sent = []
            for one, several in messages:
                names = [(name, c) for c in several if (name := channel_name(c)) in there]
                if names:
                    sent.append((one, names))
            numbers = add_messages(connection, [one for one, _ in sent])
            rows = [
                {"message": number, "channel": name, "part": part.value, **write_reference(one)}
                for number, (one, names) in zip(numbers, sent, strict=True)
                for name, channel in names
                for part in (Part.DELAYED if one.delivery_time else channel.part,)
            ]
            if rows:
                connection.execute(self._statements.send, rows)
        self._announce(there)

    def put_once(self, message: Message, channels: Sequence[Channel], once: OnceKey) -> SentOnce:
        identity = message.message_id or ""
        while True:
            with self._db.transaction() as connection:
                if self._sent_keys.add(connection, once, identity):
                    self.put([(message, channels)])
                    faults.point("once.uncommitted")
                    break
            found = self._sent_keys.find(once.application, once.key)
            if found is not None:  # else its time is over meanwhile
                return found
        faults.point("once.committed")
        return SentOnce(identity, is_new=True, fingerprint=once.fingerprint)

    def find_sent(self, application: str, key: str) -> SentOnce | None:
        return self._sent_keys.find(application, key)

    def _announce(self, channels_: Mapping[str, bool]) -> None:
        """Announces messages in the channels that were empty before a commit."""
        empty = [name for name, was_empty in channels_.items() if was_empty]
        if empty:
            self._db.after_commit(partial(self._notify, empty))

    def prepared(self, handle: Sequence[str]) -> Message | None:
        owned = (reference.c.owner == handle[0]) & (reference.c.key == handle[1])
        rows = self._db.rows(select_claims(owned, IS_PREPARED))
        return read_message(rows[0]) if rows else None

    def check_writable(self, destination: Destination) -> None:
        if destination in self._queues:
            return
        check_target(self._db, destination)
        if not Channel(destination).can_end:
            self._queues.add(destination)

    # -- settling ----------------------------------------------------------------------------------

    def apply(self, changes: Sequence[Change], *, fenced: bool) -> None:
        settlement = ChangeWriter(self._db, keeps=self._keep_processed != 0)
        try:
            with self._db.transaction() as connection:
                settlement.run(connection, changes, fenced=fenced)
                faults.point("settle.record")
        except (ClaimLost, CommitAnswerLost):
            raise
        except ProviderError as error:
            raise SettlementError(str(error)) from error
        faults.point("settle.committing")
        self._announce(settlement.channels)
        faults.point("settle.finished")

    def set_owner(self, claim: LocalClaim, owner: Owner | None, edit: Edit) -> LocalClaim | None:
        assert isinstance(claim, SqlClaim)
        with self._db.transaction() as connection:
            if not move_to_in_progress(self._db, claim, owner, edit, waits=False):
                return None
            found = select_claims(reference.c.id == claim.reference[0])
            return SqlClaim(connection.execute(found).one())

    def claims(self, client_ids: Collection[str], in_progress: Channel | None) -> dict[str, list[LocalClaim]]:
        place = "" if in_progress is None else channel_name(in_progress)
        lies = reference.c.home.is_(None) | (reference.c.channel == place)
        claims = select_claims(reference.c.owner.in_(list(client_ids)), IS_CLAIMED, lies)
        found: dict[str, list[LocalClaim]] = {}
        for row in self._db.rows(claims.order_by(reference.c.cycle, reference.c.sequence)):
            found.setdefault(row.owner, []).append(SqlClaim(row))
        return found

    def finish(self, client_id: str) -> None:
        late = update(reference).where((reference.c.owner == client_id) & IS_CLAIMED)
        with self._db.transaction() as connection:
            connection.execute(late.values(version=reference.c.version + 1))

    def discard_prepared(self, client_id: str) -> None:
        with self._db.transaction() as connection:
            self._statements.remove_where(connection, (reference.c.owner == client_id) & IS_PREPARED)

    # -- removing ----------------------------------------------------------------------------------

    def prune(self, retentions: Sequence[Retention], seconds: float) -> Pruned:
        deadline = time.monotonic() + seconds
        self._move_due()
        settled, is_done = 0, True
        if self._keep_processed is not None:
            settled, is_done = self._prune_settled(self._keep_processed, deadline)
        copies: dict[Destination, int] = {}
        for one in retentions:
            number, all_seen = self._prune_copies(one, deadline)
            is_done = is_done and all_seen
            if number:
                copies[one.destination] = number
        return Pruned(settled, copies, is_done)

    def _move_due(self) -> None:
        """Moves all delayed messages that are due, for programs that read the tables themselves."""
        is_due = IS_DELAYED & (reference.c.due <= self._db.dialect.now)
        if self._db.first(select(ANY_ROW).select_from(reference).where(is_due).limit(1)) is not None:
            with self._db.transaction() as connection:
                self._db.count_transaction(connection)
                connection.execute(self._statements.move_due_anywhere)

    def _prune_settled(self, keep: float, deadline: float) -> tuple[int, bool]:
        number = 0
        old = reference.c.settled < self._db.dialect.now - int(keep * 1000)
        for name in self._db.rows(select(channels.c.name)):
            for part in (PROCESSED, Part.EXPIRED.value):
                here = (reference.c.channel == name[0]) & (reference.c.part == part) & old
                found = select(reference.c.id).where(here).limit(_PRUNED)
                while True:
                    with self._db.transaction() as connection:
                        removed = self._statements.remove_where(connection, reference.c.id.in_(found) & old)
                    number += removed
                    if removed < _PRUNED:
                        break
                    if time.monotonic() > deadline:
                        return number, False
        return number, True

    def _prune_copies(self, retention: Retention, deadline: float) -> tuple[int, bool]:
        now, copied = time.time(), copied_at(reference.c.properties)
        is_old = reference.c.properties.is_not(None) & (copied < iso_time(now - retention.seconds))
        old = select_claims(_in(Channel(retention.destination)), _IS_MAIN, IS_NEW, is_old)
        old = old.order_by(copied, reference.c.id).limit(_PRUNED)  # the order of an index
        number = others = 0
        while True:
            rows = self._db.rows(old.offset(others))
            over = [(row.id, row.version) for row in rows if retention.is_over(read_message(row), now, now)]
            removed = 0
            if over:
                with self._db.transaction() as connection:
                    removed = len(self._statements.remove(connection, over))
            number += removed
            others += len(rows) - removed
            if len(rows) < _PRUNED:
                return number, True
            if time.monotonic() > deadline:
                return number, False

    def tasks(self) -> SqlTaskSpec:
        return SqlTaskSpec(self._db.database.settings, self._db.client_id)


def _order(row: Any) -> tuple[bool, Any, int]:
    """Returns the sort key of a row. SQLite orders a number before a text of another program."""
    priority = row.priority
    return (False, -priority, row.id) if isinstance(priority, int | float) else (True, "", row.id)


def _in(channel: Channel) -> ColumnElement[bool]:
    """A condition: the message is in any part of a channel."""
    return reference.c.channel == channel_name(channel)


def _may_be(ids: frozenset[str] | None) -> ColumnElement[bool]:
    """Whether a message may have one of some ids, or name one in a property. None = every message may."""
    if ids is None or len(ids) > _MOST_IDS or not all(map(_PLAIN_ID, ids)):
        return true()
    named: list[ColumnElement[bool]] = []
    for identity in ids:
        if identity.isdecimal() and len(identity) < 19:
            named.append(message.c.id == int(identity))
        for column in (message.c.headers, message.c.properties, reference.c.properties):
            named.append(cast(column, Text).contains(identity, autoescape=True))
    return or_(*named) if named else false()
