"""Spans, in the form in which they travel from a task to the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from connector.operate.trace_context import TraceContext

INTERNAL: Final = "INTERNAL"
CLIENT: Final = "CLIENT"
CONSUMER: Final = "CONSUMER"


class Span(NamedTuple):
    """One piece of work, with its times.

    Args:
        kind: one of the names above, which are those of OpenTelemetry.
        trace_id, span_id: as in :class:`.TraceContext`.
        parent_id: the span id of the parent. Empty = the span begins the trace.
        began, ended: nanoseconds since 1970.
        attributes: names by the conventions of OpenTelemetry, or ``connector.NAME``.
        error: the kind of the failure. Empty = the work did not fail.
    """

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    began: int
    ended: int
    attributes: dict[str, str | int]
    error: str = ""


NO_SPANS: Final[Mapping[int, Sequence[Span]]] = MappingProxyType({})


def make_span(
    name: str,
    kind: str,
    context: TraceContext,
    parent: TraceContext | None,
    began: int,
    ended: int,
    attributes: dict[str, str | int],
    error: str = "",
) -> Span:
    """Returns a span with the ids of two contexts. The other arguments are those of :class:`Span`."""
    parent_id = "" if parent is None else parent.span_id
    return Span(name, kind, context.trace_id, context.span_id, parent_id, began, ended, attributes, error)
