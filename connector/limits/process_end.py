"""The end of a child process in words."""

from __future__ import annotations

import os
import signal


def how_it_ended(status: int) -> str:
    """Returns a text for the status of :func:`os.waitpid`, to complete "its worker ..."."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        known = {one.value: one.name for one in signal.Signals}  # real-time signals have no name
        return f"was ended by {known.get(number, f'signal {number}')}"
    return f"ended with status {os.waitstatus_to_exitcode(status)}"
