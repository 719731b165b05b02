"""Logs: to stderr, for people or as JSON lines."""

from __future__ import annotations

import logging
import sys

import structlog


def set_up_logging(level: str = "info", format: str = "console") -> None:
    """Sends the connector's log to stderr.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``.
        format: ``console`` or ``json``, one object a line.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: structlog.typing.Processor
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
    root = logging.getLogger("connector")
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(level.upper())
