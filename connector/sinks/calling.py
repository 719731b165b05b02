"""Calls external sinks: repeats a call after a TemporaryFailure, and limits the time of a call."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, cast

from connector.businessobjects.instance import BusinessObject
from connector.errors import TemporaryFailure
from connector.sinks.contract import CallTimer, Event, ExternalSink, TransactionalSink

_LONGEST: Final = 10.0
"""Seconds of the longest wait between two calls in place."""

_CANCEL_SECONDS: Final = 1.0
"""Seconds that a coroutine has for its end after it was cancelled."""

Deliver = Callable[[BusinessObject, Event], object]
"""A call with the arguments of :meth:`connector.sinks.contract.ExternalSink.deliver`."""


def is_coroutine_function(function: object) -> bool:
    """Whether the call of an object returns a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # a method of the class, not whether there is one
    )


def call_of(sink: ExternalSink | TransactionalSink, subscription: str, timeout: float | None) -> Deliver:
    """Returns ``sink.deliver``. A coroutine function is awaited, at most ``timeout`` seconds."""
    deliver = cast(Deliver, sink.deliver)
    if not is_coroutine_function(deliver):
        return deliver
    from connector.sinks.event_loop import wait_for  # most sinks have no coroutine

    def await_call(bo: BusinessObject, event: Event) -> object:
        coroutine: Any = deliver(bo, event)
        return wait_for(coroutine, subscription, timeout)

    return await_call


def guard(
    deliver: Deliver,
    subscription: str,
    *,
    retries: int = 0,
    timeout: float | None = None,
    timer: CallTimer,
    is_cancelled: bool = False,
) -> Deliver:
    """Returns ``deliver`` with the retries and the time limit of a subscription.

    Args:
        deliver: calls the sink. Returned unchanged without retries and timeout.
        retries: calls after the first call, for TemporaryFailure only. The wait between two calls doubles
            from 0.1 s to 10 s at most. ``TemporaryFailure.after`` may ask for a longer wait of up to 10 s.
        timeout: seconds that one call may take. None = no limit.
        timer: ends this worker when a call takes longer.
        is_cancelled: whether :func:`call_of` cancels the call first.
    """
    if timeout is not None:
        timeout += _CANCEL_SECONDS if is_cancelled else 0.0
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

    def call(bo: BusinessObject, event: Event) -> object:
        if event.outbox is not None:
            event.outbox.forget()  # what the failed call has sent
        return deliver(bo, event)

    def call_again(bo: BusinessObject, event: Event) -> object:
        return retrying(call, bo, event)

    return call_again
