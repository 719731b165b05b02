"""What takes from a channel: one statement claims up to as many messages as are wanted."""

from __future__ import annotations

import functools
import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, Connection, bindparam, func, literal_column, select, update

from connector import faults
from connector.core.local.channel import Channel
from connector.core.local.claims import LocalClaim
from connector.core.local.headers import counted_anew
from connector.core.local.store import Judge, Verdict
from connector.messaging.destination import Destination
from connector.providers.sql.database import DatabaseClient
from connector.providers.sql.dialects import (
    SOME,
    Dialect,
    Rows,
    claim_columns,
    claim_statement,
    dialect_of,
    held_groups,
    is_free,
    waiting,
)
from connector.providers.sql.messages import SqlClaim, channel_name, patched, read_message
from connector.providers.sql.schema import channel as channels
from connector.providers.sql.schema import message, reference, this_transaction

_JOINED: Final = reference.join(message, message.c.id == reference.c.message)


class Statements:
    """The statements of readers, the same for all readers of one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.pairs = Rows(dialect, id=BigInteger, version=BigInteger)
        self.claim_any = claim_statement(dialect, None)
        self.claim_of = claim_statement(dialect, self.pairs)
        self.claim_any_by_group = claim_statement(dialect, None, by_group=True)
        self.claim_of_by_group = claim_statement(dialect, self.pairs, by_group=True)
        self.held_groups = held_groups()
        self.news = (
            select(*claim_columns(None), message.c.group_id, reference.c.returned_by)
            .select_from(_JOINED)
            .where(*waiting(), dialect.since(reference.c.changed))
        )
        given = self.pairs.source
        self.still_there = select(reference.c.id).where(
            reference.c.id == given.c.id, reference.c.version == given.c.version
        )
        expired = (reference.c.expiration > 0) & (reference.c.expiration <= dialect.now)
        self.put_expired = (
            update(reference)
            .where(*waiting(), expired)
            .values(
                part=literal_column("'EXPIRED'"),
                version=reference.c.version + 1,
                changed=this_transaction(),
                returned_by=None,
                settled=dialect.now,
            )
        )
        self.exhausted = (
            select(*claim_columns(None))
            .select_from(_JOINED)
            .where(
                *waiting(), reference.c.delivery_count > 0, reference.c.delivery_count >= bindparam("limit")
            )
            .with_for_update(skip_locked=True, of=reference)
        )
        self.put_exhausted = (
            update(reference)
            .where(reference.c.id == bindparam("row_id"))
            .values(
                part=literal_column("'ERROR'"),
                properties=bindparam("patch"),
                delivery_count=0,
                version=reference.c.version + 1,
                changed=this_transaction(),
                returned_by=None,
            )
        )
        self.has = select(SOME).select_from(channels).where(channels.c.name == bindparam("name"))
        some = select(SOME).select_from(reference).where(*waiting()).limit(1)
        self.some = some
        self.some_free = select(SOME).select_from(_JOINED).where(*waiting(), is_free()).limit(1)
        self.some_new = some.where(dialect.since(reference.c.changed))
        self.some_expired = some.where(expired)
        others = func.coalesce(reference.c.returned_by, "") != bindparam("client")
        self.some_from_others = some.where(dialect.since(reference.c.changed), others)
        self.mark = select(dialect.mark)


@functools.cache
def statements_of(dialect: str) -> Statements:
    """The statements for the dialect of a name."""
    return Statements(dialect_of(dialect))


class _Candidate(NamedTuple):
    """A message that may be taken, in the order of taking."""

    place: int
    """The higher the priority, the lower."""
    id: int
    version: int
    group: str | None


class _Aside(Exception):
    """Something has to be put aside before anything is claimed."""


class SqlReader:
    """See :class:`connector.core.local.store.Reader`.

    What a selector has to be asked about is judged once, when it comes. The messages that were not left
    are kept as candidates: one that another has taken or changed is passed over when its turn comes.
    """

    def __init__(
        self,
        db: DatabaseClient,
        client_id: str,
        readers: dict[SqlReader, None],
        channel: Channel,
        judge: Judge,
        into: Channel | None,
        destination: Destination,
    ) -> None:
        self.expired = 0
        self._db = db
        self._client_id = client_id
        self._readers = readers
        self._judge = judge
        self._destination = destination
        self._statements = statements_of(db.dialect.name)
        place, part = channel_name(channel), channel.part.value
        self._where: dict[str, str] = {"at": place, "at_part": part}
        self._values: dict[str, Any] = {
            **self._where,
            "owner_": client_id,
            "taken_from_": str(destination),
            "into": place if into is None else channel_name(into),
            "into_part": part if into is None else "",
            "home_": None if into is None else place,
            "home_part_": None if into is None else part,
        }
        self._candidates: list[_Candidate] = []
        self._locked: list[_Candidate] = []
        self._behind: list[_Candidate] = []
        """Of groups that others hold."""
        statements = self._statements
        self._some = statements.some
        self._claim_all, self._claim_some = statements.claim_any, statements.claim_of
        if judge.by_group:
            self._some = statements.some_free
            self._claim_all = statements.claim_any_by_group
            self._claim_some = statements.claim_of_by_group
        self._news = self._statements.news
        if judge.selects and judge.selector:
            from connector.providers.sql.selection import may_match  # few readers need the parser

            self._news = self._news.where(may_match(judge.selector))
        self._mark: Any = db.dialect.beginning
        self._has_come = False
        readers[self] = None

    def claim(self, cycle: int, numbers: range) -> list[LocalClaim]:
        if not self._judge.selects:
            while True:
                try:
                    return self._claim_any(cycle, numbers)
                except _Aside:
                    self._put_aside()
        if not self.has_news():
            return []
        if not self._judge.is_view:
            self._put_aside()
        if not self._judge.by_group:
            self._look()
            return self._claim_candidates(cycle, numbers, set())
        with self._claiming() as connection:
            # before the look: what is given back after this stays behind, or the look finds it
            held = self._held_groups(connection)
            self._look()
            for one in self._behind:
                heapq.heappush(self._candidates, one)
            self._behind = []
            return self._claim_candidates(cycle, numbers, held)

    @contextmanager
    def _claiming(self) -> Iterator[Connection]:
        """A transaction for claims."""
        with self._db.transaction() as connection:
            exclusive = self._db.dialect.claim_by_group
            if self._judge.by_group and exclusive is not None:
                exclusive.run(connection, {"at": self._where["at"]})
            yield connection

    def _claim_any(self, cycle: int, numbers: range) -> list[LocalClaim]:
        """Claims what is first.

        Raises:
            _Aside: a part of it has expired, or was delivered too often; nothing is claimed.
        """
        values = {**self._values, **_numbered(cycle, numbers)}
        with self._claiming() as connection:
            rows = self._claim_all.rows(connection, values)
            claims = self._made(rows)
            for claim, row in zip(claims, rows, strict=True):
                if self._judge(claim.headers_now, row.now) is not Verdict.TAKE:
                    raise _Aside
            if claims:
                faults.point("claim.uncommitted")
        return _in_order(claims)

    def _made(self, rows: Any) -> list[SqlClaim]:
        return [SqlClaim(row, self._destination) for row in rows]

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
        pairs = [(one.id, one.version) for one in popped]
        values = {**self._values, **_numbered(cycle, numbers[: len(popped)]), **self._statements.pairs(pairs)}
        with self._db.transaction() as connection:
            claims = self._made(self._claim_some.rows(connection, values))
            faults.point("claim.uncommitted")
        return _in_order(claims)

    def _keep_locked(self, popped: list[_Candidate], taken: set[int]) -> list[_Candidate]:
        """Candidates that somebody had locked for a moment stay candidates, for the next claim."""
        left = [one for one in popped if one.id not in taken]
        parameters = self._statements.pairs([(one.id, one.version) for one in left])
        there = {row.id for row in self._db.rows(self._statements.still_there, parameters)}
        locked = [one for one in left if one.id in there]
        self._locked += locked
        return locked

    def _held_groups(self, connection: Connection) -> set[str]:
        """The groups that others hold."""
        values = {**self._where, "owner_": self._client_id}
        return set(connection.execute(self._statements.held_groups, values).scalars())

    def _look(self) -> None:
        """Judges what has come since the last look."""
        for one in self._locked:
            heapq.heappush(self._candidates, one)
        self._locked = []
        with self._db.reading() as connection:
            mark = connection.execute(self._statements.mark).scalar()
            rows = connection.execute(self._news, {**self._where, "mark": self._mark}).fetchall()
            now = connection.execute(select(self._db.dialect.now)).scalar_one()
        self._mark = mark
        for row in rows:
            if self._judge(read_message(row), now) is not Verdict.LEAVE:
                candidate = _Candidate(-row.priority, row.id, row.version, row.group_id)
                heapq.heappush(self._candidates, candidate)
                self._has_come = self._has_come or row.returned_by != self._client_id

    def _put_aside(self) -> None:
        with self._db.transaction() as connection:
            self._db.count_transaction(connection)
            self.expired += connection.execute(self._statements.put_expired, self._where).rowcount
            if self._judge.limit is None:
                return
            values = {**self._where, "limit": self._judge.limit}
            for row in connection.execute(self._statements.exhausted, values).fetchall():
                claim = SqlClaim(row, self._destination)
                patch = patched(claim, counted_anew(claim.headers_now))
                connection.execute(self._statements.put_exhausted, {"row_id": row.id, "patch": patch})

    def has_news(self) -> bool:
        if self._candidates or self._locked:
            return True
        with self._db.reading() as connection:
            if connection.execute(self._statements.has, {"name": self._where["at"]}).scalar() is None:
                return True  # it has ended
            if not self._judge.selects:
                own = {**self._where, "owner_": self._client_id}
                return connection.execute(self._some, own).scalar() is not None
            if self._behind:
                held = self._held_groups(connection)
                if any(one.group not in held for one in self._behind):
                    return True
            values = {**self._where, "mark": self._mark}
            return (
                connection.execute(self._statements.some_new, values).scalar() is not None
                or connection.execute(self._statements.some_expired, self._where).scalar() is not None
            )

    @property
    def selects(self) -> bool:
        """Whether it leaves messages that its selector rejects."""
        return self._judge.selects

    @property
    def channel(self) -> str:
        """The name of the channel that it takes from."""
        return self._where["at"]

    def begin(self) -> None:
        """A poll begins: what has come until now is told no more."""
        if self._judge.selects:
            self._look()
            self._has_come = False

    def has_come(self, mark: Any) -> bool:
        """Whether another client has let a message wait here since a mark."""
        if self._judge.selects:
            self._look()
            return self._has_come
        values = {**self._where, "mark": mark, "client": self._client_id}
        return self._db.first(self._statements.some_from_others, values) is not None

    def close(self) -> None:
        self._readers.pop(self, None)


def _numbered(cycle: int, numbers: range) -> dict[str, int]:
    return {"cycle_": cycle, "start": numbers.start, "step": numbers.step, "limit": len(numbers)}


def _in_order(claims: list[SqlClaim]) -> list[LocalClaim]:
    """What an UPDATE returns has no order."""
    for _ in claims:
        faults.point("claim")
    return sorted(claims, key=lambda claim: claim.sequence)
