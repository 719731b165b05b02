"""Writes requests into the history: made, and how they ended."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from connector.businessobjects.keys import keys_of
from connector.errors import ProviderError
from connector.messaging.history import History, HistoryRow, Note
from connector.messaging.message import Message
from connector.messaging.state_store import StateStore
from connector.requests.pending import Answer, Call
from connector.status import ReturnCode

if TYPE_CHECKING:
    from connector.declare.connector_section import Connector
    from connector.declare.history_section import HistorySection

_log: Final = logging.getLogger("connector.requests")
_WARNING_SECONDS: Final = 60.0
_PRUNE_SECONDS: Final = 3600.0

REQUESTED: Final = "requested"
REPLIED: Final = "replied"
TIMED_OUT: Final = "timed_out"
FAILED: Final = "request_failed"


class HistorySpec(NamedTuple):
    """The recipe of a history, for the process of a request client. Picklable.

    Args:
        state: returns the state of an application.
        connector, history: the sections.
    """

    state: Callable[[str], StateStore]
    connector: Connector
    history: HistorySection

    @property
    def instance(self) -> str:
        return self.connector.instance or ""


class RowWriter:
    """Appends rows of another thread than the one of the events. Thread-safe.

    A history that cannot be written is logged, and fails nothing.

    Args:
        spec: None = nothing is written.
    """

    def __init__(self, spec: HistorySpec | None) -> None:
        self._spec = spec
        self._history: History | None = None
        self._lock = threading.Lock()
        self._quiet_until = 0.0
        self._prune_at = 0.0

    def append(self, row: HistoryRow) -> None:
        """Appends a row, and removes old rows now and then."""
        spec = self._spec
        if spec is None:
            return
        with self._lock:
            try:
                if self._history is None:
                    self._history = spec.state(spec.connector.application_name).history(spec.instance)
                self._history.append([row])
                if row.time >= self._prune_at:  # an adapter without inputs removes nothing otherwise
                    self._prune_at = row.time + _PRUNE_SECONDS
                    self._history.prune(row.time - spec.history.keep)
            except (ProviderError, OSError) as error:
                self._warn(error)

    def _warn(self, error: Exception) -> None:
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + _WARNING_SECONDS
            _log.warning("the history cannot be written", extra={"reason": str(error)})


class RequestHistory:
    """Appends the requests of one client. Thread-safe. A history that cannot be written fails no request.

    Args:
        spec: None = nothing is written.
    """

    def __init__(self, spec: HistorySpec | None) -> None:
        self._spec = spec
        self._writer = RowWriter(spec)

    def requested(self, call: Call, message_id: str) -> None:
        """Appends a request before the commit that sends it."""
        self._append(call, REQUESTED, message_id)

    def ended(self, call: Call, answer: Answer, *, awaited: bool) -> None:
        """Appends how a request ended."""
        if isinstance(answer, Message):
            self._append(call, REPLIED, call.message.message_id or "")
        elif call.message.message_id and (awaited or answer.status is not ReturnCode.SUCCEED):
            is_late = answer.status is ReturnCode.APPRESPONSETIMEOUT
            self._append(call, TIMED_OUT if is_late else FAILED, call.message.message_id, answer.text or "")

    def _append(self, call: Call, what: str, message_id: str, reason: str = "") -> None:
        spec = self._spec
        if spec is None:
            return
        message = call.message
        keys = keys_of(call.bo) if spec.history.keys else []
        note: Note | None = [keys, message.correlation_id] if message.correlation_id else keys and [keys]
        row = HistoryRow(
            time=time.time(),
            what=what,
            ids=[message_id],
            instance=spec.instance,
            destination=str(call.properties.output_destination),
            object=call.bo.type,
            verb=call.bo.verb or "",
            reason=reason,
            notes=[note] if note else (),
        )
        self._writer.append(row)
