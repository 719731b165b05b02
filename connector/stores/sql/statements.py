"""The statements that several parts of the provider use. Each is written once for each database system.

A :class:`~.statement.Statement` runs for each message or each batch. SQLAlchemy executes the others.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)
from sqlalchemy import literal_column as literal
from sqlalchemy.types import BigInteger, Integer, LargeBinary, Text

from connector.stores.sql.dialects import Dialect, RowsParameter, dialect_of, same_version
from connector.stores.sql.schema import (
    DELIVERED,
    NEW,
    NOBODY,
    NOT_COMMITTED,
    PROCESSED,
    channel,
    client,
    counter,
    message,
    published,
    reference,
)
from connector.stores.sql.statement import Statement

ANY_ROW: Final = literal("1", Integer)
"""Selected by statements that only ask whether there is a row."""
_EXTRA_CANDIDATES: Final = 100
"""Messages that a claim by group looks at beyond its limit, in place of messages locked by other clients."""


def order_of(source: FromClause) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """The order of claims."""
    return source.c.priority.desc(), source.c.id


def _is_delayed(source: FromClause) -> ColumnElement[bool]:
    return and_(source.c.state == NEW, source.c.part == literal("'DELAYED'"))


ORDER: Final = order_of(reference)
IS_NEW: Final = reference.c.state == NEW
IS_DELAYED: Final = _is_delayed(reference)
IS_PREPARED: Final = reference.c.state == NOT_COMMITTED
IS_CLAIMED: Final[ColumnElement[bool]] = (
    (reference.c.state == DELIVERED) & reference.c.settled.is_(None) & (reference.c.owner >= literal("''"))
)
"""The message is claimed, or lies in an in-progress destination. The last part lets SQLite use an index."""

_WAITING: Final = (reference.c.channel == bindparam("at"), reference.c.part == bindparam("at_part"), IS_NEW)
"""The message waits in the channel ``at``, in the part ``at_part``."""
_FREE: Final = ("owner", "cycle", "sequence", "taken_from", "home", "home_part")
"""Columns that only a claimed message has, and one that was left in an in-progress destination."""
_CLAIM: Final = (
    *("id", "version", "message", "channel", "part", "priority", "expiration", "due", "delivery_count"),
    *("properties", "owner", "cycle", "sequence", "taken_from", "taken_at", "home", "home_part", "waits"),
)
_OF_CLAIM: Final = tuple(reference.c[name] for name in _CLAIM)
_OF_MESSAGE: Final = {
    "headers": message.c.headers,
    "given_properties": message.c.properties,
    "property_types": message.c.property_types,
}
JOINED: Final = reference.join(message, message.c.id == reference.c.message)


def select_claims(*where: ColumnElement[bool]) -> Select[Any]:
    """Selects references with their messages, as :class:`~.messages.SqlClaim` needs the rows."""
    columns = (column.label(name) for name, column in _OF_MESSAGE.items())
    return select(*_OF_CLAIM, *columns).select_from(JOINED).where(*where)


def _claim(dialect: Dialect, candidates: RowsParameter | None = None, *, by_group: bool = False) -> Any:
    """Claims up to ``limit`` messages, best first. Claims nothing for a client that was taken over from.

    Args:
        candidates: the references that may be taken. None = all.
        by_group: leave the groups that other clients hold.
    """
    own = (client.c.id == bindparam("client_"), client.c.taken_by.is_(None), ~client.c.declared_dead)
    # No other client takes over in the middle of a claim. Afterwards the claim finds nothing.
    is_known = select(ANY_ROW).select_from(client).where(*own).with_for_update(read=True).exists()
    numbered = (
        _candidates_by_group(candidates, is_known) if by_group else _candidates(dialect, candidates, is_known)
    )
    columns = [column.label(name) for name, column in _OF_MESSAGE.items()]
    of_group: ColumnElement[Any] = message.c.group_id
    of_message = message.c.id == reference.c.message
    statement = update(reference).where(reference.c.id == numbered.c.id)
    if dialect.name == "postgresql":
        statement = statement.where(of_message)
    else:  # RETURNING of SQLite has no columns of other tables
        of_group = select(of_group).where(of_message).scalar_subquery()
        columns = [select(one).where(of_message).scalar_subquery().label(one.name) for one in columns]
    statement = statement.values(
        state=DELIVERED,
        version=reference.c.version + 1,
        owner=bindparam("owner_"),
        cycle=bindparam("cycle_"),
        sequence=bindparam("start") + bindparam("step") * numbered.c.place,
        taken_from=bindparam("taken_from_"),
        taken_at=dialect.now,
        channel=bindparam("into"),
        part=bindparam("into_part"),
        home=bindparam("home_"),
        home_part=bindparam("home_part_"),
        claimed_group=of_group,
        returned_by=None,
        settled=None,
    )
    return statement.returning(*_OF_CLAIM, *columns, dialect.now.label("now"))


def _candidates(
    dialect: Dialect, candidates: RowsParameter | None, is_known: ColumnElement[bool]
) -> FromClause:
    """The references to claim, locked, with their ``place``.

    A reference whose message another program has removed is left out on PostgreSQL, where the claim would not
    return it. On SQLite its event fails.
    """
    source = JOINED if dialect.name == "postgresql" else reference
    found = select(reference.c.id, reference.c.priority).select_from(source).where(*_WAITING, is_known)
    if candidates is not None:
        found = found.where(same_version(candidates.source))
    found = found.order_by(*ORDER).limit(bindparam("limit")).with_for_update(skip_locked=True, of=reference)
    picked = found.cte("picked").prefix_with("MATERIALIZED")
    place = func.row_number().over(order_by=order_of(picked)) - 1
    return select(picked.c.id, place.label("place")).subquery("numbered")


def _candidates_by_group(candidates: RowsParameter | None, is_known: ColumnElement[bool]) -> FromClause:
    """The same, without groups that other clients hold.

    A message stays if an earlier message of its group was locked or has changed, and so was not picked.
    """
    columns = reference.c.id, reference.c.priority, message.c.group_id
    found = select(*columns).select_from(JOINED).where(is_known, _is_free())
    if candidates is None:
        found = found.add_columns(reference.c.version).where(*_WAITING)
        found = found.order_by(*ORDER).limit(bindparam("limit") + _EXTRA_CANDIDATES)
    else:
        given = candidates.source
        found = found.add_columns(given.c.version).where(reference.c.id == given.c.id, *_belongs(reference))
        found = found.where(IS_NEW)
    seen = found.cte("seen").prefix_with("MATERIALIZED")
    there = (
        select(reference.c.id)
        .join(seen, same_version(seen))
        .order_by(*order_of(seen))
        .limit(bindparam("limit"))
    )
    picked = there.with_for_update(skip_locked=True, of=reference).cte("picked").prefix_with("MATERIALIZED")
    is_picked = case((seen.c.id.in_(select(picked.c.id)), 1), else_=0)
    in_order = func.min(is_picked).over(partition_by=seen.c.group_id, order_by=order_of(seen))
    is_taken = case((seen.c.group_id.is_(None), is_picked), else_=in_order).label("is_taken")
    marked = select(seen.c.id, seen.c.priority, is_taken).subquery("marked")
    place = func.row_number().over(order_by=order_of(marked)) - 1
    taken = select(marked.c.id, place.label("place")).where(marked.c.is_taken == 1)
    return taken.subquery("numbered")


def _holding(held: FromClause) -> ColumnElement[bool]:
    """A condition: the message holds its group in the channel ``at``, part ``at_part``, for another client.

    So does a message that another client has given back until a time. A client knows those of its own.
    """
    in_channel, in_part = _belongs(held)
    is_claimed = and_(
        in_part,
        held.c.owner != bindparam("owner_"),
        (held.c.owner != NOBODY) | held.c.waits,  # a message in doubt does not hold its group
    )
    comes_again = and_(_is_delayed(held), held.c.returned_by != bindparam("client_"))
    return and_(held.c.claimed_group.is_not(None), in_channel, is_claimed | comes_again)


def _belongs(source: FromClause) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """A condition: the message waits in the channel ``at``, part ``at_part``, or was claimed from there.

    No index of waiting messages serves this condition. So a database begins with the rows that are given.
    """
    return (
        func.coalesce(source.c.home, source.c.channel) == bindparam("at"),
        func.coalesce(source.c.home_part, source.c.part) == bindparam("at_part"),
    )


def _is_free() -> ColumnElement[bool]:
    """A condition: the message has no group, or no other client holds its group."""
    held = reference.alias("held")
    found = select(ANY_ROW).where(held.c.claimed_group == message.c.group_id, _holding(held))
    # PostgreSQL reads all groups at once for EXISTS, and for a LIMIT only the one that is asked for.
    return message.c.group_id.is_(None) | found.limit(1).scalar_subquery().is_(None)


class Statements:
    """The statements for one database system."""

    def __init__(self, dialect: Dialect) -> None:
        self._made = partial(Statement, dialect.name)
        self.now = select(dialect.now)
        self.mark = select(dialect.mark)
        self.pairs = RowsParameter(dialect, id=BigInteger, version=BigInteger)
        """References by ``id`` and ``version``."""
        self.names = RowsParameter(dialect, name=Text)
        """Channels by name."""
        self._write_channels(dialect)
        self._write_readers(dialect)
        self._write_settlements(dialect)
        self._write_sends(dialect)

    def _write_channels(self, dialect: Dialect) -> None:
        wanted = channel.c.name.in_(select(self.names.source.c.name))
        at = (reference.c.channel == channel.c.name, reference.c.part == literal("''"), IS_NEW)
        is_empty = (~exists().where(*at)).label("is_empty")
        self.channels = self._made(select(channel.c.name, is_empty).where(wanted).with_for_update(read=True))
        self.has_channel = select(ANY_ROW).select_from(channel).where(channel.c.name == bindparam("name"))
        self.add_channel = self._made(dialect.insert(channel).on_conflict_do_nothing())
        counted = update(counter).values(value=counter.c.value + 1)
        self.records_changed = self._made(counted.where(counter.c.name == literal("'records'")))
        self.count_transaction: Statement | None = None
        """Numbers the transaction under way, if the database system does not."""
        if dialect.name == "sqlite":
            self.count_transaction = self._made(counted.where(counter.c.name == literal("'transactions'")))

    # long: one list of statements
    def _write_readers(self, dialect: Dialect) -> None:
        self.claim_any = self._made(_claim(dialect))
        self.claim_of = self._made(_claim(dialect, self.pairs))
        self.claim_any_by_group = self._made(_claim(dialect, by_group=True))
        self.claim_of_by_group = self._made(_claim(dialect, self.pairs, by_group=True))
        held = reference.alias("held")
        self.held_groups = select(held.c.claimed_group).where(_holding(held))
        self.lock_groups: Statement | None = None
        """Keeps other transactions from claims by group in the channel ``at``. Executed before the claim."""
        if dialect.name == "postgresql":  # not by the row of the channel, which a settlement shares
            text = func.concat(func.current_schema(), " ", bindparam("at", type_=Text))
            lock = func.pg_advisory_xact_lock(func.hashtextextended(text, 0))
            self.lock_groups = self._made(select(lock))
        is_new = dialect.since(reference.c.changed)
        delayed = (reference.c.channel == bindparam("at"), IS_DELAYED)
        self.due_in = self._made(
            select((func.min(reference.c.due) - dialect.now).label("left")).where(*delayed)
        )
        """The milliseconds until the next delayed message of the channel ``at`` is due. NULL = none."""
        due = update(reference).where(IS_DELAYED, reference.c.due <= dialect.now)
        due = due.values(part=literal("''"), due=None, claimed_group=None, version=reference.c.version + 1)
        self.move_due_anywhere = due.values(changed=dialect.transaction, returned_by=None)
        self.move_due = self._made(self.move_due_anywhere.where(*delayed))
        news = select_claims(*_WAITING, is_new).order_by(reference.c.changed)
        self.news = news.add_columns(message.c.group_id, reference.c.returned_by)
        self.still_there = select(reference.c.id).where(same_version(self.pairs.source))
        expired = (reference.c.expiration > 0) & (reference.c.expiration <= dialect.now)
        aside = update(reference).values(
            version=reference.c.version + 1, changed=dialect.transaction, returned_by=None
        )
        put_expired = aside.where(*_WAITING, expired)
        self.put_expired = put_expired.values(part=literal("'EXPIRED'"), settled=dialect.now)
        is_exhausted = (reference.c.delivery_count > 0, reference.c.delivery_count >= bindparam("limit"))
        self.exhausted = select_claims(*_WAITING, *is_exhausted).with_for_update(
            skip_locked=True, of=reference
        )
        put_exhausted = aside.where(reference.c.id == bindparam("row_id"))
        self.put_exhausted = put_exhausted.values(
            part=literal("'ERROR'"), properties=bindparam("patch"), delivery_count=0
        )
        # PostgreSQL claims no reference without its message, which another program may have removed.
        source = JOINED if dialect.name == "postgresql" else reference
        self.some = select(ANY_ROW).select_from(source).where(*_WAITING).limit(1)
        self.some_free = select(ANY_ROW).select_from(JOINED).where(*_WAITING, _is_free()).limit(1)
        # The orders say which index has the answer.
        self.some_expired = self.some.where(expired).order_by(reference.c.expiration)
        self.some_new = self.some.where(is_new).order_by(reference.c.changed)
        from_others = func.coalesce(reference.c.returned_by, "") != bindparam("client")
        self.some_from_others = self.some_new.where(from_others)
        body = message.c.body, func.length(message.c.body).label("size")
        seen = (reference.c.id == bindparam("number"), reference.c.version == bindparam("seen"))
        self.read = self._made(select_claims(*seen).add_columns(*body))

    # long: one list of statements
    def _write_settlements(self, dialect: Dialect) -> None:
        changed = update(reference).where(same_version(self.pairs.source))
        changed = changed.values(version=reference.c.version + 1, settled=None)
        changed = changed.returning(reference.c.id, (reference.c.version - 1).label("version"))
        free = {**dict.fromkeys(_FREE, None), "taken_at": None, "waits": False, "claimed_group": None}
        # what an operator gives back to an in-progress destination waits there as before
        stays = reference.c.home.is_(None) & (reference.c.channel == bindparam("into"))
        comes_again = bindparam("due_", type_=BigInteger).is_not(None)
        edited = {
            "delivery_count": func.coalesce(
                bindparam("deliveries", type_=Integer), reference.c.delivery_count
            ),
            "properties": bindparam("patch", type_=reference.c.properties.type),
        }
        self.move = self._made(
            changed.values(
                **{
                    **free,
                    "waits": case((stays, reference.c.waits), else_=False),
                    "claimed_group": case((comes_again, reference.c.claimed_group)),
                },
                **edited,
                state=NEW,
                channel=bindparam("into"),
                part=bindparam("into_part"),
                due=bindparam("due_", type_=BigInteger),
                returned_by=bindparam("returned_by_"),
                changed=dialect.transaction,
            )
        )
        self.keep = self._made(changed.values(**free, part=PROCESSED).values(settled=dialect.now))
        self.move_to_in_progress = self._made(
            changed.values(
                **{name: bindparam(f"{name}_") for name in (*_FREE, "waits", "state")},
                **edited,
                taken_at=dialect.now,
                changed=dialect.transaction,
            )
        )
        columns = reference.c.id, reference.c.version, reference.c.message
        is_gone = same_version(self.pairs.source)
        if dialect.name == "sqlite":  # which has no DELETE with another table
            # not correlated, or SQLite would read the whole table
            is_gone = reference.c.id.in_(select(reference.c.id).where(is_gone).correlate(None))
        self._remove = self._made(delete(reference).where(is_gone).returning(*columns))
        self._numbers = RowsParameter(dialect, id=BigInteger)
        is_used = exists().where(reference.c.message == message.c.id)
        gone = message.c.id.in_(select(self._numbers.source.c.id))
        self._remove_messages = self._made(delete(message).where(gone, ~is_used))
        self._is_array = dialect.name == "postgresql"
        values: Any = {"application": bindparam("application_", type_=Text), "changed": dialect.transaction}
        if self._is_array:
            values["key"] = RowsParameter(dialect, key=LargeBinary).source.c.key
            published_ = insert(published).inline().from_select(list(values), select(*values.values()))
        else:
            published_ = insert(published).inline().values(**values, key=bindparam("key_"))
        self._publish = self._made(published_)

    def _write_sends(self, dialect: Dialect) -> None:
        self.send = insert(reference).values(changed=dialect.transaction)
        self.prepare = self.send.values(state=NOT_COMMITTED)
        self.handles = RowsParameter(dialect, owner=Text, key=Text)
        """Prepared messages by ``owner`` and ``key``."""
        given = self.handles.source.c
        owned = (reference.c.owner == given.owner, reference.c.key == given.key, IS_PREPARED)
        columns = reference.c.id, reference.c.version, reference.c.owner, reference.c.key, reference.c.due
        self.find_prepared = self._made(select(*columns).where(*owned))
        copied = ("message", "part", "priority", "expiration", "due", "delivery_count", "properties")
        names = self.names.source
        source = channel.join(names, channel.c.name == names.c.name)
        source = source.join(reference, reference.c.id == bindparam("source"))
        values = (*(reference.c[name] for name in copied), channel.c.name, dialect.transaction)
        self.copy = insert(reference).from_select(
            [*copied, "channel", "changed"], select(*values).select_from(source)
        )

    def remove(self, connection: Connection, pairs: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
        """Removes references by ``id`` and ``version``. Returns those that were there."""
        if not pairs:
            return set()
        rows = self._remove.rows(connection, self.pairs(pairs))
        self._remove_unused(connection, [row.message for row in rows])
        return {(row.id, row.version) for row in rows}

    def remove_where(self, connection: Connection, where: ColumnElement[bool]) -> int:
        """Removes references by a condition. Returns their number."""
        found = connection.execute(delete(reference).where(where).returning(reference.c.message))
        numbers = found.scalars().all()
        self._remove_unused(connection, numbers)
        return len(numbers)

    def _remove_unused(self, connection: Connection, numbers: Collection[int]) -> None:
        """Removes those messages that no channel has any more."""
        if numbers:
            rows = [(number,) for number in set(numbers)]
            self._remove_messages.run(connection, self._numbers(rows))

    def publish(self, connection: Connection, application: str, keys: Iterable[bytes]) -> None:
        """Adds published keys to the duplicate window."""
        if self._is_array:
            self._publish.run(connection, {"application_": application, "rows_key": list(keys)})
        else:
            self._publish.run(connection, [{"application_": application, "key_": key} for key in keys])


@functools.cache
def statements_of(dialect: str) -> Statements:
    """Returns the statements for a database system."""
    return Statements(dialect_of(dialect))
