"""The event loop of a process, in which the coroutines of all its sinks run.

The loop runs in a thread of its own and ends with the process. So clients and pools of connections that a
coroutine opens stay open from one event to the next.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any


class CallOverdue(BaseException):
    """Raised in place of the result of a coroutine that was cancelled after its ``timeout``.

    Not an Exception: the event has no outcome, and its journal decides.

    Args:
        subscription: that was called.
    """

    def __init__(self, subscription: str) -> None:
        super().__init__(subscription)
        self.subscription = subscription


class _Loop:
    """The loop of this process. A fork gets its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="coroutines", daemon=True).start()
            return self._loop


_loop = _Loop()


def _renew() -> None:
    global _loop
    _loop = _Loop()  # the thread of the parent's loop does not run here


os.register_at_fork(after_in_child=_renew)


def wait_for(coroutine: Coroutine[Any, Any, object], subscription: str, timeout: float | None) -> object:
    """Runs a coroutine in the loop with the context of this thread, and returns its result.

    A coroutine that goes on although it is cancelled keeps this thread. The watcher of the process then ends
    the process.

    Args:
        subscription: that is called.
        timeout: seconds after which the coroutine is cancelled. None = no limit.

    Raises:
        CallOverdue: the coroutine was cancelled, and has ended.
        BaseException: of the coroutine.
    """
    loop, ended = _loop.get(), threading.Event()
    tasks: list[asyncio.Task[object]] = []

    def begin() -> None:
        tasks.append(loop.create_task(coroutine))
        tasks[0].add_done_callback(lambda _: ended.set())

    loop.call_soon_threadsafe(begin)
    if not ended.wait(timeout):
        loop.call_soon_threadsafe(lambda: tasks[0].cancel())
        ended.wait()
        if tasks[0].cancelled():
            raise CallOverdue(subscription)
    return tasks[0].result()
