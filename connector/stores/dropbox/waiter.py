"""Waiting for messages: the kernel reports arrivals in the directories that are polled."""

from __future__ import annotations

import errno
import logging
import os
import select
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from connector.messaging.polling import Waiter
from connector.state.file_systems import is_shared
from connector.stores.dropbox.inotify import Inotify, exists
from connector.stores.engine.store import Watch

_log = logging.getLogger("connector.dropbox")

_SHORTEST_INTERVAL: Final = 0.0005
_LONGEST_INTERVAL: Final = 0.02
"""Seconds between two looks while waiting. The first look is soon, those of a long wait cost nothing."""

_LIMITS: Final = {
    errno.EMFILE: "too many inotify instances of this user, or open files of this process: raise "
    "fs.inotify.max_user_instances, or the limit of open files",
    errno.ENFILE: "too many open files on this machine: raise fs.file-max",
    errno.ENOSPC: "too many inotify watches of this user: raise fs.inotify.max_user_watches",
    errno.ENOMEM: "no memory for another inotify watch",
}


def make_waiter(
    directories: Callable[[], Iterable[str]], looks_again: Callable[[str], bool]
) -> InotifyWaiter | None:
    """Returns a waiter. None if the kernel reports nothing. The log gives the reason.

    Args:
        directories: returns the directories in which messages arrive. Called before each poll.
        looks_again: as of :class:`InotifyWaiter`.
    """
    if not exists():
        _log.info(
            "new files do not start a poll, so the adapter polls at PollFrequency only",
            extra={"reason": "this system has no inotify"},
        )
        return None
    try:
        return InotifyWaiter(Inotify(), directories, looks_again)
    except OSError as error:
        _warn_of_limit(error)
        return None


class InotifyWaiter(Waiter):
    """Reports files that arrive in directories.

    A directory is watched by its inode. So each :meth:`begin` watches all names again. The kernel answers
    with the same number, unless the name now stands for another directory.

    Args:
        kernel: used by this waiter alone, which closes it.
        directories: returns the directories in which messages arrive.
        looks_again: tells of a directory whether it is polled again soon in any case. Files that arrive there
            are not reported meanwhile, so that a file that grows does not begin one poll after the other.
    """

    def __init__(
        self,
        kernel: Inotify,
        directories: Callable[[], Iterable[str]],
        looks_again: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._kernel = kernel
        self._directories = directories
        self._looks_again = looks_again
        self._woken = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._descriptors = select.poll()
        self._descriptors.register(kernel.descriptor, select.POLLIN)
        self._descriptors.register(self._woken, select.POLLIN)
        self._watches: dict[str, int] = {}
        self._paths: dict[int, str] = {}
        self._shared: set[str] = set()
        self._returned: set[str] = set()
        self._has_come = False
        self._is_limited = self._was_flooded = False
        self._ended = False
        self._lock = threading.Lock()
        """Held while the descriptors are used, so that no other thread closes them meanwhile."""
        self._end = threading.RLock()
        """Held briefly by :meth:`close` and :meth:`wake`.

        A signal handler may call them in the same thread.
        """

    def returns(self, path: str) -> None:
        """Suppresses the report of a message that this client is about to give back under this path."""
        self._returned.add(path)

    def begin(self) -> bool:
        with self._lock:
            if self._ended:
                return False
            is_whole = self._watch_all()
            self._read()  # after the watches: later arrivals in a new directory are reported
            self._returned.clear()
            self._has_come = False
            return is_whole

    def wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        with self._lock:
            while not (self._ended or self._has_come):
                left = deadline - time.monotonic()
                ready = self._descriptors.poll(max(0.0, left) * 1000)
                if any(descriptor == self._woken for descriptor, _ in ready):
                    os.eventfd_read(self._woken)
                    self._read()
                    break
                self._read()
                if left <= 0:
                    break
            return self._has_come or self._ended

    def wake(self) -> None:
        with self._end:
            if not self._ended:
                os.eventfd_write(self._woken, 1)

    def close(self) -> None:
        """Ends the waiter, and the wait of another thread. Repeatable."""
        with self._end:
            if self._ended:
                return
            self._ended = True
            os.eventfd_write(self._woken, 1)
        with self._lock:
            self._kernel.close()
            os.close(self._woken)

    def _watch_all(self) -> bool:
        """Watches every directory that is polled now, and no other. Returns whether all could be watched."""
        before, self._watches = self._watches, {}
        wanted = dict.fromkeys(self._directories())
        for path in wanted:
            watch = self._watch(path, before.get(path))
            if watch is not None:
                self._watches[path] = watch
        self._paths = {watch: path for path, watch in self._watches.items()}
        for watch in set(before.values()) - self._paths.keys():
            self._kernel.remove_watch(watch)
        return len(self._watches) == len(wanted)

    def _watch(self, path: str, before: int | None) -> int | None:
        if path in self._shared:
            return None
        try:
            watch = self._kernel.watch(path)
            if watch == before or not is_shared(path):
                return watch
        except OSError as error:
            if error.errno in _LIMITS and not self._is_limited:
                self._is_limited = True
                _warn_of_limit(error)
            return None  # a missing directory may exist at the next poll
        self._kernel.remove_watch(watch)
        if not self._shared:
            _log.info(
                "new files do not start a poll, so the adapter polls at PollFrequency only",
                extra={"reason": "other machines change this file system unseen", "directory": path},
            )
        self._shared.add(path)
        return None

    def _read(self) -> None:
        for watch, name in self._kernel.read():
            if watch < 0:
                self._has_come = True
                self._warn_of_flood()
            elif watch in self._paths and not name.startswith("."):
                path = f"{self._paths[watch]}/{name}"
                if path in self._returned:
                    self._returned.discard(path)
                elif not (self._has_come or self._looks_again(self._paths[watch])):
                    self._has_come = True

    def _warn_of_flood(self) -> None:
        if not self._was_flooded:
            self._was_flooded = True
            _log.warning(
                "the kernel dropped file notifications, so a poll starts now",
                extra={"reason": "too many inotify events at a time: raise fs.inotify.max_queued_events"},
            )


def _warn_of_limit(error: OSError) -> None:
    _log.warning(
        "new files in some directories do not start a poll",
        extra={"reason": _LIMITS.get(error.errno or 0, str(error))},
    )


class DropboxWatch(Watch):
    """Waits for files in the directories of the open readers.

    Args:
        directories: returns the directories in which messages for the open readers arrive.
        returns: takes a function, which is called before each message that this client gives back.
        looks_again: as of :class:`InotifyWaiter`.
    """

    def __init__(
        self,
        directories: Callable[[], Iterable[str]],
        returns: Callable[[Callable[[str], object]], None],
        looks_again: Callable[[str], bool],
    ) -> None:
        self._directories = directories
        self._looks_again = looks_again
        self._returns = returns
        self._waiter: InotifyWaiter | None = None
        self._was_asked = False
        self._woken = threading.Event()
        self._ended = False

    @property
    def can_tell(self) -> bool:
        if not (self._was_asked or self._ended):  # watches nothing before the first question
            self._was_asked = True
            self._waiter = make_waiter(self._directories, self._looks_again)
            if self._waiter is not None:
                self._returns(self._waiter.returns)
        return self._waiter is not None

    def begin(self) -> bool:
        return self._waiter is not None and self._waiter.begin()

    def wait(self, seconds: float) -> bool:
        return self._waiter.wait(seconds) if self._waiter is not None else True

    def wait_for_news(self, has_news: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        interval = _SHORTEST_INTERVAL
        os.sched_yield()  # a folder that has just changed always has news: lets its writers run
        while not self._ended and not has_news():
            left = deadline - time.monotonic()
            if left <= 0 or self._woken.wait(min(interval, left)):
                break
            interval = min(interval * 1.5, _LONGEST_INTERVAL)
        self._woken.clear()  # only here: the caller handles an earlier wake after this returns

    def wake(self) -> None:
        self._woken.set()
        if self._waiter is not None:
            self._waiter.wake()

    def close(self) -> None:
        self._ended = True
        self._woken.set()
        if self._waiter is not None:
            self._waiter.close()
