"""Ctrl-C while a command loads its modules, and while Python ends after the command."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_STATUS: Final = 128 + signal.SIGINT


def end_at_once(signum: int, frame: Any) -> None:
    """Handles SIGINT while nothing has begun: ends the process, without a traceback of the import."""
    os._exit(_STATUS)


@contextmanager
def interruptible() -> Iterator[None]:
    """Lets Ctrl-C raise KeyboardInterrupt, so that a verb can give back what it has taken.

    Changes nothing in a process where :func:`end_at_once` does not handle SIGINT.
    """
    if signal.getsignal(signal.SIGINT) is not end_at_once:
        yield
        return
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    finally:
        signal.signal(signal.SIGINT, end_at_once)
