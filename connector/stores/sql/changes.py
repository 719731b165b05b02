"""Settlements: all changes of a batch in one transaction of a few statements, each for many messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from connector.databases.urls import reason_of
from connector.errors import ClaimLost, ProviderError
from connector.stores.engine.changes import Change, Discarded, Edit, GivenBack, GroupMoved, Moved, Sent
from connector.stores.engine.channel import Channel, Owner, Part
from connector.stores.engine.headers import edit_in_progress
from connector.stores.sql.database import DatabaseClient
from connector.stores.sql.messages import Pair, SqlClaim, channel_name, patch_after, write_key, write_patch
from connector.stores.sql.schema import NOBODY


class _Target(NamedTuple):
    """Where messages wait after the settlement, and their edit. The messages of one statement share these."""

    channel: str
    part: str
    due: int | None
    patch: str | None
    deliveries: int | None
    returned_by: str | None


_PreparedRows = dict[tuple[str, str], tuple[Pair, int | None]]
"""Prepared messages, and until when they are delayed, by handle."""


class ChangeWriter:
    """Sorts the changes of one settlement into statements and executes these."""

    def __init__(self, db: DatabaseClient, *, keeps: bool) -> None:
        self._db = db
        self._statements = db.statements
        self._keeps = keeps
        self._claims: list[SqlClaim] = []
        self._moves: dict[_Target, list[Pair]] = {}
        self._copies: list[tuple[Pair, Sequence[Channel]]] = []
        self._ended: list[Pair] = []
        self._gone: list[Pair] = []
        self._lying: list[tuple[SqlClaim, Edit]] = []
        self._sent: list[tuple[Pair, Sent]] = []
        self._published: list[tuple[Pair, str]] = []
        self._patches: dict[int, str | None] = {}
        self.channels: dict[str, bool] = {}
        """The target channels by name, and whether each was empty before."""

    def run(self, connection: Connection, changes: Sequence[Change], *, fenced: bool) -> None:
        """Makes all changes in the transaction under way.

        Raises:
            ClaimLost: see :meth:`connector.stores.engine.store.Store.apply`.
        """
        self.channels = open_channels(connection, self._db, _targets(changes))
        prepared = self._find_prepared(connection, changes)
        for change in changes:
            self._sort(change, prepared)
        held = self._change(connection)
        if fenced and (lost := [claim for claim in self._claims if claim.reference not in held]):
            raise ClaimLost(
                f"{lost[0].message_id} of {lost[0].destination} is not claimed by this client any more; "
                "nothing was settled, and the client that claims the message next gets it"
            )
        for pair, sent in self._sent:
            if pair not in held:
                raise _not_prepared(sent)
        for pair, channels in self._copies:
            if pair in held:
                names = [(channel_name(one),) for one in channels]
                parameters = {"source": pair[0], **self._statements.names(names)}
                connection.execute(self._statements.copy, parameters)
        keys = [write_key(key) for pair, key in self._published if pair in held]
        if keys and self._db.application:
            self._statements.publish(connection, self._db.application, keys)

    def _find_prepared(self, connection: Connection, changes: Sequence[Change]) -> _PreparedRows:
        handles = [tuple(change.handle) for change in changes if isinstance(change, Sent | Discarded)]
        if not handles:
            return {}
        rows = self._statements.find_prepared.rows(connection, self._statements.handles(handles))
        return {(row.owner, row.key): ((row.id, row.version), row.due) for row in rows}

    def _sort(self, change: Change, prepared: _PreparedRows) -> None:
        if isinstance(change, Sent | Discarded):
            pair, due = prepared.pop(tuple(change.handle), (None, None))
            if isinstance(change, Discarded):
                self._gone += [pair] if pair else []
            elif pair is None:
                raise _not_prepared(change)
            elif self._wait([(pair, None)], change.channels, due=due):
                self._sent.append((pair, change))
        elif isinstance(change, GroupMoved):
            claims = cast(Sequence[SqlClaim], change.claims)
            self._move(claims, (change.channel,), change.edit)
            self._published += zip((one.reference for one in claims), change.published, strict=False)
        else:
            claim = cast(SqlClaim, change.claim)
            if isinstance(change, Moved):
                self._move((claim,), change.channels, change.edit)
            elif not isinstance(change, GivenBack):
                self._claims.append(claim)
                self._ended.append(claim.reference)
            elif change.stays:
                self._claims.append(claim)
                self._lying.append((claim, change.edit))
            else:
                self._move((claim,), (claim.home,), change.edit, self._db.client_id, change.due or None)
            if not isinstance(change, GivenBack) and change.published is not None:
                self._published += [(claim.reference, key) for key in change.published.split("\n")]

    def _move(
        self,
        claims: Sequence[SqlClaim],
        channels: Sequence[Channel],
        edit: Edit,
        returned_by: str | None = None,
        due: int | None = None,
    ) -> None:
        self._claims += claims
        pairs = [(claim.reference, self._patch(claim, edit)) for claim in claims]
        self._wait(pairs, channels, edit.deliveries, returned_by, due)

    def _wait(
        self,
        messages: Sequence[tuple[Pair, str | None]],
        channels: Sequence[Channel],
        deliveries: int | None = None,
        returned_by: str | None = None,
        due: int | None = None,
    ) -> bool:
        """Lets messages wait in the first channel, and copies in the others. False if no channel exists."""
        there = [channel for channel in channels if channel_name(channel) in self.channels]
        if not there:
            self._gone += (pair for pair, _ in messages)
            return False
        name, part = channel_name(there[0]), Part.DELAYED if due else there[0].part
        for pair, patch in messages:
            place = _Target(name, part.value, due, patch, deliveries, returned_by)
            self._moves.setdefault(place, []).append(pair)
            if len(there) > 1:
                self._copies.append((pair, there[1:]))
        return True

    def _patch(self, claim: SqlClaim, edit: Edit) -> str | None:
        """Returns the patch of a copy as text. Most copies of one edit share the patch, written once."""
        present = claim.headers_now.properties
        is_own = claim.patch is not None or not present.keys().isdisjoint(edit.dropped)
        if not is_own and id(edit) in self._patches:
            return self._patches[id(edit)]
        text = write_patch(patch_after(claim, edit))
        if not is_own:
            self._patches[id(edit)] = text
        return text

    def _change(self, connection: Connection) -> set[Pair]:
        """Executes the sorted changes. Returns the references that were still held."""
        if self._moves or self._published:
            self._db.count_transaction(connection)
        held: set[Pair] = set()
        for place, pairs in self._moves.items():
            values = {
                **self._statements.pairs(pairs),
                "into": place.channel,
                "into_part": place.part,
                "due_": place.due,
                "patch": place.patch,
                "deliveries": place.deliveries,
                "returned_by_": place.returned_by,
            }
            held.update(self._statements.move.rows(connection, values))
        if self._ended and self._keeps:
            held.update(self._statements.keep.rows(connection, self._statements.pairs(self._ended)))
        elif self._ended:
            held |= self._statements.remove(connection, self._ended)
        held |= self._statements.remove(connection, self._gone)
        for claim, edit in self._lying:
            held.update(move_to_in_progress(self._db, claim, None, edit, waits=True))
        return held


def open_channels(connection: Connection, db: DatabaseClient, wanted: Iterable[Channel]) -> dict[str, bool]:
    """Returns the channels that exist, by name, and whether each is empty. Makes missing queues."""
    names = {channel_name(one): one for one in wanted}
    if not names:
        return {}
    statements = db.statements
    parameters = statements.names([(name,) for name in names])
    found = {row.name: bool(row.is_empty) for row in statements.channels.rows(connection, parameters)}
    for name, one in names.items():
        if name not in found and not one.can_end:
            try:
                statements.add_channel.run(connection, {"name": name})
            except SQLAlchemyError as error:
                raise ProviderError(f"{name} cannot be written: {reason_of(error)}") from error
            found[name] = True
    return found


def move_to_in_progress(
    db: DatabaseClient, claim: SqlClaim, owner: Owner | None, edit: Edit, *, waits: bool
) -> Sequence[Pair]:
    """Moves a claimed message to its in-progress destination. Returns nothing if the claim is lost."""
    client_id, cycle, sequence = owner or (NOBODY, None, None)
    edit = edit_in_progress(edit, claim.destination, owned=owner is not None)
    values = {
        "state_": "NEW" if owner is None else "DELIVERED",
        "owner_": client_id,
        "cycle_": cycle,
        "sequence_": sequence,
        "home_": channel_name(claim.home),
        "home_part_": claim.home.part.value,
        "taken_from_": str(claim.destination),
        "waits_": waits,
        "deliveries": edit.deliveries,
        "patch": write_patch(patch_after(claim, edit)),
    }
    with db.transaction() as connection:
        db.count_transaction(connection)
        return db.statements.move_to_in_progress.rows(
            connection, {**db.statements.pairs([claim.reference]), **values}
        )


def _not_prepared(change: Sent) -> ClaimLost:
    return ClaimLost(
        f"the prepared message {change.handle[1]!r} is gone: it was sent or discarded before, or its client "
        "has ended; nothing was settled"
    )


def _targets(changes: Sequence[Change]) -> list[Channel]:
    """Returns the channels in which messages wait after the changes."""
    found: dict[Channel, None] = {}
    for change in changes:
        if isinstance(change, GroupMoved):
            found[change.channel] = None
        elif isinstance(change, Moved | Sent):
            found.update(dict.fromkeys(change.channels))
        elif isinstance(change, GivenBack) and not change.stays:
            found[change.claim.home] = None
    return list(found)
