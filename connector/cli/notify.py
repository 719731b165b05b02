"""Tells a service manager the state of the service, by the protocol of sd_notify(3) of systemd."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, MutableMapping
from typing import Final

_STATUS_SECONDS: Final = 10.0
"""Seconds between two reports of the status, unless a watchdog wants more reports."""
_ATTEMPT_SECONDS: Final = 60.0
"""Seconds after which an attempt to start counts as one that hangs."""
_MORE_SECONDS: Final = 120
"""Seconds that the manager is asked to wait for the start, from each report on."""


class ServiceManager:
    """Reports the state of this process to the manager that has started it. Without a manager does nothing.

    Args:
        environment: ``NOTIFY_SOCKET``, ``WATCHDOG_USEC`` and ``WATCHDOG_PID`` are removed from here, because
            they are not for child processes.
    """

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        self._address = environment.pop("NOTIFY_SOCKET", "")
        watchdog = environment.pop("WATCHDOG_USEC", "")
        whose = environment.pop("WATCHDOG_PID", "")
        asked = watchdog.isdecimal() and whose in ("", str(os.getpid()))
        self.watchdog = int(watchdog) / 1_000_000 if asked else 0.0
        """Seconds within which the manager wants a sign of life. 0 = the manager has no watchdog."""
        self._started = threading.Event()
        self._ended = threading.Event()
        self._stopping = False

    def starting(self, working_for: Callable[[], float]) -> None:
        """Asks the manager for more time until :meth:`ready`, from a separate thread.

        Args:
            working_for: returns the seconds that the present attempt to start has taken, 0 between two
                attempts. An attempt that hangs gets no more time.
        """
        if not self._address:
            return

        def extend() -> None:
            while not self._started.is_set():
                if working_for() < _ATTEMPT_SECONDS:
                    self._notify(f"EXTEND_TIMEOUT_USEC={_MORE_SECONDS * 1_000_000}")
                self._started.wait(_STATUS_SECONDS)

        threading.Thread(target=extend, name="connector-notify-start", daemon=True).start()

    def ready(self, working_for: Callable[[], float], status: Callable[[], str]) -> None:
        """Reports READY. Then reports the state of the service, from a separate thread.

        Args:
            working_for: returns the seconds that the present piece of work has taken, 0 while the service
                waits. Work that takes longer than half the watchdog's time stops the signs of life.
            status: returns a line for people.
        """
        self._started.set()
        if not self._address:
            return
        self._notify("READY=1", f"STATUS={status()}")

        def report() -> None:
            half = self.watchdog / 2
            while not self._ended.wait(min(half or _STATUS_SECONDS, _STATUS_SECONDS)):
                alive = ["WATCHDOG=1"] if half and working_for() < half else []
                how = [] if self._stopping else [f"STATUS={status()}"]
                self._notify(*alive, *how)

        threading.Thread(target=report, name="connector-notify", daemon=True).start()

    def stopping(self, why: str) -> None:
        """Reports STOPPING. Repeatable, for any thread."""
        self._stopping = True
        self._started.set()
        self._notify("STOPPING=1", f"STATUS=stopping: {why}")

    def close(self) -> None:
        """Ends the reports. Repeatable."""
        self._started.set()
        self._ended.set()

    def _notify(self, *lines: str) -> None:
        if not self._address or not lines:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        text = "\n".join(" ".join(line.split()) for line in lines)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(1.0)
                sender.sendto(text.encode("utf-8", "replace"), address)
        except OSError:
            pass  # a manager that does not listen must not end the service
