"""What SQLite and PostgreSQL do differently: their connections, and a few statements."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Engine,
    FromClause,
    Integer,
    LargeBinary,
    Select,
    String,
    Text,
    bindparam,
    case,
    cast,
    column,
    delete,
    event,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy.types import UserDefinedType

from connector.providers.sql.schema import NOBODY, client, counter, message, reference
from connector.providers.sql.statement import Statement, driver_of

BUSY_SECONDS: Final = 30.0
"""For which a statement waits for the lock of another process on a SQLite file."""
IDLE_SECONDS: Final = 60
"""After which PostgreSQL ends a transaction in which nothing happens. None of ours waits for so long."""

READ_ONLY: Final = "connector_read_only"
"""Option of a connection whose transaction only reads."""


class Rows:
    """A list of rows that a statement gets as one parameter, named ``rows`` or ``rows_<column>``.

    Args:
        dialect: that the statement is for.
        columns: names and types; texts or numbers, and bytes for PostgreSQL.
    """

    def __init__(
        self, dialect: Dialect, **columns: type[Text] | type[BigInteger] | type[LargeBinary]
    ) -> None:
        self._names = list(columns)
        self._as_arrays = dialect.name == "postgresql"
        self.source: FromClause
        if self._as_arrays:
            arrays = [bindparam(f"rows_{name}", type_=ARRAY(kind)) for name, kind in columns.items()]
            made = func.unnest(*arrays).table_valued(*(column(name, kind) for name, kind in columns.items()))
            self.source = made.render_derived(name="given")
        else:
            each = func.json_each(bindparam("rows", type_=String)).table_valued("value", name="each")
            picked = [
                func.json_extract(each.c.value, literal_column(f"'$[{index}]'"), type_=kind()).label(name)
                for index, (name, kind) in enumerate(columns.items())
            ]
            self.source = select(*picked).subquery("given")

    def __call__(self, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """The parameters of a statement."""
        if not self._as_arrays:
            return {"rows": json.dumps(rows)}
        columns = list(zip(*rows, strict=True)) or [()] * len(self._names)
        return {f"rows_{name}": list(values) for name, values in zip(self._names, columns, strict=True)}


class Dialect(Protocol):
    """One of the two."""

    name: str
    now: ColumnElement[int]
    """The clock of the store, in milliseconds since 1970."""
    mark: ColumnElement[str]
    """What has happened until now, for :meth:`since`."""
    beginning: Any
    """The mark of a time when nothing had happened."""
    count_transaction: Statement | None
    """Gives the transaction under way its number; None where the database does so."""
    claim_by_group: Statement | None
    """Lets no other transaction claim by group from the channel ``at`` until this one ends.

    Executed before the claim, whose snapshot has to come later. None where only one transaction writes.
    """

    def configure(self, engine: Engine, *, schema: str | None, durable: bool) -> None:
        """Prepares what every new connection is told."""

    def since(self, changed: ColumnElement[Any]) -> ColumnElement[bool]:
        """Whether the transaction in a column has ended since the mark in the parameter ``mark``."""

    def of_message(self, found: ColumnElement[Any]) -> ColumnElement[Any]:
        """A column of the message, in what an UPDATE of its reference returns."""

    def deletion(self, rows: Rows) -> Any:
        """Deletes the references whose ``id`` and ``version`` are given; returns ``id`` and ``message``."""

    def share(self, statement: Select[Any]) -> Select[Any]:
        """Lets nobody change or delete the rows that are found, until the transaction ends."""


def _held(source: FromClause) -> ColumnElement[bool]:
    return (reference.c.id == source.c.id) & (reference.c.version == source.c.version)


class SqliteDialect:
    """SQLite: one writer at a time, whose transaction begins with the lock."""

    name = "sqlite"
    now: ColumnElement[int] = literal_column(
        "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)", BigInteger
    )
    mark: ColumnElement[Any] = (
        select(counter.c.value).where(counter.c.name == literal_column("'transactions'")).scalar_subquery()
    )
    beginning = 0
    count_transaction: Statement | None = Statement(
        name,
        update(counter)
        .where(counter.c.name == literal_column("'transactions'"))
        .values(value=counter.c.value + 1),
    )
    claim_by_group: Statement | None = None

    def configure(self, engine: Engine, *, schema: str | None, durable: bool) -> None:
        @event.listens_for(engine, "connect")
        def tell(connection: Any, record: Any) -> None:
            connection.isolation_level = None  # the driver begins no transactions of its own
            connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")

        @event.listens_for(engine, "begin")
        def begin(connection: Any) -> None:
            reads = connection.get_execution_options().get(READ_ONLY)
            with driver_of(connection) as driver:
                driver.execute("BEGIN" if reads else "BEGIN IMMEDIATE")

    def since(self, changed: ColumnElement[Any]) -> ColumnElement[bool]:
        return changed > bindparam("mark", type_=BigInteger)

    def of_message(self, found: ColumnElement[Any]) -> ColumnElement[Any]:
        return select(found).where(message.c.id == reference.c.message).scalar_subquery()

    def deletion(self, rows: Rows) -> Any:
        found = select(reference.c.id).where(_held(rows.source))
        statement = delete(reference).where(reference.c.id.in_(found))
        return statement.returning(reference.c.id, reference.c.version, reference.c.message)

    def share(self, statement: Select[Any]) -> Select[Any]:
        return statement


_PLANS: Final = (
    *("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin"),
    *("enable_sort", "enable_incremental_sort"),
)
"""Kinds of plans of PostgreSQL that read more rows than are wanted."""


class _Snapshot(UserDefinedType[str]):
    """The type ``pg_snapshot``."""

    cache_ok = True

    def get_col_spec(self, **options: Any) -> str:
        return "pg_snapshot"


class PostgresDialect:
    """PostgreSQL: many writers, who skip each other's rows."""

    name = "postgresql"
    now: ColumnElement[int] = literal_column(
        "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)", BigInteger
    )
    mark: ColumnElement[Any] = cast(func.pg_current_snapshot(), Text)
    beginning = "1:1:"
    count_transaction: Statement | None = None
    claim_by_group: Statement | None = Statement(
        name,
        # not the row of the channel: whoever sends or settles shares that
        select(
            func.pg_advisory_xact_lock(
                func.hashtextextended(func.concat(func.current_schema(), " ", bindparam("at", type_=Text)), 0)
            )
        ),
    )

    def configure(self, engine: Engine, *, schema: str | None, durable: bool) -> None:
        settings = {
            "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
            # The statements wait for each other's rows and then see them as they are.
            "default_transaction_isolation": "read committed",
            # The tables fill and empty faster than statistics follow. An index has all that we ask for, in
            # the order in which we want it.
            **dict.fromkeys(_PLANS, "off"),
        }
        if not durable:
            settings["synchronous_commit"] = "off"
        if schema:
            settings["search_path"] = '"' + schema.replace('"', '""') + '"'

        @event.listens_for(engine, "connect")
        def tell(connection: Any, record: Any) -> None:
            before, connection.autocommit = connection.autocommit, True
            with connection.cursor() as cursor:
                for key, value in settings.items():
                    cursor.execute("SELECT set_config(%s, %s, false)", (key, value))
            connection.autocommit = before

    def since(self, changed: ColumnElement[Any]) -> ColumnElement[bool]:
        mark: ColumnElement[str] = cast(bindparam("mark", type_=Text), _Snapshot())
        seen = func.pg_visible_in_snapshot(changed, mark)
        return (changed >= func.pg_snapshot_xmin(mark)) & ~seen  # the first part is for the index

    def of_message(self, found: ColumnElement[Any]) -> ColumnElement[Any]:
        return found

    def deletion(self, rows: Rows) -> Any:
        statement = delete(reference).where(_held(rows.source))
        return statement.returning(reference.c.id, reference.c.version, reference.c.message)

    def share(self, statement: Select[Any]) -> Select[Any]:
        return statement.with_for_update(read=True)


_SQLITE: Final = SqliteDialect()
_POSTGRESQL: Final = PostgresDialect()
SOME: Final = literal_column("1", Integer)
"""What a statement selects that only asks whether there is a row."""


def dialect_of(name: str) -> Dialect:
    """The dialect of a database."""
    return _SQLITE if name == "sqlite" else _POSTGRESQL


def claim_statement(dialect: Dialect, candidates: Rows | None, *, by_group: bool = False) -> Statement:
    """Claims up to ``limit`` messages of the channel ``at`` in one statement, best first.

    A client that somebody takes over from claims nothing.

    Args:
        dialect: of the database.
        candidates: the references with ``id`` and ``version`` that may be taken; None = all.
        by_group: leave the groups that others hold.
    """
    own = (client.c.id == bindparam("owner_"), client.c.taken_by.is_(None), ~client.c.declared_dead)
    # nobody takes over from a client in the middle of a claim, and afterwards it finds nothing
    is_known = dialect.share(select(SOME).select_from(client).where(*own)).exists()
    numbered = _picked_by_group(candidates, is_known) if by_group else _picked(candidates, is_known)
    statement = update(reference).where(reference.c.id == numbered.c.id)
    if dialect.name == "postgresql":
        statement = statement.where(message.c.id == reference.c.message)
    statement = statement.values(
        state=literal_column("'DELIVERED'"),
        version=reference.c.version + 1,
        owner=bindparam("owner_"),
        cycle=bindparam("cycle_"),
        sequence=bindparam("start") + bindparam("step") * numbered.c.place,
        taken_from=bindparam("taken_from_"),
        channel=bindparam("into"),
        part=bindparam("into_part"),
        home=bindparam("home_"),
        home_part=bindparam("home_part_"),
        claimed_group=dialect.of_message(message.c.group_id),
        returned_by=None,
        settled=None,
    )
    return Statement(dialect.name, statement.returning(*claim_columns(dialect), dialect.now.label("now")))


def _picked(candidates: Rows | None, is_known: ColumnElement[bool]) -> FromClause:
    """The references to claim, locked, with their ``place``."""
    found = select(reference.c.id, reference.c.priority).where(*waiting(), is_known)
    if candidates is not None:
        found = found.where(_held(candidates.source))
    found = found.order_by(*_order(reference)).limit(bindparam("limit"))
    picked = found.with_for_update(skip_locked=True, of=reference).cte("picked").prefix_with("MATERIALIZED")
    place = func.row_number().over(order_by=_order(picked)) - 1
    return select(picked.c.id, place.label("place")).subquery("numbered")


def _picked_by_group(candidates: Rows | None, is_known: ColumnElement[bool]) -> FromClause:
    """The same, without groups that others hold.

    A message stays if an earlier one of its group was locked, or has changed, and so was not picked.
    """
    columns = reference.c.id, reference.c.priority, message.c.group_id
    found = select(*columns).join(message, message.c.id == reference.c.message).where(is_known, is_free())
    if candidates is None:
        found = found.add_columns(reference.c.version).where(*waiting())
        found = found.order_by(*_order(reference)).limit(bindparam("limit") + _SPARE)
    else:
        given = candidates.source
        found = found.add_columns(given.c.version).where(reference.c.id == given.c.id, *_belongs(reference))
        found = found.where(reference.c.state == literal_column("'NEW'"))
    seen = found.cte("seen").prefix_with("MATERIALIZED")
    there = select(reference.c.id).join(seen, _held(seen))
    there = there.order_by(*_order(seen)).limit(bindparam("limit"))
    picked = there.with_for_update(skip_locked=True, of=reference).cte("picked").prefix_with("MATERIALIZED")
    is_picked = case((seen.c.id.in_(select(picked.c.id)), 1), else_=0)
    in_order = func.min(is_picked).over(partition_by=seen.c.group_id, order_by=_order(seen))
    is_taken = case((seen.c.group_id.is_(None), is_picked), else_=in_order).label("is_taken")
    marked = select(seen.c.id, seen.c.priority, is_taken).subquery("marked")
    place = func.row_number().over(order_by=_order(marked)) - 1
    taken = select(marked.c.id, place.label("place")).where(marked.c.is_taken == 1)
    return taken.subquery("numbered")


def _order(source: FromClause) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """The order of claims."""
    return source.c.priority.desc(), source.c.id


_SPARE: Final = 100
"""Messages that a claim by group looks at beyond its limit, in place of those that others have locked."""


def held_groups() -> Select[Any]:
    """The groups of the channel ``at``, part ``at_part``, that others than the client ``owner_`` hold."""
    held = reference.alias("held")
    return select(held.c.claimed_group).where(
        held.c.claimed_group.is_not(None),
        *_belongs(held),
        held.c.owner != bindparam("owner_"),
        (held.c.owner != NOBODY) | held.c.waits,  # what is in doubt holds nobody up
    )


def _belongs(source: FromClause) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """What waits in the channel ``at`` and its part ``at_part``, or was claimed from there.

    No index of what waits serves this, and so a database begins with the rows that it is given.
    """
    return (
        func.coalesce(source.c.home, source.c.channel) == bindparam("at"),
        func.coalesce(source.c.home_part, source.c.part) == bindparam("at_part"),
    )


def is_free() -> ColumnElement[bool]:
    """Whether a message has no group, or one that no other client holds."""
    return message.c.group_id.is_(None) | message.c.group_id.not_in(held_groups())


def waiting() -> tuple[ColumnElement[bool], ...]:
    """What waits in the channel ``at`` and its part ``at_part``."""
    return (
        reference.c.channel == bindparam("at"),
        reference.c.part == bindparam("at_part"),
        reference.c.state == literal_column("'NEW'"),
    )


_CLAIM: Final = (
    *(
        "id",
        "version",
        "message",
        "channel",
        "part",
        "priority",
        "expiration",
        "delivery_count",
        "properties",
    ),
    *("owner", "cycle", "sequence", "taken_from", "home", "home_part", "waits"),
)


def claim_columns(dialect: Dialect | None) -> list[ColumnElement[Any]]:
    """What a claim is made of.

    Args:
        dialect: of the database, for what an UPDATE returns; None for a SELECT of both tables.
    """
    columns: Mapping[str, ColumnElement[Any]] = {
        "headers": message.c.headers,
        "given_properties": message.c.properties,
        "property_types": message.c.property_types,
    }
    return [
        *(reference.c[name] for name in _CLAIM),
        *(
            (dialect.of_message(one) if dialect is not None else one).label(name)
            for name, one in columns.items()
        ),
    ]
