"""Who delivers: one thread of a process at a time for one channel, so that the order holds (seed 001, 9)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Turns:
    """A lock whose holder can be asked to deliver once more before it goes.

    Who only wants something delivered need not wait for the holder. So a receiver may send to the channel
    that calls it, and may wait for another thread that does, without a deadlock.

    Args:
        deliver: delivers what there is; called by the holder, for each time that it was asked. Raises nothing
            of the provider.
    """

    def __init__(self, deliver: Callable[[], None]) -> None:
        self._deliver = deliver
        self._changed = threading.Condition()
        self._holder: int | None = None
        self._waiting: deque[object] = deque()
        self._depth = 0
        self._asked = False

    @property
    def is_mine(self) -> bool:
        """Whether this thread holds the turn."""
        return self._holder == threading.get_ident()

    def ask(self) -> None:
        """Has delivered what there is: by this thread now, or by the one whose turn it is."""
        with self._changed:
            self._asked = True
            if self._holder is not None or self._waiting:
                return
            self._holder = threading.get_ident()
        self._leave()

    @contextmanager
    def mine(self) -> Iterator[None]:
        """The turn of this thread, in the order of asking for it; within it as often as it likes."""
        with self._changed:
            if not self.is_mine:
                ticket = object()
                self._waiting.append(ticket)
                try:
                    self._changed.wait_for(lambda: self._holder is None and self._waiting[0] is ticket)
                finally:
                    self._waiting.remove(ticket)
                    self._changed.notify_all()  # should this wait have been interrupted
                self._holder = threading.get_ident()
            self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._leave()

    def _leave(self) -> None:
        """Does what others have asked for, and gives the turn away."""
        try:
            while self._was_asked():
                self._deliver()
        except BaseException:
            with self._changed:
                self._release()
            raise

    def _was_asked(self) -> bool:
        with self._changed:
            if self._asked:
                self._asked = False
                return True
            self._release()
            return False

    def _release(self) -> None:
        self._holder = None
        self._changed.notify_all()
