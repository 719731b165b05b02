"""The spans of events, from the answers of tasks to the collector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from connector.events.outcome import Outcome
from connector.messaging.claim import Claim
from connector.operate.span import Span
from connector.operate.tracer import Tracer
from connector.status import OutcomeKind
from connector.text.alike import mask

_GOOD = (OutcomeKind.PUBLISHED, OutcomeKind.UNSUBSCRIBED, OutcomeKind.DUPLICATE)


class EventSpans:
    """Keeps the spans of events until the events are settled. For the driver's thread.

    Args:
        tracer: exports the spans.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._waiting: dict[tuple[int, int], Sequence[Span]] = {}

    def note(self, cycle: int, spans: Mapping[int, Sequence[Span]]) -> None:
        """Keeps the spans of a batch, by the numbers of its events."""
        self._waiting.update({(cycle, number): one for number, one in spans.items()})

    def export(self, settled: Iterable[tuple[Claim, Outcome]]) -> None:
        """Exports the spans of settled events. Never waits for the collector."""
        if not self._waiting:
            return
        for claim, outcome in settled:
            spans = self._waiting.pop((claim.cycle, claim.sequence), None)
            if spans is None:
                continue
            whole, *parts = spans
            self._tracer.export(self._complete(whole, claim, outcome), _reason(outcome))
            for part in parts:
                self._tracer.export(part)

    def forget(self, repeated: Iterable[Claim]) -> None:
        """Drops the spans of events that are processed again, because their commit was refused."""
        for claim in repeated:
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
