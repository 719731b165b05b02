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
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from connector.printable import printable
from connector.tracebacks import format_traceback

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
    _json = settings.format == "json"
    handler = logging.StreamHandler(sys.stderr)
    if _json:
        handler.setFormatter(_JsonFormatter(debug=settings.debug))
    else:
        handler.setFormatter(_ConsoleFormatter(debug=settings.debug, colors=sys.stderr.isatty()))
    root = _root()
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(settings.level.upper())


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
"""The start of a line that :func:`set_up_logging` writes with the format ``json``."""

_FIELDS = {"event", "level", "timestamp", "logger"}


class _JsonFormatter(logging.Formatter):
    """Makes a JSON object of each record."""

    def __init__(self, *, debug: bool) -> None:
        super().__init__()
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self._fields(record), default=repr)

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Returns the fields of a record in the order in which they are written."""
        extra = {key: value for key, value in vars(record).items() if key not in _ATTRIBUTES}
        user_code = extra.pop("user_code", None)
        fields = {
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "logger": record.name,
            **{key: value for key, value in extra.items() if value is not None},
            "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        }
        error = (record.exc_info or (None, None))[1]
        if error is not None:
            fields["exception"] = format_traceback(error, None if self._debug else user_code)
        return fields


class _ConsoleFormatter(_JsonFormatter):
    """Makes a line for people of each record: time, level, text, logger, and the other fields.

    Args:
        colors: whether the line has colors of a terminal.
    """

    def __init__(self, *, debug: bool, colors: bool) -> None:
        super().__init__(debug=debug)
        self._colors = colors

    def format(self, record: logging.LogRecord) -> str:
        fields = self._fields(record)
        level, exception = fields.pop("level"), fields.pop("exception", None)
        parts = [
            self._paint(_DIM, fields.pop("timestamp")),
            f"[{self._paint(_LEVEL_COLORS.get(level, _RED) + _BRIGHT, level)}]",
            self._paint(_BRIGHT, printable(fields.pop("event"))),
            f"[{self._paint(_BLUE + _BRIGHT, fields.pop('logger'))}]",
            *(
                f"{self._paint(_CYAN, printable(key))}={self._paint(_MAGENTA, _console_value(fields[key]))}"
                for key in fields
            ),
        ]
        lines = [] if exception is None else [f"{_INDENT}{printable(one)}" for one in exception.split("\n")]
        return "\n".join([" ".join(parts), *lines])

    def _paint(self, color: str, text: str) -> str:
        return f"{color}{text}\x1b[0m" if self._colors else text


_ATTRIBUTES: Final = frozenset(vars(logging.makeLogRecord({})))
"""The attributes of each record. Any other attribute is a field."""

_INDENT: Final = "  "
"""Before each line of a traceback, so that a text within it never looks like a line of the log."""
_BRIGHT, _DIM = "\x1b[1m", "\x1b[2m"
_RED, _GREEN, _YELLOW, _BLUE, _MAGENTA, _CYAN = (f"\x1b[{number}m" for number in range(31, 37))
_LEVEL_COLORS: Final = {"debug": _GREEN, "info": _GREEN, "warning": _YELLOW}
_QUOTED: Final = frozenset(" \t=\r\n\"'")
"""A text with such a character is shown with quotes."""


def _console_value(value: object) -> str:
    """Returns a value as the console shows the value. The value may come from the message of a stranger."""
    quoted = not isinstance(value, str) or _QUOTED.intersection(value)
    return printable(repr(value) if quoted else str(value))


def _root() -> logging.Logger:
    return logging.getLogger("connector")
