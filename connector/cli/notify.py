"""What a service manager is told: ready, stopping, still alive (the protocol of sd_notify(3), systemd)."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, MutableMapping
from typing import Final

_STATUS_SECONDS: Final = 10.0
"""Between two looks at the status, where no watchdog asks for more."""


class ServiceManager:
    """Tells the manager that has started this process how it does; nothing where none has.

    Args:
        environment: ``NOTIFY_SOCKET``, ``WATCHDOG_USEC`` and ``WATCHDOG_PID`` are taken out of it, because
            they are not for the processes that this one starts.
    """

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        self._address = environment.pop("NOTIFY_SOCKET", "")
        watchdog = environment.pop("WATCHDOG_USEC", "")
        whose = environment.pop("WATCHDOG_PID", "")
        asked = watchdog.isdecimal() and whose in ("", str(os.getpid()))
        self.watchdog = int(watchdog) / 1_000_000 if asked else 0.0
        """Seconds within which the manager wants to hear of a service; 0 = it does not ask."""
        self._ended = threading.Event()
        self._stopping = False

    def ready(self, working_for: Callable[[], float], status: Callable[[], str]) -> None:
        """Says READY, and from then on how the service does, from a thread of its own.

        Args:
            working_for: seconds that the present piece of work has taken; 0 while the service waits. A
                service that works for longer than half the watchdog's time is not called alive any more.
            status: one line for people.
        """
        if not self._address:
            return
        self._tell("READY=1", f"STATUS={status()}")

        def report() -> None:
            half = self.watchdog / 2
            while not self._ended.wait(min(half or _STATUS_SECONDS, _STATUS_SECONDS)):
                alive = ["WATCHDOG=1"] if half and working_for() < half else []
                how = [] if self._stopping else [f"STATUS={status()}"]
                self._tell(*alive, *how)

        threading.Thread(target=report, name="connector-notify", daemon=True).start()

    def stopping(self, why: str) -> None:
        """Says STOPPING. Repeatable, for any thread."""
        self._stopping = True
        self._tell("STOPPING=1", f"STATUS=stopping: {why}")

    def close(self) -> None:
        """Says no more. Repeatable."""
        self._ended.set()

    def _tell(self, *lines: str) -> None:
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
