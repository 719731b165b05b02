"""The place of a program's work in a trace (W3C Trace Context), which travels as ``traceparent``."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

TRACEPARENT: Final = "traceparent"
"""The property of a message, and the header of HTTP."""

_FORM: Final = re.compile(
    r"(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?"
)
"""A later version may have more behind the parts that are known ("Versioning of traceparent")."""


class TraceContext(NamedTuple):
    """A span, as other spans name their parent.

    Args:
        trace_id: 32 hexadecimal digits, the same in all spans of a trace.
        span_id: 16 hexadecimal digits.
        sampled: whether the spans of the trace are exported.
    """

    trace_id: str
    span_id: str
    sampled: bool = True

    def __str__(self) -> str:
        """Returns the value of ``traceparent``."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"

    def child(self) -> TraceContext:
        """Returns the context of a new span whose parent is this span."""
        return TraceContext(self.trace_id, _digits(16), self.sampled)


def parse(value: object) -> TraceContext | None:
    """Returns the context that a ``traceparent`` names. None = there is none, or the value is malformed."""
    found = _FORM.fullmatch(value) if isinstance(value, str) else None
    return TraceContext(found[1], found[2], bool(int(found[3], 16) & 1)) if found is not None else None


def valid_traceparent(value: object) -> str:
    """Returns a ``traceparent`` as it is. Empty if there is none, or a malformed one."""
    return str(value) if parse(value) is not None else ""


def new_context(parent: TraceContext | None, sample: float) -> TraceContext:
    """Returns the context of a new span.

    Args:
        parent: decides whether the span is exported. None = the span begins a trace.
        sample: the share of the new traces whose spans are exported.
    """
    if parent is not None:
        return parent.child()
    return TraceContext(_digits(32), _digits(16), random.random() < sample)


def _digits(number: int) -> str:
    """Returns random hexadecimal digits. A forked process has its own."""
    return f"{random.getrandbits(4 * number) or 1:0{number}x}"


_current: Final[ContextVar[str]] = ContextVar("traceparent", default="")


def current_traceparent() -> str:
    """Returns the ``traceparent`` of messages that this thread makes now. Empty = none."""
    return _current.get()


@contextmanager
def sending_under(traceparent: str) -> Iterator[None]:
    """Gives a ``traceparent`` to the messages that this thread makes in the block."""
    token = _current.set(traceparent)
    try:
        yield
    finally:
        _current.reset(token)
