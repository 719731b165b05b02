"""A store on a database (see :mod:`connector.core.local.store`).

The state of a message is a column of its reference. A claim is one UPDATE, a settlement one transaction.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Text,
    delete,
    func,
    insert,
    literal_column,
    select,
    true,
    union_all,
    update,
)

from connector import faults
from connector.core.local.changes import Change, Edit
from connector.core.local.channel import Channel, Owner, Part
from connector.core.local.claims import LocalClaim
from connector.core.local.client import has_ended
from connector.core.local.headers import ORIGIN, origin_queue
from connector.core.local.store import Counts, Judge, Unreadable
from connector.errors import ClaimLost, ProviderError, SettlementError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.retention import Pruned, Retention
from connector.providers.sql.changes import (
    Settlement,
    lie_values,
    open_channels,
    remove_messages,
    statements_of,
)
from connector.providers.sql.database import (
    CommitUnknown,
    DatabaseClient,
    add_if_missing,
    records_changed,
)
from connector.providers.sql.dialects import SOME, claim_columns
from connector.providers.sql.liveness import Marks
from connector.providers.sql.messages import (
    SqlClaim,
    add_messages,
    channel_name,
    read_message,
    write_reference,
)
from connector.providers.sql.reader import SqlReader
from connector.providers.sql.schema import (
    NEW,
    PROCESSED,
    is_claimed,
    message,
    reference,
    subscription,
    this_transaction,
)
from connector.providers.sql.schema import channel as channels
from connector.providers.sql.tasks import SqlTaskSpec, check_target

_PAGE: Final = 100
"""Messages that are browsed in one transaction."""
_PRUNED: Final = 1000
"""Messages that are removed in one transaction."""
_JOINED: Final = reference.join(message, message.c.id == reference.c.message)
_IS_NEW: Final = reference.c.state == literal_column("'NEW'")
_ORDER: Final = (reference.c.priority.desc(), reference.c.id)


class SqlStore:
    """See :class:`connector.core.local.store.Store`.

    Args:
        db: of the client.
        client_id, application: of the client.
        marks: say who is alive.
        readers: gets the readers of the client.
        keep_processed: seconds that a message without a copy is kept; None = for ever.
        notify: tells whoever waits of channels that were empty.
    """

    has_foreign = False

    def __init__(
        self,
        db: DatabaseClient,
        client_id: str,
        application: str,
        marks: Marks,
        readers: dict[SqlReader, None],
        keep_processed: float | None,
        notify: Callable[[Sequence[str]], None],
    ) -> None:
        self.title = db.title
        self._db = db
        self._client_id = client_id
        self._application = application
        self._marks = marks
        self._readers = readers
        self._keep_processed = keep_processed
        self._notify = notify
        self._statements = statements_of(db.dialect.name)
        self._queues: set[Destination] = set()
        """Queues that are there and not temporary: nothing has to be asked of them again."""

    # -- channels ----------------------------------------------------------------------------------

    def destinations(self) -> list[Destination]:
        rows = self._db.rows(select(channels.c.name).where(~channels.c.name.contains(";", autoescape=True)))
        return [parse_destination(row.name) for row in rows]

    def has(self, channel: Channel) -> bool:
        found = select(SOME).select_from(channels).where(channels.c.name == channel_name(channel))
        return self._db.first(found) is not None

    def create(self, channel: Channel) -> None:
        if not self.has(channel):
            with self._db.transaction() as connection:
                add_if_missing(connection, channel_name(channel))

    def drop(self, channel: Channel, *, claimed: bool) -> None:
        name = channel_name(channel)
        going = true() if claimed else ~is_claimed()
        with self._db.transaction() as connection:
            connection.execute(delete(channels).where(channels.c.name == name))
            if channel.subscription:
                topic = str(channel.destination)
                which = (subscription.c.topic == topic) & (subscription.c.key == channel.subscription)
                connection.execute(delete(subscription).where(which))
                records_changed(connection)
            self._remove(connection, (reference.c.channel == name) & going)

    def empty(self, channel: Channel) -> None:
        waits = (reference.c.channel == channel_name(channel)) & (reference.c.part == "")
        with self._db.transaction() as connection:
            self._remove(connection, waits & (reference.c.state == NEW))

    def _remove(self, connection: Any, which: Any) -> int:
        """Removes references, and the messages that no other channel has."""
        found = connection.execute(delete(reference).where(which).returning(reference.c.message))
        numbers = list(found.scalars())
        remove_messages(connection, self._db, numbers)
        return len(numbers)

    def count(self, channel: Channel) -> Counts:
        here = reference.c.channel == channel_name(channel)
        number = func.count().label("number")
        waiting = select(reference.c.part, number).where(here, _IS_NEW).group_by(reference.c.part)
        claimed = select(literal_column("'DELIVERED'", Text), number).where(here, is_claimed())
        kept = (reference.c.part == PROCESSED) & reference.c.settled.is_not(None)
        processed = select(literal_column(f"'{PROCESSED}'", Text), number).where(here, kept)
        found = dict(map(tuple, self._db.rows(union_all(waiting, claimed, processed))))
        return Counts(
            found.get("", 0),
            found["DELIVERED"],
            found.get("EXPIRED", 0),
            found.get("ERROR", 0),
            found[PROCESSED],
        )

    def scan(
        self, channel: Channel, *, waiting: bool, claimed: bool, unreadable: Unreadable | None
    ) -> Iterator[Message]:
        here = reference.c.channel == channel_name(channel)
        wanted = []
        if waiting:
            wanted.append(self._pages(here & _IS_NEW & (reference.c.part == channel.part.value)))
        if claimed:
            wanted.append(self._pages(here & is_claimed()))
        for row in heapq.merge(*wanted, key=lambda row: (-row.priority, row.id)):
            found = read_message(row, bytes(row.body))
            if row.home is not None and row.taken_from != row.channel:
                found.set_property(ORIGIN, row.taken_from)
            yield found

    def _pages(self, where: ColumnElement[bool]) -> Iterator[Any]:
        """References with their messages, in the order of taking; each page is a transaction of its own."""
        columns = select(*claim_columns(None), message.c.body).select_from(_JOINED).where(where)
        page = columns.order_by(*_ORDER).limit(_PAGE)
        while True:
            rows = self._db.rows(page)
            yield from rows
            if len(rows) < _PAGE:
                return
            last = rows[-1]
            lower = reference.c.priority < last.priority
            later = (reference.c.priority == last.priority) & (reference.c.id > last.id)
            page = columns.where(lower | later).order_by(*_ORDER).limit(_PAGE)

    def lying(self, channel: Channel) -> list[LocalClaim]:
        where = (reference.c.channel == channel_name(channel)) & (reference.c.part == "")
        found: list[LocalClaim] = []
        for row in self._db.rows(
            select(*claim_columns(None)).select_from(_JOINED).where(where).order_by(*_ORDER)
        ):
            claim = SqlClaim(row)
            if not claim.in_progress:
                claim.in_progress = True
                origin = origin_queue(claim.headers()) if claim.owner is None else None
                if origin is not None:
                    claim.home, claim.destination = Channel(origin), origin
            found.append(claim)
        return found

    def reader(
        self, channel: Channel, judge: Judge, into: Channel | None, destination: Destination
    ) -> SqlReader:
        return SqlReader(self._db, self._client_id, self._readers, channel, judge, into, destination)

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
                {"message": number, "channel": name, "part": channel.part.value, **write_reference(one)}
                for number, (one, names) in zip(numbers, sent, strict=True)
                for name, channel in names
            ]
            if rows:
                connection.execute(_REFERENCES, rows)
        self._tell(there)

    def _tell(self, channels_: Mapping[str, bool]) -> None:
        """Tells whoever waits of the channels that were empty before a commit."""
        empty = [name for name, was_empty in channels_.items() if was_empty]
        if empty:
            self._notify(empty)

    def prepared(self, handle: Sequence[str]) -> Message | None:
        owned = (reference.c.owner == handle[0]) & (reference.c.key == handle[1])
        where = owned & (reference.c.state == literal_column("'NOT_COMMITTED'"))
        rows = self._db.rows(select(*claim_columns(None)).select_from(_JOINED).where(where))
        return read_message(rows[0]) if rows else None

    def check_writable(self, destination: Destination) -> None:
        if destination in self._queues:
            return
        check_target(self._db, destination)
        if not Channel(destination).can_end:
            self._queues.add(destination)

    # -- settling ----------------------------------------------------------------------------------

    def apply(self, changes: Sequence[Change], *, fenced: bool) -> None:
        keeps = self._keep_processed != 0
        settlement = Settlement(self._db, self._client_id, self._application, keeps=keeps)
        try:
            with self._db.transaction() as connection:
                settlement.run(connection, changes, fenced=fenced)
                faults.point("settle.record")
        except (ClaimLost, CommitUnknown):
            raise
        except ProviderError as error:
            raise SettlementError(str(error)) from error
        faults.point("settle.committing")
        self._tell(settlement.channels)
        faults.point("settle.finished")

    def own(self, claim: LocalClaim, owner: Owner | None, edit: Edit) -> LocalClaim | None:
        assert isinstance(claim, SqlClaim)
        with self._db.transaction() as connection:
            values = lie_values(self._statements, claim, owner, edit, waits=False)
            if not self._statements.lie.rows(connection, values):
                return None
            found = select(*claim_columns(None)).select_from(_JOINED).where(reference.c.id == claim.row_id)
            return SqlClaim(connection.execute(found).one())

    def claims(self, client_ids: Collection[str], in_progress: Channel | None) -> dict[str, list[LocalClaim]]:
        place = "" if in_progress is None else channel_name(in_progress)
        lies = reference.c.home.is_(None) | (reference.c.channel == place)
        where = reference.c.owner.in_(list(client_ids)) & is_claimed() & lies
        columns = select(*claim_columns(None)).select_from(_JOINED)
        found: dict[str, list[LocalClaim]] = {}
        for row in self._db.rows(columns.where(where).order_by(reference.c.cycle, reference.c.sequence)):
            found.setdefault(row.owner, []).append(SqlClaim(row))
        return found

    def finish(self, client_id: str) -> None:
        late = update(reference).where((reference.c.owner == client_id) & is_claimed())
        with self._db.transaction() as connection:
            connection.execute(late.values(version=reference.c.version + 1))

    def forget(self, client_id: str) -> None:
        with self._db.transaction() as connection:
            prepared = (reference.c.owner == client_id) & (reference.c.state == "NOT_COMMITTED")
            self._remove(connection, prepared)

    # -- removing ----------------------------------------------------------------------------------

    def prune(self, retentions: Sequence[Retention], seconds: float) -> Pruned:
        deadline = time.monotonic() + seconds
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

    def _prune_settled(self, keep: float, deadline: float) -> tuple[int, bool]:
        number = 0
        old = reference.c.settled < self._db.dialect.now - int(keep * 1000)
        for name in self._db.rows(select(channels.c.name)):
            for part in (PROCESSED, Part.EXPIRED.value):
                here = (reference.c.channel == name[0]) & (reference.c.part == part) & old
                found = select(reference.c.id).where(here).limit(_PRUNED)
                while True:
                    with self._db.transaction() as connection:
                        removed = self._remove(connection, reference.c.id.in_(found) & old)
                    number += removed
                    if removed < _PRUNED:
                        break
                    if time.monotonic() > deadline:
                        return number, False
        return number, True

    def _prune_copies(self, retention: Retention, deadline: float) -> tuple[int, bool]:
        where = (reference.c.channel == channel_name(Channel(retention.destination))) & (
            reference.c.state == literal_column("'NEW'")
        )
        columns = select(*claim_columns(None)).select_from(_JOINED).order_by(reference.c.id).limit(_PRUNED)
        last, number = 0, 0
        while True:
            rows = self._db.rows(columns.where(where & (reference.c.part == "") & (reference.c.id > last)))
            now = time.time()
            over = [row for row in rows if retention.is_over(read_message(row), now, now)]
            if over:
                pairs = self._statements.pairs([(row.id, row.version) for row in over])
                with self._db.transaction() as connection:
                    gone = self._statements.remove.rows(connection, pairs)
                    remove_messages(connection, self._db, (row.message for row in gone))
                number += len(gone)
            if len(rows) < _PRUNED:
                return number, True
            last = rows[-1].id
            if time.monotonic() > deadline:
                return number, False

    def tasks(self) -> SqlTaskSpec:
        return SqlTaskSpec(self._db.database.settings, self._client_id)


_REFERENCES: Final = insert(reference).values(changed=this_transaction())
