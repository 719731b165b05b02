"""A lazy property is made once, and a fork never waits for a thread of its parent."""

from __future__ import annotations

import os
import threading

from connector.lazy_property import lazy_property
from tests.waiting import wait_for


class Slow:
    """A value that is slow to make, unless it is for a child."""

    def __init__(self, made: threading.Event | None = None) -> None:
        self.begun = threading.Event()
        self.made = made
        self.times = 0

    @lazy_property
    def value(self) -> int:
        """A number."""
        self.times += 1
        self.begun.set()
        if self.made is not None:
            self.made.wait()
        return 7


def test_a_value_is_made_once() -> None:
    slow = Slow()
    assert (slow.value, slow.value, slow.times) == (7, 7, 1)
    assert Slow.value.__doc__ == "A number."


def test_a_fork_does_not_wait_for_a_thread_of_its_parent() -> None:
    made = threading.Event()
    slow = Slow(made)
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    slow.begun.wait()
    child = os.fork()
    if not child:
        os._exit(Slow().value)
    status = wait_for(
        lambda: os.waitstatus_to_exitcode(found[1]) if (found := os.waitpid(child, os.WNOHANG))[0] else None
    )
    made.set()
    thread.join()
    assert status == 7
