"""Requests that belong to a trace."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from connector.businessobjects.instance import BusinessObject
from connector.operate.span import CLIENT, Span, make_span
from connector.operate.trace_context import (
    TraceContext,
    current_traceparent,
    new_context,
    parse,
    sending_under,
)
from connector.requests.contract import Requests
from connector.requests.result import RequestResult


class JoiningRequests(Requests):
    """Makes requests whose messages carry a given ``traceparent``."""

    def __init__(self, requests: Requests, traceparent: str) -> None:
        self._requests = requests
        self._traceparent = traceparent

    def request(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> RequestResult:
        with sending_under(self._traceparent):
            return self._requests.request(name, data, timeout=timeout)

    def request_async(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> Future[RequestResult]:
        with sending_under(self._traceparent):
            return self._requests.request_async(name, data, timeout=timeout)

    def refuse(self) -> None:
        self._requests.refuse()

    def stop(self, timeout: float = 0.0) -> None:
        self._requests.stop(timeout)


class TracedRequests(Requests):
    """Makes requests that have spans of their own.

    Args:
        sample: the share of the traces that begin here whose spans are exported.
        add: gets the span of each request that ends. For any thread.
        parent: the span of the event. None = the caller's ``traceparent`` (:func:`.sending_under`), if any.
    """

    def __init__(
        self,
        requests: Requests,
        sample: float,
        add: Callable[[Span], None],
        parent: TraceContext | None = None,
    ) -> None:
        self._requests = requests
        self._sample = sample
        self._add = add
        self._parent = parent

    def request(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> RequestResult:
        context, end = self._begin(name)
        try:
            with sending_under(str(context)):
                result = self._requests.request(name, data, timeout=timeout)
        except BaseException as error:
            end(type(error).__name__)
            raise
        end(result)
        return result

    def request_async(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> Future[RequestResult]:
        context, end = self._begin(name)
        with sending_under(str(context)):
            future = self._requests.request_async(name, data, timeout=timeout)
        future.add_done_callback(lambda done: end(done.result()))
        return future

    def refuse(self) -> None:
        self._requests.refuse()

    def stop(self, timeout: float = 0.0) -> None:
        self._requests.stop(timeout)

    def _begin(self, name: str) -> tuple[TraceContext, Callable[[RequestResult | str], None]]:
        """Returns the context of a new span, and the function that ends the span.

        That function takes the result, or the name of an exception.
        """
        parent = self._parent or parse(current_traceparent())
        context = new_context(parent, self._sample)
        began = time.time_ns()

        def end(result: RequestResult | str) -> None:
            if not context.sampled:
                return
            bo, _, verb = name.partition(".")
            attributes: dict[str, str | int] = {"connector.object": bo, "connector.verb": verb}
            error = result if isinstance(result, str) else ""
            if isinstance(result, RequestResult):
                attributes["connector.outcome"] = result.status.name
                error = "" if result.good else result.status.name
            ended = time.time_ns()
            self._add(make_span(f"request {name}", CLIENT, context, parent, began, ended, attributes, error))

        return context, end
