"""A loader: takes lots from the queue of one load, and writes each of them to its table.

A loader is a thread with a connection of its own. Its lots outlive the process. So the next process loads the
same objects under the same number again, and the table knows the number.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from connector.errors import ConnectorError, LotError, PipelineError, ProviderError
from connector.lake.lot_load import Load, LotLoad, Tried
from connector.messaging.lot import Lot
from connector.messaging.provider import Connection
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.roles import Looking
from connector.service.load_kind import SparkSource
from connector.tracebacks import error_text

_log = logging.getLogger("connector.loads")

_TICK: Final = 0.2
"""Seconds between two looks at the queue, at least."""
_LOOK_SHARE: Final = 0.05
"""Share of the time that looks at the queue may take."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
"""Seconds before another attempt after the provider or Spark has failed. Each pause is twice as long."""
_MOST_FAILURES: Final = 14
"""Attempts in a row after which a drain ends: half a minute of a provider or Spark that is away."""
_WAITS, _REPEATS, _STOPPED = "waits", "repeats", "stopped"
"""The states of a load that is not well."""


class Loader:
    """Loads the objects of one subscription, until it is stopped.

    Args:
        provider: of the messages. Belongs to this loader.
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
        self._is_paused = is_paused
        self._lots = LotLoad(load, spark, lambda: self._is_ended)
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
        self._look_at = self._claimed_at = self._again_at = 0.0
        self._more_may_wait = False
        """Whether the last lot has ended at a limit of the provider."""
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

    def wait(self, seconds: float) -> None:
        """Waits for the end of the loader, ``seconds`` at most."""
        if self._thread.ident:
            self._thread.join(seconds)

    def cancel(self) -> None:
        """Cancels the load of a lot that is being loaded. Returns at once, whether or not Java answers."""
        if self._thread.is_alive():
            threading.Thread(target=self._lots.cancel, name="load-cancel", daemon=True).start()

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

    def _look_for_lot(self, connection: Looking) -> None:
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
            return self._more_may_wait or now - self._claimed_at >= self.load.every
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
                self._lot = connection.lots.claim(self.load.queue, self._name, limit)
                self._is_open = False
                self._claimed_at = time.monotonic()
            self._failures, self._said = 0, ""
            self._more_may_wait = self._lot is not None and self._lot.ends_at_limit
            if self._lot is None:
                self._suspects = 0
                self._note("", "")
                return False
            self._number = self._lot.number
            self._attempt += 1
            self._note_tried(self._lots.run(connection, self._lot, self._attempt, is_half=self._suspects > 0))
            return True
        finally:
            with self._changed:
                self._is_loading = False
                self._changed.notify_all()

    def _note_tried(self, tried: Tried) -> None:
        if tried.is_open:
            self._again_at = time.monotonic() + tried.seconds
            if tried.reason:
                self._note(_REPEATS, tried.reason)
            return
        self._suspects = tried.halved or max(0, self._suspects - tried.settled)
        self._lot, self._again_at = None, 0.0
        self._number = self._attempt = 0
        self._note("", "")
