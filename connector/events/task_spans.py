"""Measures the events of a task. A task without tracing has none of this."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from connector.messaging.message import Message
from connector.operate.span import CONSUMER, INTERNAL, Span, make_span
from connector.operate.trace_context import TRACEPARENT, TraceContext, new_context, parse
from connector.requests.contract import Requests
from connector.requests.traced import TracedRequests

_T = TypeVar("_T")


class TaskSpans:
    """The spans of the events of one task. For its thread, but for the spans of requests.

    Args:
        sample: the share of the traces that begin here whose spans are exported.
    """

    def __init__(self, sample: float) -> None:
        self.by_event: dict[int, list[Span]] = {}
        """The spans by the number of the event. The first one of each is that of the event itself."""
        self._sample = sample
        self._began = 0
        self._message: Message | None = None
        self._parent: TraceContext | None = None
        self._context: TraceContext | None = None
        self._parts: list[Span] = []

    @property
    def is_sampled(self) -> bool:
        """Whether the spans of the present event are exported."""
        return self._context is not None and self._context.sampled

    def begin(self) -> None:
        """Begins an event."""
        self._began, self._context, self._parts = time.time_ns(), None, []

    def join(self, message: Message) -> str:
        """Returns the ``traceparent`` that the event gives to what it sends."""
        self._message = message
        self._parent = parse(message.properties.get(TRACEPARENT))
        self._context = new_context(self._parent, self._sample)
        return str(self._context)

    def requests(self, requests: Requests) -> Requests:
        """Returns requests whose spans are part of the event."""
        return TracedRequests(requests, self._sample, self._parts.append, self._context)

    def measure(self, name: str, work: Callable[[], _T]) -> _T:
        """Does a part of the work on the event."""
        began = time.time_ns()
        try:
            result = work()
        except BaseException as error:
            self.add(name, began, {}, type(error).__name__)
            raise
        self.add(name, began, {})
        return result

    def add(self, name: str, began: int, attributes: dict[str, str | int], error: str = "") -> None:
        """Adds a part of the work on the event, which ends now."""
        if self._context is not None and self._context.sampled:
            ended, context = time.time_ns(), self._context
            self._parts.append(
                make_span(name, INTERNAL, context.child(), context, began, ended, attributes, error)
            )

    def end(self, number: int) -> None:
        """Ends the event of a number. An event without a message that can be read has no spans."""
        context, message = self._context, self._message
        if context is None or message is None or not context.sampled:
            return
        attributes: dict[str, str | int] = {"messaging.message.body.size": len(message.body)}
        if message.correlation_id:
            attributes["messaging.message.conversation_id"] = message.correlation_id
        whole = make_span("process", CONSUMER, context, self._parent, self._began, time.time_ns(), attributes)
        self._parts.insert(0, whole)  # the same list: a request may still end
        self.by_event[number] = self._parts
