"""Logs: to stderr, for people or as JSON lines."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from structlog.typing import Processor


def set_up_logging(level: str = "info", format: str = "console") -> None:
    """Sends the connector's log to stderr.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``.
        format: ``console`` or ``json``, one object a line.
    """
    import structlog  # here: most workers log nothing, and it takes a while to load

    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: Processor
    if format == "json":
        renderer = structlog.processors.JSONRenderer(ensure_ascii=True)
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    _use(handler, level)


def set_up_logging_when_needed(level: str, format: str) -> None:
    """As :func:`set_up_logging`, once there is something to log; for workers."""
    _use(_FirstRecord(level, format), level)


class _FirstRecord(logging.Handler):
    """Sets up the log when the first record comes."""

    def __init__(self, level: str, format: str) -> None:
        super().__init__()
        self._wanted = (level, format)

    def emit(self, record: logging.LogRecord) -> None:
        set_up_logging(*self._wanted)
        _root().handle(record)


def _use(handler: logging.Handler, level: str) -> None:
    root = _root()
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(level.upper())


def _root() -> logging.Logger:
    return logging.getLogger("connector")
