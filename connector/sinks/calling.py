"""Calls external sinks: repeats a call after a TemporaryFailure, and limits the time of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from connector.businessobjects.instance import BusinessObject
from connector.errors import TemporaryFailure
from connector.sinks.contract import CallTimer, Event

_LONGEST: Final = 10.0
"""Seconds of the longest wait between two calls in place."""

Deliver = Callable[[BusinessObject, Event], object]
"""A call with the arguments of :meth:`connector.sinks.contract.ExternalSink.deliver`."""


def guard(
    deliver: Deliver, subscription: str, *, retries: int = 0, timeout: float | None = None, timer: CallTimer
) -> Deliver:
    """Returns ``deliver`` with the retries and the time limit of a subscription.

    Args:
        deliver: calls the sink. Returned unchanged without retries and timeout.
        retries: calls after the first call, for TemporaryFailure only. The wait between two calls doubles
            from 0.1 s to 10 s at most. ``TemporaryFailure.after`` may ask for a longer wait of up to 10 s.
        timeout: seconds that one call may take. None = no limit.
        timer: ends this worker when a call takes longer.
    """
    if timeout is not None:
        deliver = _limit_time(deliver, subscription, timeout, timer)
    return _retry(deliver, retries) if retries else deliver


def _limit_time(deliver: Deliver, subscription: str, timeout: float, timer: CallTimer) -> Deliver:
    def call_in_time(bo: BusinessObject, event: Event) -> object:
        timer.arm(timeout, subscription)
        try:
            return deliver(bo, event)
        finally:
            timer.disarm()

    return call_in_time


def _retry(deliver: Deliver, retries: int) -> Deliver:
    import tenacity  # most subscriptions have no retries

    backoff = tenacity.wait_exponential(multiplier=0.1, max=_LONGEST) + tenacity.wait_random(0.0, 0.1)

    def delay(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        after = error.after if isinstance(error, TemporaryFailure) else 0.0
        return max(backoff(state), min(after, _LONGEST))

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(TemporaryFailure),
        stop=tenacity.stop_after_attempt(retries + 1),
        wait=delay,
        reraise=True,
    )

    def call_again(bo: BusinessObject, event: Event) -> object:
        return retrying(deliver, bo, event)

    return call_again
