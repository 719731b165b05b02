"""What user code prints, as lines of the log with the fields of the event."""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from connector.log import AT_WORK

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_log: Final = logging.getLogger("connector.output")

_LONGEST: Final = 64 << 10
"""Bytes after which a line without an end is written."""


class PrintedLines(io.RawIOBase):
    """A stream each of whose lines is written to the log as ``output``, at once.

    A text without an end of line waits for its end, for the next event of its thread, or for
    :meth:`end_lines`.

    Args:
        name: ``stdout`` or ``stderr``.
        descriptor: what ``fileno`` returns, for child processes.
        otherwise: gets what is written without an event, request or load at work. None = the log gets it.
    """

    def __init__(self, name: str, descriptor: int, otherwise: TextIO | None = None) -> None:
        super().__init__()
        self.name = name
        self._otherwise = otherwise
        self._descriptor = descriptor
        self._begun: dict[int, tuple[Mapping[str, object], bytes]] = {}
        """The begun line of each thread, with the event of its thread."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._otherwise is not None and self._otherwise.isatty()

    def flush(self) -> None:
        if self._otherwise is not None:
            self._otherwise.flush()

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: ReadableBuffer, /) -> int:
        """Adds bytes. Returns their number."""
        added = bytes(data)
        if self._otherwise is not None and not AT_WORK.get():
            self._otherwise.buffer.write(added)
            return len(added)
        thread, at_work = threading.get_ident(), AT_WORK.get()
        before, begun = self._begun.pop(thread, (at_work, b""))
        if before is not at_work:
            self._log(begun, before)
            begun = b""
        *lines, rest = (begun + added).split(b"\n")
        for line in lines:
            self._log(line, at_work)
        if len(rest) >= _LONGEST:
            self._log(rest, at_work)
        elif rest:
            self._begun[thread] = at_work, rest
        return len(added)

    def end_lines(self, thread: int | None = None) -> None:
        """Writes the begun line of a thread. None = of all threads."""
        for one in list(self._begun) if thread is None else [thread]:
            at_work, line = self._begun.pop(one, ({}, b""))
            self._log(line, at_work)

    def _log(self, line: bytes, at_work: Mapping[str, object]) -> None:
        if text := line.decode("utf-8", "backslashreplace").rstrip("\r"):
            _log.info("output", extra={"source": "worker", "text": text, "stream": self.name, **at_work})


def take_prints() -> list[PrintedLines]:
    """Sends all that this process prints to the log. Call :func:`connector.log.set_up_logging` first."""
    streams = [PrintedLines(name, sys.stderr.fileno()) for name in ("stdout", "stderr")]
    for stream in streams:
        setattr(sys, stream.name, _text(stream))
    return streams


def take_prints_of_user_code() -> None:
    """Sends what user code prints at work on a request or a load to the log, and nothing else."""
    with suppress(AttributeError, OSError):  # there is no stdout, or it is no file
        sys.stdout.flush()
        sys.stdout = _text(PrintedLines("stdout", sys.stdout.fileno(), sys.stdout))


def _text(stream: PrintedLines) -> io.TextIOWrapper[Any]:
    return io.TextIOWrapper(cast(Any, stream), "utf-8", "backslashreplace", write_through=True)
