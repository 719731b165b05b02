"""Readers: claims from a channel. One statement claims as many messages as are wanted."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

from sqlalchemy import Connection

from connector import faults
from connector.messaging.destination import Destination
from connector.stores.engine.channel import Channel
from connector.stores.engine.claims import LocalClaim
from connector.stores.engine.headers import edit_to_put_aside
from connector.stores.engine.store import Judge, Reader, Verdict
from connector.stores.sql.database import DatabaseClient
from connector.stores.sql.message_columns import read_message
from connector.stores.sql.messages import SqlClaim, channel_name, patch_after


class _Candidate(NamedTuple):
    """A message that may be taken, in the order of taking."""

    place: int
    """The priority, negative."""
    id: int
    version: int
    group: str | None


class _MustPutAside(Exception):
    """A message must be put aside before the claim."""


class SqlReader(Reader):
    """Claims rows of one part of one channel.

    A reader with a selector judges each message once, when the message arrives. Accepted messages become
    candidates. A candidate that another client has claimed or changed meanwhile is skipped at its turn.
    """

    def __init__(
        self,
        db: DatabaseClient,
        readers: dict[SqlReader, None],
        channel: Channel,
        judge: Judge,
        into: Channel | None,
        destination: Destination,
        owner: str = "",
    ) -> None:
        self.expired = 0
        self.selects = judge.selects
        self.channel = channel_name(channel)
        self._db = db
        self._readers = readers
        self._judge = judge
        self._destination = destination
        self._statements = db.statements
        part = channel.part.value
        self._where: dict[str, str] = {"at": self.channel, "at_part": part}
        self._values: dict[str, Any] = {
            **self._where,
            "client_": db.client_id,
            "owner_": owner or db.client_id,
            "taken_from_": str(destination),
            "into": self.channel if into is None else channel_name(into),
            "into_part": part if into is None else "",
            "home_": None if into is None else self.channel,
            "home_part_": None if into is None else part,
        }
        self._candidates: list[_Candidate] = []
        self._locked: list[_Candidate] = []
        self._behind: list[_Candidate] = []
        """Candidates of groups that other clients hold."""
        statements = db.statements
        self._some = statements.some
        self._claim_all, self._claim_some = statements.claim_any, statements.claim_of
        if judge.by_group:
            self._some = statements.some_free
            self._claim_all = statements.claim_any_by_group
            self._claim_some = statements.claim_of_by_group
        self._news = self._statements.news
        if judge.selects and judge.selector:
            from connector.stores.sql.selection import may_match  # few readers need the parser

            self._news = self._news.where(may_match(judge.selector))
        self._mark: Any = db.dialect.beginning
        self._has_come = False
        readers[self] = None

    def claim(self, cycle: int, numbers: range) -> list[LocalClaim]:
        if not self.selects:
            while True:
                try:
                    return self._claim_any(cycle, numbers)
                except _MustPutAside:
                    self._put_aside()
        if not self.has_news():
            return []
        if not self._judge.is_view:
            self._put_aside()
        if not self._judge.by_group:
            self._look()
            return self._claim_candidates(cycle, numbers, set())
        with self._claim_transaction() as connection:
            # before the look: a message that is given back after this stays behind, or the look finds it
            held = self._held_groups(connection)
            self._look()
            for one in self._behind:
                heapq.heappush(self._candidates, one)
            self._behind = []
            return self._claim_candidates(cycle, numbers, held)

    @contextmanager
    def _claim_transaction(self) -> Iterator[Connection]:
        with self._db.transaction() as connection:
            if self._judge.by_group and self._statements.lock_groups is not None:
                self._statements.lock_groups.run(connection, {"at": self.channel})
            self._move_due(connection)
            yield connection

    def _move_due(self, connection: Connection) -> None:
        """Moves the delayed messages that are due to the main part."""
        if self._milliseconds_to_due(connection) <= 0:
            self._db.count_transaction(connection)
            self._statements.move_due.run(connection, self._where)

    def _milliseconds_to_due(self, connection: Connection) -> float:
        if self._where["at_part"]:
            return math.inf
        (row,) = self._statements.due_in.rows(connection, self._where)
        return math.inf if row.left is None else float(row.left)

    def due_in(self) -> float:
        with self._db.read_transaction() as connection:
            return self._milliseconds_to_due(connection) / 1000

    def _claim_any(self, cycle: int, numbers: range) -> list[LocalClaim]:
        """Claims the first messages. Raises :class:`_MustPutAside`, and claims nothing."""
        values = {**self._values, **_numbering(cycle, numbers)}
        is_part = self._db.is_locked  # of a longer transaction, of which only this claim may be undone
        with (
            self._claim_transaction() as connection,
            connection.begin_nested() if is_part else nullcontext(),
        ):
            rows = self._claim_all.rows(connection, values)
            claims = [SqlClaim(row, self._destination) for row in rows]
            for claim, row in zip(claims, rows, strict=True):
                if self._judge(claim.headers_now, row.now) is not Verdict.TAKE:
                    raise _MustPutAside
            if claims:
                faults.point("claim.uncommitted")
        return _in_order(claims)

    def _claim_candidates(self, cycle: int, numbers: range, held: set[str]) -> list[LocalClaim]:
        """Claims the first candidates, but none of the groups ``held``."""
        claims: list[LocalClaim] = []
        while popped := self._pop(len(numbers) - len(claims), held):
            taken = self._claim_popped(cycle, numbers[len(claims) :], popped)
            claims += taken
            if len(taken) < len(popped):
                left = self._keep_locked(popped, {claim.reference[0] for claim in taken})
                if self._judge.by_group:
                    held.update(one.group for one in left if one.group is not None)
        return claims

    def _pop(self, number: int, held: set[str]) -> list[_Candidate]:
        popped: list[_Candidate] = []
        while self._candidates and len(popped) < number:
            one = heapq.heappop(self._candidates)
            (self._behind if one.group in held else popped).append(one)
        return popped

    def _claim_popped(self, cycle: int, numbers: range, popped: list[_Candidate]) -> list[LocalClaim]:
        pairs = self._statements.pairs([(one.id, one.version) for one in popped])
        values = {**self._values, **_numbering(cycle, numbers[: len(popped)]), **pairs}
        with self._db.transaction() as connection:
            rows = self._claim_some.rows(connection, values)
            claims = [SqlClaim(row, self._destination) for row in rows]
            faults.point("claim.uncommitted")
        return _in_order(claims)

    def _keep_locked(self, popped: list[_Candidate], taken: set[int]) -> list[_Candidate]:
        """Keeps candidates that another client had only locked for a moment, for the next claim."""
        left = [one for one in popped if one.id not in taken]
        parameters = self._statements.pairs([(one.id, one.version) for one in left])
        there = {row.id for row in self._db.rows(self._statements.still_there, parameters)}
        locked = [one for one in left if one.id in there]
        self._locked += locked
        return locked

    def _held_groups(self, connection: Connection) -> set[str]:
        """Returns the groups that other clients hold."""
        return set(connection.execute(self._statements.held_groups, self._values).scalars())

    def _look(self) -> None:
        """Judges the messages that arrived since the last look."""
        for one in self._locked:
            heapq.heappush(self._candidates, one)
        self._locked = []
        with self._db.read_transaction() as connection:
            mark = connection.execute(self._statements.mark).scalar()
            rows = connection.execute(self._news, {**self._where, "mark": self._mark}).fetchall()
            now = connection.execute(self._statements.now).scalar_one()
        self._mark = mark
        for row in rows:
            found = read_message(row)
            if self._judge(found, now) is not Verdict.LEAVE:
                candidate = _Candidate(-found.priority, row.id, row.version, row.group_id)
                heapq.heappush(self._candidates, candidate)
                self._has_come = self._has_come or row.returned_by != self._db.client_id

    def _put_aside(self) -> None:
        """Moves expired and exhausted messages to their parts."""
        with self._db.transaction() as connection:
            self._db.count_transaction(connection)
            self._move_due(connection)
            self.expired += connection.execute(self._statements.put_expired, self._where).rowcount
            if self._judge.limit is None:
                return
            values = {**self._where, "limit": self._judge.limit}
            for row in connection.execute(self._statements.exhausted, values).fetchall():
                claim = SqlClaim(row, self._destination)
                patch = patch_after(claim, edit_to_put_aside(claim.headers_now))
                connection.execute(self._statements.put_exhausted, {"row_id": row.id, "patch": patch})

    def has_news(self) -> bool:
        if self._candidates or self._locked:
            return True
        with self._db.read_transaction() as connection:
            if connection.execute(self._statements.has_channel, {"name": self.channel}).scalar() is None:
                return True  # the channel has ended
            if self._milliseconds_to_due(connection) <= 0:
                return True
            if not self.selects:
                return connection.execute(self._some, self._values).scalar() is not None
            if self._behind:
                held = self._held_groups(connection)
                if any(one.group not in held for one in self._behind):
                    return True
            values = {**self._where, "mark": self._mark}
            return (
                connection.execute(self._statements.some_new, values).scalar() is not None
                or connection.execute(self._statements.some_expired, self._where).scalar() is not None
            )

    def begin(self) -> None:
        """Begins a poll. :meth:`has_come` then ignores earlier messages."""
        if self.selects:
            self._look()
            self._has_come = False

    def has_come(self, mark: Any) -> bool:
        """Whether a message that this client has not given back arrived after a mark, or is due."""
        if self.due_in() <= 0:
            return True
        if self.selects:
            self._look()
            return self._has_come
        values = {**self._where, "mark": mark, "client": self._db.client_id}
        return self._db.first(self._statements.some_from_others, values) is not None

    def close(self) -> None:
        self._readers.pop(self, None)


def _numbering(cycle: int, numbers: range) -> dict[str, int]:
    return {"cycle_": cycle, "start": numbers.start, "step": numbers.step, "limit": len(numbers)}


def _in_order(claims: list[SqlClaim]) -> list[LocalClaim]:
    """Sorts claims, because RETURNING promises no order."""
    for _ in claims:
        faults.point("claim")
    return sorted(claims, key=lambda claim: claim.sequence)
