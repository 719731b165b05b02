"""Restarts of a failed connection, also of the first (WBI Adapter for JMS, RestartRetryCount)."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import Final

import tenacity

from connector.errors import ClientIdError, PipelineError, ProviderError, ProviderMisconfigured, SparkLost

_log = logging.getLogger("connector.adapter")

_FAILURES: Final = (ProviderError, PipelineError, ClientIdError)
"""A broker may hold the client id of a lost connection for a while."""
_LEAST_PAUSE: Final = 1.0
"""Seconds between two attempts at least, so that RestartRetryInterval 0 does not occupy a processor."""
_FIRST_PAUSE: Final = 0.5
"""Seconds between the first two attempts, if their number has no limit."""
_DOUBLINGS: Final = 12
"""Most doublings of the pause, so that the number stays small."""
_RESTARTING: Final = "restarting the connection"
_LASTING: Final = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EEXIST}
"""Errors of the operating system that stay until somebody corrects them."""


def may_pass(error: BaseException) -> bool:
    """Whether a failed start may succeed later: something is away, and no mistake has to be corrected."""
    if isinstance(error, PipelineError):
        return isinstance(error, SparkLost)
    cause = error.__cause__
    is_lasting = isinstance(cause, OSError) and cause.errno in _LASTING
    return (
        isinstance(error, ProviderError) and not isinstance(error, ProviderMisconfigured) and not is_lasting
    )


class Restarts:
    """Reconnects up to ``RestartRetryCount`` times, ``RestartRetryInterval`` apart.

    Without a count the attempts never end, and the pauses grow from half a second to the interval. The first
    attempt comes at once. A restart that helps for a moment only, so that no work was good since,
    is repeated after a pause that grows up to ``RestartRetryInterval``. The log says so once.

    Args:
        count: RestartRetryCount. None = without limit.
        interval: RestartRetryInterval, in seconds.
        wait: waits for so many seconds, or until the adapter stops.
    """

    def __init__(
        self, count: int | None, interval: float, wait: Callable[[float], None], stopping: Callable[[], bool]
    ) -> None:
        self._count = count
        self._interval = max(interval, _LEAST_PAUSE)
        self._wait = wait
        self._stopping = stopping
        self._restarted = 0
        """Restarts since work was good."""

    @property
    def may_help(self) -> bool:
        """Whether a new connection may have been the remedy: work was good before the last restart."""
        return self._restarted <= 1

    def note_good_work(self) -> None:
        """Notes that the connection works, so that the next restart begins at once."""
        if not self.may_help:
            _log.info("the connection works again")
        self._restarted = 0

    def start(self, connect: Callable[[], None]) -> None:
        """Connects for the first time. Tries again while a provider is away or Spark is lost.

        Raises:
            ProviderError: no attempt was successful, or waiting does not help.
            PipelineError: Spark cannot be started, and waiting does not help.
        """
        try:
            connect()
        except (ProviderError, PipelineError) as error:
            if self._stopping():  # the stop has ended the attempt
                return
            if not may_pass(error):
                raise
            self._run(connect, str(error), may_pass)

    def run(self, reconnect: Callable[[], None], reason: str) -> None:
        """Reconnects.

        Args:
            reason: for the log and for the error.

        Raises:
            ProviderError: no attempt was successful. The text begins with ``reason``.
        """
        self._run(reconnect, reason, lambda error: isinstance(error, _FAILURES))

    def _run(
        self, connect: Callable[[], None], reason: str, may_pass: Callable[[BaseException], bool]
    ) -> None:
        if self._count == 0:
            raise ProviderError(f"{reason} (RestartRetryCount is 0: the connection is not restarted)")

        def attempt() -> None:
            if not self._stopping():
                connect()

        retrying = tenacity.Retrying(
            stop=tenacity.stop_never if self._count is None else tenacity.stop_after_attempt(self._count),
            wait=(
                tenacity.wait_exponential(_FIRST_PAUSE, self._interval)
                if self._count is None
                else tenacity.wait_fixed(self._interval)
            ),
            retry=tenacity.retry_if_exception(may_pass),
            before_sleep=self._log_failure,
            sleep=self._wait,
            reraise=True,
        )
        before, self._restarted = self._restarted, self._restarted + 1
        if before < 2:
            text = "a new connection does not help, and nothing is claimed" if before else _RESTARTING
            _log.warning(text, extra={"reason": reason})
        if before:
            self._wait(min(_LEAST_PAUSE * 2 ** min(before - 1, _DOUBLINGS), self._interval))
        try:
            retrying(attempt)
        except _FAILURES as error:
            if not may_pass(error):
                raise
            raise ProviderError(
                f"{reason}; {self._count} restart{'s' * (self._count != 1)} of the connection failed "
                f"(RestartRetryCount), the last one with: {error}"
            ) from error
        if not self._stopping() and not before:
            _log.info("connected again")

    def _log_failure(self, state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else ""
        of = {} if self._count is None else {"of": self._count}
        fields = {"attempts": state.attempt_number, **of, "reason": str(error)}
        _log.warning("restarting the connection failed", extra=fields)
