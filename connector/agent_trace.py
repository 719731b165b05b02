"""The trace: logs the way of each business object, in the detail of ``AgentTraceLevel``.

A level includes all lower levels (WBI Adapter for JMS, "Tracing"). Code on the way of every event checks ``if
trace.level >= EVENTS`` first, so that a trace that is off costs only that comparison.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, ParamSpec, TypeVar

EVENTS: Final = 1
"""Each message that a poll detects, and the outcome of each event."""
HANDOVER: Final = 2
"""Each business object handed to a subscriber. Requests sent and answered."""
CONVERSION: Final = 3
"""Conversions between messages and business objects. Messages sent to destinations."""
STEPS: Final = 4
"""Entry and exit of claim, convert, publish, settle and recover, with their durations."""
DETAILS: Final = 5
"""Properties at the start, messages taken and put, dumps of business objects."""

_log: Final = logging.getLogger("connector.trace")

_Arguments = ParamSpec("_Arguments")
_Returned = TypeVar("_Returned")


@dataclass(frozen=True, slots=True)
class Trace:
    """Writes the trace of one adapter. Picklable.

    Args:
        level: 0 to 5. 0 = nothing is written.
    """

    level: int = 0

    def __call__(self, level: int, text: str, **fields: object) -> None:
        """Writes a line at level info. The caller has compared the trace levels.

        Args:
            level: lowest trace level that shows the line.
            text: short and constant.
        """
        _log.info(text, extra={**fields, "trace_level": level})

    def step(self, name: str, fields: Mapping[str, object], work: Callable[[], _Returned]) -> _Returned:
        """Does a step and writes a line at its start and end. The caller has compared the levels."""
        self(STEPS, "step begins", step=name, **fields)
        began = time.monotonic()
        try:
            return work()
        finally:
            self(STEPS, "step ends", step=name, seconds=round(time.monotonic() - began, 6), **fields)

    def around(
        self,
        name: str,
        work: Callable[_Arguments, _Returned],
        fields: Callable[_Arguments, Mapping[str, object]] = lambda *_, **__: {},
    ) -> Callable[_Arguments, _Returned]:
        """Returns a step of a whole batch whose entry and exit are traced. Below level 4, returns ``work``.

        Args:
            fields: of the lines, from the arguments of ``work``.
        """
        if self.level < STEPS:
            return work

        @functools.wraps(work)
        def traced(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Returned:
            return self.step(name, fields(*args, **kwargs), lambda: work(*args, **kwargs))

        return traced


OFF: Final = Trace()
