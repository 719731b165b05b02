"""The log of the connector: to stderr, for people or as JSON lines.

A call has a short constant text, and its fields in ``extra``: ``message_id``, ``destination``, ``object``,
``verb``, ``outcome``, ``reason``, ``attempts``, ``cycle`` if they apply. A field that is None is left out.
``exc_info`` shows a traceback. With the field ``user_code`` (:class:`connector.tracebacks.UserCode`) that
traceback has the frames of user code only.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from connector.tracebacks import format_traceback

if TYPE_CHECKING:
    from structlog.typing import Processor

    EventDict = MutableMapping[str, Any]
_log = logging.getLogger("connector")
_json = False


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log settings of a process. Picklable, for workers.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``.
        format: ``console``, or ``json`` with one object a line.
        debug: whether tracebacks have all frames, also of the connector and of libraries.
    """

    level: str = "info"
    format: str = "console"
    debug: bool = False


def set_up_logging(settings: LogSettings) -> None:
    """Sends the connector's log to stderr.

    The format ``json`` also covers the warnings of Python and of libraries.
    """
    global _json  # the process has a single log
    import structlog  # imported here: most workers log nothing, and the import takes a while

    _json = settings.format == "json"
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        _drop_missing,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _Tracebacks(debug=settings.debug),
    ]
    last: list[Processor]
    if _json:
        last = [structlog.processors.JSONRenderer(ensure_ascii=True)]
    else:
        console = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), pad_event_to=0, pad_level=False, sort_keys=False
        )
        last = [_escape, console]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    _use(handler, settings.level)


def divert_to_log() -> None:
    """Sends everything else that would reach stderr to the log.

    These are warnings, logs of libraries, and uncaught exceptions. For a process that may write only JSON to
    stderr. Call :func:`set_up_logging` first.
    """
    logging.captureWarnings(True)
    logging.getLogger().handlers[:] = _root().handlers
    sys.excepthook = lambda kind, error, trace: _uncaught(error)
    threading.excepthook = lambda args: _uncaught(args.exc_value)
    sys.unraisablehook = lambda args: _uncaught(args.exc_value)


def _uncaught(error: BaseException | None) -> None:
    _log.error("an exception was not caught", exc_info=error)


def is_json() -> bool:
    """Whether the log of this process is JSON."""
    return _json


def is_json_line(line: str) -> bool:
    """Whether :func:`set_up_logging` has written a line with the format ``json``."""
    if not line.startswith(JSON_BEGIN):
        return False
    try:
        found = json.loads(line)
    except ValueError:
        return False
    return found.keys() >= _FIELDS and str(found["logger"]).startswith("connector")


JSON_BEGIN = '{"event": '
"""The begin of a line that :func:`set_up_logging` writes with the format ``json``."""

_FIELDS = {"event", "level", "timestamp", "logger"}


def set_up_logging_when_needed(settings: LogSettings) -> None:
    """Does the same as :func:`set_up_logging`, but at the first record, because the import takes a while."""
    global _json
    _json = settings.format == "json"
    _use(_FirstRecord(settings), settings.level)


class _FirstRecord(logging.Handler):
    """Sets up the log at the first record."""

    def __init__(self, settings: LogSettings) -> None:
        super().__init__()
        self._settings = settings

    def emit(self, record: logging.LogRecord) -> None:
        set_up_logging(self._settings)
        everything = logging.getLogger()
        if self in everything.handlers:
            divert_to_log()
        _root().handle(record)


class _Tracebacks:
    """Turns ``exc_info`` into the text of a traceback.

    Args:
        debug: whether tracebacks of user code have all frames, too.
    """

    def __init__(self, *, debug: bool) -> None:
        self._debug = debug

    def __call__(self, logger: Any, method: str, event: EventDict) -> EventDict:
        user_code = event.pop("user_code", None)
        error = (event.pop("exc_info", None) or (None, None))[1]
        if isinstance(error, BaseException):
            event["exception"] = format_traceback(error, None if self._debug else user_code)
        return event


_QUOTED = frozenset(" \t=\r\n\"'")
"""The renderer quotes a value with such a character, and escapes the control characters of a terminal."""


def _escape(logger: Any, method: str, event: EventDict) -> EventDict:
    """Escapes the control characters of a terminal: values come from messages of strangers."""
    for key, value in event.items():
        if not isinstance(value, str) or value.isprintable():
            continue
        if key in ("event", "exception") or not _QUOTED.intersection(value):
            event[key] = "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in value)
    return event


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _drop_missing(logger: Any, method: str, event: EventDict) -> EventDict:
    return {key: value for key, value in event.items() if value is not None}


def _use(handler: logging.Handler, level: str) -> None:
    root = _root()
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(level.upper())


def _root() -> logging.Logger:
    return logging.getLogger("connector")
