"""Waiting for what other threads and processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

T = TypeVar("T")


def wait_for(condition: Callable[[], T | Literal[False] | None], seconds: float = 120.0, what: str = "") -> T:
    """Waits until a condition is true, and returns its value.

    Args:
        condition: asked about every 10 ms.
        seconds: the test fails after this time.
        what: the awaited event, for the text of the failure.
    """
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what or condition}"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended. A zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False
