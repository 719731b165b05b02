"""The lots of a queue as micro-batches of a query of Spark (see :mod:`.data_source`)."""

from __future__ import annotations

import functools
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import tenacity
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from connector import faults
from connector.config.loading import load
from connector.errors import LotError, MalformedData
from connector.events.hooks.event_history import EventHistory
from connector.events.outcome import Outcome
from connector.events.settle.settling import SettlementRules
from connector.lake.source.rows import SourceRows, refused
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.lot import Lot
from connector.messaging.settlement import GroupSettlement, Settlement
from connector.messaging.state_store import ClientJournals, TaskJournal
from connector.service.assembly import make_event_settings, make_provider
from connector.status import OutcomeKind, timestamp

_EVERYTHING: Final = 1 << 31
_LEAST: Final = 100
"""Messages of a slice, at least. LotReading them takes longer than starting a task."""
_SLICES: Final = 32
_OWNER_SECONDS: Final = 5.0
"""A query that has ended holds its name for a moment, so the same query waits for it when it starts again."""
_CLIENT: Final = "source"
_PUBLISHED: Final = Outcome(OutcomeKind.PUBLISHED, attempts=1)

Offset = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LotReading:
    """What a query reads.

    Args:
        config: the absolute path of adapter.yaml.
        destination: a queue of its provider.
        name: of the sequence of lots. Empty = none was given.
        object: the business object. Empty = raw messages.
        selector: of the messages. Empty = all.
    """

    config: str
    destination: Destination
    name: str
    object: str
    selector: str


class Slice(InputPartition):  # type: ignore[misc]  # mypy does not read PySpark
    """A part of a lot, which one task reads.

    Args:
        context: a pickled :class:`SourceRows`, equal for all slices of a query, so that workers read it once.
        journals: of the query, for what is wrong.
        first: the position of the first claim in the lot.
    """

    def __init__(
        self,
        context: bytes,
        journals: ClientJournals,
        destination: str,
        number: int,
        first: int,
        references: Sequence[Any],
    ) -> None:
        super().__init__(None)
        self.context = context
        self.journals = journals
        self.destination = destination
        self.number = number
        self.first = first
        self.references = references

    def __repr__(self) -> str:
        return f"Slice(lot {self.number}, {len(self.references)} messages from {self.first})"

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yields the rows of the messages. A message that makes no row is written to a journal.

        Raises:
            LotError: a message of the lot has gone.
            ProviderError: a message cannot be read now.
        """
        rows = _rows_of(self.context)
        access = rows.settings.access.open()
        access.check()
        journal: TaskJournal | None = None
        try:
            for position, reference in enumerate(self.references, self.first):
                try:
                    message = access.load(reference, rows.settings.connector.max_body)
                except MalformedData as error:
                    found: Any = refused(error)
                except LookupError:
                    raise LotError(
                        f"a message of the lot {self.number} of {self.destination} has gone: somebody has "
                        "given the lot back or removed the message"
                    ) from None
                else:
                    found = rows.rows(message, self.destination)
                faults.point("lot.row")
                if not isinstance(found, Outcome):
                    yield from found
                    continue
                if journal is None:  # most slices have none. A task that runs again has another one
                    journal = self.journals.file(self.number, self.first, time.time_ns()).open()
                journal.done(position, found.to_json())
        finally:
            if journal is not None:
                journal.close()


@functools.lru_cache(maxsize=2)
def _rows_of(context: bytes) -> SourceRows:
    rows = pickle.loads(context)  # made by the driver of this query
    assert isinstance(rows, SourceRows)
    return rows


class LotStream(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # mypy does not read PySpark
    """The reader of a query. Spark makes it in one process, and calls all methods but :meth:`read` there.

    Args:
        most: messages of a lot, unless Spark asks for all.
    """

    def __init__(self, reading: LotReading, most: int) -> None:
        self._reading = reading
        self._most = most
        self._left: int | None = None
        """Messages that ``availableNow`` may still take. None = there is no end."""
        self._made: _Lots | None = None

    def __getstate__(self) -> Mapping[str, Any]:
        return {**self.__dict__, "_made": None}

    @property
    def _lots(self) -> _Lots:
        if self._made is None:
            self._made = _Lots(self._reading)
        return self._made

    def initialOffset(self) -> Offset:
        position = self._lots.position()
        # Spark asks again when it repeats its first batch. That batch must not look empty, if it is settled
        return {"sequence": position.sequence_id, "number": position.settled, "begins": True}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._left = self._lots.waiting()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        lots = self._lots
        lots.settle_through(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._most
        if isinstance(limit, ReadAllAvailable):
            most = _EVERYTHING
        left = self._left
        if left is not None and lots.position().open is not None:
            left = None  # the messages of an open lot were not among those that waited
        if left is not None:
            most = min(most, left)
        lot = lots.next(most) if most > 0 else None
        if lot is None:
            return start
        if left is not None:
            self._left = left - len(lot.claims)  # a broker may give fewer than were asked for
        return {"sequence": lot.sequence_id, "number": lot.number}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        return [] if start == end else list(self._lots.slices(end))

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, Slice)
        return partition.rows()

    def commit(self, end: Offset) -> None:
        self._lots.settle_through(end)

    def stop(self) -> None:
        if self._made is not None:
            self._made.close()
            self._made = None


class _Lots:
    """The lots of a query, and the connection that owns their name.

    Raises:
        LotError: another process owns the name.
    """

    def __init__(self, reading: LotReading) -> None:
        self._reading = reading
        configuration = load(reading.config)
        provider = make_provider(configuration)
        settings = make_event_settings(configuration, provider, "")
        instance = f"{_CLIENT} {reading.name}"
        application = settings.connector.application_name
        state = provider.state(application)
        self._journals = state.journals(_CLIENT, instance)
        self._rules = SettlementRules(settings.copies, application=settings.connector.application_name)
        self._comes_first = provider.capabilities.takeover
        self._history: EventHistory | None = None
        if settings.history.keep:
            history = state.history(instance)
            self._history = EventHistory(
                history, instance, _CLIENT, self._rules.copies, synced=self._comes_first
            )
        self._tells = provider.capabilities.shows_all
        self._connection = provider.connect()
        rows = SourceRows.make(configuration, provider, self._connection.access(), reading.object)
        self._context = pickle.dumps(rows)
        try:
            self._own()
        except BaseException:
            self._connection.close()
            raise

    def _own(self) -> None:
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(LotError),
            stop=tenacity.stop_after_delay(_OWNER_SECONDS),
            wait=tenacity.wait_fixed(0.2),
            reraise=True,
        )
        retrying(self.position)

    def position(self) -> Any:
        return self._connection.lots.position(self._reading.destination, self._reading.name)

    def waiting(self) -> int:
        """Returns the number of waiting messages. A broker does not tell, so they are counted there."""
        queue = self._reading.destination
        if not self._tells:
            return sum(1 for _ in self._connection.browse(queue))
        return sum(one.waiting for one in self._connection.destinations() if one.destination == queue)

    def next(self, most: int) -> Lot | None:
        """Returns the lot that is not settled, or a new one. None = no message waits."""
        reading = self._reading
        return self._connection.lots.claim(reading.destination, reading.name, most, selector=reading.selector)

    def slices(self, offset: Offset) -> Iterator[Slice]:
        """Yields the parts of the lot of an offset."""
        lot = self._lot(offset)
        self._journals.make()
        count = max(1, min(_SLICES, len(lot.claims) // _LEAST))
        size = -(-len(lot.claims) // count)
        for first in range(0, len(lot.claims), size):
            references = [claim.reference for claim in lot.claims[first : first + size]]
            yield Slice(self._context, self._journals, str(lot.destination), lot.number, first, references)

    def _lot(self, offset: Offset) -> Lot:
        """Returns the lot of an offset.

        Raises:
            LotError: the lot is settled, or of another sequence.
        """
        position, number = self.position(), offset["number"]
        if position.sequence_id != offset["sequence"]:
            raise LotError(
                f"the checkpoint of Spark asks for the lot {number} of an earlier sequence of "
                f"{self._reading.name!r}, whose state was removed: use a new checkpoint"
            )
        if number != position.open:
            raise LotError(
                f"the checkpoint of Spark asks for the lot {number} of {self._reading.name!r}, and the lots "
                f"up to {position.settled} are settled, and their messages archived. Use the newest "
                "checkpoint of this name, or a new name with a new checkpoint"
            )
        lot = self._connection.lots.claim(self._reading.destination, self._reading.name, 1, number=number)
        assert lot is not None  # a lot with a number
        return lot

    def settle_through(self, offset: Offset) -> None:
        """Settles the lot of an offset, whose batch Spark has committed, unless that has happened."""
        position = self.position()
        if position.sequence_id != offset["sequence"] or position.open is None:
            return
        if position.open <= offset["number"]:
            self._settle(self._lot({**offset, "number": position.open}))

    def _settle(self, lot: Lot) -> None:
        notes = self._journals.read().get(lot.number)
        outcomes = {} if notes is None else notes.done
        now = timestamp()
        good: list[Claim] = []
        singles: list[tuple[Claim, Outcome, str]] = []
        settlements: list[Settlement | GroupSettlement] = []
        for position, claim in enumerate(lot.claims):
            told = outcomes.get(position)
            if told is None:
                good.append(claim)
                continue
            outcome = Outcome.from_list(list(told))  # type: ignore[call-overload]  # as Slice has written it
            settlement = self._rules.settlement(claim, outcome, None, now)
            assert settlement is not None  # no outcome of a slice is in doubt
            settlements.append(settlement)
            singles.append((claim, outcome, claim.message_id))
        published = [(_PUBLISHED, good, [claim.message_id for claim in good])] if good else []
        if good:
            settlements.append(self._rules.group(good, _PUBLISHED, lambda claim: None, now))
        faults.point("lot.settling")
        if self._history is not None and self._comes_first:
            self._history.append(published, singles)
        lot.settle(settlements)
        if self._history is not None and not self._comes_first:
            self._history.append(published, singles)
        self._journals.forget(lot.number)

    def close(self) -> None:
        self._connection.close()
