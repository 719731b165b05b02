"""Settling: all changes of a batch in one transaction of a few statements, each about many messages."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, cast

from sqlalchemy import (
    BigInteger,
    Connection,
    Integer,
    LargeBinary,
    Text,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from connector.core.local.changes import Change, Discarded, Edit, GivenBack, GroupMoved, Moved, Removed, Sent
from connector.core.local.channel import Channel, Owner
from connector.errors import ClaimLost, ProviderError
from connector.providers.sql.database import DatabaseClient, add_if_missing, reason_of, write_json
from connector.providers.sql.dialects import Dialect, Rows, dialect_of
from connector.providers.sql.messages import Patch, SqlClaim, channel_name, patched
from connector.providers.sql.schema import NOBODY, PROCESSED, message, published, reference, this_transaction
from connector.providers.sql.schema import channel as channels
from connector.providers.sql.statement import Statement

_FREE: Final[Mapping[str, Any]] = {
    "owner": None,
    "cycle": None,
    "sequence": None,
    "taken_from": None,
    "home": None,
    "home_part": None,
    "waits": False,
    "claimed_group": None,
}
"""Columns of a message that nobody has claimed."""


class _Place(NamedTuple):
    """Where messages wait from now on, and how they are edited: the same for all of one statement."""

    channel: str
    part: str
    patch: str | None
    deliveries: int | None
    returned_by: str | None


class Statements:
    """The statements of settlements, the same for all clients of one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.pairs = Rows(dialect, id=BigInteger, version=BigInteger)
        given = self.pairs.source
        held = (reference.c.id == given.c.id, reference.c.version == given.c.version)
        before = reference.c.id, (reference.c.version - 1).label("version")
        changed = {"version": reference.c.version + 1, "settled": None}
        waits_again = {**_FREE, **changed, "changed": this_transaction(), "state": literal_column("'NEW'")}
        into = {
            "channel": bindparam("into"),
            "part": bindparam("into_part"),
            "delivery_count": func.coalesce(
                bindparam("deliveries", type_=Integer), reference.c.delivery_count
            ),
            "properties": bindparam("patch", type_=reference.c.properties.type),
            "returned_by": bindparam("returned_by_"),
        }
        made = partial(Statement, dialect.name)
        of_held = update(reference).where(*held)
        self.move = made(of_held.values(**waits_again, **into).returning(*before))
        kept = {**_FREE, **changed, "part": PROCESSED, "settled": dialect.now}
        self.keep = made(of_held.values(kept).returning(*before))
        lies = {
            **changed,
            "state": literal_column("'DELIVERED'"),
            "owner": bindparam("owner_"),
            "cycle": bindparam("cycle_"),
            "sequence": bindparam("sequence_"),
            "home": bindparam("home_"),
            "home_part": bindparam("home_part_"),
            "taken_from": bindparam("taken_from_"),
            "waits": bindparam("waits_"),
            "delivery_count": into["delivery_count"],
            "properties": into["properties"],
        }
        self.lie = made(of_held.values(lies).returning(*before))
        self.remove = made(dialect.deletion(self.pairs))
        self.numbers = Rows(dialect, id=BigInteger)
        gone = message.c.id.in_(select(self.numbers.source.c.id))
        others = exists().where(reference.c.message == message.c.id)
        self.remove_messages = made(delete(message).where(gone, ~others))
        self.names = Rows(dialect, name=Text)
        there = channels.c.name.in_(select(self.names.source.c.name))
        waits = exists().where(
            reference.c.channel == channels.c.name,
            reference.c.part == literal_column("''"),
            reference.c.state == literal_column("'NEW'"),
        )
        self.channels = made(dialect.share(select(channels.c.name, (~waits).label("is_empty")).where(there)))
        copied = ("message", "priority", "expiration", "delivery_count", "properties")
        names = self.names.source
        joined = channels.join(names, channels.c.name == names.c.name)
        self.copy = insert(reference).from_select(
            [*copied, "channel", "changed"],
            select(*(reference.c[name] for name in copied), channels.c.name, this_transaction()).select_from(
                joined.join(reference, reference.c.id == bindparam("source"))
            ),
        )
        self.keys = Rows(dialect, owner=Text, key=Text)
        prepared = (
            reference.c.owner == self.keys.source.c.owner,
            reference.c.key == self.keys.source.c.key,
            reference.c.state == literal_column("'NOT_COMMITTED'"),
        )
        self.find_prepared = made(
            select(reference.c.id, reference.c.version, reference.c.owner, reference.c.key).where(*prepared)
        )
        into_published = insert(published).inline()
        application = bindparam("application_", type_=Text)
        if dialect.name == "postgresql":
            given_keys = Rows(dialect, key=LargeBinary).source
            found = select(application, given_keys.c.key, this_transaction())
            self._publish = made(into_published.from_select(["application", "key", "changed"], found))
        else:
            row = {"application": application, "key": bindparam("key_"), "changed": this_transaction()}
            self._publish = made(into_published.values(row))
        self._as_array = dialect.name == "postgresql"

    def publish(self, connection: Connection, application: str, keys: Sequence[bytes]) -> None:
        """Remembers published keys."""
        if self._as_array:
            self._publish.run(connection, {"application_": application, "rows_key": keys})
        else:
            self._publish.run(connection, [{"application_": application, "key_": key} for key in keys])


@functools.cache
def statements_of(dialect: str) -> Statements:
    """The statements for the dialect of a name."""
    return Statements(dialect_of(dialect))


def open_channels(
    connection: Connection, client: DatabaseClient, wanted: Iterable[Channel]
) -> dict[str, bool]:
    """Whether the channels that are there are empty, by name. A queue that is not there is made."""
    names = {channel_name(one): one for one in wanted}
    if not names:
        return {}
    statements = statements_of(client.dialect.name)
    parameters = statements.names([(name,) for name in names])
    found = {row.name: bool(row.is_empty) for row in statements.channels.rows(connection, parameters)}
    for name, one in names.items():
        if name not in found and not one.can_end:
            try:
                add_if_missing(connection, name)
            except SQLAlchemyError as error:
                raise ProviderError(f"{name} cannot be written: {reason_of(error)}") from error
            found[name] = True
    return found


def remove_messages(connection: Connection, client: DatabaseClient, numbers: Iterable[int]) -> None:
    """Removes the messages that no channel has any more."""
    rows = [(number,) for number in set(numbers)]
    if rows:
        statements = statements_of(client.dialect.name)
        statements.remove_messages.run(connection, statements.numbers(rows))


class Settlement:
    """The changes of one settlement, sorted into statements. :meth:`run` makes them.

    Args:
        client: the database as the client uses it.
        client_id, application: of the client.
        keeps: whether messages that end without a copy are kept for a while.
    """

    def __init__(self, client: DatabaseClient, client_id: str, application: str, *, keeps: bool) -> None:
        self._db = client
        self._client_id = client_id
        self._application = application
        self._keeps = keeps
        self._statements = statements_of(client.dialect.name)
        self._moves: dict[_Place, list[SqlClaim]] = {}
        self._copies: list[tuple[SqlClaim, Sequence[Channel]]] = []
        self._ended: list[SqlClaim] = []
        self._gone: list[SqlClaim] = []
        self._lying: list[tuple[SqlClaim, Edit]] = []
        self._sent: list[Sent] = []
        self._discarded: list[Discarded] = []
        self._published: list[tuple[SqlClaim, str]] = []
        self._claims: list[SqlClaim] = []
        self.channels: dict[str, bool] = {}
        """Whether the channels that messages wait in from now on were empty, by name."""
        self._patches: dict[int, str | None] = {}

    def run(self, connection: Connection, changes: Sequence[Change], *, fenced: bool) -> None:
        """Makes all changes within the transaction under way.

        Raises:
            ClaimLost: see :meth:`connector.core.local.store.Store.apply`.
        """
        self.channels = open_channels(connection, self._db, _channels(changes))
        for change in changes:
            self._sort(change)
        if self._moves or self._sent or self._published:
            self._db.count_transaction(connection)
        held = self._move(connection)
        held |= self._end(connection, self._ended, keeps=self._keeps)
        held |= self._end(connection, self._gone, keeps=False)
        for claim, edit in self._lying:
            values = lie_values(self._statements, claim, None, edit, waits=True)
            held.update(self._statements.lie.rows(connection, values))
        if fenced and len(held) < len(self._claims):
            lost = next(claim for claim in self._claims if claim.reference not in held)
            raise ClaimLost(
                f"{lost.message_id} of {lost.destination} is not claimed by this client any more; "
                "nothing was settled, it comes again to whoever takes it"
            )
        for claim, others in self._copies:
            if claim.reference in held:
                self._copy(connection, claim.row_id, others)
        self._send(connection)
        keys = [write_key(key) for claim, key in self._published if claim.reference in held]
        if keys and self._application:
            self._statements.publish(connection, self._application, keys)

    def _sort(self, change: Change) -> None:
        if isinstance(change, Sent):
            self._sent.append(change)
        elif isinstance(change, Discarded):
            self._discarded.append(change)
        elif isinstance(change, GroupMoved):
            claims = cast(Sequence[SqlClaim], change.claims)
            self._wait(claims, (change.channel,), change.edit)
            self._published += zip(claims, change.published, strict=False)
        else:
            self._sort_one(change)

    def _sort_one(self, change: Moved | Removed | GivenBack) -> None:
        claim = change.claim
        assert isinstance(claim, SqlClaim)
        if isinstance(change, GivenBack):
            if change.stays:
                self._claims.append(claim)
                self._lying.append((claim, change.edit))
            else:
                self._wait((claim,), (claim.home,), change.edit, self._client_id)
            return
        if change.published is not None:
            self._published.append((claim, change.published))
        if isinstance(change, Moved):
            self._wait((claim,), change.channels, change.edit)
        else:
            self._claims.append(claim)
            self._ended.append(claim)

    def _wait(
        self,
        claims: Sequence[SqlClaim],
        channels: Sequence[Channel],
        edit: Edit,
        returned_by: str | None = None,
    ) -> None:
        """Messages wait in channels from now on. All but the first get a copy. Without any they go."""
        self._claims += claims
        there = [channel for channel in channels if channel_name(channel) in self.channels]
        if not there:
            self._gone += claims
            return
        name, part = channel_name(there[0]), there[0].part.value
        for claim in claims:
            place = _Place(name, part, self._patch(claim, edit), edit.deliveries, returned_by)
            self._moves.setdefault(place, []).append(claim)
            if len(there) > 1:
                self._copies.append((claim, there[1:]))

    def _patch(self, claim: SqlClaim, edit: Edit) -> str | None:
        """The patch of a copy as text. That of most copies is the same, and is written once."""
        present = claim.headers_now.properties
        is_own = claim.patch is not None or not present.keys().isdisjoint(edit.dropped)
        if not is_own and id(edit) in self._patches:
            return self._patches[id(edit)]
        text = write_patch(patched(claim, edit))
        if not is_own:
            self._patches[id(edit)] = text
        return text

    def _move(self, connection: Connection) -> set[tuple[int, int]]:
        held: set[tuple[int, int]] = set()
        for place, claims in self._moves.items():
            values = {
                **self._statements.pairs([claim.reference for claim in claims]),
                "into": place.channel,
                "into_part": place.part,
                "patch": place.patch,
                "deliveries": place.deliveries,
                "returned_by_": place.returned_by,
            }
            held.update(self._statements.move.rows(connection, values))
        return held

    def _end(
        self, connection: Connection, claims: Sequence[SqlClaim], *, keeps: bool
    ) -> set[tuple[int, int]]:
        if not claims:
            return set()
        pairs = self._statements.pairs([claim.reference for claim in claims])
        if keeps:
            return set(self._statements.keep.rows(connection, pairs))
        rows = self._statements.remove.rows(connection, pairs)
        remove_messages(connection, self._db, (row.message for row in rows))
        return {(row.id, row.version) for row in rows}

    def _copy(self, connection: Connection, number: int, channels: Sequence[Channel]) -> None:
        names = [(channel_name(one),) for one in channels]
        connection.execute(self._statements.copy, {"source": number, **self._statements.names(names)})

    # -- prepared messages -------------------------------------------------------------------------

    def _send(self, connection: Connection) -> None:
        handles = [tuple(one.handle) for one in self._sent]
        handles += [tuple(one.handle) for one in self._discarded]
        if not handles:
            return
        found = {
            (row.owner, row.key): (row.id, row.version)
            for row in self._statements.find_prepared.rows(connection, self._statements.keys(handles))
        }
        moves: dict[tuple[str, str], list[tuple[int, int]]] = {}
        copies: list[tuple[int, Sequence[Channel]]] = []
        gone = [pair for one in self._discarded if (pair := found.get(tuple(one.handle))) is not None]
        for one in self._sent:
            pair = found.pop(tuple(one.handle), None)
            if pair is None:
                raise self._not_there(one)
            there = [channel for channel in one.channels if channel_name(channel) in self.channels]
            if not there:
                gone.append(pair)
                continue
            moves.setdefault((channel_name(there[0]), there[0].part.value), []).append(pair)
            if len(there) > 1:
                copies.append((pair[0], there[1:]))
        for (name, part), pairs in moves.items():
            values = {
                **self._statements.pairs(pairs),
                "into": name,
                "into_part": part,
                "patch": None,
                "deliveries": None,
                "returned_by_": None,
            }
            if len(self._statements.move.rows(connection, values)) < len(pairs):
                raise self._not_there(self._sent[0])
        for number, others in copies:
            self._copy(connection, number, others)
        if gone:
            rows = self._statements.remove.rows(connection, self._statements.pairs(gone))
            remove_messages(connection, self._db, (row.message for row in rows))

    def _not_there(self, change: Sent) -> ClaimLost:
        return ClaimLost(
            f"the message prepared as {change.handle[1]!r} is not there any more: it was sent or "
            "discarded before, or its client has ended; nothing was settled"
        )


def write_patch(patch: Patch | None) -> str | None:
    """A patch as text."""
    return write_json(patch) if patch else None


def lie_values(
    statements: Statements, claim: SqlClaim, owner: Owner | None, edit: Edit, *, waits: bool
) -> dict[str, Any]:
    """What ``Statements.lie`` gets: a message lies in its in-progress destination, of somebody or nobody."""
    client_id, cycle, sequence = owner or (NOBODY, None, None)
    return {
        **statements.pairs([claim.reference]),
        "owner_": client_id,
        "cycle_": cycle,
        "sequence_": sequence,
        "home_": channel_name(claim.home),
        "home_part_": claim.home.part.value,
        "taken_from_": str(claim.destination),
        "waits_": waits,
        "deliveries": edit.deliveries,
        "patch": write_patch(patched(claim, edit)),
    }


def write_key(key: str) -> bytes:
    """A published key, which may have any bytes."""
    return key.encode("utf-8", "surrogateescape")


def _channels(changes: Sequence[Change]) -> list[Channel]:
    """The channels that messages are to wait in."""
    found: dict[Channel, None] = {}
    for change in changes:
        if isinstance(change, GroupMoved):
            found[change.channel] = None
        elif isinstance(change, Moved | Sent):
            found.update(dict.fromkeys(change.channels))
        elif isinstance(change, GivenBack) and not change.stays:
            found[change.claim.home] = None
    return list(found)
