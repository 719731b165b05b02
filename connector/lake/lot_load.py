"""One try to load a lot: reads its objects, writes them to the table, and settles the lot.

After a failure the lot stays open and is tried again, or the load of its subscription stops. Where the table
proves that nothing was written, the messages go back, and smaller lots show which of them cannot be loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from connector import faults
from connector.businessobjects.definition import Definitions
from connector.errors import ConnectorError, MalformedData, NotActive, ProviderError, SparkLost
from connector.events.outcome import Outcome
from connector.events.settle.settling import SettlementRules
from connector.lake.lot_tables import (
    FunctionWriter,
    LoadLot,
    LotWriter,
    describing,
    is_away,
    load_reason,
    make_frame,
)
from connector.lake.sink import read_object
from connector.lake.tables import SparkTable
from connector.log import AT_WORK
from connector.messaging.claim import Claim
from connector.messaging.copy_destinations import CopyDestinations
from connector.messaging.destination import Destination
from connector.messaging.lot import Lot
from connector.messaging.roles import Settling
from connector.messaging.settlement import GroupSettlement, Settlement
from connector.operate.reasons import ReasonKind
from connector.service.load_kind import SparkSource
from connector.sinks.retry_later import RetryLater, is_temporary
from connector.status import OutcomeKind, timestamp
from connector.tracebacks import error_text, log_failure

_log: Final = logging.getLogger("connector.loads")

_ANY_SIZE: Final = 1 << 62
_AGAIN: Final = (
    "The lot stays as it is. Repair the cause, then `connector reload` or a start loads the lot again. "
    "`connector lot {name} --give-back` ends the lot, if its rows are not in the table"
)


@dataclass(frozen=True, slots=True)
class Load:
    """A subscription with a load.

    Args:
        every: seconds after which an object is loaded, at the latest.
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


class LoadStopped(ConnectorError):
    """Raised if a load cannot go on until somebody has repaired its table. The text names the repair."""


class Tried(NamedTuple):
    """The result of one try to load a lot.

    Args:
        is_open: whether the lot is open still, so that the same lot is tried again.
        seconds: until then.
        reason: of the failure of an open lot. Empty = the loader has been stopped.
        halved: messages that have gone back to the front of the queue. One of them cannot be loaded.
    """

    is_open: bool = False
    seconds: float = 0.0
    reason: str = ""
    settled: int = 0
    halved: int = 0


class LotLoad:
    """Loads the lots of one subscription, one after the other.

    Args:
        is_ended: whether the loader has been stopped. A failure then changes nothing.
    """

    def __init__(self, load: Load, spark: SparkSource, is_ended: Callable[[], bool]) -> None:
        self._load = load
        self._spark = spark
        self._is_ended = is_ended
        self._table = SparkTable(load.definitions, load.object)
        self._rules = SettlementRules(load.copies, application=load.application)
        self._tags = (f"connector-{load.application}".replace(",", " "), f"connector-load-{id(self)}")
        self._checked = ""
        """The application id whose last number in the table is known to be no higher than ours."""

    def cancel(self) -> None:
        """Cancels the jobs of Spark that load a lot now."""
        try:
            self._spark.session().sparkContext.cancelJobsWithTag(self._tags[1])
        except Exception as error:  # Spark has ended, and so do its jobs
            _log.debug("a load cannot be cancelled", extra={"reason": error_text(error)})

    def run(self, connection: Settling, lot: Lot, attempt: int, *, is_half: bool) -> Tried:
        """Writes a lot, and settles it.

        Args:
            attempt: 1 for the first try of this lot.
            is_half: whether a larger lot has failed with an object of this one, perhaps.

        Raises:
            LoadStopped: somebody has to look first.
            PipelineError: Spark does not run.
            ProviderError: a message of the lot is gone, or the provider failed.
        """
        faults.point("load.claimed")
        session = self._spark.session()
        load = self._load
        rows, bad = self._read(connection, lot, attempt)
        app_id = f"{load.application}/{load.subscription}/{lot.sequence_id}"
        told = LoadLot(lot.number, app_id, attempt, len(rows), load.subscription)
        description = f"{load.application}: load {load.subscription}, lot {lot.number}, {len(rows)} rows"
        try:
            with describing(session, self._tags, f"{description}, attempt {attempt}"):
                self._check_number(session, told)
                if rows:
                    AT_WORK.set({"subscription": load.subscription, "lot": lot.number})
                    load.writer.write(make_frame(session, self._table.schema, rows), told)
        except LoadStopped:
            raise
        except (Exception, SystemExit) as error:
            if self._is_ended():
                return Tried(is_open=True)
            if not self._spark.alive:
                raise SparkLost(f"Spark has ended: {load_reason(error)}") from error
            return self._after_failure(session, lot, told, bad, error, is_half=is_half)
        finally:
            AT_WORK.set({})
        faults.point("load.written")
        number = len(lot.claims)
        self._settle(lot, _others(lot, bad), bad)
        fields = {"subscription": load.subscription, "lot": lot.number, "rows": len(rows)}
        _log.info("a lot was loaded", extra={**fields, "attempt": attempt})
        return Tried(settled=number)

    def _read(
        self, connection: Settling, lot: Lot, attempt: int
    ) -> tuple[list[tuple[Any, ...]], list[tuple[Claim, Outcome]]]:
        """Returns the rows of a lot, and the outcomes of messages that are no rows."""
        rows: list[tuple[Any, ...]] = []
        bad: list[tuple[Claim, Outcome]] = []
        access, load = connection.access().open(), self._load
        for claim in lot.claims:
            try:
                message = access.load(claim.reference, _ANY_SIZE)
                rows.append(self._table.row(read_object(load.definitions, load.object, message)))
            except MalformedData as error:
                bad.append((claim, self._failed(str(error), ReasonKind.MALFORMED, attempt)))
            except LookupError as error:
                raise ProviderError(f"{claim.message_id} of the lot {lot.number} is gone") from error
        return rows, bad

    def _failed(self, reason: str, kind: ReasonKind, attempts: int) -> Outcome:
        return Outcome(
            OutcomeKind.FAILED,
            object=self._load.object,
            reason=reason,
            attempts=attempts,
            reason_kind=kind,
            subscription=self._load.subscription,
        )

    def _check_number(self, session: Any, lot: LoadLot) -> None:
        """Checks once for each sequence that the table holds no later lot of it, nor a new one.

        Raises:
            LoadStopped: the table holds one.
        """
        if self._checked == lot.app_id:
            return
        last = self._load.writer.last_number(session, lot.app_id)
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
            fields = {"message_id": claim.message_id, "subscription": self._load.subscription}
            _log.warning("an object was not loaded", extra={**fields, "reason": outcome.reason})
        lot.settle(outcomes)

    def _after_failure(
        self,
        session: Any,
        lot: Lot,
        told: LoadLot,
        bad: Sequence[tuple[Claim, Outcome]],
        error: BaseException,
        *,
        is_half: bool,
    ) -> Tried:
        """Decides whether the lot of a failed load is tried again, is halved, or fails.

        Raises:
            LoadStopped: somebody has to look first.
        """
        load = self._load
        fields = {"subscription": load.subscription, "lot": lot.number, "attempt": told.attempt}
        reason, tries = load_reason(error), told.attempt - 1
        if isinstance(load.writer, FunctionWriter):
            log_failure(_log, "a load has failed", error, load.writer.function, load.deployment, **fields)
        else:
            _log.error("a load has failed", extra={**fields, "reason": reason})
        is_lost = isinstance(error, SparkLost | NotActive) or is_temporary(error) or is_away(error)
        if (is_lost and tries < load.retry.attempts) or (not is_half and load.retry.allows(error, tries)):
            seconds = load.retry.seconds(tries)
            _log.warning("a lot is loaded again later", extra={**fields, "seconds": round(seconds, 3)})
            return Tried(is_open=True, seconds=seconds, reason=f"lot {lot.number}: {reason}")
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
            return self._halve(lot, reason)
        alone = [(one, self._failed(reason, ReasonKind.REFUSED, told.attempt)) for one in _others(lot, bad)]
        number = len(lot.claims)
        self._settle(lot, [], [*bad, *alone])
        return Tried(settled=number)

    def _halve(self, lot: Lot, reason: str) -> Tried:
        """Gives the messages of a lot back. The next lots are smaller, until the bad object stands alone."""
        number = len(lot.claims)
        fields = {"subscription": self._load.subscription, "lot": lot.number, "number": number}
        _log.warning("a lot is halved", extra={**fields, "reason": reason})
        lot.settle(
            [Settlement(claim, give_back=True, delivery_count=claim.delivery_count) for claim in lot.claims]
        )
        return Tried(halved=number)


def _others(lot: Lot, bad: Sequence[tuple[Claim, Outcome]]) -> list[Claim]:
    """Returns the claims that have become rows."""
    known = {id(claim) for claim, _ in bad}
    return [claim for claim in lot.claims if id(claim) not in known]
