"""Calls transactional sinks, each in a transaction with the outcome of its event."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import tenacity

from connector.businessobjects.instance import BusinessObject
from connector.databases.database import Database, TransactionConflict
from connector.databases.handle import EventTransaction
from connector.databases.outcomes import OutcomeRow
from connector.databases.settings import EventKey
from connector.sinks.calling import Deliver
from connector.sinks.contract import Event
from connector.sinks.sending import Outbox, pack_sent, unpack_sent

_CONFLICTS: Final = 10
"""Transactions that may end in a conflict before the event has a TemporaryFailure."""
_CONFLICT_SECONDS: Final = 60.0
"""Seconds after which no further transaction begins. One may wait as long for the lock of a file."""


class TransactionalCalls:
    """The calls of one sink.

    Args:
        call: calls the sink.
    """

    def __init__(self, call: Deliver, database: Database, application: str, subscription: str) -> None:
        self._call = call
        self._database = database
        self._row = functools.partial(OutcomeRow, application, subscription)
        self._key = EventKey("", "", "", 0)
        self._check: Callable[[], None] = lambda: None
        self.taken_over: OSError | None = None
        """Why the event of the last call may not be delivered by this worker any more. None = it may."""
        self._retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(TransactionConflict),
            stop=tenacity.stop_after_attempt(_CONFLICTS) | tenacity.stop_after_delay(_CONFLICT_SECONDS),
            wait=tenacity.wait_random_exponential(multiplier=0.02, max=1.0),
            reraise=True,
        )

    def begin(self, key: EventKey, check: Callable[[], None]) -> None:
        """Names the event of the next calls.

        Args:
            check: raises OSError if this worker may not deliver the event any more.
        """
        self._key, self._check, self.taken_over = key, check, None

    def _fence(self) -> None:
        try:
            self._check()
        except OSError as error:
            self.taken_over = error
            raise

    def deliver(self, bo: BusinessObject, event: Event) -> object:
        """Calls the sink in a transaction, and commits. Does nothing if this subscription has the event.

        Raises:
            DatabaseUnreachable: the event has to be given back.
            TransactionConflict: all repetitions ended in a conflict.
            Exception: of the sink.
        """

        def work(transaction: EventTransaction) -> object:
            event.transaction = transaction
            if event.outbox is not None:
                event.outbox.forget()  # what a call has sent that met a conflict
            try:
                returned = self._call(bo, event)
            finally:
                event.transaction = None
            if event.outbox is not None and event.outbox.messages:
                row.sent = pack_sent(event.outbox.messages)
            return returned

        row = self._row(self._key)
        call = row, self._fence, work
        try:
            returned: Any = self._database.run(*call)
        except TransactionConflict:
            returned = self._retrying(self._database.run, *call)
        if row.is_there and row.sent and event.writer is not None:
            event.outbox = Outbox(event.writer, event.id, event.subscription, "", 0)
            event.outbox.messages = unpack_sent(row.sent)
        return returned
