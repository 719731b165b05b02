"""The log of the connector: to stderr, for people or as JSON lines.

A call has a short constant text, and its fields in ``extra``: ``message_id``, ``destination``, ``object``,
``verb``, ``outcome``, ``reason``, ``attempts``, ``cycle`` if they apply. A field that is None is left out.
``exc_info`` shows a traceback. With the field ``user_code`` (:class:`connector.tracebacks.UserCode`) that
traceback has the frames of user code only.

User code logs by any logger of Python. Its lines also have the fields of :data:`AT_WORK`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

from connector.printable import printable
from connector.tracebacks import format_traceback

_log = logging.getLogger("connector")
_json = False

AT_WORK: Final[ContextVar[Mapping[str, object]]] = ContextVar("connector_at_work", default={})  # noqa: B039
"""The fields of the event, request or load at which user code works. Nobody changes the mapping."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log settings of a process. Picklable, for workers.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``.
        format: ``console``, or ``json`` with one object a line.
        debug: whether tracebacks have all frames, also of the connector and of libraries.
        loggers: levels of single loggers, by name.
    """

    level: str = "info"
    format: str = "console"
    debug: bool = False
    loggers: Mapping[str, str] = field(default_factory=dict)


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


def show_user_code(settings: LogSettings) -> None:
    """Also sends what user code logs to the log. Call :func:`set_up_logging` first.

    Libraries of the connector log warnings only, unless ``loggers`` names them.
    """
    root = logging.getLogger()
    root.handlers[:] = _root().handlers
    root.setLevel(settings.level.upper())
    _set_levels(settings)


def _set_levels(settings: LogSettings) -> None:
    for name in _LIBRARIES:
        if (logger := logging.getLogger(name)).level == logging.NOTSET:
            logger.setLevel(logging.WARNING)
    for name, level in settings.loggers.items():
        logging.getLogger(name).setLevel(level.upper())


def shows_user_code() -> bool:
    """Whether :func:`show_user_code` has an effect."""
    return bool(_root().handlers) and logging.getLogger().handlers == _root().handlers


def let_user_code_configure() -> None:
    """Lets ``basicConfig`` with arguments and ``dictConfig`` work, as if nobody had configured logging."""
    configure = logging.basicConfig

    def basic_config(**options: Any) -> None:
        if options and shows_user_code():
            logging.getLogger().handlers.clear()
        configure(**options)

    logging.basicConfig = basic_config
    for name in list(logging.root.manager.loggerDict):
        if is_own(name):
            logging.getLogger(name).__class__ = _OwnLogger


class _OwnLogger(logging.Logger):
    """A logger of the connector, which ``logging.config.dictConfig`` of user code does not disable."""

    @property
    def disabled(self) -> bool:
        return False

    @disabled.setter
    def disabled(self, value: bool) -> None: ...


def is_own(name: str) -> bool:
    """Whether a logger belongs to the connector."""
    return name.partition(".")[0] == "connector"


def renew_stream() -> None:
    """Sends the log to the present ``sys.stderr``, in a fork that has renewed its streams."""
    for handler in _root().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.stream = sys.stderr


def renew_logging(before: LogSettings, settings: LogSettings) -> None:
    """Sets up the log again, with other settings than before."""
    shows = shows_user_code()
    for name in before.loggers:
        logging.getLogger(name).setLevel(logging.NOTSET)
    set_up_logging(settings)
    if shows:
        show_user_code(settings)


_LIBRARIES: Final = ("apscheduler", "asyncio", "py4j", "pyspark", "sqlalchemy", "urllib3", "uvicorn")


def divert_to_log() -> None:
    """Sends warnings and uncaught exceptions to the log. Call :func:`set_up_logging` first."""
    logging.captureWarnings(True)
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
    return bool(found.keys() >= _FIELDS)


JSON_BEGIN = '{"event": '
"""The start of a line that :func:`set_up_logging` writes with the format ``json``."""

_FIELDS = {"event", "level", "timestamp", "logger"}


class _JsonFormatter(logging.Formatter):
    """Makes a JSON object of each record."""

    def __init__(self, *, debug: bool) -> None:
        super().__init__()
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        fields = self._fields(record)
        try:
            return json.dumps(fields, default=_readable)
        except Exception:  # a field of user code: a key that is no text, a cycle, a __repr__ that raises
            return json.dumps({name: _plain(value) for name, value in fields.items()})

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Returns the fields of a record in the order in which they are written."""
        extra = {key: value for key, value in vars(record).items() if key not in _ATTRIBUTES}
        user_code = None
        if is_own(record.name):
            user_code = extra.pop("user_code", None)
            text = record.getMessage()
        else:
            text, extra = _of_user_code(record, extra)
        fields = {
            "event": text,
            "level": record.levelname.lower(),
            "logger": record.name,
            **{key: value for key, value in extra.items() if value is not None},
            "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        }
        error = (record.exc_info or (None, None))[1]
        if error is not None:
            fields["exception"] = format_traceback(error, None if self._debug else user_code)
        return fields


def _of_user_code(record: logging.LogRecord, extra: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Returns the text and the fields of a record of user code."""
    at_work: Mapping[str, object] = getattr(record, "connector_event", None) or AT_WORK.get()
    if isinstance(record.msg, dict) and not record.args:  # of structlog, for a formatter of its own
        said = {str(key): value for key, value in record.msg.items() if key != "exc_info"}
        text = str(said.pop("event", ""))
        extra = {**said, **{name: value for name, value in extra.items() if name not in _STRUCTLOG}}
    else:
        try:
            text = record.getMessage()
        except Exception:  # the arguments do not fit the text
            text = f"{_plain(record.msg)} {_plain(record.args)}"
    if record.name == "py.warnings":
        text = text.partition("\n")[0]  # below is the line of source
    if extra.get("level") == record.levelname.lower():  # structlog repeats it
        extra = {name: value for name, value in extra.items() if name != "level"}
    fields = {(f"extra_{name}" if name in _NAMES else name): value for name, value in extra.items()}
    if record.stack_info:
        fields["stack"] = record.stack_info
    return text, {**fields, **at_work}


def _readable(value: object) -> str:
    return str(value) if isinstance(value, Decimal | date) else repr(value)


def _plain(value: object) -> object:
    """Returns a value that JSON has, or the representation of another value."""
    if value is None or isinstance(value, str | int | float):
        return value
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


class EventRecord(logging.LogRecord):
    """A record that knows the event of its thread: ``record.message_id``, for tests of users."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.connector_event = AT_WORK.get()

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["connector_event"][name]
        except KeyError:
            raise AttributeError(name) from None


@contextlib.contextmanager
def records_with_events(settings: LogSettings) -> Iterator[None]:
    """Makes records with the fields of their events, for a test with handlers of its own.

    Lines of the levels of the settings reach these handlers. Afterwards all is as before.
    """
    factory, root = logging.getLogRecordFactory(), logging.getLogger()
    with _as_before(settings):
        logging.setLogRecordFactory(EventRecord)
        root.setLevel(min(root.level, logging.getLevelNamesMapping()[settings.level.upper()]))
        _set_levels(settings)
        try:
            yield
        finally:
            logging.setLogRecordFactory(factory)


@contextlib.contextmanager
def user_code_in_log(settings: LogSettings) -> Iterator[None]:
    """Sends what user code logs, warns and prints in forks to the log. Afterwards all is as before."""
    with _as_before(settings), warnings.catch_warnings():
        set_up_logging(settings)
        show_user_code(settings)
        logging.captureWarnings(True)
        try:
            yield
        finally:
            logging.captureWarnings(False)


@contextlib.contextmanager
def _as_before(settings: LogSettings) -> Iterator[None]:
    """Restores handlers and levels of all loggers that the settings change."""
    global _json
    names = ("", "connector", *_LIBRARIES, *settings.loggers)
    found = [(logger, logger.handlers[:], logger.level) for logger in map(logging.getLogger, names)]
    before = _json, _root().propagate
    try:
        yield
    finally:
        for logger, handlers, level in found:
            logger.handlers[:] = handlers
            logger.setLevel(level)
        _json, _root().propagate = before


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


_ATTRIBUTES: Final = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "connector_event"})
"""The attributes of each record. Any other attribute is a field."""

_NAMES: Final = frozenset(
    (
        *("event", "level", "timestamp", "logger", "message_id", "destination", "object", "verb", "outcome"),
        *("reason", "kind", "subscription", "attempts", "cycle", "place", "exception", "number"),
    )
)
"""The names of fields that mean the same in each line."""

_STRUCTLOG: Final = frozenset({"_logger", "_name", "_record", "_from_structlog"})
"""What structlog gives to its own formatter."""

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
