"""Restarts of a failed connection (WBI Adapter for JMS, RestartRetryCount)."""

from __future__ import annotations

import logging
from collections.abc import Callable

import tenacity

from connector.errors import PipelineError, ProviderError

_log = logging.getLogger("connector.adapter")


class Restarts:
    """Reconnects up to ``RestartRetryCount`` times, ``RestartRetryInterval`` apart.

    The first attempt comes at once, unless no poll was good since the last restart.

    Args:
        count: RestartRetryCount.
        interval: RestartRetryInterval, in seconds.
        wait: waits for so many seconds, or until the adapter stops.
    """

    def __init__(self, count: int, interval: float, wait: Callable[[float], None]) -> None:
        self._count = count
        self._interval = interval
        self._wait = wait
        self._is_fresh = False

    def note_good_poll(self) -> None:
        """Notes that the connection works, so that the next restart begins at once."""
        self._is_fresh = False

    def run(self, reconnect: Callable[[], None], reason: str) -> None:
        """Reconnects.

        Args:
            reconnect: one attempt.
            reason: for the log and for the error.

        Raises:
            ProviderError: no attempt was successful. The text begins with ``reason``.
        """
        if not self._count:
            raise ProviderError(f"{reason} (RestartRetryCount is 0: the connection is not restarted)")
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self._count),
            wait=tenacity.wait_fixed(self._interval),
            retry=tenacity.retry_if_exception_type((ProviderError, PipelineError)),
            before_sleep=self._log_failure,
            sleep=self._wait,
            reraise=True,
        )
        _log.warning("restarting the connection", extra={"reason": reason})
        if self._is_fresh:
            self._wait(self._interval)
        self._is_fresh = True
        try:
            retrying(reconnect)
        except (ProviderError, PipelineError) as error:
            raise ProviderError(
                f"{reason}; {self._count} restart{'s' * (self._count != 1)} of the connection failed "
                f"(RestartRetryCount), the last one with: {error}"
            ) from error
        _log.info("connected again")

    def _log_failure(self, state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else ""
        _log.warning(
            "restarting the connection failed",
            extra={"attempts": state.attempt_number, "of": self._count, "reason": str(error)},
        )
