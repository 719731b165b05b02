"""Texts of exceptions: message, place in user code, and traceback.

Business processes and data handlers may raise any exception. Its text may raise, its chain may be long, and
its stack deep. No function here raises, and every text is bounded.
"""

from __future__ import annotations

import os
import re
import resource
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final, Protocol

from connector.modules import PRIVATE_NAMES

MAX_TRACEBACK: Final = 64 << 10
"""Most bytes of a traceback, in UTF-8."""

_MAX_TEXT: Final = 8 << 10
_MAX_FRAMES: Final = 50
_MAX_CHAIN: Final = 10
_MAX_MEMBERS: Final = 10
_MAX_DEPTH: Final = 3
_MAX_FILE: Final = 200
_MAX_CALLS: Final = 8
"""Most calls that are told of a thread."""
_PRIVATE_NAME: Final = re.compile(rf"\b{PRIVATE_NAMES}[0-9a-f]{{16}}\.")
_LINK: Final = re.compile(
    r"[ \t]*\(?(?:Background on this error at:|For further information visit) https?://[^\s)]+\)?"
)
"""Where a library says more about its errors."""
_STATEMENT: Final = re.compile(r"^LINE \d+: .*\n(?:[ \t]*\^[ \t]*$)?", re.MULTILINE)
"""The line of a statement in which PostgreSQL has found an error."""
_CUT: Final = "\n  [... a part is left out ...]\n"

_CONNECTOR: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STANDARD_LIBRARY: Final = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_INSTALLED: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def error_text(error: BaseException) -> str:
    """Returns type and text of an exception on one line, or the type only if its ``__str__`` raises.

    What SQLAlchemy raises for an error of a driver has the driver's type and text, without the statement.
    """
    error = _of_driver(error)
    kind, text = type(error).__name__, _text(error)
    if isinstance(error, MemoryError):
        limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
        if limit != resource.RLIM_INFINITY:
            text = f"{text}{', ' if text else ''}there is no more within worker_memory"
    return f"{kind}: {text}" if text else kind


def message_of(error: BaseException) -> str:
    """Returns the text of an exception, or the type if there is no text or its ``__str__`` raises."""
    return error_text(error).removeprefix(f"{type(_of_driver(error)).__name__}: ")


def _of_driver(error: BaseException) -> BaseException:
    """Returns the error of a driver that SQLAlchemy has wrapped, or any other exception itself."""
    is_wrapper = type(error).__module__ == "sqlalchemy.exc"
    cause = getattr(error, "orig", None) if is_wrapper else None
    return cause if isinstance(cause, BaseException) else error


def _text(error: BaseException) -> str:
    """Returns the text of an exception on one line, without a link and without a part of a statement."""
    try:
        text = str(error)
    except BaseException:  # the exception of a stranger's code may raise any other
        return ""
    if type(error).__module__.startswith("psycopg"):
        text = _STATEMENT.sub("", text)
    return " ".join(filter(None, map(str.strip, _LINK.sub("", text).splitlines())))


@dataclass(frozen=True, slots=True)
class UserCode:
    """Tells the frames of user code from all other frames.

    Args:
        deployment: the directory of the deployment in this process.
        target: the called business process, sink or data handler, or None.
    """

    deployment: str
    target: object

    def place(self, error: BaseException) -> str:
        """Returns ``FILE:LINE`` of the deepest frame of user code in an exception's traceback, or empty.

        A frame of the deployment comes first. Second comes a frame outside the connector, the standard
        library and installed packages. Third comes a frame of the target's own module, and last the first
        line of the target. FILE is relative to the deployment's directory if the file lies below.
        """
        try:
            frames = traceback.walk_tb(error.__traceback__)
            lines = [(frame.f_code.co_filename, line) for frame, line in frames]
            for belongs in (self._is_deployed, _is_foreign, self._is_home):
                for file, line in reversed(lines):
                    if belongs(file):
                        return f"{self._file_name(file)}:{line}"
            code = _code(self.target)
            return "" if code is None else f"{self._file_name(code.co_filename)}:{code.co_firstlineno}"
        except Exception:
            return ""

    def has(self, file: str) -> bool:
        """Whether a file is user code."""
        return self._is_deployed(file) or _is_foreign(file) or self._is_home(file)

    def _is_deployed(self, file: str) -> bool:
        return not _is_of_others(file) and self._relative(file) is not None

    def _is_home(self, file: str) -> bool:
        code = _code(self.target)
        return code is not None and code.co_filename == file

    def _relative(self, file: str) -> str | None:
        for directory, path in (
            (os.path.abspath(self.deployment), file),
            (os.path.realpath(self.deployment), os.path.realpath(file)),
        ):
            if path.startswith(directory.rstrip(os.sep) + os.sep):
                return os.path.relpath(path, directory)
        return None

    def _file_name(self, file: str) -> str:
        name = self._relative(file) or file
        return name if len(name) <= _MAX_FILE else f"...{name[-_MAX_FILE:]}"


def failure_text(error: BaseException, target: object, deployment: str) -> str:
    """Returns type and text of an exception of user code, and the place in brackets if known."""
    place = UserCode(deployment, target).place(error)
    return f"{_cut(error_text(error))}{f' ({place})' if place else ''}"


class ErrorLog(Protocol):
    """A log that gets failures of user code."""

    def error(
        self, text: str, /, *, extra: Mapping[str, object], exc_info: BaseException | None = None
    ) -> None:
        """Logs a line at level error."""


def log_failure(
    log: ErrorLog,
    text: str,
    error: BaseException,
    target: object,
    deployment: str,
    **fields: object,
) -> str:
    """Logs an exception of user code at level error, with the frames of user code.

    Args:
        fields: of the line. Fields with None are left out.

    Returns:
        `` (FILE:LINE)``, the end of the reason of the failure. Empty if the place is not known.
    """
    user_code = UserCode(deployment, target)
    place = user_code.place(error)
    known = {name: value for name, value in fields.items() if value is not None}
    reason = _cut(error_text(error))
    log.error(text, extra={**known, "reason": reason, "place": place, "user_code": user_code}, exc_info=error)
    return f" ({place})" if place else ""


def places_of_threads() -> dict[str, str]:
    """Returns where each thread is at work, by its name: ``FILE:LINE FUNCTION``, innermost first."""
    frames = sys._current_frames()
    places: dict[str, str] = {}
    for thread in threading.enumerate():
        stack = traceback.extract_stack(frames[thread.ident]) if thread.ident in frames else []
        told = [f"{one.filename}:{one.lineno} {one.name}" for one in reversed(stack)]
        name = f"{thread.name} {thread.ident}" if thread.name in places else thread.name
        places[name] = " < ".join(told[:_MAX_CALLS])
    return places


def format_traceback(
    error: BaseException, user_code: UserCode | None = None, most: int = MAX_TRACEBACK
) -> str:
    """Returns the traceback of an exception with causes.

    Args:
        user_code: only these frames are shown. None = all frames are shown.
        most: bytes of the text in UTF-8. The middle of a longer text is left out.
    """
    try:
        whole = traceback.TracebackException(
            *(type(error), error, error.__traceback__),
            lookup_lines=False,
            compact=True,
            max_group_width=_MAX_MEMBERS,
            max_group_depth=_MAX_DEPTH,
        )
        _shorten(whole, user_code)
        lines = _PRIVATE_NAME.sub("", "".join(whole.format())).rstrip("\n").split("\n")
        text = "\n".join(map(_cut, lines))
    except Exception:
        text = error_text(error)
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= most:
        return data.decode()
    half = (most - len(_CUT)) // 2  # the start shows the place, and the end shows the error
    return data[:half].decode("utf-8", "ignore") + _CUT + data[-half:].decode("utf-8", "ignore")


def _shorten(whole: traceback.TracebackException, user_code: UserCode | None) -> None:
    """Leaves the frames of user code and the last causes, also in causes and members of a group."""
    waiting = [(whole, 1)]
    for one, length in waiting:
        frames = [frame for frame in one.stack if user_code is None or user_code.has(frame.filename)]
        one.stack = traceback.StackSummary.from_list(frames[-_MAX_FRAMES:])
        if length == _MAX_CHAIN:
            one.__cause__ = one.__context__ = None
        others = (one.__cause__, one.__context__, *(one.exceptions or ()))
        waiting += [(other, length + 1) for other in others if other is not None]


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


def _is_of_others(file: str) -> bool:
    """Whether a file is of the connector or of an installed package, or is no file at all."""
    return file.startswith((_CONNECTOR, "<")) or any(part in file for part in _INSTALLED)


def _is_foreign(file: str) -> bool:
    """Whether a file is neither of the connector, nor of Python, nor of an installed package."""
    return not _is_of_others(file) and not file.startswith(_STANDARD_LIBRARY)


def _code(target: object) -> CodeType | None:
    """Returns the code of a function, or of the main method of a data handler or a sink."""
    found: Any = target
    for _ in range(_MAX_CHAIN):
        if isinstance(code := getattr(found, "__code__", None), CodeType):
            return code
        found = getattr(found, "__wrapped__", None) or getattr(found, "func", None) or _method(found)
    return None


def _method(target: object) -> Callable[..., Any] | None:
    for name in ("to_business_object", "deliver", "prepare", "__call__"):
        method = getattr(type(target), name, None)
        if isinstance(getattr(method, "__code__", None), CodeType):
            return method
    return None
