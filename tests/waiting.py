"""Waiting for what other threads and processes do."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Final, Literal, TypeVar

T = TypeVar("T")

_OF_BROKERS: Final = "connector/brokers/jms/session.py"
"""The module that receives from a broker. Its threads wait in Java."""


def wait_for(
    condition: Callable[[], T | Literal[False] | None],
    seconds: float = 240.0,
    what: str | Callable[[], str] = "",
) -> T:
    """Waits until a condition is true, and returns its value.

    Args:
        condition: asked after 10 ms, and then less and less often, down to every 50 ms.
        seconds: the test fails after this time.
        what: the awaited event, for the text of the failure. Or returns it, when the wait has failed.
    """
    deadline, pause = time.monotonic() + seconds, 0.01
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            awaited = what() if callable(what) else what
            raise AssertionError(f"not within {seconds:g} s: {awaited or condition}")
        time.sleep(pause)
        pause = min(1.1 * pause, 0.05)


def now_ms() -> int:
    """Returns the time as messages have it."""
    return time.time_ns() // 1_000_000


def until_past(moment: int) -> None:
    """Waits until the time of messages is past a moment, such as an expiration."""
    wait_for(lambda: now_ms() > moment)


def beside(work: Callable[..., T], *arguments: object) -> Future[T]:
    """Runs a function in another thread. A thread that never ends keeps no test from failing."""
    ended: Future[T] = Future()

    def run() -> None:
        try:
            ended.set_result(work(*arguments))
        except BaseException as error:
            ended.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return ended


def waits_in(name: str) -> bool:
    """Whether a thread of this process waits in a function of this name for another thread or a broker."""
    stacks = [[one.f_code for one, _ in traceback.walk_stack(top)] for top in sys._current_frames().values()]
    return any(
        (stack[0] is threading.Condition.wait.__code__ or stack[0].co_filename.endswith(_OF_BROKERS))
        and any(code.co_name == name and code.co_filename != threading.__file__ for code in stack)
        for stack in stacks
    )


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended. A zombie has ended, once all its threads have."""
    try:
        has_ended = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
        return not has_ended or len(os.listdir(f"/proc/{pid}/task")) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


def lets_wait(pid: int, number: int) -> bool:
    """Whether a process lets a signal wait, as a command does while it starts, or handles SIGTERM by now."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    blocked, caught = int(fields["SigBlk"], 16), int(fields["SigCgt"], 16)
    return bool(blocked >> (number - 1) & 1 or caught >> (signal.SIGTERM - 1) & 1)
