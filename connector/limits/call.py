"""Runs one conversion in a child process, under the limits of an adapter. For commands and replies.

Commands and request clients convert bodies of strangers, too. So a body that makes a data handler hang, end
its process or use up the memory costs only the child.
"""

from __future__ import annotations

import ctypes
import io
import os
import pickle
import select
import signal
import struct
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn, TypeVar, cast

from connector.errors import ConnectorError
from connector.limits.memory import WorkerMemory, data_memory
from connector.limits.process_end import how_it_ended
from connector.limits.runner_control import RunnerControl
from connector.log import renew_stream, shows_user_code
from connector.printed import take_prints

_PR_SET_PDEATHSIG: Final = 1
_CHUNK: Final = 1 << 20
_LENGTH: Final = struct.Struct("<Q")
_LONGEST_WAIT: Final = 0.2

T = TypeVar("T")


class ConversionEnded(ConnectorError):
    """The process of a conversion was ended, or has ended by itself. The text says why."""


def call_limited(
    function: Callable[[], T],
    timeout: float,
    memory: int | None,
    *,
    property_name: str = "convert_timeout",
    subject: str = "",
    shared: Sequence[object] = (),
) -> T:
    """Returns the result of a function that converts a body.

    The function runs in a fork of this process. Its effects on this process are lost, apart from its result.

    Args:
        function: returns a value that can be pickled.
        timeout: seconds.
        memory: bytes beyond the memory of this process (``worker_memory``). None = no limit.
        property_name, subject: what limits the time (empty = nothing), and what runs (empty = a conversion),
            for the text of the error.
        shared: objects that the result refers to, and that are not copied.

    Raises:
        ConversionEnded: the function took too long, or its process has ended.
        ConnectorError: the function raised an exception. The text contains the traceback, unless the
            exception is a ConnectorError.
    """
    control = RunnerControl()
    reader, writer = os.pipe()
    parent = os.getpid()
    if (pid := _fork()) == 0:
        _run(function, control, timeout, memory, writer, parent, shared)
    os.close(writer)
    os.set_blocking(reader, False)
    ended = os.pidfd_open(pid)
    try:
        data = _read(reader, control, ended)
        if data is None:
            stage = subject or control.read().text or "choice of the data handler"
            of = f" ({property_name})" if property_name else ""
            raise ConversionEnded(f"{stage}: did not end within {timeout:g} s{of}")
    finally:
        os.kill(pid, signal.SIGKILL)  # it may have children or threads that keep it
        _, status = os.waitpid(pid, 0)
        os.close(reader)
        os.close(ended)
    if len(data) < _LENGTH.size or _LENGTH.unpack_from(data)[0] != len(data) - _LENGTH.size:
        raise ConversionEnded(f"{subject or 'the conversion'} {how_it_ended(status)}")
    succeeded, value = _loads(data, shared)
    if not succeeded:
        raise ConnectorError(value)
    return cast(T, value)


def _read(reader: int, control: RunnerControl, ended: int) -> bytes | None:
    """Returns the answer of the child. Empty = the child ended without an answer. None = it took too long."""
    parts: list[bytes] = []
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    poll.register(ended, select.POLLIN)
    while True:
        deadline = control.read()
        left = deadline.at - time.monotonic() if deadline.at else _LONGEST_WAIT
        if left <= 0:
            return None
        ready = dict(poll.poll(min(left, _LONGEST_WAIT) * 1000 + 1))
        with suppress(BlockingIOError):
            while part := os.read(reader, _CHUNK):
                parts.append(part)
            return b"".join(parts)
        if ended in ready:  # another process may have inherited the pipe, and keep it open
            return b"".join(parts)


def _fork() -> int:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
        return os.fork()


def _loads(data: bytes, shared: Sequence[object]) -> Any:
    unpickler = pickle.Unpickler(io.BytesIO(data[_LENGTH.size :]))  # from our own child
    unpickler.persistent_load = shared.__getitem__  # type: ignore[method-assign]
    return unpickler.load()


def _dumps(value: object, shared: Sequence[object]) -> bytes:
    numbers = {id(one): number for number, one in enumerate(shared)}
    file = io.BytesIO()
    pickler = pickle.Pickler(file, protocol=5)
    pickler.persistent_id = lambda one: numbers.get(id(one))  # type: ignore[method-assign]
    pickler.dump(value)
    return file.getvalue()


def _renew_streams() -> None:
    """Makes stdout and stderr anew. A thread of the parent may have held their locks at the fork."""
    try:
        descriptor = sys.stderr.fileno()
    except (OSError, ValueError):
        return
    for name in ("stdout", "stderr"):
        _inherited.append(getattr(sys, name))
        file = io.BufferedWriter(io.FileIO(descriptor, "w", closefd=False))
        setattr(sys, name, io.TextIOWrapper(file, "utf-8", "backslashreplace", line_buffering=True))


_inherited: Final[list[object]] = []
"""Streams of the parent. Their end would flush them."""


def _run(
    function: Callable[[], Any],
    control: RunnerControl,
    timeout: float,
    memory: int | None,
    writer: int,
    parent: int,
    shared: Sequence[object],
) -> NoReturn:
    """Runs the function in the child. Never returns."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent kills this process
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(status)
        own = os.getpid()
        _renew_streams()
        renew_stream()
        printed = take_prints() if shows_user_code() else []
        os.register_at_fork(after_in_child=lambda: os.close(writer))
        control.state.memory = WorkerMemory(None if memory is None else memory + data_memory())
        control.limit(timeout, timeout)
        try:
            data = _dumps((True, function()), shared)
        except ConnectorError as error:
            data = pickle.dumps((False, str(error)))
        except BaseException:
            data = pickle.dumps((False, traceback.format_exc()))
        if os.getpid() != own:
            os._exit(0)  # a fork of the deployment's code that came back
        control.disarm()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for lines in printed:
            lines.end_lines()
        with suppress(BrokenPipeError):
            view = memoryview(_LENGTH.pack(len(data)) + data)
            while view:
                view = view[os.write(writer, view) :]
        status = 0
    finally:
        os._exit(status)
