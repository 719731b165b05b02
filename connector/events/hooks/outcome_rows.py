"""Removes the rows of ``connector_outcome`` whose events are settled."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING, Final, NamedTuple

from connector.databases.settings import DatabaseSettings
from connector.events.hooks.event_hook import EventHook
from connector.events.settle.settling import Commit

if TYPE_CHECKING:
    from connector.databases.database import Database

_log: Final = logging.getLogger("connector.events")
_PRUNE_SECONDS: Final = 3600.0
_CLOSE_SECONDS: Final = 5.0
_STOP: Final = -1
_PRUNE: Final = -2
_MOST_REASON: Final = 300


class OutcomeWork(NamedTuple):
    """A batch whose rows are removed, but those of some messages."""

    batch: int
    kept: frozenset[str] = frozenset()


class OutcomeRows(EventHook):
    """The rows of one connection of the adapter. A thread of its own removes them.

    A row that cannot be removed now is left. It does no harm, and is pruned later.

    Args:
        databases: with rows, at least one.
        application: ApplicationName.
    """

    def __init__(self, databases: Sequence[DatabaseSettings], application: str, client_id: str) -> None:
        self._settings = databases
        self._kept: dict[int, set[str]] = {}
        """By batch, ids of messages whose events come again. Such a run needs the rows."""
        self._application = application
        self._client_id = client_id
        self._work: queue.SimpleQueue[OutcomeWork] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pruned_at = float("-inf")
        self._away: set[str] = set()
        """Names of databases whose last removal has failed."""

    def settled(self, commit: Commit) -> None:
        self._keep(commit)

    def refused(self, commit: Commit, reason: str) -> None:
        self._keep(commit)

    def _keep(self, commit: Commit) -> None:
        again = [claim for claim, _ in commit.claims.returned]
        again += [claim for claim, outcome in commit.claims.decided if outcome.comes_again]
        for claim in again:
            self._kept.setdefault(claim.cycle, set()).add(claim.message_id)

    def ended(self, cycles: Sequence[int]) -> None:
        """Removes the rows of settled batches, soon."""
        for batch in cycles:
            self._put(OutcomeWork(batch, frozenset(self._kept.pop(batch, ()))))

    def idle(self) -> None:
        """Removes old rows once an hour, because no event needs its row now."""
        if time.monotonic() - self._pruned_at >= _PRUNE_SECONDS:
            self._pruned_at = time.monotonic()
            self._put(OutcomeWork(_PRUNE))

    def close(self) -> None:
        """Removes what is still to be removed, within some seconds. Repeatable."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._work.put(OutcomeWork(_STOP))
            thread.join(_CLOSE_SECONDS)

    def _put(self, work: OutcomeWork) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="outcome-rows", daemon=True)
            self._thread.start()
        self._work.put(work)

    def _run(self) -> None:
        from connector.databases.database import Database

        databases = [Database(one) for one in self._settings]
        try:
            while True:
                found = {self._work.get()}
                while not self._work.empty():
                    found.add(self._work.get())
                for database in databases:
                    self.work_on(database, found)
                if OutcomeWork(_STOP) in found:
                    return
        finally:
            for database in databases:
                database.close()

    def work_on(self, database: Database, found: Set[OutcomeWork]) -> None:
        """Removes rows in one transaction. Logs once when that fails, and once when it works again."""
        from sqlalchemy.exc import SQLAlchemyError

        from connector.databases.outcomes import prune, remove
        from connector.errors import ConnectorError

        try:
            with database.connect() as connection, connection.begin():
                for batches, kept in _by_kept(found):
                    remove(connection, self._application, self._client_id, batches, kept)
                if OutcomeWork(_PRUNE) in found:
                    prune(connection, self._application)
        except (SQLAlchemyError, ConnectorError) as error:
            if isinstance(error, SQLAlchemyError):
                error = database.unreachable(error)
            if database.name not in self._away:  # said once for each time that it is away
                self._away.add(database.name)
                reason = str(error).strip().partition("\n")[0][:_MOST_REASON]
                _log.warning(
                    "rows of settled events stay in connector_outcome for now",
                    extra={"database": database.name, "reason": reason},
                )
        else:
            if database.name in self._away:
                self._away.remove(database.name)
                _log.info("a business database can be used again", extra={"database": database.name})


def _by_kept(found: Set[OutcomeWork]) -> Iterator[tuple[Sequence[int], frozenset[str]]]:
    """Yields the batches of one statement each: all without rows to keep together."""
    batches = [one for one in found if one.batch >= 0]
    if plain := sorted(one.batch for one in batches if not one.kept):
        yield plain, frozenset()
    yield from (([one.batch], one.kept) for one in batches if one.kept)
