"""The spans of events: a task measures, and the adapter exports. Without tracing there is none of this."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from connector.events.hooks.event_hook import EventHook
from connector.events.hooks.task_hook import TaskHook
from connector.events.outcome import Outcome
from connector.events.run.publication import Publication, TaskEvent
from connector.events.settle.settling import Commit
from connector.messaging.claim import Claim
from connector.operate.span import CONSUMER, INTERNAL, Span, make_span
from connector.operate.trace_context import TRACEPARENT, TraceContext, new_context, parse
from connector.operate.tracer import Tracer
from connector.requests.traced import TracedRequests
from connector.status import OutcomeKind
from connector.text.alike import mask

SPANS: Final = "spans"


class TaskSpans(TaskHook):
    """The spans of the events of one task. For its thread, but for the spans of requests.

    Args:
        sample: the share of the traces that begin here whose spans are exported.
    """

    name = SPANS

    def __init__(self, sample: float) -> None:
        self._by_event: dict[int, list[Span]] = {}
        """The spans by the number of the event. The first one of each is that of the event itself."""
        self._sample = sample
        self._began = 0
        self._part_began = 0
        self._answers = Publication()
        """The answers before the delivery that runs."""
        self._is_converting = False
        self._parent: TraceContext | None = None
        self._context: TraceContext | None = None
        self._parts: list[Span] = []

    def abandoned(self) -> None:
        self._by_event = {}

    def begun(self, event: TaskEvent) -> None:
        self._began, self._context, self._parts = time.time_ns(), None, []

    def taken(self, event: TaskEvent) -> None:
        """Gives the trace of the event to all that the event sends and asks for."""
        assert event.message is not None
        self._parent = parse(event.message.properties.get(TRACEPARENT))
        self._context = new_context(self._parent, self._sample)
        event.traceparent = str(self._context)
        event.requests = TracedRequests(event.requests, self._sample, self._parts.append, self._context)
        self._part_began, self._is_converting = time.time_ns(), True

    def converted(self, event: TaskEvent, seconds: float) -> None:
        self._is_converting = False
        self._add("convert", {})

    def not_converted(self, event: TaskEvent, error: BaseException) -> None:
        if self._is_converting:
            self._is_converting = False
            self._add("convert", {}, type(error).__name__)

    def delivering(self, event: TaskEvent, subscription: str, answers: Publication) -> None:
        self._part_began, self._answers = time.time_ns(), replace(answers)

    def delivered(self, event: TaskEvent, subscription: str, answers: Publication) -> None:
        outcome = answers.outcome_since(self._answers)
        error = "" if outcome in (OutcomeKind.PUBLISHED, OutcomeKind.UNSUBSCRIBED) else outcome.value
        told = {"connector.subscription": subscription, "connector.outcome": outcome.value}
        self._add(f"deliver {subscription}", dict(told), error)

    def ended(self, event: TaskEvent) -> None:
        """Ends the span of the event. An event without a message that can be read has no spans."""
        context, message = self._context, event.message
        if context is None or message is None or not context.sampled:
            return
        attributes: dict[str, str | int] = {"messaging.message.body.size": len(message.body)}
        if message.correlation_id:
            attributes["messaging.message.conversation_id"] = message.correlation_id
        whole = make_span("process", CONSUMER, context, self._parent, self._began, time.time_ns(), attributes)
        self._parts.insert(0, whole)  # the same list: a request may still end
        self._by_event[event.sequence] = self._parts

    def take(self) -> Any:
        told = [[number, [span[:] for span in [*spans]]] for number, spans in self._by_event.items()]
        self._by_event = {}
        return told

    def _add(self, name: str, attributes: dict[str, str | int], error: str = "") -> None:
        """Adds a part of the work on the event, which ends now."""
        if self._context is not None and self._context.sampled:
            began, ended, context = self._part_began, time.time_ns(), self._context
            self._parts.append(
                make_span(name, INTERNAL, context.child(), context, began, ended, attributes, error)
            )


_GOOD = (OutcomeKind.PUBLISHED, OutcomeKind.UNSUBSCRIBED, OutcomeKind.DUPLICATE)


class EventSpans(EventHook):
    """Keeps the spans of events until the events are settled. For the driver's thread."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._waiting: dict[tuple[int, int], Sequence[Span]] = {}

    def told(self, cycle: int, told: Mapping[str, Any]) -> None:
        for number, spans in told.get(SPANS, ()):
            self._waiting[cycle, number] = [Span(*one) for one in spans]

    def settled(self, commit: Commit) -> None:
        """Exports the spans of the events. Never waits for the collector."""
        if not self._waiting:
            return
        for claim, outcome in commit.claims.decided:
            spans = self._waiting.pop((claim.cycle, claim.sequence), None)
            if spans is None:
                continue
            whole, *parts = spans
            self._tracer.export(self._complete(whole, claim, outcome), _reason(outcome))
            for part in parts:
                self._tracer.export(part)

    def refused(self, commit: Commit, reason: str) -> None:
        """Drops the spans of events that are processed again."""
        for claim in commit.claims.claims:
            self._waiting.pop((claim.cycle, claim.sequence), None)

    def _complete(self, span: Span, claim: Claim, outcome: Outcome) -> Span:
        """Returns the span of an event with all that its settlement tells."""
        name = claim.destination.name
        told = {
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": name,
            "messaging.message.id": claim.message_id,
            "connector.outcome": outcome.kind.value,
            "connector.object": outcome.object,
            "connector.verb": outcome.verb,
            "connector.kind": outcome.reason_kind,
            "connector.subscription": outcome.subscription,
            "connector.place": outcome.place,
        }
        attributes = span.attributes | {key: value for key, value in told.items() if value}
        error = "" if outcome.kind in _GOOD else outcome.reason_kind or outcome.kind.value
        return span._replace(name=f"process {name}", attributes=attributes, error=error)


def _reason(outcome: Outcome) -> str:
    """Returns the reason without the values of a message, which are not meant for a collector."""
    return mask(outcome.reason) if outcome.reason else ""
