"""Runs one conversion in a child process, under the limits of an adapter. For commands.

A command converts bodies of strangers, too. So a body that makes a data handler hang, end its process or use
up the memory costs only the child.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NoReturn, TypeVar

from connector.errors import ConnectorError
from connector.events.process_end import how_it_ended
from connector.events.runner_control import RunnerControl
from connector.events.worker_memory import WorkerMemory

_PR_SET_PDEATHSIG: Final = 1
_CHUNK: Final = 1 << 20
_LONGEST_WAIT: Final = 0.2

T = TypeVar("T")


class ConversionEnded(ConnectorError):
    """The process of a conversion was ended, or has ended by itself. The text says why."""


def call_limited(function: Callable[[], T], timeout: float, memory: int | None) -> T:
    """Returns the result of a function that converts a body.

    The function runs in a fork of this process. Its effects on this process are lost, apart from its result.

    Args:
        function: returns a value that can be pickled.
        timeout: seconds (``convert_timeout``).
        memory: bytes (``worker_memory``). None = no limit.

    Raises:
        ConversionEnded: the function took too long, or its process has ended.
        ConnectorError: the function raised an exception. The text contains the traceback, unless the
            exception is a ConnectorError.
    """
    control = RunnerControl()
    reader, writer = os.pipe()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _run(function, control, timeout, memory, writer, parent)
    os.close(writer)
    ended = os.pidfd_open(pid)
    try:
        data = _read(reader, control, ended, timeout)
    finally:
        os.kill(pid, signal.SIGKILL)  # it may have children or threads that keep it
        _, status = os.waitpid(pid, 0)
        os.close(reader)
        os.close(ended)
    if not data:
        raise ConversionEnded(f"the conversion {how_it_ended(status)}")
    succeeded, value = pickle.loads(data)  # from our own child
    if not succeeded:
        raise ConnectorError(value)
    result: T = value
    return result


def _read(reader: int, control: RunnerControl, ended: int, timeout: float) -> bytes:
    """Returns the answer of the child. Empty = the child has ended without an answer.

    Raises:
        ConversionEnded: the conversion took too long.
    """
    parts: list[bytes] = []
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    poll.register(ended, select.POLLIN)
    while True:
        deadline = control.read()
        left = deadline.at - time.monotonic() if deadline.at else _LONGEST_WAIT
        if left <= 0:
            stage = deadline.text or "choice of the data handler"
            raise ConversionEnded(f"{stage}: did not end within {timeout:g} s (convert_timeout)")
        ready = dict(poll.poll(min(left, _LONGEST_WAIT) * 1000 + 1))
        if reader in ready:
            part = os.read(reader, _CHUNK)
            if not part:
                return b"".join(parts)
            parts.append(part)
        elif ended in ready:  # a child of it may keep the pipe open
            return b""


def _run(
    function: Callable[[], Any],
    control: RunnerControl,
    timeout: float,
    memory: int | None,
    writer: int,
    parent: int,
) -> NoReturn:
    """Runs the function in the child. Never returns."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent kills this process
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(status)
        own = os.getpid()
        os.register_at_fork(after_in_child=lambda: os.close(writer))
        control.memory = WorkerMemory(memory)
        control.limit(timeout)
        try:
            data = pickle.dumps((True, function()))
        except ConnectorError as error:
            data = pickle.dumps((False, str(error)))
        except BaseException:
            data = pickle.dumps((False, traceback.format_exc()))
        if os.getpid() != own:
            os._exit(0)  # a fork of the deployment's code that came back
        control.disarm()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        with suppress(BrokenPipeError):
            view = memoryview(data)
            while view:
                view = view[os.write(writer, view) :]
        status = 0
    finally:
        os._exit(status)
