"""A loader: takes lots from the queue of one load, and writes each of them to its table.

A loader is a thread with a connection of its own. Its lots outlive the process. So the next process loads the
same objects under the same number again, and the table knows the number.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from connector import faults
from connector.businessobjects.definition import Definitions
from connector.errors import (
    ConnectorError,
    LotError,
    MalformedData,
    NotActive,
    PipelineError,
    ProviderError,
    SparkLost,
)
from connector.events.outcome import Outcome
from connector.events.settling import CopyDestinations, SettlementRules
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.lot import Lot
from connector.messaging.provider import Connection
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.settlement import GroupSettlement, Settlement
from connector.operate.reasons import ReasonKind
from connector.sinks.load.sink import read_object
from connector.sinks.retry_later import RetryLater, is_temporary
from connector.spark.lot_tables import (
    FunctionWriter,
    LoadLot,
    LotWriter,
    describing,
    is_away,
    load_reason,
    make_frame,
)
from connector.spark.tables import Table
from connector.status import OutcomeKind, timestamp
from connector.tracebacks import error_text, log_failure

_log = logging.getLogger("connector.loads")

_TICK: Final = 0.2
"""Seconds between two looks at the queue, at least."""
_ANY_SIZE: Final = 1 << 62
_LOOK_SHARE: Final = 0.05
"""Share of the time that looks at the queue may take."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
"""Seconds before another attempt after the provider or Spark has failed. Each pause is twice as long."""
_MOST_FAILURES: Final = 14
"""Attempts in a row after which a drain ends: half a minute of a provider or Spark that is away."""
_WAITS, _REPEATS, _STOPPED = "waits", "repeats", "stopped"
"""The states of a load that is not well."""
_CANCEL_SECONDS: Final = 10.0
"""Seconds that a cancelled load may take to end."""


@dataclass(frozen=True, slots=True)
class Load:
    """A subscription with a load.

    Args:
        application: ApplicationName.
        subscription: its name.
        object: its business object.
        queue: the objects to load.
        size: most objects of a lot.
        every: seconds after which an object is loaded, at the latest.
        retry: when a lot is loaded again.
        writer: writes the rows.
        definitions: the business objects.
        copies: of objects that cannot be loaded.
        deployment: the directory of adapter.yaml.
    """

    application: str
    subscription: str
    object: str
    queue: Destination
    size: int
    every: float
    retry: RetryLater
    writer: LotWriter
    definitions: Definitions
    copies: CopyDestinations
    deployment: str


class SparkSource(Protocol):
    """Has the Spark of the adapter, which may be another one after a failure."""

    @property
    def alive(self) -> bool:
        """Whether jobs can be run."""

    def session(self) -> Any:
        """Returns the SparkSession. Raises PipelineError if Spark does not run."""


class LoadStopped(ConnectorError):
    """A load cannot go on until somebody has repaired its table. The text says what to do."""


class Loader:
    """Loads the objects of one subscription, until it is stopped.

    Args:
        load: what is loaded.
        provider: of the messages. Belongs to this loader.
        spark: has the SparkSession.
        is_paused: whether an operator has paused the subscription.
    """

    def __init__(
        self,
        load: Load,
        provider: AdapterProvider,
        spark: SparkSource,
        is_paused: Callable[[], bool],
    ) -> None:
        self.load = load
        self._provider = provider
        self._spark = spark
        self._is_paused = is_paused
        self._table = Table(load.definitions, load.object)
        self._rules = SettlementRules(load.copies, remember=False)
        self._tags = (f"connector-{load.application}".replace(",", " "), f"connector-load-{id(self)}")
        self._changed = threading.Condition()
        self._is_ended = self._holds = self._is_loading = False
        self._flush_number = self._flushed = 0
        self._takes_all = False
        """Whether a flush is for objects that are not due, too."""
        self._reason = ""
        self._state = ""
        self._since = 0.0
        self._failures = 0
        """Failures in a row of the provider or of Spark."""
        self._said = ""
        self._lot: Lot | None = None
        self._number = self._attempt = 0
        """Of the lot that is loaded, or whose load has failed."""
        self._suspects = 0
        """Messages at the front of the queue among which is one that cannot be loaded. 0 = none is known."""
        self._checked: str = ""
        """The application id whose last number in the table is known to be no higher than ours."""
        self._look_at = self._claimed_at = self._again_at = 0.0
        self._is_open = False
        """Whether an earlier process, or an earlier connection, has left a lot."""
        self._thread = threading.Thread(target=self._run, name=f"load {load.subscription}", daemon=True)

    # -- for the adapter -----------------------------------------------------------------------------

    def start(self) -> None:
        """Begins to load."""
        self._thread.start()

    def hold(self) -> bool:
        """Takes no further lot until :meth:`resume`. Returns whether a lot is being loaded."""
        with self._changed:
            self._holds = True
            return self._is_loading

    def resume(self) -> None:
        """Undoes :meth:`hold`."""
        with self._changed:
            self._holds = False
            self._changed.notify_all()

    def request_stop(self) -> None:
        """Takes no further lot, for ever. For any thread."""
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()

    def stop(self, seconds: float) -> None:
        """Ends the loader. A lot that is being loaded has ``seconds``. Then its load is cancelled."""
        self.request_stop()
        if not self._thread.ident:
            return
        self._thread.join(seconds)
        if self._thread.is_alive():
            try:
                self._spark.session().sparkContext.cancelJobsWithTag(self._tags[1])
            except Exception as error:  # Spark has ended, and so do its jobs
                _log.debug("a load cannot be cancelled", extra={"reason": error_text(error)})
            self._thread.join(_CANCEL_SECONDS)

    def flush(self, *, only_due: bool) -> str:
        """Loads everything that waits, and waits for the end.

        Args:
            only_due: whether objects go on waiting whose lot is not due by its size or its age.

        Returns:
            why something is not loaded. Empty = everything is loaded, or the subscription is paused.
        """
        with self._changed:
            self._flush_number += 1
            self._takes_all, self._look_at = not only_due, 0.0
            wanted = self._flush_number
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: (
                    self._flushed >= wanted
                    or self._state in (_STOPPED, _REPEATS)
                    or self._failures >= _MOST_FAILURES
                    or self._is_ended
                    or not self._thread.is_alive()
                )
            )
            return self._reason if self._flushed < wanted else ""

    def row(self) -> dict[str, Any] | None:
        """Returns what an operator has to know. None = nothing is wrong."""
        with self._changed:
            if not self._state:
                return None
            return {
                "subscription": self.load.subscription,
                "state": self._state,
                "lot": self._number or None,
                "attempt": self._attempt,
                "since": self._since,
                "reason": self._reason,
            }

    # -- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_ended:
            try:
                connection = self._provider.connect()
                try:
                    self._look_for_lot(connection)
                    while not self._is_ended:
                        self._step(connection)
                finally:
                    self._lot = None
                    connection.close()
            except (ProviderError, LotError, PipelineError, OSError) as error:
                self._wait(str(error))
            except ConnectorError as error:
                self._end(error)
                return
            except Exception as error:
                _log.exception("a load failed with an unexpected exception")
                self._end(error)
                return
        with self._changed:
            self._changed.notify_all()

    def _end(self, error: Exception) -> None:
        """Notes why this load does not go on."""
        reason = error_text(error)
        _log.error("a load has stopped", extra={"subscription": self.load.subscription, "reason": reason})
        self._note(_STOPPED, reason)

    def _note(self, state: str, reason: str) -> None:
        with self._changed:
            if state != self._state:
                self._since = round(time.time(), 3)
            self._state, self._reason = state, reason
            self._changed.notify_all()

    def _wait(self, reason: str) -> None:
        """Waits before another attempt, because the provider or Spark has failed."""
        if self._is_ended:
            return
        if reason != self._said:
            _log.warning(
                "a load waits for another attempt",
                extra={"subscription": self.load.subscription, "reason": reason},
            )
        self._said = reason
        self._failures += 1
        self._note(_WAITS, reason)
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._failures, 10))
        with self._changed:
            self._changed.wait_for(lambda: self._is_ended, pause)

    def _look_for_lot(self, connection: Connection) -> None:
        """Notes that the open lot of an earlier process was tried before."""
        infos = [one for info in connection.destinations() for one in info.lots]
        is_open = any(one.name == self._name for one in infos)
        self._attempt = max(self._attempt, 1) if is_open else 0
        self._claimed_at = 0.0 if is_open else time.monotonic()
        self._is_open = is_open
        self._note("", "")

    @property
    def _name(self) -> str:
        return self.load.queue.name

    def _step(self, connection: Connection) -> None:
        """Loads a lot if one is due, or waits a moment."""
        with self._changed:
            wanted, may_claim = self._flush_number, not self._holds
        if may_claim and not self._is_paused() and self._is_wanted(wanted) and self._load_next(connection):
            return
        with self._changed:
            if may_claim and not self._state:
                self._flushed = wanted
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_ended or self._flush_number > self._flushed, _TICK)

    def _is_wanted(self, flush_number: int) -> bool:
        if self._lot is not None or self._is_open:
            return time.monotonic() >= self._again_at
        return (self._takes_all and flush_number > self._flushed) or self._is_due()

    def _is_due(self) -> bool:
        """Whether enough objects wait, or one of them has waited long enough."""
        now = time.monotonic()
        if self._suspects:
            return True
        if self._provider.capabilities.transactions:  # a broker does not tell what waits
            return now - self._claimed_at >= self.load.every
        if now < self._look_at:
            return False
        waiting = self._provider.waiting(self.load.queue)
        ended = time.monotonic()
        self._look_at = ended + max(_TICK, (ended - now) / _LOOK_SHARE)
        if waiting.number >= self.load.size:
            return True
        return waiting.oldest is not None and time.time() - waiting.oldest >= self.load.every

    def _load_next(self, connection: Connection) -> bool:
        """Loads the open lot, or the next one. Returns False if nothing waits."""
        with self._changed:
            if self._holds or self._is_ended:
                return False
            self._is_loading = True
        try:
            if self._lot is None:
                limit = max(1, self._suspects // 2) if self._suspects else self.load.size
                self._lot = connection.claim_lot(self.load.queue, self._name, limit)
                self._is_open = False
                self._claimed_at = time.monotonic()
            self._failures, self._said = 0, ""
            if self._lot is None:
                self._suspects = 0
                self._note("", "")
                return False
            self._number = self._lot.number
            self._attempt += 1
            self._load(connection, self._lot)
            return True
        finally:
            with self._changed:
                self._is_loading = False
                self._changed.notify_all()

    # -- a lot ---------------------------------------------------------------------------------------

    def _load(self, connection: Connection, lot: Lot) -> None:
        """Writes a lot, and settles it. After a failure it stays open, is halved, or the load stops."""
        faults.point("load.claimed")
        session = self._spark.session()
        rows, bad = self._read(connection, lot)
        load = self.load
        app_id = f"{load.application}/{load.subscription}/{lot.sequence_id}"
        told = LoadLot(lot.number, app_id, self._attempt, len(rows), load.subscription)
        description = f"{load.application}: load {load.subscription}, lot {lot.number}, {len(rows)} rows"
        try:
            with describing(session, self._tags, f"{description}, attempt {self._attempt}"):
                self._check_number(session, told)
                if rows:
                    load.writer.write(make_frame(session, self._table.schema, rows), told)
        except LoadStopped:
            raise
        except (Exception, SystemExit) as error:
            if self._is_ended:
                return
            if not self._spark.alive:
                raise SparkLost(f"Spark has ended: {load_reason(error)}") from error
            self._settle_failure(session, lot, told, bad, error)
            return
        faults.point("load.written")
        self._settle(lot, _others(lot, bad), bad)
        self._suspects = max(0, self._suspects - len(lot.claims))
        fields = {"subscription": load.subscription, "lot": lot.number, "rows": len(rows)}
        _log.info("a lot was loaded", extra={**fields, "attempt": told.attempt})

    def _read(
        self, connection: Connection, lot: Lot
    ) -> tuple[list[tuple[Any, ...]], list[tuple[Claim, Outcome]]]:
        """Returns the rows of a lot, and the outcomes of messages that are no rows."""
        rows: list[tuple[Any, ...]] = []
        bad: list[tuple[Claim, Outcome]] = []
        access, load = connection.access().open(), self.load
        for claim in lot.claims:
            try:
                message = access.load(claim.reference, _ANY_SIZE)
                rows.append(self._table.row(read_object(load.definitions, load.object, message)))
            except MalformedData as error:
                bad.append((claim, self._failed(str(error), ReasonKind.MALFORMED)))
            except LookupError as error:
                raise ProviderError(f"{claim.message_id} of the lot {lot.number} is gone") from error
        return rows, bad

    def _failed(self, reason: str, kind: ReasonKind) -> Outcome:
        return Outcome(
            OutcomeKind.FAILED,
            object=self.load.object,
            reason=reason,
            attempts=self._attempt,
            reason_kind=kind,
            subscription=self.load.subscription,
        )

    def _check_number(self, session: Any, lot: LoadLot) -> None:
        """Checks once for each sequence that the table holds no later lot of it, nor a new one.

        Raises:
            LoadStopped: the table holds one.
        """
        if self._checked == lot.app_id:
            return
        last = self.load.writer.last_number(session, lot.app_id)
        if last > lot.number or (last == lot.number and lot.attempt == 1):
            raise LoadStopped(
                f"the table holds the lot {last} of {lot.app_id}, and the number of the lot here is "
                f"{lot.number}: the messages are of an earlier time than the table, so the same objects may "
                "come again. Remove the rows of those lots, or give the subscription another name"
            )
        self._checked = lot.app_id

    def _settle(self, lot: Lot, good: Sequence[Claim], bad: Sequence[tuple[Claim, Outcome]]) -> None:
        now = timestamp()
        outcomes: list[Settlement | GroupSettlement] = [GroupSettlement(good)] if good else []
        for claim, outcome in bad:
            settlement = self._rules.settlement(claim, outcome, None, now)
            assert settlement is not None  # only an event in doubt has none
            outcomes.append(settlement)
            fields = {"message_id": claim.message_id, "subscription": self.load.subscription}
            _log.warning("an object was not loaded", extra={**fields, "reason": outcome.reason})
        lot.settle(outcomes)
        self._forget_lot()

    def _forget_lot(self) -> None:
        self._lot, self._again_at = None, 0.0
        self._number = self._attempt = 0
        self._note("", "")

    def _settle_failure(
        self,
        session: Any,
        lot: Lot,
        told: LoadLot,
        bad: Sequence[tuple[Claim, Outcome]],
        error: BaseException,
    ) -> None:
        """Decides what follows after a load that has failed.

        Raises:
            LoadStopped: somebody has to look first.
        """
        load = self.load
        fields = {"subscription": load.subscription, "lot": lot.number, "attempt": told.attempt}
        reason, tries = load_reason(error), told.attempt - 1
        if isinstance(load.writer, FunctionWriter):
            log_failure(_log, "a load has failed", error, load.writer.function, load.deployment, **fields)
        else:
            _log.error("a load has failed", extra={**fields, "reason": reason})
        is_lost = isinstance(error, SparkLost | NotActive) or is_temporary(error) or is_away(error)
        if (is_lost and tries < load.retry.attempts) or (
            not self._suspects and load.retry.allows(error, tries)
        ):
            seconds = load.retry.seconds(tries)
            self._again_at = time.monotonic() + seconds
            self._note(_REPEATS, f"lot {lot.number}: {reason}")
            _log.warning("a lot is loaded again later", extra={**fields, "seconds": round(seconds, 3)})
            return
        again = _AGAIN.format(name=lot.name)
        where = f"the lot {lot.number} of {told.app_id} cannot be loaded: {reason}"
        if is_lost:
            raise LoadStopped(f"{where}. Whether it was written is not known. {again}")
        try:
            empty = make_frame(session, self._table.schema, [])
            with describing(session, self._tags, f"{load.application}: withdraw {load.subscription}"):
                is_certain = load.writer.withdraw(empty, told)
        except Exception as failure:
            raise LoadStopped(f"{where}. The table itself fails: {load_reason(failure)}. {again}") from error
        if not is_certain:
            raise LoadStopped(f"{where}. {again}")
        if len(lot.claims) - len(bad) > 1:
            self._halve(lot, reason)
            return
        alone = [(claim, self._failed(reason, ReasonKind.REFUSED)) for claim in _others(lot, bad)]
        number = len(lot.claims)
        self._settle(lot, [], [*bad, *alone])
        self._suspects = max(0, self._suspects - number)

    def _halve(self, lot: Lot, reason: str) -> None:
        """Gives the messages of a lot back. The next lots are smaller, until the bad object stands alone."""
        number = len(lot.claims)
        fields = {"subscription": self.load.subscription, "lot": lot.number, "number": number}
        _log.warning("a lot is halved", extra={**fields, "reason": reason})
        lot.settle(
            [Settlement(claim, give_back=True, delivery_count=claim.delivery_count) for claim in lot.claims]
        )
        self._forget_lot()
        self._suspects = number


def _others(lot: Lot, bad: Sequence[tuple[Claim, Outcome]]) -> list[Claim]:
    """Returns the claims that have become rows."""
    known = {id(claim) for claim, _ in bad}
    return [claim for claim in lot.claims if id(claim) not in known]


_AGAIN: Final = (
    "The lot stays as it is. Repair the cause, then `connector reload` or a start loads the lot again. "
    "`connector lot {name} --give-back` ends the lot, if its rows are not in the table"
)
